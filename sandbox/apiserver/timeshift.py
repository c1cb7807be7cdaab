"""Moves a recorded cluster in time: every time in it by the same whole seconds, in the format that it has."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import lru_cache

# RFC 3339 and what Go prints; HAMi's handshakes ("Requesting_2026-11-21 05:52:25", before 2.9 with dots); its locks
# ("2026-11-21T06:11:11Z,ml,trainer").
_TIME = re.compile(rb"(?<!\d)(\d{4})([-.])(\d\d)\2(\d\d)([T ])(\d\d:\d\d:\d\d)(?!\d)")
_UNIX = re.compile(rb'("hami\.io/(?:bind-time|vgpu-time)":\s*")(\d{10})(?=")')
_KLOG = re.compile(rb"^([IWEF])(\d{4} \d{2}:\d{2}:\d{2})(?=\.\d{6} )", re.MULTILINE)
_TRACE = re.compile(rb"(?<!\d)(\d\d-[A-Z][a-z]{2}-\d{4} \d\d:\d\d:\d\d)(?=\.\d)")
_TRACE_FORMAT = "%d-%b-%Y %H:%M:%S"


def whole_seconds(later: datetime, earlier: datetime) -> timedelta:
    """The offset between two times, so that fractions of seconds stay as they were recorded."""
    return timedelta(seconds=round((later - earlier).total_seconds()))


def shift_objects(text: bytes, offset: timedelta) -> bytes:
    """The JSON of objects with every time moved."""
    text = _shift_times(text, offset)
    seconds = int(offset.total_seconds())
    return _UNIX.sub(lambda found: found[1] + b"%d" % (int(found[2]) + seconds), text)


def shift_log(text: bytes, offset: timedelta, year: int) -> bytes:
    """A log with every time moved, klog's headers included, which leave out the year that they are of."""
    if not offset:
        return text

    @lru_cache(maxsize=4096)
    def header(then: bytes) -> bytes:
        return _moved(f"{year}{then.decode()}", "%Y%m%d %H:%M:%S", offset)[4:].encode()

    text = _shift_times(text, offset)
    text = _TRACE.sub(lambda found: _moved(found[1].decode(), _TRACE_FORMAT, offset).encode(), text)
    return _KLOG.sub(lambda found: found[1] + header(found[2]), text)


def _shift_times(text: bytes, offset: timedelta) -> bytes:
    @lru_cache(maxsize=4096)
    def moved(then: bytes, layout: str) -> bytes:
        return _moved(then.decode(), layout, offset).encode()

    def replaced(found: re.Match[bytes]) -> bytes:
        dash, gap = found[2].decode(), found[5].decode()
        return moved(found[0], f"%Y{dash}%m{dash}%d{gap}%H:%M:%S")

    return _TIME.sub(_unless_impossible(replaced), text)


def _unless_impossible(change: Callable[[re.Match[bytes]], bytes]) -> Callable[[re.Match[bytes]], bytes]:
    """Leaves alone what only looks like a time, such as a month 13."""

    def safe(found: re.Match[bytes]) -> bytes:
        try:
            return change(found)
        except ValueError:
            return found[0]

    return safe


def _moved(text: str, layout: str, offset: timedelta) -> str:
    return (datetime.strptime(text, layout).replace(tzinfo=UTC) + offset).strftime(layout)
