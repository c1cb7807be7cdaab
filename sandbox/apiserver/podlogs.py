"""The part of a container's log that a request asks for."""

import re
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

_KLOG = re.compile(rb"^[IWEF](\d{4} \d{2}:\d{2}:\d{2}\.\d{6}) ", re.MULTILINE)
_KLOG_TIME = "%Y%m%d %H:%M:%S.%f"
_LEAP_YEAR = "2000"  # klog writes no year


class LogWanted(NamedTuple):
    """The part of a log that is asked for; `since_time` is that of the oldest line, `year` the one klog leaves out."""

    since_s: int | None = None
    since_time: datetime | None = None
    tail_lines: int | None = None
    limit_bytes: int | None = None
    timestamps: bool = False
    year: int = 2000


def log_part(log: bytes, wanted: LogWanted) -> bytes:
    """The lines since `since_s` or `since_time`, of those the last `tail_lines`, of those the first `limit_bytes`.

    A recorded log is old: for `since_s` its newest klog line is "now". A log without klog lines is given whole. Lines
    are taken to be in order, within one year.
    """
    start = 0
    if wanted.since_s is not None:
        newest = _last_time(log)
        if newest is not None:
            start = _from(log, _klog_time(newest) - timedelta(seconds=wanted.since_s))
    elif wanted.since_time is not None:
        start = _from(log, wanted.since_time)
    if wanted.tail_lines is not None:
        start = max(start, _tail(log, wanted.tail_lines))
    part = log[start:]
    if wanted.timestamps:
        part = stamped(part, wanted.year)
    return part if wanted.limit_bytes is None else part[: wanted.limit_bytes]


def stamped(log: bytes, year: int) -> bytes:
    """The lines with the time in front that the container runtime notes: that of the klog line they belong to."""
    stamp = b"%d-01-01T00:00:00.000000000Z" % year
    lines: list[bytes] = []
    for line in log.splitlines(keepends=True):
        header = _KLOG.match(line)
        if header:
            month, day, moment = header[1][:2], header[1][2:4], header[1][5:]
            stamp = b"%d-%s-%sT%s000Z" % (year, month, day, moment)
        lines.append(stamp + b" " + line)
    return b"".join(lines)


def _klog_time(text: bytes) -> datetime:
    return datetime.strptime(_LEAP_YEAR + text.decode(), _KLOG_TIME).replace(tzinfo=UTC)


def _from(log: bytes, moment: datetime) -> int:
    """The offset of the first line that is not older than that."""
    if not _KLOG.search(log):
        return 0
    oldest = moment.astimezone(UTC).strftime(_KLOG_TIME)[len(_LEAP_YEAR) :].encode()
    low, high = 0, len(log)
    while low < high:
        middle = (low + high) // 2
        line = _KLOG.search(log, _line_start(log, middle))
        if line and line[1] < oldest:
            low = line.end()
        else:
            high = middle
    first = _KLOG.search(log, _line_start(log, low))
    return first.start() if first else len(log)


def _last_time(log: bytes) -> bytes | None:
    """The newest klog header's time; looks at ever more of the end until there is one."""
    for size in (64 * 1024, len(log)):
        times = _KLOG.findall(log, max(0, len(log) - size))
        if times:
            return times[-1]
    return None


def _line_start(log: bytes, offset: int) -> int:
    """Where the first line begins that begins at the offset or behind it."""
    if offset == 0:
        return 0
    newline = log.find(b"\n", offset - 1)
    return len(log) if newline < 0 else newline + 1


def _tail(log: bytes, lines: int) -> int:
    """The offset of the last so many lines."""
    offset = len(log)
    if log.endswith(b"\n"):
        offset -= 1
    for _ in range(lines):
        offset = log.rfind(b"\n", 0, offset)
        if offset < 0:
            return 0
    return offset + 1 if lines else len(log)
