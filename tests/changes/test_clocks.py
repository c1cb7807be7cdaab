"""Deadlines are the API server's, whatever the clocks of the bots say, and when they are set."""

import contextlib
import itertools
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from bot.changes.changer import Changer
from bot.changes.deployments import ChangeFailed
from bot.kube.client.responses import ServerClock
from bot.settings.schema import AccessSettings
from bot.store import open_store
from bot.texts import in_english
from handlers.changes.journal import ChangeJournal
from tests.changes.deployments import NOW, but
from tests.changes.memory import Cluster, Replica
from tests.changes.replicas import Record, Several, lent_of
from tests.changes.rig import LEVEL, NAME, NAMESPACE, NEWEST, Killed, Steps, When, planned, raised, rig
from tests.stores import new_store

DATE = "Sat, 21 Nov 2026 05:00:00 GMT"


def test_between_two_answers_the_servers_time_goes_on_by_a_clock_that_nobody_sets() -> None:
    steady = [100.0]
    clock = ServerClock(lambda: steady[0])
    assert clock.time() is None
    clock.answered("pods", DATE)
    steady[0] += 7.5
    clock.answered("pods", "no date")
    assert clock.time() == NOW + 7.5


@pytest.mark.parametrize("skew_s", [10_800, -10_800, 61, -61])
async def test_a_bot_whose_clock_is_wrong_raises_nothing_and_says_why(skew_s: float) -> None:
    here = Several(1, (0,))
    plan = await planned(here.replicas[0].changer())
    here.replicas[0].skew_s = skew_s
    with pytest.raises(ChangeFailed, match=r"the API server's") as told:
        await here.replicas[0].changer().raise_(plan, NEWEST)
    assert "NTP" in in_english(told.value.hint)
    assert not here.cluster.done


@pytest.mark.parametrize("skew_s", [59, -59])
async def test_a_clock_that_is_a_little_wrong_raises_by_the_servers(skew_s: float) -> None:
    here = Several(1, (skew_s,))
    await here.raise_(here.replicas[0].changer())
    record = here.cluster.record()
    assert record
    assert (record.since, record.deadline) == (NOW, NOW + 600)


@pytest.mark.parametrize(("before", "after"), list(itertools.permutations((0, 10_800, -10_800), 2)))
async def test_a_clock_that_is_set_while_a_change_is_open_moves_no_deadline(before: float, after: float) -> None:
    here = Several(2, (0, before))
    await here.raise_(here.replicas[0].changer())
    here.replicas = here.replicas[1:]
    await here.passes(15, 300)
    here.replicas[0].skew_s = after
    await here.passes(310, 599)
    assert here.cluster.record() is not None
    await here.passes(600)
    here.assert_undone()
    assert here.journal.ends() == {"c1": "reverted"}


async def misdated(skew_s: float = 0) -> Several:
    """A change that was raised for 10 minutes with a clock that is 3 h ahead, and a replica that has not seen it."""
    here = Several(1, (0,))
    await here.raise_(Replica(here.cluster, here.journal).changer())
    record = here.cluster.record()
    assert record
    here.cluster.misdate(record, 10_800)
    here.replicas[0].skew_s = skew_s
    return here


@pytest.mark.parametrize("skew_s", [0, 10_800, -10_800])
async def test_a_change_from_the_future_lasts_its_own_time_and_that_is_told(skew_s: float) -> None:
    here = await misdated(skew_s)
    await here.passes(15)
    assert here.journal.told[-1].kind == "retimed"
    await here.passes(30, 614)
    record = here.cluster.record()
    assert record
    assert record.deadline == NOW + 615
    await here.passes(615)
    here.assert_undone()
    assert [event.kind for event in here.journal.told].count("retimed") == 1


async def test_killed_at_any_step_a_change_from_the_future_ends_in_time(
    record_property: Record,
) -> None:
    async def steps() -> int:
        counted = Steps()
        await (await misdated()).replicas[0].changer(counted).passes.reconcile()
        return counted.count

    async def one(at: int, when: When) -> None:
        here = await misdated()
        with pytest.raises(Killed):
            await here.replicas[0].changer(Steps(at, when)).passes.reconcile()
        await here.passes(15, 600, 615)
        here.assert_undone()
        assert await here.journal.opened() == []

    cases = list(itertools.product(range(await steps()), ("before", "after")))
    for at, when in cases:
        await one(at, when)  # type: ignore[arg-type]
    record_property("crash_points", len(cases))


@pytest.mark.parametrize("skew_s", [10_800, -10_800])
async def test_over_real_sockets_what_is_due_is_due_by_the_date_of_the_answers(skew_s: float, tmp_path: Path) -> None:
    async with rig(tmp_path) as here:
        await here.raise_(here.bot())
        wrong: Changer = here.bot(skew_s=skew_s)
        await here.passes(15, 599, bots=(wrong,))
        assert "-v=5" in await here.words()
        await here.passes(600, bots=(wrong,))
        assert await here.is_as_before()


@pytest.mark.parametrize("skew_s", [10_800, -10_800, 0])
async def test_an_early_revert_that_fails_is_late_by_the_servers_clock_alone(skew_s: float, tmp_path: Path) -> None:
    """Early it calls nobody; when it is late the reminder comes, which no false one has used up."""
    cluster = Cluster()
    bot = Replica(cluster, None)
    async with open_store(new_store(tmp_path / "store.db")) as store:
        bot.journal = ChangeJournal("lab", lambda: lent_of(store, bot.now, ("lab",)), AccessSettings())
        await raised(bot.changer(), but(LEVEL, channel="C1"))
        bot.skew_s = skew_s
        cluster.edit(lambda object_: _args(object_).append("-v=5"))
        cluster.now += 60
        with pytest.raises(ChangeFailed, match="several places"):
            await bot.changer().revert(NAMESPACE, NAME, by="U1")
        assert _calls(tmp_path) == []
        cluster.now += 540 + 120
        with pytest.raises(ChangeFailed, match="several places"):
            await bot.changer().revert(NAMESPACE, NAME, by="U1")
        assert _calls(tmp_path) == ["change:c1:late:0"]


def _args(deployment: dict[str, Any]) -> list[str]:
    return deployment["spec"]["template"]["spec"]["containers"][1]["args"]


def _calls(folder: Path) -> list[str]:
    """The keys of what calls for help."""
    with contextlib.closing(sqlite3.connect(folder / "store.db")) as connection:
        return [key for (key,) in connection.execute("select key from outbox where key like '%:late:%'")]
