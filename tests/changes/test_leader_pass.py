"""Whatever happens beside a pass, or in one, what is due is undone."""

import asyncio
import copy
import heapq
import itertools
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from bot.changes.kinds import VERBOSITY
from bot.kube.client.leader import Leader
from bot.kube.client.writer import Writer
from bot.periodic_jobs import Clock, in_background
from bot.store import StoreError
from handlers.changes.leader_pass import Leadership, Pace, WritableCluster, WritableClusters
from tests.changes.deployments import EXTENDER, NOW, wants
from tests.changes.memory import Cluster, MemoryJournal, Replica
from tests.changes.rig import NAME, NAMESPACE, Rig, raised, rig

QUICK = Pace(pass_s=0.05, again_s=0.05, beside_s=0.05)


class Beside:
    """Hangs, or breaks the first time; `happened` is set when it did."""

    def __init__(self, error: Exception | None) -> None:
        self.happened = asyncio.Event()
        self._error = error

    async def __call__(self) -> None:
        first, _ = not self.happened.is_set(), self.happened.set()
        if self._error is None:
            await asyncio.Event().wait()
        elif first:
            raise self._error


class Broken:
    """A writer of which that method raises that error for some times; `spent` is set when it does no more."""

    def __init__(self, writer: Any, method: str, error: Exception, times: int) -> None:
        self._writer, self._method, self._error, self._left = writer, method, error, times
        self.spent = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return self._broken if name == self._method else getattr(self._writer, name)

    async def _broken(self, *args: Any, **more: Any) -> Any:
        if self._left:
            self._left -= 1
            raise self._error
        self.spent.set()
        return await getattr(self._writer, self._method)(*args, **more)


def with_writer(here: Rig, writer: Broken) -> tuple[Rig, Broken]:
    """The same place, for a bot that writes in another way."""
    other = copy.copy(here)
    other.writer = cast(Any, writer)
    return other, writer


async def nothing() -> None:
    return


def watched(here: Rig, beside: Callable[[], Awaitable[None]] = nothing, *, recording: bool = False) -> Leadership:
    """Of the rig's cluster; a Lease of its own beside the Deployment."""

    @asynccontextmanager
    async def opened(_: str) -> AsyncIterator[Writer | None]:
        yield None if recording else cast(Writer, here.writer)

    def writable(cluster: str, writer: Writer) -> WritableCluster:
        unused: Any = None  # a pass tells through its changer's own journal
        return WritableCluster(cluster, writer, here.bot(), unused, asyncio.Lock())

    async def namespace(_: WritableCluster) -> str:
        return "kube-system"

    return Leadership("lab", WritableClusters(opened, writable), namespace, beside)


@asynccontextmanager
async def leading(leadership: Leadership, identity: str = "me") -> AsyncIterator[Leadership]:
    async with Clock() as clock:
        task = asyncio.create_task(leadership.lead(identity, QUICK, clock))
        yield leadership
        assert not task.done(), task
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(180):
        while not await holds():  # noqa: ASYNC110  # only the cluster, or what is told of it, can tell
            await asyncio.sleep(0.01)


async def until_trouble(leadership: Leadership, *, is_told: bool) -> None:
    async def is_so() -> bool:
        return bool(leadership.trouble) is is_told

    await until(is_so)


async def undone(here: Rig) -> None:
    async def is_so() -> bool:
        return "-v=4" in await here.words()

    await until(is_so)


def undone_beside(error: Exception | None, folder: Path) -> None:
    """What is due is undone, while what happens beside a pass hangs or raises that error."""

    async def run() -> None:
        beside = Beside(error)
        async with rig(folder) as here:
            await here.raise_(here.bot())
            async with leading(watched(here, beside)):
                await asyncio.wait_for(beside.happened.wait(), 60)
                here.now += 3600
                await undone(here)

    asyncio.run(run())


@pytest.mark.parametrize("error", [None, StoreError("locked")], ids=["a database that hangs", "one that fails"])
def test_what_is_due_is_undone_whatever_happens_beside(error: Exception | None, tmp_path: Path) -> None:
    undone_beside(error, tmp_path)


@pytest.mark.parametrize("method", ["annotated", "deployment", "patch_deployment", "lease", "create_lease"])
async def test_a_bug_anywhere_in_leading_ends_nothing_and_is_in_the_log_once(
    method: str, tmp_path: Path, bugs: list[logging.LogRecord]
) -> None:
    async with rig(tmp_path) as here:
        await here.raise_(here.bot())
        here.now += 3600
        bot, writer = with_writer(here, Broken(here.writer, method, KeyError("a bug"), 3))
        async with leading(watched(bot)) as leadership:
            await undone(here)
            await asyncio.wait_for(writer.spent.wait(), 60)
            await until_trouble(leadership, is_told=False)
    assert len(bugs) == 1


async def test_a_bug_in_renewing_the_lease_ends_the_term(tmp_path: Path) -> None:
    async with rig(tmp_path) as here:
        writer = Broken(here.writer, "replace_lease", KeyError("a bug"), 1)
        candidate = Leader(cast(Any, writer), NAMESPACE, "hami-bot", "me", sleep=lambda _: asyncio.sleep(0))
        with pytest.raises(KeyError):
            await asyncio.wait_for(candidate.run(asyncio.Event().wait), 60)


async def test_where_another_leads_an_earlier_trouble_is_over(tmp_path: Path, bugs: list[logging.LogRecord]) -> None:
    async with rig(tmp_path) as here:
        bot, _ = with_writer(here, Broken(here.writer, "annotated", KeyError("a bug"), 10**9))
        async with leading(watched(bot)) as leadership:
            await until_trouble(leadership, is_told=True)
            async with leading(watched(here), "another") as other:
                await until_trouble(leadership, is_told=False)
                assert other.trouble == ""
    assert bugs


