"""A node's cards with what they have given away: the state that a filter run starts from."""

from collections.abc import Iterable, Sequence

from bot.hami.fit.allocated_totals import Holding
from bot.hami.fit.version_differences import Rules
from bot.hami.nodes.cards import Card, CardState


def take_stock(cards: Sequence[Card], holdings: Iterable[Holding], rules: Rules) -> list[CardState]:
    """The cards in registration order with all holdings of their node counted; unknown uuids are ignored."""
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
