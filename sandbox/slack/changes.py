"""Who is told when something changes: the page's event streams and tests that wait."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")


class Changes:
    """Hands every change to each open stream, the same news once, and has every waiting test look again."""

    def __init__(self) -> None:
        self._streams: list[Stream] = []
        self._waiters: dict[asyncio.Future[Any], Callable[[], Any]] = {}

    def tell(self, change: dict[str, Any]) -> None:
        """Tells a change; `change` is what the page gets, with `only_for` if it concerns one user."""
        for stream in self._streams:
            stream.put(change)
        for waiter, look in list(self._waiters.items()):
            if waiter.done():
                continue
            try:
                found = look()
            except Exception as error:  # noqa: BLE001  # the test's own code: its mistake is raised in the test
                waiter.set_exception(error)
                continue
            if found:
                waiter.set_result(found)

    def end(self) -> None:
        """Ends all streams: nothing is told any more."""
        for stream in self._streams:
            stream.end()

    @contextlib.contextmanager
    def stream(self, user: str) -> Iterator["Stream"]:
        """The changes that concern `user`, while inside."""
        stream = Stream(user)
        self._streams.append(stream)
        try:
            yield stream
        finally:
            self._streams.remove(stream)

    async def wait(self, look: Callable[[], T | None], seconds: float) -> T:
        """The first true value of `look`, asked now and at every change. Raises TimeoutError after real `seconds`."""
        found = look()
        if found:
            return found
        waiter = asyncio.get_running_loop().create_future()
        self._waiters[waiter] = look
        try:
            return await asyncio.wait_for(waiter, seconds)
        finally:
            del self._waiters[waiter]


class Stream:
    """Changes that were not read yet. The same news, however often, is held once: memory stays bounded."""

    def __init__(self, user: str) -> None:
        self._user = user
        self._news: dict[tuple[Any, ...], dict[str, Any]] = {}
        self._arrived = asyncio.Event()

    def put(self, change: dict[str, Any]) -> None:
        if change.get("only_for", self._user) != self._user:
            return
        news = {key: value for key, value in change.items() if key != "only_for"}
        self._news[(news["type"], news.get("channel"), news.get("thread_ts"))] = news
        self._arrived.set()

    async def next(self, within_s: float) -> list[dict[str, Any]]:
        """The changes since the last call, as soon as there are some; none if nothing changes in that time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._arrived.wait()
        self._arrived.clear()
        news, self._news = list(self._news.values()), {}
        return news

    def end(self) -> None:
        """Makes `next` return at once."""
        self._arrived.set()
