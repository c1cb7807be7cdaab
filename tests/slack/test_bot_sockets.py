"""Socket Mode on bad days: refreshed under load, cut, deaf, refused; the bot heals by itself and says how it is."""

import asyncio
import contextlib
import logging
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace
from slack_bolt.app.async_app import AsyncApp
from slack_bolt.context.ack.async_ack import AsyncAck
from slack_sdk.web.async_client import AsyncWebClient

from bot.main import Limits
from bot.slack.connection import Connection, Turn
from handlers.changes.leader_pass import Pace
from sandbox.slack import Fault, SlackServer
from tests.slack.bot import PATIENT, Here, a_bot, staged
from tests.slack.sockets import readiness, readiness_is

Scene = Callable[[Here], Awaitable[None]]
BRISK = replace(PATIENT, ping_interval_s=0.5, watch_s=0.1)


@asynccontextmanager
async def linked(tmp_path: Path, limits: Limits = PATIENT, faults: Sequence[Fault] = ()) -> AsyncGenerator[Here]:
    slack = SlackServer(deadline_s=60)
    for fault in faults:
        slack.faults.append(fault)
    async with asyncio.timeout(180), a_bot(tmp_path, slack=slack, limits=limits) as here:
        yield here
        assert here.slack.unknown_methods == []


played = staged(linked)


def answers(slack: SlackServer) -> int:
    return len([message for message in slack.messages("gpu-oncall", "ada") if "ephemeral" in message])


@pytest.mark.parametrize(("reason", "times"), [("refresh_requested", 5), ("warning", 5), ("too_many_websockets", 2)])
async def test_while_sockets_are_refreshed_no_command_is_lost_and_none_is_doubled(
    tmp_path: Path, reason: str, times: int
) -> None:
    async def ask(slack: SlackServer) -> list[str]:
        return [(await slack.command("ada", "gpu-oncall", "help")).error for _ in range(15)]

    async with linked(tmp_path) as here:
        slack = here.slack
        await slack.wait_for(lambda: slack.connections == 2)
        asking = [asyncio.create_task(ask(slack)) for _ in range(8)]
        for made in range(3, 3 + times):  # connections so far: Slack recycles one after the other
            await slack.disconnect(reason, oldest_only=True)
            await slack.wait_for(lambda made=made: len(slack.journal.of("socket", "connected")) >= made)
        assert not all(task.done() for task in asking)
        errors = [error for refusals in await asyncio.gather(*asking) for error in refusals]
        assert set(errors) == {""}
        await slack.wait_for(lambda: answers(slack) == len(slack.journal.of("response_url")) == len(errors))
        assert slack.connections >= 2


@played()
async def test_connections_that_are_too_many_again_and_again_are_made_less_and_less_often(here: Here) -> None:
    slack = here.slack

    async def crowd() -> None:
        while True:
            await slack.wait_for(lambda: slack.connections > 0)
            await slack.disconnect("too_many_websockets")
            await slack.wait_for(lambda: slack.connections == 0)

    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(2.5):
            await crowd()
    made = len(slack.journal.of("api", "apps.connections.open"))
    assert 0 < made <= 2 * 4  # at 0, 0, 1 and 3 s
    await slack.disconnect("too_many_websockets")
    await slack.wait_for(lambda: slack.connections == 0)
    await slack.wait_for(lambda: slack.connections == 2)
    await asked(here)


async def asked(here: Here, user: str = "ada") -> None:
    """A command is acked and answered."""
    assert (await here.slack.command(user, "gpu-oncall", "help")).ok
    await here.slack.wait_for(channel="gpu-oncall", containing="You can ask", user=user)


@pytest.mark.parametrize("kind", ["dead_ticket", "refuse"])
async def test_after_a_handshake_that_failed_a_new_ticket_is_asked_for(tmp_path: Path, kind: str) -> None:
    async with linked(tmp_path, limits=BRISK, faults=(Fault(kind, where="link", times=2),)) as here:
        await here.slack.wait_for(lambda: here.slack.connections == 2)
        await asked(here)
        assert [call.error for call in here.slack.journal.of("socket", "handshake")]


async def test_the_ticket_of_a_connection_is_in_no_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with linked(tmp_path, limits=BRISK, faults=(Fault("dead_ticket", where="link", times=2),)) as here:
        await here.slack.wait_for(lambda: here.slack.connections == 2)
    formatter = logging.Formatter()
    told = [formatter.format(record) for record in caplog.records if "Failed to connect" in record.getMessage()]
    assert len(told) >= 2
    assert all("ticket=…" in text for text in told)
    assert not re.search(r"ticket=\w", "".join(told))


