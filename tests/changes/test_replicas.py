"""Two and three replicas over one store, cut off, interrupted and with wrong clocks. In every case:

- Our element is back among whatever others edited, and all is as it was, to the byte, where nobody else did: by the
  deadline and 30 s of the API server's clock (of the end of its outage, if it was out of reach of all of them then),
  and never before the deadline.
- Of each change there is one raise and one revert at most, whoever makes them.
- What somebody else wrote stays, and the pod template is only ever what somebody wrote.
- The record is off the object, and the journal (where it was there) has no open change left and tells the true end.

The rules of a bot's writes are checked at every write (tests/changes/memory.py).
"""

import asyncio
import itertools
import json
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from bot.changes.changer import Changer
from bot.changes.deployments import ChangeFailed
from bot.errors import BotError
from bot.store import open_store
from tests.changes.crashes import reworded
from tests.changes.deployments import NOW
from tests.changes.memory import Cluster, MemoryJournal, Replica, Trouble
from tests.changes.replicas import TROUBLES, Record, Several
from tests.changes.rig import NAME, NAMESPACE, NEWEST, Killed, Steps, When, planned
from tests.sampling import Sample

SKEWS = (0, 10_800, -10_800)
WHENS: tuple[When, ...] = ("before", "after")


UNTIL = (15, 300, 585, 600, 615, 630)
LATER = (800, 1000)


async def quietly(work: Awaitable[object]) -> None:
    """What a person is told does not matter here, only what is done."""
    try:
        await work
    except (BotError, Killed):
        return


async def each(one: Callable[..., Awaitable[None]], cases: Sequence[Any], record_property: Record) -> None:
    for case in cases:
        await one(*case)
    record_property("cases", len(cases))


ACTS: dict[str, Callable[[Several, Changer], Awaitable[object]]] = {
    "raise": lambda here, bot: here.raise_(bot),
    "extend": lambda here, bot: bot.extend(NAMESPACE, NAME, NOW + 1200, by="U2"),
    "revert": lambda here, bot: bot.revert(NAMESPACE, NAME, by="U2"),
    "pass": lambda here, bot: bot.passes.reconcile(),
}


async def begun(here: Several, act: str) -> None:
    """What has to be there before the act."""
    here.cluster.asked_early |= {"c1"} if act == "revert" else set()
    if act != "raise":
        await here.raise_(here.replicas[0].changer())
    if act == "pass":
        here.cluster.now += 600


async def steps_of(act: str) -> int:
    here = Several()
    await begun(here, act)
    steps = Steps()
    await ACTS[act](here, here.replicas[0].changer(steps))
    return steps.count


@pytest.mark.parametrize("late_s", [0, 650])
@pytest.mark.parametrize("other", ["pass", "revert", "extend"])
@pytest.mark.parametrize("act", ACTS)
async def test_a_replica_that_stands_still_at_any_step_while_another_acts(
    act: str, other: str, late_s: float, record_property: Record, sample: Sample
) -> None:
    async def one(at: int, when: When) -> None:
        here = Several()
        await begun(here, act)

        async def meanwhile() -> None:
            here.cluster.now += late_s
            if other == "revert":
                here.cluster.asked_early.add("c1")
            await quietly(ACTS[other](here, here.replicas[1].changer()))

        await quietly(ACTS[act](here, here.replicas[0].changer(Steps(at, when, meanwhile))))
        await here.passes(600, 615, 630, 1200, 1850, 1865, 1880, 2450, 2465, 2600)
        here.assert_undone()
        assert await here.journal.opened() == []
        raised = here.cluster.done["raise", "c1"] > 0
        assert here.journal.ends().get("c1") in ({"reverted"} if raised else {"never-raised", None})

    cases = sample(list(itertools.product(range(await steps_of(act)), WHENS)), 4)
    await each(one, cases, record_property)


@pytest.mark.parametrize("bots", [2, 3])
async def test_clocks_that_are_three_hours_wrong(bots: int, record_property: Record, sample: Sample) -> None:
    """The deadline is by the API server's clock, whoever undoes."""

    async def one(skews: Sequence[float], survivor: int) -> None:
        here = Several(bots, skews)
        await here.raise_(Replica(here.cluster, here.journal).changer())
        here.replicas = [here.replicas[survivor]]
        await here.passes(0, 300, 599)
        assert here.cluster.record() is not None
        await here.passes(601, 616, 630)
        here.assert_undone()
        assert here.journal.ends() == {"c1": "reverted"}

    cases = sample(list(itertools.product(itertools.product(SKEWS, repeat=bots), range(bots))), 8)
    await each(one, cases, record_property)


