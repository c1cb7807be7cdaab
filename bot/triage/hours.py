"""Office hours: days of the week and a time of day in a time zone, such as `mon-fri 09:00-18:00 Europe/Berlin`."""

import re
from datetime import datetime, time, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from bot.digest.schedule import DAYS, is_zone, read_time
from bot.errors import WrongValue
from bot.texts import Text

_TEXT = re.compile(r"(\S+)\s+(\d\d?:\d\d)\s*-\s*(\d\d?:\d\d)\s+(\S+)", re.ASCII)
_MIDNIGHT = "24:00"


class Hours(NamedTuple):
    """Office hours: from `start` until `end` (`None`: midnight) by the zone's clock, on `days` (0 is Monday)."""

    days: frozenset[int]
    start: time
    end: time | None
    zone: str


def read_hours(text: str) -> Hours | None:
    """The office hours in a text; None for an empty one, which means always. Raises ValueError without the text."""
    if not text.strip():
        return None
    found = _TEXT.fullmatch(text.strip())
    if found is None:
        raise WrongValue(Text("error-settings.no-hours"))
    start, end = read_time(found[2]), None if found[3] == _MIDNIGHT else read_time(found[3])
    if start is None or (end is None and found[3] != _MIDNIGHT):
        raise WrongValue(Text("error-settings.no-time-of-day"))
    if end is not None and end <= start:
        raise WrongValue(Text("error-settings.end-is-not-after-start"))
    if not is_zone(found[4]):
        raise WrongValue(Text("error-settings.no-time-zone"))
    days: set[int] = set()
    for part in found[1].casefold().split(","):
        first, _, last = part.partition("-")
        if first not in DAYS or (last or first) not in DAYS:
            raise WrongValue(Text("error-settings.no-days"))
        begins, ends = DAYS.index(first), DAYS.index(last or first)
        days |= {number % 7 for number in range(begins, ends + 1 if ends >= begins else ends + 8)}
    return Hours(frozenset(days), start, end, found[4])


def within(hours: Hours | None, at: float) -> float:
    """The time `at` if it is within the office hours, else when they begin next. Seconds since 1970."""
    if hours is None:
        return at
    zone = ZoneInfo(hours.zone)
    today = datetime.fromtimestamp(at, zone).date()
    for ahead in range(9):
        day = today + timedelta(days=ahead)
        if day.weekday() not in hours.days:
            continue
        ends = (day, hours.end) if hours.end else (day + timedelta(days=1), time())
        if at < datetime.combine(*ends, zone).timestamp():
            return max(at, datetime.combine(day, hours.start, zone).timestamp())
    return at  # a zone that leaves out a whole day: rather called too early than not
