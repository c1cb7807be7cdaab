"""Findings about nodes whose GPUs HAMi does not know, one per reason."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import chain

from bot.finding_codes import Code, as_code
from bot.hami.fit import verdicts
from bot.hami.installation.install import Install, extender_of
from bot.hami.nodes.node_state import (
    MODE_SETTING,
    PLUGIN_CONFIG_FILE,
    READS_DEVICE_CONFIG,
    SETTING_FLAGS,
    DifferingSetting,
    GpuSettings,
    PluginSettings,
    differing_settings,
    read_plugin_settings,
)
from bot.hami.nodes.registration import GUIDES_THRESHOLD, Unregistered, parse_handshake
from bot.hami.pods.request_parsing import DEVICE_CONFIG_FILE
from bot.hami.vendors import FIRST
from bot.hami.vendors.vendor import Device, Vendor
from bot.kube.hami_pods import COMPONENT_LABEL, PLUGIN_COMPONENT, SCHEDULER_COMPONENT
from bot.kube.models import DaemonPod, Node, Pod
from bot.report import Confidence, Evidence, Finding, Gap, NextAction, act, step
from bot.texts import Prose, Text, sentences
from playbooks import quotes
from playbooks.gather.scheduling import NODE_SELECTOR_FLAG, InstallSeen
from playbooks.quotes import kubectl, kubectl_pod
from playbooks.rules.common import prose
from playbooks.rules.common.findings import Part, finding
from playbooks.rules.common.holders import edit
from playbooks.rules.waiting.cause_ranking import RankedCause, severity_of
from playbooks.scenes.waiting_pod import PodScene

_EMPTY = ("", "[]", "null", ":", "{}")
_CLAIMS: Mapping[tuple[Code, str], str] = {
    ("handshake-stale", "claim"): "handshake-stale.claim",
    ("handshake-deleted", "claim"): "handshake-deleted.claim",
    ("registration-ignored", "outside"): "registration-ignored.outside",
    ("node-unregistered", "absent"): "node-unregistered.absent",
    ("node-unregistered", "uncounted"): "node-unregistered.uncounted",
    ("node-unregistered", "empty"): "node-unregistered.empty",
    ("node-unregistered", "unreadable"): "node-unregistered.unreadable",
    ("node-unregistered", "other-format"): "node-unregistered.other-format",
    ("node-unregistered", "no-allocatable"): "node-unregistered.no-allocatable",
    ("node-unregistered", "score-unreadable"): "node-unregistered.score-unreadable",
}
PluginPods = Mapping[str, Sequence[Pod] | Gap]
"""The pods, on unregistered nodes, of the device plugin that the pod needs; by node."""


def unregistered(scene: PodScene, cause: RankedCause) -> list[Finding]:
    """One finding per reason; nodes that should have no GPUs are told of only when there is nothing else."""
    severity, plugins = severity_of(cause), scene.plugins
    expected = [name for name in cause.nodes if scene.expects_gpus(name)]
    found: list[Finding] = []
    by_why: dict[tuple[Code, str], list[str]] = {}
    for name in expected:
        if (state := scene.why_unregistered(name)) is not None:
            by_why.setdefault(code_and_why(scene.nodes[name], state, scene.device), []).append(name)
    proofs = scene.attempt.evidence_for(verdicts.NODE_UNREGISTERED)
    confidence: Confidence = "confirmed" if proofs else "suspected"
    selector = scene.install.flags.get(NODE_SELECTOR_FLAG, "").strip("[]")
    for (code, why), names in sorted(by_why.items(), key=lambda item: (-len(item[1]), item[0])):
        claim = claim_of((code, why), names, scene.device, str(scene.version or "?"), selector)
        state, of = scene.why_unregistered(names[0]), scene.install
        shown = registration_proofs(scene.nodes[names[0]], state, scene.device, of)
        actions = registration_actions(names[0], why, plugins.get(names[0]), scene.device.vendor, selector)
        shown += proofs or scene.words
        found.append(finding(code, claim, confidence, names, shown, severity=severity, actions=actions, of=of))
    normal = [name for name in cause.nodes if name not in expected]
    if normal and not found:
        claim = Text("node-unregistered.normal", nodes=prose.names(normal))
        node = scene.nodes[normal[0]]
        shown = proofs or [quotes.of_node(node, node.name, "{.metadata.name}")]
        found.append(finding("node-unregistered", claim, confidence, normal, shown, severity="info"))
    return found


def untrusted_nodes(scene: PodScene) -> Finding | None:
    """The finding of nodes whose handshake HAMi's guides call too old; a cause only if they alone would fit."""
    if scene.attempt.stage in ("bind", "filtered"):
        return None
    nodes, now, key = scene.nodes, scene.now, FIRST.names.handshake
    # Inline, to save a call for each of 5,000 nodes: hardly any has such a handshake.
    texts = [(name, (nodes[name].metadata.annotations or {}).get(key, "")) for name in scene.candidates]
    unix = [name for name, text in texts if text[:1].isdigit()]
    stale = [name for name in unix if is_untrusted(nodes[name], now) and scene.expects_gpus(name)]
    if not stale:
        return None
    blamed = [name for name in scene.fitting if name in stale]
    explains = scene.attempt.stage == "filter" and bool(blamed) and len(blamed) == len(scene.fitting)
    names = blamed if explains else stale
    proofs = scene.attempt.evidence_for(verdicts.NODE_UNREGISTERED)
    claim = Text("handshake-stale.guides", nodes=prose.names(names), threshold=int(GUIDES_THRESHOLD.total_seconds()))
    sure: Confidence = "confirmed" if proofs and explains else "suspected"
    text = nodes[names[0]].metadata.annotation(key) or ""
    proofs = [quotes.of_node_annotation(nodes[names[0]], key, text), *(proofs or scene.words)]
    severity, steps = ("warning", plugin_actions(names[0], None)) if explains else ("info", ())
    return finding("handshake-stale", claim, sure, names, proofs, severity=severity, actions=steps)


