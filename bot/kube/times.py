"""Kubernetes' times: RFC 3339 text in, aware UTC datetimes out; and durations as people write them (`90s`, `1h30m`)."""

import re
from datetime import UTC, datetime
from functools import lru_cache

_RFC_3339 = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d+)?(?:Z|[+-]\d{2}:\d{2})", re.ASCII)

_EARLIEST_YEAR, _LATEST_YEAR = 1970, 9000


@lru_cache(maxsize=4096)
def parse_time(text: str | None) -> datetime | None:
    """The moment in an RFC 3339 text, in UTC and cut to microseconds; None for any other text. A time without a zone is
    none, as for Go's time.RFC3339, which HAMi and Kubernetes read with; neither are Go's zero time (year 1) and times
    that no cluster can mean, so that sums with them cannot overflow.
    """
    if not text or not _RFC_3339.fullmatch(text):
        return None
    try:
        moment = datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return moment if _EARLIEST_YEAR <= moment.year <= _LATEST_YEAR else None


def format_time(moment: datetime) -> str:
    """The moment as RFC 3339 in UTC with whole seconds: `2026-11-21T05:00:00Z`."""
    return moment.astimezone(UTC).replace(microsecond=0, tzinfo=None).isoformat() + "Z"


_DURATION = re.compile(r"(?:(\d{1,4})h)?(?:(\d{1,5})m(?:in)?)?(?:(\d{1,6})s)?", re.ASCII)
_ROUGH_S = 120


def read_duration(text: str) -> float | None:
    """The seconds of a duration such as `90s` or `1h30m`; None for any other text."""
    found = _DURATION.fullmatch(text)
    if not found or not any(found.groups()):
        return None
    hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return float(hours * 3600 + minutes * 60 + seconds)


_GO_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_GO_PART = re.compile(r"(\d{1,18}(?:\.\d{1,18})?)(h|ms|m|s|us|µs|ns)", re.ASCII)


def read_go_duration(text: str) -> float | None:
    """The seconds of a duration as Go's time.ParseDuration takes it: `1m2.5s`, `338.8ms`, `+5m`; None for others."""
    text = text.removeprefix("+")
    parts = _GO_PART.findall(text)
    if not parts or "".join(map("".join, parts)) != text:
        return None
    return sum(float(amount) * _GO_SECONDS[unit] for amount, unit in parts)


def format_duration(seconds: float) -> str:
    """The seconds as `10m`, `1h30m` or `1m30s`, which `read_duration` reads; rounded, `0s` for less than one."""
    minutes, rest = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    parts = [f"{amount}{unit}" for amount, unit in ((hours, "h"), (minutes, "m"), (rest, "s")) if amount]
    return "".join(parts) or "0s"


def roughly(seconds: float) -> str:
    """The seconds as a duration such as `1h30m`, rounded to minutes from 2 minutes on."""
    return format_duration(seconds if seconds < _ROUGH_S else round(seconds / 60) * 60)
