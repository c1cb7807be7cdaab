"""Both ways of summing give the same numbers, and those are the ones that a slow and simple loop gives."""

from collections.abc import Sequence
from functools import partial

from hypothesis import given, settings
from hypothesis import strategies as st

from bot.pprof.decode import read
from bot.pprof.nodes import Edges, Frame, NodeWeights, node_table
from bot.pprof.profile import int64
from bot.pprof.sums import PlainSums
from bot.pprof.sums_numpy import VectorSums
from tests.pprof.build import Writer
from tests.sampling import examples

FUNCTIONS = 5
STACKS = st.lists(
    st.tuples(
        st.lists(st.integers(1, 9), max_size=8), st.one_of(st.integers(-3, 3), st.integers(-(1 << 63), (1 << 63) - 1))
    ),
    max_size=40,
)
LOCATIONS = st.lists(st.lists(st.integers(1, FUNCTIONS), min_size=1, max_size=3), min_size=9, max_size=9)


def slowly(stacks: Sequence[tuple[Sequence[int], int]], nodes: dict[int, tuple[int, ...]], count: int) -> NodeWeights:
    flat, cum = [0] * count, [0] * count
    for ids, value in stacks:
        frames = [node for id_ in ids for node in nodes[id_]]
        for node in set(frames):
            cum[node] = int64(cum[node] + value)
        if frames:
            flat[frames[0]] = int64(flat[frames[0]] + value)
    return NodeWeights(flat, cum)


def slow_edges(
    stacks: Sequence[tuple[Sequence[int], int]], frames: dict[int, tuple[Frame, ...]], callees: set[int]
) -> Edges:
    found = Edges({}, {})
    for ids, value in stacks:
        seen: set[tuple[int, int]] = set()
        parent = -1
        for node, inlined in reversed([frame for id_ in ids for frame in frames[id_]]):
            edge = parent, node
            if value and node in callees and parent >= 0 and parent != node and edge not in seen:
                seen.add(edge)
                found.weights[edge] = found.weights.get(edge, 0) + value
                found.inline[edge] = found.inline.get(edge, True) and inlined
            parent = node
    return found


@settings(max_examples=examples(80), deadline=None)
@given(STACKS, LOCATIONS, st.sets(st.integers(0, FUNCTIONS - 1)), st.sets(st.integers(0, FUNCTIONS - 1)))
def test_sums_are_those_of_a_simple_loop(
    stacks: list[tuple[list[int], int]], locations: list[list[int]], kept: set[int], callees: set[int]
) -> None:
    writer = Writer()
    for number in range(1, FUNCTIONS + 1):
        writer.function(number, f"f{number}")
    for number, functions in enumerate(locations, 1):
        writer.location(number, *functions)
    for ids, value in stacks:
        writer.sample(ids, value)
    profile = read(writer.bytes())
    table = node_table(profile, lines=False, inlines=True)
    frames = {
        number: tuple((node, i < len(nodes) - 1) for i, node in enumerate(nodes) if node in kept)
        for number, nodes in table.by_location.items()
    }
    expected = slow_edges(stacks, frames, callees)
    for kind in (PlainSums, VectorSums):
        sums = kind(partial(profile.samples.stacks, 0), table)
        assert sums.weigh() == slowly(stacks, table.by_location, len(table.nodes))
        found = sums.edges(frames, callees)
        assert found.inline == expected.inline
        assert {edge: int64(weight) for edge, weight in found.weights.items()} == {
            edge: int64(weight) for edge, weight in expected.weights.items()
        }
