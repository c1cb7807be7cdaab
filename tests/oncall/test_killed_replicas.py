"""kill -9 of one of two replicas that share PostgreSQL: the other does within seconds what that one had taken.

Each is killed while its transaction waits for a lock that the test holds, so it never does what it acked. Slack is told
to deliver to the one that is to die. Nothing but the other's own watch tells it of the death.
"""

import asyncio
import contextlib
import signal
import subprocess
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from sqlalchemy import select, update
from sqlalchemy import text as sql

from bot.digest.schedule import Schedule
from bot.slack.render.blocks import value_of
from bot.slack.render.triage_head import IncidentButton
from bot.store import Store, open_store
from bot.store.incidents import IncidentRow
from bot.store.tables import digest_runs, incidents
from bot.triage.state import CALLS, new_incident
from sandbox.slack import Fault, SlackServer
from tests.oncall.bot import CHANNEL, ROOM, World
from tests.oncall.killing import Life, Process, forked
from tests.oncall.scenes import busy_cluster
from tests.stores import NewDatabase, blocked

WITHIN_S, DIGEST_WITHIN_S = 15.0, 30.0
DEEDS = {"ack": "acknowledged", "take": "taken", "close": "closed"}
"""Of the three incidents of the cluster each gets one."""
LONG_AGO_S = 3600.0
"""More than an open incident waits before somebody is called."""

pytestmark = [pytest.mark.process, pytest.mark.parametrize("new_database", ["postgresql"], indirect=True)]


@pytest.fixture(scope="module")
def forking() -> Iterator[tuple[subprocess.Popen[str], ...]]:
    """Two, started once: what they import takes longer than a life."""
    with forked() as one, forked() as two:
        yield one, two


class Replicas:
    """Two processes of one bot; which of them lives."""

    def __init__(self, processes: list[Process], slack: SlackServer, session: aiohttp.ClientSession) -> None:
        self._processes, self._slack, self._session = processes, slack, session
        self._lives: dict[int, Life] = {}

    async def begin(self, number: int) -> World:
        """Unless it lives."""
        if number not in self._lives:
            self._lives[number] = await self._processes[number].begin(self._slack, self._session)
        return self._lives[number].world

    async def kill(self, number: int) -> float:
        """When it was killed, by this process's monotonic clock."""
        at = time.monotonic()
        life = self._lives.pop(number)
        assert await self._processes[number].ended(life, signal.SIGKILL) == -signal.SIGKILL
        return at

    async def end(self) -> None:
        for number in list(self._lives):
            await self.kill(number)


@contextlib.asynccontextmanager
async def two_replicas(
    forking: tuple[subprocess.Popen[str], ...], database: str, recording: Path
) -> AsyncGenerator[tuple[Replicas, SlackServer, Store]]:
    async with (
        asyncio.timeout(580),
        SlackServer(deadline_s=60) as slack,
        aiohttp.ClientSession() as session,
        open_store(database) as store,
    ):
        told: dict[str, Any] = {"api_url": slack.api_url, "bot_token": slack.bot_token, "app_token": ""}
        told |= {"slack": {"mode": "http", "signing_secret": slack.signing_secret}}
        told |= {"oncall": {"rota": ["U0GRACE001"]}, "store": database, "recording": str(recording)}
        slack.delivery = "http"
        replicas = Replicas([Process(process, told) for process in forking], slack, session)
        try:
            yield replicas, slack, store
        finally:
            await replicas.end()


async def until(read: Callable[[], Awaitable[object]]) -> None:
    while not await read():  # noqa: ASYNC110  # only the store can tell
        await asyncio.sleep(0.02)


async def acted(world: World, deed: str, number: int, row: IncidentRow) -> None:
    """A person does it, by a button, by a command, or by words in the thread, and it is acked."""
    if deed == "ack" and number % 2:
        assert (await world.slack.mention("ada", ROOM, "ack", thread_ts=row.thread_ts)).ok
    elif deed == "ack":
        await world.forged(
            "ada", {"ts": row.thread_ts}, "triage:ack", value_of(IncidentButton(row.id)), trigger=str(number)
        )
    else:
        assert (await world.slack.command("ada", ROOM, f"triage {deed} {row.id}")).ok


