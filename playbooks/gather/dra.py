"""Reads APIs that not every cluster serves: DRA devices, the ResourceClaims of pods, and Kueue's queues."""

import asyncio
from typing import NamedTuple, TypeVar

from bot.errors import SourceError
from bot.kube.cluster import Cluster, list_served, seen
from bot.kube.models import (
    CLAIM_TEMPLATES,
    QUEUED_WORKLOADS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Condition,
    Kind,
    Pod,
    QueuedWorkload,
    Resource,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from bot.kube.recording.files import NotRecordedError
from bot.report import Gap

R = TypeVar("R", bound=Resource)

SLICES_SOURCE = "resource slices"


class ClaimsSeen(NamedTuple):
    """The claims of all namespaces, the claim templates of the pod's namespace, and the devices that drivers offer."""

    claims: list[ResourceClaim] | Gap
    templates: list[ResourceClaimTemplate] | Gap
    slices: list[ResourceSlice] | Gap

    @property
    def gaps(self) -> tuple[Gap, ...]:
        return tuple(gap for gap in self if isinstance(gap, Gap))


async def gather_slices(cluster: Cluster, node: str = "") -> list[ResourceSlice] | Gap:
    """Reads the devices that DRA drivers offer, on all nodes or on one. An empty list is no proof that there is none:
    the API server may serve no slices, or the recording be older than they.
    """
    slices = await seen(SLICES_SOURCE, _slices(cluster))
    if isinstance(slices, Gap) or not node:
        return slices
    return [slice_ for slice_ in slices if slice_.spec.node_name == node]


async def _slices(cluster: Cluster) -> list[ResourceSlice]:
    try:
        return await list_served(cluster, RESOURCE_SLICES)
    except NotRecordedError:
        return []


async def gather_claims(cluster: Cluster, pod: Pod) -> ClaimsSeen:
    """Reads what bears on the pod's ResourceClaims. Other pods' claims tell taken devices."""
    return ClaimsSeen(
        *await asyncio.gather(
            seen("resource claims", _whole(cluster, RESOURCE_CLAIMS)),
            seen("resource claim templates", _whole(cluster, CLAIM_TEMPLATES, pod.namespace)),
            seen(SLICES_SOURCE, _whole(cluster, RESOURCE_SLICES)),
        )
    )


async def _whole(cluster: Cluster, kind: Kind[R], namespace: str = "") -> list[R]:
    """The list, where each object of it could be read: else one that is there would pass for absent."""
    found = await list_served(cluster, kind, namespace)
    if bad := next((name for name in cluster.undecodable if name.startswith(f"{kind.plural}.")), None):
        raise SourceError(bad)
    return found


KUEUE = "kueue.x-k8s.io/"
QUEUE = f"{KUEUE}queue-name"
"""The label that names the Kueue queue in which a pod or Job waits."""
_GROUP = f"{KUEUE}pod-group-name"
_RESERVED = "QuotaReserved"


class Queued(NamedTuple):
    """Kueue's Workload of a pod or Job in a queue; its `place` among the `waiting` Workloads there."""

    workload: QueuedWorkload
    place: int
    waiting: int

    @property
    def condition(self) -> Condition | None:
        """Kueue's condition that says why the Workload was put out of the queue, or why it has no quota yet."""
        by_type = {condition.type: condition for condition in self.workload.status.conditions or ()}
        put_out = by_type.get("Evicted")
        return put_out if put_out and not self.workload.spec.active else by_type.get(_RESERVED)


async def gather_queued(cluster: Cluster, held: Resource) -> Queued | Gap | None:
    """Reads the pod's or Job's place in Kueue; None if Kueue's Workloads are not served, or none belongs to it."""
    there = await seen("Kueue's workloads", list_served(cluster, QUEUED_WORKLOADS, held.namespace))
    if isinstance(there, Gap):
        return there
    owners = {held.metadata.uid, *(owner.uid for owner in held.metadata.owner_references or ())} - {""}
    group = held.metadata.label(_GROUP)
    owned = ((one, {owner.uid for owner in one.metadata.owner_references or ()}) for one in there)
    own = next((one for one, uids in owned if one.name == group or owners & uids), None)
    if own is None:
        return None
    line = sorted((one for one in there if one.spec.queue_name == own.spec.queue_name and _stands(one)), key=_turn)
    return Queued(own, line.index(own) + 1 if own in line else 0, len(line))


def _stands(workload: QueuedWorkload) -> bool:
    done = {condition.type for condition in workload.status.conditions or () if condition.status == "True"}
    return workload.spec.active and done.isdisjoint({_RESERVED, "Finished"})


def _turn(workload: QueuedWorkload) -> tuple[int, str, str]:
    return -(workload.spec.priority or 0), workload.metadata.creation_timestamp or "", workload.name
