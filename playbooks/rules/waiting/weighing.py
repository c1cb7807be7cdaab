"""What would have to change for nodes that refuse the pod, weighed by the bot's fit, or by the schedulers' words.

kube-scheduler calls nodes that are not ready, under pressure or cordoned tainted like any other; the node says more.
Autoscalers' words: cluster-autoscaler processors/status/eventing_scale_up_processor.go (TriggeredScaleUp,
NotTriggerScaleUp), karpenter pkg/controllers/provisioning/scheduling/events.go (Nominated, FailedScheduling).
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from itertools import chain

from bot.finding_codes import CODES, Code
from bot.hami.fit.verdicts import ALLOCATED_INSUFFICIENT, NODE_UNREGISTERED, NOT_HEALTHY, NUMA_NOT_FIT
from bot.hami.scheduler_logs.scheduling_events import REASONS
from bot.hami.vendors import FIRST
from bot.kube.models import Node
from bot.kube.node_conditions import CORDON_TAINT, NOT_READY_TAINTS, PRESSURE_TAINTS
from bot.kube.selectors import TAINT_TEXT, UNSCHEDULABLE_TEXT
from bot.kube.times import parse_time
from bot.report import NEVER, Confidence, Evidence, Finding, NextAction, Severity, act, one_line, step
from bot.texts import Prose, Text, sentences, unstopped
from playbooks import quotes
from playbooks.quotes import kubectl
from playbooks.rule import rule
from playbooks.rules.capacity.large_request import advise, impossible, loosening, too_small, why_large, why_pinned
from playbooks.rules.common import prose
from playbooks.rules.common.findings import Part, finding, other_vendors
from playbooks.rules.common.holders import NO_ROOM, waited_for
from playbooks.rules.nodes.node_causes import NODE_CODES, causes_behind
from playbooks.rules.nodes.not_selected import none_selected
from playbooks.rules.waiting import refusals
from playbooks.rules.waiting.cause_ranking import (
    Rank,
    RankedCause,
    by_words,
    causes,
    is_never,
    needs_several,
    rank_causes,
    rank_words,
    severity_of,
)
from playbooks.rules.waiting.refused_requests import bug_of_slices, refused_by_bug
from playbooks.rules.waiting.stale_scheduler import ghosts_suspected
from playbooks.rules.waiting.unregistered_nodes import unregistered, untrusted_nodes
from playbooks.scenes.waiting_pod import PodScene

_REFUSALS: tuple[Code, ...] = ("kubernetes-filter", *dict.fromkeys(reason.finding for reason in REASONS))
_OF_THE_NODE = (NODE_UNREGISTERED, NOT_HEALTHY)
"""HAMi's words for causes that the node's own plugin or GPUs may be behind."""
_REGISTRATION: tuple[Code, ...] = ("handshake-stale", "handshake-deleted", "registration-ignored")


@rule(*_REFUSALS, "scheduler-ledger-stale", "idle-holder")
def refused_by_words(scene: PodScene) -> list[Finding]:
    """The findings by the schedulers' words alone, where the bot's own fit cannot be asked."""
    if not scene.once(by_words):
        return []
    why = "vendor" if scene.nodes_seen and other_vendors(scene) else "unread"
    ranked = [cause for cause in rank_words(scene.attempt) if cause.rank < Rank.NORMAL]
    telling = [cause for cause in ranked if cause.code != "node-unfit-pod"] or ranked
    steps, attempt = prose.scheduler_log(scene.install, scene.pod.name), scene.attempt
    steps = [*steps, refusals.look_at_pod(scene.pod, "")]
    ghosts, sure = ghosts_suspected(scene), len(ranked) == 1
    met = bug_of_slices(scene, telling[0].code) if telling and not ghosts else None
    severity: Severity = "info" if ghosts or met else "warning"
    found = [refusals.in_words(attempt, cause, steps, sure=sure, why=why, severity=severity) for cause in telling]
    found = [ghosts, *found] if ghosts else found
    if met:
        bug = refused_by_bug(scene, met, found[0], found[0].next_actions)
        found = [bug, *(each for each in found if each.code != met.code)]
    if not found and scene.nodes_seen:
        found = [refusals.refused(scene, cause) for cause in rank_causes(scene) if cause.of_kubernetes]
    return _led(scene, found)


@rule(*_REFUSALS, *NODE_CODES, *_REGISTRATION, "impossible-anywhere", "idle-holder", reads=("nodes",))
def refused_by_nodes(scene: PodScene) -> list[Finding]:
    """The findings of what would have to change for some node to take the pod, the most likely first."""
    untrusted, ranked = scene.once(untrusted_nodes), scene.once(causes)
    too_large = impossible(scene, scene.words)
    background = [untrusted] if untrusted is not None and untrusted.severity == "info" else []
    found = [each for each in (too_large, untrusted) if each is not None and each not in background]
    met = bug_of_slices(scene, ranked[0].code) if ranked and not found else None
    if met is not None:
        refusal = refusals.refused(scene, ranked[0])
        steps = [*chain(*_ways(scene, refusal.code, refusal.next_actions))]
        found = [refused_by_bug(scene, met, refusal, steps)]
        rest = [cause._replace(rank=Rank.BACKGROUND) for cause in ranked if cause.code != met.code]
        return _led(scene, [*found, *(told for cause in rest for told in _of_cause(scene, cause)), *background])
    lacks_numa = {name for cause in ranked if cause.text == NUMA_NOT_FIT for name in cause.nodes}
    for cause in ranked:
        if cause.text == ALLOCATED_INSUFFICIENT and lacks_numa.issuperset(cause.nodes):
            continue  # HAMi says both of a node whose NUMA nodes have too few
        # Nodes that are not meant to have what the pod asks for are nobody's concern.
        beside = cause.rank is Rank.BACKGROUND and cause.of_kubernetes and scene.request.containers
        if not (found and beside) or any(map(scene.expects_gpus, cause.nodes)):
            found += _of_cause(scene, cause)
    return _led(scene, [*found, *background], ranked, weighed=bool(found))


def _led(
    scene: PodScene, found: Sequence[Finding], ranked: Sequence[RankedCause] = (), *, weighed: bool = False
) -> list[Finding]:
    """The findings, of which the first says all that leads to it. `weighed`: its steps were tried on the filter."""
    if not found:
        return []
    first, *rest = found
    code, claim, severity, steps = first.code, first.text, first.severity, first.next_actions
    if weighed and severity == "info" and needs_several(ranked):
        severity, steps = "warning", steps or refusals.where_to_look(scene, ranked[0])
        if scene.advises and scene.once(advise):  # each of which is enough, which no change of the cause alone is
            steps = [one for one in steps if not one.changes_cluster]
        background = (cause for cause in ranked if cause.rank is Rank.BACKGROUND)
        codes = dict.fromkeys("kubernetes-filter" if cause.of_kubernetes else cause.code for cause in background)
        if others := ", ".join(other for other in codes if other != code):
            claim = Text("obstacles.several", claim=unstopped(claim), others=others)
    ways = _ways(scene, code, steps) if weighed else [steps]
    idle = waited_for(scene) if code in NO_ROOM else None
    ends = {one.command for one in idle.next_actions if one.changes_cluster} if idle else set[str]()
    ways = [way for way in ways if {one.command for one in way} != ends]  # the end of the same pod, in other words
    large, pinned = why_large(scene, code), why_pinned(scene, first) if weighed else None
    said = by_autoscaler(scene) if severity != "info" else None
    only = _all_left(scene, first) if weighed and severity != "info" else None
    parts = [part for part in (only, large, pinned, said) if part is not None]
    never = first.key not in NEVER and any(cause.code == code and is_never(scene, ranked) for cause in ranked[:1])
    proofs = first.evidence
    if large and isinstance(large.text, Text) and large.text.key in NEVER:
        claim, proofs = large.text, (*large.proofs, *proofs)
        parts.remove(large)
        claim = Text("obstacles.never", claim=claim) if is_never(scene, ranked) else claim
    elif never and first.key == "mig-topology-infeasible.claim":
        claim = Text("mig-topology-infeasible.never", **first.values)
    elif never:
        claim = Text("obstacles.never", claim=claim)
    claim = sentences(claim, *(part.text for part in parts)) if any(part.text for part in parts) else claim
    ways = [*([idle.next_actions] if idle else []), *([one] for one in (large.steps if large else ())), *ways]
    if (never or scene.too_large or too_small(scene)) and any(one.changes_cluster for way in ways for one in way):
        ways = [way for way in ways if any(one.changes_cluster for one in way)]  # who holds what is of no use then
    actions = prose.alternatives(ways) if scene.advises else [*chain(*ways)]
    proofs = [*proofs, *(proof for part in parts for proof in part.proofs)]
    sure, nodes, of = first.confidence, first.scope.nodes, scene.install
    leads = finding(code, claim, sure, nodes, proofs, severity=severity, actions=actions, of=of)
    return [leads, *([idle] if idle else []), *rest]


def _all_left(scene: PodScene, told: Finding) -> Part | None:
    """What to add to a finding about nodes alone if Kubernetes leaves the pod no others: what keeps it off most."""
    of_nodes = told.code in ("node-unregistered", *NODE_CODES, *_REGISTRATION)
    if not of_nodes or not scene.obstacles or set(told.scope.nodes) != set(scene.candidates):
        return None
    most, _ = Counter(obstacle.detail for obstacle in scene.obstacles.values()).most_common(1)[0]
    name = next(name for name, obstacle in scene.obstacles.items() if obstacle.detail == most)
    return Part(Text("obstacles.only"), [refusals.obstacle_proof(scene, scene.nodes[name], most)])


def _of_cause(scene: PodScene, cause: RankedCause) -> Iterator[Finding]:
    if cause.text in _OF_THE_NODE:
        yield from _nodes_at_fault(scene, cause)
    if cause.text == NODE_UNREGISTERED:
        yield from unregistered(scene, cause)
    elif cause.of_kubernetes:
        yield from _by_state(scene, cause)
    else:
        yield refusals.refused(scene, cause)


def _nodes_at_fault(scene: PodScene, cause: RankedCause) -> Iterable[Finding]:
    """The findings about nodes that HAMi refuses for this cause; none for nodes that could not take the pod."""
    questioned = scene.cluster.questioned
    of_first = scene.device.vendor is FIRST
    if of_first and questioned.sets and not questioned.sides and not any(map(scene.expects_gpus, scene.nodes)):
        return none_selected(questioned.sets, list(scene.nodes.values()))
    if cause.rank >= Rank.BACKGROUND:
        return []
    sides = [questioned.sides[name] for name in cause.nodes if name in questioned.sides]
    return causes_behind(scene, (side for side in sides if scene.if_registered(side.name).fits is not False))


def _ways(scene: PodScene, code: Code, steps: Sequence[NextAction]) -> list[Sequence[NextAction]]:
    """What to do about what leads, each way enough by itself: what mends the cause comes before what gets round it."""
    if not scene.advises:
        return [steps]
    info = CODES[code]
    around = [[one] for one in (loosening(scene) if info.loses_node else scene.once(advise))]
    return [steps, *around] if info.loses_node or info.fix_first else [*around, *([one] for one in steps)]


_COMING = ("TriggeredScaleUp", "Nominated")
_NONE = ("NotTriggerScaleUp", "FailedScheduling")
_STARTS = timedelta(minutes=20)
"""The age from which an autoscaler's order of a node is no longer expected to bring one."""
_LONGEST = 160


