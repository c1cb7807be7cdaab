"""The scene of GPUs: every GPU with what is given of it, who holds it, and whether HAMi's filter would give more."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from operator import attrgetter

import msgspec
from msgspec import structs

from bot.hami.fit import verdicts
from bot.hami.fit.allocated_totals import Share
from bot.hami.fit.cluster_view import View
from bot.hami.fit.node_cache import NodeStock
from bot.hami.fit.verdicts import NodeCards
from bot.hami.nodes.cards import Card, CardState
from bot.hami.nodes.registration import Unregistered
from bot.kube.models import Node, ResourceSlice
from bot.kube.node_conditions import is_cordoned, not_ready
from bot.report import Gap
from bot.rows import FREE, UNKNOWN, UNREGISTERED
from bot.texts import Prose
from playbooks.scenes.cluster import ClusterScene, OfCluster

NO_MEMORY = "no-memory"
LITTLE_MEMORY = "little-memory"
"""The state of a GPU with less free memory than any pod could ask for."""

# Per reason of the filter: what is wrong with a card that refuses even the smallest pod.
_STATES = {
    verdicts.NOT_HEALTHY: "unhealthy",
    verdicts.UNHEALTHY: "unhealthy",
    verdicts.CORDONED: "cordoned",
    verdicts.TIME_SLICING_EXHAUSTED: "no-slots",
    verdicts.INSUFFICIENT_MEMORY: NO_MEMORY,
    verdicts.INSUFFICIENT_CORE: "no-cores",
    verdicts.COMPUTE_UNITS_EXHAUSTED: "no-cores",
    verdicts.EXCLUSIVE_CONFLICT: "exclusive",
    verdicts.MIG_INFEASIBLE: "no-mig-placement",
    verdicts.TYPE_MISMATCH: "other-type",
    verdicts.NODE_INSUFFICIENT: "other-type",
}
_DISAGREED = {"state": UNKNOWN, "slice_mib": None, "used": None, "free_mib": None, "stranded_mib": 0}
_WITHOUT_HOLDERS = ("unhealthy", "cordoned", "other-type")
"""States of a GPU that do not depend on what is given of it."""


class CardSeen(msgspec.Struct, frozen=True, gc=False):
    """A GPU. `used` is what all pods hold of it, `slice_mib` the most memory that one pod could get now; None if not
    known.

    `state` is `free`, `unknown`, or why the GPU can take no pod. `holders` are (ns/name, bound): a pod that is not
    bound holds a reservation, which the scheduler forgets once it tries that pod again.
    """

    node: str
    card: Card
    holders: tuple[tuple[str, bool], ...]
    state: str
    slice_mib: int | None
    used: Share | None
    unknown: Prose = ""
    cores: int = 0
    """How many cores the GPU has, also where HAMi notes a mask of them."""
    divided: bool = True
    """Whether HAMi hands out parts of the GPU's memory."""
    noun: str = "GPU"
    """What users call such a device: GPU, NPU, …"""
    free_mib: int | None = None
    """The memory in MiB that is not given, whether or not a pod could get it; None if not known."""
    stranded_mib: int = 0
    """The memory in MiB that is free and that no pod can get."""


class GpusScene(OfCluster, frozen=True, dict=True, eq=False):
    """The GPUs of a cluster, and the pods that hold them; of one node or one type (in any case), if that is named."""

    node: str = ""
    type: str = ""
    undecodable: tuple[str, ...] = ()

    @property
    def nodes(self) -> Sequence[Node]:
        return self.cluster.nodes

    @property
    def by_name(self) -> Mapping[str, Node]:
        return self.cluster.facts.nodes

    @property
    def slices(self) -> Sequence[ResourceSlice] | Gap:
        """The devices that DRA drivers publish, or the gap."""
        return self.cluster.slices

    @cached_property
    def names(self) -> list[str]:
        """The names of the nodes that are asked about."""
        return sorted(name for name in self.by_name if self.node in ("", name))

    @cached_property
    def of_every_type(self) -> list[CardSeen]:
        return _each(self.cluster, self.names)

    @cached_property
    def cards(self) -> list[CardSeen]:
        return [
            card for card in self.of_every_type if not self.type or self.type.casefold() in card.card.type.casefold()
        ]

    @cached_property
    def registered(self) -> list[CardSeen]:
        return [card for card in self.cards if card.state != UNREGISTERED]


def largest(cards: Iterable[CardSeen]) -> CardSeen | None:
    """The GPU with the most room, of those whose memory is handed out in parts; of equals the first."""
    return max((card for card in cards if card.divided), key=lambda card: card.slice_mib or 0, default=None)


def cards_of(world: ClusterScene, name: str) -> list[CardSeen]:
    """A node's GPUs by index, also of a node that HAMi dropped; unknown if its possible versions disagree."""
    return _each(world, [name])


