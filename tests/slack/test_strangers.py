"""People of other organisations, whom a shared channel brings before the bot, get one refusal and nothing else."""

import asyncio
import contextlib
import json
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from msgspec import structs

from bot.main import running
from bot.settings.schema import AccessSettings
from bot.slack.app import WrongInstall
from sandbox.slack import App, Person, Said, Seed, SlackServer
from sandbox.slack.payloads import command_payload, event_payload, interaction
from sandbox.slack.seed import PAT, SHARED
from tests.slack.bot import MODES, PATIENT, POD, VERDICT, Gated, Mode, recorded, settings
from tests.slack.deliveries import later

pytestmark = pytest.mark.few(12)

ADA, DM = "U0ADA00001", "D0PAT00001"
OURS, THEIRS, THEIR_GRID, OUR_GRID = "T0SANDBOX1", PAT.team_id, "E0PARTNER1", "E0OURS0001"
WAYS = {"stranger": "You are from another one", "unread": "Slack did not tell me who you are"}
GUEST = Person("U0GUEST001", "guy", "Guy (guest)", is_guest=True)
EVENTS = ("app_mention", "message.im", "app_home_opened", "message.channels")
APP = App(events=EVENTS)
PARTNERS = replace(SHARED, members=(*SHARED.members, GUEST.id))
SEED = replace(
    Seed(),
    users=(*Seed().users, PAT, GUEST),
    channels=(*Seed().channels, PARTNERS),
    messages=(Said(SHARED.id, "U0GRACE001", "Who knows about GPUs here?", 60),),
    app=APP,
)
UNASKED = replace(SEED, app=replace(APP, scopes=tuple(scope for scope in APP.scopes if scope != "users:read")))
"""A workspace in which Slack does not tell the bot who people are."""
WHY = f"why ml/{POD}"


class Sent(NamedTuple):
    kind: Any
    payload: dict[str, Any]


Make = Callable[[SlackServer], Sent]


def command(text: str = WHY, who: str = PAT.id, **fields: Any) -> Make:
    def make(slack: SlackServer) -> Sent:
        world = slack._world
        payload = command_payload(world, APP.commands[0], text, world.responses.issue("commands", SHARED.id, who))
        return Sent("slash_commands", _with(payload, fields))

    return make


def event(about: dict[str, Any], channel: str = SHARED.id, *, shared: bool = True, **envelope: Any) -> Make:
    """An event of a person of which only what `about` and `envelope` say tells where they are from."""

    def make(slack: SlackServer) -> Sent:
        world, ts = slack._world, slack.workspace.stamp()
        text = f"<@{APP.bot_user_id}> {WHY}" if channel == SHARED.id else WHY
        told = {"type": "app_mention", "user": PAT.id, "text": text, "channel": channel, "ts": ts, "event_ts": ts}
        if "thread_ts" in about:
            about["thread_ts"] = next(iter(slack.workspace.channels[SHARED.id].messages))
        if channel == DM:
            told |= {"type": "message", "channel_type": "im"}
        return Sent("events_api", _with(event_payload(world, _with(told, about), is_shared=shared), envelope))

    return make


def interactive(kind: str, who: str = PAT.id, *, on_message: bool = True, **fields: Any) -> Make:
    def make(slack: SlackServer) -> Sent:
        world, ts = slack._world, slack.workspace.stamp()
        payload: dict[str, Any] = interaction(world, kind, who) | {"trigger_id": f"{ts}.1"}
        if on_message:
            response = world.responses.issue("actions", SHARED.id, who)
            payload |= {"channel": {"id": SHARED.id}, "response_url": world.url + response.path}
            payload |= {"container": {"type": "message", "channel_id": SHARED.id, "message_ts": ts}}
            payload["message"] = {"type": "message", "ts": ts, "text": POD, "user": ADA}
        return Sent("interactive", _with(payload, fields))

    return make


def _with(payload: dict[str, Any], fields: dict[str, Any]) -> dict[str, Any]:
    """Without what is None."""
    return {name: value for name, value in (payload | fields).items() if value is not None}


def press(action_id: str, value: str = "", who: str = PAT.id, **fields: Any) -> Make:
    pressed = {"type": "button", "action_id": action_id, "block_id": "b", "value": value, "action_ts": "1.1"}
    return interactive("block_actions", who, actions=[pressed], **fields)


def form(kind: str, callback_id: str, who: str = PAT.id, view_team: str = THEIRS, **fields: Any) -> Make:
    values = {"question": {"text": {"type": "plain_text_input", "value": WHY}}}
    view = {"id": "V1", "hash": "1", "type": "modal", "callback_id": callback_id, "team_id": view_team}
    view |= {"state": {"values": values}, "private_metadata": "", "app_installed_team_id": OURS}
    return interactive(kind, who, on_message=False, view=view, **fields)


