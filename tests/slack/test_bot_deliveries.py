"""What Slack delivers twice, late, forged or unknown: run once or not at all, and always answered."""

import asyncio
import io
import json
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlencode

import aiohttp
import pytest

from sandbox.slack import App, Command, Fault, Seed, Shortcut, SlackServer, sign
from tests.slack.bot import POD, VERDICT, Here, Mode, a_bot, staged
from tests.slack.deliveries import acks, later, sent
from tests.slack.surfaces import button

pytestmark = pytest.mark.each_way


@staged
@asynccontextmanager
async def played(tmp_path: Path, mode: Mode, seed: Seed | None = None) -> AsyncGenerator[Here]:
    async with asyncio.timeout(180), a_bot(tmp_path, mode, slack=SlackServer(seed=seed, deadline_s=60)) as here:
        yield here


@pytest.mark.parametrize("kind", ["duplicate", "replay"])
@played()
async def test_a_command_that_is_delivered_twice_is_answered_once(here: Here, *, mode: Mode, kind: str) -> None:
    slack = here.slack
    slack.faults.append(Fault(kind, where="delivery/slash", seconds=0.3))
    await slack.command("ada", "gpu-oncall", f"why {POD}")
    await slack.wait_for(lambda: acks(slack, "slash_commands") == 2)
    await slack.wait_for(channel="gpu-oncall", containing=VERDICT, user="ada")
    await later(slack)
    assert len([call for call in slack.journal.of("response_url") if VERDICT in str(call.request)]) == 1


@pytest.mark.parametrize("kind", ["duplicate", "replay"])
@played()
async def test_an_event_that_is_delivered_twice_is_answered_once(here: Here, *, mode: Mode, kind: str) -> None:
    slack = here.slack
    slack.faults.append(Fault(kind, where="delivery/events", seconds=0.3))
    await slack.mention("ada", "gpu-oncall", f"why {POD}")
    await slack.wait_for(lambda: acks(slack, "app_mention") == 2)
    await slack.wait_for(channel="gpu-oncall", containing=VERDICT)
    await later(slack)
    assert len([call for call in slack.journal.of("api", "chat.postMessage") if VERDICT in str(call.request)]) == 1


@played()
async def test_a_click_that_is_delivered_twice_posts_once(here: Here, *, mode: Mode) -> None:
    slack = here.slack
    await slack.command("ada", "gpu-oncall", f"why {POD}")
    answer = await slack.wait_for(channel="gpu-oncall", containing=VERDICT, user="ada")
    slack.faults.append(Fault("duplicate", where="delivery/interactive"))
    slack.faults.append(Fault("replay", where="delivery/interactive", seconds=0.3))
    await slack.click("ada", button(answer, "post-to-channel"), channel="gpu-oncall", message_ts=answer["ts"])
    await slack.wait_for(lambda: acks(slack, "block_actions") == 3)
    await slack.wait_for(channel="gpu-oncall", containing=VERDICT, user="grace")
    await later(slack)
    assert len([message for message in slack.messages("gpu-oncall", "grace") if VERDICT in message["text"]]) == 1


@played()
async def test_a_form_that_is_delivered_twice_is_answered_once(here: Here, *, mode: Mode) -> None:
    slack = here.slack
    await slack.open_home("ada")
    home = await slack.wait_for(lambda: slack.home("ada"))
    await slack.click("ada", "ask-form", view_id=home["id"])
    await slack.wait_for(lambda: slack.views("ada"))
    slack.faults.append(Fault("duplicate", where="delivery/interactive"))
    await slack.submit("ada", {"question": {"text": {"type": "plain_text_input", "value": f"why {POD}"}}})
    await slack.wait_for(lambda: acks(slack, "view_submission") == 2)
    await slack.wait_for(channel=slack.dm("ada"), containing=VERDICT)
    await later(slack)
    assert len([message for message in slack.messages(slack.dm("ada"), "ada") if VERDICT in message["text"]]) == 1


