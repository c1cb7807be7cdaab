"""Every failure on demand, seen by the unmodified SDK."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import pytest
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from sandbox.slack import Fault, SlackServer, VirtualClock
from tests.sandbox.slack_support import new_app, page, socket_mode, web_client

ONCALL = "C0GPUONC01"
HELLO = {"channel": ONCALL, "text": "hello"}


def talk(conversation: Callable[[SlackServer, AsyncWebClient], Awaitable[None]], **options: Any) -> None:
    async def run() -> None:
        async with SlackServer(**options) as slack:
            await conversation(slack, web_client(slack))

    asyncio.run(run())


def posted(slack: SlackServer) -> int:
    return sum(message["text"] == "hello" for message in slack.messages(ONCALL))


@pytest.mark.parametrize("retry_after", ["1", "1.5"])
def test_too_many_requests_with_the_wait_as_it_was_given(retry_after: str) -> None:
    async def conversation(slack: SlackServer, client: AsyncWebClient) -> None:
        slack.faults.append(Fault("rate_limited", "chat.postMessage", retry_after=retry_after))
        with pytest.raises(SlackApiError) as caught:
            await client.chat_postMessage(**HELLO)
        answer = caught.value.response
        assert (answer.status_code, answer.headers["Retry-After"], answer["error"]) == (429, retry_after, "ratelimited")
        assert (posted(slack), (await client.chat_postMessage(**HELLO))["ok"]) == (0, True)

    talk(conversation)


@pytest.mark.parametrize("status", [500, 502, 503])
def test_a_failing_proxy_answers_with_a_web_page(status: int) -> None:
    async def conversation(slack: SlackServer, client: AsyncWebClient) -> None:
        slack.faults.append(Fault("status", status=status))
        with pytest.raises(SlackApiError) as caught:
            await client.chat_postMessage(**HELLO)
        assert caught.value.response.status_code == status
        assert posted(slack) == 0

    talk(conversation)


@pytest.mark.parametrize(("kind", "happened"), [("reset", 0), ("reset_after", 1)])
def test_a_connection_is_reset_before_or_after_the_message_was_posted(kind: Any, happened: int) -> None:
    async def conversation(slack: SlackServer, client: AsyncWebClient) -> None:
        slack.faults.append(Fault(kind, "chat.postMessage"))
        with pytest.raises(aiohttp.ClientConnectionError):
            await client.chat_postMessage(**HELLO)
        assert posted(slack) == happened

    talk(conversation)


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


def test_revoked_tokens_stop_the_api_and_not_the_response_urls() -> None:
    async def conversation(slack: SlackServer, client: AsyncWebClient) -> None:
        await slack.command("ada", ONCALL)
        slack.faults.append(Fault("revoked"))
        for call in (client.auth_test(), client.apps_connections_open(app_token=slack.app_token)):
            with pytest.raises(SlackApiError, match="token_revoked"):
                await call
        url = slack.journal.of("delivery")[-1].request["response_url"]
        async with aiohttp.ClientSession() as session, session.post(url, json={"text": "x"}) as answer:
            assert answer.status == 200

    talk(conversation)


async def test_an_outage_resets_every_connection_until_it_is_over() -> None:
    async with SlackServer(clock=VirtualClock()) as slack:
        app, client = new_app(slack), web_client(slack)

        @app.command("/hami")
        async def hami(ack: Any) -> None:
            await ack()

        async with socket_mode(slack, app, ping_interval=0.2), page(slack) as ask:
            slack.faults.append(Fault("outage", until=slack.clock.now() + 60))
            await slack.wait_for(lambda: not slack.connected)
            with pytest.raises(aiohttp.ClientConnectionError):
                await client.auth_test()
            assert (await slack.command("ada", ONCALL)).error == "dispatch_failed"
            assert (await ask("GET", "/ui/workspace"))[1]["app"]["connected"] is False, "the page still works"
            await slack.clock.advance(60)
            await slack.wait_for(lambda: slack.connected)
            assert (await client.auth_test())["ok"]
            assert (await slack.command("ada", ONCALL)).ok


async def test_a_duplicate_delivery_runs_the_listener_twice() -> None:
    async with SlackServer() as slack:
        app = new_app(slack)
        events: list[str] = []

        @app.event("app_mention")
        async def mention(body: Any, say: Any) -> None:
            events.append(body["event_id"])
            await say(f"heard {len(events)}")

        async with socket_mode(slack, app):
            slack.faults.append(Fault("duplicate", "delivery/events_api"))
            await slack.mention("ada", ONCALL, "why")
            await slack.wait_for(channel=ONCALL, containing="heard 2")
        assert len(events) == 2
        assert len(set(events)) == 1


async def test_the_sdk_leaves_a_silent_peer_and_connects_again() -> None:
    async with SlackServer() as slack:
        app = new_app(slack)
        async with socket_mode(slack, app, ping_interval=0.2):
            slack.faults.append(Fault("silent"))
            await slack.wait_for(lambda: slack.journal.of("socket", "connected 2"))


def test_a_response_url_and_an_upload_fail_like_any_request() -> None:
    async def conversation(slack: SlackServer, client: AsyncWebClient) -> None:
        await slack.command("ada", ONCALL)
        slack.faults.append(Fault("status", "^commands/", status=502))
        slack.faults.append(Fault("status", "^upload/", status=500))
        response_url = slack.journal.of("delivery")[-1].request["response_url"]
        upload_url = (await client.files_getUploadURLExternal(filename="a.txt", length=1))["upload_url"]
        async with aiohttp.ClientSession() as session:
            for url, status in ((response_url, 502), (upload_url, 500), (upload_url, 200)):
                async with session.post(url, data=b"x") as answer:
                    assert answer.status == status

    talk(conversation)


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
