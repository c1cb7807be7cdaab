"""How many profiles the bot has in its memory at once: one may take a gigabyte and a minute of computing."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TypeVar

from bot.errors import SourceError
from bot.pprof.decode import MAX_BYTES, uncompressed_size
from bot.texts import Text

T = TypeVar("T")

AT_ONCE = 2
"""Profiles that are taken, and questions about kept ones that are answered, at the same time."""
PATIENCE_S = 60.0
"""How long one waits until another has been answered."""
LARGE = 4 << 20
"""Bytes, uncompressed, from which on profiles are read one after another: two at once take twice as long each, and the
largest takes most of the time that there is for an answer."""


class Room:
    """Its threads are its own: a profile that is slow to read holds up nothing else that needs a thread.

    What is given up goes on in its thread until it is done, since threads cannot be ended, and keeps one of the two.
    """

    def __init__(self, patience_s: float = PATIENCE_S) -> None:
        self._patience_s = patience_s
        self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="profile")
        self._large = ThreadPoolExecutor(1, thread_name_prefix="large-profile")
        self._captures = asyncio.Semaphore(AT_ONCE)
        self._studies = asyncio.Semaphore(AT_ONCE)

    async def run(self, job: Callable[[], T], contents: Sequence[bytes]) -> T:
        """What the job gives, from a thread; cancelled before its turn has come it is not begun.

        `contents` are the profiles that it reads. Raises SourceError where they are too much for one answer, and where
        they are large and another large one is not done in time.
        """
        loop = asyncio.get_running_loop()
        size = await loop.run_in_executor(self._threads, lambda: sum(map(uncompressed_size, contents)))
        if len(contents) > 1 and size > MAX_BYTES:
            text = Text("error-profile.these-profiles-hold-mib-together", size=size >> 20, most=MAX_BYTES >> 20)
            raise SourceError(text, hint=Text("error-profile.compare-in-a-shell"))
        if size < LARGE:
            return await loop.run_in_executor(self._threads, job)
        return await self._in_turn(job)

    async def _in_turn(self, job: Callable[[], T]) -> T:
        loop, begun = asyncio.get_running_loop(), asyncio.Event()

        def begin() -> T:
            loop.call_soon_threadsafe(begun.set)
            return job()

        queued = self._large.submit(begin)
        try:
            async with asyncio.timeout(self._patience_s):
                await begun.wait()
        except TimeoutError as error:
            text = Text("error-profile.another-large-profile-is-being")
            raise SourceError(text, hint=Text("error-profile.ask-again-or-shorter")) from error
        finally:
            if not begun.is_set():
                queued.cancel()
        return await asyncio.wrap_future(queued)

    @asynccontextmanager
    async def capture(self) -> AsyncGenerator[None]:
        """For a profile from when it is asked for until it is answered. Raises SourceError where none gets free."""
        async with self._turn(self._captures, Text("error-profile.others-being-taken", count=AT_ONCE)):
            yield

    @asynccontextmanager
    async def study(self) -> AsyncGenerator[None]:
        """The same for a question about kept ones: a capture of two minutes holds up none."""
        async with self._turn(self._studies, Text("error-profile.others-being-read", count=AT_ONCE)):
            yield

    @asynccontextmanager
    async def _turn(self, room: asyncio.Semaphore, full: Text) -> AsyncGenerator[None]:
        try:
            async with asyncio.timeout(self._patience_s):
                await room.acquire()
        except TimeoutError as error:
            raise SourceError(full, hint=Text("error-profile.ask-again-in-a-minute")) from error
        try:
            yield
        finally:
            room.release()
