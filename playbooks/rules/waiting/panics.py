"""Rules about panics of HAMi's extender: inside a request, which breaks the answer to kube-scheduler, or fatal ones. A
panic is looked for in what the schedulers' logs say about one pod: lines, filter runs, kube-scheduler's statements.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from bot.hami.installation.install import Install
from bot.hami.scheduler_logs.filter_runs import Cycle, rebuild
from bot.hami.scheduler_logs.log_lines import (
    LogLine,
    Panic,
    may_be_panic,
    read_line,
    read_panics,
    says_answer_broke_off,
    says_nobody_listened,
    whose,
)
from bot.hami.scheduler_logs.scheduling_events import Unschedulable, parse_unschedulable
from bot.kube.hami_pods import EXTENDER_CONTAINER, KUBE_SCHEDULER_CONTAINER
from bot.kube.models import Pod
from bot.kube.times import parse_time
from bot.report import Confidence, Evidence, Finding, Gap, NextAction, Severity, one_line, step
from bot.texts import Prose, Text
from playbooks.attempt import Attempt
from playbooks.gather.node_side import LogSeen
from playbooks.gather.scheduler_logs import LogOf
from playbooks.gather.scheduler_process import ended_by_panic
from playbooks.quotes import kubectl_logs, of_logged, shown
from playbooks.rule import rule
from playbooks.rules.common.findings import finding
from playbooks.scenes.waiting_pod import HamiScene, PodScene

_MAX_SHOWN = 2
_ROUNDED, _AT_ONCE = timedelta(seconds=1), timedelta(seconds=3)
"""How long before and after a run's start a panic is taken as its own: panics have whole seconds, runs milliseconds."""
_WROTE = timedelta(seconds=10)
"""The time within which kube-scheduler logs how a call ended."""
_BACK_OFF = timedelta(minutes=6)
"""The time after a panic in which nobody may answer: kubelet starts an ended container again after 5 min at most."""
_RECENT = timedelta(minutes=10)
_LONGEST = 300
_NO_FIT = "Unable to schedule pod; no fit; waiting"
_ODD = timedelta(days=180)
"""A klog time that is older counts as ahead of now: without a year, such a time was taken for last year's."""


class LogSubject(NamedTuple):
    """The pod whose log lines are looked for, and since when. Without a `uid` the newest run tells which pod it is."""

    namespace: str
    name: str
    uid: str
    since: datetime
    now: datetime


class PodLog(NamedTuple):
    """The lines of one log about the pod, since the time asked about; `older` is the newest line before.

    `bare` lines have the pod's name without a namespace, and decide nothing. `ahead` counts lines with a time in the
    future, which show that the log's zone is not UTC.
    """

    log: LogOf
    lines: tuple[LogLine, ...]
    bare: tuple[LogLine, ...]
    older: LogLine | None
    ahead: int


class RunInLog(NamedTuple):
    log: LogOf
    cycle: Cycle


class Statement(NamedTuple):
    """kube-scheduler's own summary of a failed attempt, and its log line."""

    log: LogOf
    line: LogLine
    said: Unschedulable


class Logged(NamedTuple):
    """What logs have about one pod. `runs` are oldest first; `earlier` counts those of an earlier pod of the name."""

    namespace: str
    others: tuple[str, ...]
    logs: tuple[PodLog, ...]
    runs: tuple[RunInLog, ...]
    earlier: int
    statement: Statement | None

    @property
    def lines(self) -> int:
        return sum(len(log.lines) for log in self.logs)


