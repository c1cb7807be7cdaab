"""Finds known costs in a profile by the fixed rules of `hints.toml`: shares of the profile, never causes.

The profiler's own samples are left out. Patterns read the same in Python and RE2, so `-focus` shows what a hint
counted. Goroutines are grouped by the stack in which they wait; groups that grow between two profiles are a suspected
leak.
"""

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from bot.pprof.filters import literally
from bot.pprof.nodes import no_location, node_table
from bot.pprof.profile import Profile, Rewritten
from bot.pprof.sums import sums_of
from bot.texts import Text

_HEAP_PERIOD = 512 << 10
_LOGGERS = ("k8s.io/klog/", "go.uber.org/zap", "github.com/go-logr/")
_HEAP = ("alloc_objects", "alloc_space", "inuse_objects", "inuse_space")
# The first elements of the standard library's packages, and what the compiler and the linker call wrappers:
# `_.goready.func1`, `_cgo_…`.
_STANDARD_NAMES = """
    _ _cgo archive bufio bytes cmp compress container context crypto database debug embed encoding errors expvar flag
    fmt go hash html image index internal io iter log maps math mime net os path plugin reflect regexp runtime slices
    sort strconv strings structs sync syscall testing text time type unicode unique unsafe vendor weak
"""
_STANDARD = frozenset(_STANDARD_NAMES.split())


def function_cum(profile: Profile, index: int) -> dict[str, int]:
    """Cumulative weight by function, of a profile as `top.prepared` gives it."""
    table = node_table(profile, lines=False, inlines=True)
    cum = sums_of(profile, index, table).weigh().cum
    return {str(node): weight for node, weight in zip(table.nodes, cum, strict=True) if weight}


def nearest_to_leaf(profile: Profile, index: int, names: Iterable[str]) -> str:
    """The function, out of `names`, that is nearest to the leaf in the most weight; the first where none occurs."""
    weights = dict.fromkeys(names, 0)
    for ids, value in profile.samples.stacks(index):
        lines = (line for number in ids for line in profile.locations[number].lines)
        nearest = next((line.function.name for line in lines if line.function.name in weights), None)
        if nearest is not None:
            weights[nearest] += abs(value)
    return max(weights, key=weights.__getitem__)


def observations(profile: Profile, index: int) -> float:
    """The number of observations behind the sample type at `index`, which says how far chance reaches.

    CPU: ticks. Heap: the space over 512 KiB (`period`), for which Go records one allocation. Mutex and block: the waits
    counted. Goroutines and threads: their number.
    """
    types = [value_type.type for value_type in profile.sample_types]
    if types[index] in _HEAP:
        space = types[index].replace("objects", "space")
        return total(profile, types.index(space)) / (profile.period or _HEAP_PERIOD) if space in types else 0.0
    types = profile.sample_types
    counted = next((i for i in (index, *range(len(types))) if types[i].unit == "count"), index)
    return float(total(profile, counted))


def total(profile: Profile, index: int) -> int:
    """The sum of all values of the sample type at `index`, without their signs."""
    return sum(abs(value) for _, value in profile.samples.stacks(index))


class FunctionShare(NamedTuple):
    """The weight of stacks with a function that matches a rule; `callers`: own code nearest to it, by weight."""

    weight: int
    callers: list[tuple[str, int]]


def shares(
    profile: Profile, index: int, patterns: Mapping[str, re.Pattern[str]], unless: Mapping[str, str] | None = None
) -> dict[str, FunctionShare]:
    """The share of each pattern in a profile, in one pass. Stacks overlap, so shares may add up to more than
    everything.

    A caller is the own function nearest to the match towards the root, neither Go's nor a logging library's. A sample
    where `unless[name]` matches does not count for `name`.
    """
    names = [*patterns]
    blocked = {names.index(name): names.index(other) for name, other in (unless or {}).items()}
    matched = {
        number: frozenset(
            i
            for i, pattern in enumerate(patterns.values())
            if any(pattern.match(line.function.name) for line in location.lines)
        )
        for number, location in profile.locations.items()
    }
    own: dict[int, tuple[str, frozenset[int]]] = {}  # the innermost own function of a location, and what it matches
    for number, location in profile.locations.items():
        inner = (line.function.name for line in location.lines)
        name = next((name for name in inner if is_own(name) and not name.startswith(_LOGGERS)), "")
        matches = (i for i, each in enumerate(patterns.values()) if name and each.pattern and each.match(name))
        own[number] = name, frozenset(matches)
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
        name: FunctionShare(weights[i], sorted(callers[i].items(), key=lambda item: (-item[1], item[0])))
        for i, name in enumerate(names)
    }


