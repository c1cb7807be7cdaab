"""Leads each cluster's changes: one replica holds a Lease and reverts what is due. Several at once do no harm."""

import asyncio
import contextlib
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from functools import partial
from typing import NamedTuple, Self

from bot.changes.changer import Changer
from bot.changes.deadline import skewed
from bot.errors import BotError, NotFound, UsageError, bugs_as_errors
from bot.kube.client.leader import Leader
from bot.kube.client.requests import ForbiddenError
from bot.kube.client.writer import Writer
from bot.periodic_jobs import Clock, Job
from bot.texts import Text, in_english
from handlers.changes.journal import ChangeJournal

LEASE = "hami-bot"

log = logging.getLogger(__name__)


OpenWriter = Callable[[str], AbstractAsyncContextManager[Writer | None]]
"""Opens the writer for the named cluster, or None if that cluster is a recording. Raises BotError."""


class NothingToChange(UsageError):  # noqa: N818  # what the person is told
    """The cluster can never be changed from here: it is a recording."""


class WritableCluster(NamedTuple):
    """A cluster to change. A pass and a person's request take turns (`busy`), so that each event is told as theirs."""

    cluster: str
    writer: Writer
    changer: Changer
    journal: ChangeJournal
    busy: asyncio.Lock


class WritableClusters:
    """Opens the clusters to write to, each once, and closes them all at the end. An async context manager."""

    def __init__(self, open_writer: OpenWriter, build: Callable[[str, Writer], WritableCluster]) -> None:
        self._open = open_writer
        self._build = build
        self._stack = AsyncExitStack()
        self._clusters: dict[str, WritableCluster] = {}
        self._opening: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def of(self, cluster: str) -> WritableCluster:
        """The named cluster to write to. Raises BotError if it cannot be written to now, NothingToChange if never."""
        async with self._opening[cluster]:
            if cluster not in self._clusters:
                writer = await self._stack.enter_async_context(self._open(cluster))
                if writer is None:
                    raise NothingToChange(Text("error-change.is-a-recording", cluster=cluster or "this cluster"))
                self._clusters[cluster] = self._build(cluster, writer)
        return self._clusters[cluster]


class Pace(NamedTuple):
    """Seconds between two passes, the most until leading a cluster is tried again, and for the work beside a pass. That
    work is limited because a database that hangs must not delay the next pass.
    """

    pass_s: float = 15.0
    again_s: float = 60.0
    beside_s: float = 10.0


class Leadership:
    """Leads one cluster's changes for this process; `passes` counts the passes made. `lease_namespace` finds the
    namespace of the Lease; `beside` is called after each pass.
    """

    def __init__(
        self,
        cluster: str,
        clusters: WritableClusters,
        lease_namespace: Callable[[WritableCluster], Awaitable[str]],
        beside: Callable[[], Awaitable[None]],
    ) -> None:
        self.cluster = cluster
        self._clusters = clusters
        self._lease_namespace = lease_namespace
        self._beside = beside
        self.passes = 0
        self.leader: Leader | None = None
        self.writable: WritableCluster | None = None
        self._last_trouble = ""
        self._bugs: set[str] = set()
        self._possible: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    @property
    def trouble(self) -> str:
        """Why changes are not looked after or one is not reverted; empty when all is well or another process leads."""
        return "" if self.leader and self.leader.taken else self._last_trouble

    @property
    def wrong_clock(self) -> str:
        """Why this process makes no changes: its clock is too far off the API server's; empty if it is not."""
        why = skewed(self.writable.changer.skew_s()) if self.writable else None
        return f"{in_english(why)}: nothing is raised from here; set this machine's clock (NTP)" if why else ""

    async def is_possible(self) -> bool:
        """Whether changes of the cluster can be reverted at all; waits for the first try to lead."""
        return await asyncio.shield(self._possible)

    async def lead(self, identity: str, pace: Pace, clock: Clock) -> None:
        """Leads the cluster until cancelled, or until the cluster turns out to be one that can never be changed. Any
        other failure, bugs included, is tried again; the Lease is given up meanwhile, so that another replica can lead.
        """
        where = self.cluster or "here"
        last_error, wait_s = "", pace.pass_s
        while True:
            passes = self.passes
            try:
                with bugs_as_errors(self._bugs):
                    writable = self.writable = await self._clusters.of(self.cluster)
                    namespace = await self._lease_namespace(writable)
                    with contextlib.suppress(NotFound):  # whoever leads first makes it
                        await writable.writer.lease(namespace, LEASE)
                    self._tried(possible=True)
                    self.leader = Leader(writable.writer, namespace, LEASE, identity)
                    await self.leader.run(partial(self._make_passes, writable, pace, clock))
            except NothingToChange as error:
                log.info("cluster %s: %s", where, in_english(error.message))
                self._tried(possible=False)
                return
            except BotError as error:
                if self.passes > passes:
                    last_error, wait_s = "", pace.pass_s
                why = in_english(error.message)
                if why != last_error:
                    log.warning("no temporary changes are led in %s, reading goes on: %s", where, error)
                last_error = self._last_trouble = why
                self._tried(possible=not isinstance(error, ForbiddenError | UsageError))
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, pace.again_s)

    def _tried(self, *, possible: bool) -> None:
        if not self._possible.done():
            self._possible.set_result(possible)

    async def _make_passes(self, writable: WritableCluster, pace: Pace, clock: Clock) -> None:
        is_clock_told = False

        async def one_pass() -> None:
            nonlocal is_clock_told
            async with writable.busy:
                await writable.changer.passes.reconcile()
            self.passes += 1
            self._last_trouble = writable.changer.passes.trouble
            if self.wrong_clock and not is_clock_told:
                log.warning("cluster %s: %s", self.cluster or "here", self.wrong_clock)
            is_clock_told = bool(self.wrong_clock)
            try:
                async with asyncio.timeout(pace.beside_s):
                    with bugs_as_errors(self._bugs):
                        await self._beside()
            except (BotError, TimeoutError) as error:
                log.warning("beside the pass: %s", error or f"nothing came of it in {pace.beside_s:g} s")

        await Job(one_pass).run(clock, pace.pass_s)
