"""A pod whose node is not ready: what its status says is no longer sure."""

from collections.abc import Sequence

from bot.kube.models import Event, Node, Pod
from bot.kube.node_readiness import NOT_READY_TAINTS, not_ready
from bot.report import Evidence, Finding, Gap, step
from bot.texts import Text
from playbooks import quotes
from playbooks.quotes import kubectl
from playbooks.rules.common.findings import finding

_SAID = "NodeNotReady"
"""The node controller's event of each pod of a node that it marks as not ready."""


def node_down(pod: Pod, node: Node | Gap, events: Sequence[Event]) -> list[Finding]:
    """That the pod's node is not ready; nothing for a pod that has ended, or whose node was not read."""
    if isinstance(node, Gap) or pod.status.phase in ("Succeeded", "Failed") or not not_ready(node):
        return []
    own = [event for event in events if event.involved_object.uid in ("", pod.metadata.uid)]
    said = [quotes.of_event(event) for event in own if event.reason == _SAID and event.message.strip()][-1:]
    why, silent, proof = _why(node)
    key = "node-not-ready.unreachable" if silent else "node-not-ready.down"
    claim = Text(key, node=node.name, why=quotes.shown(why).rstrip("."))
    look = step(Text("nodes.describe", node=node.name), kubectl("describe", "node", node.name))
    return [
        finding("node-not-ready", claim, "confirmed", (node.name,), (proof, *said), severity="warning", actions=(look,))
    ]


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
