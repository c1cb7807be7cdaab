"""A bot that starts while Slack is down takes alerts, and what pagers post, at once; they are shown when it is back."""

import asyncio
import json
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from msgspec.structs import replace
from pydantic import SecretStr

from bot.endpoint import ALERTS_PATH
from bot.main import running
from bot.pager import PAGERDUTY_PATH
from bot.settings.oncall import OncallSettings, PagerDutyPaging, PagingSettings
from bot.settings.schema import HttpSettings
from bot.slack.app import WrongInstall
from handlers.changes.leader_pass import Pace
from handlers.oncall.keeper import LEASE_S
from sandbox.slack import Fault, SlackServer
from tests.chart import manifests, of_kind
from tests.oncall.bot import BEARER, GIVEN, ROOM, webhook
from tests.oncall.pagers import ROUTING_KEY, SIGNING, Pagers, pagerduty_posts, signed
from tests.oncall.rig import text
from tests.slack.bot import PATIENT, recorded, settings
from tests.slack.outages import free_port, readiness

LIMITS = replace(PATIENT, oncall=0.05, pace=Pace(pass_s=0.1))
CRITICAL = webhook("trainer-0", severity="critical")


class Starting:
    """A bot that only reads, and tries to start before this Slack; `connected` is set once it has."""

    def __init__(self, slack: SlackServer, folder: Path, given: OncallSettings, ahead_s: float = 0.0) -> None:
        self._limits = replace(LIMITS, now=lambda: time.time() + ahead_s)
        self.bind = free_port()
        self.connected = asyncio.Event()
        self._wanted = settings(slack, folder).model_copy(
            update={"oncall": given, "http": HttpSettings(bind=self.bind)}
        )

    async def run(self) -> None:
        assert self._wanted.slack
        async with running(self._wanted, self._wanted.slack, recorded, self._limits):
            self.connected.set()
            await asyncio.Event().wait()

    async def posted(self, path: str, body: Any, headers: dict[str, str]) -> int:
        """What is answered once something answers."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        async with aiohttp.ClientSession() as session:
            while True:
                try:
                    async with session.post(f"http://{self.bind}{path}", data=data, headers=headers) as answer:
                        if answer.status != 503:
                            return answer.status
                except aiohttp.ClientConnectionError:
                    pass  # nothing listens yet
                await asyncio.sleep(0.05)


@asynccontextmanager
async def starting(
    slack: SlackServer, folder: Path, given: OncallSettings = GIVEN, ahead_s: float = 0.0
) -> AsyncGenerator[Starting]:
    bot = Starting(slack, folder, given, ahead_s)
    task = asyncio.create_task(bot.run())
    try:
        yield bot
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def shown(slack: SlackServer) -> dict[str, Any]:
    def heads() -> list[dict[str, Any]]:
        return [
            message for message in slack.messages(ROOM, "ada") if message.get("bot_id") and "trainer-0" in text(message)
        ]

    return (await slack.wait_for(heads))[0]


@pytest.mark.parametrize("fault", [Fault("outage"), Fault("error", "auth.test", times=None, error="accesslimited")])
async def test_alerts_are_kept_while_slack_cannot_be_reached_and_shown_when_it_is_back(
    tmp_path: Path, fault: Fault
) -> None:
    async with asyncio.timeout(180), SlackServer(deadline_s=60) as slack:
        slack.faults.append(fault)
        async with starting(slack, tmp_path) as bot:
            assert await bot.posted(ALERTS_PATH, CRITICAL, {}) == 401
            assert await bot.posted(ALERTS_PATH, CRITICAL, BEARER) == 200
            while "Slack was not reached: auth.test" not in await readiness(bot.bind):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            assert not bot.connected.is_set()
            slack.faults.remove(fault)
            await bot.connected.wait()
            await shown(slack)


async def test_an_alert_that_was_kept_outlives_a_bot_that_never_reached_slack(tmp_path: Path) -> None:
    async with asyncio.timeout(180), SlackServer(deadline_s=60) as slack:
        fault = slack.faults.append(Fault("outage"))
        async with starting(slack, tmp_path) as bot:
            assert await bot.posted(ALERTS_PATH, CRITICAL, BEARER) == 200
        slack.faults.remove(fault)
        async with starting(slack, tmp_path, ahead_s=LEASE_S):
            await shown(slack)


async def test_pagers_ring_and_are_heard_while_slack_cannot_be_reached(tmp_path: Path) -> None:
    pagers = Pagers()
    async with asyncio.timeout(180), SlackServer(deadline_s=60) as slack, pagers.served:
        fault = slack.faults.append(Fault("outage"))
        duty = PagerDutyPaging(
            routing_key=SecretStr(ROUTING_KEY), webhook_secret=SecretStr(SIGNING), url=pagers.served.url
        )
        called = {"paging": PagingSettings(pagerduty=duty), "critical_at_once": True}
        async with starting(slack, tmp_path, GIVEN.model_copy(update=called)) as bot:
            assert await bot.posted(ALERTS_PATH, CRITICAL, BEARER) == 200
            while not pagers.rung:  # noqa: ASYNC110  # the pager has no event
                await asyncio.sleep(0.02)
            posts = pagerduty_posts(pagers.rung[0])
            assert await bot.posted(PAGERDUTY_PATH, posts, {}) == 401
            assert await bot.posted(PAGERDUTY_PATH, posts, signed(posts)) == 200
            slack.faults.remove(fault)
            await slack.wait_for(lambda: "Tenex Engineer" in "".join(map(text, slack.messages(ROOM, "ada"))))


async def test_a_token_that_slack_refuses_ends_the_start_also_where_alerts_are_taken(tmp_path: Path) -> None:
    async with asyncio.timeout(180), SlackServer(deadline_s=60) as slack:
        slack.faults.append(Fault("revoked"))
        with pytest.raises(WrongInstall, match="token_revoked"):
            await Starting(slack, tmp_path, GIVEN).run()


async def test_the_log_says_once_that_slack_is_out_of_reach(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with asyncio.timeout(180), SlackServer(deadline_s=60) as slack:
        slack.faults.append(Fault("status", "auth.test", times=None))
        async with starting(slack, tmp_path):
            await slack.wait_for(lambda: len(slack.journal.of("api", "auth.test")) > 8)
    assert len([record for record in caplog.records if "Slack was not reached" in record.getMessage()]) == 1


def test_alerts_reach_a_bot_that_is_not_ready_since_slack_is_down_and_slack_only_a_ready_one() -> None:
    by_mode = {
        mode: {
            object_["metadata"]["name"]: object_["spec"]
            for object_ in of_kind("Service", manifests({"slack": {"mode": mode}}))
        }
        for mode in ("socket", "http")
    }
    assert [value["hami-bot"].get("publishNotReadyAddresses") for value in by_mode.values()] == [True, True]
    alerts, slack = by_mode["http"]["hami-bot"], by_mode["http"]["hami-bot-slack"]
    assert not slack.get("publishNotReadyAddresses")
    assert (slack["selector"], slack["ports"]) == (alerts["selector"], alerts["ports"])
