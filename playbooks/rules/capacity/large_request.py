"""Rules about requests that are too large: for every GPU, for every node, or than their author meant.

Ending pods helps only a request that an empty node can hold. For such requests HAMi's filter tries the smallest
changes: to ask for less, to use nodes that the pod's own selection leaves out, or to end a holder.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from itertools import islice
from operator import attrgetter
from typing import NamedTuple

from msgspec import structs

from bot.finding_codes import Code
from bot.hami.fit import verdicts
from bot.hami.fit.advice import PlacementChange, What, smallest_changes
from bot.hami.fit.verdicts import type_allows, uuid_allows
from bot.hami.nodes.cards import Card, CardState
from bot.hami.nodes.registration import Unregistered
from bot.hami.pods.pod_request import UNSET_PERCENTAGE, ContainerRequest, amount_of, written
from bot.hami.vendors import FIRST
from bot.hami.version import Version
from bot.kube.models import Container, Node, Pod
from bot.kube.selectors import SELECTOR_TEXT, NodeFilter
from bot.kube.times import parse_time
from bot.report import Confidence, Evidence, Finding, NextAction, one_line, step
from bot.texts import Text, listed
from playbooks import quotes
from playbooks.quotes import kubectl
from playbooks.rules.capacity import request_amounts
from playbooks.rules.capacity.request_amounts import numbers_given
from playbooks.rules.common import prose
from playbooks.rules.common.findings import Part, finding, upgrade
from playbooks.rules.common.holders import annotate, are_siblings, edit, edit_owner, end_pod, of_owner
from playbooks.scenes.waiting_pod import ALL_BUT_SIZE, PodScene

_LARGEST_INIT = Version(2, 10, 0)
"""From this version on init containers count by the largest; before, they add up (pkg/device/devices.go, 2.9, 2.10)."""
_ALL_CORES = 100
_MENDED: tuple[Code, ...] = (
    "card-insufficient-memory",
    "card-insufficient-core",
    "allocated-cards-insufficient",
    "exclusive-device-conflict",
    "impossible-anywhere",
    "node-insufficient-device",
)
"""Codes of findings that a smaller request may resolve."""


def why_large(scene: PodScene, code: Code) -> Part | None:
    """Why a request is larger than meant, by the code of the finding that says what there is too little of."""
    own = _more_cores(scene) if code == "card-insufficient-core" else None
    if own is not None or code not in _MENDED:
        return own
    return _added_up(scene, code) or (None if code == "card-insufficient-core" else _whole(scene))


def _whole(scene: PodScene) -> Part | None:
    """A container without an amount of memory gets the whole memory of each of its GPUs."""
    resources = scene.gpus
    everywhere = [*(scene.pod.spec.init_containers or ()), *scene.pod.spec.containers]
    names = [name for name in (resources.memory, resources.percentage) if name]
    for container in scene.request.containers:
        if scene.device.vendor is not FIRST or container.memory_mib or container.percentage != 100:
            continue
        own = (one for one in everywhere if one.name == container.container)
        if any(written(one, name) is not None for one in own for name in names):
            continue
        return Part(Text("large.whole", container=container.container, resource=resources.memory))
    return None


def _added_up(scene: PodScene, code: Code) -> Part | None:
    """Several containers that ask for too much together: app containers, and in older versions init containers."""
    asking = scene.request.containers
    older = scene.version is not None and scene.version < _LARGEST_INIT
    summed = all_inits = older and any(container.init for container in asking)
    size = at_most(scene, scene.device.word)[0]
    if code == "impossible-anywhere" and not summed:
        summed = verdicts.INSUFFICIENT_MEMORY in nearest_refusal(scene)[1].codes
    if len(asking) < 2 or not summed or not size:
        return None
    amounts = [container.count * (container.memory_mib or size * container.percentage // 100) for container in asking]
    asked = [request_amounts.asked(scene, container) for container in asking]
    values = {"asked": asked, "total": prose.mib(sum(amounts)), "size": prose.mib(size), "version": str(scene.version)}
    owner, steps = of_owner(scene.pod), list[NextAction]()
    if each := _each(scene, size):
        now = listed(f"{container.memory_mib // scene.gpus.memory_factor}" for container in asking)
        names = prose.names([container.container for container in asking])
        fewer = {"share": size // each, "each": each // scene.gpus.memory_factor, "now": now}
        less = Text("large.each", **values, **owner, **fewer, containers=names, resource=scene.gpus.memory)
        steps.append(edit(scene.pod, less))
    if not all_inits:
        return Part(Text("large.several", **values), [], steps)
    steps += [edit(scene.pod, Text("large.one-init", **owner)), upgrade(scene.install, Text("large.upgrade"))]
    return Part(Text("large.inits", **values), [], steps)


def _each(scene: PodScene, size: int) -> int:
    """The most memory, of a device or an equal part of one, that each container may have on an empty node; else 0."""
    asking = scene.request.containers
    if not all(container.memory_mib for container in asking):
        return 0
    for share in range(1, len(asking) + 1):
        less = [structs.replace(one, memory_mib=min(one.memory_mib, size // share)) for one in asking]
        request = structs.replace(scene.request, containers=tuple(less))
        tried = (scene.view.cards_of(name, cards, empty=True) for _, name, cards in scene.cluster.shapes)
        if any(scene.view.run(cards, request, ALL_BUT_SIZE).fits for cards in tried):
            return size // share
    return 0


def _more_cores(scene: PodScene) -> Part | None:
    """The request has more cores than any device of its kind, where cores are counted by number."""
    for container in scene.request.containers:
        every = (card.card for name in scene.nodes for card in scene.view.cards(name))
        cards = [card for card in every if card.is_of(container.word)]
        most = max((card.cores for card in cards), default=0)
        if not 0 < most < container.cores or most == _ALL_CORES:
            continue
        resource = scene.config.of(container.word).cores
        text = Text("large.cores", asked=container.cores, device=container.word, most=most)
        node = next(name for name in scene.nodes if any(card.card.cores == most for card in scene.view.cards(name)))
        largest = next(card.card for card in scene.view.cards(node) if card.card.cores == most)
        proofs = [quotes.of_card(scene.nodes[node], largest.uuid)]
        label = Text("large.drop-cores", resource=resource, most=most, **of_owner(scene.pod))
        return Part(text, proofs, [_set_limits(scene.pod, label, container.container, {resource: most})])
    return None


def _set_limits(pod: Pod, label: Text, container: str, limits: Mapping[str, int]) -> NextAction:
    found = next((one for one in pod.spec.containers if one.name == container), None)
    requests = (found.resources.requests if found and found.resources else None) or {}
    both = {key: amount for key, amount in limits.items() if key in requests}
    amounts = [f"--limits={_pairs(limits)}", *([f"--requests={_pairs(both)}"] if both else [])]
    return edit(pod, label, ("set", "resources"), "-c", container, *amounts)


def _pairs(amounts: Mapping[str, int]) -> str:
    return ",".join(f"{key}={amount}" for key, amount in amounts.items())


_LEAVING = timedelta(minutes=2)
"""How long after its grace period (metadata.deletionTimestamp) a deleted pod still counts as leaving."""
BY_AFFINITY = "nodeAffinity"
_MAX_TRIED = 20


class Loosened(NamedTuple):
    """A looser selection: the labels to remove (`nodeAffinity` for the affinity), and nodes that then take the pod."""

    parts: tuple[str, ...]
    nodes: list[str]
    terms: str

    def label(self) -> Text:
        key = "change.loosen-affinity" if self.parts == (BY_AFFINITY,) else "change.loosen-selector"
        return Text(key, label=", ".join(self.parts), nodes=prose.some(self.nodes), terms=self.terms)

    def patch(self) -> dict[str, object]:
        """The looser selection as a patch of the pod; null values are removed."""
        labels = {part.partition("=")[0]: None for part in self.parts if part != BY_AFFINITY}
        spec: dict[str, object] = {"nodeSelector": labels} if labels else {}
        return {"spec": spec | ({"affinity": {BY_AFFINITY: None}} if BY_AFFINITY in self.parts else {})}


def loosen(scene: PodScene, names: Sequence[str]) -> Loosened | None:
    """How to loosen the pod's selection least, so that one of the first few nodes that it rules out takes the pod."""
    drops = NodeFilter(_without(scene.pod, affinity=True)).obstacle
    unselected = (name for name in names if name in scene.obstacles and scene.obstacles[name].text == SELECTOR_TEXT)
    found: dict[tuple[str, ...], list[str]] = {}
    for name in islice(unselected, _MAX_TRIED):
        if drops(scene.nodes[name]) is None and scene.judge(name).fits:
            found.setdefault(_missed(scene.pod, scene.nodes[name]), []).append(name)
    parts = min(found, key=len, default=None)
    return None if parts is None else Loosened(parts, found[parts], _terms(scene.pod))


