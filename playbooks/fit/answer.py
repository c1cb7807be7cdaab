"""The answer of `fit` about one pod: where it fits, or what keeps it out and what would let it in."""

import difflib
import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal, NamedTuple

from msgspec import structs

from bot.hami.fit import verdicts
from bot.hami.fit.advice import Change, smaller_requests
from bot.hami.fit.blockers import Ending, Search, pods_to_end
from bot.hami.nodes.registration import Unregistered
from bot.hami.pods.request_parsing import asked_resources
from bot.hami.webhook import Rejection
from bot.kube.models import Pod
from bot.report import VERDICT_LIMIT, Confidence, Evidence, Finding, Gap, NextAction, gap, step
from bot.texts import Prose, Text, fitting
from playbooks import quotes
from playbooks.fit import elsewhere
from playbooks.fit.gpu_words import CardWords, device_of, words_of
from playbooks.fit.manifest_pod import file_of
from playbooks.fit.reasons import why_never, why_nowhere, would_if_empty
from playbooks.fit.resources import unoffered
from playbooks.fit.shares import amounts, amounts_by_type, asked_on, effects_on_cards, is_share
from playbooks.quota.rules import Effect, proof, refusal
from playbooks.rules.admission.before_scheduling import unread, write_plainly
from playbooks.rules.admission.webhook import remedy
from playbooks.rules.capacity import request_amounts
from playbooks.rules.common import prose
from playbooks.rules.common.findings import finding
from playbooks.rules.common.gaps import other_vendors
from playbooks.rules.dra.claims import claims_of
from playbooks.scenes.waiting_pod import PodScene

_CHANGES_SHOWN = 2
_NEAR = 0.6
_MAX_TYPES = 6


class AskedPod(NamedTuple):
    """One pod, what the answer calls it, and the words that it was asked for in, if it was in words.

    The case is of the pod as it would be admitted; `written` is the pod as the manifest has it, and `refused` says who
    would not let it be created.
    """

    scene: PodScene
    name: str
    words: CardWords | None
    written: Pod
    refused: Rejection | None = None


class Answer(NamedTuple):
    """What is said of one pod, whose end would let it in, and what was not looked at.

    `verdict` is set where the claim is longer than a verdict may be.
    """

    finding: Finding
    endings: tuple[Ending, ...] = ()
    gaps: tuple[Gap, ...] = ()
    verdict: Prose = ""


def free_nodes(scene: PodScene) -> list[str]:
    """The nodes that would take the pod now, kubernetes' own filters included as far as objects alone tell."""
    if other_vendors(scene) or refusal(scene) is not None or scene.pod.spec.node_name:
        return []
    return [taker for taker in scene.takers if taker not in scene.obstacles]


def answer(asked: AskedPod, confidence: Confidence) -> Answer:
    """Exactly one finding."""
    scene, name = asked.scene, _called(asked)
    if asked.refused is not None:
        return Answer(_denied(asked, asked.refused, confidence))
    if asked.words and device_of(asked.words, scene.config) is None:
        return Answer(_no_such_device(asked, asked.words, confidence))
    if asked.words and (lost := _no_such_type(asked, asked.words, confidence)) is not None:
        return Answer(lost)
    if (scene.request.containers and scene.pod.spec.node_name) or unoffered(scene):
        return Answer(elsewhere.never_scheduled(scene, name, confidence))
    if (unknown := _unknown(scene)) is not None:
        claim = Text("fits.unknown", pod=name, why=unknown)
        return Answer(finding("not-enough-evidence", claim, "suspected", (), _proofs(asked), severity="warning"))
    if not scene.request.containers:
        return Answer(_no_request(asked, confidence))
    if (refused := refusal(scene)) is not None:
        return _refused_at_creation(asked, refused, confidence)
    if free := free_nodes(scene):
        claim = Text("fits.claim", pod=name, count=len(free), nodes=prose.names(free))
        confidence = "suspected" if elsewhere.not_looked_at(scene) else confidence
        return Answer(finding("fits", claim, confidence, free, (_card(scene, free[0]),), severity="info"))
    if takers := scene.takers:
        return _lost(asked, takers, confidence)
    return _nowhere(asked, confidence)


def _called(asked: AskedPod) -> Prose:
    """The pod's name; for words what was understood beside them."""
    if asked.words is None or not asked.scene.request.containers:
        return asked.name
    request = asked.scene.request.containers[0]
    read = request_amounts.asked(asked.scene, request)
    if request.cores:
        read = Text("fit.with-cores", read=read, cores=request_amounts.cores(asked.scene, request))
    return Text("fit.called", words=asked.name, read=read)


# ------------------------------------------------------------------------------------------------- it fits nowhere


class _Ways(NamedTuple):
    """What would let the pod onto a node that Kubernetes leaves it: changes of the request, ends of other pods."""

    changes: Sequence[Change]
    search: Search


