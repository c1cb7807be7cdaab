"""Filters of a profile: by names, by labels, and by the frames that the profile itself asks to leave out.

The options are pprof's (profile/filter.go, internal/driver/driver_focus.go, profile/prune.go). Patterns are Go's (RE2),
so a match takes linear time, whoever wrote the pattern.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import re2 as untyped

from bot.errors import SourceError, UsageError
from bot.pprof.profile import Chosen, Label, Location, Profile, ProfileSample, Rewritten, SourceLine
from bot.pprof.units import scale
from bot.texts import Text

_MAX_MEMORY = 8 << 20  # of one compiled pattern: RE2 refuses what needs more

_META = re.compile(r"[\\.+*?()|\[\]{}^$]")

Match = Callable[[str], bool]


def matcher(pattern: str, what: str) -> Match:
    """Makes a function: whether a text has the pattern. `what` names the option in the UsageError of a bad pattern."""
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MAX_MEMORY
    try:
        search: Callable[[bytes], object] = re2.compile(_bytes(pattern), options=options).search
    except re2.error as error:
        reason = error.args[0] if error.args else ""
        why = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        raise UsageError(
            Text("error-pprof.parsing-regexp", option=what, why=why, pattern=pattern),
            hint=Text("error-pprof.use-go-regexp"),
        ) from error
    known: dict[str, bool] = {}

    def match(text: str) -> bool:
        if (found := known.get(text)) is None:
            found = known[text] = search(_bytes(text)) is not None
        return found

    return match


def literally(text: str) -> str:
    """A pattern that finds this text and nothing else."""
    return _META.sub(r"\\\g<0>", text)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


FILTERS = ("focus", "ignore", "hide", "show", "show_from", "tagfocus", "tagignore")
"""The options that filter a profile, with pprof's names and in its order; what a user typed is a mapping of these."""


def active(filters: Mapping[str, str]) -> list[str]:
    """The options that are set, each as `focus=json`."""
    return [f"{name}={value}" for name, value in filters.items() if value]


def apply(profile: Profile, filters: Mapping[str, str]) -> None:
    """Filters samples, stacks and lines of the profile in place. Raises UsageError for a bad pattern."""
    given = {name: pattern for name, pattern in filters.items() if pattern}
    focus, ignore, hide, show, show_from = (
        matcher(given[name], name) if name in given else None for name in FILTERS[:5]
    )
    if tags := [name for name in FILTERS[5:] if name in given]:
        tests = [(name == "tagfocus", tag_filter(given[name], name, profile)) for name in tags]
        profile.samples = Chosen(profile.samples, lambda sample: all(test(sample) is wanted for wanted, test in tests))
    if focus or ignore or hide or show:
        _by_name(profile, focus, ignore, hide, show)
    if show_from:
        _from(profile, show_from)


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
            lines = tuple(line for line in lines if not (_in_mapping(location, hide) or _named(line, hide)))
            emptied = not lines
        if show:
            lines = lines if _in_mapping(location, show) else tuple(line for line in lines if _named(line, show))
            emptied = not lines
        if emptied:
            hidden.add(number)
        if lines is not location.lines:
            profile.locations[number] = location._replace(lines=lines)

    def choose(ids: Sequence[int]) -> Sequence[int] | None:
        if not ignored.isdisjoint(ids) or focused.isdisjoint(ids):
            return None
        if not hidden:
            return ids
        return [number for number in ids if number not in hidden] or None

    profile.samples = Rewritten(profile.samples, choose)


def _from(profile: Profile, show_from: Match) -> None:
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


def _named(line: SourceLine, match: Match) -> bool:
    return match(line.function.name) or match(line.function.filename)


def _in_mapping(location: Location, match: Match) -> bool:
    return location.mapping is not None and match(location.mapping.file)


def _matches(location: Location, match: Match) -> bool:
    return any(_named(line, match) for line in location.lines) or _in_mapping(location, match)


_NUMBER = re.compile(r"([+-]?[0-9]+)([A-Za-z]+)?")
_LARGEST = (1 << 63) - 1
_KNOWN_UNITS = {"alignment": "bytes", "request": "bytes"}

TagTest = Callable[[ProfileSample], bool]
_Range = Callable[[int, str], bool]


