"""What the schedulers' logs say about one pod: its lines, its filter runs, and what kube-scheduler made of them."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from bot.hami.scheduler_logs.filter_runs import Cycle, rebuild
from bot.hami.scheduler_logs.log_lines import LogLine, read_line, whose
from bot.hami.scheduler_logs.scheduling_events import Unschedulable, parse_unschedulable
from bot.kube.hami_pods import EXTENDER_CONTAINER, KUBE_SCHEDULER_CONTAINER
from bot.report import Gap
from playbooks.gather.scheduler_logs import LogOf

_NO_FIT = "Unable to schedule pod; no fit; waiting"
_ODD = timedelta(days=180)
"""klog writes no year: a time that lies ahead is taken for last year's, which no log of a pod's last days is."""


class LogSubject(NamedTuple):
    """Whose lines, and of which time. Without a `uid` the newest run tells which pod of that name is meant."""

    namespace: str
    name: str
    uid: str
    since: datetime
    now: datetime


class PodLog(NamedTuple):
    """The lines of one log about the pod, in the window.

    `older` is the newest line before the window. `bare` have the pod's name without a namespace: they decide nothing.
    `ahead` counts the lines whose time lies in the future, so that the log's zone is not UTC. `open_ended` counts the
    lines whose values go on in further lines.
    """

    log: LogOf
    lines: tuple[LogLine, ...]
    bare: tuple[LogLine, ...]
    older: LogLine | None
    ahead: int
    open_ended: int


class Run(NamedTuple):
    """A filter run and the log that it stands in."""

    log: LogOf
    cycle: Cycle


class Statement(NamedTuple):
    """kube-scheduler's own sum of a failed attempt."""

    log: LogOf
    line: LogLine
    said: Unschedulable


class Logged(NamedTuple):
    """Everything about one pod. `runs` are oldest first; those of an earlier pod of the same name are only counted."""

    namespace: str
    others: tuple[str, ...]
    logs: tuple[PodLog, ...]
    runs: tuple[Run, ...]
    earlier: int
    statement: Statement | None

    @property
    def lines(self) -> int:
        return sum(len(log.lines) for log in self.logs)


def namespaces_named(logs: Iterable[LogOf], name: str, now: datetime) -> list[str]:
    """The namespaces of the pods of that name in the logs, that of the newest line first."""
    newest: dict[str, datetime] = {}
    for raw in _raws(logs):
        line = read_line(raw, now)
        if line and (namespace := whose(line, name)):
            newest[namespace] = max(newest.get(namespace, _LONG_AGO), line.at or _LONG_AGO)
    return sorted(newest, key=lambda namespace: (-newest[namespace].timestamp(), namespace))


_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


def _raws(logs: Iterable[LogOf]) -> Iterable[str]:
    return (raw for log in logs if not isinstance(log.read, Gap) for raw in log.read.lines)


def newest_time(logs: Iterable[LogOf], now: datetime) -> Iterable[str]:
    """The time of each log's last line, as RFC 3339."""
    for log in logs:
        lines = () if isinstance(log.read, Gap) else log.read.lines[-1:]
        yield from (line.at.isoformat() for raw in lines if (line := read_line(raw, now)) and line.at)


def read_logs(logs: Sequence[LogOf], about: LogSubject) -> Logged:
    """The pod's lines and runs."""
    others = tuple(
        namespace for namespace in namespaces_named(logs, about.name, about.now) if namespace != about.namespace
    )
    read = tuple(_one_log(log, about) for log in logs)
    of_hami = [log for log in read if log.log.container == EXTENDER_CONTAINER]
    runs = [Run(log.log, cycle) for log in of_hami for cycle in rebuild(log.lines)]
    runs.sort(key=lambda run: run.cycle.at or _LONG_AGO)
    uid = about.uid or next((run.cycle.uid for run in reversed(runs) if run.cycle.uid), "")
    own = tuple(run for run in runs if run.cycle.uid in ("", uid))
    return Logged(about.namespace, others, read, own, len(runs) - len(own), _statement(read))


def _one_log(log: LogOf, about: LogSubject) -> PodLog:
    own: list[LogLine] = []
    bare: list[LogLine] = []
    older: LogLine | None = None
    ahead = open_ended = 0
    for raw in _raws([log]):
        line = read_line(raw, about.now)
        at = whose(line, about.name) if line else None
        if line is None or at not in ("", about.namespace):
            continue
        if line.at is None or line.at < about.now - _ODD:
            ahead += 1
            line = line._replace(at=None)
        elif line.at < about.since:
            older = line
            continue
        open_ended += raw.endswith("=<")
        (own if at else bare).append(line)
    return PodLog(log, tuple(own), tuple(bare), older, ahead, open_ended)


def _statement(logs: Iterable[PodLog]) -> Statement | None:
    """The newest one."""
    found = [
        Statement(log.log, line, said)
        for log in logs
        if log.log.container == KUBE_SCHEDULER_CONTAINER
        for line in log.lines
        if line.message == _NO_FIT and (said := parse_unschedulable(line.values.get("err", "")))
    ]
    return max(found, key=lambda statement: statement.line.at or _LONG_AGO, default=None)
