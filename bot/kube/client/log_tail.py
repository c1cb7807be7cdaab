"""The newest lines of a log within a limit of bytes."""

from bot.kube.cluster import Cluster, LogLines, LogWanted
from bot.report import Gap, gap
from bot.texts import Text

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
