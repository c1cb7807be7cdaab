"""The bot's store is gone, or another one: a change keeps its one card, and no card offers what cannot be done."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from bot.changes.changer import Changer
from bot.settings.schema import AccessSettings
from handlers.changes.shell import NoJournal
from sandbox.slack import Fault
from tests.slack.changing import ACCESS, NAME, NAMESPACE, World, a_bot, a_place, actions, text_of

IN_ROOM = ACCESS.model_copy(update={"channels": ("C0GPUONC01",)})
Scene = Callable[[World, dict[str, Any]], Awaitable[None]]


@asynccontextmanager
async def raised(folder: Path, access: AccessSettings = ACCESS) -> AsyncGenerator[tuple[World, dict[str, Any]]]:
    """A change that is in effect, with its card; the bot has ended, and its store is gone."""
    async with asyncio.timeout(180), a_place(folder) as world:
        async with a_bot(world, access=access):
            card = await world.raised()
        lose_the_store(world)
        yield world, card


def lose_the_store(world: World) -> None:
    for file in world.folder.glob("bot.db*"):
        file.unlink()


async def is_told(world: World, state: str) -> bool:
    """Whether the store knows the one change in that state."""
    return [row["state"] for row in await world.rows("select state from changes")] == [state]


async def test_a_bot_with_another_store_goes_on_with_the_card_that_stands_there(tmp_path: Path) -> None:
    async with raised(tmp_path) as (world, card), a_bot(world):
        await world.until(lambda: is_told(world, "effective"))
        await world.click("ada", card, "change:extend")
        assert (await world.card("Extended"))["ts"] == card["ts"]
        world.ahead_s = 2405
        assert (await world.card("Reverted"))["ts"] == card["ts"]
        assert len(world.cards("verbosity of")) == 1


async def test_a_click_on_a_card_whose_change_is_over_is_answered_and_the_card_says_so(tmp_path: Path) -> None:
    async with raised(tmp_path) as (world, card):
        await Changer(world.writer, NoJournal()).revert(NAMESPACE, NAME, by="root (shell)")
        async with a_bot(world):
            await world.click("ada", card, "change:revert", "this change is no longer open")
            ended = await world.card("no longer has this change")
            assert (ended["ts"], actions(ended)) == (card["ts"], {})


async def test_a_card_whose_change_ended_unseen_loses_its_buttons_once_slack_can_be_asked_for_old_cards(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with raised(tmp_path, IN_ROOM) as (world, card):
        await Changer(world.writer, NoJournal()).revert(NAMESPACE, NAME, by="root (shell)")
        world.slack.faults.append(Fault("status", "^api/conversations.history", times=None))
        async with a_bot(world, access=IN_ROOM):
            await world.slack.wait_for(lambda: "are not looked for" in caplog.text, seconds=180)
            world.slack.faults.clear()
            ended = await world.card("no longer has this change")
            assert (ended["ts"], actions(ended)) == (card["ts"], {})


async def test_a_request_that_nobody_knows_loses_its_buttons_and_the_card_of_an_open_change_keeps_its_own(
    tmp_path: Path,
) -> None:
    two = IN_ROOM.model_copy(update={"two_person": True})
    async with raised(tmp_path, IN_ROOM) as (world, card):
        async with a_bot(world, access=two):
            await world.until(lambda: is_told(world, "effective"))
            await world.click("ada", card, "change:extend")
            asked = await world.card("Pending approval")
        lose_the_store(world)
        async with a_bot(world, access=two):
            ended = await world.card("the request is no longer known")
            assert (ended["ts"], actions(ended)) == (asked["ts"], {})
            [still] = [message for message in world.cards() if message["ts"] == card["ts"]]
            assert "change:revert" in actions(still)


@pytest.mark.parametrize("action", ["change:approve", "change:refuse"])
async def test_a_click_on_a_request_that_nobody_knows_is_answered_and_the_card_says_so(
    action: str, tmp_path: Path
) -> None:
    two = ACCESS.model_copy(update={"two_person": True})
    async with asyncio.timeout(180), a_place(tmp_path) as world:
        async with a_bot(world, access=two):
            await world.asked("verbosity 5 for 30m", "it hangs")
            card = await world.card("Pending approval")
        lose_the_store(world)
        async with a_bot(world, access=two):
            await world.click("linus", card, action, "nothing of that kind waits for approval")
            ended = await world.card("the request is no longer known")
            assert (ended["ts"], actions(ended)) == (card["ts"], {})
            assert not await world.is_open()


async def test_what_was_due_while_the_bot_was_away_is_told_on_the_card_that_stands_there(tmp_path: Path) -> None:
    async with raised(tmp_path) as (world, card):
        world.ahead_s = 1801
        async with a_bot(world):
            ended = await world.card("Reverted")
            assert (ended["ts"], actions(ended)) == (card["ts"], {})
            assert len(world.cards("verbosity of")) == 1


async def test_a_message_of_another_app_under_the_cards_key_is_not_taken_for_it(tmp_path: Path) -> None:
    async with raised(tmp_path) as (world, card):
        key = {"event_type": "hami_bot", "event_payload": {"key": f"change:{(await world.record())['id']}"}}
        room = world.slack.workspace.channel_id("gpu-oncall")
        other = {"type": "message", "text": "hello", "bot_id": "B0OTHER001", "metadata": key}
        world.slack.workspace.add(room, {**other, "ts": world.slack.workspace.stamp()})
        world.ahead_s = 1801
        async with a_bot(world):
            assert (await world.card("Reverted"))["ts"] == card["ts"]


def tries(world: World) -> int:
    """How often a bot began to connect."""
    return sum(entry.title.startswith("auth.test") for entry in world.slack.journal.entries)


@pytest.mark.parametrize("fault", ["no database", "a newer version", "a damaged page"])
async def test_a_store_that_cannot_be_opened_is_told_once_where_the_change_is_told(fault: str, tmp_path: Path) -> None:
    async def started(world: World) -> None:
        async with a_bot(world):
            pass

    async with asyncio.timeout(180), a_place(tmp_path) as world:
        async with a_bot(world):
            await world.raised()
        await break_the_store(world, fault)
        for _ in range(2):
            begun = tries(world)
            bot = asyncio.create_task(started(world))
            await world.slack.wait_for(lambda begun=begun: tries(world) >= begun + 2, seconds=180)
            bot.cancel()
            await asyncio.gather(bot, return_exceptions=True)
        [told] = world.cards("cannot open its database")
        assert "is still reverted at" in text_of(told)
        world.ahead_s = 1801
        bot = asyncio.create_task(started(world))
        await world.until(world.is_closed)
        bot.cancel()
        await asyncio.gather(bot, return_exceptions=True)


async def until_told(world: World) -> None:
    """A bot starts that cannot open its store, until the channel has been told."""

    async def started() -> None:
        async with a_bot(world):
            pass

    bot = asyncio.create_task(started())
    await world.slack.wait_for(lambda: world.cards("cannot open its database"), seconds=180)
    bot.cancel()
    await asyncio.gather(bot, return_exceptions=True)


async def test_that_the_store_cannot_be_opened_is_edited_once_it_opens_again_and_told_the_next_time(
    tmp_path: Path,
) -> None:
    async with asyncio.timeout(180), a_place(tmp_path) as world:
        async with a_bot(world):
            await world.raised()
        [version] = [row["version_num"] for row in await world.rows("select version_num from alembic_version")]
        told_at: list[str] = []
        for _ in range(2):
            await break_the_store(world, "a newer version")
            await until_told(world)
            [told] = world.cards("cannot open its database")
            told_at.append(told["ts"])
            await world.sql(f"update alembic_version set version_num = '{version}'")
            async with a_bot(world):
                await world.slack.wait_for(lambda: not world.cards("cannot open its database"), seconds=180)
        assert [card["ts"] for card in world.cards("database is available again")] == told_at


async def test_a_bot_that_waits_for_its_store_edits_what_it_said_of_a_change_that_has_ended(tmp_path: Path) -> None:
    async with asyncio.timeout(180), a_place(tmp_path) as world:
        async with a_bot(world):
            await world.raised()
        [version] = [row["version_num"] for row in await world.rows("select version_num from alembic_version")]
        await break_the_store(world, "a newer version")
        ended = asyncio.Event()

        async def stays() -> None:
            async with a_bot(world):
                await ended.wait()

        bot = asyncio.create_task(stays())
        told = await world.card("cannot open its database")
        world.ahead_s = 1801
        await world.until(world.is_closed)
        await world.sql(f"update alembic_version set version_num = '{version}'")
        assert (await world.card("database is available again"))["ts"] == told["ts"]
        ended.set()
        await bot


async def break_the_store(world: World, fault: str) -> None:
    if fault == "a newer version":
        await world.sql("update alembic_version set version_num = '9999'")
        return
    await world.sql("pragma wal_checkpoint(truncate)")
    file = world.folder / "bot.db"
    if fault == "no database":
        file.write_bytes(b"not a database at all, really" * 200)
        return
    [root] = await world.rows("select rootpage from sqlite_master where name = 'changes'")
    page = 4096
    damaged = bytearray(file.read_bytes())
    damaged[(root["rootpage"] - 1) * page : root["rootpage"] * page] = b"\xff" * page
    file.write_bytes(damaged)
