"""Rules about nodes by their objects: one finding per fault, with its nodes, evidence of the first ones and steps."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import update_wrapper

from bot.finding_codes import Code
from bot.hami.nodes.node_state import (
    CORDON_KEY,
    READS_DEVICE_CONFIG,
    DifferingSetting,
    cordoned_uuids,
    read_plugin_settings,
    size_of,
)
from bot.hami.nodes.registration import GUIDES_THRESHOLD, Unregistered, digest
from bot.hami.pods.request_parsing import DEVICE_CONFIG_FILE
from bot.hami.vendors import FIRST, OWN_LOCKS, vendor_of_register_key
from bot.hami.vendors.vendor import Device
from bot.kube.models import Node
from bot.report import Confidence, Evidence, Finding, Gap, about, act, step
from bot.texts import Prose, Text, sentences
from playbooks import quotes
from playbooks.gather.node_side import NodeSide, PluginPods
from playbooks.gather.scheduling import InstallSeen
from playbooks.quotes import kubectl
from playbooks.rule import Rule, rule
from playbooks.rules.common import prose
from playbooks.rules.common.findings import Part, finding
from playbooks.rules.nodes.causes import PROVEN, Fault, Group, repair, uncordon, uncordon_node
from playbooks.rules.nodes.faults import (
    groups,
    lock_of,
    object_gaps,
    plugin_claim,
    plugin_trouble,
    told_beside,
    unhealthy,
)
from playbooks.rules.waiting.binding import lock_actions, lock_expiry, lock_in_words, owner_proofs
from playbooks.rules.waiting.unregistered_nodes import (
    claim_of,
    is_started_with,
    plugin_actions,
    plugin_log,
    registered_otherwise,
    registration_actions,
    registration_proof,
    registration_proofs,
)
from playbooks.scenes.nodes import NodeScene, NodesScene

_GUESSED = ("guides", "west", "east", "restarted")
_TIME_ZONE = {"west": "handshake-time-zone.west", "east": "handshake-time-zone.east"}
_SLOTS = {
    "none": "allocatable-mismatch.none",
    "fewer": "allocatable-mismatch.fewer",
    "more": "allocatable-mismatch.more",
    "mig": "allocatable-mismatch.mig",
}
_UNHEALTHY = {
    "kept": "card-not-healthy.kept",
    "used": "card-not-healthy.used",
    "seen": "card-not-healthy.seen",
}
_CORDONED = {
    "sweep": "card-cordoned.sweep",
    "version": "card-cordon-ignored.version",
    "unknown": "card-cordon-ignored.unknown",
}
_LOCKS_OF_SEVERAL = {
    "held": "nodes.locks-held",
    "dangling": "nodes.locks-dangling",
    "malformed": "nodes.locks-malformed",
}
_UNREGISTERED: tuple[Code, ...] = ("node-unregistered", "registration-ignored", "handshake-deleted", "handshake-stale")
_PLUGIN: tuple[Code, ...] = ("device-plugin-missing", "device-plugin-not-ready", "device-plugin-restarting")
_LOCKS: tuple[Code, ...] = ("node-lock-malformed", "node-lock-dangling", "node-lock-held")
_CORDONS: tuple[Code, ...] = ("card-cordoned", "card-cordon-ignored")


def _tells(*codes: Code) -> Callable[[Callable[[Group], Part | None]], Rule[NodesScene]]:
    """Declares the rule of faults with these codes: a finding per fault, in the function's words; None excuses it."""

    def declare(tell: Callable[[Group], Part | None]) -> Rule[NodesScene]:
        def told(scene: NodesScene) -> Iterator[Finding]:
            for group in groups(scene, codes):
                fault, names = group.fault, group.names
                beside = fault.device and fault.code != "handshake-time-zone"
                said = told_beside(group) if beside else tell(group)
                if said is None:
                    continue
                claim, proofs, steps = said
                if beside:
                    noun = scene.config.by_word[fault.device].names.noun
                    claim, steps = about(claim, noun), [action.about(noun) for action in steps]
                sure: Confidence = "suspected" if fault.why in _GUESSED or scene.once(object_gaps) else "confirmed"
                severity, install = fault.severity, scene.install
                yield finding(fault.code, claim, sure, names, proofs, severity=severity, actions=steps, of=install)

        return rule(*codes)(update_wrapper(told, tell))

    return declare