def tag_filter(value: str, what: str, profile: Profile) -> TagTest:
    """A test of a sample's labels: `key=rx,rx` (any), `rx,rx` on `key:text` (all), or numbers `bytes=1mb:2mb`. `what`
    names the option in the UsageError for a text that cannot be read.
    """
    key, equals, rest = value.partition("=")
    wanted = key if equals else ""
    text = rest if equals else value
    if (within := _range(text)) is not None:
        # The unit of every numeric label: the first that any sample gives, else what the key suggests.
        units: dict[str, str] = {}
        for label in (label for sample in profile.samples for label in filter(_is_number, sample.labels)):
            units[label.key] = units.get(label.key) or label.unit
        units = {key: unit or _KNOWN_UNITS.get(key, key) for key, unit in units.items()}
        return lambda sample: any(
            within(label.number, units[label.key])
            for label in filter(_is_number, sample.labels)
            if wanted in ("", label.key)
        )
    tests = [matcher(expression, what) for expression in text.split(",")]
    if not wanted:
        return lambda sample: all(any(test(f"{key}:{text}") for key, text in _texts(sample)) for test in tests)
    return lambda sample: any(key == wanted and any(test(text) for test in tests) for key, text in _texts(sample))


def _texts(sample: ProfileSample) -> list[tuple[str, str]]:
    return [(label.key, label.text) for label in sample.labels if label.text]


def _is_number(label: Label) -> bool:
    return not label.text and (label.number != 0 or label.unit != "")


def _range(text: str) -> _Range | None:
    """The numbers meant by `1mb`, `1mb:`, `:1mb` or `1mb:2mb`; None when the text is no range."""
    found = list(_NUMBER.finditer(text))[:2]
    if not found:
        return None
    first = found[0].group()
    low, unit = scale(_number(found[0]), found[0][2] or "", found[0][2] or "")
    high = low
    if len(found) == 1:
        bounds = {first: (low, low), f"{first}:": (low, float("inf")), f":{first}": (float("-inf"), low)}
        if text not in bounds:
            return None
        low, high = bounds[text]
    else:
        if text != f"{first}:{found[1].group()}":
            return None
        high, other = scale(_number(found[1]), found[1][2] or "", unit)
        if unit != other:
            return None

    def within(value: int, value_unit: str) -> bool:
        scaled, name = scale(value, value_unit, unit)
        return name == unit and low <= scaled <= high

    return within


def _number(match: re.Match[str]) -> int:
    """The number, or the largest int64 for one that is larger."""
    return max(-_LARGEST, min(int(match[1][:20]), _LARGEST))


_BARE = re.compile(r"\.?((?:[^(]+|\(anonymous namespace\)|(?<=operator)\(\))*)")
"""A name up to its arguments: `runtime.(*mheap).alloc` is `runtime.` here, as it is for pprof."""


def prune(profile: Profile) -> None:
    """Cuts each stack at the first dropped frame that has other frames nearer the root: it and all that it calls go.
    The profile's own patterns say which frames to drop or keep. Raises SourceError where these cannot be read.
    """
    if not profile.drop_frames:
        return
    try:
        drop = matcher(f"^({profile.drop_frames})$", "drop_frames")
        keep = matcher(f"^({profile.keep_frames})$", "keep_frames") if profile.keep_frames else None
    except UsageError as error:
        raise SourceError(Text("error-pprof.malformed", why=error.message)) from error
    whole: set[int] = set()
    beneath: set[int] = set()
    for number, location in profile.locations.items():
        dropped = _outermost_dropped(location, drop, keep)
        if dropped is None:
            continue
        if dropped == len(location.lines) - 1:
            whole.add(number)
        else:
            beneath.add(number)
            profile.locations[number] = location._replace(lines=location.lines[dropped + 1 :])
    either = whole | beneath

    def cut(ids: Sequence[int]) -> Sequence[int]:
        kept_one = False
        for index in range(len(ids) - 1, -1, -1) if not either.isdisjoint(ids) else ():
            if ids[index] not in either:
                kept_one = True
            elif kept_one:
                return ids[index + 1 :] if ids[index] in whole else ids[index:]
        return ids

    if either:
        profile.samples = Rewritten(profile.samples, cut)


def _outermost_dropped(location: Location, drop: Match, keep: Match | None) -> int | None:
    for index in range(len(location.lines) - 1, -1, -1):
        name = location.lines[index].function.name
        if name and (found := _BARE.match(name)) and drop(found[1]) and not (keep and keep(found[1])):
            return index
    return None


re2: Any = untyped
