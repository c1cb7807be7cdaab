"""kill -9 of the whole bot while it takes alerts, posts a thread, edits it: another one goes on.

The moments are what Slack is asked at, which then does it or does it not, and answers nobody. Whatever was killed:
every alert that got its 200 is counted in one thread, and no thread or reply is there twice.
"""

import asyncio
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from bot.store import Store
from sandbox.slack import Fault, SlackServer
from tests.oncall.bot import ROOM
from tests.oncall.killing import Life, Process, lives
from tests.oncall.rig import text
from tests.oncall.scenes import CAUSES, busy_cluster
from tests.stores import NewDatabase

pytestmark = pytest.mark.process

FIRST, MORE = ("trainer-0", "trainer-3"), ("trainer-6",)


class Moment(NamedTuple):
    """Slack's method at which the bot is killed, after so many calls of it; empty: right after the last 200."""

    method: str
    skip: int = 0


async def killed(life: Life, process: Process, hung: Callable[[], bool]) -> None:
    await life.world.slack.wait_for(lambda: hung() or None, seconds=180)
    assert await process.ended(life, signal.SIGKILL) == -signal.SIGKILL
    life.world.slack.faults.clear()


def hanging(slack: SlackServer, moment: Moment, kind: Any) -> Callable[[], bool]:
    """Slack does it, or does not, and answers nobody; whether that has happened. What follows is not done either."""
    slack.faults.append(Fault(kind, f"^api/{moment.method}", skip=moment.skip))
    return lambda: (
        any(call.error == f"fault: {kind}" for call in slack.journal.of("api", moment.method))
        and (kind == "hang" or len([call for call in slack.journal.of("api", moment.method) if call.ok]) > moment.skip)
    )


async def settled(store: Store, read: Callable[[], str], *wanted: str) -> None:
    """Until all that is wanted is said and nothing waits: of the store the workspace does not tell."""
    async with asyncio.timeout(180):
        while any(want not in read() for want in wanted) or await store.outbox.channels():  # noqa: ASYNC110
            await asyncio.sleep(0.2)
    assert await store.alerts.unsorted_labels() == set()


INTAKE, HEAD, EDIT = Moment(""), Moment("chat.postMessage"), Moment("chat.update")
EVIDENCE = Moment("chat.postMessage", skip=1)
MOMENTS = {
    "intake": (INTAKE, "hang"),
    "head not posted": (HEAD, "hang"),
    "head posted": (HEAD, "hang_after"),
    "evidence not posted": (EVIDENCE, "hang"),
    "evidence posted": (EVIDENCE, "hang_after"),
    "not edited": (EDIT, "hang"),
    "edited": (EDIT, "hang_after"),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("moment", "kind"), MOMENTS.values(), ids=MOMENTS)
async def test_every_alert_that_was_taken_is_in_one_thread_and_nothing_is_there_twice(
    moment: Moment,
    kind: str,
    *,
    forking: subprocess.Popen[str],
    new_database: NewDatabase,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    database, recording = new_database(), busy_cluster(tmp_path / "cluster", 7)
    async with lives(forking, database, recording) as here:
        slack, store, process = here.slack, here.store, here.process

        def heads() -> list[dict[str, Any]]:
            return [message for message in slack.messages(ROOM, "ada") if message.get("bot_id")]

        def thread() -> list[dict[str, Any]]:
            return [message for head in heads() for message in slack.messages(ROOM, "ada", head["ts"])]

        def said() -> list[str]:
            return [text(message) for message in thread() if not message.get("files") and not message.get("ephemeral")]

        async with here.life() as life:
            stuck = hanging(slack, moment if moment.method else Moment("chat.postMessage"), kind)
            await life.world.alert(*FIRST)
            if moment.method == "chat.update":
                head = await life.world.head(CAUSES[0])
                await life.world.reply(head, "Evidence")
                await life.world.click("ada", head, "ack")
            elif moment.method:
                await slack.wait_for(lambda: stuck() or None, seconds=180)
            await life.world.alert(*MORE)
            await killed(life, process, stuck if moment.method else lambda: True)
        async with here.life() as life:
            await life.world.alert(*FIRST)  # Alertmanager repeats what fires
            edited = moment.method == "chat.update"
            wanted = ["Acknowledged, " if edited else "Open, ", "Evidence", *(["Acknowledged"] if edited else [])]
            await settled(store, lambda: "\n".join(said()), "3 of 3 pods still affected, 3 alerts", *wanted)
            assert await process.ended(life, signal.SIGTERM) == 0

        assert len(heads()) == 1
        assert [want for want, one in zip(wanted, said(), strict=False) if want in one] == wanted, said()
        assert len(said()) == len(wanted), said()
        attached = [file["name"] for message in thread() for file in message.get("files", [])]
        assert len(attached) == len(set(attached))
        counts = await store.alerts.counts([row.id for row in await store.incidents.opened()])
        assert [count.alerts for count in counts.values()] == [3]
        assert slack.unknown_methods == []
    record_property("killed_processes", 1)