# ---------------------------------------------------------------------------------------------- Kubernetes


@_tells("node-not-ready")
def not_ready(group: Group) -> Part:
    return _kubernetes(group, Text("node-not-ready.claim", nodes=group.nodes))


@_tells("node-pressure")
def under_pressure(group: Group) -> Part:
    return _kubernetes(group, Text("node-pressure.claim", nodes=group.nodes, what=group.fault.about))


@_tells("node-cordoned")
def cordoned(group: Group) -> Part:
    part = _kubernetes(group, Text("node-cordoned.claim", nodes=group.nodes))
    return part._replace(steps=uncordon_node(group.names[0]))


def _kubernetes(group: Group, claim: Text) -> Part:
    first = group.names[0]
    proofs = [_of_kubernetes(node.node, group.fault) for node in group.shown]
    return Part(claim, proofs, [step(Text("nodes.describe", node=first), kubectl("describe", "node", first))])


# -------------------------------------------------------------------------------------------- registration


@_tells("handshake-time-zone")
def misread_time(group: Group) -> Part:
    """The claim that HAMi's scheduler reads its local time as UTC, so that it drops nodes too early or never."""
    scene, fault, version = group.scene, group.fault, str(group.scene.version or "?")
    hours = f"{scene.zone.total_seconds() / 3600:+g}"
    claim = Text(_TIME_ZONE[fault.why], nodes=group.nodes, hours=hours, version=version)
    if deployment := scene.install.deployment:
        show = kubectl("-n", scene.install.namespace, "get", "deployment", deployment.name, "-o", "yaml")
        look = act(Text("handshake-time-zone.look"), show)
    else:
        look = plugin_actions(group.names[0], None)[0]
    own = scene.config.by_word[fault.device].names if fault.device else FIRST.names
    return Part(claim, [_annotation(node.node, own.handshake) for node in group.shown], [look])


@_tells(*_UNREGISTERED)
def unregistered(group: Group) -> Part:
    """The claim that HAMi's scheduler does not know these nodes' GPUs, or will soon forget them."""
    fault, scene, shown = group.fault, group.scene, group.shown
    first, version = shown[0], str(scene.version or "?")
    if fault.why == "guides":
        claim = Text("handshake-stale.guides", nodes=group.nodes, threshold=int(GUIDES_THRESHOLD.total_seconds()))
        proofs = [_annotation(node.node, FIRST.names.handshake) for node in shown]
        return Part(claim, proofs, plugin_actions(first.name, None))
    if fault.why in ("off", "unnamed"):
        key, vendor = fault.about, vendor_of_register_key(fault.about)
        flag = scene.off[vendor[0].word] if vendor and fault.why == "off" else ""
        text = "registration-ignored.unnamed" if fault.why == "unnamed" else "registration-ignored.off"
        proofs = [_annotation(node.node, key) for node in shown]
        return Part(Text(text, nodes=group.nodes, name=key, flag=flag), proofs, [])
    why = fault.why if fault.code in ("node-unregistered", "registration-ignored") else "claim"
    own, states = scene.config.devices[0], ((node.node, node.state) for node in shown)
    claim: Prose = claim_of((fault.code, why), group.names, own, version)
    lost = ((node, state if isinstance(state, Unregistered) else None) for node, state in states)
    proofs = [proof for node, state in lost for proof in registration_proofs(node, state, own, scene.install)]
    pod = first.plugin.pod
    if fault.about == "missing" or (pod is not None and fault.about in ("not-ready", "restarting")):
        claim = sentences(claim, plugin_trouble(fault, first.plugin))
    if pod is not None and fault.about != "ready" and fault.about:
        return Part(claim, [*proofs, quotes.of_plugin(pod, first.plugin.why)], [plugin_log(pod)])
    return Part(claim, proofs, registration_actions(first.name, fault.why, [pod] if pod else None))


@_tells(*_PLUGIN)
def plugin_unwell(group: Group) -> Part:
    """The claim that the device plugin's pod on these nodes is missing, not ready, or keeps restarting."""
    shown = group.shown
    plugin = shown[0].plugin
    if plugin.pod is None:
        own = group.scene.config.devices[0]
        claim = Text("device-plugin-missing.claim", nodes=group.nodes)
        return Part(claim, [_why_expected(node, own) for node in shown], plugin_actions(group.names[0], None))
    claim = plugin_claim(group.fault, group.names, plugin)
    proofs = [quotes.of_plugin(node.plugin.pod, node.plugin.why) for node in shown if node.plugin.pod]
    return Part(claim, proofs, [plugin_log(plugin.pod)])


