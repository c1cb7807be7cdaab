"""What is still known of a past day: by Prometheus, by the ReplicaSets that the scheduler's Deployment keeps, and by
the pods of that day that still exist.

A Deployment keeps the ReplicaSets of its last revisions (10 in HAMi's chart). Each shows the arguments of its time, and
its creation when the first of its revisions began; when a later one began (a rollback) nothing shows.
"""

import asyncio
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import NamedTuple

from bot.changes.durations import roughly
from bot.errors import SourceError, UsageError
from bot.hami.scheduler_logs.scheduling_latency import Life, read_lives
from bot.kube.cluster import seen
from bot.kube.models import HOLDERS, REPLICA_SETS, Holder, Workload
from bot.kube.times import parse_time
from bot.prometheus import SOURCE, Prometheus
from bot.report import Gap, gap
from bot.texts import Text
from playbooks.gather.latency import created_between
from playbooks.gather.scheduling import InstallSeen, gather_install
from playbooks.gather.usage_of_day import Day, gather_day
from playbooks.playbook import Sources

REVISION, HISTORY = "deployment.kubernetes.io/revision", "deployment.kubernetes.io/revision-history"
_DAY = timedelta(days=1)


class PastDay(NamedTuple):
    """From `begin` to `end`, in UTC; a day that is not over ends now.

    `scheduler` is the ReplicaSet whose pods HAMi's scheduler had all that time, None where nothing shows which it was.
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
    """Of a day that is not over, what has passed of it. Raises UsageError for days that have not begun, or that are not
    in their order; what could not be read is a gap.
    """
    cluster = sources.cluster
    _check(days, cluster.now())
    install = await gather_install(sources)
    replica_sets, pods = await asyncio.gather(
        seen("ReplicaSets", cluster.list(REPLICA_SETS, install.install.namespace)),
        seen("pods", cluster.list(HOLDERS, metadata_only=True)),
    )
    own = replica_sets if isinstance(replica_sets, Gap) else _of_deployment(replica_sets, install)
    before, after = [await _gather(day, sources, install, own, pods) for day in days]
    return PastDays(cluster.name, before, after)


def _check(days: tuple[date, date], now: datetime) -> None:
    before, after = days
    today = now.astimezone(UTC).date()
    if max(days) > today:
        raise UsageError(
            Text("error-days.has-not-begun", day=max(days)), hint=Text("error-days.name-days-up", today=today)
        )
    if before >= after:
        raise UsageError(
            Text("error-days.not-before", before=before, after=after), hint=Text("error-days.name-two-days")
        )


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
    measured = await _measured(sources.prometheus, day, end)
    created = pods if isinstance(pods, Gap) else await created_between(cluster, install, pods, begin, end)
    gaps = [gap for gap in (replica_sets, created, measured) if isinstance(gap, Gap)]
    if end - begin < _DAY:
        gone = roughly((end - begin).total_seconds())
        gaps.append(
            gap(
                "rest of the day",
                Text("error-days.only-first-have-passed", gone=gone),
                Text("error-days.compare-again-when-over"),
            )
        )
    ran = None if isinstance(replica_sets, Gap) else ran_all_day(replica_sets, begin, end)
    if ran is None and not isinstance(replica_sets, Gap):
        gaps.append(gap("ReplicaSets", Text("error-days.none-left-shows-arguments", day=day)))
    lives = () if isinstance(created, Gap) else tuple(read_lives(created, [], now))
    return PastDay(day, begin, end, measured, ran, lives, tuple(gaps))


async def _measured(prometheus: Prometheus | None, day: date, until: datetime) -> Day | Gap:
    if prometheus is None:
        return gap(SOURCE, Text("error-days.settings-name-none-for-cluster"), Text("error-days.set-prometheus-url"))
    try:
        return await gather_day(prometheus, day, until)
    except SourceError as error:
        return gap(SOURCE, error.message, error.hint)


def _of_deployment(replica_sets: Iterable[Workload], install: InstallSeen) -> list[Workload]:
    deployment = install.install.deployment
    name = deployment.name if deployment else ""
    owned = ((workload, workload.metadata.owner_references or ()) for workload in replica_sets)
    return [
        replica_set
        for replica_set, owners in owned
        if any(owner.kind == "Deployment" and owner.name == name for owner in owners)
    ]


def ran_all_day(replica_sets: Iterable[Workload], begin: datetime, end: datetime) -> Workload | None:
    """The one whose revision began before `begin` and was the last until `end`; None where that is not certain."""
    began: dict[int, tuple[datetime, Workload]] = {}
    newest = 0
    for workload in replica_sets:
        revisions = _revisions(workload)
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


def _revisions(workload: Workload) -> list[int]:
    text = f"{workload.metadata.annotation(REVISION) or ''},{workload.metadata.annotation(HISTORY) or ''}"
    return [int(word) for word in text.split(",") if word.strip().isdecimal()]
