"""What tuning advice is worked out from, read once for every topic. Nodes that are set up alike are a pool."""

import asyncio
import re
from bisect import bisect
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import cached_property, lru_cache
from typing import NamedTuple

import msgspec

from bot.hami.fit.allocated_totals import Ledger, build_ledger
from bot.hami.fit.node_cache import take_stock
from bot.hami.installation.install import Install, flags_of
from bot.hami.metrics.gpu_usage import MeasuredHolding, held_by
from bot.hami.nodes.cards import Card, CardState
from bot.hami.nodes.node_state import memory_factor, read_plugin_settings, registered_cards
from bot.hami.scheduler_logs.log_lines import NEEDLE, ThrottledRequest, read_waits
from bot.hami.scheduler_logs.scheduling_events import REASONS
from bot.hami.vendors import FIRST
from bot.hami.version import NEWEST_READ, rules_of
from bot.kube.cluster import Cluster, seen
from bot.kube.models import NODES, PODS, RESOURCE_QUOTAS, Holder, Node, Pod
from bot.report import Gap, Sheet
from bot.rows import PoolRow
from playbooks.gather.past_days import CoresSeen, gather_cores
from playbooks.gather.scheduler_logs import ExtenderLines, gather_extender_lines
from playbooks.gather.scheduling import (
    Capacity,
    InstallSeen,
    gather_holders,
    gather_install,
    install_unread,
    nothing_read,
    times_shown,
)
from playbooks.gather.usage import Peak, UsageSeen, ask_prometheus, or_measured
from playbooks.playbook import Sources
from playbooks.scenes.cluster import ClusterScene, OfInstall

_POOL_LABEL = re.compile(r"(?:[^/]+/)?(?:(?:gke|gpu|agent|node)[-_]?)*(?:pool|node[-_]?group)(?:[-_]?name)?")
"""The labels of node pools, as karpenter.sh/nodepool, cloud.google.com/gke-nodepool, eks.amazonaws.com/nodegroup."""
_MOST_NAMED = 20
_SIZES_MIB = (2 * 1024, 8 * 1024, 16 * 1024)
"""The bounds of request sizes in the guide's table of split counts, in MiB."""


class Pool(msgspec.Struct, frozen=True, dict=True):
    """Nodes with the same label or GPU model, memory scaling and split count; `scaling` is None if it is not known.
    `by_node` are the GPUs of each node, in the nodes' order; `held` the pods that hold some of them.
    """

    label: str
    scaling: float | None
    splits: int
    nodes: tuple[Node, ...]
    by_node: tuple[tuple[CardState, ...], ...]
    held: tuple[MeasuredHolding, ...]

    @cached_property
    def gpus(self) -> tuple[CardState, ...]:
        """The GPUs of all nodes of the pool."""
        return tuple(state for states in self.by_node for state in states)

    @property
    def object(self) -> str:
        """The pool's name in the table: what the nodes share, and which they are."""
        names = [node.name for node in self.nodes]
        more = f" +{len(names) - _MOST_NAMED}" if len(names) > _MOST_NAMED else ""
        return f"{self.label} {','.join(names[:_MOST_NAMED])}{more}"

    @cached_property
    def smallest_mib(self) -> int:
        """The least memory in MiB that a pod was given of one GPU; 0 if none was given any."""
        given = (share.memory_mib for held in self.held for share in held.shares.values())
        return min((amount for amount in given if amount), default=0)

    def node_of(self, uuid: str) -> Node:
        """The node that has this GPU of the pool."""
        both = zip(self.nodes, self.by_node, strict=True)
        return next(node for node, states in both if any(state.card.uuid == uuid for state in states))


POOLS = Sheet("pools", PoolRow)


def pool_row(pool: Pool) -> PoolRow:
    """The row of a pool: what it has, what was given of it and what is used; known only if measured for all shares."""
    shares = [share.memory_mib for held in pool.held for share in held.shares.values()]
    measured = all(not held.unmeasured and all(use.used for use in held.uses) for held in pool.held)
    used = sum(use.used.value for held in pool.held for use in held.uses if use.used)
    sizes = Counter(min(bisect(_SIZES_MIB, amount), len(_SIZES_MIB)) for amount in shares)
    return PoolRow(
        pool.label,
        len(pool.nodes),
        len(pool.gpus),
        pool.splits,
        sum(state.card.memory_mib for state in pool.gpus),
        sum(shares),
        used_mib=round(used / 2**20) if measured else None,
        below_2_gib=sizes[0],
        from_2_gib=sizes[1],
        from_8_gib=sizes[2],
        from_16_gib=sizes[3],
    )