def _terms(pod: Pod) -> str:
    """The pod's required node affinity as text: `gpu In a100, h100`; only one of several terms has to hold."""
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    return " or ".join(
        ", ".join(
            " ".join(filter(None, (one.key, one.operator, ", ".join(one.values or ()))))
            for one in (*(term.match_expressions or ()), *(term.match_fields or ()))
        )
        for term in (required.node_selector_terms if required else None) or ()
    )


def _missed(pod: Pod, node: Node) -> tuple[str, ...]:
    labels = node.metadata.labels or {}
    keys = [f"{key}={value}" for key, value in (pod.spec.node_selector or {}).items() if labels.get(key) != value]
    left = NodeFilter(_without(pod, affinity=False)).obstacle(node)
    return *keys, *([BY_AFFINITY] if left is not None and left.text == SELECTOR_TEXT else [])


def _without(pod: Pod, *, affinity: bool) -> Pod:
    kept = None if affinity else pod.spec.affinity
    return structs.replace(pod, spec=structs.replace(pod.spec, node_selector=None, affinity=kept))


class Largest(NamedTuple):
    """The largest GPU that a pod may have, and on how many nodes."""

    node: str
    card: Card
    nodes: list[str]


def too_small(scene: PodScene) -> Largest | None:
    """The largest GPU that the pod may have, where it asks for more than that; None where waiting may help."""
    asked = max((container.memory_mib for container in scene.request.containers), default=0)
    if not asked or len(scene.views) != 1:
        return None
    largest: tuple[str, Card] | None = None
    nodes: list[str] = []
    for name, seen in zip(scene.candidates, scene.view.stocks_of(scene.candidates), strict=True):
        found = seen.state.registration if isinstance(seen.state, Unregistered) else seen.state
        if found is None:
            if scene.expects_gpus(name):
                return None
            continue
        cards = (card.card if isinstance(card, CardState) else card for card in found.cards)
        admitted = [card for card in cards if admits(scene, card)]
        nodes += [name] if admitted else []
        for card in admitted:
            if card.memory_mib >= asked:
                return None
            if largest is None or card.memory_mib > largest[1].memory_mib:
                largest = name, card
    return Largest(*largest, nodes) if largest else None


