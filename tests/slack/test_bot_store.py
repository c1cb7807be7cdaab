"""The whole bot and its store: what it says when it has none, beside another process, and of what it cannot answer."""

import asyncio
import contextlib
import sqlite3
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from bot.store.base import TRIES
from sandbox.slack import Fault, SlackServer
from tests.slack.bot import PATIENT, POD, VERDICT, Gated, Here, a_bot, connected, staged
from tests.slack.deliveries import acks, later
from tests.slack.surfaces import text_of


def sql(folder: Path, *statements: str) -> None:
    with contextlib.closing(sqlite3.connect(folder / "bot.db", timeout=60)) as store, store:
        for statement in statements:
            store.execute(statement)


@staged
@asynccontextmanager
async def played_without_a_store(tmp_path: Path) -> AsyncGenerator[Here]:
    async with asyncio.timeout(180), a_bot(tmp_path) as here:
        await asyncio.to_thread(sql, tmp_path, *(f"DROP TABLE {table}" for table in ("outbox_files", "outbox", "seen")))
        yield here


def told(slack: SlackServer, channel: str, user: str, thread_ts: str = "") -> int:
    """How many answers with the verdict that person sees there."""
    return len([message for message in slack.messages(channel, user, thread_ts) if VERDICT in message["text"]])


# ------------------------------------------------------------------------------------------------- without a store


@played_without_a_store()
async def test_a_command_is_answered_while_the_store_cannot_be_asked(here: Here) -> None:
    await here.command("ada", f"why ml/{POD}", VERDICT)


@played_without_a_store()
async def test_a_mention_is_answered_while_the_store_cannot_be_asked_once_however_often_it_is_delivered(
    here: Here,
) -> None:
    here.slack.faults.append(Fault("replay", where="delivery/events_api", seconds=0.3))
    asked = await here.slack.mention("ada", "gpu-oncall", f"why ml/{POD}")
    await here.slack.wait_for(lambda: acks(here.slack, "events_api") == 2)
    await here.slack.wait_for(channel="gpu-oncall", containing=VERDICT, thread_ts=asked.ts)
    await later(here.slack)
    assert told(here.slack, "gpu-oncall", "ada", asked.ts) == 1


@played_without_a_store()
async def test_what_may_not_be_done_twice_is_refused_while_the_store_cannot_be_asked(here: Here) -> None:
    await here.command("ada", "fit", "claiming deliveries")
    assert here.slack.views("ada") == []


# ----------------------------------------------------------------------------------------------- what nobody foresaw


async def test_a_message_that_cannot_be_sent_for_a_bug_is_given_up_and_holds_up_no_other(tmp_path: Path) -> None:
    numbers = dict.fromkeys(("severity", "queued_at", "tried_version", "sent_version", "lease_until"), "0")
    numbers |= dict.fromkeys(("claimed_at", "sent_at"), "0") | {"version": "1"}
    words = dict.fromkeys(("thread_ts", "update_ts", "owner", "posted_channel", "posted_ts", "reason"), "''")

    def put(key: str, channel: str, content: str) -> str:
        row = numbers | words | {"key": key, "channel": channel, "content": content, "state": "'new'"}
        return f"INSERT INTO outbox ({', '.join(row)}) VALUES ({', '.join(row.values())})"

    async with asyncio.timeout(180), a_bot(tmp_path) as here:
        no_blocks, no_json = put("'a'", "'C0GENERAL1'", """'{"text": "x"}'"""), put("'b'", "'C0BUDGET01'", "'{'")
        await asyncio.to_thread(sql, tmp_path, no_blocks, no_json)
        for channel in ("gpu-oncall", "general"):
            asked = await here.slack.mention("ada", channel, f"why ml/{POD}")
            await here.slack.wait_for(channel=channel, containing=VERDICT, thread_ts=asked.ts)


# ---------------------------------------------------------------------------------------------- beside another one


async def test_a_process_that_starts_while_the_other_drains_answers_nothing_of_what_that_is_at(tmp_path: Path) -> None:
    cluster = Gated()
    async with (
        asyncio.timeout(180),
        SlackServer(deadline_s=60) as slack,
        connected(slack, tmp_path, opener=cluster.opener),
    ):
        await slack.command("ada", "gpu-oncall", f"why ml/{POD}")
        await cluster.asked.wait()
        async with connected(slack, tmp_path):
            await later(slack)
            assert told(slack, "gpu-oncall", "ada") == 0
            cluster.gate.set()
            await slack.wait_for(channel="gpu-oncall", containing=VERDICT, user="ada")
            await later(slack)
            assert len([call for call in slack.journal.of("response_url") if VERDICT in str(call.request)]) == 1


# --------------------------------------------------------------------------------------------- what is not answered


async def left_unanswered(slack: SlackServer, folder: Path) -> str:
    """A mention that the bot took, and did not answer before it ended; the ts of its thread."""
    cluster = Gated()
    async with connected(slack, folder, opener=cluster.opener, limits=replace(PATIENT, drain_s=0.1)):
        asked = await slack.mention("ada", "gpu-oncall", f"why ml/{POD}")
        await cluster.asked.wait()
    return asked.ts


async def test_a_stop_leaves_what_is_not_answered_to_others_at_once_and_counts_as_no_death(tmp_path: Path) -> None:
    async with asyncio.timeout(180), SlackServer(deadline_s=60) as slack:
        await left_unanswered(slack, tmp_path)
    with contextlib.closing(sqlite3.connect(tmp_path / "bot.db")) as store:
        assert store.execute("SELECT state, owner, tries FROM seen").fetchall() == [("running", "", 0)]


@pytest.mark.parametrize(
    ("ahead_s", "tries", "why"),
    [(0, TRIES, "the bot's process ended"), (3600, 1, "too long ago")],
)
async def test_who_asked_what_is_not_answered_any_more_is_told_once(
    tmp_path: Path, ahead_s: float, tries: int, why: str
) -> None:
    async with asyncio.timeout(180), SlackServer(deadline_s=60) as slack:
        thread = await left_unanswered(slack, tmp_path)
        await asyncio.to_thread(sql, tmp_path, f"UPDATE seen SET tries = {tries}")
        limits = replace(PATIENT, now=lambda: time.time() + ahead_s)
        for _ in range(2):
            async with connected(slack, tmp_path, limits=limits):
                dropped = await slack.wait_for(channel="gpu-oncall", containing=why, thread_ts=thread)
                assert f"Please ask again: why ml/{POD}" in text_of(dropped)
                await later(slack)
        assert len([message for message in slack.messages("gpu-oncall", "ada", thread) if why in text_of(message)]) == 1
