"""An unmodified slack-bolt app in Socket Mode: what people do reaches it, what it answers reaches them."""

import asyncio
from typing import Any

import aiohttp
import pytest

from sandbox.slack import SlackServer, VirtualClock
from tests.sandbox.slack_support import MODAL, new_app, socket_mode, web_client

ONCALL = "C0GPUONC01"


async def test_the_text_of_a_command_arrives_escaped_and_otherwise_as_typed() -> None:
    async with SlackServer() as slack:
        app = new_app(slack)
        texts: list[str] = []

        @app.command("/hami")
        async def hami(ack: Any, command: Any) -> None:
            texts.append(command["text"])
            await ack()

        async with socket_mode(slack, app):
            await slack.command("ada", "gpu-oncall", "why <b> & @grace https://x.example")
        assert texts == ["why &lt;b&gt; &amp; @grace https://x.example"]


async def test_a_command_that_nobody_acknowledges_times_out_after_three_seconds_on_the_clock() -> None:
    async with SlackServer(clock=VirtualClock()) as slack:
        app = new_app(slack)
        release = asyncio.Event()

        @app.command("/hami")
        async def hami(ack: Any) -> None:
            await release.wait()
            await ack("late")

        async with socket_mode(slack, app):
            asking = asyncio.ensure_future(slack.command("ada", ONCALL, "why"))
            await slack.wait_for(lambda: slack.journal.of("delivery"))
            await slack.clock.advance(2.9)
            assert not asking.done()
            await slack.clock.advance(0.2)
            assert (await asking).error == "operation_timeout"
            release.set()
            await slack.wait_for(lambda: slack.journal.of("socket", "late ack"))
        assert all(message["text"] != "late" for message in slack.messages(ONCALL, "ada"))


async def test_without_an_app_a_command_is_not_dispatched() -> None:
    async with SlackServer() as slack:
        assert (await slack.command("ada", ONCALL, "why")).error == "dispatch_failed"


async def test_an_event_is_retried_at_once_after_a_minute_and_after_five_more() -> None:
    async with SlackServer(clock=VirtualClock()) as slack, aiohttp.ClientSession() as session:
        opened = await web_client(slack, slack.app_token).apps_connections_open(app_token=slack.app_token)
        async with session.ws_connect(opened["url"]) as socket:
            await socket.receive_json()
            began = slack.clock.now()
            saying = asyncio.ensure_future(slack.mention("ada", ONCALL, "why"))
            seen = []
            for advance in (3, 3 + 60, 3 + 300, 0):
                envelope = await socket.receive_json()
                moment = round(slack.clock.now() - began)
                seen.append((moment, envelope["retry_attempt"], envelope["retry_reason"]))
                await slack.clock.advance(advance)
            await socket.send_json({"envelope_id": envelope["envelope_id"]})
            assert (await saying).error == "operation_timeout"
            await slack.wait_for(lambda: slack.journal.entries[-1].kind == "ack" and slack.journal.entries[-1].ok)
            assert seen == [(0, 0, ""), (3, 1, "timeout"), (66, 2, "timeout"), (369, 3, "timeout")]


async def test_a_ticket_opens_one_socket_within_thirty_seconds() -> None:
    async with SlackServer(clock=VirtualClock()) as slack, aiohttp.ClientSession() as session:
        client = web_client(slack)

        async def ticket() -> str:
            return (await client.apps_connections_open(app_token=slack.app_token))["url"]

        async def status(url: str) -> int:
            with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
                await session.ws_connect(url)
            return caught.value.status

        fresh = await ticket()
        async with session.ws_connect(fresh) as socket:
            hello = await socket.receive_json()
            assert (hello["type"], hello["num_connections"]) == ("hello", 1)
            assert await status(fresh) == 408
        assert await status(fresh.replace("ticket=", "ticket=x")) == 401
        old = await ticket()
        await slack.clock.advance(30)
        assert await status(old) == 408


async def test_a_refreshed_socket_is_replaced_and_the_app_keeps_hearing() -> None:
    async with SlackServer() as slack:
        app = new_app(slack)

        @app.command("/hami")
        async def hami(ack: Any) -> None:
            await ack()

        async with socket_mode(slack, app):
            await slack.disconnect("refresh_requested")
            await slack.wait_for(lambda: slack.journal.of("socket", "connected 2"))
            assert (await slack.command("ada", ONCALL)).ok


async def test_a_trigger_id_is_good_for_three_seconds() -> None:
    async with SlackServer(clock=VirtualClock()) as slack:
        app = new_app(slack)
        triggers: list[str] = []

        @app.command("/hami")
        async def hami(ack: Any, command: Any) -> None:
            triggers.append(command["trigger_id"])
            await ack()

        async with socket_mode(slack, app):
            await slack.command("ada", ONCALL)
            await slack.clock.advance(3)
            with pytest.raises(Exception, match="expired_trigger_id"):
                await web_client(slack).views_open(trigger_id=triggers[0], view=MODAL)
