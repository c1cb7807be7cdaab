"""focus, ignore, hide, show, show_from, tagfocus and tagignore (profile/filter.go, internal/driver/driver_focus.go)."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from bot.pprof.patterns import Match, matcher
from bot.pprof.profile import Chosen, Line, Location, Profile, Rewritten
from bot.pprof.tags import tag_filter


class Filters(NamedTuple):
    """What was asked for, as typed; empty for none. The names are pprof's, in the order in which it prints them."""

    focus: str = ""
    ignore: str = ""
    hide: str = ""
    show: str = ""
    show_from: str = ""
    tagfocus: str = ""
    tagignore: str = ""

    def active(self) -> list[str]:
        """`focus=json`, one for each that is set."""
        return [f"{name}={value}" for name, value in self._asdict().items() if value]


def apply(profile: Profile, filters: Filters) -> None:
    """Take samples, stacks and lines out of the profile. Raises UsageError for what cannot be read."""
    if not any(filters):
        return
    focus, ignore, hide, show, show_from = (
        matcher(pattern, name) if pattern else None
        for name, pattern in zip(Filters._fields[:5], filters[:5], strict=True)
    )
    if filters.tagfocus or filters.tagignore:
        _by_tag(profile, filters)
    if focus or ignore or hide or show:
        _by_name(profile, focus, ignore, hide, show)
    if show_from:
        _from(profile, show_from)


def _by_tag(profile: Profile, filters: Filters) -> None:
    tests = [
        (wanted, tag_filter(pattern, name, profile))
        for name, pattern, wanted in (("tagfocus", filters.tagfocus, True), ("tagignore", filters.tagignore, False))
        if pattern
    ]
    profile.samples = Chosen(profile.samples, lambda sample: all(test(sample) is wanted for wanted, test in tests))


def _by_name(
    profile: Profile, focus: Match | None, ignore: Match | None, hide: Match | None, show: Match | None
) -> None:
    ignored: set[int] = set()
    focused: set[int] = set()
    hidden: set[int] = set()
    for number, location in profile.locations.items():
        if ignore and _matches(location, ignore):
            ignored.add(number)
        elif focus is None or _matches(location, focus):
            focused.add(number)
        lines, emptied = location.lines, False
        if hide and _matches(location, hide):
            lines = _unmatched(location, hide)
            emptied = not lines
        if show:
            lines = _matched(location._replace(lines=lines), show)
            emptied = not lines
        if emptied:
            hidden.add(number)
        if lines is not location.lines:
            profile.locations[number] = location._replace(lines=lines)
    profile.samples = Rewritten(profile.samples, _chooser(ignored, focused, hidden))


def _chooser(ignored: set[int], focused: set[int], hidden: set[int]) -> Callable[[Sequence[int]], Sequence[int] | None]:
    def choose(ids: Sequence[int]) -> Sequence[int] | None:
        if not ignored.isdisjoint(ids) or focused.isdisjoint(ids):
            return None
        if not hidden:
            return ids
        return [number for number in ids if number not in hidden] or None

    return choose


def _from(profile: Profile, show_from: Match) -> None:
    """Leave out the callers of the match that is nearest to the root."""
    found: set[int] = set()
    for number, location in profile.locations.items():
        if location.mapping and show_from(location.mapping.file):
            found.add(number)
            continue
        last = next((i for i in range(len(location.lines) - 1, -1, -1) if _named(location.lines[i], show_from)), None)
        if last is not None:
            found.add(number)
            profile.locations[number] = location._replace(lines=location.lines[: last + 1])

    def below(ids: Sequence[int]) -> Sequence[int] | None:
        highest = next((i for i in range(len(ids) - 1, -1, -1) if ids[i] in found), None)
        return None if highest is None else ids[: highest + 1]

    profile.samples = Rewritten(profile.samples, below)


def _named(line: Line, match: Match) -> bool:
    return match(line.function.name) or match(line.function.filename)


def _in_mapping(location: Location, match: Match) -> bool:
    return location.mapping is not None and match(location.mapping.file)


def _matches(location: Location, match: Match) -> bool:
    return any(_named(line, match) for line in location.lines) or _in_mapping(location, match)


def _unmatched(location: Location, match: Match) -> tuple[Line, ...]:
    return () if _in_mapping(location, match) else tuple(line for line in location.lines if not _named(line, match))


def _matched(location: Location, match: Match) -> tuple[Line, ...]:
    if _in_mapping(location, match):
        return location.lines
    return tuple(line for line in location.lines if _named(line, match))
