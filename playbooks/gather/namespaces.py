"""A namespace that was typed and in which nothing was found: is it one at all?"""

import asyncio
import difflib
from typing import NamedTuple

from bot.kube.cluster import Cluster, seen
from bot.kube.models import PODS, RESOURCE_QUOTAS
from bot.report import Gap

_MAX_NEAR = 3


class EmptyNamespace(NamedTuple):
    """No pod and no quota was seen there. `near` are namespaces with pods whose names are like it."""

    namespace: str
    near: tuple[str, ...]


async def gather_deserted(cluster: Cluster, namespace: str) -> EmptyNamespace | Gap | None:
    """None where it has a pod or a quota. Namespaces themselves are not read: that would take one more right."""
    there = await asyncio.gather(
        seen(f"pods of {namespace}", cluster.list(PODS, namespace, metadata_only=True)),
        seen(f"resource quotas of {namespace}", cluster.list(RESOURCE_QUOTAS, namespace)),
    )
    unread = [gap for gap in there if isinstance(gap, Gap)]
    if unread or any(there):
        return unread[0] if unread else None
    pods = await seen("pods", cluster.list(PODS, metadata_only=True))
    names = sorted({pod.namespace for pod in pods}) if not isinstance(pods, Gap) else []
    return EmptyNamespace(namespace, tuple(difflib.get_close_matches(namespace, names, n=_MAX_NEAR)))