# --------------------------------------------------------------------------------------------------- cards


@rule("duplicate-card-uuid")
def registered_twice(scene: NodesScene) -> Iterator[Finding]:
    """The findings that several nodes register the same GPU."""
    sure: Confidence = "suspected" if scene.once(object_gaps) else "confirmed"
    shared = [(names, uuids) for names, uuids in scene.shared_uuids.items() if scene.wanted in ("", *names)]
    for names, uuids in sorted(shared, key=lambda entry: (-len(entry[0]), ",".join(entry[0]))):
        claim = Text("duplicate-card-uuid.claim", count=len(uuids), nodes=prose.names(names))
        proofs = [quotes.of_card(scene.see(name).node, uuids[0]) for name in names[:PROVEN]]
        look = step(Text("duplicate-card-uuid.look"), prose.command("nodes", names[0]))
        yield finding("duplicate-card-uuid", claim, sure, names, proofs, actions=(look,))


@_tells("allocatable-mismatch")
def offered_otherwise(group: Group) -> Part:
    """The claim that kubelet offers another number of devices than the registered GPUs have slots."""
    shown = group.shown
    first, pod = shown[0], shown[0].plugin.pod
    values = {"node": first.name, "slots": first.slots[0], "offered": first.allocatable}
    resource = group.fault.about or first.count_resource
    claim = Text(_SLOTS[group.fault.why], nodes=group.nodes, resource=resource, **values)
    cards = first.own.cards[:1] if first.own else ()
    proofs = [quotes.of_card(first.node, card.uuid) for card in cards]
    proofs += [quotes.of_allocatable(node.node, resource) for node in shown]
    return Part(claim, proofs, plugin_actions(first.name, [pod] if pod else None))


@_tells("mode-not-fit", "registered-otherwise")
def set_otherwise(group: Group) -> Part | None:
    """The claim that HAMi's ConfigMap sets another mode, split or scaling than is registered; None if a flag does."""
    plugins = [plugin for side in group.scene.questioned.sides.values() for plugin in side.plugin_pods]
    if is_started_with(group.fault.why, plugins):
        return None
    first, (wanted, has) = group.shown[0], group.fault.about.split()
    setting, pod = DifferingSetting(group.fault.why, wanted, has), first.plugin.pod
    claim, proofs = registered_otherwise(setting, group.nodes, group.scene.settings, first.node)
    return Part(claim, proofs, plugin_actions(first.name, [pod] if pod else None))


@_tells("card-not-healthy")
def not_healthy(group: Group) -> Part:
    count = sum(sum(unhealthy(group.scene.see(name)).values()) * alike for name, alike in group.alike)
    version, shown = str(group.scene.version or "?"), group.shown
    claim = Text(_UNHEALTHY[group.fault.why], count=count, nodes=group.nodes, version=version)
    bad = [(node.node, next(card for card in node.cards if not card.health)) for node in shown]
    proofs = [quotes.of_card(node, card.uuid) for node, card in bad]
    vendor = group.scene.config.device_of(bad[0][1].type).vendor
    return Part(claim, proofs, repair(group.names[0], proofs[0], vendor, shown[0].plugin.pod))


@_tells(*_CORDONS)
def cards_cordoned(group: Group) -> Part:
    """The claim that somebody cordoned GPUs, or tried to in a way that HAMi does not follow."""
    fault = group.fault
    wanted = [_meant(node, fault.why) for node in map(group.scene.see, group.names)]
    values = {"nodes": group.nodes, "count": sum(map(len, wanted)), "version": str(group.scene.version or "?")}
    claim, shown = Text(_CORDONED[fault.why], **values), group.shown
    proofs = [_annotation(seen.node, CORDON_KEY) for seen in shown]
    if fault.code == "card-cordoned":
        return Part(claim, proofs, uncordon(shown[0].node, wanted[0]))
    return Part(claim, proofs, [step(Text("card-cordoned.look"), proofs[0].command)])


