"""The answer of `fit` about one pod: where it fits, or what keeps it out and what would let it in."""

import difflib
import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from msgspec import structs

from bot.hami import fit
from bot.hami.advice import Change, smaller_requests
from bot.hami.blockers import Ending, Search, pods_to_end
from bot.hami.inventory import CardState
from bot.hami.nodestate import Unregistered
from bot.hami.requests import asked_resources
from bot.hami.vendors import NVIDIA
from bot.report import Confidence, Evidence, Finding, Gap, NextAction, one_line
from bot.texts import Texts
from playbooks import _evidence
from playbooks._card_words import CardWords, words_of
from playbooks._quota_rules import Effect, effects, proof, refusal
from playbooks._rules import prose
from playbooks._rules.case import Case
from playbooks._rules.findings import finding
from playbooks._rules.gaps import other_vendors

_REASONS_SHOWN = 2
_CHANGES_SHOWN = 2
_NEAR = 0.6
_MAX_TYPES = 6
_PASSING = frozenset(
    {
        fit.INSUFFICIENT_MEMORY,
        fit.INSUFFICIENT_CORE,
        fit.COMPUTE_UNITS_EXHAUSTED,
        fit.TIME_SLICING_EXHAUSTED,
        fit.EXCLUSIVE_CONFLICT,
        fit.QUOTA_NOT_FIT,
        fit.MIG_INFEASIBLE,
    }
)
"""What other pods hold is given back some time."""
_EMPTY_AND_SOUND = frozenset({fit.NOT_HEALTHY, fit.CORDONED, fit.QUOTA_NOT_FIT})


class Asked(NamedTuple):
    """One pod, what the answer calls it, and the words that it was asked for in, if it was in words."""

    case: Case
    name: str
    words: CardWords | None


class Answer(NamedTuple):
    """What is said of one pod, whose end would let it in, and what was not looked at."""

    finding: Finding
    endings: tuple[Ending, ...] = ()
    gaps: tuple[Gap, ...] = ()


def free_nodes(case: Case) -> list[str]:
    """The nodes that would take the pod now, kubernetes' own filters included as far as objects alone tell."""
    if other_vendors(case) or refusal(case) is not None:
        return []
    return [one for one in case.takers if one not in case.obstacles]


def answer(asked: Asked, confidence: Confidence, say: Texts) -> Answer:
    """Exactly one finding."""
    case, name = asked.case, _called(asked, say)
    if asked.words and (lost := _no_such_type(asked, asked.words, confidence, say)) is not None:
        return Answer(lost)
    if (unknown := _unknown(case, say)) is not None:
        claim = say("fits.unknown", pod=name, why=unknown)
        return Answer(finding("not-enough-evidence", claim, "suspected", (), _proofs(asked), severity="warning"))
    if not case.request.containers:
        return Answer(_no_request(asked, confidence, say))
    if (refused := refusal(case)) is not None:
        return Answer(_refused_at_creation(asked, refused, confidence, say))
    if free := free_nodes(case):
        claim = say("fits.claim", pod=name, count=len(free), nodes=prose.names(say, free))
        return Answer(finding("fits", claim, confidence, free, (_card(case, free[0]),), severity="info"))
    if takers := case.takers:
        return Answer(_lost(asked, takers, confidence, say))
    return _nowhere(asked, confidence, say)


def _called(asked: Asked, say: Texts) -> str:
    """The pod's name; for words what was understood beside them."""
    if asked.words is None or not asked.case.request.containers:
        return asked.name
    one = asked.case.request.containers[0]
    memory = prose.mib(one.memory_mib) if one.memory_mib else say("words.percent-of-card", percent=one.percentage)
    read = say("words.asked", cards=one.count, memory=memory)
    if one.cores:
        read = say("fit.with-cores", read=read, cores=one.cores)
    return say("fit.called", words=asked.name, read=read)


# ------------------------------------------------------------------------------------------------- it fits nowhere


def _nowhere(asked: Asked, confidence: Confidence, say: Texts) -> Answer:
    case, name = asked.case, _called(asked, say)
    sure = len(case.views) == 1 and case.view.ledger is not None
    names = [one for one in case.candidates if not isinstance(case.view.state(one), Unregistered)] if sure else []
    changes = smaller_requests(case.view, names, case.request)
    search = Search() if case.too_large else pods_to_end(case.view, names, case.request)
    gaps = () if search.complete else (Gap("fit", say("fit.cut-short"), say("fit.cut-short-hint")),)
    if case.too_large:
        code, claim = "impossible-anywhere", say("fits-nowhere.never", pod=name, **_largest(case))
    elif (effect := _only_quota(case)) is not None:
        code, claim = "resource-quota-not-fit", _over_quota(name, case, effect, say)
    elif sure and names and not any(_would_if_empty(case, one) for one in names):
        code, claim = (
            "fits-nowhere",
            say("fits-nowhere.empty", pod=name, count=len(case.candidates), why=_why(case, say)),
        )
    else:
        code, claim = (
            "fits-nowhere",
            say("fits-nowhere.claim", pod=name, count=len(case.candidates), why=_why(case, say)),
        )
    proofs = [*_proofs(asked, changes[0].node if changes else ""), *_held(case, search.found)]
    if code == "resource-quota-not-fit":
        proofs = [*(one for effect in effects(case) for one in proof(effect.of, case.quotas)), *proofs]
    actions = [_action(asked, one, say) for one in changes[:_CHANGES_SHOWN]] + _end(search.found, say)
    told = finding(code, claim, confidence, (), tuple(dict.fromkeys(proofs)), severity="warning")
    return Answer(structs.replace(told, next_actions=tuple(actions)), search.found, gaps)


