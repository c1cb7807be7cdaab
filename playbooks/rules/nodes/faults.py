"""Finds faults of nodes by their objects, one per cause, so that consequences are not told twice."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta

from bot.finding_codes import Code, as_code
from bot.hami.nodes.node_lock import USUAL_ALLOCATION, LockState
from bot.hami.nodes.node_state import MODE_SETTING, cordoned_uuids, differing_settings, handshake_of, wants_own_plugin
from bot.hami.nodes.registration import (
    OTHERS_BY_KUBELET_SINCE,
    Handshake,
    Judgement,
    Registration,
    Unregistered,
    judge_as_scheduler,
    parse_handshake,
)
from bot.hami.vendors import FIRST, OWN_LOCKS
from bot.hami.vendors.vendor import Device, Vendor
from bot.kube.node_conditions import is_cordoned, not_ready, pressures
from bot.kube.quantities import whole
from bot.report import Gap, Severity, gap
from bot.texts import Text, sentences
from playbooks import quotes
from playbooks.gather.node_side import PLUGIN_SOURCE, Plugin, by_node
from playbooks.gather.scheduling import Capacity
from playbooks.rules.common import prose
from playbooks.rules.common.findings import Part, capacity_gaps
from playbooks.rules.nodes.causes import Fault, Group, NodeCause
from playbooks.rules.nodes.gpu_faults import MIG, counted_otherwise, gpu_faults
from playbooks.rules.nodes.not_selected import kept_off
from playbooks.rules.nodes.plugin_faults import monitor_fault, plugin_faults
from playbooks.rules.waiting.binding import lock_on
from playbooks.rules.waiting.stale_scheduler import (
    is_not_taken_in,
    restart_proofs,
    restart_steps,
    since_restart,
    start_of,
)
from playbooks.rules.waiting.unregistered_nodes import (
    claim_of,
    code_and_why,
    is_untrusted,
    plugin_actions,
    plugin_log,
    registration_actions,
    registration_proofs,
)
from playbooks.scenes.nodes import NodeScene, NodesScene, OtherDevice

_HEEDS_HEALTH = (2, 7)
_HEEDS_CORDON = (2, 10)
_CONSEQUENCES = ("stale", "deleted", "no-allocatable")
"""Reasons for a missing registration that a node has because it is not ready: its device plugin does not run."""
_EXPLAINED = ("device-plugin-", "allocatable-mismatch")


def groups(scene: NodesScene, codes: Sequence[Code]) -> list[Group]:
    """The nodes by fault for these codes, in the codes' order; of one code the fault of the most nodes first."""
    found = (scene.once(by_fault).get(code, ()) for code in codes)
    return [Group(fault, scene, names, alike) for some in found for fault, names, alike in some]


def by_fault(scene: NodesScene) -> dict[Code, list[tuple[Fault, list[str], list[tuple[str, int]]]]]:
    """By code, each fault with its nodes' names, and the first node of each set of alike nodes with the set's size."""
    found = dict[Fault, tuple[list[str], list[tuple[str, int]]]]()
    for node, names in scene.alike:
        for fault in dict.fromkeys(node.once(faults_of)):
            of_all, alike = found.setdefault(fault, ([], []))
            of_all.extend(names)
            alike.append((node.name, len(names)))
    by_code = dict[Code, list[tuple[Fault, list[str], list[tuple[str, int]]]]]()
    for fault, (names, alike) in sorted(found.items(), key=lambda item: (-len(item[1][0]), item[0])):
        by_code.setdefault(fault.code, []).append((fault, sorted(names), alike))
    return by_code


def excused(scene: NodesScene) -> set[str]:
    """The nodes where faults of HAMi's device plugin do not count, because a DRA driver replaces it."""
    return {name for node, names in scene.alike if node.is_by_driver and node.once(_of_plugin) for name in names}


def gaps_of(scene: NodesScene) -> list[Gap]:
    gaps = capacity_gaps(scene.seen, Capacity([], [], []), scene.undecodable)
    gaps += [gap for gap in scene.owners.values() if isinstance(gap, Gap)]
    gaps += [*(scene.plugins.gaps if scene.plugins else ()), *scene.questioned.gaps]
    gaps += [scene.slices] if isinstance(scene.slices, Gap) else []
    unknown = scene.plugins and not isinstance(scene.plugins.own, Gap) and not by_node(scene.plugins.own, scene.now)
    if unknown and any(wants_own_plugin(node, scene.config) for node in scene.nodes):
        gaps.append(gap(PLUGIN_SOURCE, Text("nodes.plugins-unknown"), Text("nodes.plugins-hint")))
    return gaps