def _meant(node: NodeScene, why: str) -> list[str]:
    known = {card.uuid for card in node.cards}
    cordoned = sorted(cordoned_uuids(node.node))
    return [uuid for uuid in cordoned if why == "version" or (uuid in known) == (why == "sweep")]


# --------------------------------------------------------------------------------------------------- locks


@_tells(*_LOCKS)
def node_locks(group: Group) -> Part:
    """The claim that a node lock stays for longer than an allocation takes."""
    scene, shown = group.scene, group.shown
    vendor = next((vendor for vendor in OWN_LOCKS if vendor.names.word == group.fault.why), FIRST)
    states = [lock_of(node, vendor) for node in shown]
    assert states[0] is not None
    held = lock_in_words(shown[0].node, states[0], lock_expiry(scene.install, vendor), vendor.lock_key)
    claim = held.claim
    if len(group.names) > 1:
        claim = Text(_LOCKS_OF_SEVERAL[states[0].phase], nodes=group.nodes, first=claim)
    proofs = [_annotation(node.node, vendor.lock_key) for node in shown]
    proofs += [proof for state in states for proof in owner_proofs(state, scene.owners)]
    return Part(claim, proofs, lock_actions(shown[0].name, held))


def _annotation(node: Node, key: str) -> Evidence:
    return quotes.of_node_annotation(node, key, (node.metadata.annotation(key) or "")[:200])


def _why_expected(node: NodeScene, device: Device) -> Evidence:
    if node.registrations:
        return quotes.of_card(node.node, node.registrations[0].cards[0].uuid)
    return registration_proof(node.node, None, device)


def _of_kubernetes(node: Node, fault: Fault) -> Evidence:
    if fault.about in (taint.key for taint in node.spec.taints or ()):
        return quotes.of_node(node, fault.about, "{.spec.taints[*].key}")
    if fault.code == "node-cordoned":
        return quotes.of_node(node, "true", "{.spec.unschedulable}")
    ready = next((condition.status for condition in node.status.conditions or () if condition.type == "Ready"), "")
    if ready and ready != "True":
        return quotes.of_node(node, ready, '{.status.conditions[?(@.type=="Ready")].status}')
    taints = [taint.key for taint in node.spec.taints or () if taint.key.endswith(("/not-ready", "/unreachable"))]
    return quotes.of_node(node, taints[0], "{.spec.taints[*].key}")


def looked_at(
    seen: InstallSeen,
    nodes: Iterable[Node],
    logs: Mapping[str, NodeSide],
    names: Sequence[str],
    pods: PluginPods | None,
) -> list[Text]:
    """What was read of these nodes beside their objects, in words, and what was not; only the latter without `pods`.

    `names` are the nodes whose device plugin's log would tell more, `logs` what was read of some. Without the size of a
    GPU its memory scaling cannot be told.
    """
    settings, version = read_plugin_settings(seen.config_maps), seen.install.version
    old = version is not None and version.version < READS_DEVICE_CONFIG
    texts = ((node, node.metadata.annotation(FIRST.names.register)) for node in nodes)
    digests = ((node, digest(FIRST.names, text)) for node, text in texts if text is not None)
    unsized = sorted({kind for node, cards in digests if cards for kind in cards.types if not size_of(kind, node)})
    told = [(Text("nodes.at-settings"), old or DEVICE_CONFIG_FILE in settings.config_maps)]
    if pods is not None:
        drivers = [pods.drivers] if isinstance(pods.drivers, Gap) else [read for _, read in pods.drivers]
        read = not any(isinstance(one, Gap) for one in drivers)
        told = [(Text("nodes.at-objects"), True), *told, (Text("nodes.at-plugins"), not isinstance(pods.own, Gap))]
        told.append((Text("nodes.at-drivers"), read))
    left = sum(name not in logs or not logs[name].logs or bool(logs[name].log_gaps) for name in names)
    told += [(Text("nodes.at-logs", some=left or len(names), count=len(names)), not left)] if names else []
    told += [(Text("nodes.at-scaling", types=prose.names(unsized)), False)] if unsized else []
    looked = [part for part, was in told if was and pods is not None]
    unseen = [part for part, was in told if not was]
    found = [Text("nodes.looked-at", parts=looked)] if looked else []
    return [*found, *([Text("nodes.not-looked-at", parts=unseen)] if unseen else [])]
