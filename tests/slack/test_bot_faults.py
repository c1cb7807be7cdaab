"""What Slack does to the whole bot on a bad day: refusals, pages instead of answers, silence; nothing is said twice."""

import asyncio
import contextlib
import socket
import sqlite3
from pathlib import Path

import aiohttp
import pytest
from msgspec.structs import replace

from bot.store.engine import sender
from sandbox.slack import Fault, SlackServer
from tests.slack.asking import Asking
from tests.slack.bot import PATIENT, POD, VERDICT, Gated, Here, Mode, a_bot, connected, held, played
from tests.slack.deliveries import later
from tests.slack.sockets import readiness, readiness_is

pytestmark = pytest.mark.each_way

BAD_DAY = [
    Fault("rate_limited", retry_after="1.5"),
    *(Fault("status", status=status) for status in (500, 502, 503)),
    *(Fault(kind) for kind in ("html", "reset", "reset_after")),
]


@pytest.mark.parametrize("where", ["api/chat.postMessage", "^commands/"])
@played()
async def test_whatever_slack_says_to_an_answer_it_is_shown_once(here: Here, *, where: str) -> None:
    for fault in BAD_DAY:
        here.slack.faults.append(Fault(fault.kind, where, status=fault.status, retry_after=fault.retry_after))
    asking = Asking(here.slack)
    await asking.everywhere()
    assert len(asking.taken) == 9, [call.error for call in here.slack.journal.of("ack") if call.error]
    await here.slack.wait_for(asking.answered)
    await later(here.slack)
    assert asking.counts() == [1] * 9


@held()
async def test_a_progress_that_hangs_holds_the_answer_up_for_a_moment_only(here: Here, cluster: Gated) -> None:
    here.slack.faults.append(Fault("hang", where="^commands/"))
    await here.slack.command("ada", "gpu-oncall", f"why {POD}")
    await here.slack.wait_for(lambda: here.slack.journal.of("response_url"))
    hung = asyncio.get_running_loop().time()
    cluster.gate.set()
    await here.slack.wait_for(channel="gpu-oncall", containing=VERDICT, user="ada")
    assert asyncio.get_running_loop().time() - hung < 6


@held()
async def test_an_answer_whose_response_url_is_used_up_is_shown_all_the_same(here: Here, cluster: Gated) -> None:
    await here.slack.command("ada", "gpu-oncall", f"why {POD}")
    url = here.slack.journal.of("delivery", "slash_commands")[0].request["response_url"]
    async with aiohttp.ClientSession() as session:
        for _ in range(5):
            await session.post(url, json={"text": "used"})
    cluster.gate.set()
    answer = await here.slack.wait_for(channel="gpu-oncall", containing=VERDICT, user="ada")
    assert answer["ephemeral"]
    assert "used_url" in [call.error for call in here.slack.journal.of("response_url")]


async def test_a_token_that_is_revoked_while_the_bot_runs_is_told_and_costs_no_answer(tmp_path: Path) -> None:
    async with asyncio.timeout(180), SlackServer(deadline_s=60) as slack:
        async with connected(slack, tmp_path) as address:
            here = Here(slack, address)
            assert await readiness(here) == (200, "ok\n")
            revoked = slack.faults.append(Fault("revoked"))
            asking = Asking(slack)
            await asking.everywhere()
            assert "token" in await readiness_is(here, 503)
            await slack.wait_for(lambda: sum(asking.counts()) == 3)  # a response_url needs no token
        slack.faults.remove(revoked)
        async with connected(slack, tmp_path):
            await slack.wait_for(asking.answered)
            await later(slack)
            assert asking.counts() == [1] * 9


@pytest.mark.parametrize("error", ["channel_not_found", "is_archived", "not_in_channel"])
@played()
async def test_a_channel_that_is_gone_holds_up_no_other_and_is_said_in_the_log(
    here: Here, *, error: str, caplog: pytest.LogCaptureFixture
) -> None:
    here.slack.faults.append(Fault("error", where="chat.postMessage", error=error))
    await here.slack.mention("ada", "gpu-oncall", f"why {POD}")
    await here.slack.wait_for(lambda: [call for call in here.slack.journal.of("api", "chat.post") if not call.ok])
    await here.slack.mention("ada", "general", f"why {POD}")
    await here.slack.wait_for(channel="general", containing=VERDICT)
    assert [error in record.getMessage() for record in caplog.records if "is given up" in record.getMessage()] == [True]


@pytest.mark.parametrize("mode", ["socket", "http"])
async def test_what_slack_is_told_was_taken_is_in_the_store(tmp_path: Path, mode: Mode) -> None:
    limits = replace(PATIENT, keeping_s=2.5, drain_s=0.1)
    async with asyncio.timeout(180), a_bot(tmp_path, mode, opener=Gated().opener, limits=limits) as here:
        say, ask, tell = here.slack.command, here.slack.mention, here.slack.say
        ways = ((say, "gpu-oncall"), (ask, "gpu-oncall"), (tell, here.slack.dm("ada"))) * 3
        for asked, (way, where) in enumerate(ways, start=1):
            assert (await way("ada", where, f"why {POD}")).ok
            with contextlib.closing(sqlite3.connect(tmp_path / "bot.db")) as store:
                assert store.execute("SELECT count(*) FROM seen WHERE payload != ''").fetchone() == (asked,)


async def test_told_to_stop_before_slack_lets_it_connect_it_still_answers_what_it_took_up(tmp_path: Path) -> None:
    async with asyncio.timeout(180), SlackServer(deadline_s=60) as slack:
        cut_off, cluster = Gated(), Gated()
        async with connected(slack, tmp_path, opener=cut_off.opener, limits=replace(PATIENT, drain_s=0.1)):
            await slack.mention("ada", "gpu-oncall", f"why {POD}")
            await cut_off.asked.wait()
        slack.faults.append(Fault("refuse", where="link", times=None))

        async def start() -> None:
            async with connected(slack, tmp_path, opener=cluster.opener):
                pytest.fail("it is not connected")

        starting = asyncio.create_task(start())
        await cluster.asked.wait()
        assert slack.connections == 0
        starting.cancel()
        cluster.gate.set()
        with contextlib.suppress(asyncio.CancelledError):
            await starting
        await slack.wait_for(channel="gpu-oncall", containing=VERDICT, seconds=1)  # it is there already


@pytest.mark.parametrize("mode", ["socket", "http"])
async def test_what_was_cut_off_at_the_end_is_answered_after_the_next_start(tmp_path: Path, mode: Mode) -> None:
    async with asyncio.timeout(180), SlackServer(deadline_s=60) as slack:
        cluster = Gated()
        asking = Asking(slack)
        async with connected(slack, tmp_path, mode, cluster.opener, replace(PATIENT, drain_s=0.1)):
            await asking.everywhere()
            await cluster.asked.wait()
        assert len(asking.taken) == 9
        async with connected(slack, tmp_path, mode):
            await slack.wait_for(asking.answered)
            await later(slack)
            assert asking.counts() == [1] * 9


def test_a_process_has_its_machines_name_while_no_other_bears_it() -> None:
    with sender("sqlite:///a.db") as first, sender("sqlite:///a.db") as second:
        with sender("sqlite:///b.db") as elsewhere:
            assert first == elsewhere == (socket.gethostname(), True)
        assert second.name != first.name
        assert not second.alone
    with sender("sqlite:///a.db") as heir:
        assert heir == first
