"""A change whose record on the Deployment is damaged or gone goes back by the store's copy, or says that it cannot."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from bot.changes.deployments import ChangeFailed
from bot.changes.kinds import PROFILING
from bot.changes.plan import KEY_PATH, Raise, annotation
from bot.changes.record import write_record
from bot.kube.client.writer import OutcomeUnknown
from tests.changes.deployments import EXTENDER, KUBE_SCHEDULER, NOW, but, wants
from tests.changes.memory import Trouble, scheduler
from tests.changes.records import DAMAGES
from tests.changes.replicas import TROUBLES, Several
from tests.changes.rig import LEVEL, NAME, NAMESPACE, Killed, Rig, Steps, When, crash_points, raised, rig
from tests.sampling import Sample

RUNNING = but(LEVEL, container=KUBE_SCHEDULER, means="debug-flags")


async def begun(here: Several, wanted: Raise = LEVEL, change_id: str = "c1") -> None:
    """The change is made, and a pass has seen it."""
    bot = here.replicas[0].changer()
    await raised(bot, wanted, change_id)
    await bot.passes.reconcile()


def damaged(here: Several, damage: str) -> None:
    record = here.cluster.record()
    assert record
    here.cluster.damage(DAMAGES[damage](write_record(record)))


async def with_damage(damage: str, wanted: Raise = LEVEL, replicas: int = 1) -> Several:
    """A change is open whose record is damaged."""
    here = Several(replicas)
    await begun(here, wanted)
    damaged(here, damage)
    return here


def extender(here: Several) -> list[str]:
    return words_of(here.cluster.live(), EXTENDER)


def words_of(deployment: dict[str, Any], container: str) -> list[str]:
    containers = deployment["spec"]["template"]["spec"]["containers"]
    return next(each["args"] for each in containers if each["name"] == container)


def reworded(here: Several, words: list[str]) -> None:
    """Somebody else edits the extender's words."""
    here.cluster.edit(lambda object_: words_of(object_, EXTENDER).__setitem__(slice(None), words))


@pytest.mark.sampled(6)
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("wanted", [LEVEL, RUNNING], ids=["in the words", "in the running process"])
async def test_what_was_raised_is_back_at_its_deadline_exactly_as_it_was(wanted: Raise, damage: str) -> None:
    here = await with_damage(damage, wanted)
    if wanted is LEVEL:
        await here.passes(599)
        assert "-v=5" in extender(here)
    await here.passes(600)
    assert here.is_as_before()
    assert set(here.cluster.levels.values()) == {"3"}
    assert annotation(here.cluster.live()) is None
    assert here.journal.ends() == {"c1": "reverted"}


@pytest.mark.parametrize("damage", ["off", "broken"])
async def test_that_the_record_is_damaged_is_told_at_once_and_once(damage: str) -> None:
    here = await with_damage(damage)
    bot = here.replicas[0].changer()
    [event] = await bot.passes.reconcile()
    assert (event.kind, event.source, bot.passes.trouble) == ("unreadable", "copy", "")
    assert event.record
    assert event.record.id == "c1"


async def test_what_somebody_else_edited_meanwhile_stays() -> None:
    here = await with_damage("off")
    reworded(here, ["scheduler", "--foreign", "-v=5", "--debug"])
    await here.passes(600)
    assert extender(here) == ["scheduler", "--foreign", "-v=4", "--debug"]
    assert here.journal.ends() == {"c1": "reverted"}


@pytest.mark.parametrize("damage", ["off", "cut"])
async def test_a_flag_that_somebody_else_set_is_left_and_that_is_told(damage: str) -> None:
    here = await with_damage(damage)
    reworded(here, ["scheduler", "-v=2"])
    await here.passes(15, 600, 700)
    assert extender(here) == ["scheduler", "-v=2"]
    assert annotation(here.cluster.live()) is None
    assert here.journal.ends() == {"c1": "drifted"}


@pytest.mark.parametrize("damage", ["off", "cut"])
async def test_a_flag_that_is_back_already_is_told_as_reverted(damage: str) -> None:
    here = await with_damage(damage)
    reworded(here, ["scheduler", "-v=4", "--debug"])
    await here.passes(15)
    assert annotation(here.cluster.live()) is None
    assert here.journal.ends() == {"c1": "reverted"}


@pytest.mark.parametrize("damage", DAMAGES)
async def test_on_a_deployment_that_was_made_anew_nothing_is_reverted_and_that_is_said_until_it_is(damage: str) -> None:
    here = await with_damage(damage)
    here.cluster.create("u-2", here.cluster.live())
    before = json.dumps(here.cluster.live())
    bot = here.replicas[0].changer()
    await here.passes(599)
    here.cluster.now = NOW + 660
    events = [event for event in await bot.passes.reconcile() if event.record]
    if damage not in ("edited", "copied from elsewhere"):
        assert [(event.kind, event.by_hand[:7]) for event in events] == [("failed", "kubectl")]
        assert json.dumps(here.cluster.live()) == before
        assert "cannot be reverted" in bot.passes.trouble
    here.cluster.create("u-3", scheduler())
    await bot.passes.reconcile()
    assert bot.passes.trouble == ""
    assert here.journal.ends() == {"c1": "replaced"}


