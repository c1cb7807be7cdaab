"""Sums over all stacks of a profile: the inner loops, which take nearly all of the time.

What can be counted in C is: stacks of one value go through one Counter, whose counts are multiplied once. Most samples
of a CPU profile are 1 or 2 periods, and most stacks hold a function once; the others take the longer way.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from itertools import chain, islice, pairwise
from operator import length_hint
from typing import NamedTuple, Protocol, TypeVar

from bot.pprof.nodes import NodeTable, no_location
from bot.pprof.profile import Profile, int64

Stacks = Callable[[], Iterable[tuple[Sequence[int], int]]]
"""Location ids, leaf first, and a value, for every sample; the same each time it is called."""

LARGE = 3_000
"""Samples from which on importing numpy pays, where it is installed."""

Frame = tuple[int, bool]
"""A node, and whether it is inlined into the next one."""
Edge = tuple[int, int]
"""A caller and its callee."""

_BATCH = 4096
_WORTH_COUNTING = 8
_SPARSE = 4

T = TypeVar("T", bound=Hashable)


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

    def edges(self, frames: Mapping[int, tuple[Frame, ...]]) -> Edges:
        """The calls between the frames that each location has, innermost first; over locations without, they skip.

        A call counts once per sample; where a stack repeats it, the one nearest to the root says if it is inlined.
        """
        ...


def sums_of(profile: Profile, index: int, table: NodeTable) -> Sums:
    """Sums of the sample type at `index`, the faster way for the profile's size."""
    stacks = partial(profile.samples.stacks, index)
    if length_hint(profile.samples) >= LARGE and find_spec("numpy"):
        from bot.pprof.vectors import VectorSums  # noqa: PLC0415  # numpy takes a tenth of a second

        return VectorSums(stacks, table)
    return PlainSums(stacks, table)


class PlainSums:
    """Sums in plain Python; `edges` after `weigh`."""

    def __init__(self, stacks: Stacks, table: NodeTable) -> None:
        self._stacks, self._table = stacks, table
        self._recursive = bytearray()  # for each stack, whether a node is in it more than once

    def weigh(self) -> Weights:
        table, recursive = self._table, bytearray()
        nodes_of = by_id(table.by_location, _DANGLING).__getitem__
        flat, cum = [0] * len(table.nodes), [0] * len(table.nodes)
        flatten = chain.from_iterable
        try:
            for batch in _batches(self._stacks()):
                same_value: dict[int, list[Iterable[int]]] = {}
                for ids, value in batch:
                    nodes = [*flatten(map(nodes_of, ids))]
                    once = set(nodes)
                    again = len(once) != len(nodes)
                    recursive.append(again)
                    if nodes:
                        flat[nodes[0]] += value
                        same_value.setdefault(value, []).append(once if again else nodes)
                for node, weight in _weighted(same_value):
                    cum[node] += weight
        except LookupError as error:
            raise no_location() from error
        self._recursive = recursive
        return Weights([int64(value) for value in flat], [int64(value) for value in cum])

    def edges(self, frames: Mapping[int, tuple[Frame, ...]]) -> Edges:
        kinds: dict[tuple[Frame, ...], int] = {(): 0}
        kind = by_id({number: kinds.setdefault(one, len(kinds)) for number, one in frames.items()}, 0).__getitem__
        frames_of = list(kinds)
        found = Edges({}, {})
        for batch in _batches(zip(self._stacks(), self._recursive, strict=True)):
            same_value: dict[int, list[Iterable[tuple[int, int]]]] = {}
            for (ids, value), again in batch:
                if not value:
                    continue
                left = (*filter(None, map(kind, ids)), 0)
                if again:
                    _add_once(found, [frame for one in left for frame in frames_of[one]], value)
                else:
                    same_value.setdefault(value, []).append(pairwise(left))
            for (callee, caller), weight in _weighted(same_value):
                _add(found, frames_of[callee], frames_of[caller], weight)
        return found


def _add(found: Edges, callee: Sequence[Frame], caller: Sequence[Frame], weight: int) -> None:
    """Calls within one location and from the next; no node is there twice."""
    weights, inline = found
    parent = caller[0][0] if caller else -1
    for node, inlined in reversed(callee):
        if parent >= 0:
            edge = parent, node
            weights[edge] = weights.get(edge, 0) + weight
            inline[edge] = inline.get(edge, True) and inlined
        parent = node


def _add_once(found: Edges, stack: Sequence[Frame], weight: int) -> None:
    weights, inline = found
    seen: set[Edge] = set()
    parent = -1
    for node, inlined in reversed(stack):
        edge = parent, node
        if parent >= 0 and node != parent and edge not in seen:
            seen.add(edge)
            weights[edge] = weights.get(edge, 0) + weight
            inline[edge] = inline.get(edge, True) and inlined
        parent = node


class _Dangling:
    """Stands where there is no location."""

    def __iter__(self) -> Iterator[int]:
        raise no_location()


_DANGLING = _Dangling()


def by_id(entries: Mapping[int, T], missing: T) -> Sequence[T] | Mapping[int, T]:
    """The same by position where ids are dense, as they mostly are: a third faster to look up.

    An id that has no entry raises LookupError, or gives `missing`.
    """
    largest = max(entries, default=0)
    if largest > _SPARSE * len(entries) + 1024:
        return entries
    table = [missing] * (largest + 1)
    for number, entry in entries.items():
        table[number] = entry
    return table


def _batches(stacks: Iterable[T]) -> Iterator[Iterator[T]]:
    """So many at a time that what is kept of them stays small."""
    iterator = iter(stacks)
    for first in iterator:
        yield chain((first,), islice(iterator, _BATCH))


def _weighted(same_value: dict[int, list[Iterable[T]]]) -> Iterator[tuple[T, int]]:
    for value, several in same_value.items():
        items = chain.from_iterable(several)
        if len(several) < _WORTH_COUNTING:
            for item in items:
                yield item, value
        else:
            for item, count in Counter(items).items():
                yield item, count * value
