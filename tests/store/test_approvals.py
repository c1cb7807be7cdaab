"""What waits for somebody's yes: decided once, in time, over restarts; and how many changes one person asked for."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import product
from pathlib import Path

import pytest

from bot.store import Store, open_store
from bot.store.audit import AuditLine
from bot.store.changes import EXPIRES_S, Approval, Decision
from tests.scenes import as_test

NOW = 1_795_237_200.0

LINE = AuditLine("hami-bot", "approve", "a/b", "expired")


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


def played(folder: Path, scene: Callable[[Store, Clock], Awaitable[None]]) -> None:
    async def play() -> None:
        clock = Clock()
        async with open_store(f"sqlite:///{folder}/store.db", now=clock) as store:
            await scene(store, clock)

    asyncio.run(play())


async def asked(store: Store, change_id: str = "c1", now: float = NOW) -> Approval:
    return await store.approvals.ask(Approval(change_id, "lab", "a/b", "d", "U1", "C1", "{}"), now)


@pytest.mark.parametrize(("first", "second"), list(product(("approved", "refused", "void"), repeat=2)))
@as_test(played, "tmp_path")
async def test_it_is_decided_once(store: Store, clock: Clock, *, first: Decision, second: Decision) -> None:
    await asked(store)
    assert await store.approvals.decide("c1", first, now=NOW, by="U2")
    assert not await store.approvals.decide("c1", second, now=NOW, by="U3")
    found = await store.approvals.get("c1")
    assert found is not None
    assert (found.state, found.decided_by) == (first, "U2")


@as_test(played, "tmp_path")
async def test_of_many_who_decide_at_once_one_does(store: Store, clock: Clock) -> None:
    await asked(store)
    deciding = (store.approvals.decide("c1", "approved", now=NOW, by=f"U{number}") for number in range(10))
    assert sum(await asyncio.gather(*deciding)) == 1


@pytest.mark.parametrize("skew_s", [0, 10_800, -10_800])
@as_test(played, "tmp_path")
async def test_what_expired_is_not_approved_and_is_told_once_whatever_the_stores_clock_says(
    store: Store, clock: Clock, *, skew_s: float
) -> None:
    late = NOW + EXPIRES_S
    await asked(store)
    clock.now += skew_s
    assert [approval.state for approval in await store.approvals.to_look_after("lab", 0, now=late - 1)] == ["pending"]
    assert not await store.approvals.expire("c1", LINE, now=late - 1)
    assert not await store.approvals.decide("c1", "approved", now=late, by="U2")
    found = await store.approvals.get("c1")
    assert found is not None
    assert (found.as_of(late - 1).state, found.as_of(late).state) == ("pending", "expired")
    assert [(approval.id, approval.state) for approval in await store.approvals.to_look_after("lab", 0, now=late)] == [
        ("c1", "expired")
    ]
    ending = [await store.approvals.expire("c1", LINE, now=late) for _ in range(3)]
    assert (ending, await store.approvals.to_look_after("lab", 0, now=late)) == ([True, False, False], [])
    assert [line.outcome for line in await store.audit.read(10)] == ["expired"]


@as_test(played, "tmp_path")
async def test_what_is_left_of_another_cluster_is_judged_by_its_own_clock(store: Store, clock: Clock) -> None:
    await asked(store)
    assert await store.approvals.to_look_after("other", 0, now=NOW + EXPIRES_S) == []


@as_test(played, "tmp_path")
async def test_clusters_are_named_while_anything_may_be_left_there(store: Store, clock: Clock) -> None:
    assert await store.approvals.clusters() == []
    await asked(store)
    await asked(store, "c2")
    assert await store.approvals.clusters() == ["lab"]
    for change in ("c1", "c2"):
        assert await store.approvals.decide(change, "refused", now=NOW, by="U2")
    assert await store.approvals.clusters() == ["lab"]
    clock.now += 48 * 3600
    assert await store.approvals.clusters() == []


@as_test(played, "tmp_path")
async def test_what_came_of_an_approved_one_is_noted_once_and_only_then(store: Store, clock: Clock) -> None:
    await asked(store)
    assert not await store.approvals.finish("c1", "done")
    assert await store.approvals.decide("c1", "approved", now=NOW, by="U2")
    assert await store.approvals.to_look_after("lab", 61, now=NOW + 60) == []
    assert [approval.id for approval in await store.approvals.to_look_after("lab", 60, now=NOW + 60)] == ["c1"]
    assert await store.approvals.finish("c1", "not-done", reason="it failed", line=LINE)
    assert not await store.approvals.finish("c1", "done", line=LINE)
    found = await store.approvals.get("c1")
    assert found is not None
    assert (found.state, found.decision, found.decided_by, found.reason) == (
        "not-done",
        "approved",
        "U2",
        "it failed",
    )
    assert await store.approvals.to_look_after("lab", 0, now=NOW + 60) == []
    assert len(await store.audit.read(10)) == 1


@as_test(played, "tmp_path")
async def test_what_was_never_asked_is_unknown(store: Store, clock: Clock) -> None:
    assert await store.approvals.get("c1") is None
    assert not await store.approvals.decide("c1", "approved", now=NOW, by="U2")


@as_test(played, "tmp_path")
async def test_changes_are_counted_for_one_person_over_a_time_less_those_over_the_limit(
    store: Store, clock: Clock
) -> None:
    since = "2026-11-21T04:30:00.000000+00:00"
    for actor, outcome in (("U1", "requested"), ("U1", "over-limit"), ("U1", "requested"), ("U2", "requested")):
        await store.audit.append(AuditLine(actor, "raise", "a/b", outcome))
    assert await store.approvals.count_requests("U1", since) == 1
    assert await store.approvals.count_requests("U2", since) == 1
    assert await store.approvals.count_requests("U3", since) == 0
    clock.now += 3600
    assert await store.approvals.count_requests("U1", "2026-11-21T05:30:00.000000+00:00") == 0
