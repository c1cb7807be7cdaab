"""Moments that are remembered by name."""

import asyncio
from collections.abc import Awaitable, Callable

from bot.store import Store, open_store
from bot.store.facts import Mark
from tests.scenes import as_test


def played(database: str, scene: Callable[[Store], Awaitable[None]]) -> None:
    async def play() -> None:
        async with open_store(database, now=lambda: 7.0, patience=30) as store:
            await scene(store)

    asyncio.run(play())


@as_test(played, "database")
async def test_a_moment_replaces_an_earlier_one_of_its_name_and_can_be_forgotten(store: Store) -> None:
    await store.marks.set("trouble:a", "first")
    await store.marks.set("trouble:a", "second")
    await store.marks.set("troubles")
    assert await store.marks.all("trouble:") == [Mark("trouble:a", 7.0, "second")]
    await store.marks.drop("trouble:a")
    assert await store.marks.all("trouble:") == []


@as_test(played, "database")
async def test_whoever_notes_the_same_moment_at_once_is_told_of_no_failure(store: Store) -> None:
    await asyncio.gather(*(store.marks.set("probe") for _ in range(8)))
    assert await store.marks.all("probe") == [Mark("probe", 7.0, "")]
