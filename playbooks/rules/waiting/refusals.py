"""The findings about nodes that refuse a pod: one per cause, with HAMi's words and the objects that prove them."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Literal

import msgspec
from msgspec import structs

from bot.hami.fit import verdicts
from bot.hami.fit.advice import Slice, largest_slice
from bot.hami.fit.verdicts import NodeCards
from bot.hami.nodes.cards import Card
from bot.hami.nodes.node_state import CORDON_KEY, cordoned_uuids
from bot.hami.nodes.registration import Unregistered
from bot.hami.pods.pod_request import INT32_MAX, WHOLE_CARD
from bot.hami.pods.request_parsing import POLICY_KEY
from bot.hami.scheduler_logs.scheduling_events import NodesReason, reason_of
from bot.hami.vendors import FIRST
from bot.hami.vendors.ascend import MODE_KEY
from bot.kube.models import Node, Pod, Toleration
from bot.kube.selectors import OF_KUBERNETES, SELECTOR_TEXT, TAINT_TEXT, NodeFilter
from bot.report import Confidence, Evidence, Finding, Gap, NextAction, Severity, act, one_line, step
from bot.texts import Prose, Text, sentences
from playbooks import quotes
from playbooks.attempt import Attempt
from playbooks.quotes import kubectl, kubectl_pod
from playbooks.rule import rule
from playbooks.rules.capacity import request_amounts
from playbooks.rules.capacity.large_request import Largest, admits, too_small
from playbooks.rules.capacity.request_amounts import is_soft, own_words, shortage
from playbooks.rules.common import prose
from playbooks.rules.common.findings import finding
from playbooks.rules.common.holders import annotate, edit_owner
from playbooks.rules.nodes.causes import repair, uncordon
from playbooks.rules.quota.effects import quoted, raise_limits
from playbooks.rules.waiting.cause_ranking import RankedCause, by_words, family, severity_of, unexplained
from playbooks.rules.waiting.unregistered_nodes import set_as_asked, set_to
from playbooks.scenes.waiting_pod import PodScene

_MAX_TRIED = 20
_SLOTS = "deviceSplitCount"

CLAIMS: Mapping[str, str] = {
    "card-insufficient-memory": "card-insufficient-memory.claim",
    "card-insufficient-core": "card-insufficient-core.claim",
    "card-time-slicing-exhausted": "card-time-slicing-exhausted.claim",
    "card-compute-units-exhausted": "card-compute-units-exhausted.claim",
    "exclusive-device-conflict": "exclusive-device-conflict.claim",
    "resource-quota-not-fit": "resource-quota-not-fit.claim",
    "mig-topology-infeasible": "mig-topology-infeasible.claim",
    "custom-filter-rule": "custom-filter-rule.claim",
    "numa-not-fit": "numa-not-fit.claim",
    "node-insufficient-device": "node-insufficient-device.claim",
    "card-type-mismatch": "card-type-mismatch.claim",
    "card-uuid-mismatch": "card-uuid-mismatch.claim",
    "mode-not-fit": "mode-not-fit.claim",
    "card-not-healthy": "card-not-healthy.claim",
    "card-cordoned": "card-cordoned.claim",
    "allocated-cards-insufficient": "allocated-cards-insufficient.claim",
    "node-unfit-pod": "node-unfit-pod.claim",
}
_COUNTED = {
    verdicts.INSUFFICIENT_MEMORY: "counted.card-insufficient-memory",
    verdicts.INSUFFICIENT_CORE: "counted.card-insufficient-core",
    verdicts.TIME_SLICING_EXHAUSTED: "counted.card-time-slicing-exhausted",
    verdicts.EXCLUSIVE_CONFLICT: "counted.exclusive-device-conflict",
    verdicts.NOT_HEALTHY: "counted.card-not-healthy",
    verdicts.UNHEALTHY: "counted.card-not-healthy",
    verdicts.CORDONED: "counted.card-cordoned",
    verdicts.TYPE_MISMATCH: "counted.card-type-mismatch",
    verdicts.UUID_MISMATCH: "counted.card-uuid-mismatch",
}
"""Reasons that may be true of some GPUs of a node alone, and how many these are."""
_USED = (verdicts.INSUFFICIENT_MEMORY, verdicts.INSUFFICIENT_CORE, verdicts.EXCLUSIVE_CONFLICT)
"""Reasons that come from what other pods hold of a GPU."""
_OUT_OF_SERVICE = (verdicts.NOT_HEALTHY, verdicts.UNHEALTHY, verdicts.CORDONED)
_OF_CARDS = (*_OUT_OF_SERVICE, verdicts.TYPE_MISMATCH, verdicts.UUID_MISMATCH, verdicts.MODE_NOT_FIT)
"""Reasons for which a node's GPUs say more than how much the pod asks for."""


