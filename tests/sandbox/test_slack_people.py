"""What people and other bots do that is more than a new message: edits, replies that are also sent, alerts."""

import json
from collections.abc import Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from slack_sdk.errors import SlackApiError

from sandbox.slack import App, Fault, Seed, SlackError, SlackServer, VirtualClock, strangers
from sandbox.slack.seed import PAT, SHARED
from tests.sandbox.slack_support import new_app, socket_mode, web_client

ADA, ONCALL = "U0ADA00001", "C0GPUONC01"
ALL_EVENTS = ("app_mention", "message.im", "message.channels", "message.groups", "app_home_opened")
_RECORDED = json.loads((Path(__file__).parent / "data" / "slack_events.json").read_text(encoding="utf-8"))
RECORDED: dict[str, Any] = {recorded["kind"].removeprefix("event:"): recorded["event"] for recorded in _RECORDED}
"""Events of the real Slack, by type and subtype."""
LABELS = {"alertname": "HAMiPodPending", "namespace": "ml", "pod": "trainer-0", "severity": "warning"}


@asynccontextmanager
async def listening(*events: str):
    """A workspace with an app that takes these events."""
    async with SlackServer(seed=Seed(app=App(events=events or ALL_EVENTS))) as slack:
        app = new_app(slack)

        async def hear() -> None:
            """What it was sent is in the journal."""

        app.event("app_mention")(hear)
        app.event("message")(hear)
        async with socket_mode(slack, app):
            yield slack


def sent(slack: SlackServer) -> list[dict[str, Any]]:
    """The events that the app was sent, each with its event_id."""
    payloads = [entry.request for entry in slack.journal.of("delivery")]
    return [payload["event"] | {"event_id": payload["event_id"]} for payload in payloads]


