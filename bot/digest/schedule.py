"""When a digest is due: a time of day in a time zone on some days, or a cron expression of five fields.

cronsim finds the times, as Debian's cron does: `from_crontab` of APScheduler 3 fires `0 9 * * 1` on Tuesdays, refuses
weekday 7, and joins day of month and weekday by *and*. Where the zone's clock skips a time of day, the digest comes at
the moment after the gap; where the clock shows it twice, it comes the first time.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import datetime, time, timedelta
from itertools import islice, takewhile
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from bot.texts import Text

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_ALL_DAYS = "*"
_TIME = re.compile(r"([01]?\d|2[0-3])(?::([0-5]\d))?\s?(am|pm)?", re.ASCII | re.IGNORECASE)
_PLAIN = re.compile(r"(\d\d?) (\d\d?) \* \* (\*|[a-z,]+)", re.ASCII)
_ZONE = re.compile(r"[A-Za-z0-9_+-]+(?:/[A-Za-z0-9_+-]+){0,2}")
_LONGEST = 120
"""The longest cron expression in characters; the store has room for twice as many."""
_SOME_DAY = datetime(2024, 1, 1)  # noqa: DTZ001  # a wall clock's
_LATE_S = 4 * 3600.0
"""Seconds after which a late digest is of no use: it is skipped, and the next one tells more."""


class Schedule(NamedTuple):
    """When a digest is posted: `cron` is one that `read_cron` gives; `zone` is a name of the tz database."""

    cron: str
    zone: str

    def __str__(self) -> str:
        """The schedule as people ask for it: `daily 09:00 Asia/Shanghai`, or with the cron expression."""
        found = _PLAIN.fullmatch(self.cron)
        if found is None:
            return f'"{self.cron}" {self.zone}'
        days = "daily" if found[3] == _ALL_DAYS else found[3]
        return f"{days} {int(found[2]):02}:{int(found[1]):02} {self.zone}"


class Occurrence(NamedTuple):
    """One digest that is due: the local date and time, which name it, and the moment, in seconds since 1970."""

    wall: str
    at: float


class Due(NamedTuple):
    """The digest to post now, if one is due, and those that were missed for good."""

    post: Occurrence | None
    skipped: tuple[Occurrence, ...] = ()


def read_schedule(days: str, at: str, zone: str) -> Schedule | Text:
    """A schedule of `daily`, `weekdays` or `mon,thu`, a time such as `09:00` and a zone; or what is wrong."""
    match days.casefold():
        case "daily":
            which = _ALL_DAYS
        case "weekdays":
            which = ",".join(DAYS[:5])
        case named:
            words = {day[:3] for day in named.split(",")}
            if not words <= set(DAYS):
                return Text("error-oncall.digest-no-days", days=repr(days))
            which = ",".join(sorted(words, key=DAYS.index))
    clock = read_time(at)
    if clock is None:
        return Text("error-oncall.digest-no-time", at=repr(at))
    return read_cron(f"{clock.minute} {clock.hour} * * {which}", zone)


def read_time(text: str) -> time | None:
    """The time of day in `09:00`, `9:00`, `9am` or `9:30pm`; None for anything else, such as an hour alone."""
    found = _TIME.fullmatch(text.strip())
    if found is None or not (found[2] or found[3]):
        return None
    hour, half = int(found[1]), (found[3] or "").lower()
    if half and not 1 <= hour <= 12:
        return None
    return time(hour % 12 + 12 * (half == "pm") if half else hour, int(found[2] or 0))


def read_words(words: Sequence[str]) -> Schedule | Text:
    """A schedule from days, time and zone, or five words of cron and a zone; a text says what is wrong with them."""
    if len(words) == 3:
        return read_schedule(*words)
    if len(words) == 6:
        return read_cron(" ".join(words[:5]), words[5])
    return Text("error-oncall.digest-needs-days-time")


def read_cron(cron: str, zone: str) -> Schedule | Text:
    """A schedule from the five fields of a crontab (`0 9 * * 1-5`) and a zone; a text says what is wrong with them."""
    cron = " ".join(cron.casefold().split())
    if why := _unusable(cron):
        return why
    if not is_zone(zone):
        return Text("error-oncall.digest-no-zone", zone=repr(zone))
    return Schedule(cron, zone)


def is_zone(name: str) -> bool:
    """Whether the tz database has a zone of this name. Names that are paths are not looked for."""
    if not _ZONE.fullmatch(name):
        return False
    try:
        return bool(ZoneInfo(name))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False


def occurrences(schedule: Schedule, after: float, until: float) -> list[Occurrence]:
    """Every occurrence of the schedule that is later than `after` and not later than `until`, in order."""
    return list(takewhile(lambda occurrence: occurrence.at <= until, _occurrences(schedule, after)))


def due(schedule: Schedule, after: float, now: float) -> Due:
    """The occurrence to post now: the newest since `after`, if it is at most 4 h late; all others are skipped."""
    missed = occurrences(schedule, after, now)
    if not missed:
        return Due(None)
    newest = missed[-1]
    if now - newest.at > _LATE_S:
        return Due(None, tuple(missed))
    return Due(newest, tuple(missed[:-1]))


def next_of(schedule: Schedule, now: float) -> Occurrence | None:
    """The schedule's next occurrence after `now`; None where there is none in the next 50 years."""
    return next(_occurrences(schedule, now), None)


def previous_of(schedule: Schedule, at: float) -> Occurrence | None:
    """The schedule's last occurrence before `at`; None where there was none in the last 50 years."""
    return next(_occurrences(schedule, at, backwards=True), None)


def _occurrences(schedule: Schedule, since: float, *, backwards: bool = False) -> Iterator[Occurrence]:
    """The occurrences beyond a moment, in order; an hour that the clock shows twice has them the first time only."""
    begin = datetime.fromtimestamp(since, ZoneInfo(schedule.zone))
    for found in _times(schedule.cron, begin, backwards=backwards):
        occurrence = Occurrence(f"{found:%Y-%m-%d %H:%M}", found.timestamp())
        is_beyond = occurrence.at < since if backwards else occurrence.at > since
        if is_beyond and not found.fold:
            yield occurrence


def _times(cron: str, since: datetime, *, backwards: bool = False) -> CronSim:
    """The cron expression's times; `last` is a month's last day, a range may end in `sun`. Raises CronSimError."""
    return CronSim(cron.replace("last", "l").replace("-sun", "-7"), since, reverse=backwards)


def _unusable(cron: str) -> Text | None:
    """Why the expression is none, or none for a digest; None for one that is. It is in lower case."""
    if len(cron) > _LONGEST:
        return Text("error-oncall.cron-too-long", most=_LONGEST)
    if len(cron.split()) != 5:
        return Text("error-oncall.cron-fields", cron=repr(cron))
    try:
        first_two = list(islice(_times(cron, _SOME_DAY), 2))
    except CronSimError as error:
        return Text("error-oncall.no-cron", cron=repr(cron), why=str(error).lower())
    if not first_two:
        return Text("error-oncall.cron-never", cron=repr(cron))
    often = first_two[-1] - first_two[0] < timedelta(hours=1) and len(first_two) > 1
    return Text("error-oncall.cron-too-often", cron=repr(cron)) if often else None