def is_untrusted(node: Node, now: datetime) -> bool:
    """Whether the node has a handshake in unix seconds that is too old by HAMi's guides."""
    text = node.metadata.annotation(FIRST.names.handshake)
    if not text or not text[0].isdigit():
        return False
    handshake = parse_handshake(text)
    return handshake.state == "unix" and handshake.at is not None and now - handshake.at > GUIDES_THRESHOLD


def code_and_why(node: Node, state: Unregistered, device: Device) -> tuple[Code, str]:
    """The code of the finding about an unregistered node, and the key of its claim in that code's section."""
    if state.why in ("stale", "deleted"):
        return as_code(f"handshake-{state.why}"), "claim"
    if state.key.startswith("--"):
        return "registration-ignored", "outside"
    if state.why == "absent" and device.capacity:
        return "node-unregistered", "uncounted"
    register = node.metadata.annotation(device.names.register) or ""
    if state.why == "unreadable" and register.strip() in _EMPTY:
        return "node-unregistered", "empty"
    return "node-unregistered", state.why


def claim_of(cause: tuple[Code, str], names: Sequence[str], device: Device, version: str, selector: str = "") -> Text:
    """The claim what is wrong with the registration of these nodes, by code and key. `selector` is the scheduler's."""
    more = {"uncounted": {"resource": device.capacity}, "outside": {"selector": selector}}.get(cause[1], {})
    register = device.names.register.format(word=device.word)
    return Text(_CLAIMS[cause], nodes=prose.names(names), version=version, register=register, **more)


def registration_proof(node: Node, state: Unregistered | None, device: Device) -> Evidence:
    """The evidence that HAMi cannot know the node's GPUs, or that the node should have some."""
    text = node.metadata.annotation(state.key) if state is not None else None
    if state is not None and text and state.quote in text:
        return quotes.of_node_annotation(node, state.key, state.quote)
    count, label = device.resources.count, device.vendor.node_label[0]
    if count in (node.status.allocatable or {}):
        return quotes.of_allocatable(node, count)
    if label and node.metadata.label(label):
        return quotes.of_label(node, label)
    return quotes.of_node(node, node.name, "{.metadata.name}")


