"""What tuning advice is worked out from: read once, for every topic."""

import asyncio
from dataclasses import dataclass
from datetime import date, datetime
from functools import cached_property
from typing import NamedTuple

from bot.hami.fit.allocated_totals import Ledger, build_ledger
from bot.hami.fit.version_differences import NEWEST_READ
from bot.hami.installation.install import Install, flags_of
from bot.hami.metrics.gpu_usage import MeasuredHolding, held_by
from bot.hami.scheduler_logs.filter_reasons import REASONS
from bot.hami.scheduler_logs.throttling import NEEDLE, Wait, read_waits
from bot.kube.cluster import Cluster, seen
from bot.kube.models import NODES, PODS, RESOURCE_QUOTAS, Holder, Node, Pod
from bot.report import Gap
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
from playbooks.scenes.cluster import ClusterScene
from playbooks.tune.pools import Pool, pools_of

_SINCE_S = 3600
_LOCKS = "lock"
_MAY_LACK_SHARE = ("card-time-slicing-exhausted", "node-unfit-pod")
_REFUSED = tuple(reason.text for reason in REASONS if reason.finding in _MAY_LACK_SHARE)
"""What HAMi says of a node whose GPUs may lack a share: that, or up to 2.9 only that the node does not fit."""
_LIMITS = ("kube-qps", "kube-burst")


class Request(NamedTuple):
    """`all`: advice to keep a value, and what cannot be told, is shown as well. `template`: the values of one of the
    guide's templates instead; `days`: two days compared instead.
    """

    all: bool
    template: str = ""
    days: tuple[date, date] | None = None


class Throttled(NamedTuple):
    """The requests that the extenders held back within the logs that were read, by the pod that wrote them."""

    by_scheduler: tuple[tuple[Pod, tuple[Wait, ...]], ...] = ()
    gaps: tuple[Gap, ...] = ()

    @property
    def waits(self) -> tuple[Wait, ...]:
        return tuple(wait for _, waits in self.by_scheduler for wait in waits)


@dataclass(frozen=True)
class Facts:
    """The cluster at one moment. Each part says itself what could not be read.

    `without_share` are the waiting pods that HAMi may have refused for want of a share. The quotas of
    `capacity` are read where there are some; `as_of` is the moment to judge the ages of registrations by.
    """

    request: Request
    cluster: str
    taken_at: datetime
    install: InstallSeen
    nodes: list[Node] | Gap
    holders: list[Holder] | Gap
    waiting: list[Pod] | Gap
    without_share: list[Pod]
    capacity: Capacity
    as_of: datetime
    throttled: Throttled
    locked: ExtenderLines
    ledger: Ledger
    usage: UsageSeen
    cores: CoresSeen

    @property
    def scheduler(self) -> Pod | None:
        """The scheduler pod that decides: the leader, or the first where none is known."""
        install = self.install.install
        return install.leader or next(iter(install.pods), None)

    @property
    def flags(self) -> dict[str, str]:
        """The flags of that pod, or of the Deployment where there is none: replicas differ while they are replaced."""
        return flags_of(self.scheduler.spec) if self.scheduler else self.install.install.flags

    @cached_property
    def held_back(self) -> Throttled:
        """The requests that were held back under the limits that hold now."""
        same = [
            (pod, waits)
            for pod, waits in self.throttled.by_scheduler
            if all(flags_of(pod.spec).get(name) == self.flags.get(name) for name in _LIMITS)
        ]
        return self.throttled._replace(by_scheduler=tuple(same))

    @cached_property
    def held(self) -> list[MeasuredHolding]:
        """Who holds GPUs, with what is measured of it; nobody where the pods could not be read."""
        return held_by(self.ledger.all(), self.usage.usage)

    @cached_property
    def world(self) -> ClusterScene:
        """The cluster as HAMi sees it, to judge waiting pods in."""
        return ClusterScene(self.install, self.capacity, self.as_of)

    @cached_property
    def pools(self) -> list[Pool]:
        """The pools of GPU nodes, the largest first; none where the nodes could not be read."""
        return [] if isinstance(self.nodes, Gap) else pools_of(self.nodes, self.held, self.install)

    @cached_property
    def gpu_mib(self) -> dict[str, int]:
        """The memory that each GPU is registered with."""
        return {state.card.uuid: state.card.memory_mib for pool in self.pools for state in pool.gpus}

    @cached_property
    def peaks(self) -> dict[tuple[str, str, str], tuple[Peak, ...]]:
        """The most that each container used within the window, by namespace, pod and GPU."""
        found: dict[tuple[str, str, str], tuple[Peak, ...]] = {}
        for peak in sorted(self.usage.peaks, key=lambda peak: peak.used.value):
            of = peak.of.namespace, peak.of.pod, peak.of.uuid
            others = (other for other in found.get(of, ()) if other.of.container != peak.of.container)
            found[of] = *others, peak
        return found

    @cached_property
    def _holders(self) -> dict[tuple[str, str], Holder]:
        return (
            {}
            if isinstance(self.holders, Gap)
            else {(holder.namespace, holder.name): holder for holder in self.holders}
        )

    def holder(self, held: MeasuredHolding) -> Holder | None:
        """The pod that holds this."""
        return self._holders.get((held.holding.namespace, held.holding.name))

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """All that could not be read."""
        lists = (self.nodes, self.holders, self.waiting, self.capacity.quotas)
        unread = [list_ for list_ in lists if isinstance(list_, Gap)]
        cores = [self.cores.gap] if self.cores.gap else []
        logs = (*self.throttled.gaps, *self.locked.gaps)
        return tuple(dict.fromkeys([*self.install.gaps, *unread, *logs, *self.usage.gaps, *cores]))


async def gather_facts(wanted: Request, sources: Sources) -> Facts:
    """Raises Unusable where nothing at all could be read."""
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
    without_share = [] if isinstance(waiting, Gap) else [pod for pod in waiting if _may_lack_share(pod)]
    quotas = await seen("resource quotas", cluster.list(RESOURCE_QUOTAS)) if without_share else []
    shown = times_shown(cluster, [] if isinstance(nodes, Gap) else nodes, install.install)
    cores = await gather_cores(week, ledger.all(), cluster.now())
    return Facts(
        wanted,
        cluster.name,
        cluster.now(),
        install,
        nodes,
        holders,
        waiting,
        without_share,
        Capacity(nodes, holders, quotas, cluster.kept),
        cluster.as_of(shown),
        throttled,
        locked,
        ledger,
        usage,
        cores,
    )


def _may_lack_share(pod: Pod) -> bool:
    condition = pod.condition("PodScheduled")
    return condition is not None and condition.status == "False" and any(word in condition.message for word in _REFUSED)


async def _gather_logs(cluster: Cluster, install: Install) -> tuple[Throttled, ExtenderLines]:
    log = await gather_extender_lines(cluster, install, [NEEDLE, _LOCKS], since_s=_SINCE_S)
    held_back, locked = log.holding(NEEDLE), log.holding(_LOCKS)
    pods = {pod.name: pod for pod, _ in held_back.lines}
    lines = {name: [line for pod, line in held_back.lines if pod.name == name] for name in pods}
    return Throttled(tuple((pod, tuple(read_waits(lines[name]))) for name, pod in pods.items()), held_back.gaps), locked