def _ways(scene: PodScene) -> _Ways:
    names = _judged(scene)
    search = Search() if scene.too_large else pods_to_end(scene.view, names, scene.request)
    return _Ways(smaller_requests(scene.view, names, scene.request)[:_CHANGES_SHOWN], search)


def _judged(scene: PodScene) -> list[str]:
    """The registered candidates; none where HAMi's version, or what is given, is not known."""
    sure = len(scene.views) == 1 and scene.view.ledger is not None
    return (
        [candidate for candidate in scene.candidates if not isinstance(scene.view.state(candidate), Unregistered)]
        if sure
        else []
    )


def _cut_short(search: Search) -> tuple[Gap, ...]:
    return () if search.complete else (gap("fit", Text("fit.cut-short"), Text("fit.cut-short-hint")),)


def _nowhere(asked: AskedPod, confidence: Confidence) -> Answer:
    scene, verdict = asked.scene, ""
    ways, names = _ways(scene), _judged(scene)
    proofs = [*_proofs(asked, ways.changes[0].node if ways.changes else ""), *_held(scene, ways.search.found)]
    if scene.too_large:
        code, claim = (
            "impossible-anywhere",
            Text("fits-nowhere.never", pod=_called(asked), why=why_never(scene)),
        )
    elif (effect := _only_quota(scene)) is not None:
        code = "resource-quota-not-fit"
        claim, verdict = _over_quota("fit", asked, effect)
        proofs = [*proof(effect.of, scene.quotas), *_counted(scene), *proofs]
    else:
        empty = names and not any(would_if_empty(scene, name) for name in names)
        code, count = "fits-nowhere", len(scene.candidates)
        key = "fits-nowhere.empty" if empty else "fits-nowhere.claim"
        claim, verdict = _told(lambda pod, why: Text(key, pod=pod, why=why, count=count), asked, why_nowhere(scene))
    actions = [_action(asked, change) for change in ways.changes] + _end(scene, ways.search.found)
    result = finding(code, claim, confidence, (), tuple(dict.fromkeys(proofs)), severity="warning")
    result = structs.replace(result, next_actions=tuple(actions))
    return Answer(result, ways.search.found, _cut_short(ways.search), verdict)


def _told(claim: Callable[[Prose, Prose], Text], asked: AskedPod, whys: Sequence[Prose]) -> tuple[Text, Text]:
    """The claim, of a pod's name and why, with the first form of the reasons, and with the first that keeps it within a
    verdict's length.
    """
    names = dict.fromkeys((_called(asked), asked.name))
    forms = [claim(name, why) for why in whys or [Text("words.none")] for name in names]
    return forms[0], fitting(forms, VERDICT_LIMIT)


def _only_quota(scene: PodScene) -> Effect | None:
    """The limit of HAMi's that alone keeps the pod off some candidate; None when something else does too."""
    refused = [
        effect
        for effect in effects_on_cards(scene)
        if effect.of.by == "HAMi" and effect.verdict in ("refused", "unknown")
    ]
    if not refused or not any(
        scene.judge(candidate, frozenset({verdicts.QUOTA_NOT_FIT})).fits for candidate in scene.candidates
    ):
        return None
    return next((effect for effect in refused if effect.verdict == "refused"), refused[0])


_OVER_QUOTA = {
    "fit": "resource-quota-not-fit.fit",
    "denied": "resource-quota-not-fit.denied",
    "creation": "resource-quota-not-fit.creation",
}


def _over_quota(when: Literal["fit", "denied", "creation"], asked: AskedPod, effect: Effect) -> tuple[Text, Text]:
    """Claim and verdict."""
    namespace = asked.scene.pod.namespace
    numbers = {"used": _amount(effect.used), "limit": _amount(effect.limit)}
    amount = in_short = _amount(effect.asked)
    if is_share(asked.scene, effect):
        figures = asked_on(asked.scene)
        amount, in_short = amounts_by_type(figures), amounts(figures)

    def told(pod: Prose, why: Prose, asked: Prose) -> Text:
        return Text(
            _OVER_QUOTA[when], pod=pod, why=why, namespace=namespace, resource=effect.key, asked=asked, **numbers
        )

    claim, _ = _told(partial(told, asked=amount), asked, ())
    _, verdict = _told(partial(told, asked=in_short), asked, ())
    return claim, verdict


def _amount(number: int | str | None) -> str:
    return "?" if number is None else f"{number:,}" if isinstance(number, int) else number


def _end(scene: PodScene, found: Sequence[Ending]) -> list[NextAction]:
    """Whose end would let it in, and how to look at what they hold: on the node, or elsewhere against the quota."""
    if not found:
        return []
    first = found[0]
    label = Text(
        "change.end-pod", pod=prose.names([f"{pod.namespace}/{pod.name}" for pod in first.pods]), node=first.node
    )
    there = all(pod.node == first.node for pod in first.pods)
    look = ("gpus", "--node", first.node) if there else ("quota", scene.pod.namespace)
    return [step(label, prose.command(*look))]