def fields_of(value: Any, path: str = "") -> Iterator[str]:
    """The path of every field; the elements of a list share theirs."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield f"{path}/{key}"
            yield from fields_of(inner, f"{path}/{key}")
    elif isinstance(value, list):
        for inner in value:
            yield from fields_of(inner, f"{path}[]")


def lacks(event: dict[str, Any], recorded: str) -> set[str]:
    """The fields of the recorded event that this one has not."""
    return set(fields_of(RECORDED[recorded])) - set(fields_of(event))


async def test_an_edited_mention_is_a_new_mention_of_the_same_message() -> None:
    async with listening("app_mention") as slack:
        ts = (await slack.mention("ada", ONCALL, "why ml/x")).ts
        await slack.edit("ada", ONCALL, ts, "@hami-bot why ml/y")
        first, second = sent(slack)
    assert first["event_id"] != second["event_id"]
    assert (first["ts"], second["ts"]) == (ts, ts)
    assert (first["client_msg_id"], "edited" in first) == (second["client_msg_id"], False)
    assert second["edited"]["user"] == ADA
    assert second["text"] == "<@U0HAMIBOT1> why ml/y"
    assert lacks(second, "app_mention") == set()


async def test_an_edit_is_told_as_message_changed_with_what_it_was() -> None:
    async with listening("message.im") as slack:
        ts = (await slack.say("ada", slack.dm("ada"), "why ml/x")).ts
        await slack.edit("ada", slack.dm("ada"), ts, "why ml/y")
        changed = sent(slack)[-1]
        (shown,) = slack.messages(slack.dm("ada"))
    assert (changed["message"]["text"], changed["previous_message"]["text"]) == ("why ml/y", "why ml/x")
    assert (changed["message"]["ts"], changed["channel_type"], changed["hidden"]) == (ts, "im", True)
    assert lacks(changed, "message/message_changed") == set()
    assert (shown["text"], shown["edited"]["user"]) == ("why ml/y", ADA)


async def test_what_somebody_of_another_organisation_does_names_their_team() -> None:
    seed = Seed(users=(*Seed().users, PAT), channels=(*Seed().channels, SHARED), app=App(events=ALL_EVENTS))
    async with SlackServer(seed=seed) as slack:
        await slack.mention("pat", SHARED.name, "help")
        await slack.mention("ada", SHARED.name, "help")
        await slack.say("pat", slack.dm("pat"), "help")
        await slack.command("pat", SHARED.name, "help")
        told = [entry.request for entry in slack.journal.of("delivery")]
        events = [payload for payload in told if "event" in payload]
        mentions = [payload for payload in events if payload["event"]["type"] == "app_mention"]
        assert all(payload["is_ext_shared_channel"] for payload in events)
        assert [payload["event"].get("user_team") for payload in mentions] == [PAT.team_id, None]
        assert told[-1]["team_id"] == PAT.team_id
        person = await web_client(slack).users_info(user=PAT.id)
        assert person["user"]["team_id"] == PAT.team_id


async def test_a_reply_that_is_also_sent_stands_in_the_channel_and_is_told_with_its_root() -> None:
    async with listening("message.im") as slack:
        room = slack.dm("ada")
        head = (await slack.say("ada", room, "nodes")).ts
        await slack.say("ada", room, "why ml/x", thread_ts=head, broadcast=True)
        said = sent(slack)[-1]
        top = [message["text"] for message in slack.messages(room)]
    assert (said["subtype"], said["thread_ts"], said["root"]["text"]) == ("thread_broadcast", head, "nodes")
    assert lacks(said, "message/thread_broadcast") == set()
    assert top == ["nodes", "why ml/x"]


async def test_an_alert_of_another_bot_is_a_bot_message_whose_details_are_in_attachments() -> None:
    async with listening("message.channels") as slack:
        ts = await slack.alert(ONCALL, strangers.alertmanager(LABELS))
        (event,) = sent(slack)
        history = await web_client(slack).conversations_replies(channel=ONCALL, ts=ts)
    assert lacks(event, "message/bot_message") == set()
    assert (event["username"], event["text"], "user" in event) == ("Alertmanager", "", False)
    (attachment,) = history["messages"][0]["attachments"]
    assert attachment["title"] == "[FIRING:1] HAMiPodPending (ml trainer-0 warning)"
    assert (attachment["id"], attachment["color"]) == (1, "a30200")


@pytest.mark.parametrize(
    ("said", "stored"),
    [
        ("ask for nvidia.com/gpumem, please", "ask for <http://nvidia.com/gpumem|nvidia.com/gpumem>, please"),
        ("see Example.COM.", "see <http://Example.COM|Example.COM>."),
        (
            "on registry.example.com:5000/x (cuda)",
            "on <http://registry.example.com:5000/x|registry.example.com:5000/x> (cuda)",
        ),
        ("write to ada@example.com", "write to <mailto:ada@example.com|ada@example.com>"),
        ("run train.py", "run <http://train.py|train.py>"),
        ("`nvidia.com/gpu` and https://example.com/a.com", "`nvidia.com/gpu` and <https://example.com/a.com>"),
        ("ml/trainer-0 of gpu-1.local asks 1.5 e.g. v1.2", "ml/trainer-0 of gpu-1.local asks 1.5 e.g. v1.2"),
    ],
)
async def test_a_bare_domain_is_a_link_with_what_was_typed_as_its_label(said: str, stored: str) -> None:
    async with SlackServer() as slack:
        await slack.say("ada", ONCALL, said)
        assert slack.messages(ONCALL)[-1]["text"] == stored


async def test_a_group_direct_message_is_private_to_its_people_and_the_app_hears_of_mentions_there() -> None:
    async with listening("app_mention", "message.mpim") as slack:
        group = slack.group("ada", "grace")
        await slack.mention("ada", group, "why ml/x")
        with pytest.raises(SlackError, match="not_in_channel"):
            await slack.say("linus", group, "me too")
        mention, message = sent(slack)
        with pytest.raises(SlackApiError, match="mpim:history"):
            await web_client(slack).conversations_replies(channel=group, ts=mention["ts"])
    assert (mention["type"], message["channel_type"]) == ("app_mention", "mpim")


async def test_a_file_may_appear_a_moment_after_it_was_completed() -> None:
    scopes = (*App().scopes, "files:read")
    async with SlackServer(seed=Seed(app=App(scopes=scopes)), clock=VirtualClock()) as slack:
        client = web_client(slack)
        slack.faults.append(Fault("late_files", seconds=2))
        before = len(slack.messages(ONCALL))
        announced = await client.files_getUploadURLExternal(filename="use.png", length=1)
        async with aiohttp.ClientSession() as session:
            await session.post(announced["upload_url"], data=b"x")
        file_id = announced["file_id"]
        done = await client.files_completeUploadExternal(files=[{"id": file_id, "title": "Use"}], channel_id=ONCALL)
        early = await client.files_info(file=file_id)
        assert (done["files"], early["file"]["mimetype"]) == ([{"id": file_id, "title": "Use"}], "")
        assert len(slack.messages(ONCALL)) == before
        await slack.clock.advance(2)
        assert slack.messages(ONCALL)[-1]["files"][0]["mimetype"] == "image/png"
        assert (await client.files_info(file=file_id))["file"]["mimetype"] == "image/png"
