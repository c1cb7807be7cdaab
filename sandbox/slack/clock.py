"""Time for the sandbox's Slack: the real clock, and one that stands still until a test moves it.

Every deadline of the server (acks, retries, trigger ids, response URLs, tickets, rate limits) runs on its clock.
Latencies in the journal are always real time.
"""

import asyncio
import heapq
import itertools
import time
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

T = TypeVar("T")
_TURNS_PER_TIMER = 20  # of the event loop: enough for the tasks that a timer wakes to set their next timers


class Timer(Protocol):
    """A call that is due later; `cancel` is harmless once it has happened."""

    def cancel(self) -> None: ...


class Clock(Protocol):
    """Seconds since the epoch, and calls that are due later."""

    def now(self) -> float: ...

    def call_later(self, seconds: float, call: Callable[[], object]) -> Timer: ...


class RealClock:
    """The wall clock; `call_later` needs a running event loop."""

    def now(self) -> float:
        return time.time()

    def call_later(self, seconds: float, call: Callable[[], object]) -> Timer:
        return asyncio.get_running_loop().call_later(max(seconds, 0), call)


class _VirtualTimer:
    def __init__(self, call: Callable[[], object]) -> None:
        self._call: Callable[[], object] | None = call

    def cancel(self) -> None:
        self._call = None

    def fire(self) -> None:
        call, self._call = self._call, None
        if call:
            call()


class VirtualClock:
    """A clock that stands still until `advance`. It starts at the present, so that signed requests are fresh."""

    def __init__(self, start: float | None = None) -> None:
        self._now = time.time() if start is None else start
        self._timers: list[tuple[float, int, _VirtualTimer]] = []
        self._count = itertools.count()

    def now(self) -> float:
        return self._now

    def call_later(self, seconds: float, call: Callable[[], object]) -> Timer:
        timer = _VirtualTimer(call)
        heapq.heappush(self._timers, (self._now + max(seconds, 0), next(self._count), timer))
        return timer

    async def advance(self, seconds: float) -> None:
        """Moves the clock; what falls due on the way happens in order, each at its own moment. What it causes on a
        network (a delivery that is answered) takes real time: wait for that by its effect.
        """
        await _let_tasks_run()
        end = self._now + seconds
        while self._timers and self._timers[0][0] <= end:
            due, _, timer = heapq.heappop(self._timers)
            self._now = max(self._now, due)
            timer.fire()
            await _let_tasks_run()
        self._now = max(self._now, end)  # somebody else may have moved it meanwhile

    async def sleep(self, seconds: float) -> None:
        """Sleeps, for the program under test, until the clock was moved past the time."""
        await sleep(self, seconds)


async def _let_tasks_run() -> None:
    for _ in range(_TURNS_PER_TIMER):
        await asyncio.sleep(0)


async def sleep(clock: Clock, seconds: float) -> None:
    """Waits on `clock`."""
    done = asyncio.get_running_loop().create_future()
    timer = clock.call_later(seconds, lambda: done.done() or done.set_result(None))
    try:
        await done
    finally:
        timer.cancel()


async def within(clock: Clock, seconds: float, work: Awaitable[T]) -> T:
    """The result of `work`; raises TimeoutError, with the work cancelled, once `seconds` have passed on `clock`."""
    task = asyncio.ensure_future(work)
    expired = False

    def expire() -> None:
        nonlocal expired
        expired = not task.done()
        task.cancel()

    timer = clock.call_later(seconds, expire)
    try:
        return await task
    except asyncio.CancelledError as error:
        if expired:
            raise TimeoutError from error
        task.cancel()
        raise
    finally:
        timer.cancel()
