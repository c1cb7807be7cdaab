"""What is wrong with other vendors' devices on a node, and how it is told: their own plugins, labels and words."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta

from bot.finding_codes import Code, as_code
from bot.hami.nodes.handshake import Handshake, parse_handshake
from bot.hami.nodes.registration import Registration, Unregistered
from bot.hami.vendors.vendor import Device
from bot.report import Severity
from bot.texts import Text
from playbooks import quotes
from playbooks.gather.node_side import Plugin
from playbooks.rules.common import prose
from playbooks.rules.nodes.causes import Fault, Group, Told
from playbooks.rules.waiting import after_restart
from playbooks.rules.waiting.unregistered_nodes import (
    claim_of,
    code_and_why,
    plugin_actions,
    plugin_log,
    registration_actions,
    registration_proofs,
)
from playbooks.scenes.nodes import NodeScene, OtherDevice

_DOWN = ("not-ready", "restarting")
_PLUGIN_CLAIMS: Mapping[tuple[Code, str], str] = {
    ("device-plugin-not-ready", "claim"): "device-plugin-not-ready.claim",
    ("device-plugin-not-ready", "monitor"): "device-plugin-not-ready.monitor",
    ("device-plugin-restarting", "claim"): "device-plugin-restarting.claim",
    ("device-plugin-restarting", "monitor"): "device-plugin-restarting.monitor",
}
_PLUGIN_TROUBLES = {
    "missing": "nodes.plugin-missing",
    "not-ready": "nodes.plugin-not-ready",
    "restarting": "nodes.plugin-restarting",
}


def registration_beside(node: NodeScene) -> Iterator[Fault]:
    """Devices that should be registered and are not, or that HAMi's scheduler or kubelet does not have."""
    scene, start = node.among, after_restart.start_of(node.among.install)
    for device in node.beside:
        word, count = device.device.word, device.device.resources.count
        if isinstance(device.state, Unregistered):
            if _is_another_chip(node, device):
                continue
            if device.state.why == "stale" and scene.zone and not scene.is_overdue(_handshake(node, device)):
                yield Fault("handshake-time-zone", "west", device=word)
                continue
            code, why = code_and_why(node.node, device.state, device.device)
            health = plugin.health if (plugin := _plugin_of(node, device.device)) else ""
            severity: Severity = "info" if _may_be_of_others(node, device) else "warning"
            yield Fault(code, device.state.why if why == "claim" else why, severity, health, word)
        elif scene.misreads_time and scene.zone > timedelta() and scene.is_overdue(_handshake(node, device)):
            yield Fault("handshake-time-zone", "east", device=word)
        elif after_restart.is_not_taken_in(node.node, device.device, scene.version, start, scene.now, zone=scene.zone):
            yield Fault("handshake-stale", "restarted", device=word)
        elif not device.offered and count in (node.node.status.allocatable or {}):
            yield Fault("allocatable-mismatch", "none", device=word)


def ignored_beside(node: NodeScene) -> Iterator[Fault]:
    """Registrations that HAMi's scheduler does not read, as its flags or its device config have it."""
    scene = node.among
    for other in node.others:
        known = other.key in scene.config.by_register or (
            isinstance(other, Registration) and other.encoding == "capacity"
        )
        if known:
            continue
        if other.vendor.word in scene.off:
            yield Fault("registration-ignored", "off", "info", other.key)
        elif scene.config.names_all:
            yield Fault("registration-ignored", "unnamed", "info", other.key)


def plugins_beside(node: NodeScene) -> Iterator[Fault]:
    """Device plugins that do not run although what they registered still stands."""
    known = set[str]()
    for device in node.beside:
        vendor, plugin = device.device.vendor.names.word, _plugin_of(node, device.device)
        if plugin and plugin.health in _DOWN and vendor not in known and not isinstance(device.state, Unregistered):
            known.add(vendor)
            why = "monitor" if plugin.monitor else "claim"
            code = as_code(f"device-plugin-{plugin.health}")
            yield Fault(code, why, about=plugin.why, device=device.device.word)


