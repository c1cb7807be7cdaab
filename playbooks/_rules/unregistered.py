"""Findings about nodes whose cards HAMi does not know: one per why."""

from collections.abc import Mapping, Sequence

from msgspec import structs

from bot.hami import fit
from bot.hami.nodestate import GPU_LABEL, Unregistered
from bot.kube.models import Pod
from bot.report import Confidence, Evidence, Finding, Gap, NextAction
from bot.texts import Texts
from playbooks import _evidence
from playbooks._rules import prose
from playbooks._rules.case import Case
from playbooks._rules.causes import Cause, is_unregistered
from playbooks._rules.refusals import finding, severity_of, words
from playbooks._rules.said import Said

PluginPods = Mapping[str, Sequence[Pod] | Gap]
"""The device plugin's pods on unregistered nodes, by node."""


def unregistered(case: Case, said: Said, cause: Cause, plugins: PluginPods, say: Texts) -> list[Finding]:
    """One finding per why; nodes that should have no cards are told of only when there is nothing else."""
    severity = severity_of(cause)
    expected = [name for name in cause.nodes if case.expects_gpus(name)]
    found: list[Finding] = []
    by_why: dict[tuple[str, str], list[str]] = {}
    for name in expected:
        state = is_unregistered(case, name)
        if state is not None:
            by_why.setdefault(_handshake_code(state), []).append(name)
    proofs = said.evidence_for(fit.NODE_UNREGISTERED)
    confidence: Confidence = "confirmed" if proofs else "suspected"
    for (code, why), names in sorted(by_why.items(), key=lambda one: (-len(one[1]), one[0])):
        claim = say(f"{code}.{why}", nodes=prose.names(say, names), version=str(case.version or "?"))
        found.append(
            finding(
                code,
                claim,
                confidence,
                names,
                [*(proofs or words(said)), *_registration_proofs(case, names[0])],
                severity=severity,
            )
        )
        action = _plugin_action(names[0], plugins.get(names[0]), say)
        found[-1] = structs.replace(found[-1], next_actions=(action,))
    normal = [name for name in cause.nodes if name not in expected]
    if normal and not found:
        claim = say("node-unregistered.normal", nodes=prose.names(say, normal))
        node = case.nodes[normal[0]]
        found.append(
            finding(
                "node-unregistered",
                claim,
                confidence,
                normal,
                proofs or [_evidence.of_node(node, node.name, "{.metadata.name}")],
                severity="info",
            )
        )
    return found


def _handshake_code(state: Unregistered) -> tuple[str, str]:
    if state.why in ("stale", "deleted"):
        return f"handshake-{state.why}", "claim"
    return "node-unregistered", "outside" if state.key.startswith("--") else state.why


def _registration_proofs(case: Case, name: str) -> list[Evidence]:
    node = case.nodes[name]
    state = is_unregistered(case, name)
    if state is not None and state.quote and not state.key.startswith("--"):
        return [_evidence.of_node_annotation(node, state.key, state.quote)]
    if case.config.count in (node.status.allocatable or {}):
        return [_evidence.of_allocatable(node, case.config.count)]
    if node.metadata.label(GPU_LABEL[0]):
        return [_evidence.of_label(node, GPU_LABEL[0])]
    return [_evidence.of_node(node, node.name, "{.metadata.name}")]


def _plugin_action(name: str, pods: Sequence[Pod] | Gap | None, say: Texts) -> NextAction:
    """Restart what is there, or find out why nothing is."""
    if isinstance(pods, Sequence) and pods:
        pod = pods[0]
        return NextAction(
            say("node-unregistered.restart", node=name),
            f"kubectl -n {pod.namespace} delete pod {pod.name}",
            changes_cluster=True,
        )
    return NextAction(
        say("node-unregistered.plugin", node=name),
        prose.plugin_pods_command(name),
    )
