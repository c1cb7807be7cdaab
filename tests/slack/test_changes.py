"""A temporary change in Slack from the command to its end, over the real bot, a pretended Slack and cluster."""

from collections.abc import Iterator
from typing import Any

from tests.slack.bot import Mode
from tests.slack.changing import ADA, World, actions, played, text_of


@played()
async def test_a_change_is_shown_confirmed_made_and_reverted(world: World, *, mode: Mode) -> None:
    before = await world.deployment()
    form = await world.offered("verbosity 5 for 10m")
    assert "4 → 5" in text_of(form)
    assert not await world.is_open()
    await world.submit("ada", "trainer-0 hangs")
    card = await world.card("In effect")
    assert "-v=5" in await world.words()
    assert "trainer-0 hangs" in text_of(card)
    assert list(actions(card)) == ["change:revert", "change:extend"]
    await world.click("ada", card, "change:revert")
    ended = await world.card("Reverted")
    assert ended["ts"] == card["ts"]
    assert actions(ended) == {}
    after = await world.deployment()
    assert after["spec"] == before["spec"]
    assert not await world.is_open()
    outcomes = [outcome for _, _, outcome in await world.audit()]
    assert outcomes == ["requested", "planned", "raised", "effective", "reverted"]


@played()
async def test_who_asked_for_an_open_change_is_shown_by_name_and_nobody_is_called(world: World) -> None:
    await world.raised()
    await world.slack.command("grace", "gpu-oncall", "verbosity")
    shown = (await world.told("grace", "is set on"))["blocks"]
    assert {"type": "user", "user_id": ADA} in list(_objects_in(shown))
    assert [element for element in _objects_in(shown) if ADA in str(element.get("text", ""))] == []


WHERE_NOTHING_IS_OPEN = (
    ("verbosity", "vgpu-scheduler-extender logs at -v=4 (kube-scheduler at -v=4); no change is open"),
    ("profiling", "--profiling is not set; no change is open"),
    (
        "tune try",
        "--kube-qps is 5 (the default), --kube-burst is 10 (the default), --kube-timeout is 0 (the default); no",
    ),
    ("verbosity revert", "Nothing to revert: no temporary change is open"),
    ("revert", "Nothing to revert: no temporary change is open on hami-system/hami-scheduler"),
    ("undo", "Nothing to revert: no temporary change is open on hami-system/hami-scheduler"),
)


@played()
async def test_what_is_set_is_told_in_one_message_without_files(world: World) -> None:
    seen: list[str] = []
    for words, said in WHERE_NOTHING_IS_OPEN:
        await world.slack.command("grace", "gpu-oncall", words)
        told = text_of(await world.told("grace", said, 1 + sum(said in text for text in seen)))
        assert "direct messages" not in told
        seen.append(told)
    assert world.slack.messages(world.slack.dm("grace"), "grace") == []


@played()
async def test_revert_names_the_open_change_and_what_reverts_it_and_reverts_nothing(world: World) -> None:
    await world.raised("profiling on for 30m")
    told = await world.command("ada", "verbosity revert", "Not reverted: the open change is --profiling=true")
    assert "run `/hami profiling off`" in text_of(told)
    for times, typed in enumerate(("revert", "undo", "Revert it please"), 1):
        told = await world.command("ada", typed, "To revert it now: /hami profiling off", times)
        assert "--profiling=true is set on vgpu-scheduler-extender (deadline" in text_of(told)
    await world.slack.mention("ada", "gpu-oncall", "undo")
    await world.slack.wait_for(channel="gpu-oncall", containing="To revert it now: @hami-bot profiling off")
    assert await world.is_open()


@played(usual="lab")
async def test_a_change_of_the_cluster_that_serve_was_started_for_is_looked_after(world: World) -> None:
    await world.raised("verbosity 5 for 30m --cluster lab")
    world.ahead_s = 1801
    await world.card("Reverted")
    assert not await world.is_open()


def _objects_in(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _objects_in(item)


@played()
async def test_a_reason_is_kept_as_it_was_typed_but_for_what_nobody_sees(world: World) -> None:
    room = world.slack.dm("ada")
    await world.slack.say("ada", room, "Verbosity 5 Because “trainer-0” isn’t\u200b running…")
    offered = await world.slack.wait_for(channel=room, containing="4 → 5")
    assert "“trainer-0” isn’t running…" in actions(offered)["change:confirm"]