def namespaces_named(logs: Iterable[LogOf], name: str, now: datetime) -> list[str]:
    """The namespaces of pods of that name in the logs, that of the newest line first."""
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
    """The lines, filter runs and statements about the pod in these logs."""
    others = [found for found in namespaces_named(logs, about.name, about.now) if found != about.namespace]
    read = tuple(_one_log(log, about) for log in logs)
    of_hami = [log for log in read if log.log.container == EXTENDER_CONTAINER]
    runs = [RunInLog(log.log, cycle) for log in of_hami for cycle in rebuild(log.lines)]
    runs.sort(key=lambda run: run.cycle.at or _LONG_AGO)
    uid = about.uid or next((run.cycle.uid for run in reversed(runs) if run.cycle.uid), "")
    own = tuple(run for run in runs if run.cycle.uid in ("", uid))
    statements = [
        Statement(log.log, line, said)
        for log in read
        if log.log.container == KUBE_SCHEDULER_CONTAINER
        for line in log.lines
        if line.message == _NO_FIT and (said := parse_unschedulable(line.values.get("err", "")))
    ]
    newest = max(statements, key=lambda statement: statement.line.at or _LONG_AGO, default=None)
    return Logged(about.namespace, tuple(others), read, own, len(runs) - len(own), newest)


def _one_log(log: LogOf, about: LogSubject) -> PodLog:
    own: list[LogLine] = []
    bare: list[LogLine] = []
    older: LogLine | None = None
    ahead = 0
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
        (own if at else bare).append(line)
    return PodLog(log, tuple(own), tuple(bare), older, ahead)


class _LoggedPanic(NamedTuple):
    log: LogSeen
    panic: Panic

    @property
    def ended_at(self) -> str:
        """When the process ended with this panic; empty where it runs on, or the time is not known."""
        return (ended_by_panic(self.log.pod) or "") if self.log.previous else ""

    @property
    def at(self) -> datetime | None:
        """When the panic was; if it has no time of its own, when its process ended."""
        return self.panic.at or parse_time(self.ended_at)

    def explains(self, attempt: Attempt) -> bool:
        """Whether the call broke within seconds of the panic, or met nobody while the process was started again."""
        if self.at is None or attempt.at is None or attempt.evidence is None:
            return False
        refused = says_nobody_listened(attempt.evidence.quote)
        if refused and not self.log.previous:
            return False
        return -_ROUNDED <= attempt.at - self.at <= (_BACK_OFF if refused else _WROTE)


@rule("scheduler-panic")
def panicked(scene: PodScene) -> Iterator[Finding]:
    """The finding that the extender panicked when asked about the pod, by its log or how the answer ended."""
    attempt = scene.attempt
    if not _may_be_panic(attempt) or attempt.evidence is None:
        return
    found = _crashes(scene.process.panics)
    if near := [crash for crash in found if crash.explains(attempt)]:
        yield _told(near, [attempt.evidence], Text("scheduler-panic.claim", what=_what(near)), of=scene.install)
    elif says_answer_broke_off(attempt.evidence.quote) and (attempt.stage != "bind" or found):
        claim = Text("scheduler-panic.suspected", why=one_line(attempt.evidence.quote, 80))
        proofs = [attempt.evidence, *map(_of_line, found[: -_MAX_SHOWN - 1 : -1])]
        read = list(map(_stack, scene.install.pods[:1]))
        of = scene.install
        yield finding("scheduler-panic", claim, "suspected", proofs=proofs, severity="critical", actions=read, of=of)


def panicked_elsewhen(scene: PodScene) -> Iterator[Finding]:
    """The finding of panics of a running extender that do not explain why a call about the pod got no answer."""
    if _may_be_panic(scene.attempt) and (found := _survived(scene)):
        yield _recovered(scene, found, severity="info", confidence="suspected")


@rule("scheduler-panic")
def recovered(scene: HamiScene) -> Iterator[Finding]:
    """The finding that the extender panicked and runs on, whichever pod it was asked about."""
    if found := _survived(scene):
        yield _recovered(scene, found, severity="warning")


@rule("scheduler-panic")
def extender_ended(scene: HamiScene) -> Iterator[Finding]:
    """The finding that a panic ended the extender a short while ago, or that no scheduler is ready after one."""
    found = _ends(scene)
    if scene.install.ready_pods:
        times = [(crash, parse_time(crash.ended_at)) for crash in found]
        found = [crash for crash, at in times if at is None or scene.now - at <= _RECENT]
    if found:
        yield _end_told(scene, found)


