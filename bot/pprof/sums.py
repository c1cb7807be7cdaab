"""Sums over all stacks of a profile, which take nearly all of the time: in plain Python, for profiles below `LARGE`."""

from collections.abc import Mapping
from functools import partial
from itertools import pairwise
from operator import length_hint
from typing import TYPE_CHECKING

from bot.pprof.nodes import Edge, Edges, Frame, NodeTable, NodeWeights, Stacks, no_location
from bot.pprof.profile import Profile, int64

if TYPE_CHECKING:
    from bot.pprof.sums_numpy import VectorSums

LARGE = 2_000
"""The number of samples from which on `sums_numpy` is worth the import of numpy."""


def sums_of(profile: Profile, index: int, table: NodeTable) -> "PlainSums | VectorSums":
    """Sums over the stacks of the sample type at `index`, made the faster way for the profile's size."""
    stacks = partial(profile.samples.stacks, index)
    if length_hint(profile.samples) >= LARGE:
        from bot.pprof.sums_numpy import VectorSums  # noqa: PLC0415  # numpy: 0.08 s of 0.14 s

        return VectorSums(stacks, table)
    return PlainSums(stacks, table)


class PlainSums:
    """Sums over stacks in plain Python. `weigh` raises SourceError for a location that is not in `table`."""

    def __init__(self, stacks: Stacks, table: NodeTable) -> None:
        self._stacks, self._table = stacks, table

    def weigh(self) -> NodeWeights:
        nodes_of = self._table.by_location
        flat, cum = [0] * len(self._table.nodes), [0] * len(self._table.nodes)
        try:
            for ids, value in self._stacks():
                nodes = [node for number in ids for node in nodes_of[number]]
                if nodes:
                    flat[nodes[0]] += value
                for node in set(nodes):
                    cum[node] += value
        except KeyError as error:
            raise no_location() from error
        return NodeWeights([int64(value) for value in flat], [int64(value) for value in cum])

    def edges(self, frames: Mapping[int, tuple[Frame, ...]], callees: set[int]) -> Edges:
        """The calls of `callees` between the frames of each location, innermost first, each once per sample. Locations
        without frames are skipped. Of repeated calls the one nearest to the root says if it is inlined.
        """
        found = Edges({}, {})
        for ids, value in self._stacks():
            calls: dict[Edge, bool] = {}
            for (node, inlined), (parent, _) in pairwise([frame for number in ids for frame in frames[number]]):
                if value and node in callees and parent != node:
                    calls[parent, node] = inlined
            for call, inlined in calls.items():
                found.weights[call] = found.weights.get(call, 0) + value
                found.inline[call] = found.inline.get(call, True) and inlined
        return found
