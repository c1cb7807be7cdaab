"""What each card has given away, as the scheduler counts it: by `hami.io/vgpu-node`, not by where the pod runs.

Rules: HAMi pkg/scheduler/scheduler.go getNodesUsage, pkg/scheduler/pods.go, pkg/device/devices.go at v2.5 to v2.10.
"""

from collections.abc import Iterable
from typing import NamedTuple

from bot.hami.allocations import (
    NVIDIA_ALLOCATED_KEY,
    Containers,
    decode_allocations,
    is_finished,
    reserved_node,
)
from bot.hami.mig import MIG_ALLOCATIONS_KEY, MigReservation, read_mig_allocations
from bot.hami.version import Version
from bot.kube.models import Holder, Pod


class Share(NamedTuple):
    """What one pod holds of one card."""

    slots: int
    memory_mib: int
    cores: int


class Holding(NamedTuple):
    """What one pod holds. `bound` is false for a reservation: filtered, counted, and not bound to a node."""

    namespace: str
    name: str
    uid: str
    node: str
    bound: bool
    shares: dict[str, Share]
    mig: tuple[MigReservation, ...] = ()


class Ledger(NamedTuple):
    """All holdings by node, and per namespace the (memory MiB, cores) that quotas are held against."""

    by_node: dict[str, list[Holding]]
    by_namespace: dict[str, tuple[int, int]]

    def on(self, node: str) -> list[Holding]:
        """The holdings that count against one node's cards."""
        return self.by_node.get(node, [])


def build_ledger(pods: Iterable[Pod | Holder], version: Version, *, forget_uid: str = "") -> Ledger:
    """The ledger of all unfinished pods; the judged pod's own reservation is forgotten, as every filter does."""
    by_node: dict[str, list[Holding]] = {}
    by_namespace: dict[str, tuple[int, int]] = {}
    for pod in pods:
        if pod.metadata.uid == forget_uid and forget_uid:
            continue
        holding = read_holding(pod, version)
        if holding is None:
            continue
        by_node.setdefault(holding.node, []).append(holding)
        memory, cores = by_namespace.get(pod.namespace, (0, 0))
        for share in holding.shares.values():
            memory, cores = memory + share.memory_mib, cores + share.cores
        by_namespace[pod.namespace] = memory, cores
    return Ledger(by_node, by_namespace)


def read_holding(pod: Pod | Holder, version: Version) -> Holding | None:
    """What the pod holds; None when it counts against no card."""
    node = reserved_node(pod.metadata)
    text = pod.metadata.annotation(NVIDIA_ALLOCATED_KEY)
    if not node or text is None or is_finished(pod):
        return None
    containers = decode_allocations(text, version)
    if containers is None:
        return None
    mig_text = pod.metadata.annotation(MIG_ALLOCATIONS_KEY)
    return Holding(
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.metadata.uid,
        node=node,
        bound=bool(pod.spec.node_name),
        shares=_sum_up(pod, containers, version),
        mig=read_mig_allocations(mig_text) if mig_text and version >= (2, 10) else (),
    )


def _sum_up(pod: Pod | Holder, containers: Containers, version: Version) -> dict[str, Share]:
    """Per card: the sum over containers; from 2.10 the larger of the largest init share and the apps' sum."""
    inits = len(pod.spec.init_containers or ()) if version >= (2, 10) else 0
    if not inits:
        return _added(containers)
    apps = _added(containers[inits:])
    if _inits_are_done(pod, inits):
        return apps
    for shares in containers[:inits]:
        for uuid, memory, cores in shares:
            app = apps.get(uuid, Share(0, 0, 0))
            apps[uuid] = Share(max(app.slots, 1), max(app.memory_mib, memory), max(app.cores, cores))
    return apps


def _added(containers: Containers) -> dict[str, Share]:
    total: dict[str, Share] = {}
    for shares in containers:
        for uuid, memory, cores in shares:
            slots, used_memory, used_cores = total.get(uuid, (0, 0, 0))
            total[uuid] = Share(slots + 1, used_memory + memory, used_cores + cores)
    return total


def _inits_are_done(pod: Pod | Holder, inits: int) -> bool:
    statuses = pod.status.init_container_statuses or []
    done = [one for one in statuses if one.state.terminated and one.state.terminated.exit_code == 0]
    return len(done) >= inits