def registration_proofs(node: Node, state: Unregistered | None, device: Device, install: Install) -> list[Evidence]:
    """The evidence why a node is not registered: first the flag that leaves it out, or what kubelet offers."""
    proof, count = registration_proof(node, state, device), device.resources.count
    if state is not None and state.key.startswith("--"):
        schedulers = [(pod, extender) for pod in install.pods if (extender := extender_of(pod.spec))]
        return [*(quotes.of_word(*scheduler, state.quote) for scheduler in schedulers[:1]), quotes.of_labels(node)]
    if state is not None and state.why == "no-allocatable" and count in (node.status.allocatable or {}):
        return [quotes.of_allocatable(node, count)]
    return [proof]


def registered_otherwise(
    setting: DifferingSetting, nodes: Prose, settings: PluginSettings, node: Node
) -> tuple[Text, list[Evidence]]:
    """The claim that HAMi's ConfigMap sets another value for these nodes than is registered; the evidence of `node`."""
    key = "mode-not-fit.registered" if setting.key == MODE_SETTING else "registered-otherwise.claim"
    differs = Text(key, nodes=nodes, key=setting.key, wanted=setting.wanted, has=setting.has)
    claim = sentences(differs, Text("registered-otherwise.at-start"))
    register = FIRST.names.register
    proofs = [quotes.of_node_annotation(node, register, node.metadata.annotation(register) or "")]
    file = DEVICE_CONFIG_FILE if setting.key in SETTING_FLAGS else PLUGIN_CONFIG_FILE
    if (config_map := settings.config_maps.get(file)) is not None:
        text = (config_map.data or {})[file]
        found = re.search(rf'"?{setting.key}"?\s*:\s*"?{re.escape(setting.wanted)}(?:\.0+)?"?', text)
        path = f"{{.data.{quotes.escape(file)}}}"
        proofs.insert(0, quotes.of_object("ConfigMap", config_map, found[0] if found else setting.key, path))
    return claim, proofs


def set_to(
    key: str, wanted: float, has: float, node: str, seen: InstallSeen, *, plugins: Sequence[Pod] | Gap | None
) -> NextAction:
    """The step that sets a key of `SETTING_FLAGS` where it stands: for this node, for all, or as the plugin's flag."""
    settings, version = read_plugin_settings(seen.config_maps), seen.install.version
    pod = plugins[0] if plugins and not isinstance(plugins, Gap) else None
    own, every = settings.by_node.get(node, GpuSettings()).value_of(key), settings.every.value_of(key)
    older = version is not None and version.version < READS_DEVICE_CONFIG
    file = DEVICE_CONFIG_FILE if own is None else PLUGIN_CONFIG_FILE
    config_map = settings.config_maps.get(file)
    values = {"key": key, "wanted": f"{wanted:g}", "now": f"{own or has:g}", "node": node}
    if config_map is None or (own is None and (older or is_started_with(key, plugins))):
        label = Text("setting.flag", **values, flag=SETTING_FLAGS[key])
        return edit(pod, label) if pod else act(label)
    values |= {"file": file, "map": f"{config_map.namespace}/{config_map.name}", "now": f"{own or every or has:g}"}
    within, labels = ("-n", config_map.namespace), ("-l", FIRST.plugin_labels)
    again = ("rollout", "restart", "daemonset", *labels)
    if own is not None:
        again = ("delete", "pod", *labels, "--field-selector", f"spec.nodeName={node}")
    commands = [kubectl(*within, "edit", "configmap", config_map.name), kubectl(*within, *again)]
    return act(Text("setting.all" if own is None else "setting.node", **values), " && ".join(commands))


_HELPS = {
    verdicts.TYPE_MISMATCH: MODE_SETTING,
    verdicts.MODE_NOT_FIT: MODE_SETTING,
    verdicts.TIME_SLICING_EXHAUSTED: "devicesplitcount",
    verdicts.INSUFFICIENT_MEMORY: "devicememoryscaling",
    verdicts.INSUFFICIENT_CORE: "devicecorescaling",
}
"""By HAMi's reason: the setting of a node that gives more of what is missing."""


