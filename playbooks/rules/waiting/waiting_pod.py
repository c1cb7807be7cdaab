"""One unscheduled pod and everything seen that bears on it, with the verdicts that follow: what rules read."""

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from datetime import datetime
from functools import cached_property

from bot.hami.fit import verdicts as fit
from bot.hami.fit.cluster_view import Facts, View, terms, versions_to_try
from bot.hami.fit.node_cache import Stock, sizes
from bot.hami.fit.verdicts import Verdict
from bot.hami.installation.install import Install
from bot.hami.nodes.cards import Card
from bot.hami.nodes.node_state import Terms, is_for, wants_own_plugin
from bot.hami.nodes.registration import Registration, Unregistered
from bot.hami.pods.pod_request import PodRequest, Resources
from bot.hami.pods.request_parsing import DeviceConfig, pod_request
from bot.hami.vendors import FIRST, called_together
from bot.hami.vendors.vendor import Device
from bot.hami.version import Version
from bot.kube.models import Node, Pod, ResourceQuota
from bot.kube.node_filter import NodeFilter, Obstacle
from bot.kube.object_memo import Kept
from bot.report import Gap
from playbooks.gather.scheduling import Capacity

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


class World:
    """The cluster as HAMi sees it, for any number of pods: under its version, or every fitting one when unknown."""

    def __init__(self, capacity: Capacity, install: Install, config: DeviceConfig, now: datetime) -> None:
        nodes: Sequence[Node] = () if isinstance(capacity.nodes, Gap) else capacity.nodes
        self.install = install
        self.config = config
        self.nodes_seen = not isinstance(capacity.nodes, Gap)
        self.facts = Facts(
            nodes={node.name: node for node in nodes},
            pods=None if isinstance(capacity.pods, Gap) else capacity.pods,
            quotas=None if isinstance(capacity.quotas, Gap) else capacity.quotas,
            config=config,
            now=now,
            policy=install.flags.get("gpu-scheduler-policy") or fit.DEFAULT_POLICY,
            node_selector=install.flags.get("node-label-selector", "").strip("[]"),
        )
        self.versions = versions_to_try(install.version.version if install.version else None, nodes)
        self._kept: Kept = {} if capacity.kept is None else capacity.kept

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
        stock = self._kept.setdefault(of, Stock(of))
        if len(self._kept) > _MOST_KEPT:
            self._kept.clear()
        return stock

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

    def views_without(self, uid: str) -> list[View]:
        """The same, with one pod's own reservation forgotten: that is how its own filter run sees it."""
        return [view.forgetting(uid) for view in self.views]


class Case:
    """One pod against the cluster."""

    def __init__(self, pod: Pod, world: World) -> None:
        self.pod = pod
        self._world = world
        self.install = world.install
        self.config = world.config
        self.now = world.facts.now
        self.nodes = world.facts.nodes
        self.nodes_seen = world.nodes_seen
        self.views = world.views_without(pod.metadata.uid)
        self.requests = [pod_request(pod, world.config, version) for version in world.versions]

    def twin(self, pod: Pod) -> "Case":
        """The case of a pod that is alike (`grouping.request_key`): what was worked out for this one holds for it."""
        other = copy(self)
        other.pod = pod
        other.requests = [request._replace(name=pod.name, uid=pod.metadata.uid) for request in self.requests]
        return other

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
        for version, name, cards in self._world.shapes:
            view, request = by_version[version]
            verdict = view.run(view.cards_of(name, cards, empty=True), request, _ALL_BUT_SIZE)
            if verdict.fits is not False:
                return {}
            found[name] = verdict
        return found


def _agreed(by_version: Sequence[Mapping[str, Verdict]], name: str) -> Verdict:
    verdicts = [by_node[name] for by_node in by_version]
    if len({(verdict.fits, frozenset(verdict.codes)) for verdict in verdicts}) > 1:
        return Verdict(fits=None, unknown="HAMi's version is unknown, and its versions judge this node differently")
    return verdicts[-1]
