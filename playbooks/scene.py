"""What was read about one question, whole, with what follows from it: all that a rule may look at.

A scene is made once, by `gather`, and never changed. What is worked out of it is worked out when the first rule asks,
and kept for the others.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any, NamedTuple, Protocol, Self, TypeVar, cast

import msgspec
from msgspec import structs

from bot.hami.fit import verdicts as fit
from bot.hami.fit.cluster_view import Facts, View, terms, versions_to_try
from bot.hami.fit.node_cache import Stock, sizes
from bot.hami.fit.verdicts import Verdict
from bot.hami.installation.install import Install
from bot.hami.nodes.cards import Card
from bot.hami.nodes.node_state import Terms, is_for, read_registrations, wants_own_plugin
from bot.hami.nodes.registration import Registration, Unregistered
from bot.hami.pods.pod_request import PodRequest, Resources
from bot.hami.pods.request_parsing import DeviceConfig, asked_resources, pod_request
from bot.hami.scheduler_logs.log_lines import LogLine
from bot.hami.vendors import FIRST, called_together
from bot.hami.vendors.vendor import Device
from bot.hami.version import Version
from bot.kube.cluster import Clocks
from bot.kube.models import Event, Holder, Node, Pod, ResourceQuota, ResourceSlice, Workload
from bot.kube.node_filter import NodeFilter, Obstacle
from bot.kube.object_memo import Kept
from bot.kube.times import parse_time
from bot.report import Evidence, Gap
from bot.texts import Text
from playbooks.attempt import Attempt, last_attempt
from playbooks.gather.components import Components
from playbooks.gather.dra import ClaimsSeen
from playbooks.gather.node_side import LogSeen, NodeSide, PluginSets
from playbooks.gather.nodes_in_question import NodesInQuestion
from playbooks.gather.scheduler_process import SchedulerProcess
from playbooks.gather.scheduling import Capacity, InstallSeen
from playbooks.gather.subject import AbsentPod, SubjectRequest
from playbooks.gather.usage import MeasuredNodes
from playbooks.gather.volcano_plugins import VolcanoPluginsSeen
from playbooks.gather.webhook import WebhookSeen
from playbooks.rule import Scene

T = TypeVar("T")

Named = tuple[str, str]
"""Namespace and name of a pod."""

_ALL_BUT_SIZE = frozenset(
    {
        fit.NOT_HEALTHY,
        fit.CORDONED,
        fit.TYPE_MISMATCH,
        fit.UUID_MISMATCH,
        fit.NUMA_NOT_FIT,
        fit.QUOTA_NOT_FIT,
        fit.MIG_INFEASIBLE,
        fit.MODE_NOT_FIT,
    }
)


_MOST_KEPT = 16
"""A stock for each version that is possible, again after an upgrade, and what else is kept of the objects."""


class Messages(NamedTuple):
    """What schedulers said, by pod."""

    events: Mapping[Named, Sequence[Event]] = {}
    lines: Mapping[Named, Sequence[tuple[Pod, LogLine]]] = {}
    gaps: tuple[Gap, ...] = ()


class WebhookScene(Protocol):
    """Where HAMi's webhook may have been read."""

    @property
    def install(self) -> Install: ...
    @property
    def webhook(self) -> WebhookSeen | None: ...
    @property
    def now(self) -> datetime: ...


class HamiScene(WebhookScene, Scene, Protocol):
    """What is read of HAMi itself, whether somebody asks about it or about a pod that waits for it."""

    @property
    def seen(self) -> InstallSeen: ...
    @property
    def process(self) -> SchedulerProcess: ...


