"""The findings of a sweep: one per cause, with the nodes that have it, proof of the first ones and what to do."""

from collections.abc import Callable, Mapping, Sequence

from msgspec import structs

from bot.finding_codes import Code
from bot.hami.nodes.handshake import GUIDES_THRESHOLD
from bot.hami.nodes.node_lock import LOCK_KEY
from bot.hami.nodes.node_state import CORDON_KEY, cordoned_uuids
from bot.hami.nodes.registration import Unregistered
from bot.hami.vendors import BY_WORD, FIRST, vendor_of_register_key
from bot.hami.vendors.vendor import Device
from bot.kube.models import Node
from bot.report import Confidence, Evidence, Finding, NextAction, about, step
from bot.texts import Prose, Text
from playbooks import quotes
from playbooks.nodes.fault import Fault
from playbooks.nodes.faults import SAID, shared_uuids, slots, unhealthy
from playbooks.nodes.other_vendors import plugin_claim, plugin_trouble, told_beside
from playbooks.nodes.sweep import NodeSeen, Sweep
from playbooks.quotes import kubectl
from playbooks.rules.common import prose
from playbooks.rules.common.findings import NodeCause, finding
from playbooks.rules.nodes.gpu_cordons import uncordon
from playbooks.rules.nodes.gpu_faults import reported
from playbooks.rules.nodes.node_causes import together
from playbooks.rules.waiting.locks import lock_actions, lock_in_words, owner_proofs
from playbooks.rules.waiting.unregistered_nodes import (
    claim_of,
    plugin_actions,
    plugin_log,
    registration_actions,
    registration_proof,
)

