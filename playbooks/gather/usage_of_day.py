"""What Prometheus knows of one day, as averages: of each container's share of a GPU, and of each GPU."""

from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from typing import NamedTuple

from bot.hami.metrics.exposition import Sample
from bot.hami.metrics.gpu_usage import CONTAINER_FIGURES, GPU_FIGURES, REGISTERED, ContainerUse, container_of, uuid_of
from bot.prometheus.api import Prometheus
from playbooks.gather.usage import by_share

_LEAST_HOURS = 22
"""Of the day, that a series has to have samples at: nothing is known of one that has fewer."""
_BUILD = "hami_build_info"


class Average(NamedTuple):
    """The average of a day, and the query that shows it again."""

    value: float
    sample: Sample
    query: str


class Day(NamedTuple):
    """From `at` - 24 h to `at`. Bytes, percent, seconds; what was not measured for nearly the whole day is not there.

    `used`, `limit` and `last_kernel` by share of a GPU; `gpu_used`, `gpu_core` and `registered` (with what over-commit
    adds) by UUID. `versions` are those of HAMi's parts, since 2.8.
    """

    day: date
    at: datetime
    used: Mapping[ContainerUse, Average]
    limit: Mapping[ContainerUse, Average]
    last_kernel: Mapping[ContainerUse, Average]
    gpu_used: Mapping[str, Average]
    gpu_core: Mapping[str, Average]
    registered: Mapping[str, Average]
    versions: tuple[str, ...]


async def gather_day(prometheus: Prometheus, day: date, now: datetime) -> Day:
    """The day in UTC; of a day that is not over, the last 24 h. Raises SourceError."""
    at = min(now, datetime.combine(day, time(), UTC) + timedelta(days=1))

    async def of_shares(figure: str) -> dict[ContainerUse, Average]:
        return {
            container_of(average.sample): average
            for name in reversed(CONTAINER_FIGURES[figure])
            for average in await _averages(prometheus, by_share(name), at)
        }

    async def of_gpus(names: tuple[str, ...]) -> dict[str, Average]:
        return {
            uuid_of(average.sample): average
            for name in reversed(names)
            for average in await _averages(prometheus, _by_gpu(name), at)
        }

    builds = await prometheus.query(f"count by (version) (count_over_time({_BUILD}[1d]))", at)
    return Day(
        day,
        at,
        await of_shares("used"),
        await of_shares("limit"),
        await of_shares("last_kernel"),
        await of_gpus(GPU_FIGURES["used"]),
        await of_gpus(GPU_FIGURES["core"]),
        await of_gpus(REGISTERED),
        tuple(sorted(build.labels.get("version", "") for build in builds)),
    )


def _by_gpu(name: str) -> str:
    return f"max by ({'device_uuid' if name.startswith('hami_') else 'deviceuuid'}) ({name})"


async def _averages(prometheus: Prometheus, series: str, at: datetime) -> list[Average]:
    hours = f"({series})[1d:1h]"
    query = f"avg_over_time({hours}) and count_over_time({hours}) >= {_LEAST_HOURS}"
    return [Average(sample.value, sample, query) for sample in await prometheus.query(query, at)]
