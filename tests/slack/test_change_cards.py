"""A change's card through its life, whatever ends it; and how it calls for help when it cannot be ended."""

import asyncio
import json
import shlex
from datetime import datetime
from pathlib import Path
from typing import Any

from bot.changes.changer import Changer
from bot.changes.kinds import VERBOSITY
from bot.changes.plan import Plan
from bot.changes.record import KEY
from handlers.changes.shell import NoJournal
from sandbox.apiserver import Rule
from sandbox.slack.content import strings_of
from tests.changes.deployments import wants
from tests.slack.bot import Mode
from tests.slack.changing import ADA, EXTENDER, LINUS, NAME, NAMESPACE, World, a_bot, a_place, actions, played, text_of


def seconds_open(record: dict[str, Any]) -> float:
    """From the raise to the deadline, as they stand on the object."""
    return (datetime.fromisoformat(record["at"]) - datetime.fromisoformat(record["raised_at"])).total_seconds()


@played()
async def test_a_mention_with_a_reason_is_confirmed_or_cancelled_by_buttons_that_one_person_sees(
    world: World, *, mode: Mode
) -> None:
    await world.mention("ada", "verbosity 5", "give a reason")
    await world.slack.mention("ada", "gpu-oncall", "verbosity 5 because x")
    await world.click("ada", await world.told("ada", "4 → 5"), "change:cancel", "Nothing was changed")
    assert not await world.is_open()
    offered = await world.mention("ada", "verbosity 5 for 10m because trainer-0 won't start", "4 → 5")
    assert world._told("grace", "4 → 5") == []
    await world.click("ada", offered, "change:confirm")
    assert "won't start" in text_of(await world.card("In effect"))


@played()
async def test_an_open_change_has_a_lease_what_the_restart_destroyed_and_its_end_on_the_home_tab_and_allows_no_second(
    world: World,
) -> None:
    card = await world.raised()
    lease = await world.writer.lease(NAMESPACE, "hami-bot")
    assert lease["spec"]["holderIdentity"]

    def files() -> list[tuple[str, str]]:
        replies = world.slack.messages("gpu-oncall", "grace", card["ts"])
        return [(file["name"], file["title"]) for reply in replies for file in reply.get("files", [])]

    shown = ("before.tar.gz", "what the restart destroyed, recorded before it")
    await world.slack.wait_for(lambda: files() == [shown])

    await world.slack.open_home("ada")
    home = await world.slack.wait_for(lambda: world.slack.home("ada"), seconds=180)
    opened = next(block for block in home["blocks"] if "4 → 5" in text_of(block))
    assert [part["type"] for part in opened["elements"][0]["elements"]] == ["text", "date", "text"]

    await world.slack.command("ada", "gpu-oncall", "verbosity 6 because more")
    await world.slack.wait_for(lambda: "is open on container" in text_of(world.slack.views("ada")))
    (block,) = world.slack.views("ada")[-1]["blocks"]
    parts = block["elements"][0]["elements"]
    assert [part["type"] for part in parts] == ["text", "date", "text", "user", "text"]
    assert parts[3]["user_id"] == ADA
    assert (await world.audit())[-1] == (ADA, "raise", "denied")


@played()
async def test_at_its_deadline_it_is_put_back(world: World, *, mode: Mode) -> None:
    before = (await world.deployment())["spec"]
    card = await world.raised()
    world.ahead_s = 1801
    ended = await world.card("Reverted")
    assert ended["ts"] == card["ts"]
    assert (await world.deployment())["spec"] == before
    assert (await world.audit())[-1] == ("hami-bot", "revert", "reverted")


@played()
async def test_it_is_extended_by_ten_minutes(world: World, *, mode: Mode) -> None:
    before = (await world.deployment())["spec"]
    card = await world.raised()
    await world.click("ada", card, "change:extend")
    await world.card("Extended")
    world.ahead_s = 1801
    assert await world.is_open()
    world.ahead_s = 2405
    await world.card("Reverted")
    assert (await world.deployment())["spec"] == before
    assert (ADA, "extend", "extended") in await world.audit()


