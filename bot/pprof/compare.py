"""Compares two or more profiles of one kind: which functions changed by more than chance explains.

CPU and delta profiles are compared as values per second; memory in use and goroutines as counts at one moment. A
difference within twice the (Poisson) standard deviation of the numbers of observations is noise.
"""

import math
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import msgspec

from bot.errors import UsageError
from bot.pprof.findings import (
    GOROUTINES,
    SourcedProfile,
    finding,
    focused,
    headline,
    of_function,
    printable,
    question,
    share,
    short_name,
)
from bot.pprof.hints import GroupGrowth, function_cum, grown, is_own, nearest_to_leaf, observations, shares, total
from bot.pprof.nodes import base_name
from bot.pprof.profile import ALLOCATED, Profile, ValueType, sample_index
from bot.pprof.units import AUTO, label
from bot.report import Finding, NextAction, Table, prose_table, step
from bot.texts import Prose, Text, clauses

GC = re.compile(r"runtime\.(gcBgMarkWorker|bgsweep|bgscavenge|gcAssistAlloc)")
_ALLOCATED_OBJECTS = "alloc_objects"
_DEVIATIONS = 2.0
_MOMENT = ("inuse_objects", "inuse_space", "goroutine", "goroutineleak", "threadcreate")
_LONGER = 1.2
_SECOND_NS = 1e9


class FunctionChange(NamedTuple):
    """A function's value in each profile, oldest first; `noise`: chance may explain the change from first to last."""

    name: str
    values: tuple[float, ...]
    noise: bool

    @property
    def difference(self) -> float:
        return self.values[-1] - self.values[0]

    @property
    def gone(self) -> bool:
        """Whether the first profile has samples of the function and the last has none; its code may still run."""
        return bool(self.values[0]) and not self.values[-1]

    @property
    def new(self) -> bool:
        return bool(self.values[-1]) and not self.values[0]


class Unlike(NamedTuple):
    """A difference in how the profiles were taken, such as their length, that makes a comparison doubtful."""

    code: str
    text: Text


class Comparison(msgspec.Struct, frozen=True):
    """What `compare` found: the functions of all profiles, by the size of their change, and totals. `gc` is the garbage
    collector's share of each profile. `gc` and `allocated` are None where the profiles do not tell.
    """

    kind: ValueType
    per_second: bool
    total: FunctionChange
    gc: FunctionChange | None
    allocated: FunctionChange | None
    functions: list[FunctionChange]
    warnings: list[Unlike]

    @property
    def significant(self) -> list[FunctionChange]:
        """The functions whose change is more than noise, by the size of the change."""
        return [function for function in self.functions if not function.noise]

    @property
    def own(self) -> list[FunctionChange]:
        """The changes above noise in functions of the program and its libraries, not of Go itself."""
        return [change for change in self.significant if is_own(change.name)]


class _Side(NamedTuple):
    seconds: float
    total: int
    cum: dict[str, int]
    gc: int
    allocated: int | None
    observed: float
    """Observations per unit of value."""


def compare(profiles: Sequence[Profile], wanted: str = "") -> Comparison:
    """Compares profiles, oldest first, as `top.prepared` gives them. Raises UsageError if they are of several kinds."""
    indexes = [sample_index(profile, wanted or compared_type(profile)) for profile in profiles]
    kinds = [profile.sample_types[index] for profile, index in zip(profiles, indexes, strict=True)]
    if len(set(kinds)) > 1:
        raise UsageError(
            Text("error-pprof.profiles-measure-different-things", kinds=", ".join(kind.type for kind in kinds)),
            hint=Text("error-pprof.compare-one-kind"),
        )
    kind = kinds[0]
    per_second = kind.type not in _MOMENT and all(profile.duration_nanos > 0 for profile in profiles)
    pairs = zip(profiles, indexes, strict=True)
    sides = [_side(profile, index, per_second=per_second) for profile, index in pairs]
    names = dict.fromkeys(name for side in sides for name in side.cum)
    functions = [_change(name, sides, [side.cum.get(name, 0) for side in sides]) for name in names]
    known = [side.allocated for side in sides if side.allocated is not None]
    return Comparison(
        kind=kind,
        per_second=per_second,
        total=_change("total", sides, [side.total for side in sides]),
        gc=_collector(sides) if kind.type == "cpu" else None,
        allocated=_change("allocated", sides, known) if len(known) == len(sides) and per_second else None,
        functions=sorted(functions, key=lambda function: (-abs(function.difference), function.name)),
        warnings=_warnings(profiles, kind, per_second=per_second),
    )


