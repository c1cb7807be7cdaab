"""The part of a container's log that a request asks for."""

import re
from datetime import UTC, datetime, timedelta

_KLOG = re.compile(rb"^[IWEF](\d{4} \d{2}:\d{2}:\d{2}\.\d{6}) ", re.MULTILINE)
_KLOG_TIME = "%Y%m%d %H:%M:%S.%f"
_LEAP_YEAR = "2000"  # klog writes no year


def log_window(log: bytes, since_s: int | None, tail_lines: int | None, limit_bytes: int | None) -> bytes:
    """The lines of the last `since_s` seconds, of those the last `tail_lines`, of those the first `limit_bytes`.

    A recorded log is old: its newest klog line is "now". A log without klog lines is given whole. Lines are
    taken to be in order, within one year.
    """
    start = 0 if since_s is None else _since(log, since_s)
    if tail_lines is not None:
        start = max(start, _tail(log, tail_lines))
    end = len(log) if limit_bytes is None else start + limit_bytes
    return log[start:end]


def _since(log: bytes, since_s: int) -> int:
    """The offset of the first line that is not older than that."""
    newest = _last_time(log)
    if newest is None:
        return 0
    moment = datetime.strptime(_LEAP_YEAR + newest.decode(), _KLOG_TIME).replace(tzinfo=UTC)
    oldest = (moment - timedelta(seconds=since_s)).strftime(_KLOG_TIME)[len(_LEAP_YEAR) :].encode()
    low, high = 0, len(log)
    while low < high:
        middle = (low + high) // 2
        line = _KLOG.search(log, _line_start(log, middle))
        if line and line[1] < oldest:
            low = line.end()
        else:
            high = middle
    first = _KLOG.search(log, _line_start(log, low))
    return first.start() if first else 0


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
