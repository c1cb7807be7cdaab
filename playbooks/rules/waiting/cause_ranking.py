"""The reasons why no node takes a pod, ordered by what would have to change for the pod to run.

A reason is weighed by asking HAMi's filter again without it: one whose absence lets a node fit comes before one that
hides another. GPUs that the pod itself rules out, and nodes that would not fit anyway, are background.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import NamedTuple

from bot.finding_codes import Code
from bot.hami.fit import verdicts as fit
from bot.hami.fit.verdicts import Verdict
from bot.hami.scheduler_logs.scheduling_events import REASONS, CardCount, finding_code, reason_of
from bot.hami.version import NEWEST_READ
from bot.kube.selectors import SELECTOR_TEXT
from bot.report import Severity
from playbooks.attempt import Attempt
from playbooks.rules.common.findings import other_vendors
from playbooks.scenes.waiting_pod import PodScene

_SAMPLE = 20
"""The most nodes tried again for one reason: nodes with the same reason text lack the same."""

_ORDER = {reason.text: position for position, reason in enumerate(REASONS)}
_SIZE = (fit.NODE_INSUFFICIENT, fit.NUMA_NOT_FIT, fit.MIG_INFEASIBLE, "CardNotFoundCustomFilterRule")
_SIZE_CODES = frozenset({fit.INSUFFICIENT_MEMORY, fit.INSUFFICIENT_CORE, *_SIZE})


class Rank(IntEnum):
    """The rank of a reason among those that keep a pod waiting; smaller comes first."""

    STATE = 0  # others use it, or somebody took it out of service: the pod itself is fine
    SIZE = 1  # too large for these nodes even when they are empty
    KUBERNETES = 2  # kube-scheduler drops nodes that HAMi would take
    POD = 3  # the pod's own constraints rule out what would fit
    UNSEEN = 4  # a node that should have cards and has none registered; a verdict that is not known
    SELECTOR = 5  # the pod's own node selection leaves out nodes that would fit
    BACKGROUND = 6  # would not help alone
    NORMAL = 7  # a node without cards, or with another vendor's alone; a summary of other reasons


class RankedCause(NamedTuple):
    """One reason with all nodes that have it. `text` is HAMi's or kube-scheduler's own words."""

    rank: Rank
    text: str
    nodes: tuple[str, ...]
    unlocked: int = 0

    @property
    def code(self) -> Code:
        return finding_code(self.text)

    @property
    def of_kubernetes(self) -> bool:
        return self.rank in (Rank.KUBERNETES, Rank.SELECTOR) or (
            reason_of(self.text) is None and self.rank >= Rank.BACKGROUND
        )


def rank_causes(scene: PodScene) -> list[RankedCause]:
    """The reasons of all nodes, the most likely cause first; the nodes must have been read.

    Where no single change would help, HAMi's reasons come first and Kubernetes' own filters last. A quota that forbids
    every node comes before all, even if HAMi was not asked.
    """
    causes = sorted([*_hami_causes(scene), *_kubernetes_causes(scene)], key=_sort_key)
    if not needs_several(causes):
        return causes
    named = {event.code for event, _ in scene.attempt.code_events} | scene.attempt.codes
    # A sample of the nodes that Kubernetes drops shows whether HAMi would refuse them all for the quota.
    judged = scene.judge_each(list(scene.obstacles)[:_SAMPLE] if all(one.of_kubernetes for one in causes) else [])
    if judged and all(one.fits is False and fit.QUOTA_NOT_FIT in one.codes for one in judged.values()):
        return [RankedCause(Rank.BACKGROUND, fit.QUOTA_NOT_FIT, ()), *causes]
    return sorted(causes, key=lambda cause: (cause.rank, cause.of_kubernetes, cause.text not in named))


def by_words(scene: PodScene) -> bool:
    """Whether only the schedulers' words can tell, because the bot's own fit cannot be asked or contradicts HAMi: nodes
    were not read, a vendor's fit is not modelled, HAMi has reasons for nodes that the fit cannot judge, or an unknown
    newer version refuses nodes that would take the pod by the known rules.
    """
    if not scene.nodes_seen or other_vendors(scene):
        return True
    judged = scene.verdicts.items()
    unknown = any(verdict.fits is None and not scene.attempt.cards_on(name) for name, verdict in judged)
    unknown = unknown or (bool(scene.fitting) and scene.version is not None and scene.version > NEWEST_READ)
    return unknown and any(card.of for reason in scene.attempt.by_hami for card in reason.cards)


def causes(scene: PodScene) -> list[RankedCause]:
    """The ranked causes, then those that hide behind them where the answer gives advice."""
    ranked = rank_causes(scene)
    return ranked + behind(scene, ranked) if scene.advises else ranked


def needs_several(causes: Sequence[RankedCause]) -> bool:
    """Whether the pod waits for more than one change, so that no single one of these causes is enough."""
    return bool(causes) and causes[0].rank is Rank.BACKGROUND


def is_never(scene: PodScene, causes: Sequence[RankedCause]) -> bool:
    """Whether waiting does not help: the nodes of the first cause would refuse the pod even empty, and no others may
    take it once they are ready or registered.
    """
    waits, relax = (Rank.STATE, Rank.KUBERNETES, Rank.UNSEEN), frozenset({fit.QUOTA_NOT_FIT})
    if not causes or causes[0].rank is not Rank.SIZE or any(cause.rank in waits for cause in causes):
        return False
    return all(scene.view.fits_empty(name, scene.request, relax) is False for name in causes[0].nodes[:_SAMPLE])


def rank_words(attempt: Attempt) -> list[RankedCause]:
    """The causes by the schedulers' words alone; what the pod rules out itself, or hides others, comes last."""
    nodes: dict[str, set[str]] = defaultdict(set)
    counts: dict[str, int] = defaultdict(int)
    for event, _ in attempt.code_events:
        nodes[event.code] |= set(event.nodes)
    for refusal, _ in attempt.refusals:
        for card in attempt.cards_on(refusal.node):
            nodes[card.code].add(refusal.node)
    for reason in attempt.by_hami:
        for card in reason.cards:
            counts[card.code] += reason.nodes
    texts = {*nodes, *counts}
    causes = [RankedCause(_rank_of_word(text), text, tuple(sorted(nodes[text])), counts[text]) for text in texts]
    causes += [RankedCause(Rank.BACKGROUND, reason.text, (), reason.nodes) for reason in attempt.by_kubernetes]
    return sorted(causes, key=_sort_key)


