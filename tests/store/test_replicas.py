"""Two replicas with one database: whatever both do at once is done once, and nothing of it is lost.

They agree on the time although their machines do not: what one is at, no other takes over.
"""

import asyncio
import itertools
import json
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from bot.changes.journal import ChangeEvent
from bot.periodic_jobs import Clock, in_background
from bot.store import Store, open_store
from bot.store.base import BEAT_S, DROPPED, HOLDS_S, TRIES
from bot.store.outbox_rows import SPACING
from tests.changes.records import OF_SCHEDULER
from tests.scenes import as_test
from tests.stores import queued, shown

NOW = 1_000_000.0


def with_replicas(database: str, work: Callable[[Store, Store], Awaitable[None]]) -> None:
    async def main() -> None:
        async with (
            open_store(database, now=lambda: NOW, patience=30) as one,
            open_store(database, now=lambda: NOW, patience=30) as other,
        ):
            await work(one, other)

    asyncio.run(main())


@as_test(with_replicas, "database")
async def test_a_delivery_is_claimed_by_one_of_them(one: Store, other: Store) -> None:
    keys = [f"Ev{number}" for number in range(20)]
    claims = [store.claim(key) for key in keys for store in (one, other)]
    granted = await asyncio.gather(*claims)
    assert [granted[at : at + 2].count(True) for at in range(0, len(granted), 2)] == [1] * 20


@as_test(with_replicas, "database")
async def test_of_two_batches_with_the_same_deliveries_each_is_claimed_once(one: Store, other: Store) -> None:
    batches = [{f"Ev{number}": "payload" for number in range(first, first + 10)} for first in range(0, 30, 5)]
    claims = [store.claim_all(batch) for batch in batches for store in (one, other)]
    granted = Counter(itertools.chain(*await asyncio.gather(*claims)))
    assert granted == {f"Ev{number}": 1 for number in range(35)}


def test_a_death_is_counted_by_one_of_those_who_notice_it(database: str) -> None:
    async def work(one: Store, other: Store) -> None:
        for store in (one, other):
            await store.hold()
            store.now = lambda: NOW + HOLDS_S
        for death in range(TRIES):
            async with open_store(database, now=lambda: NOW - 2 * HOLDS_S, patience=30) as dies:
                assert await dies.claim("Ev1", "the event itself")
            looks = await asyncio.gather(*(store.unfinished() for store in (one, other) for _ in range(5)))
            assert [left.key for left in await one.unfinished()] == ["Ev1" if death < TRIES - 1 else f"Ev1{DROPPED}"]
            assert all(len(found) <= 1 for found in looks)

    with_replicas(database, work)


@as_test(with_replicas, "database")
async def test_a_message_is_sent_by_one_of_them_and_a_channel_by_one_at_a_time(one: Store, other: Store) -> None:
    for number in range(6):
        await queued(one.outbox, f"{number}", NOW + number)
    sent: list[int] = []
    now = NOW + 100
    while await one.outbox.waiting():
        claims = [
            store.outbox.claim("C1", f"{owner}", now, 60) for owner, store in enumerate((one, other)) for _ in range(3)
        ]
        rows = {row.id: row for row in await asyncio.gather(*claims) if row}
        assert len({row.owner for row in rows.values()}) == 1
        for row in rows.values():
            await one.outbox.settle(await shown(one.outbox, now, row))
            sent.append(row.id)
        now += SPACING
    assert sorted(sent) == sorted(set(sent))
    assert len(sent) == 6


@as_test(with_replicas, "database")
async def test_the_same_message_put_by_both_is_one_row(one: Store, other: Store) -> None:
    await asyncio.gather(*(queued(store.outbox, "key", NOW, text=f"{n}") for n in range(10) for store in (one, other)))
    assert await one.outbox.waiting() == 1


@as_test(with_replicas, "database")
async def test_what_became_of_a_change_is_news_to_one_of_them(one: Store, other: Store) -> None:
    await one.changes("lab").planned(OF_SCHEDULER, "u-1")
    for kind in ("raised", "effective", "reverted"):
        event = ChangeEvent(kind, OF_SCHEDULER.target, OF_SCHEDULER)
        notes = [store.changes("lab").note(event) for store in (one, other) for _ in range(5)]
        assert (await asyncio.gather(*notes)).count(True) == 1
    assert await other.changes("lab").opened() == []


@as_test(with_replicas, "database")
async def test_a_change_whose_row_was_lost_is_noted_by_one_of_them(one: Store, other: Store) -> None:
    event = ChangeEvent("raised", OF_SCHEDULER.target, OF_SCHEDULER)
    notes = [store.changes("lab").note(event) for store in (one, other) for _ in range(5)]
    assert (await asyncio.gather(*notes)).count(True) == 1
    assert [found.state for found in await other.changes("lab").opened()] == ["raised"]


LEASE = 120.0
ROOT = Path(__file__).parents[2]
FAST = """
import asyncio, json, sys, time

real = time.time
time.time = lambda: real() + 3 * 3600

from bot.slack.outbox import Outbox
from bot.store import open_store


async def main():
    async with open_store(sys.argv[1]) as store:
        claimed = await store.claim("Ev1")
        await store.hold()
        store._judges_from = 0.0  # as one that has run for long
        unfinished = await store.unfinished()
        held = await store.task_leases.hold("pages", "fast", 60.0)
        await Outbox(store, None, owner="fast").step("C1")
        print(json.dumps([claimed, unfinished, held]))


asyncio.run(main())
"""


async def _taken_by_a_fast_one(database: str) -> Any:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", FAST, database), cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    said, _ = await process.communicate()
    return json.loads(said)


async def _is_at_work(store: Store) -> None:
    now = time.time()
    assert await store.claim("Ev1", "the event itself")
    assert await store.task_leases.hold("pages", "right", 60.0)
    await queued(store.outbox, "head", now)
    assert await store.outbox.claim("C1", "right", now, LEASE)


@pytest.mark.parametrize("new_database", ["postgresql"], indirect=True)
async def test_a_replica_whose_clock_is_three_hours_fast_takes_nothing_over(database: str) -> None:
    async with (
        asyncio.timeout(180),
        open_store(database) as store,
        Clock() as clock,
        in_background(clock.repeat(BEAT_S, "a sign of life", store.hold)),
    ):
        await _is_at_work(store)
        assert await _taken_by_a_fast_one(database) == [False, [], False]
        row = await store.outbox.unsettled("C1", "right", time.time(), LEASE)
        assert row is not None
        assert row.tried_version == 0
