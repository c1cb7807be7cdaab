"""Whoever may not, is refused on every surface, told why and who may, and it is written down; nothing is changed."""

import json

from bot.settings.schema import AccessSettings
from tests.slack.bot import Mode
from tests.slack.changing import ADA, GRACE, LINUS, ONCALL, World, actions, played, text_of

ASKED = "verbosity 5 for 10m because it hangs"


async def refused(world: World, containing: str, times: int = 1) -> str:
    """The newest of so many refusals that Grace alone sees, in the channel and in no thread."""
    seen = await world.slack.wait_for(
        lambda: [
            message
            for message in world.slack.messages("gpu-oncall", "grace")
            if message.get("ephemeral") and containing in text_of(message)
        ][times - 1 :]
    )
    return text_of(seen[-1])


@played()
async def test_one_who_may_not_is_told_who_may_and_it_is_written_down(world: World, *, mode: Mode) -> None:
    for times, surface in enumerate((world.slack.command, world.slack.mention), 1):
        await surface("grace", "gpu-oncall", ASKED)
        told = await refused(world, "You may not change the scheduler", times)
        assert ADA in told
        assert LINUS in told
        assert world.slack.views("grace") == []
        assert await world.audit() == [(GRACE, "raise", "denied")] * times
    head = await world.slack.say("ada", "gpu-oncall", "what now?")
    seen = len(world.slack.journal.of("api", "chat.postEphemeral"))
    await world.slack.mention("grace", "gpu-oncall", ASKED, thread_ts=head.ts)
    await world.slack.wait_for(lambda: len(world.slack.journal.of("api", "chat.postEphemeral")) > seen)
    assert await world.audit() == [(GRACE, "raise", "denied")] * 3
    assert not await world.is_open()


@played(access=AccessSettings())
async def test_by_default_everybody_may_read_and_nobody_may_change(world: World, *, mode: Mode) -> None:
    await world.slack.command("grace", "gpu-oncall", "verbosity")
    assert "-v=4" in text_of(await world.told("grace", "no change is open"))
    await world.command("grace", f"{ASKED.split(' because', maxsplit=1)[0]} --dry-run", "-v=5")
    assert await world.audit() == []
    await world.command("ada", ASKED, "nobody may change the scheduler")
    assert await world.audit() == [(ADA, "raise", "denied")]


@played()
async def test_an_open_change_is_out_of_reach_of_one_who_may_not(world: World, *, mode: Mode) -> None:
    card = await world.raised()
    for times, action in enumerate(("change:revert", "change:extend"), 1):
        await world.click("grace", card, action)
        await refused(world, "You may not", times)
        assert (await world.audit())[-1] == (GRACE, action.split(":")[1], "denied")
    for times, words in enumerate(("verbosity revert", "verbosity extend 20m"), 3):
        await world.slack.command("grace", "gpu-oncall", words)
        await refused(world, "You may not", times)
        assert (await world.audit())[-1] == (GRACE, words.split()[1], "denied")
    await world.slack.say("ada", "gpu-oncall", "who needs this?", thread_ts=card["ts"])
    await world.click("grace", card, "change:extend")
    await refused(world, "You may not", 5)  # beside the card, though it has a thread
    assert await world.is_open()


@played()
async def test_a_form_that_somebody_else_sends_back_is_refused(world: World, *, mode: Mode) -> None:
    form = await world.offered(ASKED)
    forged = {"id": "V0FORGED", "hash": "1", "type": "modal", "callback_id": "change", "state": form["state"]}
    forged["state"] = {"values": {"because": {"text": {"type": "plain_text_input", "value": "x"}}}}
    forged["private_metadata"] = form["private_metadata"]
    await world.sent("grace", "view_submission", view=forged)
    await refused(world, "You may not")
    assert (await world.audit())[-1] == (GRACE, "raise", "denied")
    assert not await world.is_open()


FORGED = ("", "{", "[]", '{"v":2}', '{"v":1,"key":1,"cluster":"","target":"a/b","digest":""}', "x" * 2000)


@played()
async def test_a_forged_button_and_one_about_another_object_or_cluster_change_nothing(world: World) -> None:
    card, times = await world.raised(), 0
    for action in ("change:revert", "change:extend", "change:confirm", "change:approve"):
        for value in FORGED:
            times += 1
            await world.pressed("ada", card, action, value, "does not recognise this button", times)
            denied = [outcome for _, _, outcome in await world.audit()][-times:]
            assert denied == ["denied"] * times, (action, value)
            assert await world.is_open(), (action, value)
    about = json.loads(actions(card)["change:revert"])
    for other, told in (
        ({"target": "ml/elsewhere"}, "not found"),
        ({"key": "0123456789ab"}, "no longer open"),
        ({"cluster": "prod"}, "no cluster"),
    ):
        await world.pressed("ada", card, "change:revert", json.dumps(about | other), told)
        assert (await world.audit())[-1][2] in ("denied", "failed")
    assert await world.is_open()