def object_gaps(scene: NodesScene) -> list[Gap]:
    """The gaps about the nodes, except those of logs: what objects prove needs no log."""
    of_logs = [gap for side in scene.questioned.sides.values() for gap in side.log_gaps]
    return [gap for gap in scene.once(gaps_of) if gap not in of_logs]


def faults_of(node: NodeScene) -> list[Fault]:
    """The faults of the node, without those that its own pods and logs explain, where these were read."""
    of_plugin = [] if node.is_by_driver else node.once(_of_plugin)
    # A young lock is normal, and one that the next bind releases keeps no pod out.
    locks = [(vendor, lock) for vendor, lock in locks_of(node) if lock.phase != "held" or lock.age > USUAL_ALLOCATION]
    found = [*_of_kubernetes(node), *of_plugin]
    for vendor, lock in locks:
        severity: Severity = "info" if lock.passing else "warning"
        why = lock.why if vendor is FIRST else vendor.names.word
        found.append(Fault(as_code(f"node-lock-{lock.phase}"), why, severity))
    found += _cards(node)
    told = _told(node) if node.side else []
    if told:
        found = [fault for fault in found if not fault.code.startswith(_EXPLAINED)]
    if any(cause.code == "device-plugin-not-selected" for cause in told):
        found = [fault for fault in found if fault.code != "node-unregistered"]
    return found


def _told(node: NodeScene) -> list[NodeCause]:
    searches = (plugin_faults, kept_off, counted_otherwise, gpu_faults)
    return [cause for search in searches for cause in node.once(search)] or node.once(monitor_fault)


def _of_kubernetes(node: NodeScene) -> Iterator[Fault]:
    if not_ready(node.node):
        yield Fault("node-not-ready", "claim")
    if is_cordoned(node.node):
        yield Fault("node-cordoned", "claim", "info")
    for key in pressures(node.node):
        yield Fault("node-pressure", "claim", about=key)


def _of_plugin(node: NodeScene) -> list[Fault]:
    down = not_ready(node.node)
    registration = [fault for fault in _registration(node) if not (down and fault.why in _CONSEQUENCES)]
    if down:
        return registration
    rest = [] if registration else [*_plugin(node), *_slots(node), *_settings(node)]
    return [*registration, *plugins_beside(node), *rest]


# ---------------------------------------------------------------------------------------------- registration


def _registration(node: NodeScene) -> Iterator[Fault]:
    yield from registration_beside(node)
    for other in node.others:  # that HAMi's scheduler does not read, as its flags or its device config have it
        counted = isinstance(other, Registration) and other.encoding == "capacity"
        if counted or other.key in node.among.config.by_register:
            continue
        if other.vendor.word in node.among.off:
            yield Fault("registration-ignored", "off", "info", other.key)
        elif node.among.config.names_all:
            yield Fault("registration-ignored", "unnamed", "info", other.key)
    if not node.expects_gpus or node.of_others:
        return
    state, zone, overdue = node.state, node.among.zone, node.among.is_overdue(handshake_of(node.node))
    if isinstance(state, Unregistered):
        code, why = code_and_why(node.node, state, node.among.config.devices[0])
        if why == "claim":
            why = state.why
        if why == "stale" and zone and not overdue:  # the scheduler reads its own local time as UTC
            yield Fault("handshake-time-zone", "west")
        elif why == "outside" or node.left_out:
            yield Fault(code, why, "info", about=node.plugin.health if node.left_out else "")
        else:
            yield Fault(code, why, about=node.plugin.health if why != "other-format" else "")
    elif is_untrusted(node.node, node.among.now):
        yield Fault("handshake-stale", "guides")
    elif overdue and zone > timedelta() and node.among.version is not None and node.among.version < (2, 8):
        yield Fault("handshake-time-zone", "east")


def other_handshake(node: NodeScene, registered: Registration) -> Judgement | None:
    """What HAMi's version makes of the handshake of a vendor other than NVIDIA; None without one, or if unknown."""
    key = registered.vendor.handshake.format(word=registered.word)
    text = node.node.metadata.annotation(key) if key else None
    if text is None or node.among.version is None:
        return None
    count = whole((node.node.status.allocatable or {}).get(registered.vendor.count.format(word=registered.word)))
    if count is None and node.among.version >= (2, 9):
        return None
    handshake, version, now = parse_handshake(text), node.among.version, node.among.judged_at
    return judge_as_scheduler(handshake, version, count or 0, now, OTHERS_BY_KUBELET_SINCE)


