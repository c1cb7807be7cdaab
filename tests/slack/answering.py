"""A scene in which the bot is asked over one of the ways to Slack."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from bot.main import Limits
from sandbox.slack import SlackServer
from tests.slack.bot import PATIENT, Here, Mode, a_bot, recorded


def played(
    tmp_path: Path,
    scene: Callable[[Here], Awaitable[None]],
    *,
    mode: Mode = "socket",
    opener=recorded,
    limits: Limits = PATIENT,
    slack: Callable[[], SlackServer] = SlackServer,
) -> None:
    async def play() -> None:
        async with asyncio.timeout(180), a_bot(tmp_path, mode, opener=opener, limits=limits, slack=slack()) as here:
            await scene(here)
            assert here.slack.unknown_methods == []

    asyncio.run(play())
