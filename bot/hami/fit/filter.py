"""The filter's verdict on one node: the frame for all vendors, around each vendor's own checks.

Source: HAMi pkg/scheduler/score.go fitInDevices at v2.5.1 to v2.10.0.
"""

import re
import struct
from collections.abc import Mapping, Sequence
from copy import copy
from functools import lru_cache
from typing import Literal, NamedTuple

from bot.hami.fit.verdicts import (
    DEFAULT_POLICY,
    FIT,
    FITS,
    NODE_INSUFFICIENT,
    Booking,
    NodeCards,
    QuotaRoom,
    Run,
    UnmodelledError,
    Verdict,
)
from bot.hami.nodes.cards import CardState
from bot.hami.pods.pod_request import UNSET_PERCENTAGE, WHOLE_CARD, ContainerRequest, PodRequest
from bot.hami.vendors import BY_WORD, FIRST
from bot.hami.vendors.vendor import Vendor
from bot.hami.version import Rules
from bot.texts import Text

_WEIGHT = re.compile(r"\s*(slot|core|memory)\s*=\s*([+-]?[0-9]{1,19})\s*")
_INT64_MAX = 2**63 - 1
_SORT_KEYS = ("binpack", "spread", "numa")
_FACTOR = 10.0


class Weights(NamedTuple):
    slot: float = 1.0
    core: float = 1.0
    memory: float = 1.0


_EQUAL = Weights()


def read_weights(text: str | None) -> Weights | None:
    """The weights in a text like `slot=1,core=1,memory=3`, 1 each without a text; None where HAMi's filter fails on it.

    Weights are whole numbers of at least 0, each key once, not all 0 [HAMi v2.10 pkg/util/device_scoring_weights.go].
    """
    if text is None:
        return Weights()
    found = [_WEIGHT.fullmatch(part) for part in text.split(",")]
    values = {match[1]: int(match[2]) for match in found if match}
    if len(found) != len(values) or set(values) != set(Weights._fields):
        return None
    if not all(0 <= value <= _INT64_MAX for value in values.values()) or not any(values.values()):
        return None
    return Weights(**values)


def sort_cards(
    cards: list[CardState],
    asked: Sequence[ContainerRequest],
    rules: Rules,
    *,
    policy: str,
    numa_bind: bool,
    weights: Weights,
) -> None:
    """Sorts `cards` in place as HAMi does for one container's request: the last card is the first to be tried."""
    by_word = {request.word: request for request in asked}
    scores = {id(state): score(state, by_word.get(state.card.type, asked[0]), rules, weights) for state in cards}

    def numa(state: CardState) -> float:
        return state.card.numa

    def up(state: CardState) -> float:
        return scores[id(state)]

    def down(state: CardState) -> float:
        return -scores[id(state)]

    binpack = policy == "binpack"
    if not rules.modern:
        cards.sort(key=lambda state: (-numa(state), up(state)) if binpack else (numa(state), down(state)))
    elif policy == "mutex":
        cards.sort(key=lambda state: (-state.slots, numa(state)))
    elif policy == "numa" or "," in policy:
        words = [word.strip() for word in policy.split(",")]
        named = [word for word in words if word in _SORT_KEYS] or ["spread"]
        if numa_bind:
            named = ["numa", *named]
        by = {"binpack": up, "spread": down, "numa": numa}
        cards.sort(key=lambda state: (*(by[word](state) for word in named), state.card.index))
    elif numa_bind:
        cards.sort(key=lambda state: (-numa(state), up(state)) if binpack else (numa(state), down(state)))
    else:
        cards.sort(key=lambda state: (up(state) if binpack else down(state), numa(state)))


