"""The scene of a cluster in which pods are pending, and what every scene with HAMi in it has."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any, NamedTuple, Self, TypeVar, cast

import msgspec

from bot.hami.fit import verdicts as fit
from bot.hami.fit.cluster_view import ClusterFacts, View, terms, versions_to_try
from bot.hami.fit.node_cache import Stock, sizes
from bot.hami.installation.install import Install
from bot.hami.nodes.node_state import Terms, wants_own_plugin
from bot.hami.nodes.registration import Registration, Unregistered
from bot.hami.pods.request_parsing import DeviceConfig
from bot.hami.scheduler_logs.log_lines import LogLine
from bot.hami.version import Version
from bot.kube.cluster import Clocks
from bot.kube.models import Event, Holder, Node, Pod, ResourceSlice, Workload
from bot.kube.models.base import Kept
from bot.report import Gap
from playbooks.gather.nodes_in_question import NodesInQuestion
from playbooks.gather.scheduler_process import SchedulerProcess
from playbooks.gather.scheduling import Capacity, Components, InstallSeen
from playbooks.gather.webhook import WebhookSeen

T = TypeVar("T")

Named = tuple[str, str]
"""The key of a pod: namespace and name."""

_MOST_KEPT = 16
"""The most results that are kept of the cluster's objects: a stock for each possible version, and others."""


class Messages(NamedTuple):
    """What the schedulers said, by pod: events and log lines."""

    events: Mapping[Named, Sequence[Event]] = {}
    lines: Mapping[Named, Sequence[tuple[Pod, LogLine]]] = {}
    gaps: tuple[Gap, ...] = ()


class Remembering(msgspec.Struct, frozen=True, dict=True, eq=False):
    """A scene that keeps the results that were worked out of it."""

    def once(self, fact: Callable[[Self], T]) -> T:
        """The result of `fact` for this scene, worked out only the first time."""
        if fact not in self._facts:
            self._facts[fact] = fact(self)
        return cast("T", self._facts[fact])

    @cached_property
    def _facts(self) -> dict[Callable[[Self], Any], Any]:
        return {}


class OfInstall(Remembering, frozen=True, dict=True, eq=False):
    """A scene in which HAMi's install was read."""

    seen: InstallSeen

    @property
    def install(self) -> Install:
        return self.seen.install

    @property
    def config(self) -> DeviceConfig:
        return self.seen.config

    @property
    def version(self) -> Version | None:
        """HAMi's version; None if it is not known."""
        return self.install.version.version if self.install.version else None

    @property
    def gaps(self) -> Sequence[Gap]:
        """The gaps of all parts of the scene."""
        return self.seen.gaps

    def was_read(self, source: str) -> bool:
        """Whether the source was read (named as its gap would be): rules conclude nothing from an unread one."""
        return all(gap.source != source for gap in self.gaps)


