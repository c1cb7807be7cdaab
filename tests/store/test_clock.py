"""Replicas agree on the time although their machines do not: what one is at, no other takes over."""

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from bot.periodic_jobs import Clock, in_background
from bot.store import Store, open_store
from bot.store.engine import BEAT_S

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
    words: Any = {"thread_ts": "", "severity": 0, "update_ts": "", "now": now}
    await store.outbox.put("C1", "head", {"text": "", "blocks": []}, [], **words)
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