def admits(scene: PodScene, card: Card) -> bool:
    """Whether the pod asks for this kind of GPU, and its type and UUID annotations allow this one."""
    wanted, rules = scene.request.constraints, scene.view.rules
    allowed = type_allows(wanted, CardState(card), rules) and uuid_allows(wanted, card.uuid, rules)
    return scene.is_asked_for(card) and allowed


def loosening(scene: PodScene) -> list[NextAction]:
    """The step that loosens the pod's selection, if nothing else keeps it from nodes that would take it now."""
    loosened = loosen(scene, list(scene.obstacles)) if scene.request.containers else None
    return [edit_owner(scene.pod, loosened.label(), loosened.patch())] if loosened else []


def impossible(scene: PodScene, words: Sequence[Evidence]) -> Finding | None:
    """The finding that the request is larger than any registered node. `words`: the schedulers' statements."""
    if not scene.request.containers or not scene.nodes or not scene.too_large:
        return None
    refusals, asked = scene.refusals_when_empty, scene.request.containers
    cards = [card.card for name in refusals for card in scene.view.cards(name)]
    if not any(card.is_of(container.word) for card in cards for container in asked):
        return None
    resources, container = scene.gpus, request_amounts.hardest(scene)
    amounts = (resources.memory, resources.percentage)
    if any(verdicts.INSUFFICIENT_CORE in verdict.codes for verdict in refusals.values()):
        container, amounts = request_amounts.hardest(scene, request_amounts.BY_CORES), (resources.cores,)
    claim, asks = _claim(scene), request_amounts.proof(scene, container, amounts)
    numbers = request_amounts.proof(scene, container, (resources.count, resources.cores))
    if claim.key in ("impossible-anywhere.number", "impossible-anywhere.never"):
        asks, numbers = numbers, asks
    proofs = [*asks, *_of_largest(scene, claim), *numbers, *words]
    sure: Confidence = "confirmed" if scene.attempt.stage == "filter" and scene.words else "suspected"
    look = step(Text("impossible-anywhere.look"), prose.command("gpus"))
    return finding("impossible-anywhere", claim, sure, proofs=proofs, actions=[look])


