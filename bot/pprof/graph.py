"""Flat and cumulative weights, and the rows that a table shows, in order (pprof's internal/graph, internal/report). A
stack's leaf gets its weight as flat. Each node of the stack gets it once as cumulative, however often it recurs.
"""

from collections.abc import Iterable
from heapq import nsmallest
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from bot.errors import SourceError
from bot.pprof.nodes import GraphNode, NodeTable, node_table
from bot.pprof.profile import Profile, int64, magnitude
from bot.pprof.sums import sums_of
from bot.pprof.units import fraction_of
from bot.texts import Text

if TYPE_CHECKING:
    from bot.pprof.sums import PlainSums
    from bot.pprof.sums_numpy import VectorSums

EDGE_FRACTION = 0.001
MOST_TEXT = 16 << 20
"""The most characters of names in one text: large programs have a megabyte, a malicious profile terabytes."""
_FEW = 1000
"""A number of rows whose names always fit into `MOST_TEXT`."""


class Trim(NamedTuple):
    """The rows of a table that are shown, by pprof's options of the same names; `nodecount` 0 means all."""

    cum: bool = False
    nodecount: int = 0
    nodefraction: float = 0.005
    lines: bool = False
    inlines: bool = True
    drop_negative: bool = False


class GraphRow(NamedTuple):
    """A node that a table shows. `inline` is empty, `(inline)` or `(partial-inline)`."""

    node: GraphNode
    flat: int
    cum: int
    inline: str = ""


class Graph(NamedTuple):
    """The rows of a table in order, the number of all nodes, and how many of them were too small to show."""

    rows: list[GraphRow]
    nodes: int
    dropped: int


def trimmed(profile: Profile, index: int, trim: Trim) -> Graph:
    """The rows of a table of the sample type at `index`. Raises SourceError where a sample contradicts the profile."""
    table = node_table(profile, lines=trim.lines, inlines=trim.inlines)
    sums = sums_of(profile, index, table)
    flat, cum = sums.weigh()
    every = [number for number in range(len(table.nodes)) if flat[number] or cum[number]]
    if trim.drop_negative:
        every = [number for number in every if (flat[number] or cum[number]) > 0]
    total = int64(sum(flat[number] for number in every))
    cutoff = fraction_of(total, trim.nodefraction)
    kept = [number for number in every if cutoff <= 0 or magnitude(cum[number]) >= cutoff]
    first, second = (cum, flat) if trim.cum else (flat, cum)

    def order(number: int) -> tuple[int, bytes, int]:
        name = str(table.nodes[number]).encode("utf-8", "surrogateescape")
        return -magnitude(first[number]), name, -magnitude(second[number])

    if 0 < trim.nodecount <= _FEW:
        top = nsmallest(trim.nodecount, kept, key=order)
    else:
        check_text(table.nodes[number].size for number in kept)
        top = sorted(kept, key=order)[: max(trim.nodecount, 0) or None]
    # pprof rebuilds the graph only when it leaves out nodes; otherwise edges from nodes without weight count.
    in_graph = None if len(top) == len(every) else set(top)
    minimum = fraction_of(total, EDGE_FRACTION)
    labels = _inline_labels(sums, table, set(top), in_graph, minimum)
    rows = [GraphRow(table.nodes[node], flat[node], cum[node], labels.get(node, "")) for node in top]
    return Graph(rows, len(kept), len(every) - len(kept))


def check_text(sizes: Iterable[int]) -> None:
    """Raises SourceError where names of these lengths are more than `MOST_TEXT` in one text."""
    if sum(sizes) > MOST_TEXT:
        hint = Text("error-pprof.ask-for-fewer-rows-nodecount", few=_FEW)
        raise SourceError(Text("error-pprof.table-would-have-more", most=MOST_TEXT >> 20), hint=hint)


def _inline_labels(
    sums: "PlainSums | VectorSums", table: NodeTable, shown: set[int], in_graph: set[int] | None, minimum: int
) -> dict[int, str]:
    """The label of each shown node that has one. `in_graph` None: every node; calls below `minimum` do not count."""
    wanted = shown & set(chain.from_iterable(nodes[:-1] for nodes in table.by_location.values()))
    if not wanted:
        return {}
    # What each location has in the graph. All lines but the last are inlined into the next.
    frames = {
        nodes: tuple(
            [(node, i < len(nodes) - 1) for i, node in enumerate(nodes) if in_graph is None or node in in_graph]
        )
        for nodes in set(table.by_location.values())
    }
    found = sums.edges({number: frames[nodes] for number, nodes in table.by_location.items()}, wanted)
    kinds: dict[int, set[bool]] = {}
    for (caller, callee), weight in found.weights.items():
        if magnitude(int64(weight)) >= minimum:
            kinds.setdefault(callee, set()).add(found.inline[caller, callee])
    labels = {False: "(inline)", True: "(partial-inline)"}
    return {node: labels[False in inlined] for node, inlined in kinds.items() if True in inlined}