def _each(world: ClusterScene, names: Iterable[str]) -> list[CardSeen]:
    told, found = [_Told() for _ in world.views], list[CardSeen]()
    for name in names:
        *others, newest = (_cards_of(view, name, known) for view, known in zip(world.views, told, strict=True))
        by_uuid = [{card.card.uuid: card for card in cards} for cards in others]
        for card in sorted(newest, key=attrgetter("card.index", "card.uuid")):
            agreed = not others or all(cards.get(card.card.uuid) == card for cards in by_uuid)
            found.append(card if agreed else structs.replace(card, **_DISAGREED))
    return found


def _cards_of(view: View, name: str, told: "_Told") -> list[CardSeen]:
    seen, node = view.stock_of(name), view.facts.nodes[name]
    holders = _holders(view, name)
    if isinstance(seen.state, Unregistered):
        registration = seen.state.registration
        cards = view.cards_of(name, registration).cards if registration else ()
        return [_seen(name, card, _told_of(view, card, UNREGISTERED), holders) for card in cards]
    if blocked := _blocked(seen, node):
        return [_seen(name, card, _told_of(view, card, blocked), holders) for card in seen.state.cards]
    found: list[CardSeen] = []
    for card, kind in zip(seen.state.cards, seen.kinds, strict=True):
        alike = kind, card.card.numa, card.card.index
        if (what := told.get(alike)) is None:
            what = told[alike] = _ask(view, card, seen.state.cordoned)
        found.append(_seen(name, card, what, holders))
    return found


def _blocked(seen: NodeStock, node: Node) -> str:
    if is_cordoned(node):
        return "node-cordoned"
    if not_ready(node):
        return "node-not-ready"
    return "no-allocatable" if seen.by_turns else ""


def _holders(view: View, name: str) -> Mapping[str, list[tuple[str, bool]]]:
    found: dict[str, list[tuple[str, bool]]] = {}
    for holding in view.ledger.on(name) if view.ledger else ():
        holder = f"{holding.namespace}/{holding.name}", holding.bound
        for uuid in holding.shares:
            found.setdefault(uuid, []).append(holder)
    return found


_Told = dict[tuple[int, int, int], CardSeen]
"""Results by what is equal for cards that differ only in their UUID: tens of thousands are of a few hundred kinds."""


def _seen(name: str, card: CardState, told: CardSeen, holders: Mapping[str, list[tuple[str, bool]]]) -> CardSeen:
    mine = holders.get(card.card.uuid)
    return structs.replace(told, node=name, card=card.card, holders=tuple(sorted(mine)) if mine else ())


def _told_of(view: View, card: CardState, state: str, slice_mib: int | None = 0, unknown: Prose = "") -> CardSeen:
    """What is equal for alike cards, without the node and the holders."""
    device = view.facts.config.device_of(card.card.type)
    count, divided = device.vendor.count_cores, bool(device.resources.memory)
    used = None if view.ledger is None else Share(card.slots, card.memory_mib, count(card.cores))
    free = None if used is None else max(card.card.memory_mib - used.memory_mib, 0)
    lost = 0 if state in (FREE, UNKNOWN, UNREGISTERED) or not divided else free or 0
    return CardSeen(
        "",
        card.card,
        (),
        state,
        slice_mib,
        used,
        unknown=unknown,
        cores=count(card.card.cores),
        divided=divided,
        noun=device.vendor.names.noun,
        free_mib=free,
        stranded_mib=lost,
    )


def _ask(view: View, card: CardState, cordoned: frozenset[str]) -> CardSeen:
    """Whether the card would take the smallest pod, and the largest."""
    device = view.facts.config.device_of(card.card.type)
    least = device.vendor.least(card, device.word)
    verdict = view.run(NodeCards([card], cordoned), least, frozenset({verdicts.QUOTA_NOT_FIT}))
    unknown = verdict.fits is None or not (verdict.fits or verdict.codes)  # or a device that the config does not name
    divided = bool(device.resources.memory)
    state = FREE if verdict.fits else UNKNOWN if unknown else _state(verdict.codes[0], card, divided)
    if view.ledger is None and state not in _WITHOUT_HOLDERS:
        state = UNKNOWN
    slice_mib = None if state == UNKNOWN else max(device.vendor.slices(card), default=0) if state == FREE else 0
    return _told_of(view, card, state, slice_mib, verdict.unknown)


def _state(code: str, card: CardState, divided: bool) -> str:  # noqa: FBT001  # of the device
    """A vendor that looks for groups of cards has one word for all that is wrong with them."""
    if code == verdicts.NUMA_NOT_FIT:
        return "unhealthy" if not card.healthy else NO_MEMORY if divided else "exclusive"
    return _STATES.get(code, "other-type")