@played()
async def test_the_words_and_the_button_add_the_same_and_never_more_than_a_change_may_last(world: World) -> None:
    card = await world.raised("verbosity 5 for 3h35m")
    await world.command("ada", "verbosity extend 10m", "10m longer: it now lasts until <!date^")
    assert seconds_open(await world.record()) == (3 * 60 + 45) * 60
    await world.click("ada", card, "change:extend", "10m longer: it now lasts until", times=2)
    assert seconds_open(await world.record()) == (3 * 60 + 55) * 60
    await world.click("ada", card, "change:extend", "it can be extended by 5 min at most")
    assert seconds_open(await world.record()) == (3 * 60 + 55) * 60
    await world.command("ada", "verbosity extend 5m", "5m longer")
    assert seconds_open(await world.record()) == 4 * 3600
    await world.command("ada", "verbosity", "hami-scheduler")
    await world.slack.mention("ada", "gpu-oncall", "verbosity revert")
    await world.card("Reverted")
    assert not await world.is_open()


@played()
async def test_what_somebody_added_stays_and_is_shown_and_the_level_goes_back(world: World, *, mode: Mode) -> None:
    before = await world.words()
    await world.raised()
    await world.edited()
    world.ahead_s = 1801
    card = await world.card("Reverted")
    assert "+ --foreign=1" in text_of(card)
    assert await world.words() == [*before, "--foreign=1"]
    assert not await world.is_open()


@played()
async def test_another_level_that_somebody_set_is_left_and_shown(world: World, *, mode: Mode) -> None:
    await world.raised()
    await world.reworded(lambda words: ["-v=2" if word == "-v=5" else word for word in words])
    world.ahead_s = 1801
    card = await world.card("Edited by somebody else")
    assert "+ -v=2" in text_of(card)
    assert "-v=2" in await world.words()
    assert not await world.is_open()


@played()
async def test_what_cannot_be_put_back_is_told_and_calls_the_approvers(world: World) -> None:
    await world.raised()
    world.cluster.access.refused = [Rule(["patch"], ["deployments"])]
    world.ahead_s = 1805
    failed = await world.card("Could not be reverted")
    assert list(actions(failed)) == ["change:revert"]
    world.ahead_s = 1800 + 125
    first = await world.card("2 minutes ago")
    assert LINUS not in text_of(first)
    world.ahead_s = 1800 + 605
    second = await world.card("10 minutes ago")
    assert LINUS in text_of(second)
    for hours in (1, 2, 3):
        world.ahead_s = 1800 + hours * 3600 + 5
        assert LINUS in text_of(await world.card(f"{hours} hour"))
    world.cluster.access.refused = []
    await world.card("Reverted")
    assert not await world.is_open()
    assert len(world.cards("ago and could not be")) == 5


def by_hand(message: dict[str, Any]) -> list[str]:
    """The words of the command that the message shows."""
    [command] = [text for text in strings_of(message["blocks"]) if text.startswith("kubectl")]
    return shlex.split(command)


@played()
async def test_where_nobody_can_tell_which_level_is_ours_a_person_is_told_how_to_revert_it(world: World) -> None:
    before = await world.words()
    card = await world.raised()
    await world.reworded(lambda words: [*words, "--v=5"])
    await world.click("ada", card, "change:revert", "in several places")
    assert await world.is_open()
    world.ahead_s = 1800 + 605
    reminder = await world.card("10 minutes ago")
    assert LINUS in text_of(reminder)
    assert "in several places" in text_of(reminder)
    command = by_hand(reminder)
    assert command[:6] == ["kubectl", "-n", NAMESPACE, "patch", "deployment", NAME]
    await world.writer.patch_deployment(NAMESPACE, NAME, tuple(json.loads(command[command.index("-p") + 1])))
    await world.card("Reverted")
    assert await world.words() == [*before, "--v=4"]
    assert not await world.is_open()


async def test_a_reminder_is_there_once_though_the_bot_was_restarted(tmp_path: Path) -> None:
    async with asyncio.timeout(180), a_place(tmp_path) as world:
        async with a_bot(world):
            await world.raised()
            world.cluster.access.refused = [Rule(["patch"], ["deployments"])]
            world.ahead_s = 1800 + 2 * 3600 + 5
            await world.card("2 hours ago")
        async with a_bot(world):
            await world.passes()
            world.ahead_s = 1800 + 3 * 3600 + 5
            await world.card("3 hours ago")
        assert len(world.cards("2 hours ago")) == 1


