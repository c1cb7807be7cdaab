"""A profile's nodes and their names: a node is a function, or with -lines a line of one, or an address without a name.

Names are as pprof shows them (internal/symbolizer/symbolizer.go): what looks like C++ loses its parameters, also Go's
generics: `slices.SortFunc[main.T,func(int, int) bool]` is printed `slices.SortFunc[main.T,func bool]`. Mangled C++
names (`_Z…`) stay mangled, since Go programs have them only through cgo.
"""

import posixpath
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from bot.errors import SourceError
from bot.pprof.profile import Function, Location, Profile, SourceLine
from bot.texts import Text

_WORKING_DIRECTORY = ("/proc/self/cwd/./", "/proc/self/cwd/")


Stacks = Callable[[], Iterable[tuple[Sequence[int], int]]]
"""Gives location ids, leaf first, and a value for every sample; the same at each call."""

Frame = tuple[int, bool]
"""A node of a stack, and whether it is inlined into the next one."""
Edge = tuple[int, int]
"""A call: the numbers of the caller's and the callee's node."""


class NodeWeights(NamedTuple):
    """Weights by node number: `flat` goes to a stack's leaf, `cum` once to each node of a stack."""

    flat: list[int]
    cum: list[int]


class Edges(NamedTuple):
    """The weight of each call, and whether every occurrence of it was inlined."""

    weights: dict[Edge, int]
    inline: dict[Edge, bool]


class GraphNode(NamedTuple):
    """The identity of a row in a table: nodes with equal fields are one row. `file` and `line` are set only with
    -lines, `object_file` and `start_line` only without a name, or for lists.
    """

    name: str
    file: str = ""
    line: int = 0
    object_file: str = ""
    start_line: int = 0

    def __str__(self) -> str:
        parts = [self.name] if self.name else []
        if self.line:
            parts.append(f"{self.file}:{self.line}")
        elif self.file:
            parts.append(self.file)
        elif not self.name:
            parts.append(f"[{base_name(self.object_file)}]" if self.object_file else "<unknown>")
        return " ".join(parts)

    @property
    def size(self) -> int:
        """About how many characters the node's `str` takes."""
        return len(self.name) + len(self.file) + len(self.object_file)


class NodeTable(NamedTuple):
    """The nodes by number; and the node numbers of each location's lines, innermost first, at least one each."""

    nodes: list[GraphNode]
    by_location: dict[int, tuple[int, ...]]


def node_table(profile: Profile, *, lines: bool, inlines: bool, objects: bool = False) -> NodeTable:
    """The profile's nodes, by function or by line. Without `inlines` a location counts for its outermost function. With
    `objects` (and `lines`) functions of one name in several binaries, or with several beginnings, stay apart.
    """
    numbers: dict[GraphNode | str, int] = {}
    files: dict[str, str] = {}
    found: dict[int, tuple[int, ...]] = {}
    for number, location in profile.locations.items():
        places = location.lines if inlines else location.lines[-1:]
        if lines or not places:
            keys = [_node(location, place, files, objects=objects) for place in places]
            keys = keys or [GraphNode("", object_file=_object(location))]
        else:
            keys = [
                place.function.name
                or GraphNode("", object_file=_object(location), start_line=place.function.start_line)
                for place in places
            ]
        found[number] = tuple([numbers.setdefault(key, len(numbers)) for key in keys])
    return NodeTable([GraphNode(key) if isinstance(key, str) else key for key in numbers], found)


def _node(location: Location, place: SourceLine, files: dict[str, str], *, objects: bool) -> GraphNode:
    function = place.function
    file = files.get(function.filename)
    if file is None:
        file = files[function.filename] = _cleaned(function.filename)
    if function.name and not objects:
        return GraphNode(function.name, file, place.line)
    return GraphNode(function.name, file, place.line, _object(location), function.start_line)


def _object(location: Location) -> str:
    return location.mapping.file if location.mapping else ""


def _cleaned(path: str) -> str:
    prefix = next((prefix for prefix in _WORKING_DIRECTORY if path.startswith(prefix)), "")
    path = path.removeprefix(prefix)
    if not path:
        return ""
    cleaned = posixpath.normpath(path)
    return cleaned[1:] if cleaned.startswith("//") else cleaned


def base_name(path: str) -> str:
    """The last element of a path, as Go's filepath.Base has it."""
    if not path:
        return "."
    return path.rstrip("/").rpartition("/")[2] or "/"


def no_location() -> SourceError:
    """The error for a sample that names a location that the profile does not have."""
    return SourceError(
        Text("error-pprof.sample-names-location"),
        hint=Text("error-pprof.profile-is-damaged-fetch-again"),
    )


def simplify(functions: Iterable[Function]) -> None:
    """Replaces the binary's own function names by the names that pprof shows."""
    shown: dict[str, str] = {}  # many functions may share one long name: it stays one text
    for function in functions:
        name = function.system_name
        if not function.name or function.name == name:
            if name not in shown:
                shown[name] = simplified(name)
            function.name = shown[name]


def simplified(name: str) -> str:
    """The function's name without parameters and template parameters, where it looks like C++; else unchanged."""
    if ".<" in name or "])." in name:  # Java's constructors; methods of Go's generic types
        return name
    if "::" in name or any(sign in name for sign in "<>[]"):
        return _without(_without(name, "(", ")"), "<", ">")
    return name


def _without(name: str, opening: str, closing: str) -> str:
    """The name without what stands in balanced brackets; unchanged from a surplus closing bracket on."""
    kept: list[str] = []
    depth = start = 0
    for position, sign in enumerate(name):
        if sign == opening:
            if not depth:
                kept.append(name[start:position])
                start = position
            depth += 1
        elif sign == closing:
            depth -= 1
            if depth < 0:
                break
            if not depth:
                start = position + 1
    return "".join(kept) + name[start:]
