"""Findings about one profile: each claim with lines of `profile top` and the command that shows them. The functions
that quote such lines as evidence come first; comparisons use them too.
"""

import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from bot.finding_codes import as_code
from bot.pprof.filters import active, literally
from bot.pprof.graph import Trim
from bot.pprof.hints import FEW, PROFILER, GoroutineGroup, Hint, Hints, crowded, groups, hints
from bot.pprof.profile import Profile, sample_index, shown_type
from bot.pprof.top import Options, TopRow, listing, prepared
from bot.report import Confidence, Evidence, Finding, NextAction, Severity, Sheet, Table, new_finding, step
from bot.texts import Prose, Text, sentences

PROGRAM = "hami-bot"
_LONGEST_NAME = 60
_LONGEST = 600
"""The most characters of a quoted line: a function's name may have a megabyte."""
_SECOND_NS = 1_000_000_000
_EVERY = Trim(cum=True, nodefraction=0.0)


class SourcedProfile(NamedTuple):
    """A profile, as `decode.read` gives it, and where it comes from. `file` is what a command can name: a path, or a
    kept profile's id. `object` is what the evidence is about: a pod, or the file's name.
    """

    profile: Profile
    file: str
    object: str

    def ready(self) -> "SourcedProfile":
        """A copy with the profile prepared for `top`; this one stays unchanged."""
        return self._replace(profile=prepared(self.profile.copy()))


def top_table(title: Prose, rows: Iterable[TopRow]) -> Table:
    valid = (TopRow(*map(printable, row)) for row in rows)
    words, heading = (title, None) if isinstance(title, str) else ("", title)
    return Sheet(words, TopRow, names="flat_share=flat% sum_share=sum% cum_share=cum%", heading=heading).table(valid)


def question(*words: str) -> str:
    """A command of this bot about profiles, for a next action: `profile list …`."""
    return printable(shlex.join(["profile", *words]))


def printable(text: str) -> str:
    """The text with bytes that are not UTF-8 escaped, so that a report is valid text."""
    return text.encode("utf-8", "backslashreplace").decode()


