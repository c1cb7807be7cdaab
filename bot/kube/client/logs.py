"""A container's log: its newest lines within a limit of bytes, and the lines that hold one of some needles."""

from collections import deque

from bot.kube.cluster import Cluster, LogLines, LogWanted
from bot.report import Gap, gap
from bot.texts import Text

LONGEST_LINE = 1024 * 1024
MOST_LINES = 20_000
MOST_BYTES = 16 * 1024 * 1024
LONGEST_FIRST = 4096


class LineFilter:
    """Keeps the lines that contain one of the `needles` of a log that arrives in pieces.

    Holds no more than one unfinished line (an unterminated one over `LONGEST_LINE` is dropped) and the newest
    `MOST_LINES` matches, of at most `MOST_BYTES`; and the beginning of the log's first line.
    """

    def __init__(self, *needles: bytes) -> None:
        self._needles = [needle for needle in needles if b"\n" not in needle]
        self._kept: deque[bytes] = deque()
        self._kept_bytes = 0
        self._first = b""
        self._rest = b""
        self._in_overlong_line = False
        self._dropped = False

    def feed(self, piece: bytes) -> None:
        if b"\n" not in self._first and len(self._first) < LONGEST_FIRST:
            self._first += piece[:LONGEST_FIRST]
        if self._in_overlong_line:
            _, newline, piece = piece.partition(b"\n")
            self._in_overlong_line = not newline
        end = piece.rfind(b"\n") + 1
        if end:
            self._keep(self._rest + piece[:end])
            self._rest = b""
        self._rest += piece[end:]
        if len(self._rest) > LONGEST_LINE:
            self._rest = b""
            self._in_overlong_line = self._dropped = True

    def finish(self, *, cut_short: bool) -> LogLines:
        """The matches; of a log that was cut short, the piece of a line at the cut is no line."""
        if not cut_short:
            self._keep(self._rest)
        lines = tuple(line.decode(errors="replace") for line in self._kept)
        first = self._first.partition(b"\n")[0].decode(errors="replace")
        return LogLines(lines, cut_short or self._dropped, cut_short, first)

    def _keep(self, block: bytes) -> None:
        """Goes from match to match, so that a block without one costs a single search."""
        next_of = {needle: block.find(needle) for needle in self._needles}
        while (at := min((hit for hit in next_of.values() if hit >= 0), default=-1)) >= 0 and at < len(block):
            start, end = block.rfind(b"\n", 0, at) + 1, block.find(b"\n", at)
            end = len(block) if end < 0 else end
            self._kept.append(block[start:end])
            self._kept_bytes += end - start
            while len(self._kept) > MOST_LINES or self._kept_bytes > MOST_BYTES:
                self._kept_bytes -= len(self._kept.popleft())
                self._dropped = True
            next_of |= {needle: block.find(needle, end + 1) for needle, found in next_of.items() if 0 <= found <= end}


_TIMES, _PART = 4, 4


async def newest_lines(cluster: Cluster, wanted: LogWanted) -> LogLines:
    """The end of a log of which `wanted.tail` lines are asked for: fewer lines where these are too long.

    An API server goes back so many lines and stops after `limit_bytes`, so that the newest lines are the ones it leaves
    out: it is asked again for a quarter of the lines. `ends_early` where even the last answer stopped so. Raises as
    `Cluster.log`.
    """
    found = await cluster.log(wanted)
    for _ in range(_TIMES - 1):
        if not (found.ends_early and wanted.tail):
            break
        wanted = wanted._replace(tail=wanted.tail // _PART or 1)
        found = await cluster.log(wanted)
    return found


def newest_missing(wanted: LogWanted) -> Gap:
    """What is to be told of a log whose newest lines were left out."""
    return gap(wanted.source, Text("error-kube.newest-lines-were-not-read", size=f"{wanted.limit_bytes:,}"))