@rule("scheduler-panic")
def extender_ended_before(scene: HamiScene) -> Iterator[Finding]:
    """The finding that a panic ended the extender's run before this one, for as long as kubelet keeps its log."""
    if found := _ends(scene):
        yield _end_told(scene, found)


def _ends(scene: HamiScene) -> list[_LoggedPanic]:
    return [crash for crash in _crashes(scene.process.panics) if crash.log.previous]


def _end_told(scene: HamiScene, found: list[_LoggedPanic]) -> Finding:
    last = found[-1]
    key = "scheduler-panic.ended-at" if last.ended_at else "scheduler-panic.ended"
    claim = Text(key, what=_what(found), pod=last.log.pod.name, at=last.ended_at)
    severity: Severity = "warning" if scene.install.ready_pods else "critical"
    return _told(found, [], claim, severity=severity, of=scene.install)


def _may_be_panic(attempt: Attempt) -> bool:
    asked = attempt.stage in ("extender", "bind")
    return asked and attempt.evidence is not None and may_be_panic(attempt.evidence.quote)


def _survived(scene: HamiScene) -> list[_LoggedPanic]:
    return [crash for crash in _crashes(scene.process.panics) if not crash.log.previous] if scene.install.seen else []


def panicked_in(runs: Sequence[RunInLog], logs: tuple[LogSeen, ...], steps: tuple[NextAction, ...]) -> list[Finding]:
    """The finding that the newest filter run ended in a panic; `steps` come before the step to read the stack."""
    began = runs[-1].cycle.at if runs else None
    if began is None or runs[-1].cycle.has_result:
        return []
    name = runs[-1].log.scheduler.name
    found = [crash for crash in _crashes(logs) if crash.log.pod.name == name and crash.panic.at]
    near = [crash for crash in found if crash.panic.at and -_ROUNDED <= crash.panic.at - began <= _AT_ONCE]
    if not near:
        return []
    claim = Text("scheduler-panic.claim", what=_what(near))  # another pod's run may have begun in that second
    return [_told(near, [], claim, confidence="suspected", steps=steps)]


def _recovered(
    scene: HamiScene, found: list[_LoggedPanic], *, severity: Severity, confidence: Confidence = "confirmed"
) -> Finding:
    name = found[-1].log.pod.name
    claim = Text("scheduler-panic.recovered", what=_what(found), pod=name, count=len(found))
    return _told(found, [], claim, severity=severity, confidence=confidence, of=scene.install)


def _crashes(logs: tuple[LogSeen, ...]) -> list[_LoggedPanic]:
    found = [_LoggedPanic(log, panic) for log in logs for panic in read_panics(log.lines)]
    return sorted(found, key=lambda crash: (not crash.log.previous, str(crash.panic.at or "")))


def _what(found: list[_LoggedPanic]) -> str:
    return one_line(found[-1].panic.what, 60)


def _told(
    found: list[_LoggedPanic],
    proofs: list[Evidence],
    claim: Prose,
    *,
    severity: Severity = "critical",
    confidence: Confidence = "confirmed",
    steps: tuple[NextAction, ...] = (),
    of: Install | None = None,
) -> Finding:
    proofs = [*proofs, *map(_of_line, found[: -_MAX_SHOWN - 1 : -1])]
    last = found[-1].log
    steps = (*steps, _stack(last.pod, *(["--previous"] if last.previous else [])))
    return finding("scheduler-panic", claim, confidence, proofs=proofs, severity=severity, actions=steps, of=of)


def _of_line(found: _LoggedPanic) -> Evidence:
    log, raw, at = found.log, shown(found.panic.raw)[:_LONGEST], found.panic.at
    options = ("--previous",) if log.previous else ()
    return of_logged(log.pod, EXTENDER_CONTAINER, raw, at, *options, grep="-E 'panic|fatal error'")


def _stack(scheduler: Pod, *options: str) -> NextAction:
    log = kubectl_logs(scheduler, EXTENDER_CONTAINER, *options)
    return step(Text("scheduler-panic.stack"), f"{log} | grep -A 20 panic")
