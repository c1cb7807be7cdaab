"""The dependencies of everything that listens to Slack (`Deps`), and which of several replicas does what.

A lease saves work: nothing relies on one process alone having it. There are two kinds. For each cluster a Kubernetes
Lease (`bot.kube.client.leader`) decides who reverts its open changes: the record of a change stands on the cluster's
objects, so bots with different databases, or none, may share it. For the database a row (`TaskLease`) decides who looks
after incidents, pages and schedules, which stand there. Digests and messages are claimed one by one, so replicas share
them.
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
from handlers.parsing.question import Question
from playbooks.playbook import Sources


class Deps(msgspec.Struct, frozen=True):
    """What all handlers need.

    `clusters` are the names of those in the settings. A question that names no cluster is about the one that `channels`
    has for its channel, else about `usual`: the one that `serve` was started for, else the only one of the settings,
    else empty. `workspace` is the address of the Slack workspace, such as `https://acme.slack.com/`, or empty.
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
    """What people mean by "my pods": namespaces and labels, by the ids of users and user groups."""

    def cluster_of(self, named: str, channel: str = "") -> str:
        """The cluster that a question is about: the named one, else the channel's, else the usual one."""
        return named or self.channels.get(channel, "") or self.usual

    def the_cluster(self, named: str, channel: str) -> str:
        """The cluster that `cluster_of` gives. Raises NoSuchCluster if unknown, WhichCluster if several fit."""
        if named:
            self.check_cluster(named)
        cluster = self.cluster_of(named, channel)
        if not cluster and len(self.clusters) > 1:
            raise WhichCluster(sorted(self.clusters))
        return cluster

    async def usual_cluster(self, question: Question) -> str:
        """The cluster that a question is about when it names none: its thread's, else its channel's, else empty."""
        known = await self.thread(question)
        return known[1] if known and known[1] in self.clusters else self.channels.get(question.channel, "")

    async def thread(self, question: Question) -> tuple[str, str] | None:
        """(words, cluster) of the thread in which it was asked; a question that begins its thread has none."""
        return await self.store.thread(question.channel, question.thread_ts) if question.in_thread else None

    def check_cluster(self, name: str) -> None:
        """Raises NoSuchCluster unless the name is one of `clusters`, or empty if clusters have no names."""
        if name not in (self.clusters or ("",)):
            raise NoSuchCluster(name, self.clusters)

    def permalink(self, channel: str, ts: str) -> str:
        """The address of a message, as chat.getPermalink gives it; empty if the workspace or the message is unknown."""
        if not (self.workspace and channel and ts):
            return ""
        return f"{self.workspace.rstrip('/')}/archives/{channel}/p{ts.replace('.', '')}"

    def texts(self, language: Language | None) -> Texts:
        """The texts in `language`, or without one in the bot's own."""
        return Texts(language) if language else self.say


class TaskLease:
    """A lease in the store: one of the processes that share the store does a periodic task.

    `owner` is a name that only this process has. The lease lasts `lasts_s` seconds from the last `is_mine` that asked
    the store for it; then another process may take it.
    """

    def __init__(self, deps: Deps, name: str, owner: str, lasts_s: float) -> None:
        self._deps = deps
        self._name = name
        self._owner = owner
        self._lasts_s = lasts_s
        self._ask_again_at = 0.0

    async def is_mine(self) -> bool:
        """Whether this process holds the lease. It asks the store rarely: frequent writes wear a disk out."""
        now = self._deps.now()
        if now < self._ask_again_at:
            return True
        mine = await self._deps.store.task_leases.hold(self._name, self._owner, self._lasts_s)
        self._ask_again_at = now + self._lasts_s / 3 if mine else 0.0
        return mine


Opener = Callable[[str], AbstractAsyncContextManager[Sources]]


class KeptOpen:
    """Opens every cluster at its first question and keeps it open, because a login can take seconds.

    Questions that come while it is being opened wait for the same attempt, and share its error. `known` are the names
    of clusters, `usual` is the cluster meant by an empty name. All questions share a cluster's cache; each is told how
    old its own data was.
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
        """The cluster's sources. Raises BotError if it cannot be opened, NoSuchCluster for an unknown name."""
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