def _why(case: Case, say: Texts) -> str:
    """The most frequent reasons with the number of candidates that gave them; those that pass with time first."""
    reasons = Counter(tuple(sorted(one.codes)) for one in case.verdicts.values() if one.fits is False)
    ordered = sorted(reasons.items(), key=lambda one: (_PASSING.isdisjoint(one[0]), -one[1], one[0]))
    parts = [f"{count} {', '.join(codes)}" for codes, count in ordered[:_REASONS_SHOWN]]
    parts += [say("fit.dropped", count=len(case.obstacles))] if case.obstacles else []
    return "; ".join(parts) or say("words.none")


def _largest(case: Case) -> dict[str, object]:
    cards = {name: case.view.cards(name) for name in case.nodes}
    memory = max((card.card.memory_mib for some in cards.values() for card in some), default=0)
    return {"largest": prose.mib(memory), "most": max(map(len, cards.values()), default=0)}


def _would_if_empty(case: Case, name: str) -> bool:
    """Whether the node, with sound cards and nothing given of them, would take the pod with its constraints."""
    state = case.view.state(name)
    if isinstance(state, Unregistered):
        return False
    empty = [CardState(one.card) for one in state.cards]
    return case.view.run(state._replace(cards=empty), case.request, _EMPTY_AND_SOUND).fits is not False


def _only_quota(case: Case) -> Effect | None:
    """The limit of HAMi's that alone keeps the pod off some candidate; None when something else does too."""
    refused = [one for one in effects(case) if one.of.by == "HAMi" and one.verdict in ("refused", "unknown")]
    if not refused or not any(case.judge(one, frozenset({fit.QUOTA_NOT_FIT})).fits for one in case.candidates):
        return None
    return next((one for one in refused if one.verdict == "refused"), refused[0])


def _over_quota(name: str, case: Case, effect: Effect, say: Texts) -> str:
    numbers = {"used": _amount(effect.used), "limit": _amount(effect.limit), "asked": _amount(effect.asked)}
    return say("resource-quota-not-fit.fit", pod=name, namespace=case.pod.namespace, resource=effect.key, **numbers)


def _amount(number: int | str | None) -> str:
    return "?" if number is None else f"{number:,}" if isinstance(number, int) else number


def _end(found: Sequence[Ending], say: Texts) -> list[NextAction]:
    """Whose end would let it in, and how to look at what they hold."""
    if not found:
        return []
    pods = [f"{one.namespace}/{one.name}" for one in found[0].pods]
    label = say("change.end-pod", pod=prose.names(say, pods), node=found[0].node)
    return [NextAction(label, prose.command("gpus", "--node", found[0].node))]


def _action(asked: Asked, change: Change, say: Texts) -> NextAction:
    """A smaller request; one asked for in words is asked for again in words."""
    amount = f"{change.amount:,}"
    label = say(f"change.{change.what}", node=change.node, amount=amount, pod=change.pod)
    again = _changed(asked.words, change, asked.case.config.memory_factor) if asked.words else None
    if again is not None:
        return NextAction(label, prose.command("fit", *words_of(again, asked.case.pod.namespace)))
    return NextAction(label, _evidence.of_node_annotation(asked.case.nodes[change.node], NVIDIA.register, "x").command)


def _changed(words: CardWords, change: Change, factor: int) -> CardWords | None:
    """The words for the smaller request; a memory is a multiple of the factor that the device config sets."""
    memory = change.amount - change.amount % factor
    match change.what:
        case "memory" | "share" if memory:
            return words._replace(memory_mib=memory, percentage=0)
        case "cores":
            return words._replace(cores=change.amount)
        case "count":
            return words._replace(cards=change.amount)
        case "drop-type":
            return words._replace(type="")
        case _:
            return None


# --------------------------------------------------------------------------------------------- the other answers


