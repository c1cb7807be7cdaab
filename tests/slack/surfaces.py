"""A scene on each surface where the bot is asked: commands, mentions, buttons and forms."""

import asyncio
from pathlib import Path

from sandbox.slack.content import elements_of, strings_of
from tests.slack.bot import Mode, a_bot


def played(tmp_path: Path, mode: Mode, scene) -> None:
    """Plays the scene with a bot that is connected."""

    async def play() -> None:
        async with asyncio.timeout(180), a_bot(tmp_path, mode) as here:
            await scene(here)
            assert here.slack.unknown_methods == []

    asyncio.run(play())


def text_of(message) -> str:
    return "\n".join(strings_of(message))


def button(message, action: str) -> str:
    """The action id of the first button whose id begins so."""
    ids = [
        element["action_id"] for block in message["blocks"] for element in elements_of(block) if "action_id" in element
    ]
    return next(id_ for id_ in ids if id_.startswith(action))