def set_as_asked(scene: PodScene, cause: RankedCause) -> Part | None:
    """What to add where HAMi's ConfigMap gives a node what the pod lacks, and its GPUs are registered otherwise."""
    asked, settings = scene.request.constraints.mode, read_plugin_settings(scene.cluster.seen.config_maps)
    helps = _HELPS.get(cause.text) if scene.device.vendor is FIRST else None
    for name in cause.nodes if helps and settings.config_maps else ():
        node, cards = scene.nodes[name], scene.view.cards(name)
        for differs in differing_settings(node, cards[0].card, settings, scene.version) if cards else ():
            mode = differs.key == MODE_SETTING
            more = differs.wanted == asked if mode else float(differs.wanted) > float(differs.has)
            if differs.key.lower() == helps and more and not is_started_with(differs.key, scene.plugins.get(name)):
                claim, proofs = registered_otherwise(differs, name, settings, node)
                return Part(claim, proofs, plugin_actions(name, scene.plugins.get(name)))
    return None


def is_started_with(key: str, plugins: Sequence[Pod] | Gap | None) -> bool:
    """Whether a device plugin has the flag or variable that overrides this setting of all nodes."""
    flag = SETTING_FLAGS.get(key)
    if flag is None or plugins is None or isinstance(plugins, Gap):
        return False
    variable, parts = flag.removeprefix("--").replace("-", "_").upper(), [*chain(*(p.spec.containers for p in plugins))]
    words = (word for part in parts for word in (*(part.command or ()), *(part.args or ())))
    return any(word.partition("=")[0] == flag for word in words) or any(
        one.name == variable for part in parts for one in part.env or ()
    )


def registration_actions(
    name: str, why: str, pods: Sequence[Pod | DaemonPod] | Gap | None, vendor: Vendor = FIRST, selector: str = ""
) -> tuple[NextAction, ...]:
    """The steps for one reason of being unregistered, mostly about the device plugin. `selector` is the scheduler's."""
    labels = [one for one in selector.split(",") if one.count("=") == 1 and "!" not in one]
    if why == "outside" and labels:
        label = Text("node-unregistered.label", node=name, labels=", ".join(labels))
        return (act(label, kubectl("label", "node", name, *labels)),)
    if why == "outside":
        return (step(Text("node-unregistered.labels", node=name), kubectl("get", "node", name, "--show-labels")),)
    if why == "other-format":
        both = f"{COMPONENT_LABEL} in ({SCHEDULER_COMPONENT},{PLUGIN_COMPONENT})"
        columns = "NAME:.metadata.name,IMAGES:.spec.containers[*].image"
        show = kubectl("get", "pods", "-A", "-l", both, "-o", f"custom-columns={columns}")
        return (step(Text("node-unregistered.images"), show),)
    return plugin_actions(name, pods, vendor)


def plugin_actions(
    name: str, pods: Sequence[Pod | DaemonPod] | Gap | None, vendor: Vendor = FIRST
) -> tuple[NextAction, ...]:
    """The steps to read the device plugin's log, then restart it (which loses the log), or to see why none is there."""
    if isinstance(pods, Sequence) and pods:
        pod = pods[0]
        restart = act(Text("node-unregistered.restart", node=name), kubectl_pod(pod, "delete"))
        return plugin_log(pod), restart
    if isinstance(pods, Sequence) and vendor.plugin_labels:  # read, and none of them is there
        return (step(Text("node-unregistered.no-plugin", node=name), kubectl("get", "daemonsets", "-A", "-o", "wide")),)
    return (step(Text("node-unregistered.plugin", node=name), prose.plugin_pods_command(name, vendor)),)


def plugin_log(pod: Pod | DaemonPod) -> NextAction:
    """The step to read the end of the device plugin's log, of the run before a restart if there was one."""
    previous = ("--previous",) if any(status.restart_count for status in pod.status.container_statuses or ()) else ()
    command = kubectl("-n", pod.namespace, "logs", pod.name, "--all-containers", "--tail=50", *previous)
    return step(Text("nodes.plugin-log", node=pod.spec.node_name), command)
