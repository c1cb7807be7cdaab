"""Opening the Home tab is no deed: nobody is told when it was not shown."""

import asyncio
from pathlib import Path

from msgspec.structs import replace

from bot.main import AS_USUAL
from bot.store import open_store
from sandbox.slack import Fault, SlackServer
from tests.slack.bot import connected


async def test_a_home_tab_that_was_cut_off_leaves_nothing_to_be_told_after_the_next_start(tmp_path: Path) -> None:
    async with asyncio.timeout(180), SlackServer(deadline_s=60) as slack:
        hangs = slack.faults.append(Fault("hang", "views.publish"))
        async with connected(slack, tmp_path, limits=replace(AS_USUAL, drain_s=0.0)):
            await slack.open_home("ada")
            await slack.wait_for(lambda: hangs._seen)
        async with open_store(f"sqlite:///{tmp_path}/bot.db", alone=True) as store:
            assert await store.unfinished() == []


async def test_a_home_tab_that_slack_does_not_take_is_not_told(tmp_path: Path) -> None:
    async with asyncio.timeout(180), SlackServer(deadline_s=60) as slack:
        slack.faults.append(Fault("error", "views.publish", error="invalid_blocks", times=None))
        async with connected(slack, tmp_path):
            await slack.open_home("ada")
            await slack.wait_for(lambda: slack.journal.of("api", "views.publish"))
        assert slack.messages(slack.dm("ada")) == []
