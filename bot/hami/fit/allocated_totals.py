"""What each GPU has given away, as HAMi's scheduler counts it: on the node that a pod's `hami.io/vgpu-node` names.

Rules: HAMi pkg/scheduler/scheduler.go getNodesUsage, pkg/scheduler/pods.go, pkg/device/devices.go at v2.5 to v2.10.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property, lru_cache
from itertools import chain
from operator import attrgetter
from typing import NamedTuple

import msgspec

from bot.hami.nodes.cards import MIG_ALLOCATIONS_KEY, MigReservation, read_mig_allocations
from bot.hami.pods.allocations import (
    Containers,
    allocated_keys,
    counted_allocations,
    decode_allocations,
    is_finished,
    reserved_node,
)
from bot.hami.vendors import FIRST, VENDORS
from bot.hami.vendors.vendor import Device
from bot.hami.version import Version
from bot.kube.models import Holder, ObjectMeta, Pod

_NO_OTHERS: Mapping[str, str] = {}
_CLASS_KEYS = tuple(vendor.class_key for vendor in VENDORS if vendor.class_key)


def ledger_key(device: Device) -> str:
    """The pod annotation that lists a device's allocations, as a key of `Holding.others`; empty for NVIDIA's."""
    return "" if device.vendor is FIRST else device.names.allocated[0]


class Share(NamedTuple):
    slots: int
    memory_mib: int
    cores: int


class Holding(msgspec.Struct, frozen=True, dict=True):
    """What one pod holds of GPUs. `bound` is false for a reservation: the pod is not on the node yet.

    `shares` are by GPU uuid; `others` is the pod annotation that gave a GPU which is not NVIDIA's, by uuid.
    """

    namespace: str
    name: str
    uid: str
    node: str
    bound: bool
    shares: dict[str, Share]
    mig: tuple[MigReservation, ...] = ()
    created: str = ""
    priority: int = 0
    ending: bool = False
    app_class: str = ""
    others: Mapping[str, str] = {}

    @cached_property
    def amounts(self) -> tuple[int, int]:
        """MiB and cores over all of the pod's NVIDIA GPUs, as a quota counts them."""
        return self.given_by("")

    def given_by(self, key: str) -> tuple[int, int]:
        """MiB and cores that the pod annotation `key` gave the pod; an empty key means NVIDIA's."""
        others = self.others
        shares = [share for uuid, share in self.shares.items() if others.get(uuid, "") == key]
        return sum(share.memory_mib for share in shares), sum(share.cores for share in shares)

    @property
    def memory_mib(self) -> int:
        return sum(share.memory_mib for share in self.shares.values())

    @cached_property
    def disruption(self) -> tuple[bool, int, float, int, str, str]:
        """A sort key: what ending the pod costs. A pod that is being deleted comes first, then priority, age, size."""
        age = -_seconds(self.created)
        return not self.ending, self.priority, age, self.memory_mib, self.namespace, self.name


@lru_cache(maxsize=2**14)
def _seconds(created: str) -> float:
    try:
        return datetime.fromisoformat(created).timestamp()
    except ValueError:
        return 0.0


class Ledger(msgspec.Struct, frozen=True, dict=True, weakref=True):
    """What all pods hold of GPUs: their holdings, by the node whose GPUs they count against."""

    by_node: dict[str, list[Holding]]

    @cached_property
    def _by_key(self) -> dict[tuple[str, str], tuple[int, int]]:
        found: dict[tuple[str, str], tuple[int, int]] = {}
        for holding in self.all():
            for key in {"", *holding.others.values()}:
                memory, cores = found.get((holding.namespace, key), (0, 0))
                more_memory, more_cores = holding.given_by(key) if key else holding.amounts
                found[holding.namespace, key] = memory + more_memory, cores + more_cores
        return found

    def used_in(self, namespace: str, key: str) -> tuple[int, int]:
        """MiB and cores that the pod annotation `key` gave the pods of a namespace; an empty key means NVIDIA's."""
        return self._by_key.get((namespace, key), (0, 0))

    @cached_property
    def least_disruptive_first(self) -> list[Holding]:
        """Every holding, the pod whose end costs least first; see `Holding.disruption`."""
        return sorted(self.all(), key=attrgetter("disruption"))

    @cached_property
    def uids(self) -> frozenset[str]:
        """The uids of all pods that hold a GPU."""
        return frozenset(holding.uid for holding in self.all())

    def on(self, node: str) -> list[Holding]:
        """The holdings that count against the GPUs of one node."""
        return self.by_node.get(node, [])

    def all(self) -> Iterator[Holding]:
        return chain.from_iterable(self.by_node.values())

    def without(self, gone: Sequence[Holding]) -> "Ledger":
        """A copy of the ledger without the holdings `gone`, as if their pods had ended."""
        by_node = dict(self.by_node)
        for holding in gone:
            by_node[holding.node] = [kept for kept in by_node[holding.node] if kept is not holding]
        return Ledger(by_node)


def build_ledger(pods: Iterable[Pod | Holder], version: Version) -> Ledger:
    """The ledger of the unfinished pods among `pods`, as this version of HAMi counts them."""
    return add_up(read_holding(pod, version) for pod in pods)


def add_up(holdings: Iterable[Holding | None]) -> Ledger:
    """The ledger of the given holdings; None stands for a pod that holds nothing."""
    by_node: dict[str, list[Holding]] = {}
    for holding in holdings:
        if holding is not None:
            by_node.setdefault(holding.node, []).append(holding)
    return Ledger(by_node)


def read_holding(pod: Pod | Holder, version: Version) -> Holding | None:
    """What the pod holds of GPUs; None where HAMi counts it against no GPU."""
    node = reserved_node(pod.metadata)
    if not node or is_finished(pod):
        return None
    containers = counted_allocations(pod.metadata, version)
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
        others=_others(pod.metadata, version),
        created=pod.metadata.creation_timestamp or "",
        priority=pod.spec.priority or 0,
        ending=pod.metadata.deletion_timestamp is not None,
        app_class=next(filter(None, map(pod.metadata.annotation, _CLASS_KEYS)), ""),
    )


def _others(metadata: ObjectMeta, version: Version) -> Mapping[str, str]:
    texts = metadata.annotations or {}
    keys = [key for key in allocated_keys(texts) if key not in FIRST.names.allocated]
    if not keys:
        return _NO_OTHERS
    given = ((key, decode_allocations(texts[key], version) or ()) for key in keys)
    return {share.uuid: key for key, containers in given for shares in containers for share in shares}


def _sum_up(pod: Pod | Holder, containers: Containers, version: Version) -> dict[str, Share]:
    """Per GPU the sum over containers; from 2.10 on at least the largest share of an init container."""
    inits = len(pod.spec.init_containers or ()) if version >= (2, 10) else 0
    if not inits:
        return _added(containers)
    apps = _added(containers[inits:])
    ends = [status.state.terminated for status in pod.status.init_container_statuses or ()]
    if sum(1 for end in ends if end and end.exit_code == 0) >= inits:
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
