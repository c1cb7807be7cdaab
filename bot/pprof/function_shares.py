"""Per function: how much of a profile goes through it, on how many observations that rests, and who calls it."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from bot.pprof.nodes import no_location, node_table
from bot.pprof.profile import Location, Profile
from bot.pprof.sums_python import sums_of

_HEAP_PERIOD = 512 << 10
_LOGGERS = ("k8s.io/klog/", "go.uber.org/zap", "github.com/go-logr/")
_HEAP = ("alloc_objects", "alloc_space", "inuse_objects", "inuse_space")
# The first elements of the standard library's packages, and what the compiler and the linker call wrappers:
# `_.goready.func1`, `_cgo_…`.
_STANDARD = frozenset(
    [
        *(
            "_",
            "_cgo",
            "archive",
            "bufio",
            "bytes",
            "cmp",
            "compress",
            "container",
            "context",
            "crypto",
            "database",
            "debug",
        ),
        *("embed", "encoding", "errors", "expvar", "flag", "fmt", "go", "hash", "html", "image", "index", "internal"),
        *("io", "iter", "log", "maps", "math", "mime", "net", "os", "path", "plugin", "reflect", "regexp", "runtime"),
        *("slices", "sort", "strconv", "strings", "structs", "sync", "syscall", "testing", "text", "time", "type"),
        *("unicode", "unique", "unsafe", "vendor", "weak"),
    ]
)


def function_cum(profile: Profile, index: int) -> dict[str, int]:
    """Cumulative weight by function; the profile is as `top.prepared` gives it."""
    table = node_table(profile, lines=False, inlines=True)
    cum = sums_of(profile, index, table).weigh().cum
    return {str(node): weight for node, weight in zip(table.nodes, cum, strict=True) if weight}


def observations(profile: Profile, index: int) -> Callable[[int, int], float]:
    """How many observations a value of the sample type at `index` rests on: `f(value, total of that type)`.

    CPU: ticks. Heap: Go records one allocation per 512 KiB (`period`), so the space over that. Mutex and block: the
    waits that were counted. Goroutines and threads: themselves.
    """
    types = [value_type.type for value_type in profile.sample_types]
    if types[index] in _HEAP:
        space = types[index].replace("objects", "space")
        events = _total(profile, types.index(space)) / (profile.period or _HEAP_PERIOD) if space in types else 0.0
    else:
        types = profile.sample_types
        counted = next((i for i in (index, *range(len(types))) if types[i].unit == "count"), index)
        events = float(_total(profile, counted))

    def count(value: int, total: int) -> float:
        return events * abs(value) / total if total else 0.0

    return count


def _total(profile: Profile, index: int) -> int:
    return sum(abs(value) for _, value in profile.samples.stacks(index))


class Share(NamedTuple):
    """The part of a profile whose stacks have a matching function. `callers`: own code nearest to it, by weight."""

    weight: int
    callers: list[tuple[str, int]]


def shares(
    profile: Profile, index: int, patterns: Mapping[str, re.Pattern[str]], unless: Mapping[str, str] | None = None
) -> dict[str, Share]:
    """The share of each pattern, in one pass. Stacks overlap, so shares may add up to more than everything.

    A caller is the nearest function towards the root, from the match on, that is neither Go's own nor of a logging
    library and does not match itself; where there is none, the own function that matches. A sample in which
    `unless[name]` matches too does not count for `name`.
    """
    names = [*patterns]
    blocked = {names.index(name): names.index(other) for name, other in (unless or {}).items()}
    matched = {
        number: frozenset(i for i, pattern in enumerate(patterns.values()) if _matches(location, pattern))
        for number, location in profile.locations.items()
    }
    own = {number: _callers_of(location, [*patterns.values()]) for number, location in profile.locations.items()}
    weights = [0] * len(names)
    callers: list[dict[str, int]] = [{} for _ in names]
    for ids, value in profile.samples.stacks(index):
        try:
            callers_here = _callers(ids, matched, own)
        except KeyError as error:
            raise no_location() from error
        for rule, name in callers_here.items():
            if blocked.get(rule) in callers_here:
                continue
            weights[rule] += value
            if name:
                callers[rule][name] = callers[rule].get(name, 0) + value
    return {
        name: Share(weights[i], sorted(callers[i].items(), key=lambda item: (-item[1], item[0])))
        for i, name in enumerate(names)
    }


class _Own(NamedTuple):
    """The innermost own function of a location, and the patterns that it matches."""

    name: str
    matches: frozenset[int]


_NOBODY = _Own("", frozenset())


def _callers(ids: Iterable[int], matched: dict[int, frozenset[int]], own: dict[int, _Own]) -> dict[int, str]:
    """The patterns that match in a stack, with the own function that is nearest to the match, if there is one."""
    found: dict[int, str] = {}
    waiting: set[int] = set()
    for number in ids:
        if matches := matched[number]:  # few do
            new = matches - found.keys()
            found.update(dict.fromkeys(new, ""))
            waiting |= new
        if waiting and (caller := own[number]).name:
            for rule in [*waiting]:
                if rule not in caller.matches:
                    found[rule] = caller.name
                    waiting.remove(rule)
                elif not found[rule]:
                    found[rule] = caller.name
    return found


def _matches(location: Location, pattern: re.Pattern[str]) -> bool:
    return any(pattern.match(line.function.name) for line in location.lines)


def _callers_of(location: Location, patterns: list[re.Pattern[str]]) -> _Own:
    name = next((line.function.name for line in location.lines if _calls_others(line.function.name)), "")
    if not name:
        return _NOBODY
    return _Own(name, frozenset(i for i, pattern in enumerate(patterns) if pattern.pattern and pattern.match(name)))


def _calls_others(function: str) -> bool:
    return is_own(function) and not function.startswith(_LOGGERS)


def is_own(function: str) -> bool:
    """Whether the function is the program's or a library's, not Go's own."""
    path, _, last = re.split(r"[\[(]", function, maxsplit=1)[0].rpartition("/")
    package = f"{path}/{last}" if path else last
    first = package.partition("/")[0] if path else package.partition(".")[0]
    return "." in last and first not in _STANDARD
