"""Every failure on demand, seen by the unmodified SDK."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from sandbox.slack import Fault, SlackServer, VirtualClock
from tests.sandbox.slack_support import page, web_client


def talk(conversation: Callable[[SlackServer, AsyncWebClient], Awaitable[None]], **options: Any) -> None:
    async def run() -> None:
        async with SlackServer(**options) as slack:
            await conversation(slack, web_client(slack))

    asyncio.run(run())


def test_a_fault_may_skip_requests_and_last_for_some_time() -> None:
    async def conversation(slack: SlackServer, client: AsyncWebClient) -> None:
        now = slack.clock.now()
        slack.faults.append(Fault("error", "auth.test", skip=1, times=None, until=now + 60))
        outcomes = []
        for _ in range(3):
            try:
                outcomes.append((await client.auth_test())["ok"])
            except SlackApiError:
                outcomes.append(False)
        await slack.clock.advance(60)
        outcomes.append((await client.auth_test())["ok"])
        assert outcomes == [True, False, False, True]

    talk(conversation, clock=VirtualClock())


def test_faults_and_time_are_set_over_http() -> None:
    async def conversation(slack: SlackServer, client: AsyncWebClient) -> None:
        async with page(slack) as ask:
            plan = [{"kind": "error", "where": "auth.test", "times": None, "error": "fatal_error", "for": 60}]
            status, body = await ask("POST", "/control/faults", plan)
            assert (status, body["faults"][0]["kind"]) == (200, "error")
            with pytest.raises(SlackApiError, match="fatal_error"):
                await client.auth_test()
            await ask("POST", "/control/advance", {"seconds": 60})
            assert (await client.auth_test())["ok"]
            assert (await ask("POST", "/control/faults", [{"kind": "nonsense"}]))[0] == 400
            assert (await ask("POST", "/control/faults", []))[1]["faults"] == []
            assert (await ask("GET", "/control/unknown"))[1]["methods"] == []

    talk(conversation, clock=VirtualClock())
