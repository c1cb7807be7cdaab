"""What was worked out about nodes and holders, kept from question to question: little changes in between.

An entry counts for the very objects that it was made from, and for no others: a `Cluster` that is kept in memory hands
out the same object until it changes.
"""

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
    """One node with its GPUs. `by_turns`: the scheduler adds and drops the GPUs every minute. `mig`: some GPU is in MIG
    mode.

    `kinds` has a number for each GPU: what it is and what is used of it, without its uuid and place. `shape` is equal
    for nodes whose GPUs have the same types and sizes, `amounts` where they are also used alike, `order` where they
    also stand in the same places. None where no other node is like it.
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
"""Functions, by what a verdict depends on: equal numbers for nodes with one verdict; None: the node must be judged."""


def has_card(stock: NodeStock, uuids: frozenset[str]) -> bool:
    """Whether one of the node's GPUs is among `uuids`."""
    state = stock.state
    return not isinstance(state, Unregistered) and any(card.card.uuid in uuids for card in state.cards)


class _Kept(NamedTuple):
    node: Node
    for_good: bool
    registration: Registration | Unregistered
    holdings: Sequence[Holding]
    stock: NodeStock


class Stock:
    """The nodes' GPUs and what pods hold of them, under the rules of one HAMi version; kept between questions."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self.rules = rules_of(terms.version)
        self._selects = label_matcher(terms.node_selector)
        # No method of its own: `_kept` holds it, and so the whole stock would wait for the garbage collector.
        self._holding = partial(read_holding, version=terms.version)
        self._nodes: dict[str, _Kept] = {}
        self._kept: Kept = {}
        self._counted = list[Pod | Holder](), Ledger({})
        self._numbers: dict[Hashable, int] = {}
        self._unused = count()
        self._verdicts: dict[Hashable, dict[Hashable, Verdict]] = {}
        self.runs = 0
        """How often the filter ran on a node so far: the cost of a question beside reading nodes."""

    def ledger(self, pods: Iterable[Pod | Holder]) -> Ledger:
        """What these pods hold of GPUs, added up. Only what these hold is remembered for the next call."""
        pods, counted = list(pods), self._counted
        if pods != counted[0]:
            counted = self._counted = pods, add_up(of_each(self._kept, self._holding, pods))
        return counted[1]

    def verdicts(self, asked: Hashable) -> dict[Hashable, Verdict]:
        """The known verdicts on the question `asked`, by numbers of nodes that are alike; callers add new ones."""
        if asked not in self._verdicts and sum(map(len, self._verdicts.values())) > MOST_VERDICTS:
            self._verdicts.clear()
        return self._verdicts.setdefault(asked, {})

    def registration(self, node: Node, now: datetime) -> Registration | Unregistered:
        """The node's GPUs as registered, or why the scheduler has none of this node."""
        if not self._selects(node.metadata.labels):
            return Unregistered("absent", "--node-label-selector", self.terms.node_selector)
        return registered(node, self.terms, now)

    def on_each(self, nodes: Iterable[tuple[Node, Sequence[Holding]]], now: datetime) -> list[NodeStock]:
        """The stock of each node, with what the holdings beside the node have of its GPUs."""
        found: list[NodeStock] = []
        for node, holdings in nodes:
            kept = self._nodes.get(node.metadata.name)
            if kept is not None and kept.node is node and kept.for_good and kept.holdings == holdings:
                found.append(kept.stock)
            else:
                found.append(self._on(node, holdings, now))
        return found

    def _on(self, node: Node, holdings: Sequence[Holding], now: datetime) -> NodeStock:
        """The node with what these holders have of its cards, read anew."""
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
        """The GPUs of a node's registration, with what the holdings have of them."""
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
        # A MIG card of an old version ends a run where the run comes to it.
        mig = any(card.card.mode == "mig" for card in cards.cards)
        amounts = order if mig else self._number((tuple(sorted(kinds)), facts))
        shape = self._number(sizes(found))
        twins = len({card.card.uuid for card in cards.cards}) < len(kinds)
        return NodeStock(cards, mig=mig, kinds=kinds, shape=shape, amounts=amounts, order=None if twins else order)

    def _kind(self, state: CardState, cordoned: frozenset[str]) -> int:
        """The number of all that decides about a card but its uuid and its place."""
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
        """One number for equal things, and never the same for others: not even after they were forgotten."""
        number = self._numbers.get(what)
        if number is None:
            if len(self._numbers) >= MOST_NUMBERED:
                self._numbers.clear()
            number = self._numbers.setdefault(what, next(self._unused))
        return number


def sizes(registration: Registration) -> tuple[tuple[object, ...], ...]:
    """What decides if a pod is too large for a node's GPUs even when empty: their type, memory, cores and slots."""
    return tuple([(card.type, card.memory_mib, card.cores, card.slots, _beside(card)) for card in registration.cards])


def _beside(card: Card) -> Hashable:
    """What a vendor registers beside: profiles and the kind of the machine decide, numbers only tell neighbours."""
    return tuple((name, value if isinstance(value, str) else "") for name, value in card.custom) if card.custom else ()


def take_stock(cards: Sequence[Card], holdings: Iterable[Holding], rules: Rules) -> list[CardState]:
    """The GPUs in registration order with all holdings of their node counted; unknown uuids are ignored."""
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
    """Occupied placements, and the cards that contradictory records make unhealthy (v2.10.0 mig_allocations.go)."""
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