async def test_our_value_in_several_places_is_left_to_a_person_who_is_given_the_command() -> None:
    here = await with_damage("off")
    reworded(here, ["scheduler", "-v=5", "--debug", "--v=5"])
    here.cluster.now = NOW + 600
    bot = here.replicas[0].changer()
    [event] = await bot.passes.reconcile()
    assert event.kind == "failed"
    assert "several places" in event.detail
    assert KEY_PATH not in event.by_hand  # nothing is there to be taken off
    assert "several places" in bot.passes.trouble


async def test_a_damaged_record_that_the_store_does_not_know_is_said_until_somebody_removes_it() -> None:
    here = await with_damage("broken")
    here.journal.rows.clear()
    bot = here.replicas[0].changer()
    for _ in range(2):
        [event] = await bot.passes.reconcile()
        assert (event.kind, event.record) == ("unreadable", None)
        assert f"{NAMESPACE}/{NAME} cannot be reverted" in bot.passes.trouble
    here.cluster.damage(None)
    assert await bot.passes.reconcile() == []
    assert bot.passes.trouble == ""


async def test_of_several_open_changes_the_one_whose_record_is_damaged_goes_back_beside_the_others() -> None:
    here = await with_damage("off", but(LEVEL, seconds=60))
    await begun(here, wants(PROFILING, "true", EXTENDER, 600, "U1"), "c2")
    await here.passes(60)
    assert extender(here) == ["scheduler", "-v=4", "--debug", "--profiling=true"]
    second = here.cluster.record()
    assert second
    assert second.id == "c2"
    await here.passes(600)
    here.assert_undone()
    assert here.journal.ends() == {"c1": "reverted", "c2": "reverted"}


async def test_a_change_of_another_container_keeps_its_own_record() -> None:
    here = await with_damage("off", but(LEVEL, seconds=60))
    await begun(here, but(RUNNING, value="6"), "c2")
    await here.passes(60)
    assert "-v=4" in extender(here)
    assert set(here.cluster.levels.values()) == {"6"}
    await here.passes(600)
    here.assert_undone()
    assert set(here.cluster.levels.values()) == {"3"}


@pytest.mark.parametrize("second", ["off", "broken", "whole"])
@pytest.mark.parametrize(("first_s", "second_s"), [(60, 600), (600, 60)])
async def test_changes_of_one_flag_go_back_in_the_order_in_which_they_stand_on_each_other(
    second: str, first_s: int, second_s: int
) -> None:
    here = await with_damage("off", but(LEVEL, seconds=first_s))
    await begun(here, but(LEVEL, value="6", seconds=second_s), "c2")
    if second != "whole":
        damaged(here, second)
    await here.passes(60)
    assert "-v=6" in extender(here) if second_s == 600 else "-v=5" in extender(here)
    await here.passes(600)
    here.assert_undone()
    assert here.journal.ends() == {"c1": "reverted", "c2": "reverted"}


async def test_what_another_version_wrote_of_another_change_is_neither_read_nor_removed() -> None:
    here = Several(1)
    await begun(here)
    record = here.cluster.record()
    assert record
    text = write_record(record).replace('"v":1', '"v":2').replace('"c1"', '"c9"')
    here.cluster.damage(text)
    here.cluster.now = NOW + 660
    bot = here.replicas[0].changer()
    await bot.passes.reconcile()
    assert "-v=5" in extender(here)
    assert annotation(here.cluster.live()) == text
    assert "another change that cannot be read" in bot.passes.trouble


async def test_two_processes_revert_it_once_and_the_loser_touches_nothing() -> None:
    here = await with_damage("cut", replicas=2)
    here.cluster.now = NOW + 600
    await asyncio.gather(*(replica.changer().passes.reconcile() for replica in here.replicas))
    await here.passes(615)
    here.assert_undone()
    assert here.cluster.done["revert", "c1"] == 1


@pytest.mark.parametrize("trouble", TROUBLES)
async def test_a_write_that_fails_is_tried_again_and_nobody_is_told_that_there_is_no_copy(trouble: Trouble) -> None:
    here = await with_damage("broken")
    here.cluster.now = NOW + 600
    here.replicas[0].way.next = trouble
    bot = here.replicas[0].changer()
    for _ in range(2):
        assert [event for event in await bot.passes.reconcile() if event.record is None] == []
    here.assert_undone()
    assert here.journal.ends() == {"c1": "reverted"}


@pytest.mark.parametrize("damage", DAMAGES)
async def test_somebody_who_reverts_it_now_reverts_it(damage: str) -> None:
    here = await with_damage(damage)
    here.cluster.asked_early.add("c1")
    event = await here.replicas[0].changer().revert(NAMESPACE, NAME, by="U2")
    assert (event.kind, event.by) == ("reverted", "U2")
    here.assert_undone()
    assert here.journal.ends() == {"c1": "reverted"}


