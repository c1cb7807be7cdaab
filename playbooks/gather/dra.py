"""What is read of dynamic resource allocation: the devices that drivers offer, and what pods claim."""

import asyncio
from typing import NamedTuple, TypeVar

from bot.errors import SourceError
from bot.kube.cluster import Cluster, list_served, seen
from bot.kube.models import (
    CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Kind,
    Pod,
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
    """The claims of all namespaces, the templates of the pod's own, and what drivers offer."""

    claims: list[ResourceClaim] | Gap
    templates: list[ResourceClaimTemplate] | Gap
    slices: list[ResourceSlice] | Gap

    @property
    def gaps(self) -> tuple[Gap, ...]:
        return tuple(gap for gap in self if isinstance(gap, Gap))


async def gather_slices(cluster: Cluster, node: str = "") -> list[ResourceSlice] | Gap:
    """What drivers offer, on that node where one is named.

    Empty where the API server serves no slices, or the recording is older than they are: no proof that there is none.
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


async def gather_claims(cluster: Cluster, pod: Pod) -> ClaimsSeen | None:
    """What bears on the pod's claims; None where it has none. Claims of others tell which devices are taken."""
    if not pod.spec.resource_claims:
        return None
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
