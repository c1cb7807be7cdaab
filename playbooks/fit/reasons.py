"""Why a pod fits nowhere, in words; HAMi's own codes are in the tables."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec import structs

from bot.hami.fit import verdicts
from bot.hami.fit.verdicts import type_allows
from bot.hami.nodes.cards import CardState
from bot.hami.nodes.registration import Unregistered
from bot.hami.vendors import FIRST
from bot.texts import Prose, Text, clauses, listed
from playbooks.rules.capacity.large_request import at_most, nearest_refusal, never_given
from playbooks.rules.common import prose
from playbooks.scenes.waiting_pod import PodScene

_REASONS_SHOWN = 4
_PASSING = frozenset(
    {
        verdicts.INSUFFICIENT_MEMORY,
        verdicts.INSUFFICIENT_CORE,
        verdicts.COMPUTE_UNITS_EXHAUSTED,
        verdicts.TIME_SLICING_EXHAUSTED,
        verdicts.EXCLUSIVE_CONFLICT,
        verdicts.QUOTA_NOT_FIT,
        verdicts.MIG_INFEASIBLE,
    }
)
"""Reasons that end when other pods give back what they hold."""
_EMPTY_AND_SOUND = frozenset({verdicts.NOT_HEALTHY, verdicts.CORDONED, verdicts.QUOTA_NOT_FIT})
_WORDS = {
    verdicts.NOT_HEALTHY: Text("fit-reason.unhealthy"),
    verdicts.CORDONED: Text("fit-reason.cordoned"),
    verdicts.TYPE_MISMATCH: Text("fit-reason.type"),
    verdicts.NUMA_NOT_FIT: Text("fit-reason.numa"),
    verdicts.UUID_MISMATCH: Text("fit-reason.uuid"),
    verdicts.TIME_SLICING_EXHAUSTED: Text("fit-reason.slots"),
    verdicts.EXCLUSIVE_CONFLICT: Text("fit-reason.exclusive"),
    verdicts.QUOTA_NOT_FIT: Text("fit-reason.quota"),
    verdicts.INSUFFICIENT_MEMORY: Text("fit-reason.memory"),
    verdicts.INSUFFICIENT_CORE: Text("fit-reason.cores"),
    verdicts.COMPUTE_UNITS_EXHAUSTED: Text("fit-reason.units"),
    verdicts.MIG_INFEASIBLE: Text("fit-reason.mig"),
    verdicts.ALLOCATED_INSUFFICIENT: Text("fit-reason.too-few"),
    verdicts.NODE_INSUFFICIENT: Text("fit-reason.too-few"),
    verdicts.NODE_UNREGISTERED: Text("fit-reason.unregistered"),
}
_WORDS_OF_OTHERS = _WORDS | {
    verdicts.NUMA_NOT_FIT: Text("fit-reason.group"),
    verdicts.UNHEALTHY: Text("fit-reason.unhealthy"),
}


def why_nowhere(scene: PodScene) -> Sequence[Prose]:
    """Why the pod fits on no node: the reasons with their numbers of nodes, then ever shorter forms of that list.
    Reasons that pass with time come first. The rest is counted too, so the numbers add up to all nodes.
    """
    kind, rules = scene.request.constraints.use_type, scene.view.rules
    if kind:  # it is what the pod is kept to: no node may have so many cards of it
        wanted = scene.request.constraints
        cards = (scene.view.cards(name) for name in scene.nodes)
        allowed = ([card for card in some if type_allows(wanted, card, rules)] for some in cards)
        most = max(map(_places, allowed), default=0)
        if most and any(container.count > most for container in scene.request.containers):
            return [Text("fits-nowhere.most-of-type", count=most, type=kind)]
    codes = Counter(_telling(verdict.codes) for verdict in scene.verdicts.values() if verdict.fits is False)
    largest = sorted(codes.items(), key=lambda item: (-item[1], item[0]))
    several = range(max(1, min(len(codes), _REASONS_SHOWN)), 0, -1)
    forms = [_counted(scene, dict(largest[:most]), len(scene.obstacles)) for most in several]
    return [clauses(form) for form in (*forms, _counted(scene, dict(largest[:1]), 0)) if form]


def _telling(codes: Iterable[str]) -> tuple[str, ...]:
    """That too few cards were found follows from the other reasons, where there are any."""
    some = tuple(sorted(codes))
    return tuple(reason for reason in some if reason != verdicts.ALLOCATED_INSUFFICIENT) or some


def _counted(scene: PodScene, some: Mapping[tuple[str, ...], int], dropped: int) -> list[Text]:
    words = _WORDS if scene.device.vendor is FIRST else _WORDS_OF_OTHERS
    ordered = sorted(some.items(), key=lambda item: (_PASSING.isdisjoint(item[0]), -item[1], item[0]))
    left = len(scene.nodes) - dropped - sum(some.values())
    reasons = ((listed([words.get(code, code) for code in of]), count) for of, count in ordered)
    told = [Text("fit-reason.counted", count=count, reasons=why) for why, count in reasons]
    rest = (Text("fit.others", count=left), Text("fit.dropped", count=dropped))
    return [*told, *(text for text, count in zip(rest, (left, dropped), strict=True) if count)]


def why_never(scene: PodScene) -> Text:
    """Why the request is too large for the cluster: for a GPU's memory, for the number of GPUs, or for both together.
    For another vendor's devices, which other rules may refuse, it is HAMi's own text about an empty node.
    """
    if scene.device.vendor is not FIRST:
        return _why_others_never(scene)
    cards = {name: scene.view.cards(name) for name in scene.nodes}
    memory = max((card.card.memory_mib for some in cards.values() for card in some), default=0)
    as_cards = max(map(len, cards.values()), default=0)
    # As many as an empty node with MIG cards gives, where each of its instances may be one.
    with_mig = (name for name, some in cards.items() if any(card.card.mode == "mig" for card in some))
    most = max(as_cards, max((_given(scene, name) for name in with_mig), default=0))
    containers = scene.request.containers
    several = max((_places(some) for some in cards.values()), default=0) > most
    if any(container.memory_mib > memory for container in containers):
        return Text("fits-nowhere.largest", memory=prose.mib(memory))
    if any(container.count > most for container in containers):
        key = "fits-nowhere.most-as-large" if several else "fits-nowhere.most"
        return Text("fits-nowhere.most-mig" if most > as_cards else key, count=most)
    return Text("fits-nowhere.most-and-largest", count=most, memory=prose.mib(memory))


def _why_others_never(scene: PodScene) -> Text:
    for container in scene.request.containers:
        memory, most = at_most(scene, container.word)
        if not most:
            return Text("fits-nowhere.none", word=container.word)
        if container.memory_mib > memory and scene.config.of(container.word).memory:
            return Text("fits-nowhere.largest", memory=prose.mib(memory))
        if container.count > most:
            return Text("fits-nowhere.most", count=most)
    if never := never_given(scene):
        return Text("fits-nowhere.numbers", word=never.container.word, numbers=never.numbers)
    name, verdict = nearest_refusal(scene)
    return Text("fits-nowhere.reason", node=name, reason=verdict.text())


def _given(scene: PodScene, name: str) -> int:
    containers = scene.request.containers
    if len(containers) != 1:
        return _places(scene.view.cards(name))
    counts = range(_places(scene.view.cards(name)), 0, -1)
    return next((count for count in counts if would_if_empty(scene, name, count)), 0)


def _places(cards: Sequence[CardState]) -> int:
    """How many cards a pod can be given of a node; a MIG card is given instance by instance."""
    return sum(max(card.card.slots, 1) if card.card.mode == "mig" else 1 for card in cards)


def would_if_empty(scene: PodScene, name: str, count: int | None = None) -> bool:
    """Whether the node, all its GPUs healthy and free, takes the pod, or one like it with `count` GPUs a container."""
    state, request = scene.view.state(name), scene.request
    if isinstance(state, Unregistered):
        return False
    if count is not None:
        several = tuple(structs.replace(container, count=count) for container in request.containers)
        request = structs.replace(request, containers=several)
    empty = [CardState(card.card) for card in state.cards]
    return scene.view.run(state._replace(cards=empty), request, _EMPTY_AND_SOUND).fits is not False