def test_what_nothing_listens_to_is_acked(tmp_path: Path, mode: Mode) -> None:
    shortcuts = (*App().shortcuts, Shortcut("unknown", "?"), Shortcut("global", "?", type="global"))
    events = (*App().events, "reaction_added", "message.channels")
    app = App(shortcuts=shortcuts, events=events, commands=(*App().commands, Command("/other")))

    async def scene(here: Here) -> None:
        slack = here.slack
        said = await slack.say("ada", "gpu-oncall", "lunch?")
        assert said.ok
        assert (await slack.react("ada", "gpu-oncall", said.ts, "eyes")).ok
        assert (await slack.command("ada", "gpu-oncall", "x", command="/other")).ok
        assert (await slack.shortcut("ada", "unknown", channel="gpu-oncall", message_ts=said.ts)).ok
        assert (await slack.shortcut("ada", "global")).ok
        await slack.open_home("ada")
        home = await slack.wait_for(lambda: slack.home("ada"))
        people = slack._people
        where = {"view_id": home["id"]}
        odd = {"action_id": "nobody\nknows", "block_id": "b", "type": "button", "value": "x"}
        assert (await people.act("ada", odd, **where)).ok
        assert (await people.suggest("ada", "nobody", "b", "x", **where)).ok
        view = {"id": "V1", "hash": "1", "type": "modal", "callback_id": "nobody", "state": {"values": {}}}
        for kind in ("view_submission", "view_closed"):
            await sent(slack, kind, view=view)
        assert [call for call in slack.journal.of("ack") if not call.ok] == []

    played(mode=mode, seed=Seed(app=app))(scene)(tmp_path=tmp_path)


async def posted(
    here: Here, body: bytes | io.BytesIO, headers: dict[str, str], path: str = "/slack/events"
) -> tuple[int, str]:
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{here.address}{path}", data=body, headers=headers) as answer,
    ):
        return answer.status, await answer.text()


FORM = {"Content-Type": "application/x-www-form-urlencoded"}
JSON = {"Content-Type": "application/json"}


def command(here: Here, text: str = "help") -> bytes:
    fields = {"command": "/hami", "text": text, "user_id": "U0ADA00001", "team_id": Seed().team_id}
    fields |= {"channel_id": "C0GPUONC01", "trigger_id": "1.2.3", "token": "t"}
    fields |= {"response_url": f"{here.slack.url}/commands/T/1/x"}
    return urlencode(fields).encode()


def signed(here: Here, body: bytes, *, age: float = 0, secret: str = "", **more: str) -> dict[str, str]:
    return sign(secret or here.slack.signing_secret, body, int(time.time() - age)) | FORM | more


FORGED = [
    lambda here, body: (body + b"&x=1", signed(here, body)),
    lambda here, body: (body, signed(here, body, secret="wrong")),
    lambda here, body: (body, signed(here, body, age=302)),
    lambda here, body: (body, signed(here, body, age=-302)),
    lambda here, body: (body, FORM),
    lambda here, body: (body, {"X-Slack-Signature": "v0=00", **FORM}),
    lambda here, body: (body, signed(here, body) | {"X-Slack-Signature": "v0=é"}),
    *(
        lambda here, body, time=time: (body, signed(here, body) | {"X-Slack-Request-Timestamp": time})
        for time in ("yesterday", "", "-1", "1e9", "9" * 400, "9" * 5000, "²", "٣")
    ),
    lambda here, body: (b"\xff\xfe" + body, signed(here, body)),
    lambda here, body: (b"{" * 2000, signed(here, body) | JSON),
]


@played(mode="http")
async def test_what_slack_did_not_sign_is_refused_and_runs_nothing(here: Here) -> None:
    answers = [await posted(here, *forge(here, command(here))) for forge in FORGED]
    assert [status for status, _ in answers] == [401] * len(FORGED)
    await later(here.slack)
    assert [call.title for call in here.slack.journal.of("api", "chat.")] == ["chat.postMessage"]


