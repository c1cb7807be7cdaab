"""Replicas of which the leader makes the passes: whoever is cut off or dies, the deadline and 30 s hold.

Time is virtual: whoever sleeps wakes in the order of time, and nothing waits for a real clock.
"""

import asyncio
import contextlib
import heapq
import itertools
from collections.abc import Callable

import pytest

from bot.changes.kinds import VERBOSITY
from bot.changes.plan import Plan
from bot.kube.client.leader import Leader
from tests.changes.deployments import EXTENDER, NOW, wants
from tests.changes.memory import Cluster, MemoryJournal, Replica
from tests.changes.rig import NAME, NAMESPACE, NEWEST

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

    @contextlib.asynccontextmanager
    async def running(self):
        tasks = [
            asyncio.create_task(leader.run(lambda one=bot: self._work(one)))
            for leader, bot in zip(self.leaders, self.bots, strict=True)
        ]
        try:
            yield tasks
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

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
        bot = here.bots[-1].changer()
        plan = await bot.plan(NAMESPACE, NAME, LEVEL, NEWEST, "c1")
        assert isinstance(plan, Plan)
        record = await bot.raise_(plan, NEWEST)
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
