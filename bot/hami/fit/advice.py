"""Advice: the smallest change that lets a pod fit on a node. The filter confirms each change before it is proposed."""

from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

from msgspec import structs

from bot.hami.fit import verdicts
from bot.hami.fit.blockers import pods_to_end
from bot.hami.fit.cluster_view import View
from bot.hami.fit.verdicts import NodeCards
from bot.hami.nodes.cards import CardState
from bot.hami.nodes.registration import Unregistered
from bot.hami.pods.pod_request import UNSET_PERCENTAGE, WHOLE_CARD, ContainerRequest, PodRequest

What = Literal["memory", "share", "count", "cores", "drop-type", "drop-uuid", "drop-mode", "drop-numa", "end-pod"]

_DROPPED: dict[What, dict[str, Any]] = {
    "drop-uuid": {"use_uuid": None, "no_use_uuid": None},
    "drop-type": {"use_type": None, "no_use_type": None},
    "drop-mode": {"mode": None},
    "drop-numa": {"numa_bind": False},
}
"""By the annotations that a change removes: the fields of `Constraints` that are empty afterwards."""
_WHOLE = (WHOLE_CARD, verdicts.EXCLUSIVE_CORES)


class PlacementChange(NamedTuple):
    """One change of a pod, and a node that then takes it. `amount` is MiB, GPUs or percent; `pod` is NAMESPACE/NAME."""

    what: What
    node: str
    amount: int = 0
    pod: str = ""


class Slice(NamedTuple):
    """The largest part of one GPU that a pod with given constraints can get now; `cores` are in percent."""

    node: str
    uuid: str
    type: str
    memory_mib: int
    cores: int


def largest_slice(view: View, names: Iterable[str], request: PodRequest) -> Slice | None:
    """The most memory that one GPU can give the pod, whatever amounts it asks for; None where no GPU can."""
    best: Slice | None = None
    probe = _with_each(request, count=1, memory_mib=0, percentage=0, cores=0)
    named = request.constraints.use_uuid is not None or request.constraints.no_use_uuid is not None
    tried = set[int]()
    for name in view.unlike(names, request):
        seen = view.stock_of(name)
        if isinstance(seen.state, Unregistered):
            continue
        for card, kind in zip(seen.state.cards, seen.kinds, strict=True):
            if kind in tried and not named:
                continue
            tried.add(kind)
            free = max(_amounts(view, card), default=0)
            if free <= (best.memory_mib if best else 0):
                continue
            if view.run(NodeCards([card], seen.state.cordoned), probe, frozenset({verdicts.QUOTA_NOT_FIT})).fits:
                best = Slice(name, card.card.uuid, card.card.type, free, card.free_cores)
    return best


def _amounts(view: View, card: CardState) -> set[int]:
    amounts = view.facts.config.device_of(card.card.type).vendor.slices(card)
    return {memory for memory in amounts if 0 < memory <= card.free_memory_mib}


def smallest_changes(view: View, names: Sequence[str], request: PodRequest) -> list[PlacementChange]:
    """The changes that each alone let the pod fit, by the filter: one of each kind, the least intrusive first."""
    first = next(iter(pods_to_end(view, names, request, most=1).found), None)
    some = [f"{pod.namespace}/{pod.name}" for pod in first.pods] if first else []
    ending = [PlacementChange("end-pod", first.node, pod=some[0])] if first and len(some) == 1 else []
    return [*smaller_requests(view, names, request), *ending]


def smaller_requests(view: View, names: Sequence[str], request: PodRequest) -> list[PlacementChange]:
    """The changes of the pod's own request that each alone let it fit, as the filter confirms."""
    names = view.unlike(names, request)
    # Only nodes that take the least possible request can take any smaller request of this pod.
    least = _with_each(request, count=1, memory_mib=1, percentage=UNSET_PERCENTAGE, cores=0)
    tried = view.judge_each(names, least) if _single(request) else {}
    able = [name for name, verdict in tried.items() if verdict.fits]
    found = [
        _less_memory(view, able, request),
        _fewer_cores(view, able, request),
        _fewer_cards(view, able, request),
        *(_without(view, names, request, what) for what in _DROPPED),
    ]
    return [change for change in found if change is not None]