def _action(asked: AskedPod, change: Change) -> NextAction:
    """A smaller request; one asked for in words is asked for again in words."""
    in_words = asked.words is not None and change.what == "drop-type"
    label = request_amounts.change(asked.scene, change, what="drop-option" if in_words else "")
    again = _changed(asked.words, change, _unit_mib(asked)) if asked.words else None
    if again is not None:
        return step(label, prose.command("fit", *words_of(again, asked.scene.pod.namespace)))
    look = quotes.of_cards(asked.scene.nodes[change.node]).command
    return elsewhere.ask_again(asked.scene.pod, label, look)


def _unit_mib(asked: AskedPod) -> int:
    """What one of the memory resource means."""
    device = device_of(asked.words, asked.scene.config) if asked.words else None
    return device.resources.memory_factor if device else 1


def _changed(words: CardWords, change: Change, factor: int) -> CardWords | None:
    """The words for the smaller request; a memory is a multiple of the factor that the device config sets."""
    memory = change.amount - change.amount % factor
    match change.what:
        case "memory" if memory:
            return words._replace(memory_mib=memory, percentage=0)
        case "share" if memory:  # of which the cores are no part
            return words._replace(memory_mib=memory, percentage=0, cores=None)
        case "cores":
            return words._replace(cores=change.amount)
        case "count":
            return words._replace(cards=change.amount)
        case "drop-type":
            return words._replace(type="")
        case _:
            return None


# --------------------------------------------------------------------------------------------- the other answers


def _no_such_device(asked: AskedPod, words: CardWords, confidence: Confidence) -> Finding:
    """HAMi's device config has no such device: which it has, and the one that was meant."""
    config, namespace = asked.scene.config, asked.scene.pod.namespace
    known = {device.word.casefold(): device.word for device in config.devices}
    claim = Text("fits.no-device", device=words.device, devices=prose.names(list(known.values()), len(known)))
    near = difflib.get_close_matches(words.device.casefold(), known, n=1, cutoff=_NEAR)
    again = [(known[key], words_of(words._replace(device=known[key]), namespace)) for key in near]
    result = finding("not-found", claim, confidence, (), _proofs(asked), severity="warning")
    actions = tuple(step(Text("not-found.ask", name=name), prose.command("fit", *words)) for name, words in again)
    return structs.replace(result, next_actions=actions)


def _no_such_type(asked: AskedPod, words: CardWords, confidence: Confidence) -> Finding | None:
    """No registered card has a type with that text: which there are, and the one that was meant."""
    scene = asked.scene
    if not words.type:
        return None
    types = Counter(card.card.type for name in scene.nodes for card in scene.view.cards(name))
    wanted = [type_.strip().casefold() for type_ in words.type.split(",") if type_.strip()]
    if not types or not wanted or any(type_ in kind.casefold() for type_ in wanted for kind in types):
        return None
    shown = prose.names([kind for kind, _ in types.most_common()], _MAX_TYPES)
    parts = {part.casefold(): part for kind in types for part in re.split(r"[\s-]+", kind) if part}
    near = difflib.get_close_matches(wanted[0], parts, n=1, cutoff=_NEAR)
    again = [words_of(words._replace(type=parts[key]), scene.pod.namespace) for key in near]
    claim = Text("gpus.no-type", type=words.type, types=shown)
    result = finding("not-found", claim, confidence, (), _proofs(asked), severity="warning")
    actions = tuple(step(Text("not-found.ask", name=parts[near[0]]), prose.command("fit", *words)) for words in again)
    return structs.replace(result, next_actions=actions)


def _unknown(scene: PodScene) -> Prose | None:
    """Why it cannot be told whether the pod fits anywhere; None when it can."""
    if vendors := other_vendors(scene):
        return Text("gap.vendor", resource=vendors[0])
    if scene.takers:
        return None
    return next((verdict.unknown for verdict in scene.verdicts.values() if verdict.fits is None), None)


def _no_request(asked: AskedPod, confidence: Confidence) -> Finding:
    """HAMi's filter lets a pod pass that asks for nothing, or for it in a way that HAMi does not read."""
    scene, name = asked.scene, asked.name
    resources = asked_resources(scene.pod, scene.config)
    if not resources and (claims := claims_of(scene.pod)):
        text = Text("resource-claim.claim", claims=", ".join(claims))
        proofs = [elsewhere.of_manifest(scene.pod, "name", claim) for claim in claims]
        return finding("resource-claim", text, confidence, (), proofs, severity="warning")
    if not resources:
        proofs = tuple(_card(scene, node) for node in sorted(scene.nodes)[:1])
        return finding("no-device-request", Text("fits.anywhere", pod=name), confidence, (), proofs, severity="info")
    plainly = write_plainly(scene.pod, scene.config, scene.version)
    step = elsewhere.ask_again(scene.pod, plainly.text, plainly.command)
    claim = unread(scene.pod, scene.config, scene.version)
    return finding("no-device-request", claim, confidence, (), _proofs(asked), severity="warning", actions=[step])