STRANGERS: dict[str, Make] = {
    "a command": command(),
    "a command for an overview": command("pending"),
    "a command that schedules a digest": command("digest daily at 09:00"),
    "a command that changes the scheduler": command("verbosity 5 for 10m because it hangs"),
    "a command of which only the team is foreign": command(who=ADA, team_id=THEIRS),
    "a command that names no team": command(team_id=None),
    "a command of another Grid": command(team_id="T0PARTNER2", enterprise_id=THEIR_GRID),
    "a mention with a user's team": event({"team": OURS, "user_team": THEIRS}),
    "a mention with a source's team": event({"team": OURS, "source_team": THEIRS}),
    "a mention with a profile's team": event({"team": OURS, "user_profile": {"team": THEIRS}}),
    "a mention with a user's Grid": event({"team": OURS, "user_team": THEIR_GRID, "source_team": THEIR_GRID}),
    "a mention by somebody with two teams": event({"user_team": OURS, "source_team": THEIRS}),
    "a mention with the message's team": event({"team": THEIRS}),
    "a mention that names our side": event({"team": OURS}),
    "a mention that names no team": event({}),
    "a mention where the channel is not said to be shared": event({"user_team": THEIRS}, shared=False),
    "a mention from another envelope": event({"team": OURS}, shared=False, team_id=THEIRS),
    "a mention of another team in an ordinary channel": event({"team": THEIRS}, shared=False),
    "a mention without that it is shared": event({"user_team": THEIRS}, is_ext_shared_channel=None),
    "a mention in a thread": event({"user_team": THEIRS, "thread_ts": ""}),
    "an edited mention": event({"user_team": THEIRS, "edited": {"user": PAT.id, "ts": "1.000000"}}),
    "a direct message": event({"user_team": THEIRS}, DM),
    "a direct message that names no team": event({}, DM),
    "a direct message with a file": event({"user_team": THEIRS, "subtype": "file_share", "files": []}, DM),
    "an edited direct message": event(
        {
            "subtype": "message_changed",
            "user": None,
            "text": None,
            "message": {"user": PAT.id, "text": WHY, "ts": "1.1", "edited": {"ts": "2.0"}, "user_team": THEIRS},
            "previous_message": {"user": PAT.id, "text": "x", "ts": "1.1"},
        },
        DM,
    ),
    "the Home tab": event({"type": "app_home_opened", "tab": "home"}, DM),
    "the Home tab from another envelope": event(
        {"type": "app_home_opened", "tab": "home"}, DM, shared=False, team_id=THEIRS
    ),
    "a click": press(f"ask:{WHY}", WHY),
    "a click that posts an answer": press("post-to-channel", WHY),
    "a click on an incident": press("triage:close", "1"),
    "a click on a change": press("change:revert", "1"),
    "a click that opens a form": press("ask-form"),
    "a click of which only the team is foreign": press("show-everything", WHY, ADA, team={"id": THEIRS}),
    "a click of which the team is a word": press("show-everything", WHY, ADA, team=THEIRS, user={"id": ADA}),
    "a click of which only the user's team is foreign": press(
        "show-everything", WHY, team={"id": OURS}, user={"id": PAT.id, "team_id": THEIRS}
    ),
    "a click that names no team": press("show-everything", WHY, team=None, user={"id": PAT.id}),
    "a click without a team": press("show-everything", WHY, team=None, user={"id": PAT.id, "team_id": THEIRS}),
    "a click of another Grid": press(
        "show-everything",
        WHY,
        team={"id": "T0PARTNER2", "enterprise_id": THEIR_GRID},
        user={"id": PAT.id},
        enterprise={"id": THEIR_GRID},
    ),
    "a form": form("view_submission", "ask"),
    "a form that was opened elsewhere": form("view_submission", "ask", ADA),
    "a form of which only the team is foreign": form("view_submission", "ask", ADA, OURS, team={"id": THEIRS}),
    "a form about an incident": form("view_submission", "triage"),
    "a form for a change": form("view_submission", "change"),
    "a form for a digest": form("view_submission", "digest_add"),
    "a form that is closed": form("view_closed", "ask"),
    "a message's shortcut": interactive("message_action", callback_id="diagnose"),
    "a global shortcut": interactive("shortcut", on_message=False, callback_id="diagnose"),
    "a menu that asks for options": interactive("block_suggestion", action_id="a", block_id="b", value="x"),
}


