"""Which rows are inlined calls: `(inline)` when all callers in the graph have it inlined, `(partial-inline)` when some.

The graph has the rows that are shown and nothing else, so the answer depends on what was left out: a call skips over
missing callers to the nearest one that is there, and calls of little weight do not count.
"""

from itertools import chain

from bot.pprof.nodes import NodeTable
from bot.pprof.profile import int64, magnitude
from bot.pprof.sample_sums import Frame, Sums


def inline_labels(
    sums: Sums,
    table: NodeTable,
    *,
    shown: set[int],
    in_graph: set[int] | None,
    minimum: int,
) -> dict[int, str]:
    """The label of each shown node that has one. `in_graph` None: every node is in; calls below `minimum` are not.

    `sums` have been weighed before.
    """
    wanted = shown & set(chain.from_iterable(nodes[:-1] for nodes in table.by_location.values()))
    if not wanted:
        return {}
    found = sums.edges(_frames(table, in_graph), wanted)
    kinds: dict[int, set[bool]] = {}
    for (caller, callee), weight in found.weights.items():
        if magnitude(int64(weight)) >= minimum:
            kinds.setdefault(callee, set()).add(found.inline[caller, callee])
    return {
        node: "(partial-inline)" if False in inlined else "(inline)"
        for node, inlined in kinds.items()
        if True in inlined
    }


def _frames(table: NodeTable, in_graph: set[int] | None) -> dict[int, tuple[Frame, ...]]:
    """What each location has in the graph. All lines but the last are inlined into the next."""
    frames = {
        nodes: tuple(
            [(node, i < len(nodes) - 1) for i, node in enumerate(nodes) if in_graph is None or node in in_graph]
        )
        for nodes in set(table.by_location.values())
    }
    return {number: frames[nodes] for number, nodes in table.by_location.items()}
