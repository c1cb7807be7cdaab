"""The sandbox's Web API takes what the unmodified SDK sends and refuses what Slack refuses."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import pytest
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from sandbox.slack import App, Room, Seed, SlackServer, VirtualClock
from tests.sandbox.slack_support import MODAL, section, web_client

ONCALL, BUDGET = "C0GPUONC01", "C0BUDGET01"


def talk(
    conversation: Callable[[SlackServer, AsyncWebClient], Awaitable[None]], seed: Seed | None = None, **options: Any
) -> None:
    async def run() -> None:
        async with SlackServer(seed=seed, **options) as slack:
            await conversation(slack, web_client(slack))
            assert slack.unknown_methods == []

    asyncio.run(run())


async def refusal(call: Awaitable[Any]) -> Any:
    """The body of a call that is answered with ok: false."""
    with pytest.raises(SlackApiError) as caught:
        await call
    return caught.value.response.data


def test_a_message_is_posted_changed_found_and_deleted() -> None:
    async def conversation(slack: SlackServer, client: AsyncWebClient) -> None:
        metadata = {"event_type": "hami_bot", "event_payload": {"key": "k1"}}
        posted = await client.chat_postMessage(channel=ONCALL, text="one", blocks=[section("one")], metadata=metadata)
        await client.chat_postMessage(channel=ONCALL, text="reply", thread_ts=posted["ts"])
        await client.chat_update(channel=ONCALL, ts=posted["ts"], text="two")

        head, reply = (await client.conversations_replies(channel=ONCALL, ts=posted["ts"]))["messages"]
        assert (head["text"], head["blocks"][0]["text"]["text"]) == ("two", "one"), "blocks not named stay"
        assert (head["reply_count"], head["latest_reply"], "metadata" in head) == (1, reply["ts"], False)
        found = await client.conversations_history(channel=ONCALL, limit=1, include_all_metadata=True)
        assert found["messages"][0]["metadata"]["event_payload"] == {"key": "k1"}

        await client.chat_update(channel=ONCALL, ts=posted["ts"], text="three", blocks=[])
        assert "blocks" not in (await client.conversations_history(channel=ONCALL, limit=1))["messages"][0]
        await client.chat_delete(channel=ONCALL, ts=reply["ts"])
        assert [message["text"] for message in slack.messages(ONCALL, thread_ts=posted["ts"])] == ["three"]

    talk(conversation)


def test_history_is_read_in_pages() -> None:
    async def conversation(slack: SlackServer, client: AsyncWebClient) -> None:
        texts, cursor = [], ""
        for _ in range(3):
            answer = await client.conversations_history(channel="C0GENERAL1", limit=1, cursor=cursor)
            texts += [message["text"] for message in answer["messages"]]
            cursor = answer["response_metadata"]["next_cursor"]
        assert (len(set(texts)), cursor) == (3, "")
        assert texts[0].startswith("Yes."), "newest first"

    talk(conversation)


OUTSIDE = Room("C0OUTSIDE1", "outside", ("U0ADA00001",), with_app=False)
ARCHIVED = Room("C0ARCHIVED", "archived", ("U0ADA00001",), is_archived=True)
WRONG: list[tuple[str, str, dict[str, Any]]] = [
    ("channel_not_found", "chat_postMessage", {"channel": "C0NOWHERE1", "text": "x"}),
    ("channel_not_found", "chat_postMessage", {"channel": BUDGET, "text": "x"}),
    ("not_in_channel", "chat_postMessage", {"channel": OUTSIDE.id, "text": "x"}),
    ("is_archived", "chat_postMessage", {"channel": ARCHIVED.id, "text": "x"}),
    ("msg_too_long", "chat_postMessage", {"channel": ONCALL, "text": "x" * 40_001}),
    ("thread_not_found", "chat_postMessage", {"channel": ONCALL, "text": "x", "thread_ts": "1.000001"}),
    ("message_not_found", "chat_update", {"channel": ONCALL, "ts": "1.000001", "text": "x"}),
    ("message_not_found", "chat_delete", {"channel": ONCALL, "ts": "1.000001"}),
    ("user_not_in_channel", "chat_postEphemeral", {"channel": "C0MLTRAIN1", "user": "U0GRACE001", "text": "x"}),
    ("user_not_found", "chat_postEphemeral", {"channel": ONCALL, "user": "U0NOBODY01", "text": "x"}),
    ("message_not_found", "reactions_add", {"channel": ONCALL, "name": "eyes", "timestamp": "1.000001"}),
    ("missing_scope", "conversations_join", {"channel": OUTSIDE.id}),
    ("invalid_trigger_id", "views_open", {"trigger_id": "1.2.3", "view": MODAL}),
    ("invalid_limit", "conversations_history", {"channel": ONCALL, "limit": 0}),
]


@pytest.mark.parametrize(("word", "method", "arguments"), WRONG)
def test_what_slack_refuses_is_refused_in_its_words(word: str, method: str, arguments: dict[str, Any]) -> None:
    async def conversation(slack: SlackServer, client: AsyncWebClient) -> None:
        assert (await refusal(getattr(client, method)(**arguments)))["error"] == word

    talk(conversation, Seed(channels=(*Seed().channels, OUTSIDE, ARCHIVED)))


def test_a_missing_scope_names_what_is_needed_and_what_is_there() -> None:
    async def conversation(slack: SlackServer, client: AsyncWebClient) -> None:
        body = await refusal(client.conversations_join(channel=ONCALL))
        assert body["needed"] == "channels:join"
        assert body["provided"].split(",") == list(App().scopes)

    talk(conversation)


def test_blocks_beyond_slacks_limits_are_refused_with_a_pointer() -> None:
    async def conversation(slack: SlackServer, client: AsyncWebClient) -> None:
        posting = client.chat_postMessage(channel=ONCALL, text="x", blocks=[section("ok"), section("x" * 3001)])
        body = await refusal(posting)
        assert body["error"] == "invalid_blocks"
        assert body["errors"] == ["must be less than 3001 characters [json-pointer:/blocks/1/text/text]"]
        assert slack.journal.entries[-1].violations[0]["pointer"] == "/1/text/text"

    talk(conversation)


def test_an_upload_url_takes_the_announced_bytes_once() -> None:
    async def conversation(slack: SlackServer, client: AsyncWebClient) -> None:
        announced = await client.files_getUploadURLExternal(filename="a.txt", length=3)
        unsent = client.files_completeUploadExternal(files=[{"id": announced["file_id"], "title": "a"}])
        assert (await refusal(unsent))["error"] == "file_not_found"
        async with aiohttp.ClientSession() as session:
            statuses = []
            for _ in range(2):
                async with session.post(announced["upload_url"], data=b"abc") as answer:
                    statuses.append(answer.status)
        assert statuses == [200, 400]

    talk(conversation)


def test_messages_to_one_channel_are_limited_to_a_burst_and_one_per_second() -> None:
    async def conversation(slack: SlackServer, client: AsyncWebClient) -> None:
        statuses = []
        async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {slack.bot_token}"}) as session:
            for _ in range(5):
                body = {"channel": ONCALL, "text": "x"}
                async with session.post(f"{slack.api_url}chat.postMessage", json=body) as answer:
                    statuses.append((answer.status, answer.headers.get("Retry-After")))
        assert statuses == [(200, None)] * 3 + [(429, "1")] * 2
        assert (await client.chat_postMessage(channel="C0GENERAL1", text="elsewhere"))["ok"]
        await slack.clock.advance(1)
        assert (await client.chat_postMessage(channel=ONCALL, text="later"))["ok"]

    talk(conversation, clock=VirtualClock())
