"""What the newest filter run of a pod says, what kube-scheduler made of it, and how closely was looked."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from functools import cached_property

from bot.finding_codes import Code
from bot.hami.scheduler_logs.log_lines import read_line
from bot.hami.scheduler_logs.scheduling_events import REASONS
from bot.kube.models import Node, Pod
from bot.kube.times import format_time, parse_time
from bot.report import Finding, Gap, step
from bot.texts import Prose, Text
from playbooks.gather.scheduler_logs import MAX_SCHEDULERS, LogOf
from playbooks.gather.scheduler_process import PanicLog
from playbooks.gather.subject import AbsentPod, FoundPod, SubjectRequest
from playbooks.rule import Stage, Told, rule
from playbooks.rules.admission.not_found import not_found
from playbooks.rules.common import prose
from playbooks.rules.common.findings import finding
from playbooks.rules.waiting import filter_run_findings
from playbooks.rules.waiting.filter_run_findings import RunWording
from playbooks.rules.waiting.panics import Logged, LogSubject, namespaces_named, panicked_in, read_logs
from playbooks.scenes.cluster import OfInstall

UNSAID = "?"
SLACK = timedelta(minutes=1)
"""A log that begins this much after the window does has lost its beginning; a quiet one may begin a little later."""
_OF_HAMI: set[Code] = {"node-unfit-pod", *(reason.finding for reason in REASONS)}
_IN_SECONDS = 120
"""Shorter times are told in seconds."""


class LogsScene(OfInstall, frozen=True, dict=True, eq=False):
    """The logs, and what is known of the pod itself. `nodes` is empty where no line is about a card.

    `since` is how far back, `words` the same as typed; `as_of` the moment to count back from.
    """

    wanted: SubjectRequest
    since: timedelta
    words: str
    taken_at: datetime
    as_of: datetime
    subject: FoundPod | AbsentPod | Gap
    logs: tuple[LogOf, ...]
    panics: tuple[PanicLog, ...]
    nodes: Sequence[Node] | Gap
    undecodable: tuple[str, ...]

    @property
    def pod(self) -> Pod | None:
        """The pod, where it is there."""
        return self.subject.pod if isinstance(self.subject, FoundPod) else None

    @cached_property
    def about(self) -> LogSubject:
        """A pod that is gone, and was typed without its namespace, is the one of that name with the newest line."""
        pod, wanted = self.pod, self.wanted
        name, namespace = (pod.name, pod.namespace) if pod else (wanted.name, wanted.namespace)
        if not namespace:
            namespace = next(iter(namespaces_named(self.logs, name, self.taken_at)), "")
        return LogSubject(namespace, name, pod.metadata.uid if pod else "", self.as_of - self.since, self.taken_at)

    @cached_property
    def logged(self) -> Logged:
        """What the logs have of the pod."""
        return read_logs(self.logs, self.about)

    @cached_property
    def wording(self) -> RunWording:
        """How the findings are told."""
        about, pod = self.about, self.pod
        full = f"{about.namespace}/{about.name}" if about.namespace else about.name
        unread = self.seen.gaps or any(_newest_unread(log) for log in self.logs)
        unread = unread or len(self.install.pods) > MAX_SCHEDULERS
        waits = isinstance(self.subject, Gap) or bool(pod and pod.status.phase == "Pending" and not pod.spec.node_name)
        gone = isinstance(self.subject, AbsentPod) and bool(self.logged.lines)
        return RunWording(
            pod=Text("logs.gone", pod=full) if gone else full,
            name=about.name,
            since=self.words,
            window=_window(self),
            waits=waits,
            sure=not unread,
        )

    def was_read(self, source: str) -> bool:
        """Whether rules may conclude anything from it: a source is named as its gap would be."""
        return all(gap.source != source for gap in self.seen.gaps)


def _window(scene: LogsScene) -> Prose:
    """How far back the extenders' logs were looked at: the time as typed, or as far as the oldest of them reaches."""
    logs = [log.read for log in scene.logs if log.container == filter_run_findings.EXTENDER_CONTAINER]
    first = [read_line(log.first, scene.taken_at) for log in logs if not isinstance(log, Gap)]
    begun = [line.at for line in first if line and line.at]
    if not begun or len(begun) < len(first) or min(begun) <= scene.about.since + SLACK:
        return scene.words
    seconds = max(1, round((scene.as_of - min(begun)).total_seconds()))
    short = seconds < _IN_SECONDS
    time = Text("age.seconds", count=seconds) if short else Text("age.minutes", count=seconds // 60)
    return Text("logs.kept", time=time)


def _newest_unread(log: LogOf) -> bool:
    """Whether newer lines of the extender may exist than were read."""
    return log.container == filter_run_findings.EXTENDER_CONTAINER and (
        isinstance(log.read, Gap) or log.read.ends_early
    )


@rule("scheduler-panic")
def panicked(scene: LogsScene) -> list[Finding]:
    """The newest run has no result, and HAMi's scheduler panicked as it began."""
    return panicked_in(scene.logged.runs, scene.panics)


@rule("placed", "no-device-request", "node-lock-malformed", "binding-failed", "blocked-after-filter", *_OF_HAMI)
def newest_run(scene: LogsScene) -> list[Finding]:
    """What the newest run says of the nodes, its main reason first."""
    return filter_run_findings.newest_run(scene.logged, scene.wording)


@rule("kubernetes-filter")
def by_kubernetes(scene: LogsScene) -> list[Finding]:
    """kube-scheduler dropped nodes before HAMi was asked."""
    return filter_run_findings.by_kubernetes(scene.logged, scene.wording)


@rule("not-enough-evidence", "not-found", "not-in-log")
def nothing_logged(scene: LogsScene) -> Iterator[Finding]:
    """HAMi logged no run of the pod and kube-scheduler said nothing: why that may be."""
    wording = scene.wording
    read = [log for log in scene.logged.logs if not isinstance(log.log.read, Gap)]
    if not read:
        claim = Text("logs.none-read", pod=wording.pod)
        rights = step(Text("blind.doctor"), prose.command("doctor"))
        steps = [*prose.scheduler_log(scene.install, wording.name), rights]
        yield finding("not-enough-evidence", claim, "suspected", (), (), severity="warning", actions=steps)
        return
    lines = [(log, log.lines[-1]) for log in read if log.lines]
    if not lines and isinstance(scene.subject, AbsentPod):
        yield not_found(scene.subject, scene.wanted, "logs")
        return
    values = {"pod": wording.pod, "since": wording.since, "why": _why_not(scene)}
    if lines:
        log, line = lines[-1]
        proof, claim = filter_run_findings.of_line(log.log, line, wording), Text("logs.no-run", **values)
    else:
        proof, claim = filter_run_findings.of_flag(read[0].log), Text("logs.nothing", count=len(read), **values)
    yield finding("not-in-log", claim, wording.confidence, (), [proof], severity="info")


def _why_not(scene: LogsScene) -> Text:
    """The likeliest reason that HAMi logged nothing; every verbosity logs the start of a filter run."""
    scheduler, pod = scene.install.scheduler_name, scene.pod
    if pod and pod.spec.scheduler_name != scheduler:
        return Text("logs.other-scheduler", scheduler=pod.spec.scheduler_name, hami=scheduler)
    if older := [log.older.at for log in scene.logged.logs if log.older and log.older.at]:
        return Text("logs.before", at=format_time(max(older)))
    if pod and pod.spec.node_name:
        placed = pod.condition("PodScheduled")
        at = parse_time(placed.last_transition_time if placed else None) or parse_time(pod.metadata.creation_timestamp)
        return Text("logs.placed-before", node=pod.spec.node_name, at=format_time(at) if at else UNSAID)
    if pod and pod.condition("PodScheduled") is None:
        return Text("logs.never-tried")
    if any(isinstance(log.read, Gap) for log in scene.logs):
        return Text("logs.unread")
    return Text("logs.never-asked")


@rule("log-verbosity")
def verbosity(scene: LogsScene) -> list[Finding]:
    """At which level the logs were written, and what a higher one would add."""
    return filter_run_findings.verbosity(scene.logs)


def _nothing_told(_: LogsScene, told: Told) -> bool:
    return not told.findings


LOGS_RULES: tuple[Stage[LogsScene], ...] = (
    Stage("the newest run", panicked, newest_run, either=True),
    Stage("before HAMi was asked", by_kubernetes),
    Stage("nothing was logged", nothing_logged, when=_nothing_told),
    Stage("how closely was looked", verbosity),
)
