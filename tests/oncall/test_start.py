"""Alerts that come while the bot waits for Slack and its store are sent again later: nobody is told to give them up."""

import asyncio
from pathlib import Path

import aiohttp

from bot.intake import ALERTS_PATH
from tests.oncall.bot import BEARER, GIVEN, webhook
from tests.slack.changing import a_bot, a_place
from tests.slack.test_change_outages import free_port, slack_out_of_reach


def test_alertmanager_is_told_to_try_again_while_the_bot_waits_for_slack(tmp_path: Path) -> None:
    async def run() -> None:
        bind = free_port()

        async def start() -> None:
            async with a_bot(world, bind=bind, oncall=GIVEN):
                pass

        async with asyncio.timeout(60), a_place(tmp_path) as world:
            with slack_out_of_reach(world):
                bot = asyncio.create_task(start())
                assert await status(bind, BEARER) == 503
                assert await status(bind, {}) == 401
                bot.cancel()
                await asyncio.gather(bot, return_exceptions=True)

    asyncio.run(run())


async def status(bind: str, headers: dict[str, str]) -> int:
    """What an alert is answered once something answers."""
    async with aiohttp.ClientSession() as session:
        while True:
            try:
                address = f"http://{bind}{ALERTS_PATH}"
                async with session.post(address, json=webhook("trainer-0"), headers=headers) as answer:
                    return answer.status
            except aiohttp.ClientConnectionError:
                await asyncio.sleep(0.02)