def by_autoscaler(scene: PodScene) -> Part | None:
    """What an autoscaler says of the pod, to add to a finding; None where none says anything."""
    name = (scene.pod.namespace, scene.pod.name)
    said = (event for event in scene.cluster.messages.events.get(name, ()) if event.of_autoscaler)
    own = (event for event in said if event.is_about(scene.pod.metadata.uid))
    newest = max(own, key=lambda event: event.seen_at, default=None)
    if newest is None:
        return None
    scaler, words = newest.component, one_line(quotes.shown(newest.message), _LONGEST).rstrip(".")
    if newest.reason in _COMING:
        at = parse_time(newest.seen_at)
        late = at is None or scene.now - at > _STARTS
        return None if late else Part(Text("autoscaler.coming", scaler=scaler, words=words), [quotes.of_event(newest)])
    if newest.reason not in _NONE:
        return None
    text: Prose = Text("autoscaler.none", scaler=scaler, words=words)
    if any(name in newest.message for name in scene.asked):
        text = sentences(text, Text("autoscaler.no-template"))
    return Part(text, [quotes.of_event(newest)])


_STATES = (*NOT_READY_TAINTS, *PRESSURE_TAINTS, CORDON_TAINT)
"""The taints that Kubernetes gives a node for its state."""


def _by_state(scene: PodScene, cause: RankedCause) -> list[Finding]:
    """A finding for each state of nodes that should have the device, then one for all other nodes of the cause."""
    by_taint: defaultdict[str, list[str]] = defaultdict(list)
    for name in cause.nodes if scene.request.containers else ():
        obstacle = scene.obstacles[name]
        taint = CORDON_TAINT if obstacle.text == UNSCHEDULABLE_TEXT else obstacle.detail
        if obstacle.text in (UNSCHEDULABLE_TEXT, TAINT_TEXT) and taint in _STATES and scene.expects_gpus(name):
            by_taint[taint].append(name)
    if not by_taint:
        return [refusals.refused(scene, cause)]
    found = [_finding(scene, cause._replace(nodes=tuple(names)), taint) for taint, names in by_taint.items()]
    told = {name for names in by_taint.values() for name in names}
    rest = tuple(name for name in cause.nodes if name not in told)
    if rest:
        found.append(refusals.refused(scene, cause._replace(nodes=rest, rank=Rank.BACKGROUND)))
    return found


