"""One unscheduled pod and everything seen that bears on it, with the verdicts that follow: what rules read."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import cached_property

from bot.hami import fit
from bot.hami.fit import Verdict
from bot.hami.install import Install
from bot.hami.nodestate import Unregistered, expects_gpus
from bot.hami.requests import DeviceConfig, PodRequest, pod_request
from bot.hami.version import Version
from bot.hami.view import Facts, View, versions_to_try
from bot.kube.models import Node, Pod, ResourceQuota
from bot.kube.nodefilter import Obstacle, obstacle
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


class Case:
    """The pod against the cluster, under HAMi's version; under every fitting version when that is unknown."""

    def __init__(self, pod: Pod, capacity: Capacity, install: Install, config: DeviceConfig, facts_now: Facts) -> None:
        self.pod = pod
        self.install = install
        self.config = config
        self.now = facts_now.now
        self.nodes = facts_now.nodes
        self.nodes_seen = not isinstance(capacity.nodes, Gap)
        version = install.version.version if install.version else None
        self.versions = versions_to_try(version, self.nodes.values())
        self.views = [View(facts_now, one, forget_uid=pod.metadata.uid) for one in self.versions]
        self.requests = [pod_request(pod, config, one) for one in self.versions]

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
        found = ((name, obstacle(self.pod, node)) for name, node in sorted(self.nodes.items()))
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
    def fitting(self) -> list[str]:
        """The candidates that would take the pod now."""
        return [name for name, verdict in self.verdicts.items() if verdict.fits]

    def judge(self, name: str, relax: frozenset[str] = frozenset()) -> Verdict:
        """The verdict on a node; unknown where the versions that it could be do not agree."""
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
    def too_large(self) -> bool:
        """Whether no registered node of the cluster could take the pod even empty, whatever cards it names."""
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


def make_case(
    pod: Pod, capacity: Capacity, install: Install, config: DeviceConfig, now: datetime
) -> Case:
    """A case from what was gathered."""
    nodes: Sequence[Node] = () if isinstance(capacity.nodes, Gap) else capacity.nodes
    pods: Iterable[Pod] | None = None if isinstance(capacity.pods, Gap) else capacity.pods
    quotas: Iterable[ResourceQuota] | None = None if isinstance(capacity.quotas, Gap) else capacity.quotas
    selector = install.flags.get("node-label-selector", "").strip("[]")
    facts = Facts(
        nodes={node.name: node for node in nodes},
        pods=pods,
        quotas=quotas,
        config=config,
        now=now,
        policy=install.flags.get("gpu-scheduler-policy") or fit.DEFAULT_POLICY,
        node_selector=selector,
    )
    return Case(pod, capacity, install, config, facts)
