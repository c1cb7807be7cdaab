"""Reads what the latency of scheduling is measured on: the GPU pods created lately, and the schedulers' logs."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import msgspec

from bot.hami.pods.request_parsing import asked_resources
from bot.hami.scheduler_logs.filter_runs import EVENT, SchedulerCall, read_calls
from bot.hami.scheduler_logs.log_lines import NEEDLE as THROTTLED
from bot.hami.scheduler_logs.log_lines import ThrottledRequest, read_line, read_waits
from bot.hami.scheduler_logs.scheduling_latency import NEEDLE, Life, SchedulerLog, read_lives
from bot.kube.cluster import Cluster, LogLines, seen
from bot.kube.hami_pods import EXTENDER_CONTAINER
from bot.kube.models import HOLDERS, NODES, PODS, Holder, Node, Pod
from bot.kube.times import format_time, parse_time
from bot.report import Gap, gap
from bot.texts import Text
from playbooks.gather.scheduler_logs import LogOf, gather_scheduler_logs
from playbooks.gather.scheduling import InstallSeen

_MINUTE = timedelta(minutes=1)
_EVER = datetime.max.replace(tzinfo=UTC)
_MOST_NAMESPACES = 20
"""With new pods in more namespaces than this, the pods of all namespaces are read at once."""


class HeldBack(NamedTuple):
    """A request to the API server that the extender in the pod `scheduler` held back by its client's rate limit."""

    scheduler: Pod
    wait: ThrottledRequest


class LatencySeen(msgspec.Struct, frozen=True):
    """The GPU pods of HAMi's scheduler that were created since `since`, each with the times of its scheduling steps.

    `waits` are the requests that the extenders held back since then; `throttling` is false if none of their logs could
    be read. `unread`: which pods there are could not be read. `calls` are the filters and binds since then, also of
    pods that are gone; `logs` are those of the scheduler's containers, each with whether something of it is missing.
    """

    since: datetime
    lives: tuple[Life, ...]
    nodes: Sequence[Node] | Gap = ()
    pods: Sequence[Holder] | Gap = ()
    waits: tuple[HeldBack, ...] = ()
    throttling: bool = False
    calls: tuple[tuple[SchedulerCall, SchedulerLog], ...] = ()
    unread: bool = False
    logs: tuple[tuple[LogOf, bool], ...] = ()
    gaps: tuple[Gap, ...] = ()

    @property
    def pending(self) -> list[Pod]:
        """The pods that have no node yet."""
        return [life.pod for life in self.lives if not life.pod.spec.node_name and life.pod.status.phase == "Pending"]


async def gather_latency(cluster: Cluster, install: InstallSeen, since: datetime) -> LatencySeen:
    """Reads the new GPU pods and the schedulers' calls since `since`. Never raises: what cannot be read is a gap."""
    now = cluster.now()
    window = max(now - since, timedelta(seconds=1))
    nodes, pods, logs, throttled, events = await asyncio.gather(
        seen("nodes", cluster.list(NODES, metadata_only=True)),
        seen("pods", cluster.list(HOLDERS, metadata_only=True)),
        gather_scheduler_logs(cluster, install.install, NEEDLE, window),
        gather_scheduler_logs(cluster, install.install, THROTTLED, window),
        gather_scheduler_logs(cluster, install.install, EVENT, window),  # long lines, which would push out the others
    )
    new = pods if isinstance(pods, Gap) else await created_between(cluster, install, pods, since)
    lists = [gap for gap in (nodes, pods, new) if isinstance(gap, Gap)]
    of_logs = [_gaps_of(log, since, now) for log in logs]
    read: list[SchedulerLog] = []
    for log in logs:
        found = log.read if not isinstance(log.read, Gap) else LogLines(())
        older_dropped = found.cut and not found.ends_early
        first = next(iter(found.lines), "") if older_dropped else found.first
        read.append(SchedulerLog(log.scheduler, log.container, first, found.lines, log.previous))
    told = {_key(log): log.read.lines for log in events if not isinstance(log.read, Gap)}
    return LatencySeen(
        since,
        tuple(read_lives([] if isinstance(new, Gap) else new, read, now)),
        nodes,
        pods,
        _waits(throttled, since, now),
        throttling=any(log.container == EXTENDER_CONTAINER and not isinstance(log.read, Gap) for log in throttled),
        calls=tuple(
            (call, log)
            for log in read
            if log.container == EXTENDER_CONTAINER
            for call in read_calls(dict.fromkeys((*log.lines, *told.get(_key(log), ()))), now)
            if call.at >= since
        ),
        unread=isinstance(new, Gap),
        logs=tuple((log, bool(gaps)) for log, gaps in zip(logs, of_logs, strict=True)),
        gaps=tuple(dict.fromkeys([*lists, *(gap for gaps in of_logs for gap in gaps)])),
    )


def _key(log: LogOf | SchedulerLog) -> tuple[str, str, bool]:
    return log.scheduler.name, log.container, log.previous


async def created_between(
    cluster: Cluster, install: InstallSeen, pods: Sequence[Holder], since: datetime, until: datetime = _EVER
) -> list[Pod] | Gap:
    """The GPU pods of HAMi's scheduler that were created between `since` and `until`; `pods` are all pods. Read by
    namespace: of a large cluster's pods few are new, and only of these the status is needed.
    """
    new = {pod.namespace for pod in pods if _is_between(pod.metadata.creation_timestamp, since, until)}
    own = f"spec.schedulerName={install.install.scheduler_name}"
    where = sorted(new) if len(new) <= _MOST_NAMESPACES else [""]
    lists = await asyncio.gather(*(seen("pods", cluster.list(PODS, namespace, fields=own)) for namespace in where))
    found: list[Pod] = []
    for some in lists:
        if isinstance(some, Gap):
            return some
        found += [pod for pod in some if _is_between(pod.metadata.creation_timestamp, since, until)]
    return [pod for pod in found if asked_resources(pod, install.config)]


def _is_between(created: str | None, since: datetime, until: datetime) -> bool:
    at = parse_time(created)
    return at is not None and since <= at <= until


def _waits(logs: Sequence[LogOf], since: datetime, now: datetime) -> tuple[HeldBack, ...]:
    found: list[HeldBack] = []
    for log in logs:
        if log.container != EXTENDER_CONTAINER or isinstance(log.read, Gap):
            continue
        recent = (line for raw in log.read.lines if (line := read_line(raw, now)) and line.at and line.at >= since)
        found += [HeldBack(log.scheduler, wait) for wait in read_waits(line.raw for line in recent)]
    return tuple(found)


def _gaps_of(log: LogOf, since: datetime, now: datetime) -> list[Gap]:
    if isinstance(log.read, Gap):
        return [log.read]
    if log.read.cut:
        return [gap(log.source, Text("error-gather.log-too-long"), Text("error-gather.ask-for-shorter-time-latency"))]
    first = read_line(log.read.first, now)
    started = log.scheduler.running_since(log.container)
    if not first or not first.at or first.at <= since + _MINUTE or (started and abs(first.at - started) < _MINUTE):
        return []
    later = Text("error-gather.begins-later", at=format_time(first.at))
    return [gap(log.source, later, Text("error-gather.older-log-is-gone"))]