def _callers(
    ids: Iterable[int], matched: dict[int, frozenset[int]], own: dict[int, tuple[str, frozenset[int]]]
) -> dict[int, str]:
    """The patterns that match in a stack, each with the own function nearest to the match, if there is one."""
    found: dict[int, str] = {}
    waiting: set[int] = set()
    for number in ids:
        if matches := matched[number]:  # few do
            new = matches - found.keys()
            found.update(dict.fromkeys(new, ""))
            waiting |= new
        if not waiting:
            continue
        caller, own_matches = own[number]
        for rule in [*waiting] if caller else ():
            found[rule] = found[rule] if rule in own_matches and found[rule] else caller
        if caller:
            waiting &= own_matches
    return found


def is_own(function: str) -> bool:
    """Whether the function is the program's or a library's, not Go's own."""
    path, _, last = re.split(r"[\[(]", function, maxsplit=1)[0].rpartition("/")
    package = f"{path}/{last}" if path else last
    first = package.partition("/")[0] if path else package.partition(".")[0]
    return "." in last and first not in _STANDARD


_IDLE = 0.05
FEW = 100
"""The number of observations below which shares mean little."""
_CALLERS = 3
# Not what a program calls to label its own work: Do, SetGoroutineLabels, WithLabels.
PROFILER = re.compile(r"net/http/pprof\.|runtime/pprof\.([a-z(]|Lookup|Start|Stop|Write)")
"""Matches the functions that take profiles."""


class HintRule(NamedTuple):
    """A rule for a known cost: a row of `hints.toml`, which says what its fields mean."""

    code: str
    pattern: re.Pattern[str]
    note: float
    warning: float | None = None
    unless: str = ""
    holder: bool = False


@cache
def hint_rules() -> dict[str, list[HintRule]]:
    """The rules of `hints.toml` by sample type."""
    found: dict[str, list[HintRule]] = {}
    for row in tomllib.loads(files("bot.pprof").joinpath("hints.toml").read_text(encoding="utf-8"))["rule"]:
        kinds, pattern = row.pop("of"), re.compile(row.pop("pattern"))
        for kind in kinds:
            found.setdefault(kind, []).append(HintRule(**row, pattern=pattern))
    return found


class Hint(NamedTuple):
    """One known cost that a rule of `hints.toml` found. `share` and those of `callers` are parts of the whole profile.

    `callers` are the program's own functions nearest to what matched; `pattern` and `unless` are for `-focus` and
    `-ignore`.
    """

    code: str
    warns: bool
    share: float
    callers: list[tuple[str, float]]
    pattern: str
    unless: str


class Hints(NamedTuple):
    """The hints about a profile. `observed`: observations behind them; `idle`: the share of a core, if hardly used."""

    hints: list[Hint]
    observed: float
    idle: float | None


def hints(profile: Profile, index: int) -> Hints:
    """The hints about the sample type at `index`, the heaviest first; the profile is as `top.prepared` gives it."""
    kind = profile.sample_types[index]
    samples, whole = profile.samples, total(profile, index)
    profiling = {
        number
        for number, location in profile.locations.items()
        if any(PROFILER.match(line.function.name) for line in location.lines)
    }
    profile.samples = Rewritten(samples, lambda ids: ids if profiling.isdisjoint(ids) else None)
    try:
        others = total(profile, index)
        rules = hint_rules().get(kind.type, ()) if others else ()
        unless = {rule.code: rule.unless for rule in rules if rule.unless}
        found = shares(profile, index, {rule.code: rule.pattern for rule in rules}, unless)
        observed = observations(profile, index) if others else 0.0
    finally:
        profile.samples = samples
    patterns = {rule.code: rule.pattern.pattern for rule in rules}
    given = [
        hint
        for rule in rules
        if (hint := _hint(rule, found[rule.code], others, whole, unless=patterns.get(rule.unless, "")))
    ]
    busy = others / profile.duration_nanos if kind.type == "cpu" and profile.duration_nanos > 0 else None
    idle = busy if busy is not None and busy < _IDLE else None
    return Hints(sorted(given, key=lambda hint: -hint.share), observed, idle)