def _rank_of_word(text: str) -> Rank:
    reason = reason_of(text)
    if reason is None or text == fit.ALLOCATED_INSUFFICIENT:
        return Rank.NORMAL
    if reason.nature == "use":
        return Rank.SIZE if text in _SIZE else Rank.STATE
    return {"pod": Rank.POD, "card": Rank.UNSEEN, "node": Rank.UNSEEN, "summary": Rank.UNSEEN}[reason.nature]


def _sort_key(cause: RankedCause) -> tuple[int, int, int, int, str]:
    return cause.rank, -cause.unlocked, -len(cause.nodes), _ORDER.get(cause.text, len(_ORDER)), cause.text


_UNFIT = (CardCount("NodeUnfitPod", 0, 0),)


def _as_cards(verdict: Verdict) -> tuple[CardCount, ...]:
    if verdict.parts:
        return tuple(CardCount(code, count, verdict.of) for code, count in verdict.parts)
    return tuple(CardCount(code, 0, 0) for code in verdict.codes)


def _hami_causes(scene: PodScene) -> Iterable[RankedCause]:
    """The candidates that do not fit, by the bot's own verdict where it is known, else by HAMi's words about them."""
    by_cards: dict[tuple[CardCount, ...], list[str]] = defaultdict(list)
    for verdict, names in scene.by_verdict:
        for name in names if verdict.fits is None else ():
            by_cards[scene.attempt.cards_on(name) or _UNFIT].append(name)
        if verdict.fits is False:
            by_cards[_as_cards(verdict) or _UNFIT] += names
    nodes: dict[str, list[str]] = defaultdict(list)
    ranked: dict[str, Counter[Rank]] = defaultdict(Counter)
    for cards, names in by_cards.items():
        for text in _telling(cards):
            tried = [_rank_on(scene, name, text) for name in sorted(names)[:_SAMPLE]]
            ranked[text].update(tried)
            ranked[text][tried[-1]] += len(names) - len(tried)
            nodes[text] += names
    for text, names in nodes.items():
        best = min(ranked[text])
        yield RankedCause(best, text, tuple(sorted(names)), ranked[text][best] if best < Rank.UNSEEN else 0)


def _telling(cards: tuple[CardCount, ...]) -> set[str]:
    """The codes of a node that explain something: GPUs that the pod rules out do not while other GPUs are left."""
    codes = {card.code for card in cards}
    natures = {code: reason.nature for code in codes if (reason := reason_of(code))}
    others = {"use", "card"} & set(natures.values())
    return {code for code in codes if not (others and natures.get(code) == "pod")}


