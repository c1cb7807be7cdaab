"""What containers use of the cores of shared GPUs: an average of a day, which only Prometheus has."""

import asyncio
from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from bot.errors import SourceError
from bot.hami.fit.allocated_totals import Holding
from bot.hami.metrics.exposition import Sample
from bot.hami.metrics.gpu_usage import CORE_NAMES, ContainerUse, container_of
from bot.prometheus import SOURCE, Prometheus
from bot.report import Gap, gap
from bot.texts import Text
from playbooks.gather.usage import by_share

TOLERATED = 20
"""Percentage points above the request: the limiter works by time slices."""
_WHOLE = 100
_LEAST_HOURS = 22
"""Of the day, that a series has to have samples at."""
_WITHIN_S = 45.0


class CoreUse(NamedTuple):
    """The average of a day, in percent of a GPU, and the query that shows it again."""

    of: ContainerUse
    reading: Sample
    query: str


class CoresSeen(NamedTuple):
    """`limited`: shares of GPUs that several pods hold, with a part of the cores requested. `known`: shares of which
    Prometheus has the whole day; `above` those of them that used more than TOLERATED above the least such request.
    """

    limited: int = 0
    known: int = 0
    above: tuple[CoreUse, ...] = ()
    gap: Gap | None = None


def limited_shares(holdings: Iterable[Holding]) -> list[int]:
    """The cores that each share requested that may be held to them: a part of a GPU's, of a GPU that several hold."""
    bound = [holding for holding in holdings if holding.bound]
    users = Counter(uuid for holding in bound for uuid in holding.shares)
    shares = (
        (uuid, share.cores) for holding in bound for uuid, share in holding.shares.items() if uuid not in holding.others
    )
    return [cores for uuid, cores in shares if 0 < cores < _WHOLE and users[uuid] > 1]


async def gather_cores(prometheus: Prometheus | None, holdings: Iterable[Holding], at: datetime) -> CoresSeen:
    """Never raises. Nothing is asked where no container could use more than it requested."""
    requested = limited_shares(holdings)
    if not requested or prometheus is None:
        return CoresSeen(len(requested))
    above: dict[ContainerUse, CoreUse] = {}
    known = 0
    try:
        async with asyncio.timeout(_WITHIN_S):
            for name in CORE_NAMES:
                series = f"({by_share(name)})"
                whole = f"count_over_time({series}[1d:1h]) >= {_LEAST_HOURS}"
                counted = await prometheus.query(f"count({whole})", at)
                if not counted:
                    continue
                known = max(known, int(counted[0].value))
                query = f"avg_over_time({series}[1d:5m]) > {min(requested) + TOLERATED} and {whole}"
                for reading in await prometheus.query(query, at):
                    of = container_of(reading)
                    above.setdefault(of, CoreUse(of, reading, query))
    except TimeoutError:
        return CoresSeen(
            len(requested), gap=gap(SOURCE, Text("error-usage.no-average-of-cores", seconds=f"{_WITHIN_S:g}"))
        )
    except SourceError as error:
        return CoresSeen(len(requested), gap=gap(SOURCE, error.message, error.hint))
    return CoresSeen(len(requested), known, tuple(above.values()))
