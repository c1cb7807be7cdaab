"""What stands out in a profile, by fixed rules with figures: shares of it, never causes.

A share is of the samples with a match anywhere in the stack. What the profile says about taking profiles is left out.
"""

import re
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from bot.pprof.profile import Profile, Rewritten
from bot.pprof.shares import observations, shares

Level = Literal["note", "warning"]

_SECOND_NS = 1e9
_IDLE = 0.05
FEW = 100
"""Observations below which shares mean little."""
_CALLERS = 3
_PROFILER = re.compile(r"(?:net/http|runtime)/pprof\.(?!Do\b|Do\.)")


class Rule(NamedTuple):
    """`note` and `warning` are shares from which on the hint is given; None for never.

    Samples in which the rule `unless` matches too do not count.
    """

    code: str
    pattern: re.Pattern[str]
    note: float
    warning: float | None = None
    unless: str = ""


CPU_RULES = (
    Rule("gc-background", re.compile(r"runtime\.(gcBgMarkWorker|bgsweep|bgscavenge)"), 0.10, 0.25),
    Rule("gc-assist", re.compile(r"runtime\.gcAssistAlloc"), 0.03),
    Rule("allocation", re.compile(r"runtime\.(mallocgc|growslice|makeslice|newobject)"), 0.10, 0.25),
    Rule("cgo", re.compile(r"runtime\.cgocall"), 0.20),
    Rule("syscalls", re.compile(r"(syscall|internal/runtime/syscall)\."), 0.15),
    Rule(
        "locks",
        re.compile(r"(internal/)?sync\.\((\*Mutex\)\.(Lock|lockSlow)|\*RWMutex\))|runtime\.(semacquire|lock2|futex$)"),
        0.05,
        0.20,
    ),
    Rule(
        "json", re.compile(r"encoding/json|github\.com/json-iterator/|sigs\.k8s\.io/json|internal/jsonwire"), 0.10, 0.50
    ),
    Rule("reflection", re.compile(r"reflect\."), 0.10, unless="json"),
    Rule("regexp", re.compile(r"regexp\."), 0.10),
    Rule("regexp-compile", re.compile(r"regexp\.(Must)?Compile"), 0.02, 0.02),
    Rule("logging", re.compile(r"k8s\.io/klog|log\.|go\.uber\.org/zap|fmt\.Sprint"), 0.10),
    Rule("list-storm", re.compile(r".*(\bListPods\b|client-go/tools/cache\.\(\*Reflector\))"), 0.20),
    Rule("scheduler", re.compile(r"runtime\.(schedule|findRunnable|park_m)$"), 0.15),
)
WAIT_RULES = (
    Rule("rate-limiter", re.compile(r".*flowcontrol\..*(Wait|Accept)|golang\.org/x/time/rate\."), 0.05, 0.20),
    Rule("lock-contention", re.compile(r"(internal/)?sync\.\(\*(RW)?Mutex\)\."), 0.30),
    Rule("runtime-locks", re.compile(r"runtime\.unlock"), 0.30),
)
ALLOCATION_RULES = (
    Rule("json", next(rule.pattern for rule in CPU_RULES if rule.code == "json"), 0.20, 0.50),
    Rule("list-storm", next(rule.pattern for rule in CPU_RULES if rule.code == "list-storm"), 0.20),
    Rule("logging", next(rule.pattern for rule in CPU_RULES if rule.code == "logging"), 0.10),
)
_RULES = {
    "cpu": CPU_RULES,
    **dict.fromkeys(("contentions", "delay"), WAIT_RULES),
    **dict.fromkeys(("alloc_objects", "alloc_space"), ALLOCATION_RULES),
}


class Hint(NamedTuple):
    """`callers`: the program's own functions nearest to what matched, with their shares."""

    code: str
    level: Level
    share: float
    callers: list[tuple[str, float]]


class Hints(NamedTuple):
    """`few`: too few observations for any of it to mean much. `idle`: the share of a core, where hardly any is used."""

    hints: list[Hint]
    few: bool
    idle: float | None


def hints(profile: Profile, index: int) -> Hints:
    """The hints of the sample type at `index`, the heaviest first; the profile is as `top.prepared` gives it."""
    kind = profile.sample_types[index]
    samples = profile.samples
    profile.samples = Rewritten(samples, _without_profiler(profile))
    try:
        total = sum(abs(value) for _, value in profile.samples.stacks(index))
        rules = _RULES.get(kind.type, ()) if total else ()
        unless = {rule.code: rule.unless for rule in rules if rule.unless}
        found = shares(profile, index, {rule.code: rule.pattern for rule in rules}, unless)
        observed = observations(profile, index)(total, total)
    finally:
        profile.samples = samples
    given: list[Hint] = []
    for rule in rules:
        share = found[rule.code].weight / total
        if share >= rule.note:
            warns = rule.warning is not None and share >= rule.warning
            callers = [(name, weight / total) for name, weight in found[rule.code].callers[:_CALLERS]]
            given.append(Hint(rule.code, "warning" if warns else "note", share, callers))
    busy = total / profile.duration_nanos if kind.type == "cpu" and profile.duration_nanos > 0 else None
    idle = busy if busy is not None and busy < _IDLE else None
    return Hints(sorted(given, key=lambda hint: -hint.share), observed < FEW, idle)


def _without_profiler(profile: Profile) -> Callable[[Sequence[int]], Sequence[int] | None]:
    profiling = {
        number
        for number, location in profile.locations.items()
        if any(_PROFILER.match(line.function.name) for line in location.lines)
    }

    def others(ids: Sequence[int]) -> Sequence[int] | None:
        return ids if profiling.isdisjoint(ids) else None

    return others
