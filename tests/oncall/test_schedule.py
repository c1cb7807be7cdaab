"""When digests are due, over years, in zones that do odd things."""

import itertools
from collections import Counter
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.digest.schedule import Occurrence, Schedule, due, next_of, occurrences, previous_of, read_cron, read_schedule
from bot.texts import Text, in_english

ZONES = ("Asia/Shanghai", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/St_Johns")
CRONS = ("0 9 * * *", "30 2 * * *", "0 0 * * *", "15 1 * * 0-6")


def on(schedule: Schedule, day: str) -> list[Occurrence]:
    """Its occurrences of a local date, and of no other."""
    noon = at(f"{day}T12:00:00+00:00")
    found = occurrences(schedule, noon - 3 * 86400, noon + 3 * 86400)
    return [one for one in found if one.wall.startswith(day)]


def said(found: Schedule | Text) -> str:
    return in_english(found) if isinstance(found, Text) else str(found)


def at(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


@pytest.mark.parametrize("cron", CRONS)
@pytest.mark.parametrize("zone", ZONES)
def test_a_year_has_one_digest_for_each_local_date(zone: str, cron: str) -> None:
    """Ticking every two hours through a whole year of virtual time."""
    schedule = Schedule(cron, zone)
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
    counted = Counter(occurrence.wall[:10] for occurrence in posted)
    assert set(counted.values()) == {1}
    assert len(counted) == 365
    gaps = {later.at - earlier.at for earlier, later in itertools.pairwise(posted)}
    assert gaps <= {86400.0, 82800.0, 90000.0, 84600.0, 88200.0}


@pytest.mark.parametrize(
    ("cron", "zone", "moment"),
    [
        ("30 2 * * *", "Europe/Berlin", "2027-03-28T03:00:00+02:00"),
        ("0 2 * * 0", "America/New_York", "2027-03-14T03:00:00-04:00"),
        ("15 2 * * *", "Australia/Lord_Howe", "2027-10-03T02:30:00+11:00"),
    ],
)
def test_a_time_that_the_clock_skips_comes_at_the_moment_after(cron: str, zone: str, moment: str) -> None:
    assert on(Schedule(cron, zone), moment[:10]) == [Occurrence(moment[:16].replace("T", " "), at(moment))]


def test_of_an_hour_that_comes_twice_the_first_counts() -> None:
    found = on(Schedule("0 * * * *", "Europe/Berlin"), "2026-10-25")
    assert [occurrence.wall[11:] for occurrence in found] == [f"{hour:02}:00" for hour in range(24)]
    assert {later.at - earlier.at for earlier, later in itertools.pairwise(found)} == {3600.0, 7200.0}


@pytest.mark.parametrize("zone", ["America/Nuuk", "America/Scoresbysund"])
def test_a_date_that_loses_its_last_hour_has_one_when_the_clock_has_moved_on(zone: str) -> None:
    """There 23:00 of the 28th is followed by 00:00 of the 29th."""
    found = occurrences(Schedule("30 23 * * *", zone), at("2026-03-27T12:00:00+00:00"), at("2026-03-30T12:00:00+00:00"))
    assert [occurrence.wall for occurrence in found] == ["2026-03-27 23:30", "2026-03-29 00:00", "2026-03-29 23:30"]


def test_a_date_that_a_zone_left_out_has_none() -> None:
    schedule = Schedule("0 9 * * *", "Pacific/Apia")
    assert not on(schedule, "2011-12-30")
    assert on(schedule, "2011-12-31")


def test_weekdays_are_days_of_the_zone() -> None:
    schedule = Schedule("30 0 * * 1-5", "Asia/Shanghai")
    found = occurrences(schedule, at("2026-11-20T00:00:00+00:00"), at("2026-11-24T00:00:00+00:00"))
    assert [occurrence.wall for occurrence in found] == ["2026-11-23 00:30", "2026-11-24 00:30"]


def test_of_what_was_missed_the_newest_is_posted_late_or_all_of_it_is_skipped() -> None:
    schedule = Schedule("0 9 * * *", "UTC")
    since, nine = at("2026-11-18T09:00:00+00:00"), at("2026-11-21T09:00:00+00:00")
    late = due(schedule, since, nine + 3600)
    assert late.post == Occurrence("2026-11-21 09:00", nine)
    assert [occurrence.wall[:10] for occurrence in late.skipped] == ["2026-11-19", "2026-11-20"]
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
        (("daily", "24:00", "UTC"), "'24:00' is not a time of day"),
        (("daily", "09:00", "Asia/Beijing"), "'Asia/Beijing' is not a time zone"),
        (("daily", "09:00", "../../etc/passwd"), "is not a time zone"),
        (("daily", "09:00", "posixrules" * 30), "is not a time zone"),
        (("daily", "09:00", "Asia"), "is not a time zone"),
    ],
)
def test_a_schedule_is_read_or_what_is_wrong_with_it_said(words: tuple[str, str, str], told: str) -> None:
    assert told in said(read_schedule(*words))