def _plugin(node: NodeScene) -> Iterator[Fault]:
    if node.expects_gpus and node.plugin.health not in ("ready", "unseen"):
        about = node.plugin.why if node.plugin.health != "missing" else ""
        why = "monitor" if node.plugin.monitor else "claim"
        yield Fault(as_code(f"device-plugin-{node.plugin.health}"), why, about=about)


def _slots(node: NodeScene) -> Iterator[Fault]:
    """Kubelet offers the slots of healthy GPUs, some plugins those of all. For MIG GPUs only a zero tells."""
    if not isinstance(node.state, Registration):
        return
    capacity, offered = node.node.status.capacity or {}, node.node.status.allocatable or {}
    for name in sorted(name for name in capacity if name.startswith(MIG)):
        if whole(capacity[name]) and not whole(offered.get(name)):
            yield Fault("allocatable-mismatch", "mig", about=name)
    most, least = node.slots
    if least <= node.allocatable <= most:
        return
    if node.allocatable == 0:
        yield Fault("allocatable-mismatch", "none")
    elif all(card.mode in ("", "hami-core") for card in node.state.cards):
        yield Fault("allocatable-mismatch", "fewer" if node.allocatable < least else "more")


def _settings(node: NodeScene) -> Iterator[Fault]:
    """A setting of HAMi's ConfigMap for the node by name that its device plugin registered otherwise."""
    for card in node.own.cards[:1] if node.own else ():
        for setting in differing_settings(node.node, card, node.among.settings, node.among.version):
            code = "mode-not-fit" if setting.key == MODE_SETTING else "registered-otherwise"
            yield Fault(code, setting.key, about=f"{setting.wanted} {setting.has}")


# --------------------------------------------------------------------------------------------- locks and cards


def lock_of(node: NodeScene, vendor: Vendor = FIRST) -> LockState | None:
    """The state of the lock that keeps pods for the vendor's devices off the node; None without a lock."""
    return lock_on(node.node, node.among.install, node.among.now, node.among.owners, vendor)


def locks_of(node: NodeScene) -> list[tuple[Vendor, LockState]]:
    """The node's locks by vendor: the usual one, then those of vendors whose binds lock in their own way."""
    found = ((vendor, lock_of(node, vendor)) for vendor in (FIRST, *OWN_LOCKS))
    return [(vendor, state) for vendor, state in found if state is not None]


def _cards(node: NodeScene) -> Iterator[Fault]:
    for word in sorted(unhealthy(node)):
        if word != FIRST.names.word or node.among.version is None:
            yield Fault("card-not-healthy", "seen")
        else:
            yield Fault("card-not-healthy", "kept" if node.among.version >= _HEEDS_HEALTH else "used")
    cordoned = cordoned_uuids(node.node)
    if not cordoned:
        return
    if node.among.version is not None and node.among.version < _HEEDS_CORDON:
        yield Fault("card-cordon-ignored", "version")
        return
    known = {card.uuid for card in node.cards}
    if cordoned & known:
        yield Fault("card-cordoned", "sweep")
    if node.registrations and cordoned - known:
        yield Fault("card-cordon-ignored", "unknown")


def unhealthy(node: NodeScene) -> Counter[str]:
    """The number of GPUs registered as unhealthy, by vendor."""
    return Counter(found.vendor.word for found in node.registrations for card in found.cards if not card.health)


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
    """Faults of other vendors' devices that are not registered, or that HAMi's scheduler or kubelet lacks."""
    scene, start = node.among, start_of(node.among.install)
    for device in node.beside:
        word, count, vendor = device.device.word, device.device.resources.count, device.device.vendor
        if isinstance(device.state, Unregistered):
            if any(other.vendor.word == vendor.names.word and other.word != word for other in node.others):
                continue  # its plugin registered a chip that HAMi's scheduler does not read
            if device.state.why == "stale" and scene.zone and not scene.is_overdue(_handshake(node, device)):
                yield Fault("handshake-time-zone", "west", device=word)
                continue
            code, why = code_and_why(node.node, device.state, device.device)
            health = plugin.health if (plugin := _plugin_of(node, device.device)) else ""
            # Without an annotation or label, the resource may be that of another program with the same name.
            own = node.node.metadata.annotation(device.device.names.register) is not None
            own = own or bool(vendor.node_label[0] and node.node.metadata.label(vendor.node_label[0]))
            severity: Severity = "info" if device.device.names.shares_domain and not own else "warning"
            yield Fault(code, device.state.why if why == "claim" else why, severity, health, word)
        elif scene.misreads_time and scene.zone > timedelta() and scene.is_overdue(_handshake(node, device)):
            yield Fault("handshake-time-zone", "east", device=word)
        elif is_not_taken_in(node.node, device.device, scene.version, start, scene.now, zone=scene.zone):
            yield Fault("handshake-stale", "restarted", device=word)
        elif not device.offered and count in (node.node.status.allocatable or {}):
            yield Fault("allocatable-mismatch", "none", device=word)