@played(mode="http")
async def test_a_request_that_was_signed_just_in_time_runs_once_however_often_it_is_replayed(here: Here) -> None:
    body = command(here)
    headers = signed(here, body, age=298)
    assert [await posted(here, body, headers) for _ in range(3)] == [(200, "")] * 3
    await here.slack.wait_for(lambda: here.slack.journal.of("api", "chat.postEphemeral"))
    await later(here.slack)
    assert len(here.slack.journal.of("api", "chat.postEphemeral")) == 1


@played(mode="http")
async def test_signed_nonsense_is_no_error_of_the_server(here: Here) -> None:
    for body in (b"", b"[]", b"{", b'"x"', b"payload=[]", b"payload={", b"\xff", b"{}" * 9):
        status, _ = await posted(here, body, signed(here, body))
        assert 400 <= status < 500, body


@played()
async def test_a_command_whose_words_contain_payload_is_a_command(here: Here, *, mode: Mode) -> None:
    assert (await here.slack.command("ada", "gpu-oncall", "why ml/payload-0")).ok
    await here.slack.wait_for(channel="gpu-oncall", containing="payload-0", user="ada")


@played(mode="http")
async def test_the_checks_that_slack_makes_of_an_address_are_answered(here: Here) -> None:
    assert await here.slack.verify_request_url()
    check = b"ssl_check=1&token=t"
    assert (await posted(here, check, signed(here, check)))[0] == 200
    assert (await posted(here, check, FORM))[0] == 200
    forged = json.dumps({"type": "url_verification", "challenge": "c"}).encode()
    assert (await posted(here, forged, JSON))[0] == 401


@played(mode="http")
async def test_an_event_that_only_talks_about_the_check_of_an_address_is_heard(here: Here) -> None:
    text = {"type": "text", "text": "help &ssl_check=1& so"}
    rich = {"type": "rich_text", "elements": [{"type": "rich_text_section", "elements": [text]}]}
    event = {"type": "message", "channel_type": "im", "user": "U0ADA00001", "text": "help", "ts": "1.000001"}
    event |= {"channel": here.slack.dm("ada"), "event_ts": "1.000001", "blocks": [rich]}
    body = json.dumps({"type": "event_callback", "event_id": "Ev1", "team_id": Seed().team_id, "event": event}).encode()
    assert (await posted(here, body, signed(here, body) | JSON))[0] == 200
    await here.slack.wait_for(channel=here.slack.dm("ada"), containing="You can ask")


@played(mode="http")
async def test_a_message_whose_text_is_null_is_one_without_words(here: Here) -> None:
    event = {"type": "message", "channel_type": "im", "user": "U0ADA00001", "text": None, "ts": "1.000001"}
    event |= {"channel": here.slack.dm("ada"), "event_ts": "1.000001"}
    body = json.dumps({"type": "event_callback", "event_id": "Ev1", "team_id": Seed().team_id, "event": event}).encode()
    assert (await posted(here, body, signed(here, body) | JSON))[0] == 200
    await here.slack.wait_for(channel=here.slack.dm("ada"), containing="You can ask")


@played(mode="http")
async def test_a_request_of_a_whole_mebibyte_is_taken(here: Here) -> None:
    body = command(here, "help " + "x" * 1024 * 1024)[: 1024 * 1024]
    assert (await posted(here, io.BytesIO(body), signed(here, body)))[0] == 200


@played(mode="http")
async def test_what_is_too_large_or_goes_elsewhere_is_refused(here: Here) -> None:
    large = b"x" * (1024 * 1024 + 1)
    assert (await posted(here, io.BytesIO(large), signed(here, large)))[0] == 413
    async with aiohttp.ClientSession() as session, session.get(f"{here.address}/slack/events") as answer:
        assert answer.status == 405
    body = command(here)
    assert (await posted(here, body, signed(here, body), "/other"))[0] == 404


@played(mode="socket")
async def test_in_socket_mode_nothing_is_taken_over_http(here: Here) -> None:
    body = command(here)
    assert (await posted(here, body, signed(here, body)))[0] == 404
