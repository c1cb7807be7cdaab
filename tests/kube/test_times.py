from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.kube.times import format_time, parse_time

FIVE = datetime(2026, 11, 21, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-11-21T05:00:00Z", FIVE),
        ("2026-11-21T13:00:00+08:00", FIVE),
        ("2026-11-21T05:00:00.25Z", FIVE + timedelta(milliseconds=250)),
        ("2026-11-21T05:00:00.304977123Z", FIVE + timedelta(microseconds=304977)),
    ],
)
def test_a_time_of_the_api_is_read_in_utc(text, moment):
    assert parse_time(text) == moment


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "now",
        "2026-11-21",
        "2026-11-21T05:00:00",
        "2026-11-21 05:00:00Z",
        "20261121T050000Z",
        "2026-W47-6T05:00:00Z",
        "2026-11-31T05:00:00Z",
        "2026-11-21T24:00:00Z",
        "2026-11-21T05:00:00+25:00",
        "0001-01-01T00:00:00Z",
        "0001-01-01T00:00:00+08:00",
        "9999-12-31T23:59:59Z",
        "9999-12-31T23:59:59-08:00",
        "２０２６-11-21T05:00:00Z",
        "2026-11-21T05:00:00Z\n",
    ],
)
def test_what_is_no_time_with_a_zone_is_none(text):
    assert parse_time(text) is None


@given(st.text())
def test_any_text_is_a_time_or_none(text):
    moment = parse_time(text)
    assert moment is None or moment.tzinfo is UTC


@given(st.datetimes(min_value=datetime(1970, 1, 3), max_value=datetime(9000, 12, 29)), st.integers(-1439, 1439))  # noqa: DTZ001
def test_a_moment_is_written_in_whole_seconds_and_read_back(moment, minutes):
    moment = moment.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    written = format_time(moment)
    assert len(written) == len("2026-11-21T05:00:00Z")
    assert parse_time(written) == moment.replace(microsecond=0)
