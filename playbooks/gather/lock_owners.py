"""The pods that node locks name, read fresh."""

import asyncio
from collections.abc import Iterable, Mapping

from bot.errors import NotFound
from bot.hami.nodes.node_lock import LOCK_KEY, lock_complaint, parse_lock
from bot.hami.pods.allocations import reserved_node
from bot.kube.cluster import Cluster, seen
from bot.kube.models import PODS, Node, Pod
from bot.report import Gap, gap
from bot.texts import Text

_AT_ONCE = 8
_MOST = 200
_SOURCE = "lock owner"


async def gather_owners(
    cluster: Cluster, nodes: Iterable[Node], waiting: Iterable[Pod] = ()
) -> Mapping[tuple[str, str], Pod | Gap | None]:
    """The owners of the nodes' locks by namespace and name, None for one that is not there; a few read at a time.

    At most 200: first those of the nodes that refused one of the `waiting` pods, or that one is reserved on. The others
    are gaps.
    """
    blamed = {name for pod in waiting for name in _nodes_of(pod)}
    names: dict[tuple[str, str], None] = {}
    annotated = ((node, node.metadata.annotations) for node in nodes)
    locked = [(node.name, texts[LOCK_KEY]) for node, texts in annotated if texts and LOCK_KEY in texts]
    for _, text in sorted(locked, key=lambda entry: (entry[0] not in blamed, entry[0])):
        lock = parse_lock(text, None)
        if lock and lock.pod:
            names[lock.namespace, lock.pod] = None
    wanted, rest = list(names)[:_MOST], list(names)[_MOST:]
    turn = asyncio.Semaphore(_AT_ONCE)

    async def owner(namespace: str, name: str) -> Pod | None:
        async with turn:
            try:
                return await cluster.get(PODS, name, namespace)
            except NotFound:
                return None

    found = await asyncio.gather(*(seen(_SOURCE, owner(*key)) for key in wanted))
    left_out = gap(_SOURCE, Text("error-gather.pods-hold-node-locks", count=f"{len(names):,}", unread=f"{len(rest):,}"))
    return dict(zip(wanted, found, strict=True)) | dict.fromkeys(rest, left_out)


def _nodes_of(pod: Pod) -> Iterable[str]:
    """The node that HAMi reserved for the pod, and the one that its refused Bind names."""
    scheduled = pod.condition("PodScheduled")
    complaint = lock_complaint(scheduled.message or "") if scheduled else None
    return filter(None, (reserved_node(pod.metadata), complaint.node if complaint else ""))
