"""Few profiles are in the bot's memory at once."""

import asyncio
import gzip
import threading

import pytest

from bot.errors import SourceError
from bot.pprof.decode import MAX_BYTES
from bot.texts import in_english
from handlers.profiles.captures import AT_ONCE, ReadingRoom


async def test_no_more_are_taken_at_once_than_fit_and_who_waits_in_vain_is_told() -> None:
    room = ReadingRoom(patience_s=0)
    async with room.capture(), room.capture():
        with pytest.raises(SourceError, match="2 other profiles are being taken") as told:
            async with room.capture():
                raise AssertionError
        assert "ask again" in in_english(told.value.hint)
        async with room.study():  # those that are kept can be looked at meanwhile
            pass
    async with room.capture():
        pass


async def test_who_waits_begins_when_another_has_been_answered() -> None:
    room, free, begun = ReadingRoom(), asyncio.Event(), list[int]()

    async def take(number: int) -> None:
        async with room.capture():
            begun.append(number)
            await free.wait()

    tasks = [asyncio.create_task(take(number)) for number in range(4)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert begun == [0, 1]
    free.set()
    await asyncio.gather(*tasks)
    assert begun == [0, 1, 2, 3]


async def test_profiles_that_are_slow_to_read_leave_the_usual_threads_to_others() -> None:
    room, free = ReadingRoom(), threading.Event()
    slow = [asyncio.create_task(room.run(lambda: free.wait(60), ())) for _ in range(AT_ONCE + 30)]
    try:
        assert await asyncio.to_thread(lambda: "at once") == "at once"
    finally:
        free.set()
    assert all(await asyncio.gather(*slow))


def test_more_than_one_answer_can_read_is_refused_at_once() -> None:
    half = gzip.compress(bytes(MAX_BYTES // 2 + 1), 1)
    with pytest.raises(SourceError, match="these profiles hold 8 MiB together") as told:
        asyncio.run(ReadingRoom().run(lambda: None, [half, half]))
    assert "hami-bot profile compare" in in_english(told.value.hint)
