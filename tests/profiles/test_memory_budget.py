"""Few profiles are in the bot's memory at once."""

import asyncio
import gzip
import threading

import pytest

from bot.errors import SourceError
from bot.pprof.decode import MAX_BYTES
from bot.texts import in_english
from handlers.profiles.captures import AT_ONCE, LARGE, ReadingRoom

SMALL, GREAT = b"\x48\x01", gzip.compress(bytes(LARGE), 1)


def test_no_more_are_taken_at_once_than_fit_and_who_waits_in_vain_is_told() -> None:
    async def play() -> None:
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

    asyncio.run(play())


def test_who_waits_begins_when_another_has_been_answered() -> None:
    async def play() -> None:
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

    asyncio.run(play())


def test_profiles_that_are_slow_to_read_leave_the_usual_threads_to_others() -> None:
    async def play() -> None:
        room, free = ReadingRoom(), threading.Event()
        slow = [asyncio.create_task(room.run(lambda: free.wait(60), ())) for _ in range(AT_ONCE + 30)]
        try:
            assert await asyncio.to_thread(lambda: "at once") == "at once"
        finally:
            free.set()
        assert all(await asyncio.gather(*slow))

    asyncio.run(play())


def test_large_profiles_are_read_one_after_another_and_small_ones_beside_them() -> None:
    async def play() -> None:
        room, free, begun = ReadingRoom(), threading.Event(), list[str]()

        def read(name: str) -> str:
            begun.append(name)
            return name if free.wait(60) else ""

        first = asyncio.create_task(room.run(lambda: read("first"), [GREAT]))
        try:
            while not begun:  # noqa: ASYNC110  # a thread tells nobody
                await asyncio.sleep(0.001)
            second = asyncio.create_task(room.run(lambda: read("second"), [GREAT]))
            assert await room.run(lambda: "at once", [SMALL]) == "at once"
            assert begun == ["first"]
        finally:
            free.set()
        assert [await first, await second] == ["first", "second"]

    asyncio.run(play())


def test_who_waits_in_vain_for_another_large_profile_is_told_and_it_is_not_begun_later() -> None:
    async def play() -> None:
        room, free, begun = ReadingRoom(patience_s=0.01), threading.Event(), list[str]()
        blocking = room._large.submit(free.wait, 60)  # stands for a profile of a minute
        try:
            with pytest.raises(SourceError, match="another large profile is being read") as told:
                await room.run(lambda: begun.append("second"), [GREAT])
        finally:
            free.set()
        assert "ask again in a minute" in in_english(told.value.hint)
        assert blocking.result(60)
        room._large.shutdown()
        assert begun == []

    asyncio.run(play())


def test_more_than_one_answer_can_read_is_refused_at_once() -> None:
    half = gzip.compress(bytes(MAX_BYTES // 2 + 1), 1)
    with pytest.raises(SourceError, match="these profiles hold 32 MiB together") as told:
        asyncio.run(ReadingRoom().run(lambda: None, [half, half]))
    assert "hami-bot profile compare" in in_english(told.value.hint)