@played()
async def test_a_button_that_comes_late_changes_nothing(world: World, *, mode: Mode) -> None:
    card = await world.raised()
    value = actions(card)
    await world.click("ada", card, "change:revert")
    await world.card("Reverted")
    for times, action in enumerate(("change:revert", "change:extend"), 1):
        await world.pressed("ada", card, action, value[action], "no longer open", times)
        assert (await world.audit())[-1] == (ADA, action.split(":")[1], "denied")


@played()
async def test_a_form_sent_twice_makes_one_change(world: World, *, mode: Mode) -> None:
    form = await world.offered(ASKED)
    sent = {"id": form["id"], "hash": form["hash"], "type": "modal", "callback_id": "change"}
    sent |= {"state": {"values": {"because": {"text": {"type": "plain_text_input", "value": "x"}}}}}
    sent["private_metadata"] = form["private_metadata"]
    for number in range(3):  # the same delivery twice, then one of its own
        await world.sent("ada", "view_submission", view=sent | {"hash": str(number // 2)})
    await world.card("In effect")
    await world.told("ada", "You confirmed this before")
    outcomes = [outcome for _, _, outcome in await world.audit()]
    assert outcomes.count("raised") == 1
    assert outcomes.count("denied") == 1


@played()
async def test_what_was_confirmed_before_is_not_done_again_after_it_ended(world: World) -> None:
    offered = await world.mention("ada", ASKED, "4 → 5")
    value = actions(offered)["change:confirm"]
    await world.click("ada", offered, "change:confirm")
    card = await world.card("In effect")
    await world.click("ada", card, "change:revert")
    await world.card("Reverted")
    await world.pressed("ada", card, "change:confirm", value, "You confirmed this before")
    assert not await world.is_open()


@played()
async def test_what_was_shown_long_ago_or_is_not_what_was_shown_any_more_is_not_done(world: World) -> None:
    await world.offered(ASKED)
    world.ahead_s = 601
    await world.submit("ada", "x")
    await world.told("ada", "too old to confirm")
    assert (await world.audit())[-1] == (ADA, "raise", "denied")
    await world.offered(ASKED)
    await world.edited()
    await world.submit("ada", "x")
    await world.told("ada", "changed since the plan was shown")
    assert not await world.is_open()


@played(access=AccessSettings(operators=(ADA,), changes_per_hour=2))
async def test_no_more_changes_than_the_settings_allow_in_an_hour(world: World) -> None:
    for _ in range(2):
        card = await world.raised()
        await world.click("ada", card, "change:revert")
        await world.slack.wait_for(lambda: not world.cards("In effect"))
    await world.asked(ASKED, "again")
    await world.told("ada", "you asked for 2 changes within an hour")
    assert not await world.is_open()
    world.ahead_s = 3700
    await world.raised()


@played(access=AccessSettings(operators=(ONCALL,)))
async def test_members_of_a_user_group_may_and_others_may_not(world: World, *, mode: Mode) -> None:
    await world.slack.command("ada", "gpu-oncall", ASKED)
    assert ONCALL in text_of(await world.told("ada", "You may not"))
    await world.offered(ASKED, "grace")
    await world.submit("grace", "it hangs")
    card = await world.card("In effect")
    assert GRACE in text_of(card)
    assert len(world.slack.journal.of("api", "usergroups.users.list")) == 1


@played(access=AccessSettings(operators=(ADA,), channels=("C0GPUONC01",)))
async def test_changes_are_asked_for_in_the_channels_of_the_settings(world: World) -> None:
    await world.slack.command("ada", "general", ASKED)
    await world.slack.wait_for(channel="general", containing="changes are not asked for here", user="ada")
    assert await world.audit() == [(ADA, "raise", "denied")]
    await world.raised()


@played()
async def test_where_the_card_could_not_stand_nothing_is_begun(world: World) -> None:
    await world.slack.command("linus", "gpu-budget", ASKED)
    await world.slack.wait_for(lambda: "not a member" in text_of(world.slack.views("linus")))
    assert (await world.audit())[-1] == (LINUS, "raise", "denied")
