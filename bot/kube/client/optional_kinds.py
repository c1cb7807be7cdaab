"""Lists of kinds that not every API server serves, or serves in a younger version."""

from typing import TypeVar

from msgspec import structs

from bot.errors import NotFound
from bot.kube.cluster import Cluster
from bot.kube.models import Kind, Resource

R = TypeVar("R", bound=Resource)


async def list_served(cluster: Cluster, kind: Kind[R], namespace: str = "") -> list[R]:
    """All objects of the kind, in the newest version that the API server serves; none where it serves none."""
    for candidate in (kind, *(structs.replace(kind, version=version) for version in kind.older)):
        try:
            return await cluster.list(candidate, namespace)
        except NotFound:
            continue
    return []
