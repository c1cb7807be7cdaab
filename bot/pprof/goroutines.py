"""Where goroutines wait, grouped by stack; and between two profiles, which groups grow: a suspected leak."""

from collections.abc import Sequence
from typing import NamedTuple

from bot.pprof.hints import is_own
from bot.pprof.nodes import no_location
from bot.pprof.profile import Profile

MANY = 100
"""Goroutines in one own stack from which on it is worth a word."""
_GROWN_BY, _GROWN_SHARE = 50, 1.2
_WAITS = (
    ("runtime.chanrecv", "channel-receive"),
    ("runtime.chansend", "channel-send"),
    ("runtime.selectgo", "select"),
    ("runtime.block", "select-none"),
    ("sync.runtime_SemacquireWaitGroup", "wait-group"),
    ("sync.(*WaitGroup).Wait", "wait-group"),
    ("sync.runtime_SemacquireRWMutex", "lock"),
    ("internal/sync.runtime_SemacquireMutex", "lock"),
    ("sync.runtime_SemacquireMutex", "lock"),
    ("sync.(*Mutex).Lock", "lock"),
    ("sync.runtime_notifyListWait", "condition"),
    ("runtime.netpollblock", "network"),
    ("internal/poll.runtime_pollWait", "network"),
    ("time.Sleep", "sleep"),
)
_NOT_THE_PROGRAMS = ("runtime/pprof.", "net/http/pprof.", "net/http.(*conn).serve", "net/http.(*persistConn).")


class GoroutineGroup(NamedTuple):
    """Goroutines with one stack.

    `wait` is a word for what they wait for, empty when unknown. `waits_in` is the first own function from the leaf,
    `spawned_by` the root-most one.
    """

    stack: tuple[str, ...]
    goroutines: int
    wait: str
    waits_in: str
    spawned_by: str


class GroupGrowth(NamedTuple):
    """A group that has grown: a suspected leak, not a proven one."""

    group: GoroutineGroup
    before: int


def groups(profile: Profile) -> list[GoroutineGroup]:
    """By stack over all labels, the largest first; the profile is as `top.prepared` gives it."""
    names = {
        number: tuple(line.function.name for line in location.lines) or ("?",)
        for number, location in profile.locations.items()
    }
    counts: dict[tuple[str, ...], int] = {}
    for ids, value in profile.samples.stacks(0):
        stack = _stack(ids, names)
        counts[stack] = counts.get(stack, 0) + value
    return sorted(
        (_group(stack, count) for stack, count in counts.items()), key=lambda group: (-group.goroutines, group.stack)
    )


def crowded(found: Sequence[GoroutineGroup]) -> list[GoroutineGroup]:
    """Groups that wait in own code in numbers; those that serve idle connections or take profiles are left out."""
    return [group for group in found if group.goroutines > MANY and group.waits_in and not _expected(group)]


def grown(before: Profile, after: Profile) -> list[GroupGrowth]:
    """The groups that have more goroutines in `after` by more than 50 and a fifth, the largest growth first."""
    counts = {group.stack: group.goroutines for group in groups(before)}
    found = [
        GroupGrowth(group, counts.get(group.stack, 0))
        for group in groups(after)
        if group.waits_in and not _expected(group)
    ]
    more = [
        growth
        for growth in found
        if growth.group.goroutines - growth.before > _GROWN_BY
        and growth.group.goroutines > _GROWN_SHARE * growth.before
    ]
    return sorted(more, key=lambda growth: (growth.before - growth.group.goroutines, growth.group.stack))


def _expected(group: GoroutineGroup) -> bool:
    return any(name.startswith(_NOT_THE_PROGRAMS) for name in group.stack)


def _stack(ids: Sequence[int], names: dict[int, tuple[str, ...]]) -> tuple[str, ...]:
    try:
        return tuple([name for number in ids for name in names[number]])
    except KeyError as error:
        raise no_location() from error


def _group(stack: tuple[str, ...], count: int) -> GoroutineGroup:
    own = [name for name in stack if is_own(name)]
    wait = next((kind for name in stack for start, kind in _WAITS if name.startswith(start)), "")
    return GoroutineGroup(stack, count, wait, own[0] if own else "", stack[-1] if stack else "")