@pytest.mark.parametrize("bots", [2, 3])
async def test_replicas_that_are_cut_off_from_the_api_server(bots: int, record_property: Record) -> None:
    """Every subset of them, from the raise on, around the deadline or for good; with wrong clocks, too."""

    async def one(cut: tuple[bool, ...], since: float, until: float, skews: Sequence[float]) -> None:
        here = Several(bots, skews)
        await here.raise_(Replica(here.cluster, here.journal).changer())
        for moment in sorted({*UNTIL, since, until, until + 15, until + 30}):
            here.cluster.now = max(here.cluster.now, NOW + moment)
            for replica, is_cut in zip(here.replicas, cut, strict=True):
                replica.way.down = is_cut and since <= moment < until
            await here.passes(moment)
            in_time = 630 if not all(cut) or until <= 600 else until + 30
            if moment >= in_time:
                here.assert_undone()
        assert here.journal.ends() == {"c1": "reverted"}

    cases = list(
        itertools.product(
            itertools.product((True, False), repeat=bots),
            (0, 590),
            (605, 900),
            ((0, 0, 0), (120, -120, 0)),
        )
    )
    await each(one, cases, record_property)


@pytest.mark.parametrize("trouble", TROUBLES)
async def test_the_answer_of_the_revert_is_lost_for_some_of_them(trouble: Trouble, record_property: Record) -> None:
    async def one(hit: tuple[bool, ...], early: bool) -> None:
        here = Several(len(hit))
        await here.raise_(here.replicas[0].changer())
        for replica, is_hit in zip(here.replicas, hit, strict=True):
            replica.way.next = trouble if is_hit else None
        if early:
            here.cluster.asked_early.add("c1")
            await here.replicas[0].changer().revert(NAMESPACE, NAME, by="U2")
            here.assert_undone()
        await here.passes(600, 615, 630)
        here.assert_undone()
        assert here.journal.ends() == {"c1": "reverted"}

    hits = [hit for bots in (2, 3) for hit in itertools.product((True, False), repeat=bots)]
    cases = [(hit, early) for hit in hits for early in (False, True) if not (early and trouble == "down")]
    await each(one, cases, record_property)


@pytest.mark.parametrize("down", ["raise", "deadline", "always after the raise", "emptied", "emptied before the end"])
@pytest.mark.parametrize("edit", [False, True], ids=["nobody edits", "somebody edits"])
async def test_a_database_that_is_down_or_lost_keeps_nothing_from_being_undone(down: str, edit: bool) -> None:
    here = Several(2)
    bot = here.replicas[0].changer()
    if down == "raise":
        here.journal.down = True
        with pytest.raises(BotError, match="database"):
            await here.raise_(bot)
        assert not here.cluster.done
        here.journal.down = False
    await here.raise_(bot)
    here.journal.down = down == "always after the raise"
    if down == "emptied":
        here.journal.rows.clear()
    await here.passes(15, 300)
    if edit:
        here.cluster.edit(lambda object_: object_["spec"]["template"]["spec"]["containers"][1]["args"].append("--x"))
    here.journal.down |= down == "deadline"
    if down == "emptied before the end":
        here.journal.rows.clear()
    await here.passes(600, 615, 630)
    assert here.cluster.record() is None
    left = here.cluster.live()["spec"]
    assert left["template"]["spec"]["containers"][1]["args"][3:] == (["--x"] if edit else [])
    del left["template"]["spec"]["containers"][1]["args"][3:]
    assert json.dumps(left) == here.cluster.original
    here.journal.down = False
    await here.passes(*LATER)
    assert here.journal.ends() == {"c1": "reverted"}


@pytest.mark.parametrize("edit", ["appends", "removes", "edits"])
@pytest.mark.parametrize("act", ACTS)
async def test_somebody_edits_an_unrelated_argument_at_any_step(
    act: str, edit: str, record_property: Record, sample: Sample
) -> None:
    async def one(at: int, when: When) -> None:
        here = Several()
        await begun(here, act)

        async def meanwhile() -> None:
            here.cluster.edit(lambda object_: reworded(object_["spec"], edit))

        await quietly(ACTS[act](here, here.replicas[0].changer(Steps(at, when, meanwhile))))
        await here.passes(600, 615, 630, 1200, 1215, 1230)
        expected = json.loads(here.cluster.original)
        reworded(expected, edit)
        assert json.dumps(here.cluster.live()["spec"]) == json.dumps(expected)
        assert here.cluster.record() is None
        assert await here.journal.opened() == []

    cases = sample(list(itertools.product(range(await steps_of(act)), WHENS)), 4)
    await each(one, cases, record_property)


