"""One unscheduled pod and everything seen that bears on it, with the verdicts that follow: what rules read."""

from collections.abc import Sequence
from datetime import datetime
from functools import cached_property

from bot.hami import fit
from bot.hami.fit import Verdict
from bot.hami.install import Install
from bot.hami.nodestate import Unregistered, expects_gpus
from bot.hami.requests import DeviceConfig, PodRequest, pod_request
from bot.hami.version import Version
from bot.hami.view import Facts, View, versions_to_try
from bot.kube.models import Node, Pod
from bot.kube.nodefilter import NodeFilter, Obstacle
from bot.report import Gap
from playbooks._gather import Capacity

_ALL_BUT_SIZE = frozenset(
    {
        fit.NOT_HEALTHY,
        fit.CORDONED,
        fit.TYPE_MISMATCH,
        fit.UUID_MISMATCH,
        fit.NUMA_NOT_FIT,
        fit.QUOTA_NOT_FIT,
        fit.MIG_INFEASIBLE,
    }
)


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
        self._holders = {pod.metadata.uid for pod in self.facts.pods or ()}

    @cached_property
    def views(self) -> list[View]:
        """The cluster with every holder counted."""
        return [View(self.facts, version) for version in self.versions]

    def views_without(self, uid: str) -> list[View]:
        """The same, with one pod's own reservation forgotten: that is how its own filter run sees it."""
        if uid not in self._holders:
            return self.views
        return [View(self.facts, version, forget_uid=uid) for version in self.versions]


class Case:
    """One pod against the cluster."""

    def __init__(self, pod: Pod, world: World) -> None:
        self.pod = pod
        self.install = world.install
        self.config = world.config
        self.now = world.facts.now
        self.nodes = world.facts.nodes
        self.nodes_seen = world.nodes_seen
        self.views = world.views_without(pod.metadata.uid)
        self._judged: dict[tuple[str, frozenset[str]], Verdict] = {}
        self.requests = [pod_request(pod, world.config, version) for version in world.versions]

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

    @cached_property
    def obstacles(self) -> dict[str, Obstacle]:
        """The nodes that kube-scheduler itself drops, as far as objects alone tell."""
        drops = NodeFilter(self.pod)
        found = ((name, drops.obstacle(node)) for name, node in sorted(self.nodes.items()))
        return {name: one for name, one in found if one is not None}

    @cached_property
    def candidates(self) -> list[str]:
        """The nodes that HAMi is asked about, sorted."""
        return [name for name in sorted(self.nodes) if name not in self.obstacles]

    @cached_property
    def verdicts(self) -> dict[str, Verdict]:
        """The fit of every candidate."""
        return {name: self.judge(name) for name in self.candidates}

    @cached_property
    def takers(self) -> list[str]:
        """The nodes that HAMi alone would give the pod, whatever kube-scheduler says of them."""
        return [name for name in sorted(self.nodes) if self.judge(name).fits]

    @cached_property
    def fitting(self) -> list[str]:
        """The candidates that would take the pod now."""
        return [name for name, verdict in self.verdicts.items() if verdict.fits]

    def judge(self, name: str, relax: frozenset[str] = frozenset()) -> Verdict:
        """The verdict on a node; unknown where the versions that it could be do not agree."""
        known = self._judged.get((name, relax))
        if known is None:
            known = self._judged[name, relax] = self._judge(name, relax)
        return known

    def _judge(self, name: str, relax: frozenset[str]) -> Verdict:
        verdicts = [view.judge(name, request, relax) for view, request in zip(self.views, self.requests, strict=True)]
        if len({(one.fits, frozenset(one.codes)) for one in verdicts}) > 1:
            return Verdict(fits=None, unknown="HAMi's version is unknown, and its versions judge this node differently")
        return verdicts[-1]

    def if_registered(self, name: str) -> Verdict:
        """The verdict on an unregistered node if its cards were taken in; unknown when they cannot be read."""
        state = self.view.state(name)
        if not isinstance(state, Unregistered) or state.registration is None:
            return Verdict(fits=None)
        return self.view.run(self.view.cards_of(name, state.registration), self.request)

    def expects_gpus(self, name: str) -> bool:
        return expects_gpus(self.nodes[name], self.config.count)

    @cached_property
    def unseen_gpu_nodes(self) -> list[str]:
        """The nodes that should have cards and whose cards cannot be read."""
        states = ((name, self.view.registration(name)) for name in sorted(self.nodes))
        unread = (name for name, one in states if isinstance(one, Unregistered) and one.registration is None)
        return [name for name in unread if self.expects_gpus(name)]

    @cached_property
    def too_large(self) -> bool:
        """Whether no registered node of the cluster could take the pod even empty, whatever cards it names.

        Never where the cards of half the nodes that should have some are unseen.
        """
        if 2 * len(self.unseen_gpu_nodes) >= sum(1 for name in self.nodes if self.expects_gpus(name)):
            return False
        shapes: set[object] = set()
        for name in sorted(self.nodes):
            for view, request in zip(self.views, self.requests, strict=True):
                registration = view.registration(name)
                cards = registration.registration if isinstance(registration, Unregistered) else registration
                if cards is None:
                    continue
                shape = (view.version, tuple((one.type, one.memory_mib, one.cores, one.slots) for one in cards.cards))
                if shape in shapes:
                    continue
                shapes.add(shape)
                empty = view.cards_of(name, cards, empty=True)
                if view.run(empty, request, _ALL_BUT_SIZE).fits is not False:
                    return False
        return bool(shapes)