@pytest.mark.parametrize("dies", [0, 1])
async def test_what_a_killed_replica_had_acked_the_other_does_within_15_s_and_calls_nobody_before(
    dies: int,
    forking: tuple[subprocess.Popen[str], ...],
    new_database: NewDatabase,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    recording = busy_cluster(tmp_path / "cluster", len(DEEDS))
    async with two_replicas(forking, new_database(), recording) as (replicas, slack, store):
        world = await replicas.begin(dies)
        await world.alert(*(f"trainer-{number}" for number in range(len(DEEDS))))

        async def told() -> bool:
            rows = await store.incidents.opened()
            all_told = len(rows) == len(DEEDS) and all(row.proven for row in rows)
            return all_told and not await store.timeline.to_tell() and not await store.outbox.waiting()

        await until(told)
        await replicas.begin(1 - dies)
        slack.request_url = f"{world.url}/slack/events"
        rows = dict(zip(DEEDS, await store.incidents.opened(), strict=True))
        before = {deed: len(await store.timeline.of(row.id)) for deed, row in rows.items()}

        async def done() -> bool:
            return all([len(await store.timeline.of(row.id)) > before[deed] for deed, row in rows.items()])

        due = msgspec.json.encode(new_incident(store.now() - LONG_AGO_S)).decode()
        async with store._engine.begin() as holder:
            await holder.execute(update(incidents).values(machine=due))
            for deed, row in rows.items():
                await acted(world, deed, dies, row)
            await blocked(store._engine, asyncio.Future())
            at = await replicas.kill(dies)
        await until(done)
        took = time.monotonic() - at
        for deed, row in rows.items():
            happened = await store.timeline.of(row.id)
            first = happened[before[deed]].news
            assert (first.turn, first.by) == (DEEDS[deed], "U0ADA00001")
            turns = [event.news.turn for event in happened]
            assert not CALLS & set(turns)
            assert turns.count(DEEDS[deed]) == 1
    print(f"seconds from the kill to the deeds: {took:.1f}")  # noqa: T201
    assert took < WITHIN_S
    record_property("killed_replicas", 1)


@pytest.mark.parametrize("moment", ["it is made", "it is sent"])
async def test_a_digest_whose_replica_is_killed_the_other_posts_within_30_s(
    moment: str, forking: tuple[subprocess.Popen[str], ...], new_database: NewDatabase, tmp_path: Path
) -> None:
    database, due = new_database(), datetime.fromtimestamp(time.time() - 120, UTC)
    async with two_replicas(forking, database, busy_cluster(tmp_path / "cluster", 4)) as (replicas, slack, store):
        async with open_store(database, now=lambda: store.now() - LONG_AGO_S) as before:
            await before.digests.add(CHANNEL, "", Schedule(f"{due.minute} {due.hour} * * *", "UTC"), "U0ADA00001")

        async def claimed() -> bool:
            async with store._engine.connect() as reading:
                return bool(await reading.scalar(select(digest_runs.c.digest)))

        async with store._engine.begin() as holder:
            if moment == "it is made":
                await holder.execute(sql("LOCK TABLE outbox IN EXCLUSIVE MODE"))  # which may be read
            else:
                slack.faults.append(Fault("hang", "^api/chat.postMessage"))
            await replicas.begin(0)
            await (until(claimed) if moment == "it is made" else slack.wait_for(lambda: hung(slack), seconds=60))
            await replicas.begin(1)
            at = await replicas.kill(0)
        slack.faults.clear()
        await slack.wait_for(channel=ROOM, containing="4 pods are pending for 3 causes", seconds=180)
        took = time.monotonic() - at
    print(f"seconds from the kill to the digest: {took:.1f}")  # noqa: T201
    assert took < DIGEST_WITHIN_S


def hung(slack: SlackServer) -> bool | None:
    return any(call.error == "fault: hang" for call in slack.journal.of("api", "chat.postMessage")) or None