async def test_a_journal_or_a_log_that_hangs_keeps_nothing_from_being_undone() -> None:
    async def hang(*_: object) -> str:
        await asyncio.Event().wait()
        return ""

    class Hanging(MemoryJournal):
        opened = note = hang  # type: ignore[assignment]

    here = Several(2)
    await here.raise_(here.replicas[0].changer())
    here.journal = Hanging()
    bot = Changer(here.replicas[1].writer(), here.journal, now=here.replicas[1].now, endings=hang, patience_s=0.01)
    await bot.passes.reconcile()
    here.cluster.now += 600
    await asyncio.wait_for(bot.passes.reconcile(), 5)
    here.assert_undone()


async def test_what_cannot_be_told_of_one_change_keeps_no_other_from_being_undone() -> None:
    async def unreadable(_: object) -> str:
        raise BotError("the log cannot be read")

    here = Several(2)
    await here.raise_(here.replicas[0].changer())
    bot = Changer(here.replicas[1].writer(), here.journal, now=here.replicas[1].now, endings=unreadable)
    await bot.passes.reconcile()
    here.cluster.now += 600
    await bot.passes.reconcile()
    here.assert_undone()


async def test_where_deployments_cannot_be_listed_the_journal_says_where_to_look() -> None:
    here = Several(2)
    await here.raise_(here.replicas[0].changer())
    send = here.replicas[0].way.send

    async def no_lists(request, limits):
        if request.verb == "list":
            raise OSError("no")
        return await send(request, limits)

    here.replicas = here.replicas[:1]
    here.replicas[0].way.send = no_lists  # type: ignore[method-assign]
    await here.passes(600)
    here.assert_undone()
    assert here.journal.ends() == {"c1": "reverted"}


async def test_two_that_raise_at_once_make_one_change() -> None:
    here = Several(2)
    bots = [replica.changer() for replica in here.replicas]
    plans = [await planned(bot, change_id=f"c{n}") for n, bot in enumerate(bots, 1)]
    raises = (bot.raise_(plan, NEWEST) for bot, plan in zip(bots, plans, strict=True))
    results = await asyncio.gather(*raises, return_exceptions=True)
    assert sorted(type(result).__name__ for result in results) == ["ChangeFailed", "Record"]
    await here.passes(*UNTIL, *LATER)
    assert sorted(here.journal.ends().values()) == ["never-raised", "reverted"]


async def test_the_same_confirmation_twice_makes_one_change() -> None:
    here = Several(2)
    bot = here.replicas[0].changer()
    plan = await planned(bot)
    first = await bot.raise_(plan, NEWEST)
    assert await here.replicas[1].changer().raise_(plan, NEWEST) == first
    await here.passes(*UNTIL)
    here.assert_undone()
    with pytest.raises(BotError):
        await bot.raise_(plan, NEWEST)
    here.assert_undone()


async def test_a_confirmation_that_comes_late_has_its_whole_time() -> None:
    here = Several(2)
    bot = here.replicas[0].changer()
    plan = await planned(bot)
    here.cluster.now += 900
    record = await bot.raise_(plan, NEWEST)
    assert record.deadline == NOW + 1500


async def test_a_storm_of_edits_elsewhere_is_given_up_without_a_write() -> None:
    here = Several(2)
    here.cluster.storm = 3
    with pytest.raises(ChangeFailed, match="repeatedly; nothing was changed"):
        await here.raise_(here.replicas[0].changer())
    assert not here.cluster.done
    here.cluster.storm = 2
    await here.raise_(here.replicas[0].changer())
    await here.passes(*UNTIL)
    here.assert_undone()


@pytest.mark.parametrize("lost", [False, True], ids=["one database", "a new database"])
async def test_with_a_real_database(lost: bool, tmp_path: Path) -> None:
    """The file is removed between the raise and the deadline, and the processes begin with a new one."""
    cluster = Cluster()
    here = Several(2)
    here.cluster = cluster
    async with open_store(f"sqlite:///{tmp_path}/one.db", now=lambda: cluster.now) as store:
        here.replicas = [Replica(cluster, store.changes("lab"), skew) for skew in (0, 120)]
        await here.raise_(here.replicas[0].changer())
        await here.passes(15)
    name = "two" if lost else "one"
    async with open_store(f"sqlite:///{tmp_path}/{name}.db", now=lambda: cluster.now) as store:
        rows = store.changes("lab")
        here.replicas = [Replica(cluster, rows, skew) for skew in (-120, 120)]
        await here.passes(300)
        [known] = await rows.opened()
        assert (known.state, known.uid) == ("effective", "u-1")
        await here.passes(600, 615, 630)
        here.assert_undone()
        assert await rows.opened() == []