def compared_type(profile: Profile) -> str:
    """The sample type to compare when none is named: for allocations over a time their number; else pprof's default."""
    allocates = any(value_type.type == _ALLOCATED_OBJECTS for value_type in profile.sample_types)
    return _ALLOCATED_OBJECTS if allocates and profile.duration_nanos > 0 else ""


def _side(profile: Profile, index: int, *, per_second: bool) -> _Side:
    size = total(profile, index)
    types = [value_type.type for value_type in profile.sample_types]
    space = types.index(ALLOCATED) if ALLOCATED in types else None
    return _Side(
        seconds=profile.duration_nanos / _SECOND_NS if per_second else 1.0,
        total=sum(value for _, value in profile.samples.stacks(index)),
        cum=function_cum(profile, index),
        gc=shares(profile, index, {"gc": GC})["gc"].weight,
        allocated=None if space is None else sum(value for _, value in profile.samples.stacks(space)),
        observed=observations(profile, index) / size if size else 0.0,
    )


def _change(name: str, sides: Sequence[_Side], values: Sequence[int]) -> FunctionChange:
    rates = tuple(value / side.seconds for value, side in zip(values, sides, strict=True))
    first, last = sides[0], sides[-1]
    variance = sum(
        abs(value) / side.observed / side.seconds**2
        for value, side in ((values[0], first), (values[-1], last))
        if side.observed
    )
    return FunctionChange(name, rates, noise=abs(rates[-1] - rates[0]) <= _DEVIATIONS * math.sqrt(variance))


def _collector(sides: Sequence[_Side]) -> FunctionChange:
    parts = tuple(side.gc / side.total if side.total else 0.0 for side in sides)
    ends = ((parts[0], sides[0]), (parts[-1], sides[-1]))
    variance = sum(
        part * (1 - part) / (side.observed * side.total) for part, side in ends if side.observed * side.total
    )
    return FunctionChange(
        "garbage collection", parts, noise=abs(parts[-1] - parts[0]) <= _DEVIATIONS * math.sqrt(abs(variance))
    )


def _warnings(profiles: Sequence[Profile], kind: ValueType, *, per_second: bool) -> list[Unlike]:
    found: list[Unlike] = []
    programs = [
        base_name(profile.mappings[0].file) if profile.mappings and profile.mappings[0].file else "?"
        for profile in profiles
    ]
    if len(set(programs)) > 1:
        found.append(Unlike("program", Text("profile-unlike.program", values=printable(", ".join(programs)))))
    if len({profile.period for profile in profiles}) > 1:
        periods = ", ".join(str(profile.period) for profile in profiles)
        found.append(Unlike("period", Text("profile-unlike.period", values=periods)))
    durations = [profile.duration_nanos / _SECOND_NS for profile in profiles]
    if per_second and max(durations) > _LONGER * min(durations):
        lengths = ", ".join(f"{duration:.1f} s" for duration in durations)
        found.append(Unlike("duration", Text("profile-unlike.duration", values=lengths)))
    if not per_second and kind.type not in _MOMENT:
        found.append(Unlike("since-start", Text("profile-unlike.since-start")))
    return found


ROWS = 10
_C_CODE = "runtime.cgocall"
_EVERYTHING = ("main.main", "runtime.main")
"""Functions that call everything a program does, so that they explain no change."""
_CHANGED = 2
_NAMED = 3
_LISTED = 5