def _of_largest(scene: PodScene, claim: Text) -> list[Evidence]:
    """The evidence of the GPUs of a node with the largest one, or with the most where it is their number that lacks."""
    sizes = {
        name: [one.card.memory_mib for one in scene.view.cards(name) if scene.is_asked_for(one.card)]
        for name in scene.refusals_when_empty
    }
    if claim.key == "impossible-anywhere.number":
        name = max(filter(sizes.get, sizes), key=lambda name: len(sizes[name]), default="")
        return [quotes.of_cards(scene.nodes[name])] if name else []
    name = max(filter(sizes.get, sizes), key=lambda name: max(sizes[name]), default="")
    cards = (one.card for one in scene.view.cards(name) if scene.is_asked_for(one.card)) if name else ()
    return [quotes.of_card(scene.nodes[name], max(cards, key=attrgetter("memory_mib")).uuid)] if name else []


def _claim(scene: PodScene) -> Text:
    if over := over_a_card(scene):
        return Text("impossible-anywhere.percent", percent=over, version=str(scene.version or "?"))
    for container in sorted(scene.request.containers, key=request_amounts.size, reverse=True):
        largest, most = at_most(scene, container.word)
        asked = request_amounts.asked(scene, container)
        if container.memory_mib > largest and scene.config.of(container.word).memory:
            return Text("impossible-anywhere.claim", asked=asked, largest=prose.mib(largest), most=most)
        if container.count > most:
            return Text("impossible-anywhere.number", asked=asked, most=most)
    if never := never_given(scene):
        asked = request_amounts.asked(scene, never.container)
        return Text("impossible-anywhere.never", asked=asked, word=never.container.word, numbers=never.numbers)
    name, verdict = nearest_refusal(scene)
    if scene.device.vendor.one_card_per_pod and len({request.container for request in scene.request.containers}) > 1:
        return Text("impossible-anywhere.same", node=name, reason=verdict.text(), word=scene.device.word)
    return Text("impossible-anywhere.reason", node=name, reason=verdict.text())


class ImpossibleCount(NamedTuple):
    """A container with a number of devices that HAMi never gives; `numbers` are those it gives: `1, 2, 4, 8`."""

    container: ContainerRequest
    numbers: str


def never_given(scene: PodScene) -> ImpossibleCount | None:
    """The first container with a number of devices that HAMi never gives, though some node has enough devices."""
    for container in scene.request.containers:
        device = scene.config.by_word[container.word]
        cards = ((name, scene.view.cards(name)) for name in scene.refusals_when_empty)
        able = [name for name, own in cards if sum(one.card.is_of(container.word) for one in own) >= container.count]
        numbers = numbers_given(scene, able, device)
        if able and numbers is not None and container.count not in numbers:
            return ImpossibleCount(container, ", ".join(map(str, numbers)))
    return None


def nearest_refusal(scene: PodScene) -> tuple[str, verdicts.Verdict]:
    """The empty node that comes nearest to taking the pod, and HAMi's verdict on it."""
    refusals = ((name, verdict, dict(verdict.parts)) for name, verdict in scene.refusals_when_empty.items())
    nearest = max(refusals, key=lambda it: (bool(it[2]), it[2].get(verdicts.ALLOCATED_INSUFFICIENT, 0)))
    return nearest[0], nearest[1]


def at_most(scene: PodScene, word: str) -> tuple[int, int]:
    """The MiB of the largest device of the kind `word`, and the most such devices on one node."""
    names = scene.refusals_when_empty
    nodes = [[card.card.memory_mib for card in scene.view.cards(name) if card.card.is_of(word)] for name in names]
    return max((size for memory in nodes for size in memory), default=0), max(map(len, nodes), default=0)


def over_a_card(scene: PodScene) -> int:
    """The requested percentage of a GPU's memory if above 100 (only before HAMi 2.10), else 0."""
    container = request_amounts.hardest(scene)
    if container is None or container.memory_mib or container.percentage == UNSET_PERCENTAGE:
        return 0
    return container.percentage if container.percentage > 100 else 0