def refused(scene: PodScene, cause: RankedCause) -> Finding:
    """The finding of one cause about registered nodes, or of one of kube-scheduler's own filters."""
    severity = severity_of(cause)
    if cause.of_kubernetes:
        return _kubernetes(scene, cause, severity)
    proofs = scene.attempt.evidence_for(cause.text)
    # HAMi, without saying why, refused as many registered nodes as the bot's own fit does.
    ours = [name for name, verdict in scene.verdicts.items() if verdict.fits is False]
    unsaid = scene.attempt.generic_refusals()
    as_many = unsaid > 0 and unsaid == sum(scene.why_unregistered(name) is None for name in ours)
    confidence: Confidence = "confirmed" if proofs or as_many else "suspected"
    largest = too_small(scene) if cause.text == verdicts.INSUFFICIENT_MEMORY else None
    if cause.text == verdicts.QUOTA_NOT_FIT and not cause.nodes:
        claim = Text("resource-quota-not-fit.everywhere", **_values(scene, cause))
    elif largest is None:
        claim = own_words(scene, cause) or _usual(scene, cause)
    else:
        values = _values(scene, cause) | {"largest": prose.mib(largest.card.memory_mib)}
        values["nodes"] = prose.names(cause.nodes if largest.node in cause.nodes else largest.nodes)
        claim = Text("card-insufficient-memory.never", type=one_line(largest.card.type, 60), **values)
    proofs = [*(proofs or scene.words), *_object_proofs(scene, cause, largest)]
    steps = () if severity == "info" else where_to_look(scene, cause)
    entries = [proof.quote for proof in proofs if '"count"' in proof.quote]
    if cause.text == verdicts.NOT_HEALTHY and any('"health":true' not in entry for entry in entries):
        claim = sentences(claim, Text("card-not-healthy.unsaid"))  # HAMi's JSON leaves out what is false
    if (own := set_as_asked(scene, cause)) is not None:
        claim, proofs = sentences(claim, own.text), [*proofs, *own.proofs]
        steps = (*own.steps, *steps) if steps else ()
    of, nodes = scene.install, cause.nodes
    return finding(cause.code, claim, confidence, nodes, proofs, severity=severity, actions=steps, of=of)