def changed(request: PodRequest, change: PlacementChange) -> PodRequest:
    """The pod's request after the change; the same for the change `end-pod`, which ends another pod instead."""
    if annotations := _DROPPED.get(change.what):
        return structs.replace(request, constraints=structs.replace(request.constraints, **annotations))
    memory = {"memory_mib": change.amount, "percentage": UNSET_PERCENTAGE}
    amounts: dict[What, dict[str, int]] = {
        "memory": memory,
        "share": {**memory, "cores": 0},
        "cores": {"cores": change.amount},
        "count": {"count": change.amount},
    }
    return _with_each(request, **amounts[change.what]) if change.what in amounts else request


def _with_each(request: PodRequest, **changed: int) -> PodRequest:
    return structs.replace(
        request, containers=tuple(structs.replace(container, **changed) for container in request.containers[:1])
    )


def _single(request: PodRequest) -> ContainerRequest | None:
    return request.containers[0] if len(request.containers) == 1 else None


def _less_memory(view: View, names: Sequence[str], request: PodRequest) -> PlacementChange | None:
    """The most memory per card, below what is asked, that some node would give. A part of a card needs no cores."""
    if (container := _single(request)) is None:
        return None
    found = _most_memory(view, names, request, "memory", container.memory_mib)
    if found or container.memory_mib or (container.percentage, container.cores) != _WHOLE:
        return found
    return _most_memory(view, names, request, "share", 0)


def _most_memory(
    view: View, names: Sequence[str], request: PodRequest, what: What, below: int
) -> PlacementChange | None:
    best: PlacementChange | None = None
    container = request.containers[0]
    count, device = container.count, view.facts.config.by_word.get(container.word)
    if count > 1 and device is not None and device.vendor.shares_one_only:
        return None
    constraints = request.constraints_of(container.word)
    room = view.quota_room(request.namespace, request.containers[0].word)
    by_quota = None if room is None or room.memory_limit_mib is None else room.memory_free_mib // count
    asked_of_kind: dict[int, set[int]] = {}
    for name in names:
        amounts = set[int]()
        for card, kind in zip(view.cards(name), view.stock_of(name).kinds, strict=True):
            if kind not in asked_of_kind:
                given = _amounts(view, card)
                if by_quota is not None:
                    given |= {min(amount, by_quota) for amount in given}
                if device is not None:  # the most that the webhook leaves as it is written, at that or less
                    vendor, resources = device.vendor, device.resources
                    given = {vendor.askable(container, constraints, resources, amount) for amount in given}
                asked_of_kind[kind] = given
            amounts |= asked_of_kind[kind]
        best = _better(view, name, request, what, {amount for amount in amounts if not below or amount < below}, best)
    return best


def _better(  # noqa: PLR0917  # all that both searches have
    view: View, name: str, request: PodRequest, what: What, amounts: set[int], best: PlacementChange | None
) -> PlacementChange | None:
    wanted = sorted((amount for amount in amounts if amount > (best.amount if best else 0)), reverse=True)
    if not wanted or not view.judge(name, changed(request, PlacementChange(what, "", 1))).fits:
        return best
    changes = (PlacementChange(what, name, amount) for amount in wanted)
    return next((change for change in changes if view.judge(name, changed(request, change)).fits), best)


def _fewer_cores(view: View, names: Sequence[str], request: PodRequest) -> PlacementChange | None:
    container = _single(request)
    if container is None or container.cores in (0, WHOLE_CARD):  # who asks for all cores of a GPU wants it alone
        return None
    best: PlacementChange | None = None
    room = view.quota_room(request.namespace, request.containers[0].word)
    by_quota = None if room is None or room.cores_limit is None else room.cores_free // container.count
    for name in names:
        free = {min(card.free_cores, container.cores - 1) for card in view.cards(name)}
        if by_quota is not None:
            free |= {min(amount, by_quota) for amount in free}
        best = _better(view, name, request, "cores", free, best)
    return best


def _fewer_cards(view: View, names: Sequence[str], request: PodRequest) -> PlacementChange | None:
    container = _single(request)
    if container is None:
        return None
    best: PlacementChange | None = None
    for name in names:
        while (count := best.amount + 1 if best else 1) < container.count:
            change = PlacementChange("count", name, count)
            if not view.judge(name, changed(request, change)).fits:
                break
            best = change
    return best


def _without(view: View, names: Sequence[str], request: PodRequest, what: What) -> PlacementChange | None:
    dropped = changed(request, PlacementChange(what, ""))
    if dropped == request:
        return None
    node = next((name for name in names if view.judge(name, dropped).fits), None)
    return PlacementChange(what, node) if node else None
