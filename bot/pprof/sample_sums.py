"""What the sums over all stacks of a profile are, however they are counted."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

Stacks = Callable[[], Iterable[tuple[Sequence[int], int]]]
"""Location ids, leaf first, and a value, for every sample; the same each time it is called."""

Frame = tuple[int, bool]
"""A node, and whether it is inlined into the next one."""
Edge = tuple[int, int]
"""A caller and its callee."""


class Weights(NamedTuple):
    """By node number: flat goes to the leaf, cum once to each node of a stack."""

    flat: list[int]
    cum: list[int]


class Edges(NamedTuple):
    """Weight of each call, and whether every call of it was inlined."""

    weights: dict[Edge, int]
    inline: dict[Edge, bool]


class Sums(Protocol):
    """The sums over some stacks. Both raise SourceError for a location that is not there."""

    def weigh(self) -> Weights: ...

    def edges(self, frames: Mapping[int, tuple[Frame, ...]], callees: set[int]) -> Edges:
        """The calls of `callees` between the frames of each location, innermost first; they skip those without any.

        A call counts once per sample; where a stack repeats it, the one nearest to the root says if it is inlined.
        """
        ...
