"""Kept profiles: byte for byte, over restarts, the newest of them and none that is too old."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from sqlalchemy import event
from sqlalchemy.util import await_only

from bot.errors import NotFound
from bot.store import Store, StoreError, open_beside, open_store
from bot.store.profiles import KeptProfile
from tests.scenes import as_test

NOW = 1_795_237_200.0
ANY_BYTES = bytes(range(256)) * 300
MANY = 1 << 30


def played(database: str, scene: Callable[[Store], Awaitable[None]]) -> None:
    async def play() -> None:
        async with open_store(database) as store:
            await scene(store)

    asyncio.run(play())


def about(number: int, *, at: float = NOW) -> KeptProfile:
    return KeptProfile(
        f"cpu-{number}", "lab", "https://hami-system/sched-0:443", "cpu", "2.10.0", at, 30.0, len(ANY_BYTES)
    )


async def test_what_is_kept_comes_back_byte_for_byte_after_a_restart(database: str) -> None:
    async with open_store(database) as store:
        await store.profiles.keep(about(1), ANY_BYTES, most=5, days=1, most_bytes=MANY)
    async with open_store(database) as store:
        assert await store.profiles.listed() == [about(1)]
        assert await store.profiles.content("cpu-1") == ANY_BYTES


@as_test(played, "database")
async def test_the_newest_stay_and_those_too_old_go(store: Store) -> None:
    for number in range(6):
        await store.profiles.keep(about(number, at=NOW + number * 3600), b"x", most=4, days=2.5 / 24, most_bytes=MANY)
    assert [profile.id for profile in await store.profiles.listed()] == ["cpu-5", "cpu-4", "cpu-3"]
    await store.profiles.keep(about(6, at=NOW + 6 * 3600), b"x", most=2, days=30, most_bytes=MANY)
    assert [profile.id for profile in await store.profiles.listed()] == ["cpu-6", "cpu-5"]


async def test_one_that_another_process_keeps_at_the_same_moment_stays(database: str) -> None:
    if database.startswith("sqlite"):
        pytest.skip("SQLite has one process write at a time")
    async with open_store(database) as store, open_store(database) as other:
        left = [about(2)]

        @event.listens_for(store.profiles._engine.sync_engine, "before_cursor_execute")
        def keep_another(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
            if statement.startswith("DELETE FROM profiles") and left:
                await_only(other.profiles.keep(left.pop(), b"x", most=5, days=1, most_bytes=MANY))

        await store.profiles.keep(about(1), b"x", most=5, days=1, most_bytes=MANY)
        assert [profile.id for profile in await store.profiles.listed()] == ["cpu-1", "cpu-2"]


@as_test(played, "database")
async def test_those_that_nothing_was_kept_after_go_in_their_time_too(store: Store) -> None:
    await store.profiles.keep(about(1), ANY_BYTES, most=5, days=30, most_bytes=MANY)
    await store.sweep(NOW + 29 * 86400)
    assert [profile.id for profile in await store.profiles.listed()] == ["cpu-1"]
    await store.sweep(NOW + 31 * 86400)
    assert await store.profiles.listed() == []


@as_test(played, "database")
async def test_together_they_take_no_more_than_they_may_and_one_that_is_larger_costs_no_other(store: Store) -> None:
    room = 2 * len(ANY_BYTES)
    for number in range(4):
        one = about(number, at=NOW + number)
        await store.profiles.keep(one, ANY_BYTES, most=50, days=30, most_bytes=room)
    assert [profile.id for profile in await store.profiles.listed()] == ["cpu-3", "cpu-2"]
    large = msgspec.structs.replace(about(9, at=NOW + 9), size=room + 1)
    await store.profiles.keep(large, b"x" * (room + 1), most=50, days=30, most_bytes=room)
    assert [profile.id for profile in await store.profiles.listed()] == ["cpu-3", "cpu-2"]


@as_test(played, "database")
async def test_the_same_profile_is_kept_once(store: Store) -> None:
    for _ in range(2):
        await store.profiles.keep(about(1), b"x", most=5, days=1, most_bytes=MANY)
    assert len(await store.profiles.listed()) == 1


@as_test(played, "database")
async def test_one_that_is_not_kept_is_told(store: Store) -> None:
    with pytest.raises(NotFound, match="cpu-9"):
        await store.profiles.content("cpu-9")


@as_test(played, "database")
async def test_they_can_be_read_beside_the_bot_that_has_the_store_open(store: Store, *, database: str) -> None:
    await store.profiles.keep(about(1), ANY_BYTES, most=5, days=1, most_bytes=MANY)
    async with open_beside(database) as beside:
        assert await beside.profiles.content("cpu-1") == ANY_BYTES


def test_where_no_store_is_none_is_made(tmp_path) -> None:
    async def look() -> None:
        async with open_beside(f"sqlite:///{tmp_path}/none.db"):
            raise AssertionError

    with pytest.raises(StoreError, match="there is no store"):
        asyncio.run(look())