def where_to_look(scene: PodScene, cause: RankedCause) -> tuple[NextAction, ...]:
    """The steps to look at what HAMi or kube-scheduler named as the cause."""
    if cause.of_kubernetes:
        return (look_at_pod(scene.pod, cause.text),)
    if cause.text == verdicts.QUOTA_NOT_FIT:
        enough = any(scene.judge(name, frozenset({cause.text})).fits for name in cause.nodes[:_MAX_TRIED])
        return *(raise_limits(scene) if enough else ()), *prose.see_quota(scene.pod.namespace)
    if cause.code == "node-unfit-pod":
        return prose.raise_verbosity()
    node = cause.nodes[0] if cause.nodes else ""
    if not node:
        return (look_at_pod(scene.pod, cause.text),)
    if cause.text == verdicts.CORDONED:
        # Uncordons as many cards as the pod asks for, of those that it may have.
        cordoned = cordoned_uuids(scene.nodes[node])
        wanted = max((container.count for container in scene.request.containers), default=1)
        cards = [card.card for card in scene.view.cards(node) if card.card.uuid in cordoned]
        if uuids := [card.uuid for card in cards if admits(scene, card)][:wanted]:
            look, back = uncordon(scene.nodes[node], uuids)
            return look, _then(back, node) if scene.judge(node, frozenset({cause.text})).fits else back
    if cause.text == verdicts.MODE_NOT_FIT and scene.device.names.also_read:
        # Either the node is set up for the split that the pod asks for, or the pod asks for the node's.
        if is_soft(scene):
            mark = kubectl("annotate", "node", node, "hami-vnpu-core=true")
            return (act(Text("mode-not-fit.make-soft", node=node), mark),)
        patch = {"metadata": {"annotations": {MODE_KEY: "hami-core"}}}
        return (edit_owner(scene.pod, Text("mode-not-fit.ask-soft"), patch),)
    if cause.text == verdicts.TYPE_MISMATCH and scene.advises and (other := _other_type(scene, cause.nodes)):
        return (other,)
    if cause.text == verdicts.NOT_HEALTHY:
        plugins = scene.plugins.get(node)
        plugin = plugins[0] if plugins and not isinstance(plugins, Gap) else None
        return tuple(repair(node, _registered(scene, cause)[0], scene.device.vendor, plugin))
    first: tuple[NextAction, ...] = ()
    if cause.text == verdicts.TIME_SLICING_EXHAUSTED and scene.device.vendor is FIRST:
        slots = max((card.card.slots for card in scene.view.cards(node)), default=0)
        if slots and scene.judge(node, frozenset({cause.text})).fits:
            more = set_to(_SLOTS, 2 * slots, slots, node, scene.seen, plugins=scene.plugins.get(node))
            first = (_then(more, node),)
    return (*first, *prose.see_cards(node))


def _then(change: NextAction, node: str) -> NextAction:
    return act(Text("change.then", change=change.text, node=node), change.command)


def _other_type(scene: PodScene, names: Sequence[str]) -> NextAction | None:
    """The step that names another type in the pod's annotation: one that the cluster has, with its GPUs' number."""
    key, wanted = scene.device.names.use_type.format(word=scene.device.word), scene.request.constraints
    if not scene.pod.metadata.annotation(key) or not scene.request.containers:
        return None
    one, anything = structs.replace(scene.request.containers[0], count=1), structs.replace(wanted, use_type=None)
    probe = structs.replace(scene.request, containers=(one,), constraints=anything)
    able, tried, whole = Counter[str](), dict[int, bool](), dict[str, Mapping[str, verdicts.Verdict]]()
    for name, stock in zip(names, scene.view.stocks_of(names), strict=True):
        if isinstance(stock.state, Unregistered):
            continue
        for card, kind in zip(stock.state.cards, stock.kinds, strict=True):
            if kind not in tried:
                tried[kind] = scene.view.run(NodeCards([card], stock.state.cordoned), probe).fits is True
            if (of := card.card.type) not in whole:  # a node has to take all that the pod asks for
                only = structs.replace(scene.request, constraints=structs.replace(wanted, use_type=of))
                whole[of] = scene.view.judge_each(names, only)
            able[of] += tried[kind] and whole[of][name].fits is True
    found = [(kind, count) for kind, count in able.most_common() if count]
    if not found:
        return None
    first, types = found[0][0], [Text("card-type-mismatch.type", type=kind, count=count) for kind, count in found]
    label = Text("card-type-mismatch.set", key=key, type=first, types=prose.names(types, 5))
    return annotate(scene.pod, label, {key: first})


