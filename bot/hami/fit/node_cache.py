"""Keeps what was worked out about nodes and holders for the next questions, as long as the same objects are seen."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from itertools import count
from operator import attrgetter
from typing import NamedTuple

import msgspec
from msgspec import structs

from bot.hami.fit.allocated_totals import Holding, Ledger, add_up, read_holding
from bot.hami.fit.filter import Dependence
from bot.hami.fit.verdicts import NodeCards, Verdict
from bot.hami.nodes.cards import Card, CardState
from bot.hami.nodes.node_state import (
    NODE_KEYS,
    Terms,
    cordoned_uuids,
    is_held_by_turns,
    is_taken_in_for_good,
    node_facts,
    registered,
)
from bot.hami.nodes.registration import Registration, Unregistered
from bot.hami.version import Rules, rules_of
from bot.kube.models import Holder, Node, Pod
from bot.kube.models.base import Kept, of_each
from bot.kube.selectors import label_matcher

MOST_NUMBERED = 2**16
MOST_VERDICTS = 2**15
_NO_CARD = frozenset[str]()


class NodeStock(msgspec.Struct, frozen=True):
    """One node's GPUs and their use. `by_turns`: HAMi's scheduler adds and drops them every minute.

    `kinds` tells a GPU's type and use by a number. `shape` is equal for nodes whose GPUs have the same types and sizes,
    `amounts` where they are also used alike, `order` where they also stand in the same places; None where no other node
    is like it.
    """

    state: NodeCards | Unregistered
    by_turns: bool = False
    mig: bool = False
    kinds: tuple[int, ...] = ()
    shape: int | None = None
    amounts: int | None = None
    order: int | None = None


ALIKE: Mapping[Dependence, Callable[[NodeStock], int | None]] = {
    "amounts": attrgetter("amounts"),
    "order": attrgetter("order"),
    "named": attrgetter("order"),  # of nodes without a card that is named
    "identity": lambda _: None,
}
"""By what a verdict depends on: a number that is equal for nodes with one verdict; None where a node has its own."""


def has_card(stock: NodeStock, uuids: frozenset[str]) -> bool:
    state = stock.state
    return not isinstance(state, Unregistered) and any(card.card.uuid in uuids for card in state.cards)


class _Kept(NamedTuple):
    node: Node
    for_good: bool
    registration: Registration | Unregistered
    holdings: Sequence[Holding]
    stock: NodeStock


class Stock:
    """The nodes' GPUs and what pods hold of them, as one version of HAMi sees them; kept between questions."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self.rules = rules_of(terms.version)
        self._selects = label_matcher(terms.node_selector)
        # `_kept` holds this; a bound method would keep the whole stock until the garbage collector runs.
        self._holding = partial(read_holding, version=terms.version)
        self._nodes: dict[str, _Kept] = {}
        self._kept: Kept = {}
        self._counted = list[Pod | Holder](), Ledger({})
        self._numbers: dict[Hashable, int] = {}
        self._unused = count()
        self._verdicts: dict[Hashable, dict[Hashable, Verdict]] = {}
        self.runs = 0
        """How often the filter has run on a node: what questions cost, apart from reading nodes."""

    def ledger(self, pods: Iterable[Pod | Holder]) -> Ledger:
        """What these pods hold of GPUs, added up. Only these pods are remembered for the next call."""
        pods, counted = list(pods), self._counted
        if pods != counted[0]:
            counted = self._counted = pods, add_up(of_each(self._kept, self._holding, pods))
        return counted[1]

    def verdicts(self, asked: Hashable) -> dict[Hashable, Verdict]:
        """The known verdicts on the question `asked`, by a key of nodes that are alike; callers add new ones to it."""
        if asked not in self._verdicts and sum(map(len, self._verdicts.values())) > MOST_VERDICTS:
            self._verdicts.clear()
        return self._verdicts.setdefault(asked, {})

    def registration(self, node: Node, now: datetime) -> Registration | Unregistered:
        """The node's GPUs as registered, or why HAMi's scheduler does not have them."""
        if not self._selects(node.metadata.labels):
            return Unregistered("absent", "--node-label-selector", self.terms.node_selector)
        return registered(node, self.terms, now)

    def on_each(self, nodes: Iterable[tuple[Node, Sequence[Holding]]], now: datetime) -> list[NodeStock]:
        """The stock of each node, whose GPUs have given away what the holdings beside it say."""
        found: list[NodeStock] = []
        for node, holdings in nodes:
            kept = self._nodes.get(node.metadata.name)
            if kept is not None and kept.node is node and kept.for_good and kept.holdings == holdings:
                found.append(kept.stock)
            else:
                found.append(self._on(node, holdings, now))
        return found

    def _on(self, node: Node, holdings: Sequence[Holding], now: datetime) -> NodeStock:
        kept = self._nodes.get(node.name)
        found = self.registration(node, now)
        for_good = is_taken_in_for_good(node, self.terms)
        before = kept.node.metadata if kept and (kept.registration, kept.holdings) == (found, holdings) else None
        if kept and before and all(before.annotation(key) == node.metadata.annotation(key) for key in NODE_KEYS):
            stock = kept.stock
        else:
            stock = self._take(node, found, holdings)
        self._nodes[node.name] = _Kept(node, for_good, found, holdings, stock)
        if for_good or isinstance(found, Unregistered):
            return stock
        by_turns = is_held_by_turns(node, self.terms, now)
        return structs.replace(stock, by_turns=True, amounts=None, order=None) if by_turns else stock

    def cards_of(self, node: Node, registration: Registration, holdings: Iterable[Holding]) -> NodeCards:
        """The GPUs of a node's registration with what the holdings have of them."""
        return NodeCards(
            take_stock(registration.cards, holdings, self.rules),
            cordoned_uuids(node) if self.rules.modern else _NO_CARD,
            node_facts(node, self.terms),
        )

    def _take(self, node: Node, found: Registration | Unregistered, holdings: Sequence[Holding]) -> NodeStock:
        if isinstance(found, Unregistered):
            return NodeStock(found)
        cards = self.cards_of(node, found, holdings)
        kinds = tuple([self._kind(card, cards.cordoned) for card in cards.cards])
        facts = tuple([fact for fact in cards.facts.items() if isinstance(fact[1], Hashable)])
        order = self._number((kinds, facts, tuple([(card.card.numa, card.card.index) for card in cards.cards])))
        # Older versions end a run at the first MIG card, so that the order of the cards decides.
        mig = any(card.card.mode == "mig" for card in cards.cards)
        amounts = order if mig else self._number((tuple(sorted(kinds)), facts))
        shape = self._number(sizes(found))
        twins = len({card.card.uuid for card in cards.cards}) < len(kinds)
        return NodeStock(cards, mig=mig, kinds=kinds, shape=shape, amounts=amounts, order=None if twins else order)

    def _kind(self, state: CardState, cordoned: frozenset[str]) -> int:
        card = state.card
        # One plain tuple: nodes by the thousand have eight cards each, and unpacking two into it takes twice as long.
        kind = (
            card.type,
            card.memory_mib,
            card.cores,
            card.slots,
            card.mode,
            card.mig_profiles,
            card.custom,
            state.memory_mib,
            state.cores,
            state.slots,
            state.healthy,
            state.placements,
            state.classes,
            card.uuid in cordoned,
        )
        number = self._numbers.get(kind)
        return self._number(kind) if number is None else number

    def _number(self, what: Hashable) -> int:
        """One number for equal things. A number is never used again, even after its thing was forgotten."""
        number = self._numbers.get(what)
        if number is None:
            if len(self._numbers) >= MOST_NUMBERED:
                self._numbers.clear()
            number = self._numbers.setdefault(what, next(self._unused))
        return number


