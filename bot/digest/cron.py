"""Cron expressions of five fields, over the times of a wall clock: which zone it hangs in is not asked here.

APScheduler reads the fields and finds the times. In a zone of its own it would fire in both hours of an autumn night;
it takes 0 for Monday; and it wants both days to match where cron is content with either (crontab(5)).
"""

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from typing import Any

from apscheduler.triggers.cron import CronTrigger

_NAMES = ("sun", "mon", "tue", "wed", "thu", "fri", "sat", "sun")
"""By cron's number: 0 and 7 are Sunday."""
_LONGEST = 120
"""Characters: the store has room for twice as many."""
_FIELD = re.compile(r"[0-9a-z*,/-]+")
_RANGE = re.compile(r"(?:(\*)|([0-7]|[a-z]{3})(?:-([0-7]|[a-z]{3}))?)(?:/([1-7]))?")
_END = datetime(2100, 1, 1, tzinfo=UTC)
"""What does not come until then is taken to come never."""
_EARLIEST = datetime(2024, 1, 1)  # noqa: DTZ001  # a wall clock's


def unusable(cron: str) -> str:
    """Why the expression is none, or none for a digest; empty for one that is. It is in lower case."""
    if len(cron) > _LONGEST:
        return f"a cron expression of more than {_LONGEST} characters is not kept"
    try:
        first = first_wall(cron, _EARLIEST)
    except ValueError as error:
        return f"{cron[:80]!r} is no cron expression: {error}"
    if first is None:
        return f"{cron!r} never comes"
    hour = [one for one in walls(cron, first.date()) if one.hour == first.hour]
    return f"{cron!r} comes more than once an hour: give one minute, such as 0" if len(hour) > 1 else ""


def first_wall(cron: str, since: datetime) -> datetime | None:
    """The first time from `since` on, None if there is none in this century. Raises ValueError for no expression."""
    return min((one for trigger in _triggers(cron) if (one := _next(trigger, since))), default=None)


@lru_cache(maxsize=256)
def walls(cron: str, day: date) -> tuple[datetime, ...]:
    """The times of a date, naive, in order. Raises ValueError for no expression."""
    return tuple(sorted({one for trigger in _triggers(cron) for one in _on(trigger, day)}))


def _on(trigger: Any, day: date) -> Iterator[datetime]:
    found = _next(trigger, datetime.combine(day, time()))
    while found is not None and found.date() == day:
        yield found
        found = _next(trigger, found + timedelta(minutes=1))


def _next(trigger: Any, since: datetime) -> datetime | None:
    """As if the wall clock hung in UTC, where every time comes once. The trigger has no types."""
    found: datetime | None = trigger.get_next_fire_time(None, since.replace(tzinfo=UTC))
    return None if found is None else found.replace(tzinfo=None)


@lru_cache(maxsize=64)
def _triggers(cron: str) -> tuple[Any, ...]:
    fields = cron.split()
    if len(fields) != 5:
        raise ValueError("it needs five fields: minute, hour, day of the month, month, day of the week")
    for one in fields:
        if not _FIELD.fullmatch(one):
            raise ValueError(f"{one!r} is no field")
    minute, hour, day, month, weekday = fields
    weekdays = _weekdays(weekday)

    def made(day: str, weekdays: str) -> Any:
        return CronTrigger(
            minute=minute, hour=hour, day=day, month=month, day_of_week=weekdays, timezone=UTC, end_date=_END
        )

    if day.startswith("*") or weekday.startswith("*"):
        return (made(day, weekdays),)
    return made(day, "*"), made("*", weekdays)


def _weekdays(field: str) -> str:
    """The days by name, which cron and APScheduler count differently."""
    if field == "*":
        return field
    found: dict[str, None] = {}
    for part in field.split(","):
        read = _RANGE.fullmatch(part)
        if read is None:
            raise ValueError(f"{part!r} is no day of the week, such as 1-5 or mon,thu")
        first = 0 if read[1] else _number(read[2])
        last = 6 if read[1] or (read[4] and not read[3]) else _number(read[3] or read[2])
        if read[3] and last == 0:
            last = 7
        if first > last:
            raise ValueError(f"{part!r} ends before it begins")
        found |= {_NAMES[number]: None for number in range(first, last + 1, int(read[4] or 1))}
    return ",".join(found)


def _number(day: str) -> int:
    if day.isdecimal():
        return int(day)
    if day not in _NAMES:
        raise ValueError(f"{day!r} is no day of the week, such as 1-5 or mon,thu")
    return _NAMES.index(day)
