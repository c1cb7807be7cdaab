"""What was worked out of nodes and holders, kept from question to question: little changes in between.

An entry counts for the very objects that it was made from, and for no others: a cluster that stays hands out the same
object until it changes.
"""

from collections.abc import Hashable, Iterable, Sequence
from datetime import datetime
from itertools import count
from typing import NamedTuple

from bot.hami.fit import Heed, NodeCards
from bot.hami.inventory import CardState, take_stock
from bot.hami.ledger import Holding, Ledger, add_up, read_holding
from bot.hami.nodestate import (
    CORDON_KEY,
    SCORE_KEY,
    Unregistered,
    cordoned_uuids,
    is_held_by_turns,
    is_taken_in_for_good,
    nvidia_cards,
    read_link_scores,
)
from bot.hami.registration import Registration
from bot.hami.rules import rules_of
from bot.hami.version import Version
from bot.kube.models import Holder, Node, Pod
from bot.kube.selectors import label_matcher

MOST_NUMBERED = 2**16
_NO_CARD = frozenset[str]()


class Terms(NamedTuple):
    """What decides which cards HAMi takes in, beside the nodes."""

    version: Version
    count_resource: str
    node_selector: str


class NodeStock(NamedTuple):
    """One node. `by_turns`: the scheduler takes its cards in and drops them again every minute. `mig`: some card is.

    `kinds` tells of each card what it is and what is used of it, without its uuid and its place.
    """

    state: NodeCards | Unregistered
    by_turns: bool = False
    mig: bool = False
    kinds: tuple[int, ...] = ()
    amounts: int | None = None
    order: int | None = None

    def all_that(self, heed: Heed) -> int | None:
        """Equal for nodes that one request gets the same verdict on; None where no other node is like it."""
        return self.amounts if heed == "amounts" else self.order if heed == "order" else None


class _Kept(NamedTuple):
    node: Node
    for_good: bool
    registration: Registration | Unregistered
    holdings: Sequence[Holding]
    stock: NodeStock


class Stock:
    """The nodes' cards and what is held of them, under one version's rules."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self.rules = rules_of(terms.version)
        self._selects = label_matcher(terms.node_selector)
        self._nodes: dict[str, _Kept] = {}
        self._holdings: dict[int, tuple[Pod | Holder, Holding | None]] = {}
        self._numbers: dict[Hashable, int] = {}
        self._unused = count()

    def ledger(self, pods: Iterable[Pod | Holder]) -> Ledger:
        """What these pods hold; only of them something is remembered afterwards."""
        known, kept = self._holdings, dict[int, tuple[Pod | Holder, Holding | None]]()

        for pod in pods:
            entry = known.get(id(pod))
            if entry is None or entry[0] is not pod:
                entry = pod, read_holding(pod, self.terms.version)
            kept[id(pod)] = entry
        self._holdings = kept
        return add_up(holding for _, holding in kept.values())

    def registration(self, node: Node, now: datetime) -> Registration | Unregistered:
        """The node's NVIDIA cards as registered, or why the scheduler has none."""
        if not self._selects(node.metadata.labels):
            return Unregistered("absent", "--node-label-selector", self.terms.node_selector)
        return nvidia_cards(node, self.terms.version, now, count_resource=self.terms.count_resource)

    def on(self, node: Node, holdings: Sequence[Holding], now: datetime) -> NodeStock:
        """The node with what these holders have of its cards."""
        kept = self._nodes.get(node.name)
        if kept is not None and kept.node is node and kept.for_good and kept.holdings == holdings:
            return kept.stock
        found = self.registration(node, now)
        for_good = is_taken_in_for_good(node, self.terms.version, self.terms.count_resource)
        if kept and kept.registration == found and kept.holdings == holdings and _says_same(kept.node, node):
            stock = kept.stock
        else:
            stock = self._take(node, found, holdings)
        if not for_good and not isinstance(found, Unregistered):
            by_turns = is_held_by_turns(node, self.terms.version, now, count_resource=self.terms.count_resource)
            stock = stock._replace(by_turns=by_turns)
        self._nodes[node.name] = _Kept(node, for_good, found, holdings, stock)
        return stock

    def cards_of(self, node: Node, registration: Registration, holdings: Iterable[Holding]) -> NodeCards:
        """The cards of a registration with what these holders have of them."""
        scores = node.metadata.annotation(SCORE_KEY)
        return NodeCards(
            take_stock(registration.cards, holdings, self.rules),
            cordoned_uuids(node) if self.rules.modern else _NO_CARD,
            read_link_scores(scores) if scores else None,
        )

    def _take(self, node: Node, found: Registration | Unregistered, holdings: Sequence[Holding]) -> NodeStock:
        if isinstance(found, Unregistered):
            return NodeStock(found)
        cards = self.cards_of(node, found, holdings)
        kinds = tuple([self._kind(one, cards.cordoned) for one in cards.cards])
        order = self._number((kinds, tuple([(one.card.numa, one.card.index) for one in cards.cards])))
        # A MIG card of an old version ends a run where the run comes to it.
        mig = any(one.card.mode == "mig" for one in cards.cards)
        amounts = order if mig else self._number(tuple(sorted(kinds)))
        twins = len({one.card.uuid for one in cards.cards}) < len(kinds)
        return NodeStock(cards, mig=mig, kinds=kinds, amounts=amounts, order=None if twins else order)

    def _kind(self, state: CardState, cordoned: frozenset[str]) -> int:
        """The number of all that decides about a card but its uuid and its place."""
        card = state.card
        return self._number(
            (
                *(card.type, card.memory_mib, card.cores, card.slots, card.mode, card.mig_profiles),
                *(state.memory_mib, state.cores, state.slots, state.healthy, state.placements),
                card.uuid in cordoned,
            )
        )

    def _number(self, what: Hashable) -> int:
        """One number for equal things, and never the same for others: not even after they were forgotten."""
        number = self._numbers.get(what)
        if number is None:
            if len(self._numbers) >= MOST_NUMBERED:
                self._numbers.clear()
            number = self._numbers.setdefault(what, next(self._unused))
        return number


def _says_same(one: Node, other: Node) -> bool:
    """Whether the annotations agree that bear on registered cards."""
    return all(one.metadata.annotation(key) == other.metadata.annotation(key) for key in (CORDON_KEY, SCORE_KEY))