def test_a_bug_beside_a_pass_ends_nothing(tmp_path: Path, bugs: list[logging.LogRecord]) -> None:
    undone_beside(KeyError("a bug"), tmp_path)
    assert len(bugs) == 1


async def test_while_passes_fail_it_is_told_why(tmp_path: Path, bugs: list[logging.LogRecord]) -> None:
    async with rig(tmp_path) as here:
        bot, _ = with_writer(here, Broken(here.writer, "annotated", KeyError("a bug"), 10**9))
        async with leading(watched(bot)) as leadership:
            await until_trouble(leadership, is_told=True)
            assert "KeyError: 'a bug'" in leadership.trouble
    assert len(bugs) == 1


async def test_an_object_that_trips_a_bug_keeps_no_other_waiting(tmp_path: Path, bugs: list[logging.LogRecord]) -> None:
    async with rig(tmp_path) as here:
        await here.raise_(here.bot())
        here.now += 3600
        real = here.writer.annotated

        async def with_one_more(*args: Any) -> list[tuple[str, str]]:
            return [("kube-system", "the-other"), *await real(*args)]

        async def of_strange_shape(namespace: str, name: str) -> Any:
            return [] if name == "the-other" else await here.writer._writer.deployment(namespace, name)

        here.writer.annotated = with_one_more  # type: ignore[method-assign]
        here.writer.deployment = of_strange_shape  # type: ignore[method-assign]
        events = await here.bot().passes.reconcile()
        assert [(event.kind, event.target) for event in events] == [
            ("failed", "kube-system/the-other"),
            ("reverted", f"{NAMESPACE}/{NAME}"),
        ]
    assert len(bugs) == 1


async def test_a_recording_is_no_cluster_to_be_led(tmp_path: Path) -> None:
    async with rig(tmp_path) as here:
        leadership = watched(here, recording=True)
        await leadership.lead("me", QUICK, Clock())
        assert not await leadership.is_possible()
        assert leadership.trouble == ""


async def test_the_end_of_leading_is_no_bug(tmp_path: Path) -> None:
    """Stopped at any moment: `_no_bugs` looks at the log."""
    async with rig(tmp_path) as here:
        for turns in range(60):
            task = asyncio.create_task(watched(here).lead("me", QUICK, Clock()))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            assert isinstance((await asyncio.gather(task, return_exceptions=True))[0], asyncio.CancelledError)


LEVEL = wants(VERBOSITY, "5", EXTENDER, 60, "U1")
PASS_S = 15.0
TURNS = 30
"""Of the event loop, in which all that is awake comes to its next sleep."""


class Replicas:
    """Bots with one Lease; `cluster.now` is the time of all."""

    def __init__(self, skews: tuple[float, ...]) -> None:
        self.cluster = Cluster()
        self.journal = MemoryJournal()
        self.bots = [Replica(self.cluster, self.journal, skew) for skew in skews]
        self._asleep: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = itertools.count()
        self.leaders = [
            Leader(
                bot.writer(),
                NAMESPACE,
                "hami-bot",
                f"bot-{number}",
                clock=lambda: self.cluster.now,
                sleep=self._sleep,
                jitter=lambda number=number: number / 10,
                wall=bot.now,
            )
            for number, bot in enumerate(self.bots)
        ]

    async def _sleep(self, seconds: float) -> None:
        future = asyncio.get_running_loop().create_future()
        heapq.heappush(self._asleep, (self.cluster.now + seconds, next(self._order), future))
        await future

    async def until(self, moment: float) -> None:
        """Lets time pass up to that many seconds after the beginning."""
        while True:
            for _ in range(TURNS):
                await asyncio.sleep(0)
            if not self._asleep or self._asleep[0][0] > NOW + moment:
                break
            at, _, future = heapq.heappop(self._asleep)
            self.cluster.now = max(self.cluster.now, at)
            if not future.done():
                future.set_result(None)
        self.cluster.now = NOW + moment

    def running(self):
        both = zip(self.leaders, self.bots, strict=True)
        return in_background(*(leader.run(lambda one=bot: self._work(one)) for leader, bot in both))

    async def _work(self, one: Replica) -> None:
        while True:
            await one.changer().passes.reconcile()
            await self._sleep(PASS_S)

    def leading(self) -> list[int]:
        return [number for number, leader in enumerate(self.leaders) if leader.leading]


async def one_case(skews: tuple[float, ...], cut_at: float, how: str) -> None:
    here = Replicas(skews)
    async with here.running() as tasks:
        await here.until(30)
        [first] = here.leading()
        record = await raised(here.bots[-1].changer())
        end = record.deadline - NOW
        await here.until(end + cut_at)
        here.bots[first].way.down = True
        if how == "killed":  # without giving the Lease up, which it cannot reach
            tasks[first].cancel()
        for moment in range(int(end + cut_at) + 1, int(end + 30)):
            await here.until(moment)
            assert len(here.leading()) <= 1
        if how == "cut off and back":
            here.bots[first].way.down = False
        await here.until(end + 30)
        assert here.cluster.record() is None
        assert here.cluster.done["revert", "c1"] == 1
        await here.until(end + 60)
        assert here.journal.ends() == {"c1": "reverted"}


@pytest.mark.parametrize("how", ["cut off", "cut off and back", "killed"])
@pytest.mark.parametrize("skews", [(0, 0), (10_800, 0), (-120, 120, 0)], ids=str)
async def test_the_leader_is_lost_around_the_deadline(
    skews: tuple[float, ...], how: str, record_property: Callable[[str, object], None]
) -> None:
    moments = (-40, -16, -10, -1, 0, 1)
    for cut_at in moments:
        await one_case(skews, cut_at, how)
    record_property("cases", len(moments))
