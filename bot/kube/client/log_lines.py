"""The lines of a container's log that are asked for, picked out while it arrives."""

import aiohttp

from bot.kube.client.gzip_body import unpacked
from bot.kube.client.line_filter import LineFilter
from bot.kube.cluster import LogLines, LogWanted

LOG_CHUNK = 256 * 1024


async def matching_lines(answer: aiohttp.ClientResponse, wanted: LogWanted) -> LogLines:
    """The matches in the answer, of which no more than `limit_bytes` are read."""
    lines = LineFilter(wanted.needle, *wanted.others)
    left = wanted.limit_bytes
    async for piece in unpacked(answer, answer.content.iter_chunked(LOG_CHUNK)):
        lines.feed(piece[:left])
        left -= len(piece)
        if left <= 0:
            return lines.finish(cut_short=True)
    return lines.finish(cut_short=False)
