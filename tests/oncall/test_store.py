"""Rows of alerts and incidents: once, whatever comes twice, and for as long as they are of use."""

import asyncio
import contextlib
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest
from sqlalchemy import event

from bot.store import Store, open_store
from bot.store.alerts import keep_alerts
from bot.store.audit import AuditLine
from bot.store.incidents import KEPT_S
from bot.triage.cause import Cause
from bot.triage.state import Act, IncidentTimes, Step, act, pass_time
from tests.oncall.rig import pending
from tests.oncall.stored import CAUSE
from tests.scenes import as_test
from tests.stores import NewDatabase, blocked

pytestmark = pytest.mark.each_way


class Clock:
    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


def with_stores(database: str, talk: Callable[[Clock, Store, Store], Awaitable[None]]) -> None:
    """Two processes with one database."""

    async def run() -> None:
        clock = Clock()
        async with open_store(database, now=clock) as one, open_store(database, now=clock) as two:
            await talk(clock, one, two)

    asyncio.run(run())


@as_test(with_stores, "database")
async def test_what_two_processes_take_at_once_is_there_once(clock: Clock, one: Store, two: Store) -> None:
    given = [pending(number) for number in range(50)]
    news = await asyncio.gather(*(store.alerts.take(given) for store in (one, two, one, two)))
    assert sum(news) == 50
    assert len(await one.alerts.unsorted(100)) == 50


@as_test(with_stores, "database")
async def test_an_end_that_comes_while_another_process_notes_the_beginning_is_kept(
    clock: Clock, one: Store, two: Store
) -> None:
    again = "2027-01-15T09:00:00Z"
    await one.alerts.take([pending()])
    await one.alerts.take([pending(status="resolved")])
    async with one.incidents._engine.begin() as connection:
        assert await keep_alerts(connection, [pending(starts_at=again)], clock()) == 1
        ending = asyncio.ensure_future(two.alerts.take([pending(starts_at=again, status="resolved")]))
        await blocked(one.incidents._engine, ending)
    assert await ending == 1
    assert {alert.status for alert in await one.alerts.unsorted(100)} == {"resolved"}


@as_test(with_stores, "database")
async def test_of_one_cause_two_processes_open_one_incident(clock: Clock, one: Store, two: Store) -> None:
    given = [pending(number) for number in range(6)]
    await one.alerts.take(given)
    parts = ((one, given[:3]), (two, given[3:]), (one, given), (two, given))
    ids = await asyncio.gather(*(store.incidents.sort("", CAUSE, some, "C1") for store, some in parts))
    assert len(set(ids) - {""}) == 1  # none where the other had sorted them all
    [row] = await two.incidents.opened()
    assert (row.cause, row.incident.state) == (CAUSE, "open")
    assert [event.news.turn for event in await one.timeline.of(row.id)] == ["opened"]
    assert (await one.alerts.counts([row.id]))[row.id].pods == 6


@as_test(with_stores, "database")
async def test_another_cluster_with_the_same_cause_is_another_incident(clock: Clock, one: Store, two: Store) -> None:
    given = [pending(number) for number in range(3)]
    await one.alerts.take(given)
    await one.incidents.sort("a", CAUSE, given[:1], "C1")
    await two.incidents.sort("b", CAUSE, given[1:2], "C1")
    await two.incidents.sort("b", Cause("X", "", "?", "info"), given[2:], "C1")
    assert len(await one.incidents.opened()) == 3


@as_test(with_stores, "database")
async def test_of_two_who_acknowledge_at_once_one_does(clock: Clock, one: Store, two: Store) -> None:
    await one.alerts.take([pending(3)])
    found = await one.incidents.sort("", CAUSE, [pending(3)], "C1")
    acts = (
        store.incidents.change(found, lambda incident, _, by=by: act(incident, Act("ack", by, 1.0)))
        for store, by in ((one, "U1"), (two, "U2"))
    )
    results = await asyncio.gather(*acts)
    assert sorted(isinstance(result, Step) for result in results) == [False, True]
    assert [event.news.turn for event in await one.timeline.of(found)] == ["opened", "acknowledged"]


@as_test(with_stores, "database")
async def test_an_incident_does_not_end_while_something_fires_that_came_just_now(
    clock: Clock, one: Store, two: Store
) -> None:
    await one.alerts.take([pending(0), pending(3)])
    found = await one.incidents.sort("", CAUSE, [pending(3)], "C1")
    await one.alerts.take([pending(3, status="resolved")])
    await two.incidents.sort("", CAUSE, [pending(0)], "C1")
    step = await one.incidents.change(
        found, lambda incident, firing: pass_time(incident, clock.now + 1e6, IncidentTimes(), firing=firing)
    )
    assert isinstance(step, Step)
    assert step.incident.state == "open"


def test_a_duty_passes_to_another_when_it_was_not_renewed(new_database: NewDatabase) -> None:
    async def talk(clock: Clock, one: Store, two: Store) -> None:
        both = asyncio.gather(one.task_leases.hold("t", "a", 30), two.task_leases.hold("t", "b", 30))
        assert sorted(await both) == [False, True]
        holder, other = ("a", "b") if await one.task_leases.hold("t", "a", 30) else ("b", "a")
        clock.now += 29
        assert not await two.task_leases.hold("t", other, 30)
        assert await one.task_leases.hold("t", holder, 30)
        clock.now += 31
        assert await two.task_leases.hold("t", other, 30)
        assert not await one.task_leases.hold("t", holder, 30)

    with_stores(new_database(), talk)