@contextlib.asynccontextmanager
async def a_bot(folder: Path, seed: Seed = SEED, mode: Mode = "socket", opener: Any = recorded, **access: Any):
    async with (
        asyncio.timeout(180),
        SlackServer(seed=seed, deadline_s=60) as slack,
        connected(slack, folder, mode, opener, **access),
    ):
        yield slack


@contextlib.asynccontextmanager
async def connected(
    slack: SlackServer, folder: Path, mode: Mode = "socket", opener: Any = recorded, limits=PATIENT, **access: Any
):
    wanted = settings(slack, folder, mode).model_copy(update={"access": AccessSettings(**access)})
    async with running(wanted, wanted.slack, opener, limits) as address:
        if mode == "http":
            slack.delivery, slack.request_url = "http", f"{address}/slack/events"
        yield


def said(slack: SlackServer, since: int = 0) -> list[Any]:
    """What the bot asked Slack to do, but for what it asks about people, and its answer to `later`."""
    calls = [entry for entry in slack.journal.after(since, 10_000) if entry.kind in {"api", "response_url", "upload"}]
    linus = ("U0LINUS001", slack.dm("linus"))
    return [
        call
        for call in calls
        if call.title not in {"users.info", "auth.test", "apps.connections.open"}
        and not any(name in json.dumps(call.request) for name in linus)
    ]


def kept(folder: Path, slack: SlackServer) -> set[str]:
    """The keys of what the bot took, but for what `later` asks."""
    with contextlib.closing(sqlite3.connect(folder / "bot.db", timeout=60)) as store:
        keys = {key for (key,) in store.execute("select key from seen")}
    return {key for key in keys if not key.startswith(slack.dm("linus"))}


def refusals(slack: SlackServer, why: str = "stranger") -> list[Any]:
    return [call for call in said(slack) if WAYS[why] in json.dumps(call.request)]


async def delivered(slack: SlackServer, sent: Sent) -> None:
    ack = await slack._world.delivery.send(sent.kind, sent.payload, "stranger")
    assert ack.ok
    assert not ack.payload, "an ack can carry a message or a form"


@pytest.mark.parametrize("name", STRANGERS)
async def test_what_a_stranger_sends_is_answered_by_one_refusal_to_them_alone_and_by_nothing_else(
    name: str, tmp_path: Path
) -> None:
    async with a_bot(tmp_path) as slack:
        since = slack.journal.entries[-1].id
        for _ in range(2):
            await delivered(slack, STRANGERS[name](slack))
        await slack.wait_for(lambda: refusals(slack))
        await later(slack)
        [refused] = said(slack, since)
        assert refused.ok
        assert WAYS["stranger"] in json.dumps(refused.request)
        shown_to = refused.request.get("user") or refused.request.get("channel")
        assert refused.request.get("response_type") == "ephemeral" or shown_to in {PAT.id, ADA}
        user = PAT.id if f"stranger:{PAT.id}" in kept(tmp_path, slack) else ADA
        assert await asyncio.to_thread(kept, tmp_path, slack) == {f"stranger:{user}"}
        assert (slack.home("pat"), slack.views("pat"), slack.home("ada"), slack.views("ada")) == (
            None,
            [],
            None,
            [],
        )


@pytest.mark.parametrize(
    "make",
    [
        press("triage:close", "1", team=None, enterprise={"id": OUR_GRID}),
        form("view_submission", "ask", team=None, enterprise={"id": OUR_GRID}),
    ],
    ids=["a click", "a form"],
)
async def test_where_all_of_a_grid_is_answered_a_stranger_beside_its_name_is_refused(
    make: Make, tmp_path: Path
) -> None:
    async with a_bot(tmp_path, teams=(OUR_GRID,)) as slack:
        await delivered(slack, make(slack))
        await later(slack)
        assert len(refusals(slack)) == len(said(slack)) == 1


async def test_a_stranger_who_sends_everything_is_told_once(tmp_path: Path) -> None:
    async with a_bot(tmp_path) as slack:
        everything = [make(slack) for make in STRANGERS.values()]
        assert len(everything) >= 30
        for sent in everything:
            if ADA not in json.dumps(sent.payload.get("user", sent.payload.get("user_id", ""))):
                await delivered(slack, sent)
        await slack.wait_for(lambda: refusals(slack))
        await later(slack)
        assert len(said(slack)) == 1


async def test_what_a_stranger_writes_to_others_is_left_alone(tmp_path: Path) -> None:
    async with a_bot(tmp_path) as slack:
        await slack.say("pat", SHARED.name, f"Does anybody know {POD}?")
        await later(slack)
        assert said(slack) == []
        assert await asyncio.to_thread(kept, tmp_path, slack) == set()


