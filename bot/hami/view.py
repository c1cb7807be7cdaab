"""One cluster as one HAMi version sees it: what every question about capacity is answered from.

Pure and lazy: a node's cards are only read when something asks about that node.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import NamedTuple

from bot.hami import fit
from bot.hami.fit import NodeCards, QuotaRoom, Verdict
from bot.hami.inventory import CardState, take_stock
from bot.hami.ledger import Ledger, build_ledger
from bot.hami.nodestate import SCORE_KEY, Unregistered, cordoned_uuids, nvidia_cards, read_link_scores
from bot.hami.registration import Registration
from bot.hami.requests import DeviceConfig, PodRequest
from bot.hami.rules import rules_of
from bot.hami.version import Version
from bot.kube.models import Node, Pod, ResourceQuota
from bot.kube.quantities import whole
from bot.kube.selectors import label_matcher

_UNKNOWN_VERSIONS = tuple(
    Version(2, minor, patch) for minor, patch in ((5, 1), (6, 1), (7, 1), (8, 1), (9, 0), (10, 0))
)


class Facts(NamedTuple):
    """What was read; None where it could not be."""

    nodes: Mapping[str, Node]
    pods: Iterable[Pod] | None
    quotas: Iterable[ResourceQuota] | None
    config: DeviceConfig
    now: datetime
    policy: str = fit.DEFAULT_POLICY
    node_selector: str = ""


class View:
    """The cluster under one version's rules. `forget_uid` is the pod judged: its own reservation does not count."""

    def __init__(self, facts: Facts, version: Version, *, forget_uid: str = "") -> None:
        self.facts = facts
        self.version = version
        self.rules = rules_of(version)
        self.ledger: Ledger | None = (
            None if facts.pods is None else build_ledger(facts.pods, version, forget_uid=forget_uid)
        )
        self._states: dict[str, NodeCards | Unregistered] = {}
        self._selects = label_matcher(facts.node_selector)

    def registration(self, name: str) -> Registration | Unregistered:
        """The node's NVIDIA cards as registered, or why the scheduler has none."""
        node = self.facts.nodes[name]
        if not self._selects(node.metadata.labels):
            return Unregistered("absent", "--node-label-selector", self.facts.node_selector)
        return nvidia_cards(node, self.version, self.facts.now, count_resource=self.facts.config.count)

    def state(self, name: str) -> NodeCards | Unregistered:
        """The node's cards with what they have given away. Needs the pods: without them the ledger counts nothing."""
        if name not in self._states:
            registration = self.registration(name)
            self._states[name] = (
                registration if isinstance(registration, Unregistered) else self.cards_of(name, registration)
            )
        return self._states[name]

    def cards_of(self, name: str, registration: Registration, *, empty: bool = False) -> NodeCards:
        """The cards of a registration, with or without what the ledger says is used of them."""
        node = self.facts.nodes[name]
        holdings = self.ledger.on(name) if self.ledger and not empty else ()
        scores = node.metadata.annotation(SCORE_KEY)
        return NodeCards(
            take_stock(registration.cards, holdings, self.rules),
            cordoned_uuids(node) if self.rules.modern else frozenset(),
            read_link_scores(scores) if scores else None,
        )

    def judge(self, name: str, request: PodRequest, relax: frozenset[str] = frozenset()) -> Verdict:
        """The filter's verdict on one node; `fits` None where something that decides was not seen."""
        if not request.containers:
            return fit.FITS
        state = self.state(name)
        if isinstance(state, Unregistered):
            return fit.UNREGISTERED
        if self.ledger is None:
            return Verdict(fits=None, unknown="the pods that hold its cards were not seen")
        verdict = self.run(state, request, relax)
        if self.rules.quota != "none" and self.facts.quotas is None and fit.QUOTA_NOT_FIT not in relax:
            return _without_quota(verdict)
        return verdict

    def run(self, cards: NodeCards, request: PodRequest, relax: frozenset[str] = frozenset()) -> Verdict:
        """The filter on any set of cards, under this cluster's quota and policy."""
        quota = self.quota_room(request.namespace)
        return fit.judge(cards, request, self.rules, quota=quota, default_policy=self.facts.policy, relax=relax)

    def fits_empty(self, name: str, request: PodRequest, relax: frozenset[str] = frozenset()) -> bool | None:
        """Whether the node would take the pod if nothing were used of it; None when unregistered or unknown."""
        registration = self.registration(name)
        if isinstance(registration, Unregistered):
            return None
        return self.run(self.cards_of(name, registration, empty=True), request, relax).fits

    def quota_room(self, namespace: str) -> QuotaRoom | None:
        """The limits.* quota of the namespace with what it uses; None when none names a HAMi resource."""
        config, limits = self.facts.config, dict[str, int]()
        for quota in self.facts.quotas or ():
            for key in (config.memory, config.cores):
                limit = whole((quota.spec.hard or {}).get(f"limits.{key}"))
                if quota.namespace == namespace and limit is not None:
                    limits[key] = limit
        if not limits:
            return None
        memory, cores = self.ledger.by_namespace.get(namespace, (0, 0)) if self.ledger else (0, 0)
        memory_limit = limits.get(config.memory)
        return QuotaRoom(
            memory_limit_mib=None if memory_limit is None else memory_limit * config.memory_factor,
            cores_limit=limits.get(config.cores),
            memory_used_mib=memory,
            cores_used=cores,
        )

    def cards(self, name: str) -> list[CardState]:
        """The node's cards, none when it is unregistered."""
        state = self.state(name)
        return [] if isinstance(state, Unregistered) else list(state.cards)


_AFTER_QUOTA = frozenset(
    {
        fit.INSUFFICIENT_MEMORY,
        fit.INSUFFICIENT_CORE,
        fit.EXCLUSIVE_CONFLICT,
        fit.COMPUTE_UNITS_EXHAUSTED,
        fit.MIG_INFEASIBLE,
        fit.ALLOCATED_INSUFFICIENT,
    }
)


def _without_quota(verdict: Verdict) -> Verdict:
    """An unseen quota may refuse what fits, and comes before these checks: what is left of the verdict."""
    if verdict.fits is False and not _AFTER_QUOTA & set(verdict.codes):
        return verdict
    return Verdict(fits=None, unknown="the namespace's quota was not seen")


def versions_to_try(version: Version | None, nodes: Iterable[Node]) -> tuple[Version, ...]:
    """The known version, else every generation whose format some node's registration is written in."""
    if version is not None:
        return (version,)
    texts = {bool(text and text.lstrip()[:1] == "[") for text in map(_register_text, nodes) if text}
    fitting = [one for one in _UNKNOWN_VERSIONS if not texts or (one >= (2, 8)) in texts]
    return tuple(fitting)


def _register_text(node: Node) -> str | None:
    return node.metadata.annotation("hami.io/node-nvidia-register")
