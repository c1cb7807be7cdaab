"""The page's interface: what it reads, what it does, what it is told, and who may use it."""

import asyncio
import json
import signal
import subprocess
import sys
from typing import Any

import aiohttp
import pytest

from sandbox.slack import SlackServer, Verb
from sandbox.slack.seed import Seed
from tests.sandbox.slack_support import BUTTONS, page, web_client

ADA, GRACE, ONCALL = "U0ADA00001", "U0GRACE001", "C0GPUONC01"


async def test_the_workspace_says_who_is_there_and_what_the_app_offers() -> None:
    seed = Seed(verbs=(Verb("why", "why <pod>", "Why is it pending?"),), welcome="Try /hami help")
    async with SlackServer(seed=seed) as slack, page(slack) as ask:
        _, body = await ask("GET", "/ui/workspace")
    assert body["team"] == {"id": "T0SANDBOX1", "name": "Sandbox"}
    assert [user["name"] for user in body["users"]] == ["ada", "grace", "linus", "hami-bot"]
    named = {channel["name"]: channel for channel in body["channels"] if not channel["is_im"]}
    assert list(named) == ["general", "gpu-oncall", "ml-training", "gpu-budget"]
    assert named["gpu-budget"]["is_private"]
    assert {tuple(channel["members"]) for channel in body["channels"] if channel["is_im"]} >= {
        (ADA, body["app"]["bot_user_id"])
    }
    assert body["app"]["commands"][0]["command"] == "/hami"
    assert body["app"]["shortcuts"] == [{"callback_id": "diagnose", "name": "Diagnose with HAMi", "type": "message"}]
    assert body["app"]["connected"] is False
    assert body["verbs"] == [{"name": "why", "usage": "why <pod>", "help": "Why is it pending?"}]
    assert body["welcome"] == "Try /hami help"


async def test_the_page_is_told_what_changed_and_not_what_concerns_others() -> None:
    async with SlackServer() as slack, aiohttp.ClientSession() as session:
        client = web_client(slack)
        async with session.get(f"{slack.url}/ui/events?user={GRACE}") as stream:
            assert stream.headers["Content-Type"] == "text/event-stream"
            assert (await stream.content.readline()).startswith(b":")
            await client.chat_postEphemeral(channel=ONCALL, user=ADA, text="only Ada")
            await client.views_publish(user_id=ADA, view={"type": "home", "blocks": BUTTONS})
            await client.chat_postMessage(channel="C0GENERAL1", text="everybody")
            news: list[dict[str, Any]] = []
            while not any(new["type"] == "messages" for new in news):
                line = await stream.content.readline()
                if line.startswith(b"data: "):
                    news.append(json.loads(line.removeprefix(b"data: ")))
        assert {"type": "messages", "channel": "C0GENERAL1", "thread_ts": None} in news
        assert all(new["type"] in {"messages", "journal"} and new.get("channel") != ONCALL for new in news)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"X-Sandbox": "1"}, 200),
        ({"X-Sandbox": "1", "Host": "localhost"}, 200),
        ({}, 403),
        ({"X-Sandbox": "1", "Host": "sandbox.example"}, 403),
        ({"X-Sandbox": "1", "Host": "127.0.0.1.sandbox.example"}, 403),
        ({"X-Sandbox": "1", "Host": "[::1"}, 403),
        ({"X-Sandbox": "1", "Origin": "https://sandbox.example"}, 403),
        ({"X-Sandbox": "1", "Origin": "null"}, 403),
    ],
)
async def test_only_this_machine_and_its_own_page_may_ask(headers: dict[str, str], status: int) -> None:
    async with SlackServer() as slack, aiohttp.ClientSession() as session:
        async with session.get(f"{slack.url}/ui/workspace", headers=headers) as answer:
            assert answer.status == status
        own = {"X-Sandbox": "1", "Origin": slack.url}
        async with session.get(f"{slack.url}/control/unknown", headers=own) as answer:
            assert answer.status == 200


async def test_another_site_reaches_neither_the_api_nor_the_sockets() -> None:
    async with SlackServer() as slack, aiohttp.ClientSession(headers={"Origin": "https://x.example"}) as session:
        for path in ("/", "/api/auth.test", "/link?ticket=x", "/ui/events?user=U"):
            async with session.get(f"{slack.url}{path}") as answer:
                assert answer.status == 403


@pytest.mark.process
def test_it_runs_alone_and_says_how_to_connect() -> None:
    with subprocess.Popen([sys.executable, "-m", "sandbox.slack"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        lines = [process.stdout.readline().strip() for _ in range(5)]
        assert lines[0].startswith("http://127.0.0.1:")
        assert lines[1].split()[-1] == f"{lines[0]}/api/"
        assert lines[2].split()[-1].startswith("xoxb-")
        assert lines[3].split()[-1].startswith("xapp-")

        async def run() -> None:
            headers = {"Authorization": f"Bearer {lines[2].split()[-1]}"}
            async with (
                aiohttp.ClientSession(headers=headers) as session,
                session.post(f"{lines[0]}/api/auth.test") as answer,
            ):
                assert (await answer.json())["ok"]

        asyncio.run(run())
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