def score(state: CardState, request: ContainerRequest, rules: Rules, weights: Weights) -> float:
    """HAMi's score of a GPU: 10 x the weighed sum of used over total slots, cores and memory, in 32-bit floats."""
    card = state.card
    if not (card.slots and card.cores and card.memory_mib):
        return 0.0
    slots, cores, memory = state.slots, state.cores, state.memory_mib
    by_share = request.percentage not in (0, UNSET_PERCENTAGE)
    if rules.score_includes_request:
        slots, cores = slots + request.count, cores + request.cores
        # HAMi divides integers: less than 100 % of a card counts as 0.
        memory += card.memory_mib * (request.percentage // WHOLE_CARD) if by_share else request.memory_mib
    elif rules.modern and card.type == request.word:
        slots, cores = slots + 1, cores + request.cores
        memory += card.memory_mib * request.percentage // WHOLE_CARD if by_share else request.memory_mib
    return _weighed(slots / card.slots, cores / card.cores, memory / card.memory_mib, weights)


@lru_cache(maxsize=2**14)  # most cards of a cluster are used like others
def _weighed(slots: float, cores: float, memory: float, weights: Weights) -> float:
    slots, cores, memory = _three_f32(slots, cores, memory)
    if weights != _EQUAL:
        slot, core, of_memory = _three_f32(*weights)
        slots, cores, memory = _three_f32(slot * slots, core * cores, of_memory * memory)
    return _f32(_FACTOR * _f32(_f32(slots + cores) + memory))


def _three_f32(*values: float) -> tuple[float, float, float]:
    first, second, third = _THREE_FLOAT32.unpack(_THREE_FLOAT32.pack(*values))
    return first, second, third


def _f32(value: float) -> float:
    return _FLOAT32.unpack(_FLOAT32.pack(value))[0]


Dependence = Literal["amounts", "order", "named", "identity"]
"""What decides a verdict. "amounts": types and use of the node's GPUs; "order": order and NUMA nodes too; "named": also
whether the pod names one; "identity": also which GPUs they are.
"""

_TOO_FEW = Verdict(fits=False, reason=NODE_INSUFFICIENT)


def judge(
    node: NodeCards,
    request: PodRequest,
    rules: Rules,
    *,
    quotas: Mapping[str, QuotaRoom] = {},
    default_policy: str = DEFAULT_POLICY,
    relax: frozenset[str] = frozenset(),
) -> Verdict:
    """The filter's verdict on one node. `quotas` is what quotas leave, by the word of the device."""
    if not request.containers:
        return FITS
    run = Run(node, request, rules, quotas=quotas, default_policy=default_policy, relax=relax)
    weights = read_weights(request.constraints.weights) if rules.modern else Weights()
    if weights is None:
        return Verdict(fits=None, unknown=Text("error-hami.invalid-weights"))
    try:
        verdict = _verdict(run, weights)
        if not run.met_equals or len(request.containers) == 1:
            return verdict
        again = Run(node, request, rules, quotas=quotas, default_policy=default_policy, relax=relax)
        again.other_order = True
        # HAMi picks one of several equal groups of cards by chance: this is its answer for the opposite pick.
        other = _verdict(again, weights)
        known = (verdict.text() or FIT, *verdict.instead)
        more = tuple(text for text in (other.text() or FIT, *other.instead) if text not in known)
        return verdict._replace(instead=(*verdict.instead, *more)) if more else verdict
    except UnmodelledError as error:
        return Verdict(fits=None, unknown=error.what)


def depends_on(request: PodRequest, *, limited: bool, default_policy: str) -> Dependence:
    """What verdicts on this request depend on at most, whichever checks are left out. `limited`: some quota applies."""
    wanted = request.constraints
    policy = default_policy if wanted.policy is None else wanted.policy
    if "topology" in policy:
        return "identity"
    if named_uuids(request):
        return "named"
    if limited or wanted.numa_bind or len(request.containers) > 1:
        return "order"
    return "order" if request.containers and _vendor(request.containers[0]).orders else "amounts"


def _vendor(container: ContainerRequest) -> Vendor:
    return BY_WORD[container.vendor or container.word]


def named_uuids(request: PodRequest) -> frozenset[str]:
    """All uuids that the pod's annotations name, to be used or avoided; an empty list counts as an empty uuid."""
    lists = list[str | None]()
    for container in request.containers:
        wanted = request.constraints_of(container.word)
        lists += wanted.use_uuid, wanted.no_use_uuid
        if _vendor(container).more_uuids:
            lists += wanted.more
    entries = [entry for text in lists if text is not None for entry in text.split(",")]
    return frozenset([*entries, *(entry.strip() for entry in entries)])


def _verdict(run: Run, weights: Weights) -> Verdict:
    containers, modern = run.request.containers, run.rules.modern
    if len(containers) == 1:
        cards = list(run.node.cards)
        if _all_too_few(run, cards, containers):  # no order matters to one who asks for more
            return _TOO_FEW
        _sort(run, cards, containers, weights)
        return _device(run, cards, containers[0]) or FITS
    apps: list[CardState] | None = None
    position = 0
    by_container: list[list[ContainerRequest]] = []  # of several devices each asks once for each
    for request in containers:
        last = by_container[-1] if by_container else []
        goes_on = last and (last[0].container, last[0].init) == (request.container, request.init)
        if goes_on and not any(other.word == request.word for other in last):
            last.append(request)
        else:
            by_container.append([request])
    for same in by_container:
        if modern and same[0].init:
            cards = list(map(copy, run.node.cards))
        else:
            if apps is None:
                apps = list(map(copy, run.node.cards))
                if modern:  # the app containers are a pass of their own, for the quota too
                    run.allocated = []
            cards = apps
        position += len(same)
        run.is_last = position == len(containers)
        failed = _container(run, cards, same, weights)
        if failed is not None:
            return failed
    return FITS


def _container(run: Run, cards: list[CardState], asked: Sequence[ContainerRequest], weights: Weights) -> Verdict | None:
    """None where it fits. HAMi asks for several devices in random order; the first that it lacks gives the reason."""
    if _all_too_few(run, cards, asked):
        return _TOO_FEW
    _sort(run, cards, asked, weights)
    if len(asked) == 1:
        return _device(run, cards, asked[0])
    allocated = run.allocated
    booked, failed = list[Booking](), list[Verdict]()
    for container in asked:
        run.allocated = list(allocated)
        found = _device(run, cards, container)
        booked += run.allocated[len(allocated) :]
        if found is not None:
            failed.append(found)
    run.allocated = [*allocated, *booked]
    if not failed:
        return None
    texts = dict.fromkeys(verdict.text() for verdict in failed)
    return failed[0]._replace(instead=tuple(texts)[1:])


def _all_too_few(run: Run, cards: list[CardState], asked: Sequence[ContainerRequest]) -> bool:
    return all(
        (run.rules.modern or _vendor(container) is FIRST)
        and _too_few(run, cards, _in_play(cards, container.word, run.rules), container)
        for container in asked
    )


def _too_few(run: Run, cards: list[CardState], in_play: list[CardState], container: ContainerRequest) -> bool:
    enough = container.count <= len(in_play if run.rules.modern else cards)
    return not enough and not _vendor(container).may_split(run, in_play)


def _device(run: Run, cards: list[CardState], container: ContainerRequest) -> Verdict | None:
    rules, vendor = run.rules, _vendor(container)
    if not rules.modern and vendor is not FIRST:
        raise UnmodelledError(Text("error-hami.before-2-10", word=vendor.names.word))
    run.quota = run.quotas.get(container.word)
    run.wanted = run.request.constraints_of(container.word) if run.request.others else run.request.constraints
    in_play = _in_play(cards, container.word, rules)
    if _too_few(run, cards, in_play, container):
        return _TOO_FEW
    taken = vendor.scan(run, in_play, container)
    if isinstance(taken, Verdict):
        return taken
    run.allocated.append(Booking(container.word, taken))
    for state, memory, cores, placement, slots, card in taken if len(run.request.containers) > 1 else ():
        state.slots += slots
        state.memory_mib += memory
        state.cores += cores
        if placement is not None:
            state.placements += (placement,)
        if card is not None:
            state.card = card
    return None


def _sort(run: Run, cards: list[CardState], asked: Sequence[ContainerRequest], weights: Weights) -> None:
    orders = run.numa_bind or bool(run.quotas) or run.topology or any(_vendor(request).orders for request in asked)
    if orders or len(run.request.containers) > 1:
        sort_cards(cards, asked, run.rules, policy=run.policy, numa_bind=run.numa_bind, weights=weights)


def _in_play(cards: list[CardState], word: str, rules: Rules) -> list[CardState]:
    if not rules.only_own_type:
        return cards
    if not rules.modern:
        return [state for state in cards if word in state.card.type]
    word = word.upper()
    return [state for state in cards if word in state.card.type.upper()]


_FLOAT32 = struct.Struct("f")
_THREE_FLOAT32 = struct.Struct("3f")
