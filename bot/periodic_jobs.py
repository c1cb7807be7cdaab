"""The one clock of a process: what is done again and again is a job of one APScheduler, which keeps nothing.

What is due stands in the store or on the cluster's objects, so the next time makes up for one that was missed.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import UTC
from types import TracebackType
from typing import Any, NoReturn, Self

from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.interval import IntervalTrigger

from bot.errors import BotError, bugs_as_errors

log = logging.getLogger(__name__)
logging.getLogger("apscheduler").setLevel(logging.WARNING)  # it tells every tick


class Clock:
    """Ticks while its context lasts."""

    def __init__(self) -> None:
        self._scheduler: Any = AsyncIOScheduler(timezone=UTC)  # no annotations

    async def __aenter__(self) -> Self:
        self._scheduler.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._scheduler.shutdown(wait=False)

    @contextmanager
    def ticks(self, every_s: float, due: asyncio.Event) -> Generator[Callable[[], Awaitable[None]]]:
        """Sets the event every so many seconds, for the first time after that many; yields what waits for it.

        APScheduler goes by the wall clock. Where that is set back, the time that is waited for comes all the same.
        """

        async def tick() -> None:
            due.set()

        async def next_time() -> None:
            with suppress(TimeoutError):
                async with asyncio.timeout(2 * every_s):
                    await due.wait()
            due.clear()

        trigger: Any = IntervalTrigger(seconds=every_s)  # pyright: ignore[reportArgumentType]  # a timedelta's
        job = self._scheduler.add_job(tick, trigger, misfire_grace_time=None, coalesce=True, max_instances=1)
        try:
            yield next_time
        finally:
            if self._scheduler.running:
                job.remove()

    async def repeat(
        self, every_s: float, what: str, work: Callable[[], Awaitable[object]], due: asyncio.Event | None = None
    ) -> NoReturn:
        """Does the work every so many seconds until it is cancelled, one time after the other.

        Whoever sets `due` has it done at once, or once more after this time. Without `due` it is done for the first
        time at once. What goes wrong is tried again at the next time. It is logged once, and once when it works again.
        """
        bugs: set[str] = set()
        told = ""
        if due is None:
            due = asyncio.Event()
            due.set()
        with self.ticks(every_s, due) as next_time:
            while True:
                await next_time()
                try:
                    with bugs_as_errors(bugs):
                        await work()
                except BotError as error:
                    if str(error) != told:
                        log.warning("%s: %s", what, error)
                    told = str(error)
                else:
                    if told:
                        log.warning("%s: works again", what)
                    told = ""


@asynccontextmanager
async def in_background(*work: Coroutine[Any, Any, None]) -> AsyncGenerator[list[asyncio.Task[None]]]:
    """Tasks for as long as the context lasts; what ends one before stands in the log."""
    tasks = [asyncio.create_task(coroutine) for coroutine in work]
    for task in tasks:
        task.add_done_callback(_log_failure)
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()):
        log.error("%s has stopped", task.get_coro(), exc_info=error)
