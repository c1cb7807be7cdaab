"""What a pod that needs no scheduler is at: it has ended well, is being deleted, or its node is down."""

from collections.abc import Iterator
from datetime import timedelta

from bot.kube.models import Node
from bot.kube.node_conditions import NOT_READY_TAINTS, not_ready
from bot.kube.times import format_time, parse_time
from bot.report import Evidence, Finding, step
from bot.texts import Text
from playbooks import quotes
from playbooks.quotes import kubectl, kubectl_pod
from playbooks.rule import rule
from playbooks.rules.common.findings import finding
from playbooks.scenes.placed_pod import PlacedScene

_STUCK = timedelta(minutes=2)
"""How long a deletion past its deadline is taken as normal."""
_SAID = "NodeNotReady"
"""The node controller's event of each pod of a node that it marks as not ready."""


@rule("succeeded")
def succeeded(scene: PlacedScene) -> Iterator[Finding]:
    """The pod has ended well."""
    pod, nodes = scene.pod, _nodes(scene)
    if pod.status.phase == "Succeeded":
        claim = Text("succeeded.claim", pod=f"{pod.namespace}/{pod.name}")
        proofs = [quotes.of_pod(pod, "Succeeded", "{.status.phase}")]
        yield finding("succeeded", claim, "confirmed", nodes, proofs, severity="info")


@rule("terminating")
def terminating(scene: PlacedScene) -> Iterator[Finding]:
    """The pod is being deleted. The API's deletionTimestamp is when it should be gone."""
    pod, text = scene.pod, scene.pod.metadata.deletion_timestamp
    if not text:
        return
    deadline = parse_time(text)
    late = deadline is not None and scene.now - deadline > _STUCK
    key = "terminating.claim" if pod.spec.node_name else "terminating.unscheduled"
    claim = Text(
        "terminating.late" if late else key,
        pod=f"{pod.namespace}/{pod.name}",
        node=pod.spec.node_name or "?",
        deadline=format_time(deadline) if deadline else text,
    )
    look = kubectl_pod(pod, "get", "-o", "jsonpath={.metadata.finalizers}")
    yield finding(
        "terminating",
        claim,
        "confirmed",
        _nodes(scene),
        [quotes.of_pod(pod, text, "{.metadata.deletionTimestamp}")],
        severity="warning" if late else "info",
        actions=[step(Text("terminating.finalizers"), look)] if late else (),
    )


@rule("node-not-ready", reads=("node",))
def node_down(scene: PlacedScene) -> Iterator[Finding]:
    """The node of a pod that has not ended is not ready: what the pod's status says is no longer sure."""
    node = scene.node
    if node is None or scene.pod.status.phase in ("Succeeded", "Failed") or not not_ready(node):
        return
    said = [quotes.of_event(event) for event in scene.events if event.reason == _SAID][-1:]
    why, silent, proof = _why(node)
    key = "node-not-ready.unreachable" if silent else "node-not-ready.down"
    claim = Text(key, node=node.name, why=quotes.shown(why).rstrip("."))
    look = step(Text("nodes.describe", node=node.name), kubectl("describe", "node", node.name))
    proofs = [proof, *said]
    yield finding("node-not-ready", claim, "confirmed", (node.name,), proofs, severity="warning", actions=[look])


def _nodes(scene: PlacedScene) -> tuple[str, ...]:
    return (scene.pod.spec.node_name,) if scene.pod.spec.node_name else ()


def _why(node: Node) -> tuple[str, bool, Evidence]:
    """What the node's condition or taint says, whether kubelet is silent, and where it says so."""
    ready = next((one for one in node.status.conditions or () if one.type == "Ready"), None)
    if ready is not None and ready.status != "True":
        field = "message" if ready.message.strip() else "reason" if ready.reason.strip() else "status"
        text = str(getattr(ready, field))
        path = f'{{.status.conditions[?(@.type=="Ready")].{field}}}'
        return text, ready.status == "Unknown", quotes.of_node(node, text, path)
    key = next(taint.key for taint in node.spec.taints or () if taint.key in NOT_READY_TAINTS)
    return key, key.endswith("/unreachable"), quotes.of_node(node, key, "{.spec.taints[*].key}")
