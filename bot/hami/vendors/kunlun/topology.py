"""Which free cards of a Kunlun node go together [HAMi v2.10 pkg/device/kunlun/topo.go].

The first four cards of the sorted list are the left wing, the rest the right one; cards of both wings are linked one
to one by their indexes.
"""

from bot.hami.nodes.cards import CardState

COUNTS = (1, 2, 4, 8)
"""So many cards can be had at once; any other number fits nowhere."""

_WING = 4
_FOURS = ((0, 1, 4, 5), (2, 3, 6, 7), (0, 2, 4, 6), (1, 3, 5, 7), (0, 3, 4, 7), (1, 2, 5, 6))
_SINGLE_ORDER = (1, 3, 2, 4)
_ALL = 8
_SIX = 6


def pick(cards: list[CardState], free: list[bool], count: int) -> list[CardState]:
    """So many of the free cards, none where no such group is free. `cards` are in the order of the policy."""
    left = [state for state, is_free in zip(cards[:_WING], free, strict=False) if is_free]
    right = [state for state, is_free in zip(cards[_WING:], free[_WING:], strict=True) if is_free]
    if count == _ALL:
        return sorted([*left, *right], key=_index) if len(left) + len(right) == _ALL else []
    if count not in COUNTS:
        return []
    if max(len(left), len(right)) >= count:
        return _within_a_wing(left, right, count)
    both = [*left, *right]
    if count == 2:  # a pair
        return _pair(both)
    return _four(both) if count == _WING else []


def _within_a_wing(left: list[CardState], right: list[CardState], count: int) -> list[CardState]:
    """The wing with fewer free cards is used up first."""
    for size in _SINGLE_ORDER if count == 1 else range(count, _WING + 1):
        for wing in (left, right):
            if len(wing) == size:
                return wing[:count]
    return []


def _pair(free: list[CardState]) -> list[CardState]:
    """The first two that face each other."""
    by_index = {state.card.index: state for state in free}
    for state in free:
        low = state.card.index % _WING
        if low in by_index and low + _WING in by_index:
            return [by_index[low], by_index[low + _WING]]
    return []


def _four(free: list[CardState]) -> list[CardState]:
    """Four that face each other two by two; of six, so that the two left over are linked as well."""
    by_index = {state.card.index: state for state in free}
    groups = [group for group in _FOURS if by_index.keys() >= set(group)]
    if not groups:
        return []
    chosen = groups[0]
    if len(by_index) == _SIX:
        linked = (group for group in groups if _are_linked(*sorted(by_index.keys() - set(group))))
        chosen = next(linked, groups[-1])
    return [by_index[index] for index in chosen]


def _are_linked(low: int, high: int) -> bool:
    return high - low == _WING or low // _WING == high // _WING


def _index(state: CardState) -> int:
    return state.card.index