def _usual(scene: PodScene, cause: RankedCause) -> Text:
    """The usual claim: some GPUs may pass, but too few; some words mean another thing for other vendors."""
    slice_, containers = None, scene.request.containers
    if cause.text == verdicts.INSUFFICIENT_MEMORY:  # the largest piece that one GPU could give, whatever else is asked
        slice_ = largest_slice(scene.view, cause.nodes, scene.request)
    values = _values(scene, cause, slice_)
    most = max((container.memory_mib for container in containers), default=0) or INT32_MAX
    has_memory = slice_ is not None and slice_.memory_mib >= most
    if has_memory and scene.too_large and len(containers) > 1:
        return Text("card-insufficient-memory.together", **values)
    if (counted := _counted(scene, cause, values, has_memory=has_memory)) is not None:
        return counted
    hard = request_amounts.hardest(scene)
    if cause.text == verdicts.INSUFFICIENT_MEMORY and hard and (hard.memory_mib, hard.percentage) == (0, WHOLE_CARD):
        return Text("card-insufficient-memory.whole", **values)
    if cause.text == verdicts.TYPE_MISMATCH and scene.request.constraints.mode:
        return Text("card-type-mismatch.or-mode", **values)
    if cause.text == verdicts.NUMA_NOT_FIT and scene.device.vendor is not FIRST:
        return Text("numa-not-fit.linked", **values)
    return Text(CLAIMS[cause.code], **values)


def _counted(scene: PodScene, cause: RankedCause, values: Mapping[str, object], *, has_memory: bool) -> Text | None:
    """Of how many GPUs of its nodes the reason is true, where it does not tell all; else None."""
    if cause.text not in _COUNTED:
        return None
    on, count, every, codes = set(cause.nodes), 0, 0, set[str]()
    for verdict, names in scene.by_verdict:
        if (number := dict(verdict.parts).get(cause.text)) and (shared := len(on.intersection(names))):
            count, every, codes = count + number * shared, every + verdict.of * shared, codes.union(verdict.codes)
    others = {reason.nature for code in codes - {cause.text} if (reason := reason_of(code))}
    aside = cause.text in _OUT_OF_SERVICE and severity_of(cause) == "info"
    few = verdicts.ALLOCATED_INSUFFICIENT in codes
    if not (few or aside or has_memory or ("use" in others and cause.text != verdicts.INSUFFICIENT_MEMORY)):
        return None
    if 0 < count < every or every == 1:
        some = Text("counted.some", count=count, all=every)
    else:
        some = Text("counted.every", count=count) if aside and count else Text("counted.part")
    claim = Text(_COUNTED[cause.text], **values, some=some)
    ending = "counted.not-alone" if aside else "counted.too-few" if few else "counted.beside"
    return Text(ending, claim=claim, cards=values["cards"])


def in_words(
    attempt: Attempt,
    cause: RankedCause,
    steps: Sequence[NextAction],
    *,
    sure: bool,
    why: Literal["vendor", "unread"] = "unread",
    severity: Severity = "warning",
) -> Finding:
    """The finding of one cause from the schedulers' words alone; `why` is why the bot cannot weigh it."""
    known: Confidence = "confirmed" if sure else "suspected"
    if reason_of(cause.text) is None:
        claim = Text("kubernetes-filter.claim", count=cause.unlocked, text=cause.text)
        return finding("kubernetes-filter", claim, known, proofs=attempt.words, severity=severity, actions=steps)
    count = max(len(cause.nodes), cause.unlocked)
    claim = Text("said.vendor" if why == "vendor" else "said.claim", count=count, reason=cause.text)
    proofs = attempt.evidence_for(cause.text) or attempt.words
    return finding(cause.code, claim, known, cause.nodes, proofs, severity=severity, actions=steps)


@rule("kubernetes-filter", reads=("nodes",))
def lost_to_kubernetes(scene: PodScene) -> Iterator[Finding]:
    """The finding that kube-scheduler drops all nodes on which HAMi would take the pod, by its own words.

    Only for filters that objects cannot tell: taints and selectors are judged by the nodes as they are now. One node
    can lack several resources, so of those the most counts, not the sum.
    """
    lost = [reason for reason in unexplained(scene) if family(reason[0]) not in ("taint", "unschedulable", "selector")]
    short = [count for text, count in lost if family(text).startswith("insufficient")]
    rest = [count for text, count in lost if not family(text).startswith("insufficient")]
    if scene.once(by_words) or not scene.fitting or not lost:
        return
    if max(short, default=0) + sum(rest) < len(scene.fitting):
        return
    text, count = max(lost, key=lambda reason: (reason[1], reason[0]))
    if scene.request.containers:
        claim = Text("kubernetes-filter.room", count=count, text=text, nodes=prose.names(scene.fitting))
    else:
        claim = Text("kubernetes-filter.claim", count=count, text=text)
    steps = [look_at_pod(scene.pod, text)]
    yield finding("kubernetes-filter", claim, proofs=scene.words, actions=steps)