async def test_a_connection_that_slack_refuses_is_one_line_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with linked(tmp_path, limits=BRISK, faults=(Fault("dead_ticket", where="link", times=2),)) as here:
        await here.slack.wait_for(lambda: here.slack.connections == 2)
    assert "Failed to connect" in caplog.text
    assert "Traceback" not in caplog.text


@played(limits=BRISK, faults=(Fault("silent", where="link", times=2),))
async def test_a_peer_that_falls_silent_is_left_for_another(here: Here) -> None:
    await here.slack.wait_for(lambda: len(here.slack.journal.of("socket", "closed")) == 2)
    await here.slack.wait_for(lambda: here.slack.connections == 2)
    await asked(here)


async def test_an_ack_that_finds_its_connection_gone_is_one_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async with asyncio.timeout(180), SlackServer(deadline_s=60) as slack:
        app = AsyncApp(client=AsyncWebClient(slack.bot_token, base_url=slack.api_url))
        connection = Connection(app, slack.app_token, slack.api_url, 60, Turn())
        taken = asyncio.Event()

        @app.command("/hami")
        async def command(ack: AsyncAck) -> None:
            slack.cut()
            while await connection.is_connected():  # noqa: ASYNC110  # only the client can tell
                await asyncio.sleep(0)
            await ack()
            taken.set()

        await slack.wait_for(lambda: slack.connected)
        asking = asyncio.create_task(slack.command("ada", "gpu-oncall", "help"))
        await taken.wait()
        await connection.close_when_acked()
        asking.cancel()
    assert "an ack could not be sent" in caplog.text
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize("limited", [False, True], ids=["as usual", "after quick restarts"])
async def test_a_start_asks_once_for_each_connection_and_as_late_as_slack_says(
    tmp_path: Path, *, limited: bool
) -> None:
    opened = "apps.connections.open"

    faults = [Fault("rate_limited", opened, retry_after="1"), Fault("rate_limited", opened, skip=1, retry_after="4")]
    async with linked(tmp_path, limits=BRISK, faults=(*(faults if limited else []),)) as here:
        await here.slack.wait_for(lambda: here.slack.connections == 2)
        asked_at = [call.at for call in here.slack.journal.of("api", opened)]
        assert len(asked_at) == 2 + 2 * limited
        if limited:  # the first try, the first connection, the other's first try, the other
            assert asked_at[1] - asked_at[0] >= 1.0
            assert asked_at[3] - asked_at[2] >= 4.0
        await asked(here)


async def test_a_start_waits_as_long_as_slack_asks_to_and_does_not_end(tmp_path: Path) -> None:
    limits = replace(BRISK, pace=Pace(pass_s=0.1))
    async with linked(
        tmp_path, limits=limits, faults=(Fault("rate_limited", "apps.connections.open", retry_after="4"),)
    ) as here:
        asked_at = [call.at for call in here.slack.journal.of("api", "apps.connections.open")]
        assert asked_at[1] - asked_at[0] >= 4.0
        await asked(here)


@played(limits=BRISK)
async def test_a_limit_on_new_connections_with_half_a_second_in_it_is_waited_for(here: Here) -> None:
    await here.slack.wait_for(lambda: here.slack.connections == 2)
    limited = Fault("rate_limited", where="apps.connections.open", times=2, retry_after="1.5")
    here.slack.faults.append(limited)
    here.slack.cut()
    await here.slack.wait_for(lambda: len(here.slack.journal.of("socket", "connected")) == 4)
    await asked(here)


async def test_half_a_minute_without_any_connection_is_not_ready_and_says_so(tmp_path: Path) -> None:
    passed = 0.0

    async with linked(tmp_path, limits=replace(BRISK, clock=lambda: passed)) as here:
        slack = here.slack
        await slack.wait_for(lambda: slack.connections == 2)
        outage = slack.faults.append(Fault("outage"))
        await slack.wait_for(lambda: slack.connections == 0)
        passed = 29.0
        assert await readiness(here) == (200, "ok\n")
        passed = 40.0
        assert await readiness_is(here, 503) == "no connection to Slack for 40 s\n"
        slack.faults.remove(outage)
        await slack.wait_for(lambda: slack.connections == 2)
        await asked(here)
        await readiness_is(here, 200)


def test_a_proxy_of_the_environment_is_not_used_for_loopback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.delenv("NO_PROXY", raising=False)
    played()(asked)(tmp_path=tmp_path)