def explain_change(
    versions: Sequence[SourcedProfile], *, sample_index_name: str = ""
) -> tuple[tuple[Finding, ...], Table]:
    """Findings about what changed from the first profile to the last (oldest first, at least two), and a table of all.
    No change is a finding too. Raises SourceError for a damaged profile, UsageError for profiles of different kinds.
    """
    ready = [profile.ready() for profile in versions]
    found = compare([taken.profile for taken in ready], sample_index_name)
    leaks = grown(ready[0].profile, ready[-1].profile) if found.kind.type == GOROUTINES else []
    given = [*_leak(ready, leaks), *([] if leaks else _changed(ready, found)), *_gone_and_new(ready, found)]
    evidence = [headline(taken, found.kind.type) for taken in (ready[0], ready[-1])]
    unchanged = Text("profile-change.unchanged", whole=_in_words(_measured(found), found, found.total))
    findings = (
        *(given or [finding("no-change", unchanged, evidence)]),
        *_collector_shares(ready, found),
        *[finding(f"unlike-{warning.code}", warning.text, evidence) for warning in found.warnings],
    )
    columns = [Text("profile-change.what"), *[_version_name(taken) for taken in ready], Text("profile-change.change")]
    rows = [_row(Text("profile-change.total"), found, found.total)]
    if found.gc and any(found.gc.values):
        rows.append((Text("profile-change.gc"), *map(share, found.gc.values), _ratio(found.gc)))
    if found.allocated and found.kind.type != "alloc_space":
        values = [f"{label(round(value), 'bytes', AUTO)}/s" for value in found.allocated.values]
        rows.append((Text("profile-change.allocated"), *values, _ratio(found.allocated)))
    # Own functions, and calls of C: those that changed, then the heaviest that did not, marked as noise.
    ours = [function for function in found.functions if is_own(function.name) or function.name == _C_CODE]
    changed = [change for change in ours if not change.noise]
    others = sorted(
        (change for change in ours if change.noise), key=lambda change: (-max(map(abs, change.values)), change.name)
    )
    rows += [
        _row(printable(change.name), found, change)
        for change in ([*changed, *others][:ROWS] or found.significant[:ROWS])
    ]
    return findings, prose_table(Text("profile-change.title", what=_measured(found)), columns, rows)


def _row(name: Prose, found: Comparison, change: FunctionChange) -> tuple[Prose, ...]:
    return (name, *(_value(value, found) for value in change.values), _ratio(change))


def _value(number: float, found: Comparison) -> str:
    """`17.0%` of a core for CPU time per second, `112,345/s`, or the value as a table has it."""
    unit = found.kind.unit
    if found.per_second and found.kind.type == "cpu":
        return share(number / 1e9)
    text = f"{number:,.0f}" if unit == "count" else label(round(number), unit, AUTO)
    return f"{text}/s" if found.per_second else text


def _ratio(change: FunctionChange) -> Prose:
    if change.noise:
        return Text("profile-change.noise")
    first, last = change.values[0], change.values[-1]
    if not first:
        return Text("profile-change.new")
    return f"{(last - first) / abs(first):+.0%}"


def _changed(ready: Sequence[SourcedProfile], found: Comparison) -> list[Finding]:
    changed = [change for change in found.own if not (change.gone or change.new) and change.name not in _EVERYTHING]
    if found.total.noise and not changed:
        return []
    # The functions behind at least half of the change; if the total is noise, the most changed function.
    half = 0.0 if found.total.noise else found.total.difference / 2
    through = [change for change in changed if half and change.difference / half >= 1] or changed[:1]
    explaining = _explaining(ready, found, through)
    others = [change for change in changed if change not in through][: _CHANGED - bool(explaining)]
    chosen = [explaining, *others] if explaining else others
    names = [_in_words(short_name(change.name), found, change) for change in others]
    claim = Text("profile-change.claim", whole=_in_words(_measured(found), found, found.total))
    told = explaining or _by_the_collector(found, half)
    if told and told.values[0]:
        factor, values = told.values[-1] / told.values[0], (told.values[0], told.values[-1])
        before, after = (_value(value, found) if told is explaining else share(value) for value in values)
        claim = Text(
            "profile-change.explained",
            name=short_name(told.name) if told is explaining else Text("profile-change.collector"),
            factor=f"{factor:.2g}" if factor < 10 else f"{factor:,.0f}",
            before=before,
            after=after,
            step=_largest_step(told, [_version_name(taken) for taken in ready]),
            claim=claim,
        )
    if names:
        claim = Text("profile-change.with-functions", claim=claim, functions=clauses(names))
    kind = found.kind.type
    evidence = [headline(taken, kind) for taken in (ready[0], ready[-1])]
    evidence += [of_function(taken, change.name, kind) for change in chosen for taken in (ready[0], ready[-1])]
    return [finding("changed", claim, evidence, next_actions=_difference(ready, kind))]


def _by_the_collector(found: Comparison, half: float) -> FunctionChange | None:
    """The change of the garbage collector's share, if at least half of the whole change is its work."""
    if found.gc is None or found.gc.noise or not half:
        return None
    work = [part * whole for part, whole in zip(found.gc.values, found.total.values, strict=True)]
    return found.gc if (work[-1] - work[0]) / half >= 1 else None