def plugins_beside(node: NodeScene) -> Iterator[Fault]:
    """Faults of other vendors' device plugins that do not run although their registration is still there."""
    known = set[str]()
    for device in node.beside:
        word, plugin = device.device.vendor.names.word, _plugin_of(node, device.device)
        if plugin and plugin.health in _DOWN and word not in known and not isinstance(device.state, Unregistered):
            known.add(word)
            why = "monitor" if plugin.monitor else "claim"
            code = as_code(f"device-plugin-{plugin.health}")
            yield Fault(code, why, about=plugin.why, device=device.device.word)


def plugin_claim(fault: Fault, names: Sequence[str], plugin: Plugin) -> Text:
    """The claim that the device plugin of these nodes does not run, with the state on the first node."""
    key = _PLUGIN_CLAIMS[fault.code, fault.why]
    return Text(key, nodes=prose.names(names), why=plugin.why, count=plugin.restarts)


def plugin_trouble(fault: Fault, plugin: Plugin) -> Text:
    return Text(_PLUGIN_TROUBLES[fault.about], why=plugin.why)


def told_beside(group: Group) -> Part:
    scene, fault, names, shown = group.scene, group.fault, group.names, group.shown
    device, first = scene.config.by_word[fault.device], shown[0]
    plugin, count = _plugin_of(first, device), device.resources.count
    pods = [plugin.pod] if plugin and plugin.pod else None
    nodes = [node.node for node in shown]
    if fault.code.startswith("device-plugin-") and plugin and plugin.pod:
        claim = plugin_claim(fault, names, plugin)
        found = (_plugin_of(node, device) for node in shown)
        proofs = [quotes.of_plugin(own.pod, own.why) for own in found if own and own.pod]
        return Part(claim, proofs, [plugin_log(plugin.pod)])
    if fault.code == "allocatable-mismatch":
        cards = (card for one in first.registrations if one.word == device.word for card in one.cards)
        slots = sum(card.slots for card in cards)
        values = {"node": first.name, "slots": slots, "resource": count}
        claim = Text("allocatable-mismatch.none", nodes=prose.names(names), **values)
        proofs = [quotes.of_allocatable(node, count) for node in nodes]
        return Part(claim, proofs, plugin_actions(first.name, pods, device.vendor))
    start = start_of(scene.install)
    if fault.why == "restarted" and start:
        proofs = restart_proofs(nodes, device, start)
        return Part(since_restart(names, start), proofs, restart_steps(first.name, device, pods))
    why = fault.why if fault.code == "node-unregistered" else "claim"
    claim = claim_of((fault.code, why), names, device, str(scene.version or "?"))
    if plugin and fault.about in _DOWN:
        claim = sentences(claim, plugin_trouble(fault, plugin))
    found = ((node.node, [one.state for one in node.beside if one.device.word == device.word][:1]) for node in shown)
    lost = ((node, next((one for one in states if isinstance(one, Unregistered)), None)) for node, states in found)
    proofs = [proof for node, state in lost for proof in registration_proofs(node, state, device, scene.install)]
    return Part(claim, proofs, registration_actions(first.name, why, pods, device.vendor))


def _handshake(node: NodeScene, device: OtherDevice) -> Handshake | None:
    key = device.device.names.handshake
    text = node.node.metadata.annotation(key) if key else None
    return None if text is None else parse_handshake(text)


def _plugin_of(node: NodeScene, device: Device) -> Plugin | None:
    return node.plugins_beside.get(device.vendor.names.word)