def _hint(rule: HintRule, share: FunctionShare, others: int, whole: int, *, unless: str) -> Hint | None:
    """Judged without the profiler's own samples; the share told is that of all samples, as every table has it."""
    pattern, weight = rule.pattern.pattern, share.weight
    if rule.holder and share.callers:
        name, weight = share.callers[0]
        pattern = f"{literally(name)}$"
    elif rule.holder:
        return None
    if weight / (whole if rule.holder else others) < rule.note:
        return None
    warns = rule.warning is not None and weight / others >= rule.warning
    callers = [(name, own / whole) for name, own in share.callers[: 1 if rule.holder else _CALLERS]]
    return Hint(rule.code, warns, weight / whole, callers, pattern, unless)


MANY = 100
"""The number of goroutines with one own stack above which a finding reports them."""
_GROWN_BY, _GROWN_SHARE = 50, 1.2
_WAITS = (
    ("runtime.chanrecv", Text("profile-wait.channel-receive")),
    ("runtime.chansend", Text("profile-wait.channel-send")),
    ("runtime.selectgo", Text("profile-wait.select")),
    ("runtime.block", Text("profile-wait.select-none")),
    ("sync.runtime_SemacquireWaitGroup", Text("profile-wait.wait-group")),
    ("sync.(*WaitGroup).Wait", Text("profile-wait.wait-group")),
    ("sync.runtime_SemacquireRWMutex", Text("profile-wait.lock")),
    ("internal/sync.runtime_SemacquireMutex", Text("profile-wait.lock")),
    ("sync.runtime_SemacquireMutex", Text("profile-wait.lock")),
    ("sync.(*Mutex).Lock", Text("profile-wait.lock")),
    ("sync.runtime_notifyListWait", Text("profile-wait.condition")),
    ("runtime.netpollblock", Text("flame-group.network")),
    ("internal/poll.runtime_pollWait", Text("flame-group.network")),
    ("time.Sleep", Text("profile-wait.sleep")),
)
_NOT_THE_PROGRAMS = ("runtime/pprof.", "net/http/pprof.", "net/http.(*conn).serve", "net/http.(*persistConn).")


class GoroutineGroup(NamedTuple):
    """Goroutines with one stack: `wait` is what they wait for, `waits_in` the first own function from the leaf."""

    stack: tuple[str, ...]
    goroutines: int
    wait: Text
    waits_in: str


class GroupGrowth(NamedTuple):
    """A goroutine group that has grown since `before`: a suspected leak, not a proven one."""

    group: GoroutineGroup
    before: int


def groups(profile: Profile) -> list[GoroutineGroup]:
    """Goroutines by stack, whatever their labels, largest group first; the profile is as `top.prepared` gives it."""
    names = {
        number: tuple(line.function.name for line in location.lines) or ("?",)
        for number, location in profile.locations.items()
    }
    counts: dict[tuple[str, ...], int] = {}
    for ids, value in profile.samples.stacks(0):
        try:
            stack = tuple([name for number in ids for name in names[number]])
        except KeyError as error:
            raise no_location() from error
        counts[stack] = counts.get(stack, 0) + value
    return sorted(
        (_group(stack, count) for stack, count in counts.items()), key=lambda group: (-group.goroutines, group.stack)
    )


def crowded(found: Sequence[GoroutineGroup]) -> list[GoroutineGroup]:
    """The groups of more than `MANY` goroutines that wait in own code, except idle connections and the profiler."""
    return [group for group in found if group.goroutines > MANY and group.waits_in and not _expected(group)]


def grown(before: Profile, after: Profile) -> list[GroupGrowth]:
    """The groups of own code that `after` has more of, by over 50 goroutines and a fifth; the largest growth first."""
    counts = {group.stack: group.goroutines for group in groups(before)}
    more = [
        GroupGrowth(group, earlier)
        for group in groups(after)
        if group.waits_in
        and not _expected(group)
        and group.goroutines > max((earlier := counts.get(group.stack, 0)) + _GROWN_BY, _GROWN_SHARE * earlier)
    ]
    return sorted(more, key=lambda growth: (growth.before - growth.group.goroutines, growth.group.stack))


def _expected(group: GoroutineGroup) -> bool:
    return any(name.startswith(_NOT_THE_PROGRAMS) for name in group.stack)


def _group(stack: tuple[str, ...], count: int) -> GoroutineGroup:
    own = [name for name in stack if is_own(name)]
    kinds = (kind for name in stack for start, kind in _WAITS if name.startswith(start))
    wait = next(kinds, Text("profile-wait.unknown"))
    return GoroutineGroup(stack, count, wait, own[0] if own else "")
