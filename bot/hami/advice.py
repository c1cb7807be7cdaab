"""The smallest change that would let a pod fit: found by asking the filter, never proposed untried."""

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

import msgspec

from bot.hami import fit, mig
from bot.hami.fit import NodeCards
from bot.hami.inventory import CardState, take_stock
from bot.hami.ledger import Holding
from bot.hami.nodestate import Unregistered
from bot.hami.requests import UNSET_PERCENTAGE, ContainerRequest, PodRequest
from bot.hami.view import View

What = Literal["memory", "count", "cores", "drop-type", "drop-uuid", "drop-mode", "drop-numa", "end-pod"]

MAX_NODES = 200
MAX_HOLDERS = 64
MAX_COUNT = 16

_ANNOTATIONS: tuple[tuple[What, str], ...] = (
    ("drop-uuid", "uuid"),
    ("drop-type", "type"),
    ("drop-mode", "mode"),
    ("drop-numa", "numa"),
)


class Change(NamedTuple):
    """One change and the node that would then take the pod. `amount` is MiB, cards or percent; `pod` is ns/name."""

    what: What
    node: str
    amount: int = 0
    pod: str = ""


class Slice(NamedTuple):
    """The largest piece of one card that a pod of these constraints could have now."""

    node: str
    uuid: str
    type: str
    memory_mib: int
    cores: int


def largest_slice(view: View, names: Iterable[str], request: PodRequest) -> Slice | None:
    """The most free memory on a card that passes every check but quota, memory and cores; None when none passes."""
    best: Slice | None = None
    probe = _with_each(request, count=1, memory_mib=0, percentage=0, cores=0)
    for name in names:
        state = view.state(name)
        if isinstance(state, Unregistered):
            continue
        for card in state.cards:
            free = max(_amounts(card), default=0)
            if free <= (best.memory_mib if best else 0):
                continue
            if view.run(NodeCards([card], state.cordoned), probe, frozenset({fit.QUOTA_NOT_FIT})).fits:
                best = Slice(name, card.card.uuid, card.card.type, free, card.free_cores)
    return best


def _amounts(card: CardState) -> set[int]:
    """The amounts of memory that the card might give: all that is free, or of a MIG card the profiles with a place."""
    if card.card.mode != "mig":
        return {card.free_memory_mib} if card.free_memory_mib > 0 else set()
    placeable = (one.memory_mib for one in card.card.mig_profiles if mig.choose([one], 0, card.placements))
    return {memory for memory in placeable if 0 < memory <= card.free_memory_mib}


def smallest_changes(view: View, names: Sequence[str], request: PodRequest) -> list[Change]:
    """At most one change of each kind, each tried and found to fit; the least intrusive kinds first."""
    names = names[:MAX_NODES]
    found = [
        _less_memory(view, names, request),
        _fewer_cores(view, names, request),
        _fewer_cards(view, names, request),
        *(_without(view, names, request, what, field) for what, field in _ANNOTATIONS),
        _one_pod_less(view, names, request),
    ]
    return [change for change in found if change is not None]


def _with_each(request: PodRequest, **changed: int) -> PodRequest:
    return request._replace(containers=tuple(msgspec.structs.replace(one, **changed) for one in request.containers[:1]))


def _single(request: PodRequest) -> ContainerRequest | None:
    """The one container that asks; with several, no single number is "the" request."""
    return request.containers[0] if len(request.containers) == 1 else None


def _less_memory(view: View, names: Sequence[str], request: PodRequest) -> Change | None:
    """The most memory per card that some node would give, below what is asked."""
    container = _single(request)
    if container is None:
        return None
    best: Change | None = None
    relax = frozenset({fit.INSUFFICIENT_MEMORY, fit.MIG_INFEASIBLE})
    for name in names:
        state = view.state(name)
        if isinstance(state, Unregistered) or not view.judge(name, request, relax).fits:
            continue
        for memory in sorted(set[int]().union(*map(_amounts, state.cards)), reverse=True):
            if best and memory <= best.amount:
                break
            if container.memory_mib and memory >= container.memory_mib:
                continue
            smaller = _with_each(request, memory_mib=memory, percentage=UNSET_PERCENTAGE)
            if view.judge(name, smaller).fits:
                best = Change("memory", name, memory)
                break
    return best


def _fewer_cores(view: View, names: Sequence[str], request: PodRequest) -> Change | None:
    container = _single(request)
    if container is None or not container.cores:
        return None
    best: Change | None = None
    for name in names:
        # One less than asked may be enough too: 100 asks for a card without any other user.
        free = {min(card.free_cores, container.cores - 1) for card in view.cards(name)}
        for cores in sorted((one for one in free if one > 0), reverse=True):
            if best and cores <= best.amount:
                break
            if view.judge(name, _with_each(request, cores=cores)).fits:
                best = Change("cores", name, cores)
                break
    return best


def _fewer_cards(view: View, names: Sequence[str], request: PodRequest) -> Change | None:
    container = _single(request)
    if container is None:
        return None
    for count in range(min(container.count - 1, MAX_COUNT), 0, -1):
        for name in names:
            if view.judge(name, _with_each(request, count=count)).fits:
                return Change("count", name, count)
    return None


def _without(view: View, names: Sequence[str], request: PodRequest, what: What, field: str) -> Change | None:
    wanted = request.constraints
    dropped = {
        "uuid": wanted._replace(use_uuid=None, no_use_uuid=None),
        "type": wanted._replace(use_type=None, no_use_type=None),
        "mode": wanted._replace(mode=None),
        "numa": wanted._replace(numa_bind=False),
    }[field]
    if dropped == wanted:
        return None
    changed = request._replace(constraints=dropped)
    node = next((name for name in names if view.judge(name, changed).fits), None)
    return Change(what, node) if node else None


def _one_pod_less(view: View, names: Sequence[str], request: PodRequest) -> Change | None:
    """The smallest holder whose end would make room."""
    best: tuple[int, Change] | None = None
    for name in names:
        registration = view.registration(name)
        state = view.state(name)
        if isinstance(registration, Unregistered) or isinstance(state, Unregistered) or view.ledger is None:
            continue
        holdings = view.ledger.on(name)
        for holding in sorted(holdings, key=_size)[:MAX_HOLDERS]:
            if best and _size(holding)[0] >= best[0]:
                break
            rest = [one for one in holdings if one is not holding]
            cards = state._replace(cards=take_stock(registration.cards, rest, view.rules))
            if view.run(cards, request).fits:
                best = _size(holding)[0], Change("end-pod", name, pod=f"{holding.namespace}/{holding.name}")
                break
    return best[1] if best else None


def _size(holding: Holding) -> tuple[int, str]:
    return sum(share.memory_mib for share in holding.shares.values()), holding.name
