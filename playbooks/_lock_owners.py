"""The pods that node locks name, read fresh."""

import asyncio
from collections.abc import Iterable, Mapping

from bot.errors import NotFound
from bot.hami.nodelock import LOCK_KEY, parse_lock
from bot.kube.cluster import Cluster, seen
from bot.kube.models import PODS, Node, Pod
from bot.report import Gap

_AT_ONCE = 8


async def gather_owners(cluster: Cluster, nodes: Iterable[Node]) -> Mapping[tuple[str, str], Pod | Gap | None]:
    """The owners of the nodes' locks by namespace and name, None for one that is not there; a few read at a time."""
    texts = (node.metadata.annotation(LOCK_KEY) for node in nodes)
    locks = (parse_lock(text, None) for text in texts if text)
    names = sorted({(lock.namespace, lock.pod) for lock in locks if lock and lock.pod})
    turn = asyncio.Semaphore(_AT_ONCE)

    async def owner(namespace: str, name: str) -> Pod | None:
        async with turn:
            try:
                return await cluster.get(PODS, name, namespace)
            except NotFound:
                return None

    found = await asyncio.gather(*(seen("lock owner", owner(*one)) for one in names))
    return dict(zip(names, found, strict=True))