def advise(scene: PodScene) -> list[NextAction]:
    """At most three steps that would make the pod fit, each tried; a looser selection first if GPUs are too small."""
    elsewhere = loosening(scene)
    changes = [_action(scene, change) for change in scene.once(_changes)]
    return [*elsewhere, *changes][:2] if too_small(scene) else [*changes[:2], *elsewhere]


def _changes(scene: PodScene) -> list[PlacementChange]:
    if not scene.request.containers or not scene.candidates or len(scene.views) != 1 or scene.view.ledger is None:
        return []
    names = scene.view.registered(scene.candidates)
    # If a sibling ended, its owner would create another pod, which takes the place again.
    siblings = {f"{pod.namespace}/{pod.name}" for pod in scene.view.facts.pods or () if are_siblings(pod, scene.pod)}
    changes = smallest_changes(scene.view, names, scene.request)
    return [change for change in changes if change.pod not in siblings]


_PINNED: Mapping[What, Code] = {"drop-uuid": "card-uuid-mismatch", "drop-type": "card-type-mismatch"}
"""The code of findings that GPUs are not what these annotations name: those say it themselves."""


def why_pinned(scene: PodScene, told: Finding) -> Part | None:
    """What keeps the pod from GPUs beside those told of, if these would take it: its annotations of UUIDs or types."""
    if not any(admits(scene, card.card) for name in told.scope.nodes for card in scene.view.cards(name)):
        return None
    for what, own in _PINNED.items() if scene.advises else ():
        keys = request_amounts.annotated(scene, what) if own != told.code else []
        if keys and any(change.what == what for change in scene.once(_changes)):
            proofs = [quotes.of_pod_annotation(scene.pod, key) for key in keys]
            allowed = (f"{key}: {scene.pod.metadata.annotation(key)}" for key in keys)
            return Part(Text("large.pinned", allowed=listed(one_line(pair, 100) for pair in allowed)), proofs)
    return None


def _action(scene: PodScene, change: PlacementChange) -> NextAction:
    pod, what = scene.pod, change.what
    if what == "memory" and over_a_card(scene):
        of_whole = any(card.card.memory_mib == change.amount for card in scene.view.cards(change.node))
        what = "percent" if of_whole else what
    if change.pod:
        # A pod that is being deleted holds its GPUs until it is gone, which is due by this time.
        leaving = (one for one in scene.view.facts.pods or () if one.metadata.deletion_timestamp)  # few of many
        found = (one for one in leaving if f"{one.namespace}/{one.name}" == change.pod)
        since = next((one.metadata.deletion_timestamp for one in found), None)
        if (at := parse_time(since)) is not None and scene.now - at > _LEAVING:
            label = Text("change.terminating-pod", pod=change.pod, since=since, node=change.node)
            namespace, _, name = change.pod.partition("/")
            return step(label, kubectl("-n", namespace, "get", "pod", name, "-o", "yaml"))
        return end_pod(change.pod, change.node, scene.view.facts.pods or ())
    label = request_amounts.change(scene, change, what=what)
    asking = {request.container for request in scene.request.containers}
    found = [container for container in pod.spec.containers if container.name in asking]
    limits = request_amounts.limits_of(scene, change, what)
    if len(asking) != 1 or not found or not limits:
        keys = request_amounts.annotated(scene, what)
        return annotate(pod, label, dict.fromkeys(keys)) if keys else edit_owner(pod, label)
    told = [
        Text("change.from-unset", resource=resource, amount=amount)
        if (now := written(found[0], resource)) is None
        else Text("change.from-to", resource=resource, amount=amount, now=_plainly(scene, found[0], resource, str(now)))
        for resource, amount in limits.items()
    ]
    label = Text("change.limits", change=label, limits=listed(told), **of_owner(pod))
    return _set_limits(pod, label, found[0].name, limits)


def _plainly(scene: PodScene, container: Container, resource: str, now: str) -> str:
    """An amount as it is written, and in MiB where that is another number: `20k, 20,000 MiB`."""
    number, factor = amount_of(container, resource), scene.gpus.memory_factor
    if resource != scene.gpus.memory or not isinstance(number, int) or now == str(number * factor):
        return now
    return f"{now}, {prose.mib(number * factor)}"
