"""What is wrong with nodes by their objects, as facts: one fault per cause, so that consequences are not told twice."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import timedelta

from bot.finding_codes import Code, as_code
from bot.hami.nodes.handshake import Judgement, judge_other_vendor, parse_handshake
from bot.hami.nodes.node_lock import USUAL_ALLOCATION, LockState
from bot.hami.nodes.node_state import cordoned_uuids, handshake_of, wants_own_plugin
from bot.hami.nodes.registration import Registration, Unregistered
from bot.hami.vendors import FIRST, OWN_LOCKS
from bot.hami.vendors.vendor import Vendor
from bot.kube.node_conditions import is_cordoned, not_ready, pressures
from bot.kube.quantities import whole
from bot.report import Gap, Severity, gap
from bot.texts import Text
from playbooks.gather.node_side import PLUGIN_SOURCE
from playbooks.gather.scheduling import Capacity
from playbooks.rules.common.gaps import capacity_gaps
from playbooks.rules.nodes.causes import Fault, Group, NodeCause
from playbooks.rules.nodes.gpu_faults import gpu_faults
from playbooks.rules.nodes.not_selected import kept_off
from playbooks.rules.nodes.other_vendors import ignored_beside, plugins_beside, registration_beside
from playbooks.rules.nodes.plugin_faults import monitor_fault, plugin_faults
from playbooks.rules.nodes.second_device_plugin import counted_otherwise
from playbooks.rules.waiting.locks import lock_on
from playbooks.rules.waiting.unregistered_nodes import code_and_why, is_untrusted
from playbooks.scenes.nodes import NodeScene, NodesScene

_HEEDS_HEALTH = (2, 7)
_HEEDS_CORDON = (2, 10)
_CONSEQUENCES = ("stale", "deleted", "no-allocatable")
"""Ways of being unregistered that a node which is not ready explains: its device plugin does not run."""
_EXPLAINED = ("device-plugin-", "allocatable-mismatch")


def groups(scene: NodesScene, codes: Sequence[Code]) -> list[Group]:
    """The nodes by their faults of these codes, in the codes' order; of one code the fault of the most nodes first."""
    found = (scene.once(by_fault).get(code, ()) for code in codes)
    return [Group(fault, scene, names, alike) for some in found for fault, names, alike in some]


def by_fault(scene: NodesScene) -> dict[Code, list[tuple[Fault, list[str], list[tuple[str, int]]]]]:
    """The nodes by code and fault: the names, and the first of those that are alike with their number."""
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
    """The nodes of which only what is asked of HAMi's device plugin is not there: a DRA driver stands in its place."""
    return {name for node, names in scene.alike if node.is_by_driver and node.once(_of_plugin) for name in names}


def gaps_of(scene: NodesScene) -> list[Gap]:
    """What could not be read of the nodes."""
    gaps = capacity_gaps(scene.seen, Capacity([], [], []), scene.undecodable)
    gaps += [owner for owner in scene.owners.values() if isinstance(owner, Gap)]
    gaps += [*(scene.plugins.gaps if scene.plugins else ()), *scene.questioned.gaps]
    gaps += [scene.slices] if isinstance(scene.slices, Gap) else []
    unknown = scene.plugins and not isinstance(scene.plugins.own, Gap) and not scene.plugins_known
    if unknown and any(wants_own_plugin(node, scene.config) for node in scene.nodes):
        gaps.append(gap(PLUGIN_SOURCE, Text("nodes.plugins-unknown"), Text("nodes.plugins-hint")))
    return gaps


def faults_of(node: NodeScene) -> list[Fault]:
    """What is wrong with the node but for what a node that was read by itself tells, and what that explains."""
    of_plugin = [] if node.is_by_driver else node.once(_of_plugin)
    found = [*_of_kubernetes(node), *of_plugin, *_locks(node), *_cards(node)]
    told = _told(node) if node.side else []
    if told:
        found = [fault for fault in found if not fault.code.startswith(_EXPLAINED)]
    if any(cause.code == "device-plugin-not-selected" for cause in told):
        found = [fault for fault in found if fault.code != "node-unregistered"]
    return found


def _told(node: NodeScene) -> list[NodeCause]:
    """What keeps a node that was read by itself from its work."""
    facts = (plugin_faults, kept_off, counted_otherwise, gpu_faults)
    return [cause for fact in facts for cause in node.once(fact)] or node.once(monitor_fault)


def _of_kubernetes(node: NodeScene) -> Iterator[Fault]:
    if not_ready(node.node):
        yield Fault("node-not-ready", "claim")
    if is_cordoned(node.node):
        yield Fault("node-cordoned", "claim", "info")
    for key in pressures(node.node):
        yield Fault("node-pressure", "claim", about=key)


