"""Where in a function the weight lies, line by line: what `list` of go tool pprof tells, with or without the source."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from bot.errors import UsageError
from bot.pprof.graph import check_text
from bot.pprof.nodes import Node, base_name, node_table
from bot.pprof.patterns import matcher
from bot.pprof.profile import Profile, int64, magnitude
from bot.pprof.sums_python import sums_of
from bot.pprof.units import AUTO, label, percentage
from bot.texts import Text

_SUGGESTED = 3
_MARGIN = 5
"""Lines that are shown before and after those that weigh (internal/report/source.go)."""

Source = Callable[[str], list[str]]
"""The lines of a file; raises OSError with what to print where it cannot be read."""
Link = Callable[[str, str, int], str]
"""The address of a function's file's line, or nothing."""


class LineWeight(NamedTuple):
    """A line of a function."""

    line: int
    flat: int
    cum: int


class FunctionLines(NamedTuple):
    """A function in a file, its lines in their order. The lines' `cum` are added up, though calls may nest."""

    name: str
    file: str
    start_line: int
    lines: list[LineWeight]

    @property
    def flat(self) -> int:
        """Of all its lines."""
        return int64(sum(line.flat for line in self.lines))

    @property
    def cum(self) -> int:
        """Of all its lines."""
        return int64(sum(line.cum for line in self.lines))

    def span(self) -> range:
        """The lines that are worth showing with the source."""
        starts = [self.start_line] if self.start_line else [line.line - _MARGIN for line in self.lines]
        return range(max(1, *starts), max(line.line for line in self.lines) + _MARGIN + 1)


def function_lines(profile: Profile, index: int, function: str) -> list[FunctionLines]:
    """The functions whose name the regular expression `function` finds, by name and file; without a file no lines.

    The profile is as `top.prepared` gives it. Raises UsageError when the expression cannot be read or finds none.
    """
    wanted = matcher(function, "list")
    table = node_table(profile, lines=True, inlines=True, objects=True)
    flat, cum = sums_of(profile, index, table).weigh()
    found: dict[tuple[bytes, bytes], list[tuple[Node, int, int]]] = {}
    for node, own, with_callees in zip(table.nodes, flat, cum, strict=True):
        if (own or with_callees) and wanted(node.name):
            key = node.name.encode("utf-8", "surrogateescape"), node.file.encode("utf-8", "surrogateescape")
            found.setdefault(key, []).append((node, own, with_callees))
    if not found:
        raise UsageError(
            Text("error-pprof.no-matches-found-for-regexp", regexp=function), hint=_heaviest(table.nodes, cum)
        )
    return [_function(found[key]) for key in sorted(found)]


def _function(nodes: list[tuple[Node, int, int]]) -> FunctionLines:
    by_line: dict[int, tuple[int, int]] = {}
    for node, flat, cum in nodes:
        before = by_line.get(node.line, (0, 0))
        by_line[node.line] = int64(before[0] + flat), int64(before[1] + cum)
    first = nodes[0][0]
    start = min(node.start_line for node, _, _ in nodes)
    return FunctionLines(
        first.name, first.file, start, [LineWeight(number, *by_line[number]) for number in sorted(by_line)]
    )


def listing(functions: Sequence[FunctionLines], total: int, unit: str, *, source: Source | None, link: Link) -> str:
    """The text. With `source` it is that of `go tool pprof -list`; else only lines that weigh, each with its link."""

    def value(number: int) -> str:
        return label(number, unit, AUTO)

    if source is None:  # each line with its link, which has the name's package and the path
        check_text((len(function.name) + len(function.file)) * len(function.lines) for function in functions)
    lines = [f"Total: {value(total)}"]
    in_files = {function.name for function in functions if function.file}
    for function in functions:
        if not function.file:
            lines += [] if function.name in in_files else [f"No source information for {function.name}"]
            continue
        lines.append(f"ROUTINE ======================== {function.name} in {function.file}")
        share = percentage(function.cum, total)
        lines.append(f"{value(function.flat):>10} {value(function.cum):>10} (flat, cum) {share} of Total")
        if source is None:
            weights = [(each, link(function.name, function.file, each.line)) for each in function.lines]
        else:
            try:
                weights = _with_source(function, source(function.file))
            except OSError as error:
                lines.append(f" Error: {error}")
                continue
        for each, text in weights:
            flat, cum = (value(number) if number else "." for number in (each.flat, each.cum))
            lines.append(f"{flat:>10} {cum:>10} {each.line:>6}:{text}")
    return "\n".join(lines) + "\n"


def _with_source(lines: FunctionLines, source: list[str]) -> list[tuple[LineWeight, str]]:
    weights = {each.line: each for each in lines.lines}
    shown = (number for number in lines.span() if number <= len(source))
    return [(weights.get(number, LineWeight(number, 0, 0)), source[number - 1]) for number in shown]


def below(path: str, folders: str) -> str:
    """What is left of a file's path below the folders (with `:` between them), where it goes through one of that name.

    `/build/hami/pkg/a.go` is `pkg/a.go` for `/home/me/hami` (trimPath of internal/report/source.go).
    """
    for folder in folders.split(":"):
        _, found, rest = path.partition(f"/{base_name(folder)}/")
        if found:
            return rest
    return path


def _heaviest(nodes: Iterable[Node], cum: Iterable[int]) -> Text:
    by_weight = sorted(zip(cum, nodes, strict=True), key=lambda pair: -magnitude(pair[0]))
    names = dict.fromkeys(node.name for _, node in by_weight if node.name)
    return (
        Text("error-pprof.heaviest-are", names=", ".join([*names][:_SUGGESTED]))
        if names
        else Text("error-pprof.profile-names-no-functions")
    )
