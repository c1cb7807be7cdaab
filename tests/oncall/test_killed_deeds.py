"""kill -9 of the whole bot right after Slack was told that it took what people did: another one carries it out, once.

The moment is Slack's ack of the last of them. Nothing that was acked is lost, and nothing is done twice, whichever of
them the killed process had carried out by then.
"""

import asyncio
import signal
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from sandbox.slack import Ack
from tests.oncall.bot import ROOM
from tests.oncall.killing import lives
from tests.oncall.scenes import busy_cluster
from tests.stores import NewDatabase

# What is acked and in PostgreSQL: test_killed_replicas.
pytestmark = [pytest.mark.process, pytest.mark.parametrize("new_database", ["sqlite"], indirect=True)]

NOTES = 6


async def test_what_people_did_right_before_a_kill_is_done_once_after_it(
    forking: subprocess.Popen[str],
    new_database: NewDatabase,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    database, recording = new_database(), busy_cluster(tmp_path / "cluster", 4)
    # In real time: what people did must not become too old.
    async with lives(forking, database, recording, speed=1.0) as here:
        slack, store, process = here.slack, here.store, here.process
        async with here.life() as life:
            head = await life.world.thread_of("trainer-0")
            await life.world.reply(head, "Evidence")
            [row] = await store.incidents.opened()
            await life.world.click("grace", head, "note")
            await slack.wait_for(lambda: slack.views("grace"))
            typed = {"type": "plain_text_input", "value": "typed into the form"}

            def command(words: str) -> asyncio.Task[Ack]:
                return asyncio.create_task(slack.command("ada", ROOM, words))

            notes = {f"note {number}": command(f"triage note {row.id} note {number}") for number in range(NOTES)}
            others = [
                command("digest daily 09:00 UTC"),
                asyncio.create_task(slack.mention("linus", ROOM, "triage handover @grace", thread_ts=head["ts"])),
            ]
            form = asyncio.create_task(slack.submit("grace", {"note": {"text": typed}}))
            acks = await asyncio.gather(*notes.values(), *others, form)
            assert await process.ended(life, signal.SIGKILL) == -signal.SIGKILL
            assert all(ack.ok for ack in acks)
        async with here.life() as life:
            wanted = Counter([*notes, "typed into the form"])
            async with asyncio.timeout(180):
                while True:
                    happened = [event.news for event in await store.timeline.of(row.id)]
                    noted = Counter(event.detail for event in happened if event.turn == "noted")
                    turns = Counter(event.turn for event in happened)
                    digests = len(await store.digests.wanted())
                    if noted >= wanted and turns["handed-over"] and digests:
                        break
                    await asyncio.sleep(0.2)
            assert await process.ended(life, signal.SIGTERM) == 0
        assert noted == wanted
        assert (turns["handed-over"], digests) == (1, 1)
        done = Counter(line.action for line in await store.audit.read(99) if line.outcome == "done")
        assert done == {"triage-note": NOTES + 1, "triage-handover": 1, "digest-add": 1}
        record_property("deeds_of_killed_processes", len(acks))
