"""Nodes that Kubernetes keeps from every pod: not ready, under pressure, or cordoned.

kube-scheduler calls these taints like any other; the node says more. Source: the well-known taints of Kubernetes.
"""

from collections import defaultdict
from typing import NamedTuple

from msgspec import structs

from bot.kube.models import Node
from bot.kube.node_conditions import CORDON_TAINT, NOT_READY_TAINTS, PRESSURE_TAINTS
from bot.kube.selectors import TAINT_TEXT, UNSCHEDULABLE_TEXT, Obstacle
from bot.report import Confidence, Evidence, Finding, step
from bot.texts import Text
from playbooks import quotes
from playbooks.quotes import kubectl
from playbooks.rules.common import prose
from playbooks.rules.common.findings import finding
from playbooks.rules.waiting import refusals
from playbooks.rules.waiting.cause_ranking import Cause
from playbooks.scenes.waiting_pod import PodScene

_TAINTS = {
    **dict.fromkeys(NOT_READY_TAINTS, "not-ready"),
    **dict.fromkeys(PRESSURE_TAINTS, "pressure"),
    CORDON_TAINT: "cordoned",
}
_CLAIMS = {
    "not-ready": "kubernetes-filter.not-ready",
    "pressure": "kubernetes-filter.pressure",
    "cordoned": "kubernetes-filter.cordoned",
}


class _State(NamedTuple):
    """What a node is, one of `_CLAIMS`, and the taint that shows it."""

    what: str
    taint: str


def told_by_state(scene: PodScene, cause: Cause) -> list[Finding]:
    """A finding for each such state of nodes that should have the device, then one for all other nodes of the cause."""
    by_state: defaultdict[_State, list[str]] = defaultdict(list)
    for name in cause.nodes if scene.request.containers else ():
        if (state := _state(scene.obstacles[name])) is not None and scene.expects_gpus(name):
            by_state[state].append(name)
    if not by_state:
        return [refusals.refused(scene, cause)]
    found = [_finding(scene, cause._replace(nodes=tuple(names)), state) for state, names in by_state.items()]
    told = {name for names in by_state.values() for name in names}
    rest = tuple(name for name in cause.nodes if name not in told)
    if rest:
        others = refusals.refused(scene, cause._replace(nodes=rest))
        found.append(structs.replace(others, severity="info"))
    return found


def _state(obstacle: Obstacle) -> _State | None:
    if obstacle.text == UNSCHEDULABLE_TEXT:
        return _State("cordoned", CORDON_TAINT)
    what = _TAINTS.get(obstacle.detail) if obstacle.text == TAINT_TEXT else None
    return _State(what, obstacle.detail) if what else None


def _finding(scene: PodScene, cause: Cause, state: _State) -> Finding:
    names = cause.nodes
    claim = Text(_CLAIMS[state.what], nodes=prose.names(names), taint=state.taint)
    if takers := refusals.takers(scene, cause):
        claim = Text("kubernetes-filter.taken", claim=claim, nodes=prose.some(takers))
    steps = [step(Text("nodes.describe", node=names[0]), kubectl("describe", "node", names[0]))]
    if state.what == "cordoned":
        uncordon = kubectl("uncordon", names[0])
        steps.append(step(Text("kubernetes-filter.uncordon", node=names[0]), uncordon, changes_cluster=True))
    said = refusals.words(scene.attempt) if refusals.said_by_kubernetes(scene.attempt, cause) else []
    proofs, severity = [*said, *_proof(scene.nodes[names[0]], state)], refusals.severity_of(cause)
    sure: Confidence = "confirmed" if said else "suspected"
    return finding("kubernetes-filter", claim, sure, names, proofs, severity=severity, actions=steps)


def _proof(node: Node, state: _State) -> list[Evidence]:
    """The taint, and of a node that is not ready what kubelet or Kubernetes says of that."""
    has_taint = any(taint.key == state.taint for taint in node.spec.taints or ())
    path = "{.spec.taints[*].key}" if has_taint else "{.metadata.name}"
    found = [quotes.of_node(node, state.taint if has_taint else node.name, path)]
    ready = next((condition for condition in node.status.conditions or () if condition.type == "Ready"), None)
    if state.what == "not-ready" and ready is not None and ready.message:
        found.append(quotes.of_node(node, ready.message, '{.status.conditions[?(@.type=="Ready")].message}'))
    return found
