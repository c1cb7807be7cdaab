"""One capture for all who ask for the same, ended when nobody waits for it any more."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from bot.errors import SourceError
from bot.texts import in_english
from handlers.profiles.captures import CaptureRequest, Captures

CPU = CaptureRequest("lab", "", "cpu", 60)


class Capturing:
    """Captures that begin when they are asked for and end when they are told to."""

    def __init__(self) -> None:
        self.begun = self.cancelled = 0
        self.gate = asyncio.Event()

    async def __call__(self) -> str:
        self.begun += 1
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return f"profile {self.begun}"


def played(scene: Callable[[Captures[str], Capturing], Awaitable[None]]) -> None:
    async def play() -> None:
        await scene(Captures(lambda: 100.0), Capturing())

    asyncio.run(play())


def test_who_asks_for_the_same_meanwhile_gets_the_same() -> None:
    async def scene(captures: Captures[str], capturing: Capturing) -> None:
        both = [asyncio.create_task(captures.take(CPU, capturing)) for _ in range(2)]
        await asyncio.sleep(0)
        assert captures.is_running(CPU)
        capturing.gate.set()
        assert await asyncio.gather(*both) == ["profile 1", "profile 1"]
        assert not captures.is_running(CPU)
        assert await captures.take(CPU, capturing) == "profile 2"

    played(scene)


def test_the_capture_ends_with_the_last_who_waits() -> None:
    async def scene(captures: Captures[str], capturing: Capturing) -> None:
        one, other = (asyncio.create_task(captures.take(CPU, capturing)) for _ in range(2))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        one.cancel()
        await asyncio.gather(one, return_exceptions=True)
        assert (capturing.cancelled, captures.is_running(CPU)) == (0, True)
        other.cancel()
        await asyncio.gather(other, return_exceptions=True)
        await asyncio.sleep(0)
        assert (capturing.cancelled, captures.is_running(CPU)) == (1, False)

    played(scene)


def test_whoever_asks_right_after_a_cancellation_gets_a_capture_of_their_own() -> None:
    async def scene(captures: Captures[str], capturing: Capturing) -> None:
        one = asyncio.create_task(captures.take(CPU, capturing))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        one.cancel()
        await asyncio.gather(one, return_exceptions=True)
        capturing.gate.set()
        assert await captures.take(CPU, capturing) == "profile 2"

    played(scene)


def test_a_failure_is_told_to_all_who_wait() -> None:
    async def scene(captures: Captures[str], _: Capturing) -> None:
        async def fail() -> str:
            await asyncio.sleep(0)
            raise SourceError("the pod is gone")

        told = await asyncio.gather(*(captures.take(CPU, fail) for _ in range(2)), return_exceptions=True)
        assert [str(text) for text in told] == ["the pod is gone"] * 2

    played(scene)


def test_a_cpu_profile_of_another_length_meanwhile_is_told_when_it_can_be_had() -> None:
    async def scene(captures: Captures[str], capturing: Capturing) -> None:
        task = asyncio.create_task(captures.take(CPU, capturing))
        await asyncio.sleep(0)
        with pytest.raises(SourceError, match="a CPU profile of 60 s is being taken there") as told:
            await captures.take(CPU._replace(seconds=10), capturing)
        assert "about 60 s" in in_english(told.value.hint)
        capturing.gate.set()
        await task

    played(scene)


@pytest.mark.parametrize(
    "other", [CPU._replace(kind="heap"), CPU._replace(place="ml/api:6060"), CPU._replace(cluster="b")]
)
def test_other_kinds_and_places_do_not_wait(other: CaptureRequest) -> None:
    async def scene(captures: Captures[str], capturing: Capturing) -> None:
        tasks = [asyncio.create_task(captures.take(wanted, capturing)) for wanted in (CPU, other)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert capturing.begun == 2
        capturing.gate.set()
        await asyncio.gather(*tasks)

    played(scene)
