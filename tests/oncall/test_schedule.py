"""When digests are due, over years, in zones that do odd things."""

import itertools
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.digest.schedule import EVERY_DAY, Schedule, Slot, due, next_of, read_schedule, slot_of, slots

ZONES = ("Asia/Shanghai", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/St_Johns")
HOURS = ((9, 0), (2, 30), (0, 0))


def at(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


@pytest.mark.parametrize(("hour", "minute"), HOURS)
@pytest.mark.parametrize("zone", ZONES)
def test_a_year_has_one_digest_for_each_local_date(zone: str, hour: int, minute: int) -> None:
    """Ticking every two hours through a whole year of virtual time."""
    schedule = Schedule(hour, minute, zone)
    start = datetime(2026, 1, 1, tzinfo=ZoneInfo(zone)).timestamp() - 1
    end = datetime(2027, 1, 1, tzinfo=ZoneInfo(zone)).timestamp() - 1
    last, now, posted = start, start, []
    while now < end:
        now = min(now + 7200, end)
        found = due(schedule, last, now)
        assert found.skipped == ()
        if found.post:
            posted.append(found.post)
            last = found.post.at
    counted = Counter(slot.day for slot in posted)
    assert set(counted.values()) == {1}
    assert len(counted) == 365
    gaps = {later.at - earlier.at for earlier, later in itertools.pairwise(posted)}
    assert gaps <= {86400.0, 82800.0, 90000.0, 84600.0, 88200.0}


def test_a_time_that_the_clock_skips_comes_when_it_has_moved_on() -> None:
    schedule = Schedule(2, 30, "Europe/Berlin")
    assert slot_of(schedule, date(2027, 3, 28)) == Slot("2027-03-28", at("2027-03-28T01:30:00+00:00"))


@pytest.mark.parametrize("zone", ["America/Nuuk", "America/Scoresbysund"])
def test_a_date_that_loses_its_last_hour_has_one_when_the_clock_has_moved_on(zone: str) -> None:
    """There 23:00 of the 28th is followed by 00:00 of the 29th."""
    found = slots(Schedule(23, 30, zone), at("2026-03-27T12:00:00+00:00"), at("2026-03-30T12:00:00+00:00"))
    assert [slot.day for slot in found] == ["2026-03-27", "2026-03-28", "2026-03-29"]
    moved_on = datetime.fromtimestamp(found[1].at, ZoneInfo(zone))
    assert moved_on.strftime("%Y-%m-%d %H:%M") == "2026-03-29 00:30"


def test_a_time_that_the_clock_shows_twice_comes_once_the_first_time() -> None:
    schedule = Schedule(2, 30, "Europe/Berlin")
    midnight, noon = at("2026-10-24T22:00:00+00:00"), at("2026-10-25T11:00:00+00:00")
    assert slots(schedule, midnight, noon) == [Slot("2026-10-25", at("2026-10-25T00:30:00+00:00"))]


def test_a_date_that_a_zone_left_out_has_none() -> None:
    schedule = Schedule(9, 0, "Pacific/Apia")
    assert slot_of(schedule, date(2011, 12, 30)) is None
    assert slot_of(schedule, date(2011, 12, 31)) is not None


def test_weekdays_are_days_of_the_zone() -> None:
    schedule = Schedule(0, 30, "Asia/Shanghai", EVERY_DAY[:5])
    found = slots(schedule, at("2026-11-20T00:00:00+00:00"), at("2026-11-24T00:00:00+00:00"))
    assert [slot.day for slot in found] == ["2026-11-23", "2026-11-24"]


def test_of_what_was_missed_the_newest_is_posted_late_or_all_of_it_is_skipped() -> None:
    schedule = Schedule(9, 0, "UTC")
    since, nine = at("2026-11-18T09:00:00+00:00"), at("2026-11-21T09:00:00+00:00")
    late = due(schedule, since, nine + 3600)
    assert late.post == Slot("2026-11-21", nine)
    assert [slot.day for slot in late.skipped] == ["2026-11-19", "2026-11-20"]
    too_late = due(schedule, since, nine + 5 * 3600)
    assert too_late.post is None
    assert len(too_late.skipped) == 3


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("daily", "09:00", "Asia/Shanghai"), "daily 09:00 Asia/Shanghai"),
        (("weekdays", "9:05", "UTC"), "mon,tue,wed,thu,fri 09:05 UTC"),
        (("Thursday,monday", "23:59", "Etc/GMT+3"), "mon,thu 23:59 Etc/GMT+3"),
        (("hourly", "09:00", "UTC"), "'hourly' is not daily"),
        (("daily", "24:00", "UTC"), "'24:00' is no time"),
        (("daily", "09:00", "Asia/Beijing"), "'Asia/Beijing' is no time zone"),
        (("daily", "09:00", "../../etc/passwd"), "is no time zone"),
        (("daily", "09:00", "posixrules" * 30), "is no time zone"),
        (("daily", "09:00", "Asia"), "is no time zone"),
    ],
)
def test_a_schedule_is_read_or_what_is_wrong_with_it_said(words: tuple[str, str, str], told: str) -> None:
    assert told in str(read_schedule(*words))


@given(
    st.sampled_from([*ZONES, "UTC", "Pacific/Apia", "Africa/Casablanca", "America/Nuuk"]),
    st.integers(0, 23),
    st.integers(0, 59),
    st.integers(0, 20 * 365 * 86400),
    st.lists(st.integers(1, 200_000), min_size=1, max_size=15),
)
def test_whatever_the_ticks_no_date_comes_twice_and_none_is_forgotten(
    zone: str, hour: int, minute: int, start: int, ticks: list[int]
) -> None:
    schedule = Schedule(hour, minute, zone)
    now = first = last = float(1_000_000_000 + start)
    seen: list[str] = []
    for tick in ticks:
        now += tick
        found = due(schedule, last, now)
        passed = [*found.skipped, *([found.post] if found.post else [])]
        seen += [slot.day for slot in passed]
        last = max([last, *(slot.at for slot in passed)])
    assert seen == sorted(set(seen))
    assert seen == [slot.day for slot in slots(schedule, first, now)]


def test_the_next_one_is_told() -> None:
    now = datetime(2026, 11, 21, 10, tzinfo=UTC)
    found = next_of(Schedule(9, 0, "UTC"), now.timestamp())
    assert found == Slot("2026-11-22", (now + timedelta(hours=23)).timestamp())
