"""What is wrong with a node, as structured facts: one fault per cause, so that consequences are not told twice."""

from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import NamedTuple

from bot.finding_codes import Code, as_code
from bot.hami.nodes.handshake import Judgement, judge_other_vendor, parse_handshake
from bot.hami.nodes.node_lock import USUAL_ALLOCATION, LockState
from bot.hami.nodes.node_state import cordoned_uuids, handshake_of
from bot.hami.nodes.registration import Registration, Unregistered
from bot.hami.vendors import FIRST
from bot.kube.gpu_conditions import reports_fault
from bot.kube.node_readiness import is_cordoned, not_ready, pressures
from bot.kube.quantities import whole
from bot.report import SEVERITIES, Severity
from playbooks.nodes.fault import Fault
from playbooks.nodes.other_vendors import ignored_beside, plugins_beside, registration_beside
from playbooks.nodes.sweep import NodeSeen, Sweep
from playbooks.rules.common.findings import NodeCause
from playbooks.rules.dra.devices import Slices, served
from playbooks.rules.waiting.unregistered_nodes import code_and_why, is_untrusted

_HEEDS_HEALTH = (2, 7)
_HEEDS_CORDON = (2, 10)
_CONSEQUENCES = ("stale", "deleted", "no-allocatable")
"""Ways of being unregistered that a node which is not ready explains: its device plugin does not run."""

SAID = "said"
"""How a fault is told that was found out about single nodes, from their logs and pods."""
_ORDER: Sequence[Code] = (
    "node-not-ready",
    "driver-not-loaded",
    "gpu-runtime-missing",
    "device-plugin-crash",
    "second-device-plugin",
    "device-plugin-not-selected",
    "card-fault",
    "handshake-time-zone",
    "node-unregistered",
    "registration-ignored",
    "handshake-deleted",
    "handshake-stale",
    "device-plugin-missing",
    "device-plugin-not-ready",
    "device-plugin-restarting",
    "duplicate-card-uuid",
    "allocatable-mismatch",
    "node-lock-malformed",
    "node-lock-dangling",
    "node-lock-held",
    "card-not-healthy",
    "node-pressure",
    "card-cordoned",
    "card-cordon-ignored",
    "node-cordoned",
)
"""Of faults that are equally severe; any other comes after these."""
_PLACES = {code: place for place, code in enumerate(_ORDER)}


_EXPLAINED = ("device-plugin-", "allocatable-mismatch")
_TELLING = (*_EXPLAINED, "node-unregistered", "handshake-", "card-not-healthy")
"""Faults of which the node's device plugin may know the cause."""
_OF_PLUGIN = ("node-unregistered", "registration-ignored", "handshake-", "device-plugin-", "allocatable-mismatch")


class SweepFaults(NamedTuple):
    """The faults of all nodes that have cards, or should have some, and how many those nodes are.

    `well` are the nodes without a fault, `cards` how many they have.
    """

    faults: list[Fault]
    concerned: int
    well: list[str]
    cards: int


class _Looked(NamedTuple):
    """What one node, and every node that is like it, has."""

    concerns: bool
    faults: list[Fault]
    registered: bool
    cards: int


def look_at(sweep: Sweep, only: str = "") -> SweepFaults:
    """Every node once; `only` limits the answer to one, and others are looked at for the cards they share with it."""
    faults, well, concerned, cards = list[Fault](), list[str](), 0, 0
    known: dict[Hashable, _Looked] = {}
    uuids = _Uuids()
    for name in sweep.names:
        alike = sweep.alike(name)
        looked = known.get(alike[0]) if alike else None
        if looked is None:
            node = sweep.see(name)
            registered = sum(len(found.cards) for found in node.registrations)
            looked = _Looked(node.concerns, list(_faults_of_node(sweep, node)), bool(node.registrations), registered)
            own = set(_uuids(node))
        else:
            own = alike[1] if alike else ()
        if alike:
            known[alike[0]] = looked
        if not looked.concerns:
            continue
        uuids.add(own)
        if only in ("", name):
            concerned += 1
            if looked.faults:
                faults += [fault._replace(node=name) for fault in dict.fromkeys(looked.faults)]
            elif looked.registered:
                well.append(name)
                cards += looked.cards
    shared = uuids.shared(sweep)
    for names in shared:
        if only in ("", *names):
            faults += [Fault("duplicate-card-uuid", "claim", name, about=",".join(names)) for name in names]
    ill = {name for names in shared for name in names if only in ("", *names)}
    for name in ill.intersection(well):
        cards -= len(sweep.see(name).cards)
    return SweepFaults(faults, concerned, [name for name in well if name not in ill], cards)


def by_classic_rules(found: SweepFaults, sweep: Sweep, slices: Slices) -> SweepFaults:
    """Without what is asked of HAMi's device plugin, of nodes where a DRA driver of HAMi's stands in its place."""
    by_drivers = map(sweep.see, served(slices).intersection(sweep.names))
    others = {node.name for node in by_drivers if node.plugin.pod is None and not node.plugins_beside}
    rest = [fault for fault in found.faults if not (fault.node in others and fault.code.startswith(_OF_PLUGIN))]
    cleared = {fault.node for fault in found.faults} - {fault.node for fault in rest}
    return found._replace(faults=rest, concerned=found.concerned - len(cleared))