def _denied(asked: AskedPod, refused: Rejection, confidence: Confidence) -> Finding:
    """The webhook, or the API after it, does not let the pod be created."""
    key = "admission-denied.fit" if refused.by == "webhook" else "admission-denied.fit-api"
    claim = Text(key, pod=asked.name, why=refused.words)
    change = remedy(refused.words) or Text("admission-denied.as-told")
    whole = asked.words and asked.words._replace(memory_mib=0, percentage=0, cores=None)
    question = words_of(whole, asked.written.namespace) if whole else ("-f", file_of(asked.written))
    look = prose.command("fit", *question)
    steps = [elsewhere.ask_again(asked.written, change, look)]
    return finding("admission-denied", claim, confidence, (), _proofs(asked), severity="warning", actions=steps)


def _refused_at_creation(asked: AskedPod, effect: Effect, confidence: Confidence) -> Answer:
    claim, verdict = _over_quota("denied" if effect.by == "HAMi" else "creation", asked, effect)
    proofs = tuple(proof(effect.of, asked.scene.quotas))
    result = finding("resource-quota-not-fit", claim, confidence, (), proofs, severity="warning")
    return Answer(result, verdict=verdict)


def _lost(asked: AskedPod, takers: Sequence[str], confidence: Confidence) -> Answer:
    """HAMi would, Kubernetes does not: what would let the pod to those nodes, and what onto the others."""
    scene, first, count, nodes = asked.scene, takers[0], len(takers), prose.names(takers)

    def in_short(pod: Prose, why: Prose) -> Text:
        return Text("fits.lost-short", pod=pod, why=why, count=count, nodes=nodes)

    whys = elsewhere.reasons(scene, takers)
    claim, _ = _told(lambda pod, why: Text("fits.lost", pod=pod, why=why, count=count, nodes=nodes), asked, whys)
    short, _ = _told(in_short, asked, whys)
    _, shorter = _told(in_short, asked, elsewhere.reasons(scene, takers, figures=False))
    verdict = fitting((claim, short, shorter), VERDICT_LIMIT)
    ways = _ways(scene)
    proofs = (*elsewhere.proofs(scene, first), _card(scene, first), *_held(scene, ways.search.found))
    actions = [*elsewhere.ways(scene, takers), *(_action(asked, change) for change in ways.changes)]
    actions += _end(scene, ways.search.found)
    result = finding("kubernetes-filter", claim, confidence, takers, proofs, severity="warning")
    result = structs.replace(result, next_actions=tuple(actions))
    return Answer(result, ways.search.found, _cut_short(ways.search), verdict)


# ------------------------------------------------------------------------------------------------------- proofs


def _proofs(asked: AskedPod, node: str = "") -> tuple[Evidence, ...]:
    """What the manifest asks for, as written; for words, which stand in no manifest, a card that was judged."""
    scene = asked.scene
    if asked.words is None:
        asks = asked_resources(asked.written, scene.config)
        return tuple(elsewhere.of_manifest(scene.pod, name, value) for name, value in asks.items())
    names = (
        [node]
        if node
        else [candidate for candidate in scene.candidates if scene.view.cards(candidate)] or sorted(scene.nodes)
    )
    return (_card(scene, names[0]),) if names else ()


def _held(scene: PodScene, found: Sequence[Ending]) -> list[Evidence]:
    """What the first of those that would have to end was given."""
    if not found:
        return []
    first = found[0].pods[0]
    pods = scene.view.facts.pods or ()
    return [quotes.of_holder(pod) for pod in pods if (pod.namespace, pod.name) == (first.namespace, first.name)][:1]


def _counted(scene: PodScene) -> list[Evidence]:
    """The largest of what HAMi counts against the namespace's quota already."""
    held = scene.view.ledger.all() if scene.view.ledger else ()
    own = [holding for holding in held if holding.namespace == scene.pod.namespace]
    largest = max(own, key=lambda holding: (holding.amounts, holding.name), default=None)
    pods = scene.view.facts.pods or ()
    return [quotes.of_holder(pod) for pod in pods if largest and pod.metadata.uid == largest.uid][:1]


def _card(scene: PodScene, name: str) -> Evidence:
    cards = scene.view.cards(name)
    node = scene.nodes[name]
    if cards:
        return quotes.of_card(node, cards[0].card.uuid)
    return quotes.of_node(node, node.name, "{.metadata.name}")
