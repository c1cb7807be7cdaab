"""What the readiness endpoint says about the connection to Slack."""

import asyncio

import aiohttp

from tests.slack.bot import Here


async def readiness_is(here: Here, status: int) -> str:
    """What the bot says of itself once its state is that one: it finds out at its next look."""
    async with asyncio.timeout(180):
        while (said := await readiness(here))[0] != status:
            continue
    return said[1]


async def readiness(here: Here) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(f"{here.address}/readyz") as answer:
        return answer.status, await answer.text()
