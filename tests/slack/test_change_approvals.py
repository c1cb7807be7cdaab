"""Two people for a change: what somebody asked for is made when another agrees to exactly that, in time, once."""

import asyncio
from functools import partial
from pathlib import Path

import pytest

from bot.settings.schema import AccessSettings
from sandbox.apiserver import Rule
from sandbox.slack import Fault
from tests.slack.bot import Mode
from tests.slack.changing import ADA, GRACE, LINUS, ONCALL, TWO, World, a_bot, a_place, actions, played, text_of

ASKED = "verbosity 5 for 10m because it hangs"
BOTH_ROLES = AccessSettings(operators=(ADA,), approvers=(LINUS, ADA), two_person=True)


async def waiting(world: World) -> dict:
    """The card of a change that ada asked for."""
    await world.asked(ASKED, "it hangs")
    card = await world.card("Pending approval")
    assert not await world.is_open()
    return card


@played(access=TWO)
async def test_what_another_approves_is_made(world: World, *, mode: Mode) -> None:
    card = await waiting(world)
    assert list(actions(card)) == ["change:approve", "change:refuse"]
    await world.click("linus", card, "change:approve")
    made = await world.card("In effect")
    assert made["ts"] == card["ts"]
    assert {ADA, LINUS} <= set(text_of(made).split())
    told = await world.audit()
    assert (LINUS, "approve", "approved") in told
    assert (ADA, "raise", "planned") in told
    assert told.index((LINUS, "approve", "approved")) < told.index((ADA, "raise", "planned"))


@played(access=TWO)
async def test_what_another_refuses_is_not_made(world: World, *, mode: Mode) -> None:
    card = await waiting(world)
    value = actions(card)["change:approve"]
    await world.click("linus", card, "change:refuse")
    ended = await world.card("Not approved")
    assert actions(ended) == {}
    await world.pressed("grace", card, "change:approve", value, "decided before: refused")
    assert (await world.audit())[-1] == (GRACE, "approve", "denied")
    assert not await world.is_open()


@played(access=BOTH_ROLES)
async def test_one_who_is_no_approver_decides_nothing_and_nobody_approves_their_own(
    world: World, *, mode: Mode
) -> None:
    card = await waiting(world)
    for times, action in enumerate(("change:approve", "change:refuse"), 1):
        await world.click("grace", card, action, "You may not", times)
        assert (await world.audit())[-1] == (GRACE, action.split(":")[1], "denied")
    assert LINUS in text_of(await world.click("ada", card, "change:approve", "somebody else has to approve"))
    assert (await world.audit())[-1] == (ADA, "approve", "denied")
    await world.click("ada", card, "change:refuse")  # but may take it back
    await world.card("Not approved")
    assert not await world.is_open()


@played(access=TWO)
async def test_it_is_approved_once_however_many_click(world: World, *, mode: Mode) -> None:
    card = await waiting(world)
    value = actions(card)["change:approve"]
    await world.click("linus", card, "change:approve")
    await world.pressed("grace", card, "change:approve", value, "decided before: approved")
    await world.card("In effect")
    await world.pressed("linus", card, "change:approve", value, "decided before: approved")
    outcomes = [outcome for _, _, outcome in await world.audit()]
    assert (outcomes.count("approved"), outcomes.count("raised"), outcomes.count("denied")) == (1, 1, 2)


@played(access=TWO)
async def test_after_ten_minutes_nobody_approves_it(world: World) -> None:
    card = await waiting(world)
    value = actions(card)["change:approve"]
    world.ahead_s = 601
    ended = await world.card("Nobody approved in time")
    assert actions(ended) == {}
    await world.pressed("linus", card, "change:approve", value, "decided before: expired")
    told = await world.audit()
    assert ("hami-bot", "approve", "expired") in told
    assert told[-1] == (LINUS, "approve", "denied")
    assert not await world.is_open()


EDITS = {
    "the pod template": ("/spec/template/metadata/annotations", {"touched": "yes"}),
    "replicas": ("/spec/replicas", 2),
    "the strategy": ("/spec/strategy", {"type": "Recreate"}),
    "the owner": ("/metadata/annotations/argocd.argoproj.io~1tracking-id", "gpu:apps/Deployment"),
}


@played(access=TWO)
async def test_an_edit_of_what_a_change_rests_on_makes_it_void(world: World) -> None:
    for times, (what, (path, value)) in enumerate(EDITS.items(), 1):
        card = await waiting(world)
        edit = ({"op": "add", "path": path, "value": value},)
        await world.writer.patch_deployment("hami-system", "hami-scheduler", edit)
        await world.click("linus", card, "change:approve")
        void = partial(world.cards, "No longer what was requested")
        [ended] = await world.slack.wait_for(
            lambda void=void, ts=card["ts"]: [message for message in void() if message["ts"] == ts], seconds=180
        )
        assert "has changed since" in text_of(ended), what
        assert actions(ended) == {}, what
        await world.told("linus", "nothing was changed", times)
        assert (await world.audit())[-1] == (LINUS, "approve", "denied"), what
        assert not await world.is_open(), what


async def touched(world: World) -> None:
    """A label, an annotation and the pods' readiness change."""
    for place in ("labels", "annotations"):
        meta = ({"op": "add", "path": f"/metadata/{place}/touched", "value": "yes"},)
        await world.writer.patch_deployment("hami-system", "hami-scheduler", meta)
    await world.scheduler_is(ready=False)
    await world.scheduler_is(ready=True)


