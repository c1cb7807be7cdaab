"""kill -9 at every moment of the outbox's work, against Slack's own client and a real server."""

import asyncio
import contextlib
import itertools
import json
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from sandbox.slack import Fault, SlackServer, VirtualClock
from tests.slack.outbox_process import FILES
from tests.slack.outbox_support import ONCALL, START, Bot, a_bot, an_outbox, drain, line, seed, shared, texts
from tests.stores import NewDatabase

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[2]
FAR_AWAY = 10_000
MOMENTS = 24
"""At how many a life that has these messages to send can be killed."""


class Lives:
    """The process that lives are forked from."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def live(self, slack: SlackServer, database: str, die_at: int) -> str:
        life = {
            "api_url": slack.api_url,
            "control_url": slack.url,
            "token": slack.bot_token,
            "store": database,
            "now": slack.clock.now(),
            "die_at": die_at,
        }
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(life).encode() + b"\n")
        return (await self._process.stdout.readline()).decode().strip()


@contextlib.asynccontextmanager
async def some_lives() -> AsyncGenerator[Lives]:
    arguments = (sys.executable, "-m", "tests.slack.outbox_process")
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*arguments, cwd=ROOT, stdin=pipe, stdout=pipe)
    assert process.stdin
    try:
        yield Lives(process)
    finally:
        process.stdin.close()
        await process.wait()


async def a_life_and_what_follows(lives: Lives, database: str, die_at: int, *faults: Fault) -> str:
    """One life that may be cut short, then a whole one; what Slack shows is what there was to say, once."""
    async with SlackServer(clock=VirtualClock(START), seed=seed()) as slack:
        for fault in faults:
            slack.faults.append(fault)
        ended = await lives.live(slack, database, die_at)
        assert await lives.live(slack, database, FAR_AWAY) == "finished"
        async with a_bot(slack) as bot:
            assert sorted(texts(bot, ONCALL)) == ["first", "second"], die_at
            head = next(message for message in slack.messages(ONCALL) if message["text"] == "first")["ts"]
            assert sorted(shared(bot, ONCALL)) == [(file.name, head) for file in FILES], die_at
            assert slack.unknown_methods == []
            assert_paced(bot)
    return ended


def assert_paced(bot: Bot) -> None:
    times = [entry.at for entry in bot.slack.journal.of("api", "chat.postMessage") if entry.ok]
    assert all(later - earlier >= 1.0 for earlier, later in itertools.pairwise(times)), times


async def test_killed_at_any_moment_nothing_is_lost_and_nothing_is_said_twice(new_database: NewDatabase) -> None:
    async with some_lives() as lives:
        for moment in range(1, MOMENTS + 1):
            assert await a_life_and_what_follows(lives, new_database(), moment) == "killed"
        assert await a_life_and_what_follows(lives, new_database(), MOMENTS + 1) == "finished"


async def test_killed_while_it_looks_what_became_of_a_message(new_database: NewDatabase):
    async with some_lives() as lives:
        ends: list[str] = []
        while "finished" not in ends:
            lost = Fault("reset_after", "chat.postMessage"), Fault("reset_after", "files.completeUploadExternal")
            ends.append(await a_life_and_what_follows(lives, new_database(), 6 + 2 * len(ends), *lost))
    assert set(ends[:-1]) == {"killed"}


async def test_ten_minutes_without_slack_and_a_kill_in_the_middle(new_database: NewDatabase):
    database = new_database()
    async with some_lives() as lives, SlackServer(clock=VirtualClock(START), seed=seed()) as slack, a_bot(slack) as bot:
        slack.faults.append(Fault("outage", until=START + 600))
        async with an_outbox(bot, database) as (outbox, store):
            for number in range(60):
                severity = ("info", "warning", "critical")[number % 3]
                await outbox.put(f"alert-{number}", ONCALL, line(f"{severity} {number}"), severity=severity)
            await drain(store, slack.clock, outbox, until=lambda: slack.clock.now() > START + 200)
        assert texts(bot, ONCALL) == []
        assert await lives.live(slack, database, 8) == "killed"
        assert slack.clock.now() < START + 600
        async with an_outbox(bot, database) as (outbox, store):
            await drain(store, slack.clock, outbox)
            assert outbox.waiting() == 0
        said = texts(bot, ONCALL)
        assert len(said) == len(set(said)) == 62
        by_severity = [text for text in said if " " in text]
        assert [text.split()[0] for text in by_severity] == ["critical"] * 20 + ["warning"] * 20 + ["info"] * 20
        assert_paced(bot)
        assert all(entry.status != 429 for entry in slack.journal.of("api"))