async def test_where_slack_does_not_say_who_somebody_is_nobody_in_a_shared_channel_is_obeyed(tmp_path: Path) -> None:
    async with a_bot(tmp_path, UNASKED) as slack:
        await slack.mention("ada", SHARED.name, WHY)
        told = await slack.wait_for(channel=SHARED.name, containing=WAYS["unread"], user="ada")
        assert told["ephemeral"]
        asked = await slack.mention("ada", "gpu-oncall", WHY)
        await slack.wait_for(channel="gpu-oncall", containing=VERDICT, thread_ts=asked.ts)
        assert not [message for message in slack.messages(SHARED.name, "ada") if VERDICT in message["text"]]


async def test_in_a_shared_channel_the_workspaces_own_people_are_answered(tmp_path: Path) -> None:
    async with a_bot(tmp_path) as slack:
        asked = await slack.mention("ada", SHARED.name, WHY)
        await slack.wait_for(channel=SHARED.name, containing=VERDICT, thread_ts=asked.ts)
        await slack.command("grace", SHARED.name, WHY)
        await slack.wait_for(channel=SHARED.name, containing=VERDICT, user="grace")
        await slack.mention("ada", SHARED.name, "help")
        await slack.wait_for(channel=SHARED.name, containing="You can ask")
        assert len(slack.journal.of("api", "users.info")) == 1, "Slack's word is kept"


async def test_people_of_a_team_that_the_settings_name_are_answered(tmp_path: Path) -> None:
    async with a_bot(tmp_path, teams=(THEIRS,)) as slack:
        asked = await slack.mention("pat", SHARED.name, WHY)
        await slack.wait_for(channel=SHARED.name, containing=VERDICT, thread_ts=asked.ts)
        await slack.command("pat", SHARED.name, WHY)
        await slack.wait_for(channel=SHARED.name, containing=VERDICT, user="pat")


@pytest.mark.parametrize("may_ask", [True, False])
async def test_guests_are_answered_unless_the_settings_say_no(tmp_path: Path, may_ask: bool) -> None:
    async with a_bot(tmp_path, guests=may_ask) as slack:
        await slack.command("guy", SHARED.name, WHY)
        expected = VERDICT if may_ask else "guests may not ask me"
        await slack.wait_for(channel=SHARED.name, containing=expected, user="guy")
        await slack.command("ada", SHARED.name, WHY)
        await slack.wait_for(channel=SHARED.name, containing=VERDICT, user="ada")


async def test_the_bot_does_not_start_where_it_is_to_refuse_guests_and_cannot_tell_who_is_one(tmp_path: Path) -> None:
    with pytest.raises(WrongInstall, match="users:read"):
        async with a_bot(tmp_path, UNASKED, guests=False):
            pass


@pytest.mark.parametrize("mode", MODES)
async def test_what_slack_sent_to_another_app_is_dropped(mode: Mode, tmp_path: Path) -> None:
    async with a_bot(tmp_path, SEED, mode) as slack:
        other = {"api_app_id": "A0OTHER001"}
        for socket in slack._world.sockets._sockets:  # one that does not say again whose it is
            await socket.send({"type": "hello"})
        makes = (command(who=ADA, **other), press("show-everything", WHY, ADA, **other))
        for sent in (*(make(slack) for make in makes), event({"user": ADA}, shared=False, **other)(slack)):
            await delivered(slack, sent)
        await later(slack)
        assert said(slack) == []
        assert await asyncio.to_thread(kept, tmp_path, slack) == set()


async def test_what_a_process_took_is_checked_again_by_the_one_that_takes_it_up(tmp_path: Path) -> None:
    cluster = Gated()
    async with asyncio.timeout(180), SlackServer(seed=UNASKED, deadline_s=60) as slack:
        hasty = structs.replace(PATIENT, drain_s=0)
        async with connected(slack, tmp_path, opener=cluster.opener, limits=hasty, teams=(THEIRS,)):
            await slack.command("pat", SHARED.name, WHY)
            await slack.command("ada", SHARED.name, WHY)
            await slack.wait_for(cluster.asked.is_set)
        async with connected(slack, tmp_path):
            await slack.wait_for(channel=SHARED.name, containing=WAYS["stranger"], user="pat")
            await slack.wait_for(channel=SHARED.name, containing=VERDICT, user="ada")
            await later(slack)
            assert not [message for message in slack.messages(SHARED.name, "pat") if VERDICT in message["text"]]
