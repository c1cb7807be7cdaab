"""Profiles that are being taken: who asks for the same meanwhile shares it; a program takes one CPU profile at once."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Generic, NamedTuple, TypeVar

from bot.errors import SourceError
from bot.texts import Text

T = TypeVar("T")


class CaptureRequest(NamedTuple):
    """What is being taken, and where; `seconds` 0 for what is so at one moment."""

    cluster: str
    place: str
    kind: str
    seconds: int


class _Capture(Generic[T]):
    def __init__(self, task: "asyncio.Task[T]", ends_at: float) -> None:
        self.task = task
        self.ends_at = ends_at
        self.waiting = 0


class Captures(Generic[T]):
    """`clock` is in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._running: dict[CaptureRequest, _Capture[T]] = {}

    def is_running(self, wanted: CaptureRequest) -> bool:
        """Whether who asks now shares it."""
        return wanted in self._running

    async def take(self, wanted: CaptureRequest, begin: Callable[[], Awaitable[T]]) -> T:
        """What `begin` gives, which is called unless the same is being taken.

        Cancelled, it goes on for those who share it; with the last of them it is cancelled. Raises SourceError where a
        CPU profile of another length is being taken there, and what `begin` raises.
        """
        capture = self._running.get(wanted)
        if capture is None:
            self._check(wanted)
            capture = self._begin(wanted, begin)
        capture.waiting += 1
        try:
            return await asyncio.shield(capture.task)
        finally:
            capture.waiting -= 1
            if not capture.waiting and not capture.task.done():
                self._running.pop(wanted, None)
                capture.task.cancel()

    def _check(self, wanted: CaptureRequest) -> None:
        for other, capture in self._running.items():
            if wanted.kind == "cpu" and other._replace(seconds=wanted.seconds) == wanted:
                left = max(1, round(capture.ends_at - self._clock()))
                raise SourceError(
                    Text("error-profile.cpu-profile-is-being-taken", seconds=other.seconds),
                    hint=Text("error-profile.done-in-about", left=left, seconds=other.seconds),
                )

    def _begin(self, wanted: CaptureRequest, begin: Callable[[], Awaitable[T]]) -> _Capture[T]:
        async def run() -> T:
            return await begin()

        capture = _Capture(asyncio.create_task(run()), self._clock() + wanted.seconds)
        self._running[wanted] = capture
        capture.task.add_done_callback(lambda task: self._ended(wanted, task))
        return capture

    def _ended(self, wanted: CaptureRequest, task: "asyncio.Task[T]") -> None:
        capture = self._running.get(wanted)
        if capture is not None and capture.task is task:
            del self._running[wanted]
        if not task.cancelled():
            task.exception()  # whoever waited has been told it