class ClusterScene(OfInstall, frozen=True, dict=True, eq=False):
    """The cluster as HAMi sees it, for any number of pods: under its version, or every possible one if unknown.

    Beside what every question reads it has what bears on pending pods: `process` of HAMi's scheduler, the `owners` of
    node locks (None = read, and not there), the nodes that seem to hand out too little, and the webhook if a pod went
    past HAMi. `slices`: what DRA drivers offer, if that is asked about.
    """

    capacity: Capacity
    now: datetime
    messages: Messages = Messages()
    lock_owners: Mapping[Named, Pod | Gap | None] = msgspec.field(default_factory=dict[Named, "Pod | Gap | None"])
    questioned: NodesInQuestion = NodesInQuestion({})
    process: SchedulerProcess = SchedulerProcess()
    webhook: WebhookSeen | None = None
    slices: Sequence[ResourceSlice] | Gap = ()

    @property
    def nodes(self) -> Sequence[Node]:
        return what_was_read(self.capacity.nodes)

    @property
    def nodes_seen(self) -> bool:
        return not isinstance(self.capacity.nodes, Gap)

    def was_read(self, source: str) -> bool:
        return source != "nodes" or self.nodes_seen

    @cached_property
    def facts(self) -> ClusterFacts:
        """The facts about the cluster from which the fit is worked out."""
        capacity, flags = self.capacity, self.install.flags
        return ClusterFacts(
            nodes={node.name: node for node in self.nodes},
            pods=None if isinstance(capacity.pods, Gap) else capacity.pods,
            quotas=None if isinstance(capacity.quotas, Gap) else capacity.quotas,
            config=self.config,
            now=self.now,
            policy=flags.get("gpu-scheduler-policy") or fit.DEFAULT_POLICY,
            node_selector=flags.get("node-label-selector", "").strip("[]"),
        )

    @cached_property
    def versions(self) -> Sequence[Version]:
        """HAMi's version, or all versions that it may be."""
        version = self.install.version
        return versions_to_try(version.version if version else None, list(self.facts.nodes.values()))

    @cached_property
    def views(self) -> list[View]:
        """The cluster as each possible version sees it, with every holder counted."""
        return [View(self.facts, version, self._stock(terms(self.facts, version))) for version in self.versions]

    @property
    def runs(self) -> int:
        """How often HAMi's filter was run on a node for these views, for this question and earlier ones."""
        return sum(view.runs for view in self.views)

    def _stock(self, of: Terms) -> Stock:
        """What earlier questions worked out, where the cluster keeps it for us."""
        kept = self._kept
        stock = kept.setdefault(of, Stock(of))
        if len(kept) > _MOST_KEPT:
            kept.clear()
        return stock

    @cached_property
    def _kept(self) -> Kept:
        return {} if self.capacity.kept is None else self.capacity.kept

    @cached_property
    def shapes(self) -> list[tuple[Version, str, Registration]]:
        """One node of each kind that differs in its GPUs' types and sizes, as each version reads it. Empty if the GPUs
        of half the nodes that should have some cannot be read.
        """
        found: dict[object, tuple[Version, str, Registration]] = {}
        expected = unread = 0
        for view in self.views:
            names, known = sorted(self.facts.nodes), set[int]()
            for name, seen in zip(names, view.stocks_of(names), strict=True):
                if seen.shape is not None and seen.shape in known:
                    expected += view is self.views[-1]
                    continue
                registered = view.registration(name)
                cards = registered.registration if isinstance(registered, Unregistered) else registered
                if cards is not None:
                    found.setdefault((view.version, sizes(cards)), (view.version, name, cards))
                if seen.shape is not None:
                    known.add(seen.shape)
                if view is self.views[-1] and wants_own_plugin(self.facts.nodes[name], self.config):
                    expected, unread = expected + 1, unread + (cards is None)
        return [] if unread and 2 * unread >= expected else list(found.values())


class OfCluster(Remembering, frozen=True, dict=True, eq=False):
    """A scene of something in a cluster, which has that cluster's scene."""

    cluster: ClusterScene

    @property
    def install(self) -> Install:
        return self.cluster.install

    @property
    def config(self) -> DeviceConfig:
        return self.cluster.config

    @property
    def now(self) -> datetime:
        return self.cluster.now

    def was_read(self, source: str) -> bool:
        return self.cluster.was_read(source)


def what_was_read(some: Sequence[T] | Gap) -> Sequence[T]:
    """The objects; empty if a gap says that they could not be read."""
    return () if isinstance(some, Gap) else some


class InstallScene(OfInstall, frozen=True, dict=True, eq=False):
    """HAMi's installation with every part of it.

    `held`: the pods that hold GPUs, if its scheduler's count was read. `questioned`: nodes whose device plugin is down,
    or hands out too little, and the DaemonSets with their events if pods of theirs are missing. `clocks` are there if a
    live cluster answered.
    """

    components: Components
    now: datetime
    process: SchedulerProcess = SchedulerProcess()
    held: Sequence[Holder] | Gap = ()
    questioned: NodesInQuestion = NodesInQuestion({})
    clocks: Clocks | None = None
    undecodable: tuple[str, ...] = ()

    @property
    def webhook(self) -> WebhookSeen:
        return self.components.webhook

    @property
    def nodes(self) -> Sequence[Node]:
        return what_was_read(self.components.nodes)

    @property
    def plugins(self) -> Sequence[Workload]:
        """The device plugin's DaemonSets; empty also if they could not be read."""
        return what_was_read(self.components.plugins)

    @property
    def plugin_pods(self) -> Sequence[Pod]:
        return what_was_read(self.components.plugin_pods)

    @property
    def slices(self) -> Sequence[ResourceSlice] | Gap:
        """The devices that DRA drivers offer, or the gap."""
        return self.components.slices

    @property
    def unread(self) -> list[Gap]:
        """The gaps about the objects of the installation."""
        return [*self.seen.gaps, *self.components.gaps, *self.questioned.gaps]

    def was_read(self, source: str) -> bool:
        return all(gap.source != source for gap in (*self.seen.gaps, *self.components.gaps))
