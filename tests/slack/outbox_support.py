"""The bot's side of Slack against the sandbox's server, in virtual time."""

import contextlib
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field, replace
from typing import Any

import aiohttp
from sqlalchemy import select

from bot.slack.calls import open_client
from bot.slack.gateway import Gateway
from bot.slack.message import File, Message
from bot.slack.outbox import Outbox
from bot.store import Store, open_store
from bot.store.outbox_rows import QueuedMessage, _queued
from bot.store.tables import outbox
from sandbox.slack import App, Seed, SlackServer, VirtualClock
from tests.slack.bot import staged

ONCALL, GENERAL, BUDGET = "C0GPUONC01", "C0GENERAL1", "C0BUDGET01"
ADA, GRACE = "U0ADA00001", "U0GRACE001"
START = 1_800_000_000.0
LONGEST_S = 8 * 3600.0
"""Longer than anything that the outbox waits for."""


@dataclass
class Bot:
    """One process of the bot. Its waiting moves the clock, so nothing here takes time."""

    slack: SlackServer
    clock: VirtualClock
    session: aiohttp.ClientSession
    gateway: Gateway
    naps: list[float] = field(default_factory=list)


@dataclass
class Sending(Bot):
    """A bot with an outbox: what is put there, `drain` sends."""

    outbox: Outbox = field(kw_only=True)
    store: Store = field(kw_only=True)

    async def put(self, key: str, said: str | Message, *files: File, channel: str = ONCALL, **options: Any) -> None:
        message = line(said) if isinstance(said, str) else said
        await self.outbox.put(key, channel, message._replace(files=(*message.files, *files)), **options)

    async def drain(self, **options: Any) -> None:
        await drain(self.store, self.clock, self.outbox, **options)


def seed(**changes: Any) -> Seed:
    return Seed(app=replace(App(), **changes))


@contextlib.asynccontextmanager
async def a_bot(
    slack: SlackServer, *, token: str = "", api_url: str = "", total: float | None = None
) -> AsyncGenerator[Bot]:
    clock: VirtualClock = slack.clock
    naps: list[float] = []

    async def sleep(seconds: float) -> None:
        naps.append(seconds)
        await clock.advance(seconds)

    async with open_client(api_url or slack.api_url, token or slack.bot_token) as (client, session):
        if total is not None:
            session._timeout = aiohttp.ClientTimeout(total=total)
        yield Bot(slack, clock, session, Gateway(client, session, clock=clock.now, sleep=sleep), naps)


@contextlib.asynccontextmanager
async def a_workspace(start: Seed | None = None, **options: Any) -> AsyncGenerator[Bot]:
    async with (
        SlackServer(clock=VirtualClock(START), seed=start or seed()) as slack,
        a_bot(slack, **options) as bot,
    ):
        yield bot


@contextlib.asynccontextmanager
async def an_outbox(bot: Bot, database: str, **options: Any) -> AsyncGenerator[tuple[Outbox, Store]]:
    async with open_store(database, now=bot.clock.now) as store:
        yield outbox_of(bot, store, **options), store


@staged
@contextlib.asynccontextmanager
async def sending(
    database: str, start: Seed | None = None, total: float | None = None, *, in_virtual_time: bool = False
) -> AsyncGenerator[Sending]:
    """A workspace with a bot of which the outbox sends; `total` is the longest time that a call of Slack may take."""
    async with a_workspace(start, total=total) as bot:
        options = {"sleep": bot.clock.advance} if in_virtual_time else {}
        async with an_outbox(bot, database, **options) as (outbox, store):
            yield Sending(**vars(bot), outbox=outbox, store=store)


def outbox_of(bot: Bot, store: Store, **options: Any) -> Outbox:
    return Outbox(store, bot.gateway, now=bot.clock.now, clock=bot.clock.now, jitter=lambda: 1.0, **options)


async def drain(
    store: Store, clock: VirtualClock, *outboxes: Outbox, until: Callable[[], bool] = lambda: False
) -> None:
    """Lets the senders of all outboxes do what they have to, in turns, moving the clock while all of them wait."""
    start = clock.now()
    while not until() and clock.now() < start + LONGEST_S:
        waits = [
            wait
            for channel in sorted(await store.outbox.channels())
            for outbox in outboxes
            if (wait := await outbox.step(channel)) is not None
        ]
        if not waits:
            return
        await clock.advance(min(waits))


def texts(bot: Bot, channel: str) -> list[str]:
    """What the bot said in the channel and in its threads, in order."""
    return [message["text"] for message in said(bot, channel)]


def said(bot: Bot, channel: str) -> list[dict[str, Any]]:
    workspace = bot.slack.workspace
    channel = workspace.open_dm(channel).id if channel.startswith("U") else channel
    return [
        message
        for only_for, message in workspace.everything(channel)
        if not only_for and message.get("bot_id") and "files" not in message
    ]


def shared(bot: Bot, channel: str) -> list[tuple[str, str]]:
    """(file name, thread) of every file that the bot shared in the channel."""
    workspace = bot.slack.workspace
    channel = workspace.open_dm(channel).id if channel.startswith("U") else channel
    return [
        (file["name"], message.get("thread_ts", ""))
        for _, message in workspace.everything(channel)
        for file in message.get("files", [])
    ]


def ephemerals(bot: Bot, channel: str, user: str) -> list[dict[str, Any]]:
    return [message for only_for, message in bot.slack.workspace.everything(channel) if only_for == user]


def line(text: str) -> Message:
    return Message(text, ({"type": "section", "text": {"type": "mrkdwn", "text": text}},))


async def failed(store: Store) -> list[QueuedMessage]:
    """The rows that were given up, oldest first."""
    async with store._engine.connect() as connection:
        rows = await connection.execute(select(outbox).where(outbox.c.state == "failed").order_by(outbox.c.id))
        return [_queued(row) for row in rows]


def calls(bot: Bot, method: str) -> int:
    return len(bot.slack.journal.of("api", method))