class _Uuids:
    """Which UUIDs several nodes register. Other vendors number their cards."""

    def __init__(self) -> None:
        self._seen: set[str] = set()
        self._twice: set[str] = set()

    def add(self, uuids: Collection[str]) -> None:
        """Those of one more node."""
        if not self._seen.isdisjoint(uuids):
            self._twice |= self._seen.intersection(uuids)
        self._seen.update(uuids)

    def shared(self, sweep: Sweep) -> dict[tuple[str, ...], list[str]]:
        """The UUIDs by the nodes that register them."""
        if not self._twice:
            return {}
        nodes = (node for node in map(sweep.see, sweep.names) if node.concerns)
        return shared_uuids(node for node in nodes if not self._twice.isdisjoint(_uuids(node)))


def _uuids(node: NodeSeen) -> Iterator[str]:
    return (card.uuid for card in (node.own.cards if node.own else ()) if card.uuid)


def in_question(faults: Iterable[Fault], most: int) -> list[str]:
    """So many nodes whose logs may tell more, one of each cause before a second one of any."""
    groups = [[fault.node for fault in group] for group in by_cause(faults) if group[0].code.startswith(_TELLING)]
    turns = (names[at] for at in range(most) for names in groups if at < len(names))
    return list(dict.fromkeys(turns))[:most]


def with_found(faults: Iterable[Fault], known: Mapping[tuple[str, Code], NodeCause]) -> list[Fault]:
    """The faults, with what was found out about single nodes instead of what that explains."""
    said = [Fault(code, SAID, node, cause.finding.severity, cause.why) for (node, code), cause in known.items()]
    explained = {fault.node for fault in said}
    left_out = {fault.node for fault in said if fault.code == "device-plugin-not-selected"}
    rest = [fault for fault in faults if not (fault.node in explained and fault.code.startswith(_EXPLAINED))]
    rest = [fault for fault in rest if not (fault.node in left_out and fault.code == "node-unregistered")]
    return said + [fault for fault in rest if (fault.node, fault.code) not in known]


def by_cause(faults: Iterable[Fault]) -> list[list[Fault]]:
    """The faults grouped by cause, the worst and widest cause first."""
    groups: dict[tuple[str, str, str, str], list[Fault]] = defaultdict(list)
    for fault in faults:
        groups[fault.cause].append(fault)

    def weight(group: list[Fault]) -> tuple[int, int, int, tuple[str, str, str, str]]:
        first = group[0]
        return -SEVERITIES.index(first.severity), _PLACES.get(first.code, len(_ORDER)), -len(group), first.cause

    return sorted(groups.values(), key=weight)


def shared_uuids(nodes: Iterable[NodeSeen]) -> dict[tuple[str, ...], list[str]]:
    """The UUIDs that several nodes register, by those nodes. Other vendors number their cards."""
    holders: dict[str, set[str]] = defaultdict(set)
    for node in nodes:
        for uuid in _uuids(node):
            holders[uuid].add(node.name)
    several = {uuid: names for uuid, names in holders.items() if len(names) > 1}
    found: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for uuid, names in sorted(several.items()):
        found[tuple(sorted(names))].append(uuid)
    return found


def _faults_of_node(sweep: Sweep, node: NodeSeen) -> Iterator[Fault]:
    down = not_ready(node.node)
    if down:
        yield Fault("node-not-ready", "claim", node.name)
    if is_cordoned(node.node):
        yield Fault("node-cordoned", "claim", node.name, "info")
    for key in pressures(node.node):
        yield Fault("node-pressure", "claim", node.name, about=key)
    registration = [fault for fault in _registration(sweep, node) if not (down and fault.why in _CONSEQUENCES)]
    yield from registration
    if not down:
        yield from plugins_beside(node)
    if not registration and not down:
        yield from _plugin(node)
        yield from _slots(node)
    if node.lock is not None:
        yield from _lock(node, node.lock, node.lock.why)
    for vendor, state in node.own_locks.items():
        yield from _lock(node, state, vendor)
    yield from _cards(sweep, node)


# ---------------------------------------------------------------------------------------------- registration


def _registration(sweep: Sweep, node: NodeSeen) -> Iterator[Fault]:
    yield from registration_beside(sweep, node)
    yield from ignored_beside(sweep, node)
    if not node.expects_gpus or node.of_others:
        return
    state = node.state
    if isinstance(state, Unregistered):
        code, why = code_and_why(node.node, state, sweep.config.devices[0])
        if why == "claim":
            why = state.why
        if why == "stale" and in_time_but_for_zone(sweep, node):
            yield Fault("handshake-time-zone", "west", node.name)
        elif why == "outside" or node.left_out:
            yield Fault(code, why, node.name, "info", about=node.plugin.health if node.left_out else "")
        else:
            yield Fault(code, why, node.name, about=node.plugin.health if why != "other-format" else "")
    elif is_untrusted(node.node, sweep.now):
        yield Fault("handshake-stale", "guides", node.name)
    elif never_noticed(sweep, node):
        yield Fault("handshake-time-zone", "east", node.name)