def _finding(scene: PodScene, cause: RankedCause, taint: str) -> Finding:
    names = cause.nodes
    down = "kubernetes-filter.pressure" if taint in PRESSURE_TAINTS else "kubernetes-filter.not-ready"
    key = "kubernetes-filter.cordoned" if taint == CORDON_TAINT else down
    claim = Text(key, nodes=prose.names(names), taint=taint)
    if takers := refusals.takers(scene, cause):
        claim = Text("kubernetes-filter.taken", claim=claim, nodes=prose.some(takers))
    steps = [step(Text("nodes.describe", node=names[0]), kubectl("describe", "node", names[0]))]
    if taint == CORDON_TAINT:
        uncordon = kubectl("uncordon", names[0])
        steps.append(act(Text("kubernetes-filter.uncordon", node=names[0]), uncordon))
    said = scene.words if refusals.said_by_kubernetes(scene.attempt, cause) else []
    proofs, severity = [*said, *_proof(scene.nodes[names[0]], taint)], severity_of(cause)
    sure: Confidence = "confirmed" if said else "suspected"
    return finding("kubernetes-filter", claim, sure, names, proofs, severity=severity, actions=steps)


def _proof(node: Node, key: str) -> list[Evidence]:
    """The taint or the cordon, and of a node that is not ready what kubelet or Kubernetes says about it."""
    has_taint = any(taint.key == key for taint in node.spec.taints or ())
    quote, path = (key, "{.spec.taints[*].key}") if has_taint else ("true", "{.spec.unschedulable}")
    found = [quotes.of_node(node, quote, path)]
    ready = next((condition for condition in node.status.conditions or () if condition.type == "Ready"), None)
    if key in NOT_READY_TAINTS and ready is not None and ready.message:
        found.append(quotes.of_node(node, ready.message, '{.status.conditions[?(@.type=="Ready")].message}'))
    return found