def _explaining(
    ready: Sequence[SourcedProfile], found: Comparison, through: Sequence[FunctionChange]
) -> FunctionChange | None:
    """The deepest of the functions `through`: a caller changes at least as much as what it calls, so the least changed
    one. Among equal ones it is the one that is most often nearest to the leaf.
    """
    least = min((abs(change.difference) for change in through), default=0.0)
    equal = {change.name: change for change in through if math.isclose(abs(change.difference), least)}
    if len(equal) < 2:
        return next(iter(equal.values()), None)
    profile = ready[-1 if found.total.difference > 0 else 0].profile
    return equal[nearest_to_leaf(profile, sample_index(profile, found.kind.type), equal)]


def _largest_step(change: FunctionChange, names: Sequence[str]) -> Prose:
    """The two versions between which most of the change came; nothing where there are only two."""
    if len(names) == 2:
        return ""
    steps = [(after - before) / change.difference for before, after in pairwise(change.values)]
    largest = max(range(len(steps)), key=lambda step: (steps[step], step))
    earlier, later = names[largest], names[largest + 1]
    if min(steps) < 0:  # others took some of it back: a share of the sum would be more than all
        return Text("profile-change.largest-step", earlier=earlier, later=later)
    return Text("profile-change.step", share=f"{steps[largest]:.0%}", earlier=earlier, later=later)


def _version_name(taken: SourcedProfile) -> str:
    return printable(taken.file.rpartition("/")[2].removesuffix(".pb.gz"))


def _measured(found: Comparison) -> Text:
    kind = printable(found.kind.type)
    if not found.per_second:
        return Text("profile-change.values", kind=kind)
    return Text("profile-change.of-core") if kind == "cpu" else Text("profile-change.rates", kind=kind)


def _in_words(name: Prose, found: Comparison, change: FunctionChange) -> Text:
    before, after = _value(change.values[0], found), _value(change.values[-1], found)
    return Text("profile-change.told", name=name, before=before, after=after, ratio=_ratio(change))


def _gone_and_new(ready: Sequence[SourcedProfile], found: Comparison) -> list[Finding]:
    kind = found.kind.type
    given: list[Finding] = []
    for code, chosen, there in (
        ("gone", [change for change in found.own if change.gone], ready[0]),
        ("new", [change for change in found.own if change.new], ready[-1]),
    ):
        if chosen:
            names = ", ".join(short_name(change.name) for change in chosen[:_LISTED])
            key = "profile-change.gone" if code == "gone" else "profile-change.new-functions"
            claim = Text(key, names=names, count=len(chosen))
            given.append(finding(code, claim, [of_function(there, change.name, kind) for change in chosen[:_LISTED]]))
    return given


def _collector_shares(ready: Sequence[SourcedProfile], found: Comparison) -> list[Finding]:
    if found.gc is None or found.gc.noise:
        return []
    before, after = found.gc.values[0], found.gc.values[-1]
    claim = Text("profile-change.gc-share", before=share(before), after=share(after))
    evidence = [focused(taken, found.kind.type, GC.pattern, str.isspace, rows=0)[0] for taken in (ready[0], ready[-1])]
    return [finding("gc-changed", claim, evidence)]


def _leak(ready: Sequence[SourcedProfile], growths: Sequence[GroupGrowth]) -> list[Finding]:
    if not growths:
        return []
    largest = growths[0]
    claim = Text(
        "profile-change.leak",
        name=short_name(largest.group.waits_in),
        wait=largest.group.wait,
        before=f"{largest.before:,}",
        after=f"{largest.group.goroutines:,}",
    )
    others = [short_name(growth.group.waits_in) for growth in growths[1:_NAMED]]
    if others:
        claim = Text("profile-change.with-others", claim=claim, names=", ".join(others))
    places = list(dict.fromkeys(growth.group.waits_in for growth in growths[:_NAMED]))
    evidence = [of_function(taken, place) for place in places for taken in (ready[0], ready[-1])]
    actions = _difference(ready, GOROUTINES)
    return [finding("goroutine-leak", claim, evidence, warns=True, confidence="suspected", next_actions=actions)]


def _difference(ready: Sequence[SourcedProfile], kind: str) -> list[NextAction]:
    words = ["top", f"-sample_index={kind}", "-cum", "-nodecount=20", f"-diff_base={ready[0].file}", ready[-1].file]
    return [step(Text("profile-change.difference"), question(*words))]