def pools_of(nodes: Iterable[Node], everyone: Iterable[MeasuredHolding], seen: InstallSeen) -> list[Pool]:
    """The pools in which GPUs are registered, the largest first; `everyone` are all pods that hold GPUs."""
    settings = read_plugin_settings(seen.config_maps)
    version = seen.install.version
    rules = rules_of(version.version if version else NEWEST_READ)
    by_node: dict[str, list[MeasuredHolding]] = defaultdict(list)
    for held in everyone:
        by_node[held.holding.node].append(held)
    grouped: dict[tuple[str, float | None, int], list[tuple[Node, list[CardState]]]] = defaultdict(list)
    for node in nodes:
        if cards := registered_cards(node, (FIRST.names,)):
            key = _label(node, cards[0]), memory_factor(cards[0], node, settings), cards[0].slots
            states = take_stock(cards, (held.holding for held in by_node[node.name]), rules)
            grouped[key].append((node, states))
    pools = [
        Pool(
            *key,
            nodes=tuple(node for node, _ in found),
            by_node=tuple(tuple(states) for _, states in found),
            held=tuple(held for node, _ in found for held in by_node[node.name]),
        )
        for key, found in grouped.items()
    ]
    return sorted(pools, key=lambda pool: -len(pool.gpus))


def _label(node: Node, gpu: Card) -> str:
    keys = [key for key in node.metadata.labels or {} if _names_pool(key) and node.metadata.label(key)]
    key = min(keys, key=lambda key: ("/" not in key, key), default="")
    return f"{key}={node.metadata.label(key)}" if key else gpu.type


@lru_cache(maxsize=4096)
def _names_pool(key: str) -> bool:
    return _POOL_LABEL.fullmatch(key) is not None


_SINCE_S = 3600
_LOCKS = "lock"
_MAY_LACK_SHARE = ("card-time-slicing-exhausted", "node-unfit-pod")
_REFUSED = tuple(reason.text for reason in REASONS if reason.finding in _MAY_LACK_SHARE)
"""HAMi's words for a node whose GPUs may lack a share: that reason, or up to 2.9 only that the node does not fit."""


class Throttled(NamedTuple):
    """The requests that the extenders held back within the logs that were read, by the pod that wrote them."""

    by_scheduler: tuple[tuple[Pod, tuple[ThrottledRequest, ...]], ...] = ()
    gaps: tuple[Gap, ...] = ()

    @property
    def waits(self) -> tuple[ThrottledRequest, ...]:
        return tuple(wait for _, waits in self.by_scheduler for wait in waits)


