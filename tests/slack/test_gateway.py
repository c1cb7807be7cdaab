"""The gateway with Slack's own client over real sockets."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web

from bot.errors import UsageError
from bot.slack.calls import open_client
from bot.slack.failures import Problem, SlackFailure
from bot.slack.message import File, Message
from sandbox.serving import Served
from sandbox.slack import Fault, Seed
from tests.slack.bot import staged
from tests.slack.outbox_support import (
    ADA,
    GENERAL,
    ONCALL,
    START,
    Bot,
    a_bot,
    a_workspace,
    calls,
    ephemerals,
    line,
    said,
    seed,
    shared,
    texts,
)

POST = "chat.postMessage"


@staged
@asynccontextmanager
async def with_bot(start: Seed | None = None, **options: Any) -> AsyncGenerator[Bot]:
    async with a_workspace(start, **options) as bot:
        yield bot


async def failure_of(work: Awaitable[Any]) -> SlackFailure:
    with pytest.raises(SlackFailure) as caught:
        await work
    return caught.value


@with_bot()
async def test_identity_tells_the_workspace_and_the_scopes(bot: Bot) -> None:
    identity = await bot.gateway.identity()
    assert (identity.team_id, identity.user_id, identity.bot_id) == ("T0SANDBOX1", "U0HAMIBOT1", "B0HAMIBOT1")
    assert {"chat:write", "commands"} <= identity.scopes


@with_bot()
async def test_a_socket_token_is_probed(bot: Bot) -> None:
    assert (await bot.gateway.open_socket(bot.slack.app_token)).startswith("ws")
    assert (await failure_of(bot.gateway.open_socket("xapp-wrong"))).problem is Problem.AUTH
    assert (await failure_of(bot.gateway.open_socket(bot.slack.bot_token))).error == "not_allowed_token_type"


@with_bot()
async def test_a_post_unfurls_nothing_and_links_no_names(bot: Bot) -> None:
    posted = await bot.gateway.post(ONCALL, line("ml/x is Pending: see <https://example.com>"), key="k1")
    request = bot.slack.journal.of("api", POST)[0].request
    assert (request["unfurl_links"], request["unfurl_media"]) == (False, False)
    assert not {"link_names", "parse"} & set(request)
    message = said(bot, ONCALL)[0]
    assert (posted.channel, posted.ts) == (ONCALL, message["ts"])
    assert message["metadata"] == {"event_type": "hami_bot", "event_payload": {"key": "k1"}}


@with_bot()
async def test_files_of_a_post_go_into_its_thread(bot: Bot) -> None:
    picture = File("use.png", b"\x89PNG", "GPU use", alt_text="gpu-1 is full")
    posted = await bot.gateway.post(ONCALL, line("gpu-1 is full")._replace(files=(picture,)))
    assert shared(bot, ONCALL) == [("use.png", posted.ts)]
    assert bot.slack.journal.of("api", "files.getUploadURLExternal")[0].request["alt_txt"] == "gpu-1 is full"


@with_bot(start=seed(scopes=("chat:write",)))
async def test_a_file_that_cannot_be_shared_is_named_in_the_thread(bot: Bot) -> None:
    posted = await bot.gateway.post(ONCALL, Message("gpu-1 is full", files=(File("use.csv", b"1", "Use"),)))
    assert "`use.csv` could not be attached" in said(bot, ONCALL)[1]["text"]
    assert said(bot, ONCALL)[1]["thread_ts"] == posted.ts


@with_bot(start=seed(scopes=("chat:write",)))
async def test_where_a_scope_for_looking_is_missing_a_channel_is_not_taken_for_closed(bot: Bot) -> None:
    await bot.gateway.look_into(ONCALL)
    with pytest.raises(SlackFailure):
        await bot.gateway.find(ONCALL, "key", oldest=0.0)


@with_bot()
async def test_a_message_is_edited_and_loses_its_blocks(bot: Bot) -> None:
    posted = await bot.gateway.post(ONCALL, line("looking"))
    await bot.gateway.update(posted.channel, posted.ts, Message("found"))
    assert texts(bot, ONCALL) == ["found"]
    assert not said(bot, ONCALL)[0].get("blocks")


@with_bot()
async def test_reactions_may_be_there_or_gone_already(bot: Bot) -> None:
    posted = await bot.gateway.post(ONCALL, line("looking"))
    await bot.gateway.react(ONCALL, posted.ts, "eyes")
    await bot.gateway.react(ONCALL, posted.ts, "eyes")
    await bot.gateway.react(ONCALL, posted.ts, "eyes", remove=True)
    await bot.gateway.react(ONCALL, posted.ts, "eyes", remove=True)
    assert (await failure_of(bot.gateway.react(ONCALL, "1.0", "eyes"))).problem is Problem.GONE


@with_bot()
async def test_home_is_published_and_an_old_trigger_is_gone(bot: Bot) -> None:
    blocks = [{"type": "section", "text": {"type": "mrkdwn", "text": "Your pods"}}]
    await bot.gateway.publish_home(ADA, {"type": "home", "blocks": blocks})
    assert bot.slack.home("ada")["blocks"][0]["text"]["text"] == "Your pods"
    view = {"type": "modal", "title": {"type": "plain_text", "text": "Pod"}, "blocks": blocks}
    trigger = bot.slack._world.triggers.issue(ADA)
    view_id = await bot.gateway.open_view(trigger, view)
    await bot.gateway.update_view(view_id, {**view, "title": {"type": "plain_text", "text": "Found"}})
    assert bot.slack.views("ada")[-1]["title"]["text"] == "Found"
    assert (await failure_of(bot.gateway.open_view(trigger, view))).problem is Problem.GONE


@with_bot()
async def test_an_ephemeral_is_for_one_user(bot: Bot) -> None:
    await bot.gateway.ephemeral(ONCALL, ADA, line("only you"))
    assert [message["text"] for message in ephemerals(bot, ONCALL, ADA)] == ["only you"]
    failure = await failure_of(bot.gateway.ephemeral("C0MLTRAIN1", "U0GRACE001", line("not here")))
    assert (failure.problem, failure.error) == (Problem.FORBIDDEN, "user_not_in_channel")


@with_bot()
async def test_a_message_is_found_by_its_key_among_thousands(bot: Bot) -> None:
    posted = await bot.gateway.post(ONCALL, line("here"), key="incident-7")
    for number in range(2100):
        bot.slack.workspace.add(
            ONCALL, {"type": "message", "user": ADA, "ts": bot.slack.workspace.stamp(), "text": f"{number}"}
        )
    assert await bot.gateway.find(ONCALL, "incident-7", oldest=START - 1) == posted
    assert await bot.gateway.find(ONCALL, "incident-8", oldest=START - 1) is None
    assert await bot.gateway.find(ONCALL, "incident-7", oldest=START + 1) is None


@with_bot()
async def test_a_reply_is_found_in_its_thread(bot: Bot) -> None:
    head = await bot.gateway.post(ONCALL, line("head"))
    reply = await bot.gateway.post(ONCALL, line("reply"), thread_ts=head.ts, key="k")
    assert await bot.gateway.find(ONCALL, "k", oldest=START - 1, thread_ts=head.ts) == reply


# faults


@with_bot()
async def test_429_with_a_fraction_of_a_second_is_waited_for(bot: Bot) -> None:
    bot.slack.faults.append(Fault("rate_limited", POST, retry_after="1.5"))
    await bot.gateway.post(ONCALL, line("hello"))
    assert bot.naps == [1.5]
    assert texts(bot, ONCALL) == ["hello"]


@pytest.mark.parametrize(
    "fault", [Fault("rate_limited", POST, retry_after="30"), Fault("error", POST, error="ratelimited", times=9)]
)
@with_bot()
async def test_a_person_is_not_kept_waiting_for_a_long_limit(bot: Bot, *, fault: Fault) -> None:
    bot.slack.faults.append(replace(fault))
    failure = await failure_of(bot.gateway.post(ONCALL, line("hello")))
    assert failure.problem is Problem.RATE_LIMITED
    assert sum(bot.naps) <= 3
    assert failure.retry_after > 0
    assert texts(bot, ONCALL) == []


@with_bot()
async def test_posts_are_paced_before_slack_has_to_refuse(bot: Bot) -> None:
    for number in range(6):
        await bot.gateway.post(ONCALL, line(f"{number}"))
    assert texts(bot, ONCALL) == ["0", "1", "2", "3", "4", "5"]
    assert sum(bot.naps) == pytest.approx(3.0)
    assert all(entry.ok for entry in bot.slack.journal.of("api", POST))


@with_bot()
async def test_a_post_whose_answer_was_lost_is_not_made_twice(bot: Bot) -> None:
    bot.slack.faults.append(Fault("reset_after", POST))
    assert (await failure_of(bot.gateway.post(ONCALL, line("hello"), key="k"))).problem is Problem.UNKNOWN_OUTCOME
    assert texts(bot, ONCALL) == ["hello"]
    assert await bot.gateway.find(ONCALL, "k", oldest=START - 1)


@pytest.mark.parametrize("kind", ["status", "html", "reset", "reset_after"])
@with_bot()
async def test_what_may_be_done_twice_gets_one_more_try(bot: Bot, *, kind: Any) -> None:
    bot.slack.faults.append(Fault(kind, "auth.test"))
    assert (await bot.gateway.identity()).team_id
    bot.slack.faults.append(Fault(kind, "auth.test", times=2))
    assert (await failure_of(bot.gateway.identity())).problem is Problem.TRANSIENT
    bot.slack.faults.clear()
    posted = await bot.gateway.post(ONCALL, line("hello"))
    bot.slack.faults.append(Fault(kind, "chat.update"))
    await bot.gateway.update(ONCALL, posted.ts, line("changed"))
    assert texts(bot, ONCALL) == ["changed"]


@with_bot()
async def test_a_refused_connection_and_an_unknown_host_are_certainly_not_sent(bot: Bot) -> None:
    for address in ("http://127.0.0.1:1/api/", "https://no-such-host.invalid/api/"):
        async with a_bot(bot.slack, api_url=address) as lost:
            failure = await failure_of(lost.gateway.post(ONCALL, line("hello")))
            assert failure.problem is Problem.TRANSIENT
            assert len(lost.naps) == 1  # one second try


@with_bot()
async def test_the_last_form_is_the_text_with_the_whole_answer_as_a_file(bot: Bot) -> None:
    bot.slack.faults.append(Fault("error", POST, error="msg_blocks_too_long", times=None))
    failure = await failure_of(bot.gateway.post(ONCALL, line("the whole verdict")))
    steps = calls(bot, POST) - 1
    assert failure.error == "msg_blocks_too_long"
    bot.slack.faults.clear()
    bot.slack.faults.append(Fault("error", POST, error="msg_blocks_too_long", times=steps))
    posted = await bot.gateway.post(GENERAL, line("the whole verdict"))
    assert len(shared(bot, GENERAL)) == 1
    assert shared(bot, GENERAL)[0][1] == posted.ts


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        *((b"<html>", "application/json"), (b"[1]", "application/json"), (b'"ok"', "application/json")),
        *((b"ok", "text/plain"), (b"\xff\xfe{", "application/json; charset=utf-8"), (b"", "application/json")),
        *((b"[" * 100_000, "application/json"), (b"{}", "application/gzip"), (b'{"ok":true}', "application/json")),
    ],
    ids=range(9),
)
@with_bot()
async def test_garbage_for_an_answer_leaves_a_post_unknown(bot: Bot, *, body: bytes, content_type: str) -> None:
    async def garbage(request: web.Request) -> web.Response:
        return web.Response(body=body, headers={"Content-Type": content_type})

    app = web.Application()
    app.router.add_route("*", "/api/{method}", garbage)
    async with Served(app) as served, a_bot(bot.slack, api_url=f"{served.url}/api/") as lost:
        failure = await failure_of(lost.gateway.post(ONCALL, line("hello")))
        assert failure.problem is Problem.UNKNOWN_OUTCOME


@with_bot()
async def test_uploaded_bytes_that_do_not_arrive_are_transient_and_nobody_sees_a_file(bot: Bot) -> None:
    bot.slack.faults.append(Fault("status", "upload/", status=502))
    failure = await failure_of(bot.gateway.upload(ONCALL, [File("use.csv", b"1", "Use")]))
    assert failure.problem is Problem.TRANSIENT
    assert shared(bot, ONCALL) == []


# the client


@pytest.mark.parametrize(
    "address",
    ["http://slack.com/api/", "ftp://127.0.0.1/", "slack.com", "", "http://[", "http://127.0.0.1.evil.example/"],
)
def test_an_address_that_would_tell_the_token_is_refused(address: str):
    async def main() -> None:
        async with open_client(address, "xoxb-secret"):
            pass

    with pytest.raises(UsageError, match="https") as caught:
        asyncio.run(main())
    assert "secret" not in str(caught.value)


def test_a_proxy_of_the_environment_is_not_used_for_loopback(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("NO_PROXY", "slack.internal")

    @with_bot()
    async def work(bot: Bot) -> None:
        assert (await bot.gateway.identity()).team_id
        async with open_client("https://slack.com/api/", "xoxb") as (client, _):
            assert client.proxy == "http://127.0.0.1:1"
        async with open_client("https://slack.internal/api/", "xoxb") as (client, _):
            assert client.proxy is None

    work()


# response_url


@with_bot()
async def test_a_response_url_takes_five_answers(bot: Bot) -> None:
    url = response_url(bot)
    await bot.gateway.respond(url, line("looking"))
    await bot.gateway.respond(url, line("found"), replace=True)
    assert [message["text"] for message in ephemerals(bot, ONCALL, ADA)] == ["looking", "found"]
    await bot.gateway.respond(url, line("for all"), in_channel=True)
    assert texts(bot, ONCALL) == ["for all"]
    for _ in range(2):
        await bot.gateway.respond(url, line("more"))
    assert (await failure_of(bot.gateway.respond(url, line("too much")))).problem is Problem.GONE


@pytest.mark.parametrize(
    ("fault", "problem"),
    [
        (Fault("rate_limited", "commands/", retry_after="1.5"), Problem.RATE_LIMITED),
        (Fault("status", "commands/", status=500), Problem.UNKNOWN_OUTCOME),
        (Fault("html", "commands/"), Problem.UNKNOWN_OUTCOME),
        (Fault("reset", "commands/"), Problem.UNKNOWN_OUTCOME),
        (Fault("status", "commands/", status=410), Problem.GONE),
        (Fault("error", "commands/", error="invalid_blocks"), Problem.BAD_REQUEST),
    ],
    ids=lambda value: getattr(value, "kind", str(value)),
)
@with_bot()
async def test_a_response_that_slack_did_not_take_raises(bot: Bot, *, fault: Fault, problem: Problem) -> None:
    bot.slack.faults.append(replace(fault))
    assert (await failure_of(bot.gateway.respond(response_url(bot), line("hello")))).problem is problem


@with_bot()
async def test_nothing_is_sent_to_an_address_in_clear(bot: Bot) -> None:
    failure = await failure_of(bot.gateway.respond("http://hooks.slack.example/commands/1", line("hello")))
    assert failure.problem is Problem.BAD_REQUEST


def response_url(bot: Bot) -> str:
    return bot.slack.url + bot.slack._world.responses.issue("commands", ONCALL, ADA).path


# ----------------------------------------------------------------------------------------- newer kinds of blocks

CARD = {"type": "task_card", "task_id": "1", "title": "Looking", "status": "in_progress"}


def newer(text: str) -> Message:
    return line(text)._replace(newer=(CARD,))


def kinds(bot: Bot) -> list[str]:
    return [block["type"] for message in bot.slack.messages(ONCALL) for block in message.get("blocks", [])]


@with_bot()
async def test_a_workspace_that_refuses_newer_blocks_gets_the_usual_ones_at_once_and_is_not_asked_again(
    bot: Bot,
) -> None:
    bot.slack.unknown_blocks.add("task_card")
    await bot.gateway.post(ONCALL, newer("one"))
    assert texts(bot, ONCALL) == ["one"]
    assert calls(bot, POST) == 2
    bot.slack.unknown_blocks.clear()
    await bot.gateway.post(ONCALL, newer("two"))
    assert calls(bot, POST) == 3
    assert "task_card" not in kinds(bot)


@pytest.mark.parametrize(("error", "times"), [("msg_blocks_too_long", 1), ("invalid_blocks", 2)])
@with_bot()
async def test_a_message_that_is_refused_for_another_reason_says_nothing_of_the_workspace(
    bot: Bot, *, error: str, times: int
) -> None:
    bot.slack.faults.append(Fault("error", POST, error=error, times=times))
    await bot.gateway.post(ONCALL, newer("one"))
    await bot.gateway.post(ONCALL, newer("two"))
    assert kinds(bot)[-1] == "task_card"
