"""One scheduler's Deployment on a real API server, a real store, and a bot that can be killed at any step.

A step is a call of the writer or of the journal. Killed before a step: it never happened; after: it happened, and
nobody was told. A killed bot does nothing any more; another one, with the same store, goes on.
"""

import asyncio
import contextlib
import copy
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal

from bot.changes.changer import Changer
from bot.changes.kinds import VERBOSITY
from bot.changes.plan import Plan, Raise
from bot.changes.record import Record
from bot.hami.version import Version
from bot.kube.client.connect import open_writer
from bot.kube.client.responses import ServerClock
from bot.kube.client.writer import Writer
from bot.store import Store, open_store
from sandbox.apiserver import ApiServer
from tests.changes.deployments import EXTENDER, NOW, rolled_out, wants
from tests.stores import new_store

NAMESPACE, NAME = "kube-system", "hami-scheduler"
LEVEL = wants(VERBOSITY, "5", EXTENDER, 600, "U1", "a pod hangs")
NEWEST = Version(2, 10)


class Killed(BaseException):
    """What kill -9 is to the code under test: nothing catches it."""


async def planned(bot: Changer, wanted: Raise = LEVEL, change_id: str = "c1") -> Plan:
    plan = await bot.plan(NAMESPACE, NAME, wanted, NEWEST, change_id)
    assert isinstance(plan, Plan), plan
    return plan


async def raised(bot: Changer, wanted: Raise = LEVEL, change_id: str = "c1") -> Record:
    return await bot.raise_(await planned(bot, wanted, change_id), NEWEST)


When = Literal["before", "after"]


class Steps:
    """Counts the steps of one process, and at one of them kills it or, with `meanwhile`, lets that happen first."""

    def __init__(
        self, at: int | None = None, when: When = "before", meanwhile: Callable[[], Awaitable[object]] | None = None
    ) -> None:
        self.count = 0
        self.names: list[str] = []
        self._at, self._when, self._meanwhile = at, when, meanwhile

    def of(self, thing: Any) -> Any:
        return _Stepped(thing, self)

    async def take(self, name: str, step: Callable[[], Awaitable[Any]]) -> Any:
        number, self.count = self.count, self.count + 1
        self.names.append(name)
        if number == self._at and self._when == "before":
            await self._interrupt()
        result = await step()
        if number == self._at and self._when == "after":
            await self._interrupt()
        return result

    async def _interrupt(self) -> None:
        if self._meanwhile is None:
            raise Killed
        await self._meanwhile()


def crash_points(names: Sequence[str], only: Collection[str] = ()) -> list[tuple[int, When]]:
    """Before every step (of these names), and after the last: what a process knew is gone, so after one is before the
    next.
    """
    return [*((at, "before") for at, name in enumerate(names) if name in (only or names)), (len(names) - 1, "after")]


async def killed_at_each(life: Callable[[int | None, When], Awaitable[list[str]]]) -> int:
    """Lets one life tell its steps, then ends one at each of them; how many ends there were."""
    points = crash_points(await life(None, "before"))
    for at, when in points:
        await life(at, when)
    return len(points)


class _Stepped:
    def __init__(self, thing: Any, steps: Steps) -> None:
        self._thing, self._steps = thing, steps

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._thing, name)
        if not callable(call):
            return call
        return lambda *args, **kwargs: self._steps.take(name, lambda: call(*args, **kwargs))


class CountedWriter:
    """The writer, and how many of its patches changed the pod template."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self.template_writes = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._writer, name)

    async def patch_deployment(self, namespace: str, name: str, patch: Any, **more: Any) -> Any:
        done = await self._writer.patch_deployment(namespace, name, patch, **more)
        if not more.get("dry_run"):
            self.template_writes += any("/template/" in step["path"] and step["op"] != "test" for step in patch)
        return done


class Rig:
    """`now` is the API server's clock and the bots', in seconds since 1970; `before` the spec as it was at first."""

    def __init__(self, server: ApiServer, writer: Writer, store: Store, now: list[float]) -> None:
        self.server, self.writer, self.store = server, CountedWriter(writer), store
        self._now = now
        self.before: Any = None

    @property
    def now(self) -> float:
        return self._now[0]

    @now.setter
    def now(self, now: float) -> None:
        self._now[0] = now

    def bot(self, steps: Steps | None = None, *, skew_s: float = 0, **more: Any) -> Changer:
        """A process; with `steps` one that may be killed, with `skew_s` one whose clock is wrong."""
        steps = steps or Steps()
        journal = self.store.changes("lab")
        more = {"patience_s": 60, **more}
        return Changer(steps.of(self.writer), steps.of(journal), now=lambda: self.now + skew_s, **more)

    async def raise_(self, bot: Changer, wanted: Raise = LEVEL) -> None:
        await raised(bot, wanted)

    async def live(self) -> dict[str, Any]:
        return await self.writer.deployment(NAMESPACE, NAME)

    async def words(self) -> list[str]:
        return (await self.live())["spec"]["template"]["spec"]["containers"][1]["args"]

    async def edit(self, change: Callable[[dict[str, Any]], None]) -> None:
        """Somebody else's edit of the spec, without looking at what is there."""
        live = await self.live()
        edited = copy.deepcopy(live["spec"])
        change(edited)
        await self.writer.patch_deployment(NAMESPACE, NAME, ({"op": "replace", "path": "/spec", "value": edited},))

    async def passes(self, *at: float, bots: Sequence[Changer] = ()) -> None:
        """At each of these times (seconds after the beginning) every bot makes its pass, all at once."""
        for moment in at:
            self.now = max(self.now, NOW + moment)
            await asyncio.gather(*(bot.passes.reconcile() for bot in bots or (self.bot(),)))

    async def is_as_before(self) -> bool:
        live = await self.live()
        return json.dumps(live["spec"]) == json.dumps(self.before) and not live["metadata"].get("annotations")


def _clock(now: list[float]) -> datetime:
    return datetime.fromtimestamp(now[0], UTC)


@asynccontextmanager
async def rig(folder: Path, words: list[str] | None = None, *, database: str = "") -> AsyncGenerator[Rig]:
    """A rolled out Deployment with every container that has flags to change, HAMi's extender between two sidecars.

    `words` are the extender's. The store is in the folder unless a database is named.
    """
    folder.mkdir(exist_ok=True)  # noqa: ASYNC240  # a moment
    made = rolled_out(words) if words else rolled_out()
    now = [NOW]
    clock = partial(_clock, now)
    async with (
        ApiServer({"deployments.apps": [made]}, clock=clock) as server,
        contextlib.AsyncExitStack() as stack,
    ):
        config = folder / "kubeconfig"
        config.write_text(server.kubeconfig())
        writer = await stack.enter_async_context(await open_writer(kubeconfig=config, timeout_s=60))
        writer.clock = ServerClock(lambda: now[0])
        store = await stack.enter_async_context(open_store(database or new_store(folder / "store.db")))
        here = Rig(server, writer, store, now)
        here.before = (await here.live())["spec"]
        yield here
