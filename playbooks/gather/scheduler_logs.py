"""Reads the logs of HAMi's scheduler pods. For one pod they are read whole: every replica, both containers, and the run
before a restart. Other questions only read the newest lines of the extenders.
"""

import asyncio
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import NamedTuple

import msgspec

from bot.changes.kinds import VERBOSITY
from bot.changes.record import KEY, Record, read_record
from bot.hami.installation.install import Install, container_of, verbosity_of
from bot.kube.cluster import Cluster, LogLines, LogWanted, seen
from bot.kube.hami_pods import EXTENDER_CONTAINER, KUBE_SCHEDULER_CONTAINER
from bot.kube.models import Pod, Workload
from bot.kube.times import parse_time
from bot.report import Gap, gap
from bot.texts import Text

CONTAINERS = (EXTENDER_CONTAINER, KUBE_SCHEDULER_CONTAINER)
LIMIT_BYTES = 512 * 1024 * 1024
"""The most bytes read of one log. It is searched as it arrives, so this bounds time, not memory."""


class ExtenderLines(NamedTuple):
    """Lines of the extenders' logs with the pods that wrote them, and gaps for what could not be read of the logs.

    `first` is the oldest line of each log, whatever it says.
    """

    lines: tuple[tuple[Pod, str], ...] = ()
    gaps: tuple[Gap, ...] = ()
    first: tuple[str, ...] = ()

    def holding(self, words: str) -> "ExtenderLines":
        """The same logs with only the lines that contain `words`."""
        return self._replace(lines=tuple(line for line in self.lines if words in line[1]))


class LogOf(msgspec.Struct, frozen=True):
    """One container's log: its lines that hold the pod's name, or why there are none.

    `flag` is the word of its command line that sets `verbosity`, empty if none does; `change` the text of the record of
    an open change that set it in the running process instead.
    """

    scheduler: Pod
    container: str
    previous: bool
    verbosity: int
    flag: str
    read: LogLines | Gap
    change: str = ""

    @property
    def label(self) -> str:
        return f"{self.scheduler.name}/{self.container}{' (previous)' if self.previous else ''}"

    @property
    def source(self) -> str:
        """The name of the log in a gap."""
        return f"log of {self.scheduler.namespace}/{self.label}"


async def gather_scheduler_logs(cluster: Cluster, install: Install, name: str, since: timedelta) -> list[LogOf]:
    """Reads the lines with `name` of all logs of HAMi's scheduler, ready replicas first; an unread log is a gap."""
    found = [log for scheduler in install.pods for log in _logs_of(cluster, install, scheduler, since)]
    wanted = (
        LogWanted(
            log.scheduler.namespace,
            log.scheduler.name,
            log.container,
            name.encode(),
            since_s=max(1, int(since.total_seconds())),
            limit_bytes=LIMIT_BYTES,
            previous=log.previous,
            stamped=True,
        )
        for log in found
    )
    both = zip(found, wanted, strict=True)
    results = await asyncio.gather(*(seen(log.source, cluster.log(want)) for log, want in both))
    return [msgspec.structs.replace(log, read=result) for log, result in zip(found, results, strict=True)]


def _logs_of(cluster: Cluster, install: Install, scheduler: Pod, since: timedelta) -> Iterator[LogOf]:
    for name in CONTAINERS:
        if (container := container_of(scheduler.spec, name)) is None:
            continue
        level, flag = verbosity_of(container)
        log = LogOf(scheduler, name, previous=False, verbosity=level, flag=flag, read=LogLines(()))
        yield _as_it_runs(log, install.deployment)
        status = scheduler.container(name)
        ended = status.last_state.terminated if status else None
        at = parse_time(ended.finished_at) if ended else None
        if ended and (at is None or at >= cluster.now() - since):
            yield msgspec.structs.replace(log, previous=True)


def _as_it_runs(log: LogOf, deployment: Workload | None) -> LogOf:
    """With the level that an open change set in the running process; a container that began later never had it."""
    text = deployment.metadata.annotation(KEY) if deployment else None
    record = read_record(text) if text is not None else None
    if text is None or not isinstance(record, Record) or not record.new.isdecimal():
        return log
    if (record.means, record.kind, record.container) != ("debug-flags", VERBOSITY, log.container):
        return log
    began = log.scheduler.running_since(log.container)
    if began is not None and began.timestamp() > record.since:
        return log
    return msgspec.structs.replace(log, verbosity=int(record.new), change=text)


async def gather_extender_lines(
    cluster: Cluster,
    install: Install,
    needles: Sequence[str],
    limit_bytes: int = 32 * 1024 * 1024,
    since_s: int = 600,
) -> ExtenderLines:
    """Reads the last `since_s` seconds' lines with a needle from the extenders, the leader first; never raises."""
    read = sorted(install.pods, key=lambda pod: pod is not install.leader)
    needle, *others = (needle.encode() for needle in needles)
    asked = LogWanted("", "", EXTENDER_CONTAINER, needle, since_s, limit_bytes=limit_bytes, others=tuple(others))
    wanted = [(pod, msgspec.structs.replace(asked, namespace=pod.namespace, pod=pod.name)) for pod in read]
    logs = await asyncio.gather(*(seen(source_of(pod), cluster.log(want)) for pod, want in wanted))
    lines: list[tuple[Pod, str]] = []
    gaps: list[Gap] = []
    for scheduler, log in zip(read, logs, strict=True):
        if isinstance(log, Gap):
            gaps.append(log)
            continue
        lines += [(scheduler, line) for line in log.lines]
        if log.cut:
            gaps.append(left_out(source_of(scheduler), log))
    first = tuple(log.first for log in logs if not isinstance(log, Gap))
    return ExtenderLines(tuple(lines), tuple(gaps), first)


def source_of(scheduler: Pod) -> str:
    """The name of the extender's log in gaps."""
    return f"log of {scheduler.namespace}/{scheduler.name}"


def left_out(source: str, log: LogLines) -> Gap:
    """The gap of a log that was not read whole."""
    if log.ends_early:
        return gap(source, Text("error-gather.newest-lines-missing"), Text("error-gather.shorter-time-is-whole"))
    return gap(source, Text("error-gather.older-lines-missing"))
