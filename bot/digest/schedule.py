"""When a digest is due: a time of day in a time zone on some days, or a cron expression; each wall-clock time once.

What a zone's clock does is its own: where it skips the time, the digest comes at the moment after the gap; where it
shows the time twice, it comes the first time; a date that the zone leaves out has none.
"""

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from bot.digest.cron import first_wall, unusable, walls

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_ALL_DAYS = "*"
_TIME = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)", re.ASCII)
_PLAIN = re.compile(r"(\d\d?) (\d\d?) \* \* (\*|[a-z,]+)", re.ASCII)
_ZONE = re.compile(r"[A-Za-z0-9_+-]+(?:/[A-Za-z0-9_+-]+){0,2}")
_DAY = timedelta(days=1)
_LATE_S = 4 * 3600.0
"""A digest that is later than this is of no use: it is skipped, and the next one tells more."""


class Schedule(NamedTuple):
    """`cron` is one that `bot.digest.cron` can use; `zone` is a name of the tz database."""

    cron: str
    zone: str

    def __str__(self) -> str:
        """As it is asked for: `daily 09:00 Asia/Shanghai`, or with the cron expression where no words say it."""
        found = _PLAIN.fullmatch(self.cron)
        if found is None:
            return f'"{self.cron}" {self.zone}'
        days = "daily" if found[3] == _ALL_DAYS else found[3]
        return f"{days} {int(found[2]):02}:{int(found[1]):02} {self.zone}"


class Slot(NamedTuple):
    """One digest that is due: the local date and time, which name it, and the moment, in seconds since 1970."""

    wall: str
    at: float


class Due(NamedTuple):
    """What is to be posted now, if anything, and what was missed for good."""

    post: Slot | None
    skipped: tuple[Slot, ...] = ()


def read_schedule(days: str, at: str, zone: str) -> Schedule | str:
    """From `daily`, `weekdays` or `mon,thu`, a time such as `09:00` and a zone; a text says what is wrong with them."""
    match days.casefold():
        case "daily":
            which = _ALL_DAYS
        case "weekdays":
            which = ",".join(DAYS[:5])
        case named:
            words = {one[:3] for one in named.split(",")}
            if not words <= set(DAYS):
                return f"{days!r} is not daily, weekdays, or days such as mon,thu"
            which = ",".join(sorted(words, key=DAYS.index))
    found = _TIME.fullmatch(at)
    if found is None:
        return f"{at!r} is no time of day, such as 09:00"
    return read_cron(f"{int(found[2])} {int(found[1])} * * {which}", zone)


def read_cron(cron: str, zone: str) -> Schedule | str:
    """From the five fields of a crontab (`0 9 * * 1-5`) and a zone; a text says what is wrong with them."""
    cron = " ".join(cron.casefold().split())
    if why := unusable(cron):
        return why
    if not is_zone(zone):
        return f"{zone!r} is no time zone, such as Asia/Shanghai or Europe/Berlin"
    return Schedule(cron, zone)


def is_zone(name: str) -> bool:
    """Whether the tz database has it. Names that are paths are not even looked for."""
    if not _ZONE.fullmatch(name):
        return False
    try:
        return bool(_zone(name))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False


def slots_of(schedule: Schedule, day: date) -> Iterator[Slot]:
    """The slots of a local date in order; none for a date that the zone leaves out."""
    zone = _zone(schedule.zone)
    for wall in walls(schedule.cron, day) if _has(zone, day) else ():
        yield Slot(f"{wall:%Y-%m-%d %H:%M}", _moment(wall, zone))


def _moment(wall: datetime, zone: ZoneInfo) -> float:
    """When the zone's clock shows that time (a naive one) first, or else has just skipped it."""
    later, earlier = (wall.replace(tzinfo=zone, fold=fold).timestamp() for fold in (0, 1))
    if later <= earlier:  # shown once, or twice: the first time
        return later
    offset = datetime.fromtimestamp(later, zone).utcoffset()
    while later - earlier > 1:  # in a gap: the transition lies between the two readings
        middle = (later + earlier) // 2
        if datetime.fromtimestamp(middle, zone).utcoffset() == offset:
            later = middle
        else:
            earlier = middle
    return later


def _has(zone: ZoneInfo, day: date) -> bool:
    """Whether the zone's clock shows that date, if only for some of its hours."""
    midnight = datetime(day.year, day.month, day.day, tzinfo=zone)
    ends = (midnight, midnight.replace(hour=23, minute=59))
    return any(one.astimezone(UTC).astimezone(zone).date() == day for one in ends)


def slots(schedule: Schedule, after: float, until: float) -> list[Slot]:
    """Every slot later than `after` and not later than `until`, in order; of those that a gap brings together one."""
    zone = _zone(schedule.zone)
    day = datetime.fromtimestamp(after, zone).date() - _DAY
    last = datetime.fromtimestamp(until, zone).date() + _DAY
    found: dict[float, Slot] = {}
    while day <= last:
        for slot in slots_of(schedule, day):
            if after < slot.at <= until:
                found.setdefault(slot.at, slot)
        day += _DAY
    return list(found.values())


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
    """The slot that comes next; None where there is none in this century."""
    zone = _zone(schedule.zone)
    wall = first_wall(schedule.cron, datetime.fromtimestamp(now, zone).replace(tzinfo=None) - _DAY)
    while wall is not None:
        if found := [slot for slot in slots_of(schedule, wall.date()) if slot.at > now]:
            return found[0]
        wall = first_wall(schedule.cron, datetime(wall.year, wall.month, wall.day) + _DAY)  # noqa: DTZ001  # a wall's
    return None


@lru_cache(maxsize=64)
def _zone(name: str) -> ZoneInfo:
    return ZoneInfo(name)
