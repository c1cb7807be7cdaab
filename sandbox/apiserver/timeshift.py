"""Moves a recorded cluster in time: every time in it by the same whole seconds, in the format that it has."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NamedTuple

# RFC 3339 and what Go prints; HAMi's handshakes ("Requesting_2026-11-21 05:52:25", before 2.9 with dots); its locks
# ("2026-11-21T06:11:11Z,ml,trainer").
_TIME = re.compile(rb"(?<!\d)(\d{4})([-.])(\d\d)\2(\d\d)([T ])(\d\d:\d\d:\d\d)(?!\d)")
_UNIX = re.compile(rb'"hami\.io/(?:bind-time|vgpu-time)":\s*"(\d{10})(?=")')
_KLOG = re.compile(rb"^[IWEF](\d{4} \d{2}:\d{2}:\d{2})(?=\.\d{6} )", re.MULTILINE)
_TRACE = re.compile(rb"(?<!\d)(\d\d-[A-Z][a-z]{2}-\d{4} \d\d:\d\d:\d\d)(?=\.\d)")
_KLOG_FORMAT = "%m%d %H:%M:%S"
_TRACE_FORMAT = "%d-%b-%Y %H:%M:%S"
_SECONDS = "seconds since 1970"
_TEXTS_KEPT = 64  # more than the files of two recordings


class _Found(NamedTuple):
    """A time in a text: where it begins, what stands there, and how it is written."""

    start: int
    text: bytes
    layout: str


class _Cut(NamedTuple):
    """A text without its times: one piece more than there are times."""

    pieces: tuple[bytes, ...]
    times: tuple[_Found, ...]


def whole_seconds(later: datetime, earlier: datetime) -> timedelta:
    """The offset between two times, so that fractions of seconds stay as they were recorded."""
    return timedelta(seconds=round((later - earlier).total_seconds()))


def shift_objects(text: bytes, offset: timedelta) -> bytes:
    """The JSON of objects with every time moved."""
    return _shifted(_cut_objects(text), offset)


def shift_log(text: bytes, offset: timedelta, year: int) -> bytes:
    """A log with every time moved, klog's headers included, which leave out the year that they are of."""
    return _shifted(_cut_log(text), offset, year) if offset else text


# A server is seeded from the same recording again and again, and finding the times is most of the work.


@lru_cache(maxsize=_TEXTS_KEPT)
def _cut_objects(text: bytes) -> _Cut:
    unix = (_Found(found.start(1), found[1], _SECONDS) for found in _UNIX.finditer(text))
    return _cut(text, [*_times(text), *unix])


@lru_cache(maxsize=_TEXTS_KEPT)
def _cut_log(text: bytes) -> _Cut:
    traces = (_Found(found.start(1), found[1], _TRACE_FORMAT) for found in _TRACE.finditer(text))
    headers = (_Found(found.start(1), found[1], _KLOG_FORMAT) for found in _KLOG.finditer(text))
    return _cut(text, [*_times(text), *traces, *headers])


def _times(text: bytes) -> Iterator[_Found]:
    for found in _TIME.finditer(text):
        dash, gap = found[2].decode(), found[5].decode()
        yield _Found(found.start(), found[0], f"%Y{dash}%m{dash}%d{gap}%H:%M:%S")


def _cut(text: bytes, times: list[_Found]) -> _Cut:
    times.sort()
    ends = [0, *(time.start + len(time.text) for time in times)]
    starts = [*(time.start for time in times), len(text)]
    return _Cut(tuple(text[end:start] for end, start in zip(ends, starts, strict=True)), tuple(times))


def _shifted(cut: _Cut, offset: timedelta, year: int = 0) -> bytes:
    moved = {written: _moved(*written, offset, year) for written in {(time.text, time.layout) for time in cut.times}}
    parts = [cut.pieces[0]]
    for time, piece in zip(cut.times, cut.pieces[1:], strict=True):
        parts += (moved[time.text, time.layout], piece)
    return b"".join(parts)


def _moved(text: bytes, layout: str, offset: timedelta, year: int) -> bytes:
    """The time so much later, in its own layout; what only looks like a time, such as a month 13, stays."""
    if layout == _SECONDS:
        return b"%d" % (int(text) + int(offset.total_seconds()))
    whole, read_as = text.decode(), layout
    if layout == _KLOG_FORMAT:
        whole, read_as = f"{year}{whole}", f"%Y{layout}"
    try:
        then = datetime.strptime(whole, read_as).replace(tzinfo=UTC)
    except ValueError:
        return text
    return (then + offset).strftime(layout).encode()