def sizes(registration: Registration) -> tuple[tuple[object, ...], ...]:
    """What decides whether a pod is too large for a node's empty GPUs: type, memory, cores and slots."""
    return tuple([(card.type, card.memory_mib, card.cores, card.slots, _beside(card)) for card in registration.cards])


def _beside(card: Card) -> Hashable:
    """The part of `custominfo` that decides; its numbers only tell which cards are neighbours."""
    return tuple((name, value if isinstance(value, str) else "") for name, value in card.custom) if card.custom else ()


def take_stock(cards: Sequence[Card], holdings: Iterable[Holding], rules: Rules) -> list[CardState]:
    """The GPUs in registration order, with all holdings of their node counted; unknown uuids are ignored."""
    states = [CardState(card) for card in cards]
    some_mig = any(card.mode == "mig" for card in cards)
    by_uuid = {state.card.uuid: state for state in states}
    for holding in holdings:
        for uuid, share in holding.shares.items():
            if (state := by_uuid.get(uuid)) is not None:
                state.slots += share.slots
                state.memory_mib += share.memory_mib
                state.cores += share.cores
                if holding.app_class:
                    state.classes += (holding.app_class,)
        if rules.modern and (some_mig or holding.mig):
            _count_mig(states, by_uuid, holding)
    return states


def _count_mig(states: list[CardState], by_uuid: dict[str, CardState], holding: Holding) -> None:
    """Counts occupied MIG placements; contradictory records make a GPU unhealthy (HAMi v2.10.0 mig_allocations.go)."""
    named = [reservation.gpu_uuid for reservation in holding.mig]
    if any(uuid not in by_uuid for uuid in named):
        for state in states:
            state.healthy = state.healthy and state.card.mode != "mig"
    for uuid, state in by_uuid.items():
        count, used = named.count(uuid), uuid in holding.shares
        if state.card.mode == "mig":
            if count:
                state.placements += tuple(
                    reservation.placement for reservation in holding.mig if reservation.gpu_uuid == uuid
                )
            elif used:
                state.healthy = False
        elif count and (state.card.mode == "hami-core" or not (used and count == 1)):
            state.healthy = False
