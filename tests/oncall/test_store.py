"""Rows of alerts and incidents: once, whatever comes twice, and for as long as they are of use."""

import asyncio
from collections.abc import Awaitable, Callable

from bot.store import Store, open_store
from bot.store.incidents import KEPT_S
from bot.triage.cause import Cause, unexplained
from bot.triage.state import Act, Step, Terms, act, passed
from tests.conftest import NewDatabase
from tests.oncall.rig import pending

CAUSE = Cause("0123456789abcdef", "card-insufficient-memory", "No card is large enough", "warning", "ml/trainer-0")


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


def test_what_two_processes_take_at_once_is_there_once(database: str) -> None:
    async def talk(_: Clock, one: Store, two: Store) -> None:
        given = [pending(number) for number in range(50)]
        news = await asyncio.gather(*(store.incidents.take(given) for store in (one, two, one, two)))
        assert sum(news) == 50
        assert len(await one.incidents.unsorted(100)) == 50

    with_stores(database, talk)


def test_of_one_cause_two_processes_open_one_incident(database: str) -> None:
    async def talk(_: Clock, one: Store, two: Store) -> None:
        given = [pending(number) for number in range(6)]
        await one.incidents.take(given)
        ids = await asyncio.gather(*(store.incidents.sort("", CAUSE, given, "C1") for store in (one, two, one, two)))
        assert len(set(ids)) == 1
        [row] = await two.incidents.opened()
        assert (row.cause, row.incident.state) == (CAUSE, "open")
        assert [event.news.turn for event in await one.incidents.timeline(row.id)] == ["opened"]
        assert (await one.incidents.counts([row.id]))[row.id].pods == 6

    with_stores(database, talk)


def test_another_cluster_with_the_same_cause_is_another_incident(database: str) -> None:
    async def talk(_: Clock, one: Store, two: Store) -> None:
        await one.incidents.sort("a", CAUSE, [], "C1")
        await two.incidents.sort("b", CAUSE, [], "C1")
        await two.incidents.sort("b", unexplained("X", "ml", "info", "?"), [], "C1")
        assert len(await one.incidents.opened()) == 3

    with_stores(database, talk)


def test_of_two_who_acknowledge_at_once_one_does(database: str) -> None:
    async def talk(_: Clock, one: Store, two: Store) -> None:
        found = await one.incidents.sort("", CAUSE, [], "C1")
        acts = (
            store.incidents.change(found, lambda incident, _, by=by: act(incident, Act("ack", by, 1.0)))
            for store, by in ((one, "U1"), (two, "U2"))
        )
        results = await asyncio.gather(*acts)
        assert sorted(isinstance(result, Step) for result in results) == [False, True]
        assert [event.news.turn for event in await one.incidents.timeline(found)] == ["opened", "acknowledged"]

    with_stores(database, talk)


def test_an_incident_does_not_end_while_something_fires_that_came_just_now(database: str) -> None:
    async def talk(clock: Clock, one: Store, two: Store) -> None:
        found = await one.incidents.sort("", CAUSE, [], "C1")
        await one.incidents.take([pending(0)])
        await two.incidents.sort("", CAUSE, [pending(0)], "C1")
        step = await one.incidents.change(
            found, lambda incident, firing: passed(incident, clock.now + 1e6, Terms(), firing=firing)
        )
        assert isinstance(step, Step)
        assert step.incident.state == "open"

    with_stores(database, talk)


def test_a_duty_passes_to_another_when_it_was_not_renewed(new_database: NewDatabase) -> None:
    async def talk(clock: Clock, one: Store, two: Store) -> None:
        both = asyncio.gather(one.incidents.on_duty("t", "a", 30), two.incidents.on_duty("t", "b", 30))
        assert sorted(await both) == [False, True]
        holder, other = ("a", "b") if await one.incidents.on_duty("t", "a", 30) else ("b", "a")
        clock.now += 29
        assert not await two.incidents.on_duty("t", other, 30)
        assert await one.incidents.on_duty("t", holder, 30)
        clock.now += 31
        assert await two.incidents.on_duty("t", other, 30)
        assert not await one.incidents.on_duty("t", holder, 30)

    with_stores(new_database(), talk)


def test_only_what_ended_long_ago_is_forgotten(database: str) -> None:
    async def talk(clock: Clock, one: Store, _: Store) -> None:
        await one.incidents.take([pending(0), pending(3, status="resolved")])
        found = await one.incidents.sort("", CAUSE, [pending(0)], "C1")
        await one.sweep(clock.now + KEPT_S + 1)
        assert await one.incidents.get(found) is not None
        await one.incidents.take([pending(0, status="resolved")])
        for later in (0.0, 300.0, 4000.0):
            await one.incidents.change(
                found, lambda one, firing, at=clock.now + later: passed(one, at, Terms(), firing=firing)
            )
        assert [row.id for row in await one.incidents.opened()] == [found]  # until it is told that it was resolved
        for event in (await one.incidents.untold())[found]:
            await one.incidents.told(found, event.seq)
        assert await one.incidents.opened() == []
        await one.sweep(clock.now + KEPT_S + 1)
        assert await one.incidents.get(found) is None
        assert await one.incidents.alerts_of(found) == []

    with_stores(database, talk)