class ClusterScene(msgspec.Struct, frozen=True, dict=True, eq=False):
    """The cluster as HAMi sees it, for any number of pods: under its version, or every fitting one when unknown.

    Beside what every question reads, what bears on pods that wait: `process` of HAMi's scheduler, the owners of node
    locks (None = read, and not there), the nodes that seem to hand out too little, and the webhook where a pod went
    past HAMi. `slices`: what DRA drivers offer, where that is asked about.
    """

    seen: InstallSeen
    capacity: Capacity
    now: datetime
    messages: Messages = Messages()
    lock_owners: Mapping[Named, Pod | Gap | None] = msgspec.field(default_factory=dict[Named, "Pod | Gap | None"])
    questioned: NodesInQuestion = NodesInQuestion({})
    process: SchedulerProcess = SchedulerProcess()
    webhook: WebhookSeen | None = None
    slices: Sequence[ResourceSlice] | Gap = ()

    @property
    def install(self) -> Install:
        return self.seen.install

    @property
    def config(self) -> DeviceConfig:
        return self.seen.config

    @property
    def nodes(self) -> Sequence[Node]:
        return _read(self.capacity.nodes)

    @property
    def nodes_seen(self) -> bool:
        return not isinstance(self.capacity.nodes, Gap)

    def was_read(self, source: str) -> bool:
        """Whether rules may conclude anything from it."""
        return source != "nodes" or self.nodes_seen

    @cached_property
    def facts(self) -> Facts:
        """What the fit reads."""
        capacity, flags = self.capacity, self.install.flags
        return Facts(
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
        """HAMi's version, or all that it may be."""
        version = self.install.version
        return versions_to_try(version.version if version else None, list(self.facts.nodes.values()))

    @cached_property
    def views(self) -> list[View]:
        """The cluster with every holder counted."""
        return [View(self.facts, version, self._stock(terms(self.facts, version))) for version in self.versions]

    @property
    def runs(self) -> int:
        """How often the filter was run on a node so far, for this question and for earlier ones."""
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
        """One node of each kind that differs in its cards' types and sizes, as each version reads them.

        Empty where the cards of half the nodes that should have some cannot be read.
        """
        found: dict[object, tuple[Version, str, Registration]] = {}
        expected = unread = 0
        for view in self.views:
            names, known = sorted(self.facts.nodes), set[int]()
            for name, seen in zip(names, view.seen(names), strict=True):
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


class _OfOne(msgspec.Struct, frozen=True, dict=True, eq=False):
    """A scene of one subject: what follows from it is worked out once."""

    def once(self, fact: Callable[[Self], T]) -> T:
        """What follows from the scene, worked out when it is first asked for."""
        if fact not in self._facts:
            self._facts[fact] = fact(self)
        return cast("T", self._facts[fact])

    @cached_property
    def _facts(self) -> dict[Callable[[Self], Any], Any]:
        return {}


class PodScene(_OfOne, frozen=True, dict=True, eq=False):
    """One pod that waits for a node, in its cluster.

    `claims` are read where it asks for devices through ResourceClaims, `group_events` where Volcano names a PodGroup,
    `volcano_plugins` where it asks for Volcano's vGPUs, and `usage` on the nodes where somebody may hold GPUs without
    using them. `advises`: with what would make it fit.
    """

    pod: Pod
    cluster: ClusterScene
    claims: ClaimsSeen | None = None
    group_events: Sequence[Event] | Gap = ()
    volcano_plugins: VolcanoPluginsSeen = VolcanoPluginsSeen()
    usage: MeasuredNodes | None = None
    advises: bool = True

    def twin(self, pod: Pod, attempt: Attempt) -> Self:
        """The scene of a pod that is alike (`grouping.request_key`): how it fits was worked out for this one."""
        requests = [request._replace(name=pod.name, uid=pod.metadata.uid) for request in self.requests]
        return self._with({"attempt": attempt, "requests": requests}, pod=pod)

    def measured(self, usage: MeasuredNodes) -> Self:
        """The same scene, with the usage that was read once it was known of which nodes."""
        return self._with({}, usage=usage)

    def _with(self, known: Mapping[str, Any], **fields: Any) -> Self:
        """The scene with other fields, and what was worked out of this one but for the rules' facts."""
        other = structs.replace(self, **fields)
        vars(other).update({name: value for name, value in vars(self).items() if name != "_facts"}, **known)
        return other

    @cached_property
    def attempt(self) -> Attempt:
        """What the schedulers said last of this pod; log lines about an earlier pod of the same name do not count."""
        name, messages = (self.pod.namespace, self.pod.name), self.cluster.messages
        created, lines = parse_time(self.pod.metadata.creation_timestamp), messages.lines.get(name, ())
        own = [line for line in lines if created is None or line[1].at is None or line[1].at >= created]
        return last_attempt(self.pod, messages.events.get(name, ()), own)

    @property
    def seen(self) -> InstallSeen:
        return self.cluster.seen

    @property
    def install(self) -> Install:
        return self.cluster.install

    @property
    def process(self) -> SchedulerProcess:
        return self.cluster.process

    @property
    def webhook(self) -> WebhookSeen | None:
        return self.cluster.webhook

    @property
    def config(self) -> DeviceConfig:
        return self.cluster.config

    @property
    def now(self) -> datetime:
        return self.cluster.now

    @property
    def nodes(self) -> Mapping[str, Node]:
        return self.cluster.facts.nodes

    @property
    def nodes_seen(self) -> bool:
        return self.cluster.nodes_seen

    def was_read(self, source: str) -> bool:
        """Whether rules may conclude anything from it."""
        return self.cluster.was_read(source)

    @property
    def asked(self) -> dict[str, str]:
        """The amounts of HAMi's resources that it asks for, as written."""
        return asked_resources(self.pod, self.config)

    @property
    def plugins(self) -> Mapping[str, Sequence[Pod] | Gap]:
        """The pods of the device plugin of what the pod asks for, by node; of the nodes in question."""
        return self.cluster.questioned.plugins_of(self.device.vendor)

    @property
    def words(self) -> list[Evidence]:
        """What the schedulers said last."""
        return [self.attempt.evidence] if self.attempt.evidence else []

    @cached_property
    def views(self) -> list[View]:
        """The cluster as each version reads it, the pod's own reservation forgotten: so its own filter run sees it."""
        return [view.forgetting(self.pod.metadata.uid) for view in self.cluster.views]

    @cached_property
    def requests(self) -> list[PodRequest]:
        """What it asks for, as each version reads it."""
        return [pod_request(self.pod, self.config, version) for version in self.cluster.versions]

    @property
    def version(self) -> Version | None:
        """HAMi's version, None when it could not be told."""
        return self.install.version.version if self.install.version else None

    @property
    def view(self) -> View:
        """The view to quote figures from: the only one when the version is known, else the newest."""
        return self.views[-1]

    @property
    def request(self) -> PodRequest:
        return self.requests[-1]

    @property
    def device(self) -> Device:
        """What the pod asks for, of several the first; the first vendor's where it asks for none."""
        asked, config = self.request.containers, self.config
        return config.by_word[asked[0].word] if asked else config.devices[0]

    @property
    def noun(self) -> str:
        """What its devices are called together; GPU where it asks for none."""
        return called_together(self.config.by_word[asked.word].names.noun for asked in self.request.containers)

    @property
    def gpus(self) -> Resources:
        """The resources of what the pod asks for."""
        return self.device.resources

    @property
    def quotas(self) -> Iterable[ResourceQuota]:
        """Those that were read, of this and maybe of other namespaces."""
        return self.view.facts.quotas or ()

    @cached_property
    def obstacles(self) -> dict[str, Obstacle]:
        """The nodes that kube-scheduler itself drops, as far as objects alone tell."""
        obstacle, found = NodeFilter(self.pod).obstacle, dict[str, Obstacle]()
        for name in sorted(self.nodes):
            if (blocking := obstacle(self.nodes[name])) is not None:
                found[name] = blocking
        return found

    @cached_property
    def candidates(self) -> list[str]:
        """The nodes that HAMi is asked about, sorted."""
        obstacles = self.obstacles
        return [name for name in sorted(self.nodes) if name not in obstacles]

    @cached_property
    def verdicts(self) -> dict[str, Verdict]:
        """The fit of every candidate."""
        return self.judge_each(self.candidates)

    @cached_property
    def by_verdict(self) -> list[tuple[Verdict, list[str]]]:
        """The verdicts with the candidates of each. Nodes that are alike share one; equal ones may recur."""
        found: dict[int, tuple[Verdict, list[str]]] = {}
        for name, verdict in self.verdicts.items():
            known = found.get(id(verdict))
            if known is None:
                found[id(verdict)] = verdict, [name]
            else:
                known[1].append(name)
        return list(found.values())

    @cached_property
    def takers(self) -> list[str]:
        """The nodes that HAMi alone would give the pod, whatever kube-scheduler says of them."""
        return [name for name, verdict in self.judge_each(sorted(self.nodes)).items() if verdict.fits]

    @cached_property
    def fitting(self) -> list[str]:
        """The candidates that would take the pod now."""
        return [name for name, verdict in self.verdicts.items() if verdict.fits]

    def judge(self, name: str, relax: frozenset[str] = frozenset()) -> Verdict:
        """The verdict on a node; unknown where the versions that it could be do not agree."""
        return self.judge_each([name], relax)[name]

    def judge_each(self, names: Sequence[str], relax: frozenset[str] = frozenset()) -> dict[str, Verdict]:
        """The same of several nodes."""
        by_version = [
            view.judge_each(names, request, relax) for view, request in zip(self.views, self.requests, strict=True)
        ]
        return by_version[0] if len(by_version) == 1 else {name: _agreed(by_version, name) for name in names}

    def if_registered(self, name: str) -> Verdict:
        """The verdict on an unregistered node if its cards were taken in; unknown when they cannot be read."""
        state = self.view.state(name)
        if not isinstance(state, Unregistered) or state.registration is None:
            return Verdict(fits=None)
        return self.view.run(self.view.cards_of(name, state.registration), self.request)

    def expects_gpus(self, name: str) -> bool:
        node, device = self.nodes[name], self.device
        return wants_own_plugin(node, self.config) if device.vendor is FIRST else is_for(node, device)

    def is_asked_for(self, card: Card) -> bool:
        """Whether the card is of a device that the pod asks for: HAMi looks for the device's word in its type."""
        return any(card.is_of(asked.word) for asked in self.request.containers)

    @cached_property
    def devices_are_there(self) -> bool:
        """Whether some candidate has, or should have, what the pod asks for: nodes of other vendors are no matter."""
        return any(map(self.expects_gpus, self.candidates))

    @cached_property
    def _are_unread(self) -> bool:
        """Whether half the nodes that should have the other vendor's devices that the pod asks for register none."""
        if self.device.vendor is FIRST:
            return False
        meant = [name for name in self.nodes if self.expects_gpus(name)]
        unread = [name for name in meant if not any(self.is_asked_for(card.card) for card in self.view.cards(name))]
        return bool(meant) and 2 * len(unread) >= len(meant)

    @property
    def too_large(self) -> bool:
        """Whether no registered node of the cluster could take the pod even empty, whatever cards it names.

        Never where the cards of half the nodes that should have some are unseen.
        """
        return bool(self.refusals_when_empty)

    @cached_property
    def refusals_when_empty(self) -> Mapping[str, Verdict]:
        """Where the pod is too large: what HAMi would say of one empty node of each kind. Else nothing."""
        if self._are_unread:
            return {}
        by_version = {view.version: (view, request) for view, request in zip(self.views, self.requests, strict=True)}
        found: dict[str, Verdict] = {}
        for version, name, cards in self.cluster.shapes:
            view, request = by_version[version]
            verdict = view.run(view.cards_of(name, cards, empty=True), request, _ALL_BUT_SIZE)
            if verdict.fits is not False:
                return {}
            found[name] = verdict
        return found


class PlacedScene(_OfOne, frozen=True, dict=True, eq=False):
    """One pod that has its node, or has ended.

    `seen` and what follows are read where it asks for devices and has not ended well: HAMi's install, the GPU side of
    its node, and the newest lines of its own GPU containers (`own_logs`; None where the settings do not allow to read
    them). `plugin_sets` are read where the node has no device plugin, `webhook` and `owner`, what made the pod, where
    it went past HAMi.
    """

    pod: Pod
    events_read: Sequence[Event] | Gap
    now: datetime
    seen: InstallSeen | None = None
    side: NodeSide | None = None
    own_logs: Sequence[LogSeen] | None = None
    own_log_gaps: Sequence[Gap] = ()
    """What could not be read of them is a gap only where it would have told something."""
    plugin_sets: PluginSets | None = None
    webhook: WebhookSeen | None = None
    owner: Workload | Gap | None = None

    @property
    def gaps(self) -> list[Gap]:
        parts = (self.seen, self.side, self.plugin_sets, self.webhook)
        read = (gap for part in parts if part for gap in part.gaps)
        return [gap for gap in (self.events_read, *read, self.owner) if isinstance(gap, Gap)]

    def was_read(self, source: str) -> bool:
        """Whether rules may conclude anything from it: HAMi's `install`, or the pod's `node`."""
        return self.node is not None if source == "node" else self.seen is not None

    @cached_property
    def events(self) -> list[Event]:
        """What was said of this pod, and of no earlier one of its name."""
        read, uids = () if isinstance(self.events_read, Gap) else self.events_read, ("", self.pod.metadata.uid)
        return [event for event in read if event.involved_object.uid in uids and event.message.strip()]

    @property
    def install(self) -> Install:
        """HAMi's, empty where it was not read."""
        return self.seen.install if self.seen else Install()

    @property
    def version(self) -> Version | None:
        """HAMi's version, None when it could not be told."""
        return self.install.version.version if self.install.version else None

    @property
    def config(self) -> DeviceConfig:
        return self.seen.config if self.seen else DeviceConfig()

    @property
    def node(self) -> Node | None:
        """The pod's node, None where it was not read."""
        return None if self.side is None or isinstance(self.side.node, Gap) else self.side.node

    @property
    def nodes(self) -> Mapping[str, Node]:
        return {self.node.name: self.node} if self.node else {}

    @property
    def plugins(self) -> Sequence[Pod]:
        """The pods of HAMi's own device plugin on the node; empty also where pods were not read."""
        return self.side.plugin_pods if self.side else ()

    @cached_property
    def cards(self) -> list[Card]:
        """The node's cards; empty also where the node was not read."""
        read = read_registrations(self.node) if self.node else ()
        return [card for registered in read if isinstance(registered, Registration) for card in registered.cards]


class AbsentScene(_OfOne, frozen=True, dict=True, eq=False):
    """A pod that was asked about and cannot be looked at: there is none, or (a gap) it could not be read.

    `events_read` are those of its name. `seen` and `webhook` are read where HAMi's webhook kept it from being created
    because nobody answered.
    """

    wanted: SubjectRequest
    absent: AbsentPod | Gap
    events_read: Sequence[Event] | Gap
    now: datetime
    seen: InstallSeen | None = None
    webhook: WebhookSeen | None = None

    @property
    def gaps(self) -> list[Gap]:
        parts = (None if isinstance(self.absent, Gap) else self.absent, self.seen, self.webhook)
        read = (gap for part in parts if part for gap in part.gaps)
        return [gap for gap in (self.absent, self.events_read, *read) if isinstance(gap, Gap)]

    def was_read(self, source: str) -> bool:
        """Whether rules may conclude anything from it: that the pod is `absent`."""
        return source != "absent" or not isinstance(self.absent, Gap)

    @property
    def refusals(self) -> Sequence[Event]:
        """Why its owner could not create it."""
        return () if isinstance(self.absent, Gap) else self.absent.refusals

    @property
    def events(self) -> Sequence[Event]:
        return () if isinstance(self.events_read, Gap) else self.events_read

    @property
    def install(self) -> Install:
        """HAMi's, empty where it was not read."""
        return self.seen.install if self.seen else Install()

    @property
    def nodes(self) -> Mapping[str, Node]:
        """None: a pod that is not there has no node."""
        return {}


class InstallScene(msgspec.Struct, frozen=True, dict=True, eq=False):
    """HAMi's installation with every part of it.

    `held`: the pods that hold GPUs, where its scheduler's count was read. `questioned`: nodes whose device plugin is
    down, or hands out too little, and the DaemonSets with their events where pods of theirs are missing. `clocks` are
    there where a live cluster answered.
    """

    seen: InstallSeen
    components: Components
    now: datetime
    process: SchedulerProcess = SchedulerProcess()
    held: Sequence[Holder] | Gap = ()
    questioned: NodesInQuestion = NodesInQuestion({})
    clocks: Clocks | None = None
    undecodable: tuple[str, ...] = ()

    @property
    def install(self) -> Install:
        return self.seen.install

    @property
    def config(self) -> DeviceConfig:
        return self.seen.config

    @property
    def version(self) -> Version | None:
        """HAMi's version, None when it could not be told."""
        return self.install.version.version if self.install.version else None

    @property
    def webhook(self) -> WebhookSeen:
        return self.components.webhook

    @property
    def nodes(self) -> Sequence[Node]:
        return _read(self.components.nodes)

    @property
    def plugins(self) -> Sequence[Workload]:
        """The device plugin's DaemonSets."""
        return _read(self.components.plugins)

    @property
    def plugin_pods(self) -> Sequence[Pod]:
        return _read(self.components.plugin_pods)

    @property
    def slices(self) -> Sequence[ResourceSlice] | Gap:
        """What DRA drivers offer."""
        return self.components.slices

    @property
    def unread(self) -> list[Gap]:
        """What could not be read of its objects."""
        return [*self.seen.gaps, *self.components.gaps, *self.questioned.gaps]

    def was_read(self, source: str) -> bool:
        """Whether rules may conclude anything from it: a source is named as its gap would be."""
        return all(gap.source != source for gap in (*self.seen.gaps, *self.components.gaps))


def _read(some: Sequence[T] | Gap) -> Sequence[T]:
    return () if isinstance(some, Gap) else some


def _agreed(by_version: Sequence[Mapping[str, Verdict]], name: str) -> Verdict:
    verdicts = [by_node[name] for by_node in by_version]
    if len({(verdict.fits, frozenset(verdict.codes)) for verdict in verdicts}) > 1:
        return Verdict(fits=None, unknown=Text("error-hami.versions-differ"))
    return verdicts[-1]