def _of_plugin(node: NodeScene) -> list[Fault]:
    """What is asked of device plugins."""
    down = not_ready(node.node)
    registration = [fault for fault in _registration(node) if not (down and fault.why in _CONSEQUENCES)]
    if down:
        return registration
    return [*registration, *plugins_beside(node), *([] if registration else [*_plugin(node), *_slots(node)])]


# ---------------------------------------------------------------------------------------------- registration


def _registration(node: NodeScene) -> Iterator[Fault]:
    yield from registration_beside(node)
    yield from ignored_beside(node)
    if not node.expects_gpus or node.of_others:
        return
    state = node.state
    if isinstance(state, Unregistered):
        code, why = code_and_why(node.node, state, node.among.config.devices[0])
        if why == "claim":
            why = state.why
        if why == "stale" and in_time_but_for_zone(node):
            yield Fault("handshake-time-zone", "west")
        elif why == "outside" or node.left_out:
            yield Fault(code, why, "info", about=node.plugin.health if node.left_out else "")
        else:
            yield Fault(code, why, about=node.plugin.health if why != "other-format" else "")
    elif is_untrusted(node.node, node.among.now):
        yield Fault("handshake-stale", "guides")
    elif never_noticed(node):
        yield Fault("handshake-time-zone", "east")


def other_handshake(node: NodeScene, registered: Registration) -> Judgement | None:
    """What this version makes of the handshake of another vendor's cards; None where that cannot be told."""
    key = registered.vendor.handshake.format(word=registered.word)
    text = node.node.metadata.annotation(key) if key else None
    if text is None or node.among.version is None:
        return None
    count = whole((node.node.status.allocatable or {}).get(registered.vendor.count.format(word=registered.word)))
    if count is None and node.among.version >= (2, 9):
        return None
    return judge_other_vendor(parse_handshake(text), node.among.version, count or 0, node.among.judged_at)


def in_time_but_for_zone(node: NodeScene) -> bool:
    """Whether a handshake is only too old because the scheduler reads its own local time as UTC (before 2.9)."""
    return bool(node.among.zone) and not node.among.is_overdue(handshake_of(node.node))


def never_noticed(node: NodeScene) -> bool:
    """Whether nobody has answered for long, and the scheduler will not notice: its local time lies ahead of UTC."""
    east = node.among.zone > timedelta() and node.among.version is not None and node.among.version < (2, 8)
    return east and node.among.is_overdue(handshake_of(node.node))


def _plugin(node: NodeScene) -> Iterator[Fault]:
    """HAMi's own device plugin."""
    if node.expects_gpus and node.plugin.health not in ("ready", "unseen"):
        about = node.plugin.why if node.plugin.health != "missing" else ""
        why = "monitor" if node.plugin.monitor else "claim"
        yield Fault(as_code(f"device-plugin-{node.plugin.health}"), why, about=about)


def _slots(node: NodeScene) -> Iterator[Fault]:
    """Kubelet offers the slots of the healthy cards, some plugins those of all. Of MIG cards only a zero tells."""
    if not isinstance(node.state, Registration):
        return
    most, least = node.slots
    if least <= node.allocatable <= most:
        return
    if node.allocatable == 0:
        yield Fault("allocatable-mismatch", "none")
    elif all(card.mode in ("", "hami-core") for card in node.state.cards):
        yield Fault("allocatable-mismatch", "fewer" if node.allocatable < least else "more")


# --------------------------------------------------------------------------------------------- locks and cards


def lock_of(node: NodeScene, vendor: Vendor = FIRST) -> LockState | None:
    """What the lock is that keeps pods for the vendor's devices off the node, None when there is none."""
    return lock_on(node.node, node.among.install, node.among.now, node.among.owners, vendor)


def locks_of(node: NodeScene) -> list[tuple[Vendor, LockState]]:
    """The locks of the node, those that a vendor's binds take in a way of their own behind the usual one."""
    found = ((vendor, lock_of(node, vendor)) for vendor in (FIRST, *OWN_LOCKS))
    return [(vendor, state) for vendor, state in found if state is not None]


def _locks(node: NodeScene) -> Iterator[Fault]:
    """A young lock is the usual course of things, and one that the next bind releases keeps nobody out."""
    for vendor, state in locks_of(node):
        if state.phase != "held" or state.age > USUAL_ALLOCATION:
            severity: Severity = "info" if state.passing else "warning"
            why = state.why if vendor is FIRST else vendor.names.word
            yield Fault(as_code(f"node-lock-{state.phase}"), why, severity)


def _cards(node: NodeScene) -> Iterator[Fault]:
    for vendor in sorted(unhealthy(node)):
        if vendor != FIRST.names.word or node.among.version is None:
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
    """The cards registered as unhealthy, by vendor."""
    words = [found.vendor.word for found in node.registrations for card in found.cards if not card.health]
    return Counter(words) if words else Counter()