def look_at_pod(pod: Pod, text: str) -> NextAction:
    """The step to look where kube-scheduler's rule is written down: in the pod, or in its volume claims."""
    if "PersistentVolume" in text or "volume" in text:
        return step(Text("binding-failed.volumes"), kubectl("-n", pod.namespace, "get", "pvc"))
    return step(Text("blocked-after-filter.look"), kubectl_pod(pod, "describe"))


def _kubernetes(scene: PodScene, cause: RankedCause, severity: Severity) -> Finding:
    quoted = said_by_kubernetes(scene.attempt, cause)
    able = takers(scene, cause)
    first = scene.nodes[(able or cause.nodes)[0]]
    detail = scene.obstacles[first.name].detail
    texts = sorted({reason.text for reason in quoted}, key=lambda text: (detail not in text, text)) or [cause.text]
    text = texts[0] if len(texts) == 1 else f"{texts[0]}; …"
    if cause.text in (TAINT_TEXT, SELECTOR_TEXT) and detail not in text and detail != "nodeAffinity":
        text = f"{text} ({detail})"
    if (short := shortage(scene, cause.text, cause.nodes)) is not None:
        less = [edit_owner(scene.pod, change) for change in short.ask_less]
        proofs, actions = short.proofs(scene.pod), less or [look_at_pod(scene.pod, cause.text)]
    else:
        proofs = [obstacle_proof(scene, first, detail)]
        actions = [*_tolerating(scene, first, detail), look_at_pod(scene.pod, cause.text)]
    proofs = [*(scene.words if quoted else []), *proofs]
    key = "kubernetes-filter.room" if able else "kubernetes-filter.claim"
    claim = Text(key, count=len(cause.nodes), text=text, nodes=prose.some(able))
    claim = short.claim(text, len(cause.nodes)) if short else claim
    confidence: Confidence = "confirmed" if quoted else "suspected"
    actions = [] if severity == "info" else actions
    return finding("kubernetes-filter", claim, confidence, cause.nodes, proofs, severity=severity, actions=actions)


def _tolerating(scene: PodScene, node: Node, key: str) -> list[NextAction]:
    """The step that lets the pod tolerate a node's one taint; Kubernetes' own taints say that a node is unwell."""
    taint = next((taint for taint in node.spec.taints or () if taint.key == key), None)
    if taint is None or scene.obstacles[node.name].text != TAINT_TEXT or key.startswith(OF_KUBERNETES):
        return []
    wanted = Toleration(key=key, operator="Equal" if taint.value else "Exists", value=taint.value, effect=taint.effect)
    tolerations = [*(one for one in scene.pod.spec.tolerations or () if not one.key.startswith(OF_KUBERNETES)), wanted]
    if NodeFilter(scene.pod, tolerations).obstacle(node):
        return []
    change = Text("change.tolerate-if", taint=taint.written, node=node.name)
    # The list is replaced, so the seconds of such a toleration would be lost.
    timed = any(one.effect == "NoExecute" for one in tolerations[:-1])
    patch = None if timed else {"spec": {"tolerations": msgspec.to_builtins(tolerations)}}
    return [edit_owner(scene.pod, change, patch)]


def said_by_kubernetes(attempt: Attempt, cause: RankedCause) -> list[NodesReason]:
    """The reasons in kube-scheduler's statement that are of the cause's kind."""
    return [reason for reason in attempt.by_kubernetes if family(reason.text) == family(cause.text)]