def _no_such_type(asked: Asked, words: CardWords, confidence: Confidence, say: Texts) -> Finding | None:
    """No registered card has a type with that text: which there are, and the one that was meant."""
    case = asked.case
    if not words.type:
        return None
    types = Counter(card.card.type for name in case.nodes for card in case.view.cards(name))
    wanted = [one.strip().casefold() for one in words.type.split(",") if one.strip()]
    if not types or not wanted or any(one in kind.casefold() for one in wanted for kind in types):
        return None
    shown = prose.names(say, [kind for kind, _ in types.most_common()], _MAX_TYPES)
    parts = {part.casefold(): part for kind in types for part in re.split(r"[\s-]+", kind) if part}
    near = difflib.get_close_matches(wanted[0], parts, n=1, cutoff=_NEAR)
    again = [words_of(words._replace(type=parts[one]), case.pod.namespace) for one in near]
    claim = say("gpus.no-type", type=words.type, types=shown)
    told = finding("not-found", claim, confidence, (), _proofs(asked), severity="warning")
    actions = tuple(NextAction(say("not-found.ask", name=parts[near[0]]), prose.command("fit", *one)) for one in again)
    return structs.replace(told, next_actions=actions)


def _unknown(case: Case, say: Texts) -> str | None:
    """Why it cannot be told whether the pod fits anywhere; None when it can."""
    if vendors := other_vendors(case):
        return say("gap.vendor", resource=vendors[0])
    if case.takers:
        return None
    return next((one.unknown for one in case.verdicts.values() if one.fits is None), None)


def _no_request(asked: Asked, confidence: Confidence, say: Texts) -> Finding:
    """HAMi's filter lets a pod pass that asks for nothing, or for it in a way that HAMi does not read."""
    case, name = asked.case, asked.name
    resources = asked_resources(case.pod, case.config)
    if not resources:
        proofs = tuple(_card(case, one) for one in sorted(case.nodes)[:1])
        return finding("no-device-request", say("fits.anywhere", pod=name), confidence, (), proofs, severity="info")
    amounts = one_line(", ".join(f"{key}: {value}" for key, value in resources.items()), 80)
    claim = say("no-device-request.unread", version=str(case.version or ""), asked=amounts)
    return finding("no-device-request", claim, confidence, (), _proofs(asked), severity="warning")


def _refused_at_creation(asked: Asked, effect: Effect, confidence: Confidence, say: Texts) -> Finding:
    numbers = {"used": _amount(effect.used), "limit": _amount(effect.limit), "asked": _amount(effect.asked)}
    claim = say(
        "resource-quota-not-fit.creation",
        pod=_called(asked, say),
        namespace=asked.case.pod.namespace,
        resource=effect.key,
        **numbers,
    )
    proofs = tuple(proof(effect.of, asked.case.quotas))
    return finding("resource-quota-not-fit", claim, confidence, (), proofs, severity="warning")


def _lost(asked: Asked, takers: Sequence[str], confidence: Confidence, say: Texts) -> Finding:
    case = asked.case
    texts = Counter(case.obstacles[one].text for one in takers)
    claim = say(
        "fits.lost",
        pod=_called(asked, say),
        count=len(takers),
        nodes=prose.names(say, takers),
        why=texts.most_common(1)[0][0],
    )
    node = case.nodes[takers[0]]
    detail = case.obstacles[node.name].detail
    taint = [_evidence.of_node(node, detail, "{.spec.taints[*].key}")] if detail in _taints(case, node.name) else []
    proofs = (_card(case, node.name), *taint)
    return finding("kubernetes-filter", claim, confidence, takers, proofs, severity="warning")


def _taints(case: Case, name: str) -> list[str]:
    return [one.key for one in case.nodes[name].spec.taints or ()]


# ------------------------------------------------------------------------------------------------------- proofs


def _proofs(asked: Asked, node: str = "") -> tuple[Evidence, ...]:
    """What the manifest asks for, as written; for words, which stand in no manifest, a card that was judged."""
    case = asked.case
    if asked.words is None:
        return tuple(
            Evidence("manifest", f"Pod {case.pod.namespace}/{case.pod.name}", None, value, f"grep {name} MANIFEST")
            for name, value in asked_resources(case.pod, case.config).items()
        )
    names = [node] if node else [one for one in case.candidates if case.view.cards(one)] or sorted(case.nodes)
    return (_card(case, names[0]),) if names else ()


def _held(case: Case, found: Sequence[Ending]) -> list[Evidence]:
    """What the first of those that would have to end was given."""
    if not found:
        return []
    first = found[0].pods[0]
    pods = case.view.facts.pods or ()
    return [_evidence.of_holder(one) for one in pods if (one.namespace, one.name) == (first.namespace, first.name)][:1]


def _card(case: Case, name: str) -> Evidence:
    cards = case.view.cards(name)
    node = case.nodes[name]
    if cards:
        return _evidence.of_node_annotation(node, NVIDIA.register, cards[0].card.uuid)
    return _evidence.of_node(node, node.name, "{.metadata.name}")
