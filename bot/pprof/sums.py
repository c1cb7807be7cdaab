"""Sums over all stacks of a profile: the inner loops, which take nearly all of the time.

What can be counted in C is: stacks of one value go through one Counter, whose counts are multiplied once. Most samples
of a CPU profile are 1 or 2 periods, and most stacks hold a function once; the others take the longer way. `sums_numpy`
has the same sums for large profiles.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from itertools import chain, compress, islice, pairwise
from operator import length_hint
from typing import Protocol, TypeVar

from bot.pprof.nodes import Edges, Frame, NodeTable, NodeWeights, Stacks, no_location
from bot.pprof.profile import Profile, int64


class Sums(Protocol):
    """The sums over some stacks. Both raise SourceError for a location that is not there."""

    def weigh(self) -> NodeWeights: ...

    def edges(self, frames: Mapping[int, tuple[Frame, ...]], callees: set[int]) -> Edges:
        """The calls of `callees` between the frames of each location, innermost first; they skip those without any.

        A call counts once per sample; where a stack repeats it, the one nearest to the root says if it is inlined.
        """
        ...


LARGE = 6_000
"""Samples from which on importing numpy pays, where it is installed."""

_BATCH = 4096
_WORTH_COUNTING = 8
_SPARSE = 4

T = TypeVar("T", bound=Hashable)


def sums_of(profile: Profile, index: int, table: NodeTable) -> Sums:
    """Sums of the sample type at `index`, the faster way for the profile's size."""
    stacks = partial(profile.samples.stacks, index)
    if length_hint(profile.samples) >= LARGE and find_spec("numpy"):
        from bot.pprof.sums_numpy import VectorSums  # noqa: PLC0415  # numpy: 0.08 s of 0.14 s

        return VectorSums(stacks, table)
    return PlainSums(stacks, table)


class PlainSums:
    """Sums in plain Python; `edges` after `weigh`."""

    def __init__(self, stacks: Stacks, table: NodeTable) -> None:
        self._stacks, self._table = stacks, table
        self._recursive = bytearray()  # for each stack, whether a node is in it more than once

    def weigh(self) -> NodeWeights:
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
        return NodeWeights([int64(value) for value in flat], [int64(value) for value in cum])

    def edges(self, frames: Mapping[int, tuple[Frame, ...]], callees: set[int]) -> Edges:
        kinds: dict[tuple[Frame, ...], int] = {(): 0}
        kind = by_id({number: kinds.setdefault(frame, len(kinds)) for number, frame in frames.items()}, 0).__getitem__
        calls = _Calls(list(kinds), callees, len(self._table.nodes))
        calls_callee, found_between = calls.has_callee.__getitem__, calls.__getitem__
        pairs: dict[tuple[int, int], int] = {}
        found = Edges({}, {})
        flatten = chain.from_iterable
        for batch in _batches(zip(self._stacks(), self._recursive, strict=True)):
            same_value: dict[int, list[Iterable[tuple[int, int]]]] = {}
            repeated: dict[int, list[Iterable[tuple[int, bool]]]] = {}
            for (ids, value), again in batch:
                if not value:
                    continue
                left = (*filter(None, map(kind, ids)), 0)
                between = compress(pairwise(left), map(calls_callee, left))
                if again:  # the last one of equal keys stays: the call that is nearest to the root
                    repeated.setdefault(value, []).append(dict(flatten(map(found_between, between))).items())
                else:
                    same_value.setdefault(value, []).append(between)
            for pair, weight in _weighted(same_value):
                pairs[pair] = pairs.get(pair, 0) + weight
            for (code, inlined), weight in _weighted(repeated):
                calls.add(found, code, weight, inlined=inlined)
        for pair, weight in pairs.items():
            for code, inlined in calls[pair]:
                calls.add(found, code, weight, inlined=inlined)
        return found


class _Calls(dict[tuple[int, int], tuple[tuple[int, bool], ...]]):
    """By callee's and caller's kind of location: the calls of callees within the one and from the other, leaf first.

    A call is the number of the caller times the number of nodes, plus that of the callee.
    """

    def __init__(self, frames_of: Sequence[tuple[Frame, ...]], callees: set[int], nodes: int) -> None:
        super().__init__()
        self._frames_of, self._callees, self._nodes = frames_of, callees, nodes
        self.has_callee = [any(node in callees for node, _ in frames) for frames in frames_of]

    def __missing__(self, pair: tuple[int, int]) -> tuple[tuple[int, bool], ...]:
        callee, caller = (self._frames_of[node] for node in pair)
        found: list[tuple[int, bool]] = []
        for (node, inlined), (parent, _) in pairwise((*callee, *caller[:1])):
            if node in self._callees and parent != node:
                found.append((parent * self._nodes + node, inlined))
        self[pair] = tuple(found)
        return self[pair]

    def add(self, found: Edges, code: int, weight: int, *, inlined: bool) -> None:
        """Once more the call of this number."""
        edge = divmod(code, self._nodes)
        found.weights[edge] = found.weights.get(edge, 0) + weight
        found.inline[edge] = found.inline.get(edge, True) and inlined


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
