"""The frames that a profile itself asks to leave out: drop_frames and keep_frames (profile/prune.go)."""

from collections.abc import Sequence

from bot.errors import SourceError, UsageError
from bot.pprof.patterns import Match, matcher
from bot.pprof.profile import Location, Profile, Rewritten
from bot.texts import Text

_NO_ARGUMENTS = ("(anonymous namespace)", "operator()")


def prune(profile: Profile) -> None:
    """Cut what lies below the first dropped frame of each stack, counted from the root and not before a kept one.

    Raises SourceError when the profile's patterns cannot be read.
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
    if not (whole or beneath):
        return
    either = whole | beneath

    def cut(ids: Sequence[int]) -> Sequence[int]:
        return ids if either.isdisjoint(ids) else _cut(ids, whole, either)

    profile.samples = Rewritten(profile.samples, cut)


def _outermost_dropped(location: Location, drop: Match, keep: Match | None) -> int | None:
    for index in range(len(location.lines) - 1, -1, -1):
        name = location.lines[index].function.name
        bare = _without_arguments(name)
        if name and drop(bare) and not (keep and keep(bare)):
            return index
    return None


def _cut(ids: Sequence[int], whole: set[int], either: set[int]) -> Sequence[int]:
    kept_one = False
    for index in range(len(ids) - 1, -1, -1):
        if ids[index] not in either:
            kept_one = True
        elif kept_one:
            return ids[index + 1 :] if ids[index] in whole else ids[index:]
    return ids


def _without_arguments(name: str) -> str:
    """The name up to its arguments: `runtime.(*mheap).alloc` is `runtime.` here, as it is for pprof."""
    name = name.removeprefix(".")
    start = 0
    while (found := name.find("(", start)) >= 0:
        reserved = next((argument for argument in _NO_ARGUMENTS if _stands_at(name, argument, found)), None)
        if reserved is None:
            return name[:found]
        start = found - reserved.index("(") + len(reserved)
    return name


def _stands_at(name: str, reserved: str, bracket: int) -> bool:
    return name.startswith(reserved, max(0, bracket - reserved.index("(")))