class TuneScene(OfInstall, frozen=True, dict=True, eq=False):
    """The cluster at one moment: all that advice is worked out from. Each part is a gap, or has gaps, if not read.

    `without_share` are the pending pods that HAMi may have refused for want of a share. The quotas of `capacity` are
    read if there are some; `as_of` is the moment to judge the ages of registrations by.
    """

    cluster: str
    taken_at: datetime
    nodes: Sequence[Node] | Gap
    holders: Sequence[Holder] | Gap
    waiting: Sequence[Pod] | Gap
    without_share: Sequence[Pod]
    capacity: Capacity
    as_of: datetime
    throttled: Throttled
    locked: ExtenderLines
    ledger: Ledger
    usage: UsageSeen
    cores: CoresSeen

    @property
    def scheduler(self) -> Pod | None:
        """The scheduler pod that decides: the leader, or the first if none is known."""
        return self.install.leader or next(iter(self.install.pods), None)

    @property
    def flags(self) -> dict[str, str]:
        """The flags of `scheduler`, or of the Deployment without one: replicas differ during a rollout."""
        return flags_of(self.scheduler.spec) if self.scheduler else self.install.flags

    @cached_property
    def held(self) -> list[MeasuredHolding]:
        """The pods that hold GPUs, with their measured use; empty if the pods could not be read."""
        return held_by(self.ledger.all(), self.usage.usage)

    @cached_property
    def world(self) -> ClusterScene:
        """The cluster as HAMi sees it, to judge pending pods in."""
        return ClusterScene(self.seen, self.capacity, self.as_of)

    @cached_property
    def pools(self) -> list[Pool]:
        """The pools of GPU nodes, the largest first; none if the nodes could not be read."""
        return [] if isinstance(self.nodes, Gap) else pools_of(self.nodes, self.held, self.seen)

    @cached_property
    def gpu_mib(self) -> dict[str, int]:
        """The registered memory of each GPU, in MiB by UUID."""
        return {state.card.uuid: state.card.memory_mib for pool in self.pools for state in pool.gpus}

    @cached_property
    def peaks(self) -> dict[tuple[str, str, str], tuple[Peak, ...]]:
        """The most memory that each container used within the window, by namespace, pod and GPU."""
        found: dict[tuple[str, str, str], tuple[Peak, ...]] = {}
        for peak in sorted(self.usage.peaks, key=lambda peak: peak.used.value):
            of = peak.of.namespace, peak.of.pod, peak.of.uuid
            others = (other for other in found.get(of, ()) if other.of.container != peak.of.container)
            found[of] = *others, peak
        return found

    @cached_property
    def _holders(self) -> dict[tuple[str, str], Holder]:
        holders = () if isinstance(self.holders, Gap) else self.holders
        return {(holder.namespace, holder.name): holder for holder in holders}

    def holder(self, held: MeasuredHolding) -> Holder | None:
        """The pod with this holding; None if it was not read."""
        return self._holders.get((held.holding.namespace, held.holding.name))

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """The gaps of all parts of the scene."""
        lists = (self.nodes, self.holders, self.waiting, self.capacity.quotas)
        unread = [gap for gap in lists if isinstance(gap, Gap)]
        cores = [self.cores.gap] if self.cores.gap else []
        logs = (*self.throttled.gaps, *self.locked.gaps)
        return tuple(dict.fromkeys([*self.seen.gaps, *unread, *logs, *self.usage.gaps, *cores]))


async def gather_scene(sources: Sources) -> TuneScene:
    """Reads all that advice is worked out from. Raises Unusable if nothing at all could be read."""
    cluster = sources.cluster
    install = await gather_install(sources)
    nodes, holders, waiting, (throttled, locked), asked = await asyncio.gather(
        seen("nodes", cluster.list(NODES)),
        seen("pods", gather_holders(cluster, install.install.scheduler_name)),
        seen("pending pods", cluster.list(PODS, fields="status.phase=Pending")),
        _gather_logs(cluster, install.install),
        ask_prometheus(sources),  # beside the lists: what one waits for, the others read
    )
    if isinstance(nodes, Gap) and install_unread(install):
        raise nothing_read(nodes)
    holding = () if isinstance(holders, Gap) else frozenset(holder.spec.node_name for holder in holders)
    usage = await or_measured(asked, sources, holding)
    version = install.install.version
    ledger = build_ledger(() if isinstance(holders, Gap) else holders, version.version if version else NEWEST_READ)
    week = sources.prometheus if usage.of_prometheus else None
    pending = () if isinstance(waiting, Gap) else waiting
    without_share = [pod for pod in pending if any(word in pod.refusal for word in _REFUSED)]
    quotas = await seen("resource quotas", cluster.list(RESOURCE_QUOTAS)) if without_share else []
    shown = times_shown(cluster, [] if isinstance(nodes, Gap) else nodes, install.install)
    cores = await gather_cores(week, ledger.all(), cluster.now())
    return TuneScene(
        install,
        cluster=cluster.name,
        taken_at=cluster.now(),
        nodes=nodes,
        holders=holders,
        waiting=waiting,
        without_share=without_share,
        capacity=Capacity(nodes, holders, quotas, cluster.kept),
        as_of=cluster.as_of(shown),
        throttled=throttled,
        locked=locked,
        ledger=ledger,
        usage=usage,
        cores=cores,
    )


async def _gather_logs(cluster: Cluster, install: Install) -> tuple[Throttled, ExtenderLines]:
    log = await gather_extender_lines(cluster, install, [NEEDLE, _LOCKS], since_s=_SINCE_S)
    held_back, locked = log.holding(NEEDLE), log.holding(_LOCKS)
    pods = {pod.name: pod for pod, _ in held_back.lines}
    lines = {name: [line for pod, line in held_back.lines if pod.name == name] for name in pods}
    return Throttled(tuple((pod, tuple(read_waits(lines[name]))) for name, pod in pods.items()), held_back.gaps), locked
