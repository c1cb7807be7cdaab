"""Which nodes evict pods, and for what? Copy this file into your folder of playbooks: its name is the verb."""

from collections import Counter
from typing import NamedTuple

import click

from playbooks.api import (
    PODS,
    Answer,
    Cluster,
    Evidence,
    Gap,
    Playbook,
    Pod,
    Sheet,
    Texts,
    finding,
    quote_of_pod,
    seen,
)

MOST_QUOTES = 5


class NodeRow(NamedTuple):
    """A row of the table. The fields are its columns."""

    node: str
    evicted: int
    last: str


NODES_TABLE = Sheet("evictions by node", NodeRow)


class Snapshot(NamedTuple):
    """What was read: the pods that ended, or why they could not be read."""

    pods: list[Pod] | Gap
    node: str


async def gather(cluster: Cluster, *, node: str) -> Snapshot:
    """Read the failed pods. An evicted pod stays in the API, as Failed, until somebody deletes it."""
    pods = await seen("pods", cluster.list(PODS, fields="status.phase=Failed"))
    return Snapshot(pods, node)


def diagnose(snapshot: Snapshot, say: Texts) -> Answer:
    """Count the evicted pods of each node."""
    if isinstance(snapshot.pods, Gap):
        claim = say("unread")
        return Answer(claim, [finding(claim, severity="info", confidence="suspected")], gaps=[snapshot.pods])
    evicted = [
        one for one in snapshot.pods if one.status.reason == "Evicted" and snapshot.node in ("", one.spec.node_name)
    ]
    if not evicted:
        return Answer(say("none"), [finding(say("none"), severity="info")])
    evicted.sort(key=lambda pod: pod.status.start_time or "", reverse=True)
    counts = Counter(pod.spec.node_name for pod in evicted)
    claim = say("claim", count=len(evicted), nodes=len(counts), worst=counts.most_common(1)[0][0])
    quotes = [_quote(pod) for pod in evicted[:MOST_QUOTES]]
    last = {pod.spec.node_name: f"{pod.namespace}/{pod.name}" for pod in reversed(evicted)}
    rows = [NodeRow(node, count, last[node]) for node, count in counts.most_common()]
    return Answer(claim, [finding(claim, quotes, nodes=list(counts))], tables=[NODES_TABLE.table(rows)])


def _quote(pod: Pod) -> Evidence:
    """Why the kubelet evicted the pod, in its own words."""
    if pod.status.message:
        return quote_of_pod(pod, pod.status.message, "{.status.message}")
    return quote_of_pod(pod, pod.status.reason, "{.status.reason}")


PLAYBOOK = Playbook(
    summary="Which nodes evict pods, and for what?",
    gather=gather,
    diagnose=diagnose,
    parameters=[click.Option(["--node"], default="", metavar="NODE", help="Only pods of this node.")],
    example="--node gpu-node-07",
    texts={
        "en": {
            "claim": "{count} pod{count(|s)} {count(was|were)} evicted on {nodes} node{nodes(|s)}, most on {worst}.",
            "none": "No pod that is still in the API was evicted.",
            "unread": "The pods could not be read, so evictions are unknown.",
        },
        "zh": {
            "claim": "{nodes} 个节点驱逐了 {count} 个 Pod，其中 {worst} 最多。",
            "none": "API 中现存的 Pod 都没有被驱逐。",
            "unread": "无法读取 Pod，因此不知道有没有驱逐。",
        },
    },
)