@played()
async def test_what_cannot_be_written_or_captured_is_said_and_not_begun(world: World) -> None:
    world.cluster.access.refused = [Rule(["patch"], ["deployments"])]
    await world.slack.command("ada", "gpu-oncall", "verbosity 5 because x")
    await world.slack.wait_for(lambda: "patch" in text_of(world.slack.views("ada")))
    assert (await world.audit())[-1] == (ADA, "raise", "failed")
    await world.command("ada", "why s03-card-insufficient-memory", "20,000 MiB")
    world.cluster.access.refused = []
    await world.offered("verbosity 5 because x")
    world.cluster.access.refused = [Rule(["get"], ["pods/log"])]
    await world.submit("ada", "x")
    await world.told("ada", "could not be kept")
    assert not await world.is_open()


@played()
async def test_without_a_store_nothing_is_raised_and_everything_is_put_back(world: World) -> None:
    before = (await world.deployment())["spec"]
    card = await world.raised()
    await world.sql("alter table changes rename to gone")
    await world.sql("alter table seen rename to gone_too")
    await world.click("ada", card, "change:revert", "reverted")
    assert (await world.deployment())["spec"] == before
    await world.sql("alter table gone_too rename to seen")
    await world.asked("verbosity 5 because x", "x")
    await world.told("ada", "no such table")
    assert not await world.is_open()
    await world.sql("alter table gone rename to changes")
    await world.card("Reverted")


@played()
async def test_without_a_store_the_deadline_holds(world: World) -> None:
    before = (await world.deployment())["spec"]
    await world.raised()
    for table in ("changes", "audit", "approvals"):
        await world.sql(f"alter table {table} rename to gone_{table}")
    world.ahead_s = 1801
    await world.until(world.is_closed)
    assert (await world.deployment())["spec"] == before


@played()
async def test_it_ends_when_the_wanted_lines_are_captured(world: World) -> None:
    pod = "ml/s03-card-insufficient-memory"
    await world.asked(f"verbosity 5 for 1h until-captured {pod}", "why no card fits")
    card = await world.card("Reverted")
    assert "a whole filter run" in text_of(card)
    assert not await world.is_open()


async def from_a_shell(world: World, login: str = "root") -> None:
    """Somebody raises the verbosity with a kubeconfig of their own."""
    changer = Changer(world.writer, NoJournal(), now=world.now)
    wanted = wants(VERBOSITY, "5", EXTENDER, 600, f"{login} (shell)")
    plan = await changer.plan(NAMESPACE, NAME, wanted, None)
    assert isinstance(plan, Plan)
    await changer.raise_(plan, None)


@played()
async def test_a_change_from_a_shell_that_cannot_be_put_back_is_told_to_all_who_are_named(world: World) -> None:
    await from_a_shell(world)
    world.cluster.access.refused = [Rule(["patch"], ["deployments"])]
    world.ahead_s = 1805
    for user in (ADA, LINUS):
        await world.slack.wait_for(
            lambda user=user: [
                message for message in world.slack.messages(f"D{user[1:]}") if "10 minutes ago" in text_of(message)
            ],
            seconds=180,
        )
    assert world.cards() == []


@played()
async def test_the_revert_of_a_change_from_a_shell_is_told_to_who_raised_it_where_slack_knows_them(
    world: World,
) -> None:
    await from_a_shell(world, "ada")
    world.ahead_s = 605
    await world.slack.wait_for(
        lambda: [text for message in world.slack.messages(f"D{ADA[1:]}") if "Reverted" in (text := text_of(message))],
        seconds=180,
    )
    assert not await world.is_open()
    assert world.slack.messages(f"D{LINUS[1:]}") == []


@played()
async def test_a_record_that_nobody_can_read_is_told_once_to_all_who_are_named(world: World) -> None:
    path = f"/metadata/annotations/{KEY.replace('/', '~1')}"
    await world.writer.patch_deployment(NAMESPACE, NAME, ({"op": "add", "path": path, "value": "{}"},))

    def told() -> list[str]:
        return [text_of(message) for message in world.slack.messages(f"D{LINUS[1:]}")]

    await world.slack.wait_for(lambda: "cannot be read" in "".join(told()), seconds=180)
    await world.passes()
    assert len(told()) == 1
