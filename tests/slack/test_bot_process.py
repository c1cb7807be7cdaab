"""`hami-bot serve` as a process of its own that is told to stop, or killed: what it had taken is answered, once."""

import asyncio
import contextlib
import signal
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from sandbox.slack import Fault, SlackServer, VirtualClock
from tests.slack.asking import Asking
from tests.slack.bot import a_process, environment

pytestmark = pytest.mark.process

OUTAGE_S = 600


@contextlib.asynccontextmanager
async def passing(clock: VirtualClock) -> AsyncGenerator[None]:
    """Time passes, beside the jumps that a test makes."""

    async def pass_() -> None:
        while True:
            await asyncio.sleep(0.05)
            await clock.advance(0.05)

    task = asyncio.create_task(pass_())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def is_up(slack: SlackServer, process: asyncio.subprocess.Process) -> None:
    up = asyncio.create_task(slack.wait_for(lambda: slack.connections == 2, seconds=180))
    ended = asyncio.create_task(process.wait())
    await asyncio.wait({up, ended}, return_when=asyncio.FIRST_COMPLETED)
    if not up.done():
        up.cancel()
        assert process.stderr
        pytest.fail((await process.stderr.read()).decode())
    ended.cancel()
    await up


async def test_told_to_stop_it_answers_what_it_had_taken_and_ends(tmp_path: Path) -> None:
    async with SlackServer(deadline_s=60) as slack, a_process(environment(tmp_path, slack)) as process:
        await is_up(slack, process)
        slack.faults.append(Fault("slow", where="^(commands/|api/chat)", seconds=0.5, times=None))
        asking = Asking(slack)
        await asking.everywhere()
        assert len(asking.taken) == 9
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(180):
            _, said = await process.communicate()
        assert process.returncode == 0
        assert asking.counts() == [1] * 9
        for trouble in ("Traceback", "Unclosed", "never retrieved", "ERROR"):
            assert trouble not in said.decode()


async def test_ten_minutes_without_slack_and_a_kill_in_the_middle_lose_no_answer(tmp_path: Path) -> None:
    clock = VirtualClock()
    async with asyncio.timeout(240), SlackServer(clock=clock) as slack, passing(clock):
        asking = Asking(slack)
        async with a_process(environment(tmp_path, slack)) as first:
            await is_up(slack, first)
            for where in ("chat.postMessage", "^commands/"):
                slack.faults.append(Fault("reset_after", where=where))
                slack.faults.append(Fault("hang", where=where, times=None))
            await asking.everywhere()
            assert len(asking.taken) == 9
            await slack.wait_for(lambda: sum(asking.counts()) >= 2)  # those whose answers were lost on the way
            slack.faults.clear()
            slack.faults.append(Fault("outage", until=clock.now() + OUTAGE_S))
            await slack.wait_for(lambda: slack.connections == 0)
            await clock.advance(OUTAGE_S / 2)
            await asking.everywhere()  # nobody is told that these were taken
            assert len(asking.taken) == 9
            first.kill()
        async with a_process(environment(tmp_path, slack)) as during:
            _, said = await during.communicate()
            assert (during.returncode, "auth.test" in said.decode()) == (3, True)
        assert not asking.answered()
        await clock.advance(OUTAGE_S / 2)
        async with a_process(environment(tmp_path, slack)) as second:
            await is_up(slack, second)
            await slack.wait_for(asking.answered, seconds=180)
            await asking.everywhere()
            await slack.wait_for(asking.answered, seconds=180)
            second.send_signal(signal.SIGTERM)  # it sends what else it might have to say
            await second.communicate()
        assert len(asking.taken) == 18
        # One answer reached its response_url and Slack's word for it was lost: nobody can look an ephemeral
        # message up, and a second one does not replace it.
        assert sorted(asking.counts()) == [1] * 17 + [2]
