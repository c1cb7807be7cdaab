"""Reads what is still known of a past day: from Prometheus, ReplicaSets of the scheduler, and pods that still exist.

A Deployment keeps the ReplicaSets of its last revisions (10 in HAMi's chart). Each shows the arguments of its time, and
its creation when the first of its revisions began; when a later one began (a rollback) nothing shows.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import NamedTuple, TypeVar

import msgspec

from bot.errors import SourceError, UsageError
from bot.hami.fit.allocated_totals import Holding
from bot.hami.metrics.exposition import Sample
from bot.hami.metrics.gpu_usage import (
    CONTAINER_FIGURES,
    CORE_NAMES,
    GPU_FIGURES,
    REGISTERED,
    ContainerUse,
    container_of,
    uuid_of,
)
from bot.hami.scheduler_logs.scheduling_latency import Life, read_lives
from bot.kube.cluster import seen
from bot.kube.models import HOLDERS, REPLICA_SETS, Holder, Workload
from bot.kube.times import parse_time, roughly
from bot.prometheus import SOURCE, Prometheus
from bot.report import Gap, gap
from bot.texts import Text
from playbooks.gather.latency import created_between
from playbooks.gather.scheduling import InstallSeen, gather_install
from playbooks.gather.usage import by_share, in_time
from playbooks.playbook import Sources

T = TypeVar("T")

_HOUR = timedelta(hours=1)
_MAY_LACK = 12
"""The number of hours of which a series may lack one: a series that lacks more is taken as not measured."""
_BUILD = "hami_build_info"


class Average(NamedTuple):
    """A value averaged over a day, and the query that shows it again."""

    value: float
    sample: Sample
    query: str


class Day(msgspec.Struct, frozen=True):
    """What Prometheus measured from `begin` to `at`, in whole hours, as bytes, percent or seconds.

    `used`, `limit` and `last_kernel` are by share of a GPU; `gpu_used`, `gpu_core` and `registered` (with what
    over-commit adds) by UUID. `versions` are those of HAMi's parts, since 2.8. A series that lacks too many hours is
    left out.
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
    """Reads what Prometheus measured on the day (UTC), or in its whole hours so far if it is not over at `until`.
    Raises SourceError, also if not an hour of the day has passed.
    """
    begin = datetime.combine(day, time(), UTC)
    hours = min(24, (until - begin) // _HOUR)
    if not hours:
        raise SourceError(
            Text("error-usage.less-than-hour-has-passed", day=day), hint=Text("error-days.compare-again-when-over")
        )
    at = begin + hours * _HOUR

    async def averages(series: Iterable[str], of: Callable[[Sample], T]) -> dict[T, Average]:
        found: dict[T, Average] = {}
        for each in series:
            window = f"({each})[{hours}h:1h]"
            query = f"avg_over_time({window}) and count_over_time({window}) >= {hours - hours // _MAY_LACK}"
            found |= {of(sample): Average(sample.value, sample, query) for sample in await prometheus.query(query, at)}
        return found

    async def of_shares(figure: str) -> dict[ContainerUse, Average]:
        return await averages(map(by_share, reversed(CONTAINER_FIGURES[figure])), container_of)

    async def of_gpus(names: tuple[str, ...]) -> dict[str, Average]:
        labels = ((name, "device_uuid" if name.startswith("hami_") else "deviceuuid") for name in reversed(names))
        return await averages((f"max by ({label}) ({name})" for name, label in labels), uuid_of)

    builds = await prometheus.query(f"count by (version) (count_over_time({_BUILD}[{hours}h]))", at)
    return Day(
        day,
        begin,
        at,
        await of_shares("used"),
        limit=await of_shares("limit"),
        last_kernel=await of_shares("last_kernel"),
        gpu_used=await of_gpus(GPU_FIGURES["used"]),
        gpu_core=await of_gpus(GPU_FIGURES["core"]),
        registered=await of_gpus(REGISTERED),
        versions=tuple(sorted(build.labels.get("version", "") for build in builds)),
    )


TOLERATED = 20
"""Percentage points above its request that a container's use may have: the core limiter works by time slices."""
_WHOLE = 100
_LEAST_HOURS = 22
"""The hours of a day at which a series has to have samples, to count as the whole day."""
_WITHIN_S = 45.0


class CoreUse(NamedTuple):
    """The average use of a GPU's cores in a day, in percent of the GPU, and the query that shows it again."""

    of: ContainerUse
    reading: Sample
    query: str


class CoresSeen(NamedTuple):
    """The use of GPU cores in a day. `limited`: shares of GPUs that several pods hold, with a part of the cores
    requested.

    `known`: those of which Prometheus has the whole day; `above`: those of them that used more than TOLERATED above the
    least such request.
    """

    limited: int = 0
    known: int = 0
    above: tuple[CoreUse, ...] = ()
    gap: Gap | None = None


async def gather_cores(prometheus: Prometheus | None, holdings: Iterable[Holding], at: datetime) -> CoresSeen:
    """Reads the last day's use of cores, if any container could use more than it requested. Never raises."""
    bound = [holding for holding in holdings if holding.bound]
    users = Counter(uuid for holding in bound for uuid in holding.shares)
    shares = (
        (uuid, share.cores) for holding in bound for uuid, share in holding.shares.items() if uuid not in holding.others
    )
    # Cores that a share may be held to: a part of a GPU's, of a GPU that several hold.
    requested = [cores for uuid, cores in shares if 0 < cores < _WHOLE and users[uuid] > 1]
    if not requested or prometheus is None:
        return CoresSeen(len(requested))
    above: dict[ContainerUse, CoreUse] = {}

    async def known_shares() -> int:
        known = 0
        for name in CORE_NAMES:
            series = f"({by_share(name)})"
            whole = f"count_over_time({series}[1d:1h]) >= {_LEAST_HOURS}"
            if not (counted := await prometheus.query(f"count({whole})", at)):
                continue
            known = max(known, int(counted[0].value))
            query = f"avg_over_time({series}[1d:5m]) > {min(requested) + TOLERATED} and {whole}"
            for reading in await prometheus.query(query, at):
                of = container_of(reading)
                above.setdefault(of, CoreUse(of, reading, query))
        return known

    late = Text("error-usage.no-average-of-cores", seconds=f"{_WITHIN_S:g}")
    known = await in_time(known_shares(), _WITHIN_S, late)
    if isinstance(known, Gap):
        return CoresSeen(len(requested), gap=known)
    return CoresSeen(len(requested), known, tuple(above.values()))


REVISION, HISTORY = "deployment.kubernetes.io/revision", "deployment.kubernetes.io/revision-history"
_DAY = timedelta(days=1)


class PastDay(msgspec.Struct, frozen=True):
    """What is known of a day, from `begin` to `end` in UTC; a day that is not over ends now.

    `scheduler` is the ReplicaSet whose pods HAMi's scheduler had all that time, None if nothing shows which it was.
    `lives` are of GPU pods that were created then and still exist.
    """

    day: date
    begin: datetime
    end: datetime
    measured: Day | Gap
    scheduler: Workload | None = None
    lives: tuple[Life, ...] = ()
    gaps: tuple[Gap, ...] = ()

    @property
    def is_over(self) -> bool:
        return self.end - self.begin == _DAY


class PastDays(NamedTuple):
    """The two days that are compared."""

    cluster: str
    before: PastDay
    after: PastDay


async def gather_past_days(days: tuple[date, date], sources: Sources) -> PastDays:
    """Reads two past days, or the hours so far of one that is not over; what could not be read is a gap. Raises
    UsageError for days that have not begun, or are not in order.
    """
    cluster, (first, last) = sources.cluster, days
    today = cluster.now().astimezone(UTC).date()
    if max(days) > today:
        begun = Text("error-days.has-not-begun", day=max(days))
        raise UsageError(begun, hint=Text("error-days.name-days-up", today=today))
    if first >= last:
        order = Text("error-days.not-before", before=first, after=last)
        raise UsageError(order, hint=Text("error-days.name-two-days"))
    install = await gather_install(sources)
    replica_sets, pods = await asyncio.gather(
        seen("ReplicaSets", cluster.list(REPLICA_SETS, install.install.namespace)),
        seen("pods", cluster.list(HOLDERS, metadata_only=True)),
    )
    owner = ("Deployment", install.install.deployment.name if install.install.deployment else "")
    own = replica_sets
    if not isinstance(replica_sets, Gap):
        owners = ((workload, workload.metadata.owner_references or ()) for workload in replica_sets)
        own = [workload for workload, some in owners if owner in [(each.kind, each.name) for each in some]]
    before, after = [await _gather(day, sources, install, own, pods) for day in days]
    return PastDays(cluster.name, before, after)


async def _gather(
    day: date,
    sources: Sources,
    install: InstallSeen,
    replica_sets: list[Workload] | Gap,
    pods: Sequence[Holder] | Gap,
) -> PastDay:
    cluster, now = sources.cluster, sources.cluster.now()
    begin = datetime.combine(day, time(), UTC)
    end = min(now, begin + _DAY)
    measured = gap(SOURCE, Text("error-days.settings-name-none-for-cluster"), Text("error-days.set-prometheus-url"))
    if sources.prometheus is not None:
        measured = await seen(SOURCE, gather_day(sources.prometheus, day, end))
    created = pods if isinstance(pods, Gap) else await created_between(cluster, install, pods, begin, end)
    gaps = [gap for gap in (replica_sets, created, measured) if isinstance(gap, Gap)]
    if end - begin < _DAY:
        gone = Text("error-days.only-first-have-passed", gone=roughly((end - begin).total_seconds()))
        gaps.append(gap("rest of the day", gone, Text("error-days.compare-again-when-over")))
    ran = None if isinstance(replica_sets, Gap) else ran_all_day(replica_sets, begin, end)
    if ran is None and not isinstance(replica_sets, Gap):
        gaps.append(gap("ReplicaSets", Text("error-days.none-left-shows-arguments", day=day)))
    lives = () if isinstance(created, Gap) else tuple(read_lives(created, [], now))
    return PastDay(day, begin, end, measured, scheduler=ran, lives=lives, gaps=tuple(gaps))


def ran_all_day(replica_sets: Iterable[Workload], begin: datetime, end: datetime) -> Workload | None:
    """The ReplicaSet whose revision began before `begin` and was the last until `end`; None if that is not certain."""
    began: dict[int, tuple[datetime, Workload]] = {}
    newest = 0
    for workload in replica_sets:
        text = f"{workload.metadata.annotation(REVISION) or ''},{workload.metadata.annotation(HISTORY) or ''}"
        revisions = [int(word) for word in text.split(",") if word.strip().isdecimal()]
        created = parse_time(workload.metadata.creation_timestamp)
        if revisions and created is not None:
            began[min(revisions)] = created, workload
            newest = max(newest, *revisions)
    before = [revision for revision, (at, _) in began.items() if at <= begin]
    if not before:
        return None
    last = max(before)
    following = began.get(last + 1)
    sure = last == newest or (following is not None and following[0] >= end)
    return began[last][1] if sure else None
