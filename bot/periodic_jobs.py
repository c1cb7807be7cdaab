"""Periodic jobs, run by one APScheduler, which stores nothing: what is due stands in the store or on objects."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from contextvars import copy_context
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, NoReturn, Self

from apscheduler.jobstores.base import JobLookupError
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.interval import IntervalTrigger

from bot.errors import BotError, bugs_as_errors

log = logging.getLogger(__name__)
logging.getLogger("apscheduler").setLevel(logging.ERROR)  # it tells every tick, and each that a long run leaves out

Work = Callable[[], Awaitable[object]]


class _Scheduler(AsyncIOScheduler):  # pyright: ignore[reportUntypedBaseClass]
    """APScheduler by the wall clock, which may be set back: a job is due after twice its interval at the latest."""

    def wakeup(self) -> None:
        now = _now()
        known: Any = self
        for job in known.get_jobs():
            if job.next_run_time - now > job.trigger.interval:
                job.modify(next_run_time=now)
        super().wakeup()


class Clock:
    """The one scheduler of periodic jobs; runs them while its context lasts."""

    def __init__(self) -> None:
        self.scheduler: Any = _Scheduler(timezone=UTC)  # no annotations

    async def __aenter__(self) -> Self:
        self.scheduler.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.scheduler.shutdown(wait=False)

    async def repeat(self, every_s: float, what: str, work: Work, *, at_once: bool = True) -> NoReturn:
        """Does the work every `every_s` seconds until the call is cancelled; see `Job.run` and `retried`."""
        await Job(retried(what, work)).run(self, every_s, at_once=at_once)


class Job:
    """Work that is done periodically, never twice at once; an error of the work ends the job."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._scheduled: Any = None
        self._is_at_work = self._again = False

    def soon(self) -> None:
        """Has the work done at once, or again after a run under way; before `run`, as soon as the job begins."""
        self._again = True
        if self._scheduled and not self._is_at_work:
            self._scheduled.modify(next_run_time=_now())

    async def run(self, clock: Clock, every_s: float, *, at_once: bool = True) -> NoReturn:
        """Does the work every `every_s` seconds until the call is cancelled, which cancels and awaits the work too.
        Raises the work's error. `at_once`: the first run is now, not after `every_s` seconds.
        """
        over = asyncio.get_running_loop().create_future()
        context = copy_context()  # APScheduler's own is that of whoever woke it, such as one request's
        working: asyncio.Task[object] | None = None

        async def work() -> None:
            nonlocal working
            self._is_at_work = self._again = True
            while self._again and not over.done():
                self._again = False
                working = asyncio.create_task(_done(self._work), context=context.copy())
                await asyncio.wait({working})
                if not over.done() and (working.cancelled() or working.exception()):
                    over.set_result(working)
            self._is_at_work = False

        trigger: Any = IntervalTrigger(seconds=every_s)  # pyright: ignore[reportArgumentType]  # a timedelta's
        first = {"next_run_time": _now()} if at_once or self._again else {}
        self._scheduled = clock.scheduler.add_job(
            work, trigger, **first, misfire_grace_time=None, coalesce=True, max_instances=1
        )
        try:
            while True:
                await (await over)  # raises
        finally:
            with suppress(JobLookupError):  # the clock has ended
                self._scheduled.remove()
            self._scheduled = None
            if working:
                working.cancel()
                await asyncio.gather(working, return_exceptions=True)


def _now() -> datetime:
    return datetime.fromtimestamp(time.time(), UTC)


async def _done(work: Work) -> object:
    return await work()


def retried(what: str, work: Work) -> Work:
    """Wraps work so that its errors end nothing: each is logged once, and so is the first success after it."""
    bugs: set[str] = set()
    told = ""

    async def tried() -> None:
        nonlocal told
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

    return tried


@asynccontextmanager
async def in_background(*work: Coroutine[Any, Any, None]) -> AsyncGenerator[list[asyncio.Task[None]]]:
    """Runs tasks while the context lasts; a task that fails before the end is logged."""
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