@played(access=TWO)
async def test_what_a_change_does_not_rest_on_leaves_its_approval_good(world: World) -> None:
    card = await waiting(world)
    await touched(world)
    await world.click("linus", card, "change:approve")
    made = await world.card("In effect")
    await touched(world)
    await world.click("ada", made, "change:extend")
    asked = await world.card("Pending approval")
    await touched(world)
    await world.click("linus", asked, "change:approve")
    await world.card("Approved and done")


@played(access=TWO)
async def test_while_the_schedulers_pods_are_not_ready_it_goes_on_waiting(world: World) -> None:
    card = await waiting(world)
    await world.scheduler_is(ready=False)
    await world.click("linus", card, "change:approve")
    told = text_of(await world.told("linus", "a rollout of hami-system/hami-scheduler is under way"))
    assert "still pending approval" in told
    assert world.cards("Pending approval")
    await world.scheduler_is(ready=True)
    await world.click("linus", card, "change:approve")
    await world.card("In effect")


@played(access=TWO)
async def test_a_forged_approval_is_none(world: World) -> None:
    card = await waiting(world)
    value = actions(card)["change:approve"]
    digest = value.split('"digest":"')[1][:64]
    for times, other in enumerate((value.replace(digest, "0" * 64), value.replace('"key":"', '"key":"x')), 1):
        await world.pressed("linus", card, "change:approve", other, "nothing of that kind waits", times)
        assert (await world.audit())[-1] == (LINUS, "approve", "denied")
    assert not await world.is_open()


@played(access=TWO)
async def test_an_extension_needs_an_approval_of_its_own_and_beyond_the_longest_time_nobody_is_asked_for_one(
    world: World, *, mode: Mode
) -> None:
    await world.click("linus", await waiting(world), "change:approve")
    card = await world.card("In effect")
    await world.slack.command("ada", "gpu-oncall", "verbosity extend 4h")
    assert "it can be extended by 230 min at most" in text_of(await world.told("ada", "a change lasts at most 4h"))
    assert world.cards("Pending approval") == []
    assert (await world.audit())[-1] == (ADA, "extend", "denied")
    until = (await world.record())["at"]
    await world.click("ada", card, "change:extend")
    asked = await world.card("Pending approval")
    assert asked["ts"] != card["ts"]
    assert (await world.record())["at"] == until
    await world.click("grace", asked, "change:approve")
    longer = await world.card("Extended")
    assert longer["ts"] == card["ts"]
    done = await world.card("Approved and done")
    assert (done["ts"], actions(done)) == (asked["ts"], {})
    assert (await world.record())["at"] > until


@played(access=TWO)
async def test_what_was_approved_and_cannot_be_made_says_so(world: World) -> None:
    card = await waiting(world)
    world.cluster.access.refused = [Rule(["get"], ["pods/log"])]
    await world.click("linus", card, "change:approve")
    ended = await world.card("Approved, but not done")
    assert ended["ts"] == card["ts"]
    assert "could not be kept" in text_of(ended)
    assert actions(ended) == {}
    await world.told("linus", "could not be kept")
    assert not await world.is_open()


async def test_while_slack_tells_no_groups_nothing_is_decided(tmp_path: Path) -> None:
    """Grace may ask as one of a group; the bot is new when Linus approves, and knows no group's members yet."""
    access = AccessSettings(operators=(ONCALL,), approvers=(LINUS,), two_person=True)
    async with asyncio.timeout(180), a_place(tmp_path) as world:
        async with a_bot(world, access=access):
            await world.offered(ASKED, "grace")
            await world.submit("grace", "it hangs")
            card = await world.card("Pending approval")
        async with a_bot(world, access=access):
            fault = world.slack.faults.append(Fault("status", where="usergroups", times=None))
            await world.click("linus", card, "change:approve", "could not be checked")
            assert (await world.audit())[-1] == (LINUS, "approve", "failed")
            world.slack.faults.remove(fault)
            await world.click("linus", card, "change:approve")
            await world.card("In effect")


async def asked_to_extend(world: World) -> dict:
    """The card of an extension that ada asked for, which waits for its approval."""
    await world.click("ada", await world.card("In effect"), "change:extend")
    return await world.card("Pending approval")


@pytest.mark.parametrize("how", ["somebody reverts it", "its deadline comes"])
@played(access=TWO)
async def test_an_extension_loses_its_buttons_once_it_is_refused_or_its_change_has_ended(
    world: World, *, how: str
) -> None:
    await world.click("linus", await waiting(world), "change:approve")
    asked = await asked_to_extend(world)
    await world.click("linus", asked, "change:refuse")
    ended = await world.card("Not approved")
    assert (ended["ts"], actions(ended)) == (asked["ts"], {})
    asked = await asked_to_extend(world)
    value = actions(asked)["change:approve"]
    if how == "its deadline comes":
        await world.rewritten(await world.record() | {"at": "2026-01-01T00:00:00Z"})
    else:
        await world.click("ada", await world.card("In effect"), "change:revert")
    await world.card("Reverted")
    ended = await world.card("No longer what was requested")
    assert (ended["ts"], actions(ended)) == (asked["ts"], {})
    assert "no longer open" in text_of(ended)
    await world.pressed("linus", asked, "change:approve", value, "decided before: void")
    assert ("hami-bot", "approve", "void") in await world.audit()
