"""What Prometheus knows of one day, as averages: of each container's share of a GPU, and of each GPU."""

from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from typing import NamedTuple

from bot.errors import SourceError
from bot.hami.metrics.exposition import Sample
from bot.hami.metrics.gpu_usage import CONTAINER_FIGURES, GPU_FIGURES, REGISTERED, ContainerUse, container_of, uuid_of
from bot.prometheus import Prometheus
from bot.texts import Text
from playbooks.gather.usage import by_share

_HOUR = timedelta(hours=1)
_MAY_LACK = 12
"""Of so many hours, a series may lack one: nothing is known of one that lacks more."""
_BUILD = "hami_build_info"


class Average(NamedTuple):
    """The average of a day, and the query that shows it again."""

    value: float
    sample: Sample
    query: str


class Day(NamedTuple):
    """From `begin` to `at`, whole hours. Bytes, percent, seconds; what was not measured for nearly all of them is not
    there.

    `used`, `limit` and `last_kernel` by share of a GPU; `gpu_used`, `gpu_core` and `registered` (with what over-commit
    adds) by UUID. `versions` are those of HAMi's parts, since 2.8.
    """

    day: date
    begin: datetime
    at: datetime
    used: Mapping[ContainerUse, Average]
    limit: Mapping[ContainerUse, Average]
    last_kernel: Mapping[ContainerUse, Average]
    gpu_used: Mapping[str, Average]
    gpu_core: Mapping[str, Average]
    registered: Mapping[str, Average]
    versions: tuple[str, ...]


async def gather_day(prometheus: Prometheus, day: date, until: datetime) -> Day:
    """The day in UTC, of one that is not over `until` then its whole hours so far. Raises SourceError."""
    begin = datetime.combine(day, time(), UTC)
    hours = min(24, (until - begin) // _HOUR)
    if not hours:
        raise SourceError(
            Text("error-usage.less-than-hour-has-passed", day=day), hint=Text("error-days.compare-again-when-over")
        )
    at = begin + hours * _HOUR

    async def of_shares(figure: str) -> dict[ContainerUse, Average]:
        return {
            container_of(average.sample): average
            for name in reversed(CONTAINER_FIGURES[figure])
            for average in await _averages(prometheus, by_share(name), at, hours)
        }

    async def of_gpus(names: tuple[str, ...]) -> dict[str, Average]:
        return {
            uuid_of(average.sample): average
            for name in reversed(names)
            for average in await _averages(prometheus, _by_gpu(name), at, hours)
        }

    builds = await prometheus.query(f"count by (version) (count_over_time({_BUILD}[{hours}h]))", at)
    return Day(
        day,
        begin,
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


async def _averages(prometheus: Prometheus, series: str, at: datetime, hours: int) -> list[Average]:
    window = f"({series})[{hours}h:1h]"
    query = f"avg_over_time({window}) and count_over_time({window}) >= {hours - hours // _MAY_LACK}"
    return [Average(sample.value, sample, query) for sample in await prometheus.query(query, at)]
