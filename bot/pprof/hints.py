"""What stands out in a profile, by fixed rules with figures: shares of it, never causes.

A share is of the samples with a match anywhere in the stack. What the profile says about taking profiles is left out.
Every pattern reads the same in Python and in RE2, so that `-focus` shows what a hint counted.
"""

import re
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from bot.pprof.function_shares import Share, observations, shares
from bot.pprof.patterns import literally
from bot.pprof.profile import Profile, Rewritten

Level = Literal["note", "warning"]

_IDLE = 0.05
FEW = 100
"""Observations below which shares mean little."""
_CALLERS = 3
# Not what a program calls to label its own work: Do, SetGoroutineLabels, WithLabels.
PROFILER = re.compile(r"net/http/pprof\.|runtime/pprof\.([a-z(]|Lookup|Start|Stop|Write)")
"""What takes profiles."""


class Rule(NamedTuple):
    """`note` and `warning` are shares from which on the hint is given; None for never.

    Samples in which the rule `unless` matches too do not count. With `holder` it is the share of the own function that
    is nearest to the most of it which counts.
    """

    code: str
    pattern: re.Pattern[str]
    note: float
    warning: float | None = None
    unless: str = ""
    holder: bool = False


_JSON = re.compile(r"encoding/json|github\.com/json-iterator/|sigs\.k8s\.io/json")
_LISTS = re.compile(r".*(\bListPods\b|client-go/tools/cache\.\(\*Reflector\))")
_LOGGING = re.compile(r"k8s\.io/klog|log\.|go\.uber\.org/zap|fmt\.Sprint")
_RATE_LIMITER = re.compile(r".*flowcontrol\..*(Wait|Accept)|golang\.org/x/time/rate\..*[Ww]ait")

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
    Rule("json", _JSON, 0.10, 0.50),
    Rule("reflection", re.compile(r"reflect\."), 0.10, unless="json"),
    Rule("regexp", re.compile(r"regexp\."), 0.10),
    Rule("regexp-compile", re.compile(r"regexp\.(Must)?Compile"), 0.02, 0.02),
    Rule("logging", _LOGGING, 0.10),
    Rule("list-storm", _LISTS, 0.20),
    Rule("scheduler", re.compile(r"runtime\.(schedule|findRunnable|park_m)$"), 0.15),
)
WAIT_RULES = (
    Rule("rate-limiter", _RATE_LIMITER, 0.05, 0.20),
    Rule("lock-contention", re.compile(r"(internal/)?sync\.\(\*(RW)?Mutex\)\."), 0.30),
    Rule("runtime-locks", re.compile(r"runtime\.unlock"), 0.30),
)
ALLOCATION_RULES = (
    Rule("json", _JSON, 0.20, 0.50),
    Rule("list-storm", _LISTS, 0.20),
    Rule("logging", _LOGGING, 0.10),
)
GOROUTINE_RULES = (Rule("rate-limiter", _RATE_LIMITER, 0.05, 0.20),)
MEMORY_RULES = (Rule("holder", re.compile(""), 0.30, holder=True),)
_RULES = {
    "cpu": CPU_RULES,
    **dict.fromkeys(("contentions", "delay"), WAIT_RULES),
    **dict.fromkeys(("alloc_objects", "alloc_space"), ALLOCATION_RULES),
    **dict.fromkeys(("inuse_objects", "inuse_space"), MEMORY_RULES),
    "goroutine": GOROUTINE_RULES,
}


class Hint(NamedTuple):
    """`share` is of the whole profile. `callers`: the program's own functions nearest to what matched, with shares.

    `pattern` and `unless` say which samples count, as `-focus` and `-ignore` would be given them.
    """

    code: str
    level: Level
    share: float
    callers: list[tuple[str, float]]
    pattern: str
    unless: str


class Hints(NamedTuple):
    """`observed`: on how many observations all rests. `idle`: the share of a core, where hardly any is used."""

    hints: list[Hint]
    observed: float
    idle: float | None

    @property
    def few(self) -> bool:
        """Too few observations for any of it to mean much."""
        return self.observed < FEW


def hints(profile: Profile, index: int) -> Hints:
    """The hints of the sample type at `index`, the heaviest first; the profile is as `top.prepared` gives it."""
    kind = profile.sample_types[index]
    samples = profile.samples
    whole = sum(abs(value) for _, value in samples.stacks(index))
    profile.samples = Rewritten(samples, _without_profiler(profile))
    try:
        total = sum(abs(value) for _, value in profile.samples.stacks(index))
        rules = _RULES.get(kind.type, ()) if total else ()
        unless = {rule.code: rule.unless for rule in rules if rule.unless}
        found = shares(profile, index, {rule.code: rule.pattern for rule in rules}, unless)
        observed = observations(profile, index)(total, total)
    finally:
        profile.samples = samples
    given = [hint for rule in rules if (hint := _hint(rule, found[rule.code], total, whole))]
    busy = total / profile.duration_nanos if kind.type == "cpu" and profile.duration_nanos > 0 else None
    idle = busy if busy is not None and busy < _IDLE else None
    return Hints(sorted(given, key=lambda hint: -hint.share), observed, idle)


def _hint(rule: Rule, share: Share, total: int, whole: int) -> Hint | None:
    """Judged without the profiler's own samples; what is told is the share of all, as every table has it."""
    pattern, weight = rule.pattern.pattern, share.weight
    if rule.holder and share.callers:
        name, weight = share.callers[0]
        pattern = f"{literally(name)}$"
    elif rule.holder:
        return None
    if weight / (whole if rule.holder else total) < rule.note:
        return None
    warns = rule.warning is not None and weight / total >= rule.warning
    callers = [(name, own / whole) for name, own in share.callers[: 1 if rule.holder else _CALLERS]]
    unless = next(
        (cpu_rule.pattern.pattern for cpu_rule in CPU_RULES if rule.unless and cpu_rule.code == rule.unless), ""
    )
    return Hint(rule.code, "warning" if warns else "note", weight / whole, callers, pattern, unless)


def _without_profiler(profile: Profile) -> Callable[[Sequence[int]], Sequence[int] | None]:
    profiling = {
        number
        for number, location in profile.locations.items()
        if any(PROFILER.match(line.function.name) for line in location.lines)
    }

    def others(ids: Sequence[int]) -> Sequence[int] | None:
        return ids if profiling.isdisjoint(ids) else None

    return others