@as_test(with_stores, "database")
async def test_only_what_ended_long_ago_is_forgotten(clock: Clock, one: Store, other: Store) -> None:
    await one.alerts.take([pending(0), pending(3, status="resolved")])
    found = await one.incidents.sort("", CAUSE, [pending(0)], "C1")
    clock.now += KEPT_S + 1
    await one.sweep(clock.now)
    assert await one.incidents.get(found) is not None
    await one.alerts.take([pending(0, status="resolved")])
    for later in (0.0, 300.0, 4000.0):
        await one.incidents.change(
            found,
            lambda incident, firing, at=clock.now + later: pass_time(incident, at, IncidentTimes(), firing=firing),
        )
    assert [row.id for row in await one.incidents.opened()] == [found]  # until it is told that it was resolved
    for happened in (await one.timeline.to_tell())[found]:
        await one.timeline.mark_told(found, happened.seq)
    assert await one.incidents.opened() == []
    await one.sweep(clock.now + KEPT_S - 1)
    assert await one.incidents.get(found) is not None
    await one.sweep(clock.now + KEPT_S + 1)
    assert await one.incidents.get(found) is None
    assert (await one.alerts.counts([found]))[found].alerts == 0


@as_test(with_stores, "database")
async def test_an_alert_that_flaps_in_one_incident_is_one_row_of_it(clock: Clock, one: Store, two: Store) -> None:
    for _ in range(5):
        await one.alerts.take([pending(0)])
        found = await two.incidents.sort("", CAUSE, [pending(0)], "C1")
        await two.alerts.take([pending(0, status="resolved")])
        clock.now += 600
    counts = (await one.alerts.counts([found]))[found]
    assert (counts.firing, counts.alerts) == (0, 1)


def test_whatever_order_two_processes_work_in_nobody_waits_for_ever(new_database: NewDatabase) -> None:
    async def talk(_: Clock, one: Store, two: Store) -> None:
        given = [pending(number) for number in range(60)]
        await one.alerts.take(given)
        both = (one, two)
        orders = (given, given[::-1])
        sorting = [store.incidents.sort("", CAUSE, some, "C1") for store, some in zip(both, orders, strict=True)]
        over = [msgspec.structs.replace(alert, status="resolved") for alert in given]
        await asyncio.gather(*sorting, *(store.alerts.take(some) for store in both for some in (over, over[::-1])))
        [row] = await one.incidents.opened()
        counts = (await one.alerts.counts([row.id]))[row.id]
        assert (counts.firing, counts.alerts) == (0, 60)

    with_stores(new_database(), talk)


@as_test(with_stores, "database")
async def test_what_is_done_and_what_the_log_says_of_it_are_there_together_or_not_at_all(
    clock: Clock, one: Store, two: Store
) -> None:
    await one.alerts.take([pending(0)])
    found = await one.incidents.sort("", CAUSE, [pending(0)], "C1")
    unstorable = AuditLine("U1", "triage-ack", "incident:x", "done", {"what": object()})
    with pytest.raises(TypeError):
        await one.incidents.change(found, lambda at, _: act(at, Act("ack", "U1", 1.0)), lambda _: unstorable)
    assert [event.news.turn for event in await one.timeline.of(found)] == ["opened"]
    line = unstorable._replace(detail={})
    await one.incidents.change(found, lambda at, _: act(at, Act("ack", "U1", 1.0)), lambda _: line)
    assert [entry.action for entry in await one.audit.read(5)] == ["triage-ack"]


async def test_what_every_pass_and_every_word_reads_is_found_by_an_index(tmp_path: Path) -> None:
    said: list[tuple[str, object]] = []
    async with open_store(f"sqlite:///{tmp_path}/x.db") as store:
        rows, alerts = store.incidents, store.alerts
        await alerts.take([pending(0)])
        found = await rows.sort("", CAUSE, [pending(0)], "C1")
        [row] = await rows.opened()
        event.listen(
            store._engine.sync_engine, "before_cursor_execute", lambda *given: said.append((given[2], given[3]))
        )
        await alerts.take([pending(0), pending(3)])
        await rows.sort("", CAUSE, [pending(3)], "C1")
        for reading in (
            alerts.unsorted(9),
            alerts.counts([found]),
            store.timeline.to_tell(),
            alerts.firing(source="watch", cluster=""),
            alerts.unsorted_labels(),
            alerts.unsorted(9, "a", ("b",)),
            rows.has_evidence(row),
        ):
            await reading
        await alerts.silence("alertmanager", 0.0)
        await alerts.unwatch("watch", ("a",))
        await rows.find_threads()
        await rows.of_thread("C1", "1.2")
    with contextlib.closing(sqlite3.connect(tmp_path / "x.db")) as db:
        asked = [text for text in said if not text[0].startswith(("BEGIN", "PRAGMA", "INSERT"))]
        plan = [f"{row[3]}: {what}" for what, given in asked for row in db.execute(f"EXPLAIN QUERY PLAN {what}", given)]
    assert plan
    assert [step for step in plan if step.startswith("SCAN")] == []