@pytest.mark.parametrize(
    ("weekday", "days"),
    [
        ("0", "sun"), ("7", "sun"), ("1-5", "mon tue wed thu fri"), ("5-7", "sun fri sat"), ("sun,3", "sun wed"),
        ("*/2", "sun tue thu sat"), ("1-5/2", "mon wed fri"), ("fri-sun", "sun fri sat"), ("4/2", "thu sat"),
    ],
)  # fmt: skip
def test_the_days_of_a_cron_expression_are_numbered_as_crontab_numbers_them(weekday: str, days: str) -> None:
    schedule = read_cron(f"0 9 * * {weekday}", "UTC")
    assert isinstance(schedule, Schedule)
    found = occurrences(schedule, at("2026-11-22T00:00:00+00:00"), at("2026-11-28T23:00:00+00:00"))  # from a Sunday on
    assert " ".join(f"{datetime.fromtimestamp(occurrence.at, UTC):%a}".lower() for occurrence in found) == days


def test_a_day_of_the_month_or_of_the_week_is_enough_as_crontab_has_it() -> None:
    schedule = Schedule("0 9 1,15 * 1", "UTC")
    found = occurrences(schedule, at("2026-11-01T00:00:00+00:00"), at("2026-11-30T23:00:00+00:00"))
    assert [occurrence.wall[8:10] for occurrence in found] == ["01", "02", "09", "15", "16", "23", "30"]


@pytest.mark.parametrize(
    ("cron", "told"),
    [
        ("0 9 * * 1-5", '"0 9 * * 1-5" UTC'),
        ("  0   9  *  *  MON,Thu ", "mon,thu 09:00 UTC"),
        ("0 */6 1 jan-mar *", '"0 */6 1 jan-mar *" UTC'),
        ("*/30 * * * *", "comes more than once an hour"),
        ("0,1 9 * * *", "comes more than once an hour"),
        ("0 9 31 2 *", "no cron expression: bad day-of-month"),
        ("0 9 * *", "it needs minute, hour"),
        ("@daily", "it needs minute, hour"),
        ("0 0 9 * * *", "it needs minute, hour"),
        ("0 24 * * *", "no cron expression"),
        ("0 9 * * 8", "bad day-of-week"),
        ("0 9 * * 5-1", "bad day-of-week"),
        ("0 9 * * yes", "bad day-of-week"),
        ("0 ٩ * * *", "bad hour"),
        ("0 9 last * *", '"0 9 last * *" UTC'),
        ("0 9 * * fri-sun", '"0 9 * * fri-sun" UTC'),
        ("0 9 * * " + ",".join(["1"] * 90), "more than 120 characters"),
    ],
)
def test_a_cron_expression_is_read_or_what_is_wrong_with_it_said(cron: str, told: str) -> None:
    assert told in said(read_cron(cron, "UTC"))


@given(st.lists(st.text("0123456789*,-/montuefrilasjd", min_size=1, max_size=6), min_size=4, max_size=6))
def test_whatever_is_typed_is_a_schedule_that_comes_or_is_said_to_be_none(fields: list[str]) -> None:
    found = read_cron(" ".join(fields), "Europe/Berlin")
    if isinstance(found, Schedule):
        assert next_of(found, at("2026-11-21T10:00:00+00:00"))
    else:
        assert found


@pytest.mark.parametrize("field", ["*/0", "1--5", "-1", ",", "1,", "/2", "1-", "*-5"])
@pytest.mark.parametrize("place", range(5))
def test_a_field_that_is_none_is_refused_wherever_it_stands(field: str, place: int) -> None:
    fields = ["0", "9", "*", "*", "*"]
    fields[place] = field
    assert "is no cron expression" in said(read_cron(" ".join(fields), "UTC"))


def test_the_next_one_of_a_rare_schedule_is_told() -> None:
    found = next_of(Schedule("0 9 29 2 *", "UTC"), at("2026-11-21T10:00:00+00:00"))
    assert found == Occurrence("2028-02-29 09:00", at("2028-02-29T09:00:00+00:00"))


@given(
    st.sampled_from([*ZONES, "UTC", "Pacific/Apia", "Africa/Casablanca", "America/Nuuk"]),
    st.sampled_from(["30 2 * * *", "0 0 * * *", "59 23 * * *", "0 * * * *", "0 */5 1-7 * 1", "30 1 last * *"]),
    st.integers(0, 20 * 365 * 86400),
    st.lists(st.integers(1, 200_000), min_size=1, max_size=15),
)
def test_whatever_the_ticks_no_time_comes_twice_and_none_is_forgotten(
    zone: str, cron: str, start: int, ticks: list[int]
) -> None:
    schedule = Schedule(cron, zone)
    now = first = last = float(1_000_000_000 + start)
    seen: list[str] = []
    for tick in ticks:
        now += tick
        found = due(schedule, last, now)
        passed = [*found.skipped, *([found.post] if found.post else [])]
        seen += [occurrence.wall for occurrence in passed]
        last = max([last, *(occurrence.at for occurrence in passed)])
    assert seen == sorted(set(seen))
    assert seen == [occurrence.wall for occurrence in occurrences(schedule, first, now)]


@pytest.mark.parametrize("zone", [*ZONES, "America/Nuuk", "Africa/Casablanca"])
@pytest.mark.parametrize("cron", ["30 2 * * *", "0 9 * * mon", "0 * * * *", "0 2 1,15 * fri"])
def test_the_previous_one_is_the_one_that_comes_before_the_next(zone: str, cron: str) -> None:
    schedule = Schedule(cron, zone)
    found = occurrences(schedule, at("2026-09-01T00:00:00+00:00"), at("2027-05-01T00:00:00+00:00"))
    for earlier, later in itertools.pairwise(found):
        assert previous_of(schedule, later.at) == earlier
        assert next_of(schedule, earlier.at) == later