_GUESSED = ("guides", "west", "east", "restarted")
_TIME_ZONE = {"west": "handshake-time-zone.west", "east": "handshake-time-zone.east"}
_SLOTS = {
    "none": "allocatable-mismatch.none",
    "fewer": "allocatable-mismatch.fewer",
    "more": "allocatable-mismatch.more",
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
_OF_KUBERNETES: Mapping[str, str] = {
    "node-not-ready": "node-not-ready.claim",
    "node-pressure": "node-pressure.claim",
    "node-cordoned": "node-cordoned.claim",
}
_LOCKS = {
    "held": "nodes.locks-held",
    "dangling": "nodes.locks-dangling",
    "malformed": "nodes.locks-malformed",
}
_PROVEN = 3
"""Nodes of a finding that are quoted."""

Known = Mapping[tuple[str, Code], NodeCause]
"""What was found out about single nodes, by node and code."""
Told = tuple[Prose, list[Evidence], Sequence[NextAction]]


class Wording:
    """The findings about the faults of one sweep."""

    def __init__(self, sweep: Sweep, confidence: Confidence, known: Known) -> None:
        self.sweep = sweep
        self.known = known
        self.confidence: Confidence = confidence
        self._version = str(sweep.version or "?")
        self._own = sweep.config.devices[0]

    def finding(self, group: Sequence[Fault]) -> Finding:
        """The finding of one cause."""
        first = group[0]
        if first.why == SAID:
            return together([self.known[fault.node, fault.code].finding for fault in group])
        names = sorted({fault.node for fault in group})
        shown = [self.sweep.see(name) for name in names[:_PROVEN]]
        tell = self.teller(first)
        claim, proofs, actions = tell(first, names, shown)
        confidence: Confidence = "suspected" if first.why in _GUESSED else self.confidence
        made = finding(first.code, claim, confidence, names, proofs, severity=first.severity)
        return structs.replace(made, next_actions=tuple(actions))

    def teller(self, fault: Fault) -> Callable[[Fault, Sequence[str], Sequence[NodeSeen]], Told]:
        """What tells a fault that the sweep itself found. Raises KeyError for a code without one."""
        code = fault.code
        if code == "handshake-time-zone":
            return self._time_zone
        if fault.device:
            return self._beside
        if code.startswith("handshake-") or code in ("node-unregistered", "registration-ignored"):
            return self._unregistered
        if code.startswith("node-lock-"):
            return self._lock
        if code.startswith("device-plugin-"):
            return self._plugin
        return {
            "card-fault": self._reported,
            "duplicate-card-uuid": self._duplicates,
            "allocatable-mismatch": self._slots,
            "card-not-healthy": self._unhealthy,
            "card-cordoned": self._cordoned,
            "card-cordon-ignored": self._cordoned,
            "node-not-ready": self._kubernetes,
            "node-pressure": self._kubernetes,
            "node-cordoned": self._kubernetes,
        }[code]

    def _beside(self, fault: Fault, names: Sequence[str], shown: Sequence[NodeSeen]) -> Told:
        claim, proofs, steps = told_beside(self.sweep, fault, names, shown)
        noun = self.sweep.config.by_word[fault.device].names.noun
        return about(claim, noun), proofs, [action.about(noun) for action in steps]

    # ---------------------------------------------------------------------------------------- registration

    def _unregistered(self, fault: Fault, names: Sequence[str], shown: Sequence[NodeSeen]) -> Told:
        first = shown[0]
        nodes = prose.names(names)
        if fault.why == "guides":
            claim = Text("handshake-stale.guides", nodes=nodes, threshold=int(GUIDES_THRESHOLD.total_seconds()))
        elif fault.why in ("off", "unnamed"):
            return self._ignored(fault, nodes), [_annotation(node.node, fault.about) for node in shown], []
        else:
            why = fault.why if fault.code in ("node-unregistered", "registration-ignored") else "claim"
            claim = claim_of((fault.code, why), names, self._own, self._version)
        if fault.why == "guides":
            return (
                claim,
                [_annotation(node.node, FIRST.names.handshake) for node in shown],
                plugin_actions(names[0], None),
            )
        proofs = [
            registration_proof(node.node, node.state if isinstance(node.state, Unregistered) else None, self._own)
            for node in shown
        ]
        if fault.why == "no-allocatable" and first.count_resource in (first.node.status.allocatable or {}):
            proofs.append(quotes.of_allocatable(first.node, first.count_resource))
        pod = first.plugin.pod
        if fault.about == "missing" or (pod is not None and fault.about in ("not-ready", "restarting")):
            claim = Text("nodes.and", claim=claim, why=plugin_trouble(fault, first.plugin))
        if pod is not None and fault.about != "ready" and fault.about:
            return claim, [*proofs, quotes.of_plugin(pod, first.plugin.why)], [plugin_log(pod)]
        return claim, proofs, registration_actions(names[0], fault.why, [pod] if pod else None)

    def _ignored(self, fault: Fault, nodes: Prose) -> Prose:
        if fault.why == "unnamed":
            return Text("registration-ignored.unnamed", nodes=nodes, name=fault.about)
        vendor = vendor_of_register_key(fault.about)
        flag = self.sweep.off[vendor[0].word] if vendor else ""
        return Text("registration-ignored.off", nodes=nodes, name=fault.about, flag=flag)

    def _time_zone(self, fault: Fault, names: Sequence[str], shown: Sequence[NodeSeen]) -> Told:
        hours = f"{self.sweep.zone.total_seconds() / 3600:+g}"
        nodes = prose.names(names)
        claim = Text(_TIME_ZONE[fault.why], nodes=nodes, hours=hours, version=self._version)
        deployment = self.sweep.install.deployment
        look = (
            step(
                Text("handshake-time-zone.look"),
                kubectl("-n", self.sweep.install.namespace, "get", "deployment", deployment.name, "-o", "yaml"),
            )
            if deployment
            else plugin_actions(names[0], None)[0]
        )
        own = self.sweep.config.by_word[fault.device].names if fault.device else FIRST.names
        return claim, [_annotation(node.node, own.handshake) for node in shown], [look]

    def _plugin(self, fault: Fault, names: Sequence[str], shown: Sequence[NodeSeen]) -> Told:
        first = shown[0]
        nodes, pod = prose.names(names), first.plugin.pod
        if pod is None:
            claim = Text("device-plugin-missing.claim", nodes=nodes)
            return (
                claim,
                [_why_expected(node, self._own) for node in shown],
                plugin_actions(names[0], None),
            )
        claim = plugin_claim(fault, names, first.plugin)
        proofs = [quotes.of_plugin(node.plugin.pod, node.plugin.why) for node in shown if node.plugin.pod]
        return claim, proofs, [plugin_log(pod)]

    # ------------------------------------------------------------------------------------------------ cards

    def _reported(self, _: Fault, names: Sequence[str], shown: Sequence[NodeSeen]) -> Told:
        found = [cause.finding for cause in (reported(seen.node) for seen in shown) if cause]
        result = together(found) if len(names) == len(found) else found[0]
        return result.text, list(result.evidence), found[0].next_actions

    def _duplicates(self, _: Fault, names: Sequence[str], shown: Sequence[NodeSeen]) -> Told:
        uuids = shared_uuids(self.sweep.see(name) for name in names)[tuple(names)]
        claim = Text("duplicate-card-uuid.claim", count=len(uuids), nodes=prose.names(names))
        proofs = [quotes.of_card(node.node, uuids[0], whole=True) for node in shown]
        return claim, proofs, [step(Text("duplicate-card-uuid.look"), prose.command("nodes", names[0]))]

    def _slots(self, fault: Fault, names: Sequence[str], shown: Sequence[NodeSeen]) -> Told:
        first = shown[0]
        values = {"node": first.name, "slots": slots(first)[0], "offered": first.allocatable}
        nodes = prose.names(names)
        claim = Text(_SLOTS[fault.why], nodes=nodes, resource=first.count_resource, **values)
        proofs = [
            quotes.of_card(first.node, card.uuid, whole=True) for card in (first.own.cards if first.own else ())[:1]
        ]
        proofs += [quotes.of_allocatable(node.node, node.count_resource) for node in shown]
        pod = first.plugin.pod
        return claim, proofs, plugin_actions(names[0], [pod] if pod else None)

    def _unhealthy(self, fault: Fault, names: Sequence[str], shown: Sequence[NodeSeen]) -> Told:
        count = sum(sum(unhealthy(self.sweep.see(name)).values()) for name in names)
        nodes = prose.names(names)
        claim = Text(_UNHEALTHY[fault.why], count=count, nodes=nodes, version=self._version)
        proofs: list[Evidence] = []
        for node in shown:
            bad = next(card for card in node.cards if not card.health)
            proofs.append(quotes.of_card(node.node, bad.uuid, whole=True))
        pod = shown[0].plugin.pod
        action = plugin_log(pod) if pod else prose.see_cards(names[0])[0]
        return claim, proofs, [action]

    def _cordoned(self, fault: Fault, names: Sequence[str], shown: Sequence[NodeSeen]) -> Told:
        wanted: list[list[str]] = []
        for node in (self.sweep.see(name) for name in names):
            known = {card.uuid for card in node.cards}
            cordoned = sorted(cordoned_uuids(node.node))
            wanted.append(
                [uuid for uuid in cordoned if fault.why == "version" or (uuid in known) == (fault.why == "sweep")]
            )
        nodes, count = prose.names(names), sum(map(len, wanted))
        claim = Text(_CORDONED[fault.why], nodes=nodes, count=count, version=self._version)
        proofs = [
            quotes.of_node_annotation(seen.node, CORDON_KEY, uuids[0])
            for seen, uuids in zip(shown, wanted, strict=False)
        ]
        path = CORDON_KEY.replace(".", "\\.")
        look = kubectl("get", "node", names[0], "-o", f"jsonpath={{.metadata.annotations.{path}}}")
        see = step(Text("card-cordoned.look"), look)
        undo = uncordon(shown[0].node, wanted[0][:1]) if fault.code == "card-cordoned" else ()
        return claim, proofs, [see, *undo]

    # ------------------------------------------------------------------------------------ locks, Kubernetes

    def _lock(self, fault: Fault, names: Sequence[str], shown: Sequence[NodeSeen]) -> Told:
        first = shown[0]
        own = BY_WORD.get(fault.why)
        key, expiry = (own.lock_key if own else LOCK_KEY), (own and own.lock_expiry) or self.sweep.lock_expiry
        states = [node.own_locks[fault.why] if own else node.lock for node in shown]
        assert states[0] is not None
        held = lock_in_words(first.node, states[0], expiry, key)
        claim: Prose = held.claim
        if len(names) > 1:
            claim = Text(_LOCKS[states[0].phase], nodes=prose.names(names), first=claim)
        proofs = [_annotation(node.node, key) for node in shown]
        for state in states:
            proofs += owner_proofs(state, self.sweep.owners)
        return claim, proofs, lock_actions(first.name, held)

    def _kubernetes(self, fault: Fault, names: Sequence[str], shown: Sequence[NodeSeen]) -> Told:
        claim = Text(_OF_KUBERNETES[fault.code], nodes=prose.names(names), what=fault.about)
        proofs = [_of_kubernetes(node.node, fault) for node in shown]
        look = kubectl("describe", "node", names[0])
        return claim, proofs, [step(Text("nodes.describe", node=names[0]), look)]


def _annotation(node: Node, key: str) -> Evidence:
    return quotes.of_node_annotation(node, key, (node.metadata.annotation(key) or "")[:200])


def _why_expected(node: NodeSeen, device: Device) -> Evidence:
    """What shows that the node should have a device plugin."""
    if node.registrations:
        found = node.registrations[0]
        return quotes.of_node_annotation(node.node, found.key, found.cards[0].uuid)
    return registration_proof(node.node, None, device)


def _of_kubernetes(node: Node, fault: Fault) -> Evidence:
    if fault.about in (taint.key for taint in node.spec.taints or ()):
        return quotes.of_node(node, fault.about, "{.spec.taints[*].key}")
    if fault.code == "node-cordoned":
        taints = [taint.key for taint in node.spec.taints or () if taint.key.endswith("/unschedulable")]
        return quotes.of_node(
            node, taints[0] if taints else node.name, "{.spec.taints[*].key}" if taints else "{.metadata.name}"
        )
    ready = next((condition.status for condition in node.status.conditions or () if condition.type == "Ready"), "")
    if ready and ready != "True":
        return quotes.of_node(node, ready, '{.status.conditions[?(@.type=="Ready")].status}')
    taints = [taint.key for taint in node.spec.taints or () if taint.key.endswith(("/not-ready", "/unreachable"))]
    return quotes.of_node(node, taints[0], "{.spec.taints[*].key}")