async def test_a_record_that_is_gone_is_nothing_to_revert_where_the_store_has_no_change_either() -> None:
    here = Several(1)
    with pytest.raises(ChangeFailed, match="is not there"):
        await here.replicas[0].changer().revert(NAMESPACE, NAME, by="U2")


async def test_a_deadline_that_was_moved_holds_for_the_copy_too() -> None:
    here = Several(1)
    await begun(here)
    await here.replicas[0].changer().extend(NAMESPACE, NAME, NOW + 1200, by="U2")
    damaged(here, "off")
    await here.passes(600, 1199)
    assert "-v=5" in extender(here)
    await here.passes(1200)
    here.assert_undone()


async def test_an_edited_record_that_is_extended_leaves_the_copy_as_it_is() -> None:
    here = await with_damage("edited")
    await here.replicas[0].changer().extend(NAMESPACE, NAME, NOW + 1200, by="U2")
    [change] = await here.journal.opened()
    assert (change.record.new, change.record.deadline) == ("5", NOW + 1200)
    await here.passes(1200)
    here.assert_undone()


async def test_while_the_store_is_out_of_reach_it_is_said_and_once_it_is_back_it_is_reverted() -> None:
    here = await with_damage("broken")
    here.journal.down = True
    here.cluster.now = NOW + 700
    bot = here.replicas[0].changer()
    await bot.passes.reconcile()
    assert "cannot be reverted" in bot.passes.trouble
    here.journal.down = False
    await bot.passes.reconcile()
    here.assert_undone()
    assert bot.passes.trouble == ""


async def test_a_raise_that_was_killed_before_it_was_noted_goes_back_without_its_record_too() -> None:
    here = Several(1)
    bot = here.replicas[0].changer(Steps(3, "after"))
    with pytest.raises(Killed):
        await here.raise_(bot)
    assert "-v=5" in extender(here)
    here.cluster.damage(None)
    await here.passes(150, 600)
    here.assert_undone()
    assert here.journal.ends() == {"c1": "reverted"}


# ------------------------------------------------------------------------------- over real sockets, with a real store


async def removed(here: Rig) -> None:
    await here.writer.patch_deployment(NAMESPACE, NAME, ({"op": "remove", "path": KEY_PATH},))


async def cut(here: Rig) -> None:
    text = annotation(await here.live()) or ""
    await here.writer.patch_deployment(NAMESPACE, NAME, ({"op": "replace", "path": KEY_PATH, "value": text[:90]},))


SPOILT: dict[str, Callable[[Rig], Awaitable[None]]] = {"removed": removed, "cut": cut}


async def spoilt(here: Rig, how: str) -> None:
    """A change is open, and known; its record is not to be read any more."""
    await here.raise_(here.bot())
    await here.passes(15)
    await SPOILT[how](here)
    here.now = NOW + 600


@pytest.mark.parametrize("how", SPOILT)
async def test_killed_at_any_step_of_a_revert_by_copy_it_is_reverted_once(
    how: str, tmp_path: Path, record_property: Callable[[str, object], None], sample: Sample
) -> None:
    async def steps() -> list[str]:
        async with rig(tmp_path / "whole") as here:
            await spoilt(here, how)
            counted = Steps()
            await here.bot(counted).passes.reconcile()
            assert await here.is_as_before()
            return counted.names

    async def one(at: int, when: When) -> None:
        async with rig(tmp_path / f"{at}-{when}") as here:
            await spoilt(here, how)
            with pytest.raises(Killed):
                await here.bot(Steps(at, when)).passes.reconcile()
            await ended_well(here)

    points = sample(crash_points(await steps()), 3)
    for at, when in points:
        await one(at, when)
    record_property("crash_points", len(points))


@pytest.mark.parametrize("how", SPOILT)
@pytest.mark.parametrize("when", ["before", "after"])
async def test_where_the_answer_of_a_revert_by_copy_is_lost_the_same_holds(
    how: str, when: When, tmp_path: Path
) -> None:
    async with rig(tmp_path) as here:
        await spoilt(here, how)
        counted = Steps()

        async def lost() -> None:
            raise OutcomeUnknown("the connection was closed")

        async with rig(tmp_path / "whole") as other:
            await spoilt(other, how)
            await other.bot(counted).passes.reconcile()
        await here.bot(Steps(counted.names.index("patch_deployment"), when, lost)).passes.reconcile()
        await ended_well(here)


async def ended_well(here: Rig) -> None:
    await here.passes(615, 630, bots=(here.bot(), here.bot()))
    assert await here.is_as_before()
    assert here.writer.template_writes == 2
    assert await here.store.changes("lab").opened() == []
    known = await here.store.changes("lab").known("c1")
    assert known
    assert known.state == "reverted"
