"""The device plugin: whether every node with GPUs has one that works."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from msgspec import structs

from bot.hami.installation.install import is_ready
from bot.hami.nodes.node_state import wants_own_plugin
from bot.hami.vendors import FIRST
from bot.kube.models import Node, Pod, Workload
from bot.kube.times import parse_time
from bot.report import Evidence, Finding, Gap, Severity, step
from bot.texts import Prose, Text
from playbooks import quotes
from playbooks.quotes import kubectl
from playbooks.rule import run
from playbooks.rules.common import prose
from playbooks.rules.common.containers import statuses, stuck
from playbooks.rules.common.findings import finding
from playbooks.rules.common.hami_objects import Parts, of_object
from playbooks.rules.dra.devices import served
from playbooks.rules.installation.schedulers import what_ails
from playbooks.rules.nodes.node_causes import HANDS_OUT_NOTHING, scene_of
from playbooks.rules.nodes.not_selected import keeps_off, none_selected, refused_pods
from playbooks.rules.nodes.plugin_faults import monitor_down

_STARTING = timedelta(minutes=2)


def coverage(parts: Parts, now: datetime) -> list[Finding]:
    """Plugin pods that are not ready, and nodes with GPUs that have none."""
    components = parts.components
    if isinstance(components.plugins, Gap) or isinstance(components.plugin_pods, Gap) or not components.plugins:
        return []
    daemon_sets, pods = components.plugins, components.plugin_pods
    findings: list[Finding | None] = [*_causes(parts, now), _unready(parts, daemon_sets, pods, now)]
    if not isinstance(components.nodes, Gap):
        findings += _absent(parts, daemon_sets, pods, components.nodes)
    return [finding for finding in findings if finding is not None]


def plugins_down(pods: Sequence[Pod], now: datetime) -> list[Pod]:
    """Pods that are down and not just starting: a rollout replaces them one after the other."""
    return sorted((pod for pod in pods if not is_ready(pod) and not _passes(pod, now)), key=lambda pod: pod.name)


def _causes(parts: Parts, now: datetime) -> list[Finding]:
    """Why pods are down, or are not created, as far as a few nodes and the events tell."""
    sides, sets = parts.questioned
    read = scene_of(sides.values(), sets, parts.seen, now)
    # That pods are not ready is told anyway.
    found = [
        finding for finding in run([HANDS_OUT_NOTHING], read).findings if finding.code != "device-plugin-not-ready"
    ]
    nodes = () if isinstance(parts.components.nodes, Gap) else parts.components.nodes
    refused = [cause.told() for cause in refused_pods(sets)] if sets else []
    return [*(found or monitor_down(read)), *(refused or (none_selected(sets, nodes) if sets else []))]


def _unready(parts: Parts, daemon_sets: Sequence[Workload], pods: Sequence[Pod], now: datetime) -> Finding | None:
    down = plugins_down(pods, now)
    if not down:
        return None
    nodes = sorted({pod.spec.node_name for pod in down if pod.spec.node_name})
    proofs = [what_ails(down[0]), *_counts(daemon_sets[0])]
    claim = Text("plugin-not-ready.claim", count=len(down), nodes=prose.names(nodes), why=proofs[0].quote)
    result = finding("plugin-not-ready", claim, parts.confidence, nodes, proofs, severity="warning")
    look = kubectl("-n", down[0].namespace, "describe", "pod", down[0].name)
    return structs.replace(result, next_actions=(step(Text("plugin-not-ready.look"), look),))


def _absent(parts: Parts, daemon_sets: Sequence[Workload], pods: Sequence[Pod], nodes: Sequence[Node]) -> list[Finding]:
    """Nodes with GPUs and no plugin pod, by what keeps it away. What HAMi has nothing to do with is only told."""
    covered = {pod.spec.node_name for pod in pods}
    covered |= served(parts.components.slices)
    without = {
        node.name: node for node in nodes if node.name not in covered and wants_own_plugin(node, parts.seen.config)
    }
    if not without:
        return []
    known = {name: node for name, node in without.items() if node.metadata.annotation(FIRST.names.register) is not None}
    reasons = {name: _why(daemon_sets, node) for name, node in without.items()}
    meant = {name for name, why in reasons.items() if not why or name in known}
    groups: list[tuple[set[str], Severity]] = [(meant, "warning"), (set(without) - meant, "info")]
    return [
        _missing(parts, daemon_sets[0], {name: (without[name], reasons[name]) for name in sorted(some)}, severity)
        for some, severity in groups
        if some
    ]


def _missing(
    parts: Parts, daemon_set: Workload, nodes: Mapping[str, tuple[Node, Prose]], severity: Severity
) -> Finding:
    names = list(nodes)
    why = Counter(reason for _, reason in nodes.values() if reason).most_common(1)
    shown = prose.names(names)
    if why:
        claim = Text("plugin-missing.kept-off", count=len(names), nodes=shown, why=why[0][0])
    else:
        claim = Text("plugin-missing.claim", count=len(names), nodes=shown)
    proofs = [quotes.of_node(nodes[names[0]][0], names[0], "{.metadata.name}"), *_counts(daemon_set)]
    result = finding("plugin-missing", claim, parts.confidence, names, proofs, severity=severity)
    look = kubectl("-n", daemon_set.namespace, "describe", "daemonset", daemon_set.name)
    return structs.replace(result, next_actions=(step(Text("plugin-missing.look"), look),))


def _why(daemon_sets: Sequence[Workload], node: Node) -> Prose:
    """What keeps every plugin off the node, as far as objects tell; empty when nothing does."""
    kept = keeps_off(daemon_sets, node)
    return Text("plugin-missing.obstacle", text=kept[1].text, detail=kept[1].detail) if kept else ""


def _counts(daemon_set: Workload) -> list[Evidence]:
    status = daemon_set.status
    return [of_object("DaemonSet", daemon_set, str(status.number_ready), "{.status.numberReady}")]


def _passes(pod: Pod, now: datetime) -> bool:
    """A pod that is on its way in or out: its DaemonSet has another one, or will. One that crashes is not."""
    if pod.metadata.deletion_timestamp or pod.status.phase in ("Failed", "Succeeded"):
        return True
    if any(status.restart_count or stuck(status) for status in statuses(pod)):
        return False
    made = parse_time(pod.metadata.creation_timestamp)
    return made is not None and now - made <= _STARTING