def takers(scene: PodScene, cause: RankedCause) -> list[str]:
    """Some of the cause's nodes that HAMi would give the pod if Kubernetes let it."""
    if not scene.request.containers or not cause.unlocked:
        return []
    return [name for name, verdict in scene.judge_each(cause.nodes[:_MAX_TRIED]).items() if verdict.fits]


def obstacle_proof(scene: PodScene, node: Node, detail: str) -> Evidence:
    """The evidence of what keeps a pod off a node by Kubernetes' own filters."""
    text = scene.obstacles[node.name].text  # a taint, a label and a resource may have the same name
    if text == TAINT_TEXT:
        return quotes.of_node(node, detail, "{.spec.taints[*].key}")
    if text == SELECTOR_TEXT and (value := (scene.pod.spec.node_selector or {}).get(detail)):
        return quotes.of_pod(scene.pod, value, f"{{.spec.nodeSelector.{quotes.escape(detail)}}}")
    if detail in (node.status.allocatable or {}):
        return quotes.of_allocatable(node, detail)
    return quotes.of_node(node, node.name, "{.metadata.name}")


def _values(scene: PodScene, cause: RankedCause, slice_: Slice | None = None) -> dict[str, object]:
    wanted, large = scene.request.constraints, Text("card-insufficient-memory.nothing-left")
    largest, most = request_amounts.hardest(scene), request_amounts.hardest(scene, request_amounts.BY_CORES)
    if slice_:
        large = Text("card-insufficient-memory.largest", memory=prose.mib(slice_.memory_mib), node=slice_.node)
    return {
        "nodes": prose.names(cause.nodes),
        "count": len(cause.nodes),
        "reason": cause.text,
        "asked": request_amounts.asked(scene, largest) if largest else "?",
        "cards": max((container.count for container in scene.request.containers), default=0),
        "most": max((len(scene.view.cards(name)) for name in cause.nodes), default=0),
        "cores": request_amounts.cores(scene, most) if most else "0",
        "free": request_amounts.cores(scene, most, _free_cores(scene, cause)) if most else "0",
        "memory": request_amounts.memory(scene, largest) if largest else "?",
        "slice": large,
        "types": one_line(", ".join(filter(None, (wanted.use_type or wanted.no_use_type, wanted.mode))), 60),
        "uuids": one_line(wanted.use_uuid or wanted.no_use_uuid or "", 60),
        "namespace": scene.pod.namespace,
        **(_quota(scene) if cause.text == verdicts.QUOTA_NOT_FIT else {}),
    }


def _quota(scene: PodScene) -> dict[str, Prose]:
    """The resource whose quota refuses the pod, and its figures: memory, unless only the cores' would be exceeded."""
    room = scene.view.quota_room(scene.pod.namespace, scene.device.word)
    if room is None:
        return {"resource": scene.gpus.memory, "limit": "?", "used": "?"}
    cores = sum(container.cores * container.count for container in scene.request.containers)
    memory = sum(container.memory_mib * container.count for container in scene.request.containers)
    by_memory = room.memory_limit_mib is not None and room.memory_used_mib + memory > room.memory_limit_mib
    by_cores = room.cores_limit is not None and room.cores_used + cores > room.cores_limit
    if by_cores and not by_memory:
        limit, used = f"{room.cores_limit:,}", f"{room.cores_used:,}"
        return {"resource": scene.gpus.cores, "limit": limit, "used": used, "asked": f"{cores:,}"}
    limit = "?" if room.memory_limit_mib is None else prose.mib(room.memory_limit_mib)
    asked = {"asked": prose.mib(memory)} if len(scene.request.containers) > 1 else {}
    return {"resource": scene.gpus.memory, "limit": limit, "used": f"{room.memory_used_mib:,}", **asked}