def other_handshake(sweep: Sweep, node: NodeSeen, registered: Registration) -> Judgement | None:
    """What this version makes of the handshake of another vendor's cards; None where that cannot be told."""
    key = registered.vendor.handshake.format(word=registered.word)
    text = node.node.metadata.annotation(key) if key else None
    if text is None or sweep.version is None:
        return None
    count = whole((node.node.status.allocatable or {}).get(registered.vendor.count.format(word=registered.word)))
    if count is None and sweep.version >= (2, 9):
        return None
    return judge_other_vendor(parse_handshake(text), sweep.version, count or 0, sweep.judged_at)


def in_time_but_for_zone(sweep: Sweep, node: NodeSeen) -> bool:
    """Whether a handshake is only too old because the scheduler reads its own local time as UTC (before 2.9)."""
    return bool(sweep.zone) and not sweep.is_overdue(handshake_of(node.node))


def never_noticed(sweep: Sweep, node: NodeSeen) -> bool:
    """Whether nobody has answered for long, and the scheduler will not notice: its local time lies ahead of UTC."""
    east = sweep.zone > timedelta() and sweep.version is not None and sweep.version < (2, 8)
    return east and sweep.is_overdue(handshake_of(node.node))


def _plugin(node: NodeSeen) -> Iterator[Fault]:
    """HAMi's own device plugin."""
    if node.expects_gpus and node.plugin.health not in ("ready", "unseen"):
        about = node.plugin.why if node.plugin.health != "missing" else ""
        why = "monitor" if node.plugin.monitor else "claim"
        yield Fault(as_code(f"device-plugin-{node.plugin.health}"), why, node.name, about=about)


def slots(node: NodeSeen) -> tuple[int, int]:
    """The slots of the node's cards, and those of the healthy ones."""
    cards = node.own.cards if node.own else ()
    return sum(card.slots for card in cards), sum(card.slots for card in cards if card.health)


def _slots(node: NodeSeen) -> Iterator[Fault]:
    """Kubelet offers the slots of the healthy cards, some plugins those of all. Of MIG cards only a zero tells."""
    if not isinstance(node.state, Registration):
        return
    most, least = slots(node)
    if least <= node.allocatable <= most:
        return
    if node.allocatable == 0:
        yield Fault("allocatable-mismatch", "none", node.name)
    elif all(card.mode in ("", "hami-core") for card in node.state.cards):
        yield Fault("allocatable-mismatch", "fewer" if node.allocatable < least else "more", node.name)


# --------------------------------------------------------------------------------------------- locks and cards


def _lock(node: NodeSeen, state: LockState, why: str) -> Iterator[Fault]:
    """A young lock is the usual course of things, and one that the next bind releases keeps nobody out."""
    if state.phase == "held" and state.age <= USUAL_ALLOCATION:
        return
    severity: Severity = "info" if state.passing else "warning"
    yield Fault(as_code(f"node-lock-{state.phase}"), why, node.name, severity)


def _cards(sweep: Sweep, node: NodeSeen) -> Iterator[Fault]:
    for condition in node.node.status.conditions or () if node.concerns else ():
        if reports_fault(condition.type, condition.status, condition.reason, condition.message):
            why = "cordoned" if is_cordoned(node.node) else "condition"
            yield Fault("card-fault", why, node.name, about=condition.type)
    for vendor in sorted(unhealthy(node)):
        if vendor != FIRST.names.word or sweep.version is None:
            yield Fault("card-not-healthy", "seen", node.name)
        else:
            yield Fault("card-not-healthy", "kept" if sweep.version >= _HEEDS_HEALTH else "used", node.name)
    cordoned = cordoned_uuids(node.node)
    if not cordoned:
        return
    if sweep.version is not None and sweep.version < _HEEDS_CORDON:
        yield Fault("card-cordon-ignored", "version", node.name)
        return
    known = {card.uuid for card in node.cards}
    if cordoned & known:
        yield Fault("card-cordoned", "sweep", node.name)
    if node.registrations and cordoned - known:
        yield Fault("card-cordon-ignored", "unknown", node.name)


def unhealthy(node: NodeSeen) -> Counter[str]:
    """The cards registered as unhealthy, by vendor."""
    words = [found.vendor.word for found in node.registrations for card in found.cards if not card.health]
    return Counter(words) if words else Counter()


def worst_by_node(faults: Sequence[Fault]) -> dict[str, list[Fault]]:
    """The faults of each node in the order of their findings."""
    found: dict[str, list[Fault]] = defaultdict(list)
    for group in by_cause(faults):
        for fault in group:
            found[fault.node].append(fault)
    return found