def _rank_on(scene: PodScene, name: str, text: str) -> Rank:
    reason = reason_of(text)
    if text == fit.NODE_UNREGISTERED:
        if not scene.expects_gpus(name):
            return Rank.NORMAL
        fits = scene.if_registered(name).fits
        return Rank.STATE if fits else Rank.UNSEEN if fits is None else Rank.BACKGROUND
    if reason is None:
        return Rank.UNSEEN
    if reason.nature == "summary":
        return Rank.NORMAL if reason.text == fit.ALLOCATED_INSUFFICIENT else Rank.UNSEEN
    if scene.verdicts[name].fits is None:
        return {"use": Rank.STATE, "pod": Rank.POD}.get(reason.nature, Rank.UNSEEN)
    if text == fit.NODE_INSUFFICIENT:
        others = scene.devices_are_there and not any(scene.is_asked_for(card.card) for card in scene.view.cards(name))
        return Rank.NORMAL if others else Rank.SIZE
    if scene.judge(name, frozenset({text})).fits is False:
        return Rank.BACKGROUND
    if reason.nature == "pod":
        return Rank.POD
    sized, relax = reason.nature == "use" and text != fit.QUOTA_NOT_FIT, frozenset({fit.QUOTA_NOT_FIT})
    if sized and scene.view.fits_empty(name, scene.request, relax) is not True:
        return Rank.SIZE if text in _SIZE_CODES else Rank.BACKGROUND
    return Rank.STATE


def behind(scene: PodScene, causes: Sequence[RankedCause]) -> list[RankedCause]:
    """The causes that HAMi's reasons hide (one is named for each GPU), where no single change would help."""
    if any(cause.rank < Rank.BACKGROUND for cause in causes):
        return []
    known, nodes = {cause.text for cause in causes}, defaultdict[str, set[str]](set)
    for cause in causes:
        if cause.rank is not Rank.BACKGROUND or reason_of(cause.text) is None:
            continue
        for name, verdict in scene.judge_each(cause.nodes, frozenset({cause.text})).items():
            for code in _telling(_as_cards(verdict)) if verdict.fits is False else ():
                nodes[code].add(name)
    found = (
        RankedCause(Rank.BACKGROUND, text, tuple(sorted(some))) for text, some in nodes.items() if text not in known
    )
    return sorted(found, key=_sort_key)


def _kubernetes_causes(scene: PodScene) -> Iterable[RankedCause]:
    nodes: dict[str, list[str]] = defaultdict(list)
    for name, obstacle in scene.obstacles.items():
        nodes[obstacle.text].append(name)
    for text, names in nodes.items():
        unlocked = sum(1 for name in names[:_SAMPLE] if scene.judge(name).fits is not False)
        useful = Rank.SELECTOR if text == SELECTOR_TEXT else Rank.KUBERNETES
        yield RankedCause(useful if unlocked else Rank.BACKGROUND, text, tuple(names), unlocked)


def family(text: str) -> str:
    """The kind of Kubernetes filter that a FailedScheduling reason is about; versions word it differently."""
    lowered = text.lower()
    for word, name in (
        ("pod affinity", "pod-affinity"),
        ("anti-affinity", "pod-affinity"),
        ("topology spread", "topology-spread"),
        ("volume", "volume"),
        ("persistentvolume", "volume"),
        ("affinity/selector", "selector"),
        ("node selector", "selector"),
        ("affinity", "selector"),
        ("taint", "taint"),
        ("unschedulable", "unschedulable"),
        ("port", "ports"),
    ):
        if word in lowered:
            return name
    return lowered if lowered.startswith("insufficient ") else "other"


def unexplained(scene: PodScene) -> list[tuple[str, int]]:
    """kube-scheduler's reasons that drop more nodes than objects explain, each with the number of nodes beyond."""
    ours: dict[str, int] = defaultdict(int)
    for obstacle in scene.obstacles.values():
        ours[family(obstacle.text)] += 1
    theirs: dict[str, tuple[str, int]] = {}
    for reason in scene.attempt.by_kubernetes:
        text, count = theirs.get(family(reason.text), (reason.text, 0))
        theirs[family(reason.text)] = text, count + reason.nodes
    return [(text, count - ours[name]) for name, (text, count) in theirs.items() if count > ours[name]]


def severity_of(cause: RankedCause) -> Severity:
    """The severity of a cause: a warning, or information where a change of it alone would not help."""
    return "warning" if cause.rank < Rank.BACKGROUND else "info"
