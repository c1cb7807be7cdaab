"""What is done again and again: one time after the other, whatever goes wrong, by one process where that is enough."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, cast

import pytest

from bot.errors import BotError
from bot.periodic_jobs import Clock, Job
from handlers.deps import TaskLease

OFTEN_S, NEVER_S = 0.01, 3600.0


class Work:
    """Counts how often it was done; `times` of them it breaks."""

    def __init__(self, error: Exception | None = None, times: int = 0) -> None:
        self.count = 0
        self._error, self._times = error, times
        self._done = asyncio.Condition()

    async def __call__(self) -> None:
        async with self._done:
            self.count += 1
            self._done.notify_all()
        if self._error and self.count <= self._times:
            raise self._error

    async def was_done(self, times: int) -> None:
        async with asyncio.timeout(60), self._done:
            await self._done.wait_for(lambda: self.count >= times)


@asynccontextmanager
async def repeated(clock: Clock, every_s: float, work: Callable[[], Awaitable[object]]):
    task = asyncio.create_task(clock.repeat(every_s, "a test", work))
    try:
        yield
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_work_is_done_at_once_and_again_and_again() -> None:
    often, seldom = Work(), Work()
    async with Clock() as clock, repeated(clock, OFTEN_S, often), repeated(clock, NEVER_S, seldom):
        await often.was_done(5)
        await seldom.was_done(1)
    assert seldom.count == 1


@pytest.mark.parametrize("error", [BotError("the store is away"), ValueError("a bug")])
async def test_what_goes_wrong_is_tried_again_and_logged_once_until_it_works(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    work = Work(error, times=4)
    async with Clock() as clock, repeated(clock, OFTEN_S, work):
        await work.was_done(7)
    told = [record.message for record in caplog.records if record.message.startswith("a test: ")]
    assert [str(error) in line for line in told] == [True, False]
    assert told[1] == "a test: works again"


async def test_a_work_that_is_cancelled_while_it_runs_leaves_no_error_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    begun, never = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        begun.set()
        await never.wait()

    async with Clock() as clock, repeated(clock, NEVER_S, work):
        await begun.wait()
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []


async def test_it_is_done_at_once_when_somebody_asks_for_it_and_once_more_after_a_time_that_runs() -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()
    count = at_once = 0

    async def work() -> None:
        nonlocal count, at_once
        count += 1
        at_once += 1
        assert at_once == 1
        begun.set()
        await go_on.wait()
        at_once -= 1

    job = Job(work)
    async with Clock() as clock, asyncio.timeout(60):
        task = asyncio.create_task(job.run(clock, NEVER_S, at_once=False))
        await asyncio.sleep(0)
        assert count == 0
        job.soon()
        await begun.wait()
        begun.clear()
        job.soon()
        job.soon()
        go_on.set()
        await begun.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert count == 2


async def test_a_work_that_takes_longer_than_its_interval_is_done_by_one_at_a_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    running = 0

    async def work() -> None:
        nonlocal running
        running += 1
        assert running == 1
        await ticked.was_done(ticked.count + 3)
        running -= 1
        await slow()

    ticked, slow = Work(), Work()
    async with Clock() as clock, repeated(clock, OFTEN_S, ticked), repeated(clock, OFTEN_S, work):
        await slow.was_done(3)
    assert not caplog.records


async def test_what_a_job_raises_ends_it_and_is_raised_to_whoever_runs_it() -> None:
    work = Work(BotError("the Lease is lost"), times=1)
    async with Clock() as clock, asyncio.timeout(60):
        with pytest.raises(BotError, match="the Lease is lost"):
            await Job(work).run(clock, OFTEN_S)
        assert work.count == 1
        assert not clock.scheduler.get_jobs()


async def test_who_ends_a_job_waits_for_the_work_that_it_cancels() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.set()

    async with Clock() as clock, asyncio.timeout(60):
        async with repeated(clock, NEVER_S, work):
            await begun.wait()
        assert ended.is_set()


async def test_a_wall_clock_that_is_set_back_holds_nothing_up() -> None:
    """Then a job's next time is further away than its interval; it is done all the same."""
    work = Work()
    async with Clock() as clock, repeated(clock, OFTEN_S, work):
        await work.was_done(1)
        [scheduled] = clock.scheduler.get_jobs()
        scheduled.modify(next_run_time=scheduled.next_run_time + timedelta(hours=1))
        await work.was_done(3)


class _Leases:
    """Counts how often the store was asked; gives the lease to nobody but `mine`."""

    def __init__(self) -> None:
        self.asked = 0
        self.mine = "one"

    async def hold(self, _: str, owner: str, __: float) -> bool:
        self.asked += 1
        return owner == self.mine


class _Lent:
    def __init__(self) -> None:
        self.seconds = 0.0
        self.store = self
        self.task_leases = _Leases()

    def now(self) -> float:
        return self.seconds


async def test_a_duty_is_asked_for_again_before_it_may_pass_to_another_and_each_time_while_another_has_it() -> None:
    deps = _Lent()
    one, two = (TaskLease(cast(Any, deps), "triage", name, 30.0) for name in ("one", "two"))
    assert [await one.is_mine() for _ in range(5)] == [True] * 5
    assert [await two.is_mine() for _ in range(2)] == [False] * 2
    assert deps.task_leases.asked == 3
    deps.task_leases.mine, deps.seconds = "two", 10.0
    assert not await one.is_mine()
    assert await two.is_mine()
