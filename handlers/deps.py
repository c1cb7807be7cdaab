"""The dependencies of everything that listens to Slack, and which of several replicas does what.

A lease saves work: nothing relies on one process alone having it. One scope is the cluster: its open changes are
reverted by whoever holds its Lease (`bot.kube.client.leader`), because the record of a change stands on the cluster's
objects, and bots with different databases, or none, may look after them. The other scope is the database: incidents,
pages, digests and messages stand there, and a process that cannot reach it does nothing with them. A lease is a row of
the database. Digests and messages are claimed one by one, so that replicas share them.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Self

import msgspec

from bot.errors import NoSuchCluster, WhichCluster
from bot.kube.watch.cache import CachedCluster
from bot.slack.gateway import Gateway
from bot.slack.outbox import Outbox
from bot.slack.question_tasks import Work
from bot.store import Store
from bot.texts import Language, Texts
from playbooks.playbook import Sources


class Deps(msgspec.Struct, frozen=True):
    """What all handlers need. `clusters` are those of the settings and `usual`. A question that names no cluster is
    about the one that `channels` has for its channel, else about `usual`: the one that `serve` was started for, else
    the only one of the settings, else empty. `workspace` is the address of the workspace, such as
    `https://acme.slack.com/`, or empty.
    """

    gateway: Gateway
    outbox: Outbox
    store: Store
    work: Work
    open_sources: Callable[[str], AbstractAsyncContextManager[Sources]]
    clusters: tuple[str, ...]
    channels: Mapping[str, str]
    say: Texts
    bot_user: str
    now: Callable[[], float]
    usual: str = ""
    workspace: str = ""
    mine: Mapping[str, tuple[str, ...]] = {}
    """What people mean by their pods: namespaces and labels, by the ids of users and user groups."""

    def cluster_of(self, named: str, channel: str = "") -> str:
        """The name of the cluster that is meant: the one that is named, else the channel's, else the usual one."""
        return named or self.channels.get(channel, "") or self.usual

    def the_cluster(self, named: str, channel: str) -> str:
        """The cluster as `cluster_of` gives it, where one has to be known. Raises NoSuchCluster and WhichCluster."""
        if named:
            self.check_cluster(named)
        cluster = self.cluster_of(named, channel)
        if not cluster and len(self.clusters) > 1:
            raise WhichCluster(sorted(self.clusters))
        return cluster

    def check_cluster(self, name: str) -> None:
        """Raises NoSuchCluster unless the name is that of a cluster here; where clusters have no names, it is empty."""
        if name not in (self.clusters or ("",)):
            raise NoSuchCluster(name, self.clusters)

    def permalink(self, channel: str, ts: str) -> str:
        """The address of a message, as chat.getPermalink gives it; empty where it is not known."""
        if not (self.workspace and channel and ts):
            return ""
        return f"{self.workspace.rstrip('/')}/archives/{channel}/p{ts.replace('.', '')}"

    def texts(self, language: Language | None) -> Texts:
        """The texts in `language`, else in the bot's own."""
        return Texts(language) if language else self.say


class TaskLease:
    """A lease in the store: one process of those that share it does a periodic task.

    `owner` is the name of this process only. The lease lasts `lasts_s` seconds from the last time that `is_mine` asked
    for it; then another process may take it.
    """

    def __init__(self, deps: Deps, name: str, owner: str, lasts_s: float) -> None:
        self._deps = deps
        self._name = name
        self._owner = owner
        self._lasts_s = lasts_s
        self._ask_again_at = 0.0

    async def is_mine(self) -> bool:
        """Whether this process holds the lease. Asks the store rarely: writing every few seconds wears a disk out."""
        now = self._deps.now()
        if now < self._ask_again_at:
            return True
        mine = await self._deps.store.task_leases.hold(self._name, self._owner, self._lasts_s)
        self._ask_again_at = now + self._lasts_s / 3 if mine else 0.0
        return mine


Opener = Callable[[str], AbstractAsyncContextManager[Sources]]


class KeptOpen:
    """Opens every cluster at its first question and keeps it open: a login can take seconds.

    Questions that come while it is being opened wait for the same attempt, and share its error. `known` are the names
    of clusters, `usual` is the cluster without a name. The cache of a cluster is shared by all questions; each question
    is told by itself how old its data was.
    """

    def __init__(self, open_sources: Opener, known: Collection[str], usual: str) -> None:
        self._open = open_sources
        self._known = known
        self._usual = usual
        self._stack = AsyncExitStack()
        self._sources: dict[str, asyncio.Task[Sources]] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for attempt in self._sources.values():
            attempt.cancel()
        await asyncio.gather(*self._sources.values(), return_exceptions=True)
        await self._stack.aclose()

    @asynccontextmanager
    async def get(self, cluster: str) -> AsyncGenerator[Sources]:
        """The cluster's sources. Raises BotError when it cannot be opened, NoSuchCluster for an unknown name."""
        if cluster and cluster not in self._known:
            raise NoSuchCluster(cluster, self._known)
        kept = await asyncio.shield(self._attempt(cluster or self._usual))
        yield kept._replace(cluster=kept.cluster.anew()) if isinstance(kept.cluster, CachedCluster) else kept

    def _attempt(self, cluster: str) -> asyncio.Task[Sources]:
        if cluster not in self._sources:
            attempt = asyncio.create_task(self._stack.enter_async_context(self._open(cluster)))
            self._sources[cluster] = attempt
            attempt.add_done_callback(lambda _: self._forget_if_failed(cluster))
        return self._sources[cluster]

    def _forget_if_failed(self, cluster: str) -> None:
        attempt = self._sources[cluster]
        if attempt.cancelled() or attempt.exception():
            del self._sources[cluster]
