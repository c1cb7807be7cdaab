"""The sums of `weights` with numpy, for profiles that are large enough to make up for its import: three times as fast.

The same numbers to the last bit: everything is int64, which wraps around as Go's does.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

import numpy as np

from bot.pprof.nodes import NodeTable, no_location
from bot.pprof.weights import Edges, Frame, Stacks, Weights

_BATCH = 8192
_ABSENT = -1

_Array = Any  # numpy's own types say more than a reader needs


class _Places(NamedTuple):
    """Codes of the lines of each location, innermost first: `codes[start[i]:start[i] + size[i]]` for the i-th id."""

    ids: _Array
    start: _Array
    size: _Array
    codes: _Array


def weigh(stacks: Stacks, table: NodeTable) -> Weights:
    """See `weights.weigh`; `recursive` is empty, as `edges` does not ask."""
    places, count = _places(table.by_location), len(table.nodes)
    flat, cum = np.zeros(count, np.int64), np.zeros(count, np.int64)
    for sizes, ids, values in _batches(stacks()):
        owner = np.repeat(np.arange(len(sizes)), sizes)
        owner, nodes = _expanded(places, ids, owner)
        once = np.unique(owner * count + nodes)
        np.add.at(cum, once % count, values[once // count])
        leaves = np.flatnonzero(np.diff(owner, prepend=_ABSENT))
        np.add.at(flat, nodes[leaves], values[owner[leaves]])
    return Weights(flat.tolist(), cum.tolist(), bytearray())


def edges(stacks: Stacks, frames: Mapping[int, tuple[Frame, ...]]) -> Edges:
    """See `weights.edges`."""
    numbers: dict[int, int] = {}
    coded = {
        number: tuple([numbers.setdefault(node, len(numbers)) * 2 + inlined for node, inlined in found])
        for number, found in frames.items()
    }
    places, count = _places(coded), max(1, len(numbers))
    names = [*numbers]
    found = Edges({}, {})
    for sizes, ids, values in _batches(stacks()):
        owner = np.repeat(np.arange(len(sizes)), sizes)
        counted = values[owner] != 0
        owner, codes = _expanded(places, ids[counted], owner[counted])
        owner, codes = owner[::-1], codes[::-1]  # from the root
        nodes = codes >> 1
        called = (owner[1:] == owner[:-1]) & (nodes[1:] != nodes[:-1])
        calls = nodes[:-1][called] * count + nodes[1:][called]
        sample = owner[1:][called]
        inlined = (codes[1:][called] & 1).astype(bool)
        _, first = np.unique(sample * (count * count) + calls, return_index=True)
        _add(found, names, calls[first], values[sample[first]], inlined[first])
    return found


def _add(found: Edges, names: Sequence[int], calls: _Array, values: _Array, inlined: _Array) -> None:
    kinds, which = np.unique(calls, return_inverse=True)
    sums = np.zeros(len(kinds), np.int64)
    np.add.at(sums, which, values)
    outright = np.zeros(len(kinds), bool)
    outright[which[~inlined]] = True
    weights, inline = found
    count = len(names)
    for call, weight, not_inlined in zip(kinds.tolist(), sums.tolist(), outright.tolist(), strict=True):
        edge = names[call // count], names[call % count]
        weights[edge] = weights.get(edge, 0) + weight
        inline[edge] = inline.get(edge, True) and not not_inlined


def _places(by_location: Mapping[int, tuple[int, ...]]) -> _Places:
    ordered = sorted(by_location)
    size = np.fromiter((len(by_location[number]) for number in ordered), np.int64, len(ordered))
    codes = np.fromiter(chain.from_iterable(by_location[number] for number in ordered), np.int64)
    return _Places(np.array(ordered, np.uint64), np.cumsum(size) - size, size, codes)


def _expanded(places: _Places, ids: _Array, owner: _Array) -> tuple[_Array, _Array]:
    """Owner and code of each line of each location. Raises SourceError for a location that is not there."""
    if not len(ids):
        return owner, np.zeros(0, np.int64)
    where = np.searchsorted(places.ids, ids)
    if not len(places.ids) or where.max() >= len(places.ids) or (places.ids[where] != ids).any():
        raise no_location()
    size = places.size[where]
    offset = np.arange(size.sum()) - np.repeat(np.cumsum(size) - size, size)
    return np.repeat(owner, size), places.codes[np.repeat(places.start[where], size) + offset]


def _batches(stacks: Iterable[tuple[Sequence[int], int]]) -> Iterator[tuple[_Array, _Array, _Array]]:
    """So many samples at a time: the length of each stack, all their ids, and their values."""
    iterator = iter(stacks)
    while batch := [*islice(iterator, _BATCH)]:
        sizes = np.fromiter((len(ids) for ids, _ in batch), np.int64, len(batch))
        ids = np.fromiter(chain.from_iterable(ids for ids, _ in batch), np.uint64, int(sizes.sum()))
        values = np.fromiter((value for _, value in batch), np.int64, len(batch))
        yield sizes, ids, values