def _object_proofs(scene: PodScene, cause: RankedCause, largest: Largest | None) -> list[Evidence]:
    pod, names = scene.pod, scene.device.names
    keys = {
        verdicts.TYPE_MISMATCH: (names.use_type, names.no_use_type, names.mode),
        verdicts.UUID_MISMATCH: (names.use_uuid, names.no_use_uuid),
        verdicts.TIME_SLICING_EXHAUSTED: (names.use_uuid,),
        verdicts.NUMA_NOT_FIT: (names.numa_bind,),
        verdicts.MODE_NOT_FIT: names.also_read,
        verdicts.EXCLUSIVE_CONFLICT: (POLICY_KEY,),
    }.get(cause.text, ())
    proofs = [quotes.of_pod_annotation(pod, key) for key in keys if key and pod.metadata.annotation(key)]
    quota = _quota(scene)["resource"] if cause.text == verdicts.QUOTA_NOT_FIT else ""
    by = {verdicts.NODE_INSUFFICIENT: request_amounts.BY_COUNT, verdicts.INSUFFICIENT_CORE: request_amounts.BY_CORES}
    container = request_amounts.hardest(scene, by.get(cause.text, request_amounts.size))
    of = scene.config.of(container.word) if container else scene.gpus
    wanted = {
        verdicts.INSUFFICIENT_MEMORY: (of.memory, of.percentage),
        verdicts.MIG_INFEASIBLE: (of.memory, of.percentage),
        verdicts.INSUFFICIENT_CORE: (of.cores,),
        verdicts.EXCLUSIVE_CONFLICT: (of.cores,),
        verdicts.QUOTA_NOT_FIT: (of.cores, of.memory) if quota == of.cores else (of.memory, of.cores),
    }.get(cause.text, (of.count, of.cores))
    asks = request_amounts.proof(scene, container, wanted)
    for one in (one for one in scene.quotas if quota and one.namespace == pod.namespace):
        if limit := (one.spec.hard or {}).get(f"limits.{quota}"):
            proofs += quoted(one.namespace, one.name, str(limit), f"limits.{quota}")
    if largest is not None:
        return [*proofs, quotes.of_card(scene.nodes[largest.node], largest.card.uuid), *asks]
    if not cause.nodes:
        return [*proofs, *asks]
    registered = _registered(scene, cause)
    if cause.text in _OF_CARDS:
        return [*proofs, *registered, *asks]
    taker = _of_taker(scene, cause.nodes[0], _admitted(scene, cause.nodes[0])) if cause.text in _USED else ()
    return [*proofs, *asks, *taker, *registered]


def _free_cores(scene: PodScene, cause: RankedCause) -> int:
    """The most cores that are free on a GPU that the pod may have, where cores are what lacks."""
    names = cause.nodes if cause.text == verdicts.INSUFFICIENT_CORE else ()
    states = (state for name in names for state in scene.view.cards(name) if admits(scene, state.card))
    return max((max(0, state.free_cores) for state in states), default=0)


def _admitted(scene: PodScene, node: str) -> list[Card]:
    return [state.card for state in scene.view.cards(node) if admits(scene, state.card)]


def _registered(scene: PodScene, cause: RankedCause) -> list[Evidence]:
    """The evidence of the first node's cordon, of all its GPUs where their number counts, else of one such GPU."""
    node = scene.nodes[cause.nodes[0]]
    if cause.text == verdicts.CORDONED and (cordon := node.metadata.annotation(CORDON_KEY)):
        return [quotes.of_node_annotation(node, CORDON_KEY, cordon)]
    if cause.text == verdicts.NODE_INSUFFICIENT:
        return [quotes.of_cards(node)]
    cards = _admitted(scene, node.name) or [state.card for state in scene.view.cards(node.name)]
    told = [card for card in cards if not card.health] if cause.text == verdicts.NOT_HEALTHY else []
    return [quotes.of_card(node, card.uuid) for card in (told or cards)[:1]]


def _of_taker(scene: PodScene, node: str, cards: Sequence[Card]) -> list[Evidence]:
    """The evidence of what one pod holds of these GPUs."""
    uuids, held = {card.uuid for card in cards}, scene.view.ledger.on(node) if scene.view.ledger else ()
    uids = {holding.uid for holding in held if uuids.intersection(holding.shares)}
    takers = (pod for pod in scene.view.facts.pods or () if uids and pod.metadata.uid in uids)
    return [quotes.of_holder(pod) for pod in islice(takers, 1)]