def short_name(function: str) -> str:
    """A function's name for a sentence: `scheduler.(*Scheduler).Filter`, without its path and types of generics."""
    opening, closing = function.find("["), function.rfind("]")
    name = f"{function[:opening]}[…]{function[closing + 1 :]}" if 0 <= opening < closing else function
    package, bracket, method = name.partition("(")
    name = f"{package.rpartition('/')[2]}{bracket}{method}"
    return printable(name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…")


def headline(taken: SourcedProfile, kind: str) -> Evidence:
    """Evidence of the profile's total, and of how long it was measured."""
    found = listing(taken.profile.copy(), Options(sample_index=kind, trim=Trim(nodecount=1)))
    return _evidence(
        taken, found.duration or found.summary, ["top", f"-sample_index={kind}", "-nodecount=1", taken.file]
    )


def focused(
    taken: SourcedProfile,
    kind: str,
    pattern: str,
    wanted: Callable[[str], bool],
    *,
    ignore: str = "",
    rows: int = 2,
    callers: Sequence[str] = (),
) -> list[Evidence]:
    """Evidence from the samples that match `pattern`: the total, the first rows `wanted`, and the rows of `callers`.
    The profile is prepared; the pattern is anchored at the beginning of a name.
    """
    focus = f"^({pattern})"
    filters = {"focus": focus, "ignore": f"^({ignore})" if ignore else ""}
    found = listing(taken.profile.copy(), Options(sample_index=kind, trim=_EVERY, filters=filters))
    words = ["top", f"-sample_index={kind}", "-cum", "-nodefraction=0", *(f"-{option}" for option in active(filters))]
    chosen = [row for row in found.rows if wanted(row.name)][:rows]
    chosen += [row for row in found.rows if row.name in callers and row not in chosen]
    return [_evidence(taken, line, [*words, taken.file]) for line in (found.summary, *map(str, chosen))]


def _evidence(taken: SourcedProfile, line: str, words: Sequence[str]) -> Evidence:
    quote, at = printable(line[:_LONGEST]), began_at(taken.profile)
    return Evidence(source="profile", object=taken.object, at=at, quote=quote, command=f"{PROGRAM} {question(*words)}")


def began_at(profile: Profile) -> str | None:
    """When the profile was begun, as RFC 3339; None where it does not say."""
    try:
        moment = datetime.fromtimestamp(profile.time_nanos // _SECOND_NS, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return moment.replace(tzinfo=None).isoformat() + "Z" if profile.time_nanos > 0 else None


GOROUTINES = "goroutine"
_LEAKED = "goroutineleak"
"""Goroutines that wait for what nobody can reach any more, by Go's garbage collector (1.26, runtime/pprof)."""
_COUNTED = (GOROUTINES, _LEAKED, "threadcreate")
"""Sample types of which the profile has every instance, not a sample."""
_NAMED = 2
_GROUPS = 3
_WAITS = ("contentions", "delay")
_OF = {
    "cpu": "profile-of.cpu",
    "alloc_space": "profile-of.alloc_space",
    "alloc_objects": "profile-of.alloc_objects",
    "inuse_space": "profile-of.inuse_space",
    "inuse_objects": "profile-of.inuse_objects",
    "contentions": "profile-of.contentions",
    "delay": "profile-of.delay",
    "goroutine": "profile-of.goroutine",
    "goroutineleak": "profile-of.goroutine",
}
_HINTS = {
    "gc-background": "profile-hint.gc-background",
    "gc-assist": "profile-hint.gc-assist",
    "allocation": "profile-hint.allocation",
    "cgo": "profile-hint.cgo",
    "syscalls": "profile-hint.syscalls",
    "locks": "profile-hint.locks",
    "json": "profile-hint.json",
    "reflection": "profile-hint.reflection",
    "regexp": "profile-hint.regexp",
    "regexp-compile": "profile-hint.regexp-compile",
    "logging": "profile-hint.logging",
    "list-storm": "profile-hint.list-storm",
    "scheduler": "profile-hint.scheduler",
    "rate-limiter": "profile-hint.rate-limiter",
    "lock-contention": "profile-hint.lock-contention",
    "runtime-locks": "profile-hint.runtime-locks",
}
# By hint: the kind of profile that tells more about it than this one.
_ELSEWHERE = {"allocation": "allocs", "gc-background": "allocs", "gc-assist": "allocs"}


def explain(taken: SourcedProfile, *, sample_index_name: str = "") -> tuple[Finding, ...]:
    """Findings about a profile, the most important first; none when nothing stands out. The profile stays unchanged.
    Raises SourceError for a damaged profile, UsageError for a sample type that it does not have.
    """
    taken = taken.ready()
    profile = taken.profile
    index = sample_index(profile, sample_index_name or shown_type(profile))
    kind = profile.sample_types[index].type
    if not any(value for _, value in profile.samples.stacks(index)):
        off = kind in _WAITS
        claim = Text("profile-hint.nothing-recorded") if off else Text("profile-hint.empty", kind=printable(kind))
        return (finding("empty", claim, [headline(taken, kind)], next_actions=_take("goroutine" if off else "")),)
    found = hints(profile, index)
    about = _about_all(taken, kind, found)
    confidence: Confidence = "suspected" if about else "confirmed"
    given = [_of_hint(taken, kind, hint, confidence) for hint in found.hints]
    if kind == GOROUTINES:
        given = [*_crowds(taken, crowded(groups(profile))), *given]
    if kind == _LEAKED:
        given = [_leaks(taken, groups(profile)), *given]
    return (*about, *given)


def finding(
    code: str,
    claim: Text,
    evidence: Iterable[Evidence],
    *,
    warns: bool = False,
    confidence: Confidence = "confirmed",
    next_actions: Sequence[NextAction] = (),
) -> Finding:
    """A finding about a profile, with `profile-` before its code."""
    severity: Severity = "warning" if warns else "info"
    return new_finding(as_code(f"profile-{code}"), severity, claim, evidence, next_actions, confidence=confidence)


def _about_all(taken: SourcedProfile, kind: str, found: Hints) -> list[Finding]:
    if found.idle is not None:
        claim = Text("profile-hint.idle", share=share(found.idle))
        return [finding("idle", claim, [headline(taken, kind)], next_actions=_take("goroutine"))]
    if found.observed < FEW and kind not in _COUNTED:
        longer = taken.profile.duration_nanos > 0  # a snapshot has no length
        claim = Text("profile-hint.few-longer" if longer else "profile-hint.few", count=f"{found.observed:,.0f}")
        return [finding("few-samples", claim, [headline(taken, kind)])]
    return []


def _of_hint(taken: SourcedProfile, kind: str, hint: Hint, confidence: Confidence) -> Finding:
    names = [name for name, _ in hint.callers[:_NAMED]]
    of = Text(_OF[kind])
    if hint.code == "holder":
        claim = Text("profile-hint.holder", share=share(hint.share), of=of, name=short_name(names[0]))
    else:
        claim = Text(_HINTS[hint.code], share=share(hint.share), of=of)
        if names:
            callers = Text("profile-hint.callers", names=", ".join(map(short_name, names)))
            claim = sentences(claim, callers)
    pattern, is_holder = re.compile(hint.pattern), hint.code == "holder"
    profiled = not is_holder and any(PROFILER.match(function.name) for function in taken.profile.functions)
    ignore = "|".join(filter(None, (hint.unless, PROFILER.pattern if profiled else "")))
    callers = () if is_holder else names[:1]
    quoted = focused(
        taken, kind, hint.pattern, lambda name: bool(pattern.match(name)), ignore=ignore, rows=1, callers=callers
    )
    actions = [*(_lines_of(name, kind, taken) for name in names[:1]), *_take(_ELSEWHERE.get(hint.code, ""))]
    return finding(hint.code, claim, quoted, warns=hint.warns, confidence=confidence, next_actions=actions)


def _crowds(taken: SourcedProfile, crowds: Sequence[GoroutineGroup]) -> list[Finding]:
    if not crowds:
        return []
    total = sum(value for _, value in taken.profile.samples.stacks(0))
    largest = crowds[0]
    claim = Text(
        "profile-hint.crowd",
        count=f"{largest.goroutines:,}",
        total=f"{total:,}",
        wait=largest.wait,
        name=short_name(largest.waits_in),
    )
    evidence = [of_function(taken, crowd.waits_in) for crowd in crowds[:_GROUPS]]
    actions = [*_take("goroutine"), _lines_of(largest.waits_in, GOROUTINES, taken)]
    return [finding("goroutine-crowd", claim, evidence, next_actions=actions)]


def _leaks(taken: SourcedProfile, leaked: Sequence[GoroutineGroup]) -> Finding:
    """One profile proves these leaks: nothing in the program can wake the goroutines."""
    largest, total = leaked[0], sum(group.goroutines for group in leaked)
    where = largest.waits_in or largest.stack[0]
    claim = Text(
        "profile-hint.leaked",
        total=f"{total:,}",
        count=f"{largest.goroutines:,}",
        name=short_name(where),
        wait=largest.wait,
    )
    evidence = [of_function(taken, group.waits_in or group.stack[0], _LEAKED) for group in leaked[:_GROUPS]]
    return finding("goroutine-leak", claim, evidence, warns=True, next_actions=[_lines_of(where, _LEAKED, taken)])


def of_function(taken: SourcedProfile, function: str, kind: str = GOROUTINES) -> Evidence:
    """Evidence: the function's row in `profile top`, or the line with the total where it has no row."""
    return focused(taken, kind, f"{literally(function)}$", lambda name: name == function, rows=1)[-1]


def share(part: float) -> str:
    """A fraction as a percentage, `12.2%`; below a tenth of a percent with one more digit."""
    return f"{part:.1%}" if part >= 0.001 or not part else f"{part:.2%}"


def _take(kind: str) -> list[NextAction]:
    return [step(Text("profile-hint.take", kind=kind), question(kind))] if kind else []


def _lines_of(function: str, kind: str, taken: SourcedProfile) -> NextAction:
    command = question("list", f"-sample_index={kind}", f"^{literally(function)}$", taken.file)
    return step(Text("profile-hint.lines", name=short_name(function)), command)
