"""Rules about the device plugin on all nodes: whether every node with GPUs has one that works."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from bot.hami.installation.install import is_ready
from bot.hami.nodes.node_state import Terms, registered, wants_own_plugin
from bot.hami.nodes.registration import Unregistered
from bot.hami.vendors import FIRST
from bot.kube.models import Node, Pod
from bot.kube.selectors import TAINT_TEXT
from bot.kube.times import parse_time
from bot.report import Finding, Severity, step
from bot.texts import Text
from playbooks.gather.scheduling import NODE_SELECTOR_FLAG
from playbooks.quotes import kubectl, of_object
from playbooks.rule import Stage, rule, run
from playbooks.rules.common import prose
from playbooks.rules.common.containers import statuses, stuck
from playbooks.rules.common.findings import finding
from playbooks.rules.dra import served
from playbooks.rules.installation.schedulers import what_ails
from playbooks.rules.nodes.node_causes import HANDS_OUT_NOTHING, NODE_CODES, scene_of
from playbooks.rules.nodes.not_selected import KeptOff, keeps_off, none_selected, refused_pods
from playbooks.rules.nodes.plugin_faults import monitor_down, panicked
from playbooks.rules.nodes.sweep import set_otherwise
from playbooks.rules.waiting.unregistered_nodes import registration_proof, registration_proofs
from playbooks.scenes.cluster import InstallScene
from playbooks.scenes.nodes import NodesScene

_STARTING = timedelta(minutes=2)


_SETTINGS = Stage[NodesScene]("settings", set_otherwise)
_READS = ("daemon sets", "device plugin pods")


@rule(*NODE_CODES, "mode-not-fit", "registered-otherwise", reads=_READS)
def plugins_fail(scene: InstallScene) -> list[Finding]:
    """The findings why plugin pods are down, or are not created, as far as a few nodes and the events tell."""
    if not scene.plugins:
        return []
    sides, sets = scene.questioned
    read = scene_of(sides.values(), sets, scene.seen, scene.now)
    # Another finding reports pods that are not ready.
    stages = [HANDS_OUT_NOTHING, *([_SETTINGS] if scene.was_read("nodes") else [])]
    found = [told for told in run(stages, read).findings if told.code != "device-plugin-not-ready"]
    refused = [cause.told(of=scene.install) for cause in refused_pods(sets)] if sets else []
    found = found or monitor_down(read) or panicked(read)
    return [*found, *(refused or (none_selected(sets, scene.nodes) if sets else []))]


@rule("plugin-not-ready", reads=_READS)
def plugins_unready(scene: InstallScene) -> Iterator[Finding]:
    down = plugins_down(scene.plugin_pods, scene.now)
    if not down or not scene.plugins:
        return
    nodes = sorted({pod.spec.node_name for pod in down if pod.spec.node_name})
    ready = str(scene.plugins[0].status.number_ready)
    proofs = [what_ails(down[0]), of_object("DaemonSet", scene.plugins[0], ready, "{.status.numberReady}")]
    claim = Text("plugin-not-ready.claim", count=len(down), nodes=prose.names(nodes), why=proofs[0].quote)
    look = step(Text("plugin-not-ready.look"), kubectl("-n", down[0].namespace, "describe", "pod", down[0].name))
    sure = scene.seen.confidence
    yield finding("plugin-not-ready", claim, sure, nodes, proofs, actions=[look])


@rule("plugin-missing", reads=(*_READS, "nodes"))
def plugins_missing(scene: InstallScene) -> Iterator[Finding]:
    """The findings about nodes with GPUs and no plugin pod, by why; info where a node is not meant for HAMi."""
    covered = {pod.spec.node_name for pod in scene.plugin_pods} | served(scene.slices)
    without = {
        node.name: node for node in scene.nodes if node.name not in covered and wants_own_plugin(node, scene.config)
    }
    if not without or not scene.plugins:
        return
    known = {name for name, node in without.items() if node.metadata.annotation(FIRST.names.register) is not None}
    reasons = {name: keeps_off(scene.plugins, node) for name, node in without.items()}
    meant = {name for name, kept in reasons.items() if kept is None or kept.is_meant or name in known}
    groups: list[tuple[set[str], Severity]] = [(meant, "warning"), (set(without) - meant, "info")]
    for names, severity in groups:
        if names:
            yield _missing(scene, {name: (without[name], reasons[name]) for name in sorted(names)}, severity)


@rule("node-unregistered", reads=(*_READS, "nodes"))
def nodes_unregistered(scene: InstallScene) -> Iterator[Finding]:
    """The finding that HAMi works, and does not know nodes with GPUs, whose device plugin had time to register them."""
    covered = {pod.spec.node_name for pod in scene.plugin_pods if not _passes(pod, scene.now)} - served(scene.slices)
    meant = [node for node in scene.nodes if node.name in covered and wants_own_plugin(node, scene.config)]
    if scene.version is None:
        return
    terms = Terms(scene.version, scene.config, scene.install.flags.get(NODE_SELECTOR_FLAG, "").strip("[]"))
    states = ((node, registered(node, terms, scene.now)) for node in meant)
    lost = [(node, state) for node, state in states if isinstance(state, Unregistered)]
    if lost:
        names, sure = [node.name for node, _ in lost], scene.seen.confidence
        claim = Text("node-unregistered.status", count=len(lost), all=len(meant), nodes=prose.names(names))
        proofs = registration_proofs(*lost[0], scene.config.devices[0], scene.install)
        yield finding("node-unregistered", claim, sure, names, proofs, actions=prose.see_node(names[0]))


def plugins_down(pods: Sequence[Pod], now: datetime) -> list[Pod]:
    """The pods that are down and not just starting, by name: a rollout replaces them one after the other."""
    return sorted((pod for pod in pods if not is_ready(pod) and not _passes(pod, now)), key=lambda pod: pod.name)


def _missing(scene: InstallScene, nodes: Mapping[str, tuple[Node, KeptOff | None]], severity: Severity) -> Finding:
    names, daemon_set = list(nodes), scene.plugins[0]
    kept = [off for _, off in nodes.values() if off]
    why = Counter(map(_why, kept)).most_common(1)
    shown = prose.names(names)
    if why:
        claim = Text("plugin-missing.kept-off", count=len(names), nodes=shown, why=why[0][0])
    else:
        claim = Text("plugin-missing.claim", count=len(names), nodes=shown)
    first, off = nodes[names[0]]
    has = registration_proof(first, None, scene.config.devices[0])
    proofs = [*(off.proofs if off else ()), has]
    look = kubectl("-n", daemon_set.namespace, "describe", "daemonset", daemon_set.name)
    tolerate = [off.tolerate for off in kept if off.is_meant]
    steps = [*tolerate[:1], step(Text("plugin-missing.look"), look)]
    return finding("plugin-missing", claim, scene.seen.confidence, names, proofs, severity=severity, actions=steps)


def _why(kept: KeptOff) -> Text:
    first = kept.obstacles[0]
    detail = kept.taint if first.text == TAINT_TEXT else first.detail
    return Text("plugin-missing.obstacle", text=first.text, detail=detail)


def _passes(pod: Pod, now: datetime) -> bool:
    """Whether the pod is on its way in or out, so that its DaemonSet has another one. One that crashes is not."""
    if pod.metadata.deletion_timestamp or pod.status.phase in ("Failed", "Succeeded"):
        return True
    if any(status.restart_count or stuck(status) for status in statuses(pod)):
        return False
    made = parse_time(pod.metadata.creation_timestamp)
    return made is not None and now - made <= _STARTING