def plugin_claim(fault: Fault, names: Sequence[str], plugin: Plugin) -> Text:
    """That the device plugin of these nodes, as it is on the first of them, does not run."""
    key = _PLUGIN_CLAIMS[fault.code, fault.why]
    return Text(key, nodes=prose.names(names), why=plugin.why, count=plugin.restarts)


def plugin_trouble(fault: Fault, plugin: Plugin) -> Text:
    """How it is with the device plugin of a node whose registration is at fault."""
    return Text(_PLUGIN_TROUBLES[fault.about], why=plugin.why)


def told_beside(group: Group) -> Told:
    """The claim about the nodes, with proofs of those shown and what to do."""
    scene, fault, names, shown = group.scene, group.fault, group.names, group.shown
    device, first = scene.config.by_word[fault.device], shown[0]
    plugin, count = _plugin_of(first, device), device.resources.count
    pods = [plugin.pod] if plugin and plugin.pod else []
    nodes = [node.node for node in shown]
    if fault.code.startswith("device-plugin-") and plugin and plugin.pod:
        claim = plugin_claim(fault, names, plugin)
        found = (_plugin_of(node, device) for node in shown)
        proofs = [quotes.of_plugin(device.pod, device.why) for device in found if device and device.pod]
        return claim, proofs, [plugin_log(plugin.pod)]
    if fault.code == "allocatable-mismatch":
        slots = sum(
            card.slots
            for registration in first.registrations
            if registration.word == device.word
            for card in registration.cards
        )
        values = {"node": first.name, "slots": slots, "resource": count}
        claim = Text("allocatable-mismatch.none", nodes=prose.names(names), **values)
        actions = plugin_actions(first.name, pods, device.vendor)
        return claim, [quotes.of_allocatable(node, count) for node in nodes], actions
    start = after_restart.start_of(scene.install)
    if fault.why == "restarted" and start:
        claim = after_restart.claim_about(names, start)
        actions = after_restart.steps(first.name, device, pods)
        return claim, after_restart.proofs_of(nodes, device, start), actions
    why = fault.why if fault.code == "node-unregistered" else "claim"
    claim = claim_of((fault.code, why), names, device, str(scene.version or "?"))
    if plugin and fault.about in _DOWN:
        claim = Text("nodes.and", claim=claim, why=plugin_trouble(fault, plugin))
    proofs = [proof for node in shown for proof in registration_proofs(node.node, _state_of(node, device), device)]
    return claim, proofs, registration_actions(first.name, why, pods, device.vendor)


def _is_another_chip(node: NodeScene, device: OtherDevice) -> bool:
    """Whether the vendor's plugin registered a chip that HAMi's scheduler does not read."""
    vendor = device.device.vendor.names.word
    return any(other.vendor.word == vendor and other.word != device.device.word for other in node.others)


def _may_be_of_others(node: NodeScene, device: OtherDevice) -> bool:
    """Whether only a resource that other programs serve under the same name says that HAMi hands the device out."""
    label = device.device.vendor.node_label[0]
    own = node.node.metadata.annotation(device.device.names.register) is not None
    return device.device.names.shares_domain and not own and not (label and node.node.metadata.label(label))


def _handshake(node: NodeScene, device: OtherDevice) -> Handshake | None:
    key = device.device.names.handshake
    text = node.node.metadata.annotation(key) if key else None
    return None if text is None else parse_handshake(text)


def _plugin_of(node: NodeScene, device: Device) -> Plugin | None:
    return node.plugins_beside.get(device.vendor.names.word)


def _state_of(node: NodeScene, device: Device) -> Unregistered | None:
    state = next((other.state for other in node.beside if _is(other, device)), None)
    return state if isinstance(state, Unregistered) else None


def _is(other: OtherDevice, device: Device) -> bool:
    return other.device.word == device.word
