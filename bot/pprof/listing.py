"""Where in a function the weight lies, line by line: `list` without the source."""

from collections.abc import Iterable
from typing import NamedTuple

from bot.errors import UsageError
from bot.pprof.nodes import Node, node_table
from bot.pprof.patterns import Match, matcher
from bot.pprof.profile import Profile, magnitude
from bot.pprof.weights import sums_of

_SUGGESTED = 3


class LineWeight(NamedTuple):
    """A line of a function; 0 where the profile has none."""

    line: int
    flat: int
    cum: int


class FunctionLines(NamedTuple):
    """A function in a file, its lines in their order. `cum` counts a sample once, so the lines' may add up to more."""

    name: str
    file: str
    flat: int
    cum: int
    lines: list[LineWeight]


def function_lines(profile: Profile, index: int, function: str) -> list[FunctionLines]:
    """The functions whose name the regular expression `function` finds, the heaviest first.

    The profile is as `top.prepared` gives it. Raises UsageError when the expression cannot be read or finds none.
    """
    wanted = matcher(function, "list")
    by_line = node_table(profile, lines=True, inlines=True)
    flat, cum = sums_of(profile, index, by_line).weigh()
    found: dict[tuple[str, str], list[LineWeight]] = {}
    for node, own, with_callees in zip(by_line.nodes, flat, cum, strict=True):
        if (own or with_callees) and node.name and wanted(node.name):
            found.setdefault((node.name, node.file), []).append(LineWeight(node.line, own, with_callees))
    if not found:
        raise UsageError(f"no matches found for regexp: {function}", hint=_heaviest(by_line.nodes, cum))
    totals = _function_cum(profile, index, wanted)
    functions = [
        FunctionLines(name, file, sum(one.flat for one in lines), totals.get(name, 0), sorted(lines))
        for (name, file), lines in found.items()
    ]
    return sorted(functions, key=lambda one: (-magnitude(one.cum), one.name, one.file))


def _function_cum(profile: Profile, index: int, wanted: Match) -> dict[str, int]:
    table = node_table(profile, lines=False, inlines=True)
    cum = sums_of(profile, index, table).weigh().cum
    return {node.name: weight for node, weight in zip(table.nodes, cum, strict=True) if node.name and wanted(node.name)}


def _heaviest(nodes: Iterable[Node], cum: Iterable[int]) -> str:
    by_weight = sorted(zip(cum, nodes, strict=True), key=lambda one: -magnitude(one[0]))
    names = dict.fromkeys(node.name for _, node in by_weight if node.name)
    return f"The heaviest are: {', '.join([*names][:_SUGGESTED])}." if names else "The profile names no functions."
