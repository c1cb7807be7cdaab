"""An unmodified slack-bolt app behind a request URL: signatures, retries; and response URLs, which both modes share."""

import json
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from sandbox.serving import Served
from sandbox.slack import Fault, SlackServer, VirtualClock

ONCALL = "C0GPUONC01"


@pytest.mark.parametrize("stops", [False, True])
async def test_an_event_that_fails_is_sent_again_with_its_number_and_reason(stops: bool) -> None:
    async with SlackServer(clock=VirtualClock()) as slack:
        seen: list[tuple[str | None, ...]] = []

        async def fail(request: web.Request) -> web.Response:
            seen.append(tuple(request.headers.get(f"X-Slack-Retry-{name}") for name in ("Num", "Reason")))
            return web.Response(status=500, headers={"X-Slack-No-Retry": "1"} if stops else {})

        app = web.Application()
        app.router.add_post("/", fail)
        async with Served(app) as server:
            slack.request_url, slack.delivery = server.url, "http"
            assert (await slack.mention("ada", ONCALL, "why")).error == "dispatch_failed"
            if not stops:
                await slack.wait_for(lambda: len(slack.journal.of("ack")) == 2)
                await slack.clock.advance(60)
                await slack.wait_for(lambda: len(slack.journal.of("ack")) == 3)
                await slack.clock.advance(300)
                await slack.wait_for(lambda: len(slack.journal.of("ack")) == 4)
        again = [("1", "http_error"), ("2", "http_error"), ("3", "http_error")]
        assert seen == [(None, None), *([] if stops else again)]


async def test_a_delivery_is_replayed_byte_for_byte_later() -> None:
    async with SlackServer(clock=VirtualClock()) as slack:
        seen: list[tuple[str, bytes]] = []

        async def take(request: web.Request) -> web.Response:
            seen.append((request.headers["X-Slack-Signature"], await request.read()))
            return web.Response()

        app = web.Application()
        app.router.add_post("/", take)
        async with Served(app) as server:
            slack.request_url, slack.delivery = server.url, "http"
            slack.faults.append(Fault("replay", "delivery/slash_commands", seconds=60))
            await slack.command("ada", ONCALL, "why")
            assert len(seen) == 1
            await slack.clock.advance(60)
            await slack.wait_for(lambda: len(slack.journal.of("ack")) == 2)
        assert seen[0] == seen[1]


async def url_of_a_command(slack: SlackServer) -> str:
    """The response URL that a command carried; the app was not there to acknowledge it."""
    await slack.command("ada", ONCALL, "why")
    return slack.journal.of("delivery")[-1].request["response_url"]


async def post(url: str, **body: Any) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.post(url, json=body) as answer:
        return answer.status, await answer.text()


async def test_a_response_url_is_used_five_times() -> None:
    async with SlackServer() as slack:
        url = await url_of_a_command(slack)
        answers = [await post(url, text=f"answer {number}") for number in range(6)]
        assert [status for status, _ in answers] == [200] * 5 + [404]
        assert (answers[0][1], json.loads(answers[5][1])["error"]) == ("ok", "used_url")
        shown = [message["text"] for message in slack.messages(ONCALL, "ada") if message.get("ephemeral")]
        assert shown == [f"answer {number}" for number in range(5)]


async def test_a_response_url_ends_after_half_an_hour() -> None:
    async with SlackServer(clock=VirtualClock()) as slack:
        url = await url_of_a_command(slack)
        await slack.clock.advance(30 * 60 - 1)
        assert (await post(url, text="in time"))[0] == 200
        await slack.clock.advance(1)
        status, body = await post(url, text="late")
        assert (status, json.loads(body)["error"]) == (404, "expired_url")


async def test_a_commands_url_replaces_and_deletes_nothing() -> None:
    async with SlackServer() as slack:
        url = await url_of_a_command(slack)
        await post(url, text="first")
        await post(url, text="second")
        await post(url, text="third", replace_original=True)

        def shown() -> list[str]:
            return [message["text"] for message in slack.messages(ONCALL, "ada") if message.get("ephemeral")]

        assert shown() == ["first", "second", "third"]
        await post(url, delete_original=True)
        assert shown() == ["first", "second", "third"]


async def test_a_response_is_private_unless_it_says_in_channel_and_needs_no_membership() -> None:
    async with SlackServer() as slack:
        await slack.command("grace", "gpu-budget", "why")
        url = slack.journal.of("delivery")[-1].request["response_url"]
        await post(url, text="private")
        await post(url, text="public", response_type="in_channel")
        assert [message["text"] for message in slack.messages("gpu-budget", "linus")][1:] == ["public"]
        assert [message["text"] for message in slack.messages("gpu-budget", "grace")][1:] == ["private", "public"]
