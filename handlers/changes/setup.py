"""Puts together what temporary changes in Slack need, and looks after the changes of every configured cluster."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from functools import partial
from typing import Any, NamedTuple

from bot.access import groups_in
from bot.changes.changer import PATIENCE_S, Changer
from bot.changes.journal import NotYet
from bot.errors import BotError, SourceError
from bot.kube.client.writer import Writer
from bot.periodic_jobs import Clock
from bot.settings.schema import ClusterSettings, Settings, channels_of
from bot.slack.gateway import Gateway
from bot.slack.people import Groups
from bot.store import StoreError
from bot.texts import Text, Texts
from handlers.changes.execute import Capture
from handlers.changes.journal import ChangeJournal
from handlers.changes.leader_pass import Leadership, OpenWriter, Pace, WritableCluster, WritableClusters
from handlers.changes.scheduler_log import why_to_end
from handlers.changes.service import ChangeService
from handlers.changes.stale_cards import StaleCards, Storeless
from handlers.deps import Deps
from playbooks.gather.scheduling import gather_install
from playbooks.playbook import Sources

log = logging.getLogger(__name__)


class ChangeDeps(NamedTuple):
    """How to write to clusters and capture what a restart destroys; `patience_s`: seconds to note an event at most."""

    open_writer: OpenWriter
    capture: Capture
    patience_s: float = PATIENCE_S


def _no_writer(_: str) -> AbstractAsyncContextManager[None]:
    return nullcontext()


async def _no_capture(*_: object) -> str:
    return ""


READ_ONLY = ChangeDeps(_no_writer, _no_capture)
"""The dependencies of a bot that changes nothing: every cluster is treated as a recording."""


class ChangeSupervisor:
    """Reverts the open changes of every configured cluster when they are due; without any, those of the default one. It
    needs neither Slack nor the database: after `begin` the next pass tells what happened meanwhile.
    """

    def __init__(
        self,
        settings: Settings,
        clusters: Sequence[str],
        open_sources: Callable[[str], AbstractAsyncContextManager[Sources]],
        changing: ChangeDeps,
        now: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._open_sources = open_sources
        self._changing = changing
        self._now = now
        self._deps: Deps | None = None
        self._service: ChangeService | None = None
        self._clusters = WritableClusters(changing.open_writer, self._writable)
        self._leaderships = [
            Leadership(cluster, self._clusters, self._lease_namespace, self._beside) for cluster in (clusters or ("",))
        ]
        self._looking: asyncio.Task[list[str]] | None = None
        self._leads: list[asyncio.Task[None]] = []
        self._storeless = Storeless(Texts(settings.language))

    @asynccontextmanager
    async def leading(self, identity: str, pace: Pace, clock: Clock) -> AsyncGenerator[None]:
        """Looks after open changes while the context lasts. `identity` is a name that only this process has."""
        async with self._clusters:
            leads = (leadership.lead(identity, pace, clock) for leadership in self._leaderships)
            self._leads += map(asyncio.create_task, leads)
            try:
                yield
            finally:
                await self.stop()

    async def stop(self) -> None:
        """Stops looking after changes; from then on nothing uses the `deps` that `begin` got."""
        tasks: list[asyncio.Task[Any]] = [*self._leads, *([self._looking] if self._looking else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def writable(self, cluster: str) -> WritableCluster:
        """The named cluster, ready to write to. Raises BotError if it cannot be written to."""
        return await self._clusters.of(cluster)

    def begin(self, deps: Deps) -> ChangeService:
        """Makes the service that takes requests, once Slack and the database answer; events are told from now on."""
        groups = Groups(deps.gateway, groups_in(self._settings.access))
        self._deps = deps
        self._service = ChangeService(deps, self._settings.access, groups, self._clusters, self._changing.capture)
        return self._service

    def trouble(self) -> str:
        """A line for each cluster whose changes are not led or not reverted, or whose clock is off; else empty."""
        return "".join(
            f"temporary changes{' in ' if leadership.cluster else ''}{leadership.cluster}: {trouble}\n"
            for leadership in self._leaderships
            for trouble in (leadership.trouble, leadership.wrong_clock)
            if trouble
        )

    async def are_possible(self) -> bool:
        """Whether changes can be reverted in any cluster; waits until that has been tried."""
        return any(await asyncio.gather(*(leadership.is_possible() for leadership in self._leaderships)))

    async def without_store(self, gateway: Gateway, why: BotError) -> None:
        """Tells the channels of open changes that the store cannot be opened; a later call tells only those not told
        yet. A cluster that another process leads is left to that process.
        """
        for leadership in self._leaderships:
            if not await leadership.is_possible() or (leadership.leader and leadership.leader.taken):
                continue
            namespace = _settings_of(self._settings, leadership.cluster).hami_namespace
            await self._storeless.tell(gateway, await self.writable(leadership.cluster), namespace, why)

    async def _beside(self) -> None:
        if self._service and self._deps:
            if self._looking is None:  # once in every channel, and not within the time of a pass
                self._looking = asyncio.create_task(self._look_for_cards(self._deps))
            elif self._looking.done() and (missed := self._looking.result()):
                self._looking = asyncio.create_task(StaleCards(self._deps, self._clusters, missed).look())
            await self._service.approving.look_after()

    async def _look_for_cards(self, deps: Deps) -> list[str]:
        channels = [*channels_of(self._settings), *self._storeless.told_in]
        try:
            for leadership in self._leaderships:
                for change in await deps.store.changes(leadership.cluster).opened() if leadership.writable else ():
                    channels += leadership.writable.journal.told_in(change.record) if leadership.writable else ()
        except StoreError as error:
            log.warning("where open changes are told is not known: %s", error)
        return await StaleCards(deps, self._clusters, channels).look()

    def _telling(self) -> Deps:
        if self._deps is None:
            raise NotYet(Text("error-change.waits-for-slack-and-database"))
        return self._deps

    def _writable(self, cluster: str, writer: Writer) -> WritableCluster:
        journal = ChangeJournal(cluster, self._telling, self._settings.access)
        endings = partial(why_to_end, partial(self._open_sources, cluster))
        namespace = _settings_of(self._settings, cluster).hami_namespace
        patience_s = self._changing.patience_s
        changer = Changer(writer, journal, namespace=namespace, now=self._now, endings=endings, patience_s=patience_s)
        return WritableCluster(cluster, writer, changer, journal, asyncio.Lock())

    async def _lease_namespace(self, writable: WritableCluster) -> str:
        """As set, else the bot's own, else HAMi's."""
        known = _settings_of(self._settings, writable.cluster)
        if namespace := known.lease_namespace or writable.writer.home or known.hami_namespace:
            return namespace
        async with self._open_sources(writable.cluster) as sources:
            found = await gather_install(sources)
        if not found.install.namespace:
            raise SourceError(Text("error-change.hami-was-not-found"), hint=Text("error-change.set-lease-namespace"))
        return found.install.namespace


def _settings_of(settings: Settings, cluster: str) -> ClusterSettings:
    return settings.clusters.get(cluster) or ClusterSettings()
