"""When a digest is due: a time of day in a time zone on some days of the week, once for each local date.

What a zone's clock does is its own: where it skips the time, the digest comes when the clock has moved on; where it
shows the time twice, it comes the first time; a date that the zone leaves out has none.
"""

import re
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
EVERY_DAY = tuple(range(7))
_TIME = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)")
_ZONE = re.compile(r"[A-Za-z0-9_+-]+(?:/[A-Za-z0-9_+-]+){0,2}")
_LATE_S = 4 * 3600.0
"""A digest that is later than this is of no use: it is skipped, and the next one tells more."""


class Schedule(NamedTuple):
    """`days` are 0 (Monday) to 6; `zone` is a name of the tz database."""

    hour: int
    minute: int
    zone: str
    days: tuple[int, ...] = EVERY_DAY

    def __str__(self) -> str:
        which = "daily" if self.days == EVERY_DAY else ",".join(DAYS[one] for one in self.days)
        return f"{which} {self.hour:02}:{self.minute:02} {self.zone}"


class Slot(NamedTuple):
    """One digest that is due: the local date, which names it, and the moment, in seconds since 1970."""

    day: str
    at: float


class Due(NamedTuple):
    """What is to be posted now, if anything, and what was missed for good."""

    post: Slot | None
    skipped: tuple[Slot, ...] = ()


def read_schedule(days: str, at: str, zone: str) -> Schedule | str:
    """From `daily`, `weekdays` or `mon,thu`, a time such as `09:00` and a zone; a text says what is wrong with them."""
    match days.casefold():
        case "daily":
            which = EVERY_DAY
        case "weekdays":
            which = EVERY_DAY[:5]
        case named:
            words = [one[:3] for one in named.split(",")]
            if not words or any(one not in DAYS for one in words):
                return f"{days!r} is not daily, weekdays, or days such as mon,thu"
            which = tuple(sorted({DAYS.index(one) for one in words}))
    found = _TIME.fullmatch(at)
    if found is None:
        return f"{at!r} is no time of day, such as 09:00"
    if not is_zone(zone):
        return f"{zone!r} is no time zone, such as Asia/Shanghai or Europe/Berlin"
    return Schedule(int(found[1]), int(found[2]), zone, which)


def is_zone(name: str) -> bool:
    """Whether the tz database has it. Names that are paths are not even looked for."""
    if not _ZONE.fullmatch(name):
        return False
    try:
        return bool(_zone(name))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False


def slot_of(schedule: Schedule, day: date) -> Slot | None:
    """The slot of a local date; None on other days of the week, and for a date that the zone leaves out."""
    if day.weekday() not in schedule.days:
        return None
    zone = _zone(schedule.zone)
    wall = datetime.combine(day, time(schedule.hour, schedule.minute), tzinfo=zone)  # fold=0: the first of two
    return Slot(day.isoformat(), wall.timestamp()) if _has(zone, day) else None


def _has(zone: ZoneInfo, day: date) -> bool:
    """Whether the zone's clock shows that date, if only for some of its hours."""
    ends = (datetime.combine(day, time(hour, minute), tzinfo=zone) for hour, minute in ((0, 0), (23, 59)))
    return any(one.astimezone(UTC).astimezone(zone).date() == day for one in ends)


def slots(schedule: Schedule, after: float, until: float) -> list[Slot]:
    """Every slot later than `after` and not later than `until`, in order."""
    zone = _zone(schedule.zone)
    day = datetime.fromtimestamp(after, zone).date() - timedelta(days=1)
    last = datetime.fromtimestamp(until, zone).date() + timedelta(days=1)
    found: list[Slot] = []
    while day <= last:
        slot = slot_of(schedule, day)
        if slot is not None and after < slot.at <= until:
            found.append(slot)
        day += timedelta(days=1)
    return found


def due(schedule: Schedule, after: float, now: float, *, late_s: float = _LATE_S) -> Due:
    """Of the slots since `after` the newest is posted, late if need be; those before it, and one too late, are not."""
    missed = slots(schedule, after, now)
    if not missed:
        return Due(None)
    newest = missed[-1]
    if now - newest.at > late_s:
        return Due(None, tuple(missed))
    return Due(newest, tuple(missed[:-1]))


def next_of(schedule: Schedule, now: float) -> Slot | None:
    """The slot that comes next, within two weeks."""
    return next(iter(slots(schedule, now, now + 15 * 86400)), None)


@lru_cache(maxsize=64)
def _zone(name: str) -> ZoneInfo:
    return ZoneInfo(name)
