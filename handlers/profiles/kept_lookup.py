"""Which kept profile is meant: by its id, by the version of the program, or by the time that it was taken."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from bot.errors import NotFound
from bot.kube.times import format_time
from bot.texts import Text
from playbooks.profile.request import KINDS

if TYPE_CHECKING:  # half a second, which profiles in files do not need
    from bot.store.profiles import KeptProfile

_ID = re.compile(rf"({'|'.join(KINDS)})-[0-9a-f]{{8}}")
_VERSION = re.compile(r"v?\d+\.\d+(\.\d+)?([-+.][\w.]+)?")
_TIME = re.compile(r"(?:(\d{4}-\d\d-\d\d)[T ])?(\d\d:\d\d)(:\d\d)?Z?")
_SHOWN = 5


def is_reference(word: str) -> bool:
    """Whether the word can name a kept profile."""
    return any(form.fullmatch(word) for form in (_ID, _VERSION, _TIME))


def kind_meant(words: Sequence[str], kept: "Sequence[KeptProfile]") -> str:
    """The kind that versions and times among the words are about: that of an id among them, else cpu if one is kept."""
    ids = (found[1] for found in map(_ID.fullmatch, words) if found)
    kinds = [profile.kind for profile in kept]
    return next(ids, "cpu" if "cpu" in kinds or not kinds else kinds[0])


def find_kept(word: str, kept: "Sequence[KeptProfile]", kind: str, now: float) -> "KeptProfile":
    """The newest that the word names; of a time the last one taken by then (UTC). Raises NotFound.

    `kept` has the newest first; `now` is in unix seconds.
    """
    if _ID.fullmatch(word):
        found = [profile for profile in kept if profile.id == word]
    elif _VERSION.fullmatch(word):
        found = [profile for profile in kept if profile.kind == kind and profile.version == word.removeprefix("v")]
    else:
        until = _until(word, now)
        found = [profile for profile in kept if profile.kind == kind and until is not None and profile.taken_at < until]
    if not found:
        shown = ", ".join(
            f"{profile.id} ({profile.version or profile.target}, {_moment(profile)})" for profile in kept[:_SHOWN]
        )
        hint = (
            Text("error-profile.kept-profiles", shown=shown) if shown else Text("error-profile.no-profile-is-kept-yet")
        )
        if _ID.fullmatch(word):
            raise NotFound(Text("error-profile.no-profile-is-kept", profile=repr(word)), hint=hint)
        raise NotFound(Text("error-profile.no-profile-is-kept-of-kind", profile=repr(word), kind=kind), hint=hint)
    return found[0]


def _until(word: str, now: float) -> float | None:
    """The end of the minute or second that is named; without a day the last time that it was so late."""
    found = _TIME.fullmatch(word)
    if not found:
        return None
    today = datetime.fromtimestamp(now, UTC)
    day = found[1] or today.date().isoformat()
    try:
        moment = datetime.fromisoformat(f"{day}T{found[2]}{found[3] or ':00'}+00:00")
    except ValueError:
        return None
    if not found[1] and moment > today:
        moment -= timedelta(days=1)
    return (moment + timedelta(seconds=1 if found[3] else 60)).timestamp()


def _moment(profile: "KeptProfile") -> str:
    return format_time(datetime.fromtimestamp(profile.taken_at, UTC))
