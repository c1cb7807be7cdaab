"""What HAMi's scheduler logged about one pod: its filter runs over all replicas, node by node and card by card.

The lines of many pods interleave in a log, and every replica has two: kube-scheduler's and the extender's. The pod may
be gone: its name is enough.
"""

import asyncio
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import NamedTuple

import click
from msgspec import structs

from bot.errors import SourceError, Unusable
from bot.hami.scheduler_logs.filter_reasons import LOG_TEXTS
from bot.hami.scheduler_logs.filter_runs import CARD_CODES
from bot.hami.scheduler_logs.log_lines import read_line
from bot.kube.cluster import Cluster, seen
from bot.kube.models import NODES, Node, Pod
from bot.kube.times import format_time, parse_time
from bot.report import Finding, Gap, Report, Subject, gap, new_report, step
from bot.texts import Prose, Text
from playbooks.gather.scheduler_logs import MAX_SCHEDULERS, LogOf, gather_scheduler_logs
from playbooks.gather.scheduler_process import PanicLog, gather_panics
from playbooks.gather.scheduling import InstallSeen, gather_install, install_unread, nothing_read
from playbooks.gather.subject import AbsentPod, FoundPod, SubjectRequest, parse_subject, resolve
from playbooks.logs.tables import LINES, ROUTINE, RUNS, UNSAID, tables_of
from playbooks.lookback import SINCE, read_since
from playbooks.playbook import Playbook, Sources
from playbooks.rules.admission.not_found import not_found
from playbooks.rules.common import prose
from playbooks.rules.common.findings import finding
from playbooks.rules.installation.surroundings import answer_without_hami
from playbooks.rules.waiting import filter_run_findings
from playbooks.rules.waiting.filter_run_findings import RunWording
from playbooks.rules.waiting.panics import (
    Logged,
    LogSubject,
    PodLog,
    namespaces_named,
    newest_time,
    panicked_in,
    read_logs,
)

_ABOUT_CARDS = re.compile("|".join(f'"{re.escape(text)}"' for text in sorted({*CARD_CODES, *LOG_TEXTS})))
_IN_SECONDS = 120
"""Shorter times are told in seconds."""
_SLACK = timedelta(minutes=1)
"""A log that begins this much after the window does has lost its beginning; a quiet one may begin a little later."""


class Request(NamedTuple):
    """Whose lines, and how far back; `words` is the time as typed."""

    subject: SubjectRequest
    since: timedelta
    words: str


class Snapshot(NamedTuple):
    """The logs, and what is known of the pod itself. `nodes` is empty where no line is about a card."""

    request: Request
    cluster: str
    taken_at: datetime
    as_of: datetime
    subject: FoundPod | AbsentPod | Gap
    install: InstallSeen
    logs: tuple[LogOf, ...]
    panics: tuple[PanicLog, ...]
    nodes: list[Node] | Gap
    undecodable: tuple[str, ...]


def request(pod: str, namespace: str = "", since: str = "1h") -> Request:
    """The pod as it was typed; raises UsageError for a time that is none."""
    return Request(parse_subject(pod, namespace), read_since(since), since.strip())


async def gather(wanted: Request, sources: Sources) -> Snapshot:
    """Find HAMi and the pod, then read the logs; the nodes only where a line names a card. Raises Unusable."""
    cluster = sources.cluster
    subject, install = await asyncio.gather(_subject(cluster, wanted.subject), gather_install(sources))
    name = subject.pod.name if isinstance(subject, FoundPod) else wanted.subject.name
    logs, (panics, _) = await asyncio.gather(
        gather_scheduler_logs(cluster, install.install, name, wanted.since), gather_panics(cluster, install.install)
    )
    if isinstance(subject, Gap) and not logs and install_unread(install):
        raise nothing_read(subject)
    nodes: list[Node] | Gap = []
    if any(_ABOUT_CARDS.search(raw) for log in logs if not isinstance(log.read, Gap) for raw in log.read.lines):
        nodes = await seen("nodes", cluster.list(NODES, metadata_only=True))
    as_of = cluster.as_of(newest_time(logs, cluster.now()))
    return Snapshot(
        wanted,
        cluster.name,
        cluster.now(),
        as_of,
        subject,
        install,
        tuple(logs),
        panics,
        nodes,
        tuple(cluster.undecodable),
    )


async def _subject(cluster: Cluster, wanted: SubjectRequest) -> FoundPod | AbsentPod | Gap:
    try:
        return await resolve(cluster, wanted, whole_name=True)
    except Unusable:
        raise
    except SourceError as error:
        return gap("pod", error.message, error.hint)


def diagnose(snapshot: Snapshot) -> Report:
    """What the newest run says, then what kube-scheduler made of it, then how closely was looked."""
    if (without := answer_without_hami("logs", snapshot, snapshot.install)) is not None:
        return without
    pod = snapshot.subject.pod if isinstance(snapshot.subject, FoundPod) else None
    about = _about(snapshot, pod)
    logged = read_logs(snapshot.logs, about)
    wording = _told(snapshot, logged, about, pod)
    findings = panicked_in(logged.runs, snapshot.panics) or filter_run_findings.newest_run(logged, wording)
    findings = [*findings, *filter_run_findings.by_kubernetes(logged, wording)]
    findings = findings or [_nothing(snapshot, logged, wording, pod)]
    if pod:
        full = f"{pod.namespace}/{pod.name}"
        why = step(Text("logs.why", pod=full), prose.command("why", full))
        findings[0] = structs.replace(findings[0], next_actions=(why, *findings[0].next_actions))
    findings += filter_run_findings.verbosity(snapshot.logs)
    nodes = () if isinstance(snapshot.nodes, Gap) else snapshot.nodes
    tables, left = tables_of(logged, nodes, pod, snapshot.taken_at)
    gaps = [*_gaps(snapshot, logged, about)]
    gaps += [gap(title, Text("logs.left-out", count=count), Text("logs.shorter")) for title, count in left if count]
    return new_report(
        playbook="logs",
        cluster=snapshot.cluster,
        taken_at=format_time(snapshot.taken_at),
        subject=Subject("Pod", about.namespace, about.name),
        findings=prose.few_actions(findings),
        tables=tables,
        gaps=gaps,
    )


def _about(snapshot: Snapshot, pod: Pod | None) -> LogSubject:
    """A pod that is gone, and was typed without its namespace, is the one of that name with the newest line."""
    wanted = snapshot.request.subject
    name, namespace = (pod.name, pod.namespace) if pod else (wanted.name, wanted.namespace)
    if not namespace:
        namespace = next(iter(namespaces_named(snapshot.logs, name, snapshot.taken_at)), "")
    since = snapshot.as_of - snapshot.request.since
    return LogSubject(namespace, name, pod.metadata.uid if pod else "", since, snapshot.taken_at)


def _told(snapshot: Snapshot, logged: Logged, about: LogSubject, pod: Pod | None) -> RunWording:
    full = f"{about.namespace}/{about.name}" if about.namespace else about.name
    unread = snapshot.install.gaps or any(_newest_unread(log) for log in snapshot.logs)
    unread = unread or len(snapshot.install.install.pods) > MAX_SCHEDULERS
    waits = isinstance(snapshot.subject, Gap) or bool(pod and pod.status.phase == "Pending" and not pod.spec.node_name)
    gone = isinstance(snapshot.subject, AbsentPod) and bool(logged.lines)
    return RunWording(
        pod=Text("logs.gone", pod=full) if gone else full,
        name=about.name,
        since=snapshot.request.words,
        window=_window(snapshot, about),
        waits=waits,
        sure=not unread,
    )


def _length(seconds: int) -> Text:
    if seconds < _IN_SECONDS:
        return Text("age.seconds", count=seconds)
    return Text("age.minutes", count=seconds // 60)


def _window(snapshot: Snapshot, about: LogSubject) -> Prose:
    """How far back the extenders' logs were looked at: the time as typed, or as far as the oldest of them reaches."""
    logs = [log.read for log in snapshot.logs if log.container == filter_run_findings.EXTENDER_CONTAINER]
    first = [read_line(log.first, snapshot.taken_at) for log in logs if not isinstance(log, Gap)]
    begun = [line.at for line in first if line and line.at]
    if not begun or len(begun) < len(first) or min(begun) <= about.since + _SLACK:
        return snapshot.request.words
    seconds = max(1, round((snapshot.as_of - min(begun)).total_seconds()))
    return Text("logs.kept", time=_length(seconds))


def _newest_unread(log: LogOf) -> bool:
    """Whether newer lines of the extender may exist than were read."""
    return log.container == filter_run_findings.EXTENDER_CONTAINER and (
        isinstance(log.read, Gap) or log.read.ends_early
    )


# ------------------------------------------------------------------------------------------- nothing was logged


def _nothing(snapshot: Snapshot, logged: Logged, wording: RunWording, pod: Pod | None) -> Finding:
    """No run and no statement of kube-scheduler: why that may be."""
    read = [log for log in logged.logs if not isinstance(log.log.read, Gap)]
    if not read:
        return finding(
            "not-enough-evidence", Text("logs.none-read", pod=wording.pod), "suspected", (), (), severity="warning"
        )
    lines = [(log, log.lines[-1]) for log in read if log.lines]
    if not lines and isinstance(snapshot.subject, AbsentPod):
        return not_found(snapshot.subject, snapshot.request.subject, "logs")
    values = {"pod": wording.pod, "since": wording.since, "why": _why_not(snapshot, logged, pod)}
    if lines:
        log, line = lines[-1]
        proofs, claim = [filter_run_findings.of_line(log.log, line, wording)], Text("logs.no-run", **values)
    else:
        proofs, claim = (
            [filter_run_findings.of_flag(pod_log.log) for pod_log in read[:1]],
            Text("logs.nothing", count=len(read), **values),
        )
    return finding("not-in-log", claim, wording.confidence, (), proofs, severity="info")


def _why_not(snapshot: Snapshot, logged: Logged, pod: Pod | None) -> Text:
    """The likeliest reason that HAMi logged nothing; every verbosity logs the start of a filter run."""
    scheduler = snapshot.install.install.scheduler_name
    if pod and pod.spec.scheduler_name != scheduler:
        return Text("logs.other-scheduler", scheduler=pod.spec.scheduler_name, hami=scheduler)
    if older := [log.older.at for log in logged.logs if log.older and log.older.at]:
        return Text("logs.before", at=format_time(max(older)))
    if pod and pod.spec.node_name:
        placed = pod.condition("PodScheduled")
        at = parse_time(placed.last_transition_time if placed else None) or parse_time(pod.metadata.creation_timestamp)
        return Text("logs.placed-before", node=pod.spec.node_name, at=format_time(at) if at else UNSAID)
    if pod and pod.condition("PodScheduled") is None:
        return Text("logs.never-tried")
    if any(isinstance(log.read, Gap) for log in snapshot.logs):
        return Text("logs.unread")
    return Text("logs.never-asked")


# --------------------------------------------------------------------------------------------------------- gaps


def _gaps(snapshot: Snapshot, logged: Logged, about: LogSubject) -> Iterator[Gap]:
    yield from snapshot.install.gaps
    yield from (gap("objects", name, Text("gap.undecodable")) for name in snapshot.undecodable)
    yield from (gap for gap in (snapshot.subject, snapshot.nodes) if isinstance(gap, Gap))
    yield from () if isinstance(snapshot.subject, Gap) else snapshot.subject.gaps
    if (more := len(snapshot.install.install.pods) - MAX_SCHEDULERS) > 0:
        yield gap("scheduler pods", Text("logs.more-schedulers", count=more))
    for log in logged.logs:
        yield from _gaps_of(snapshot, log, about)
    if any(run.cycle.mixed for run in logged.runs):
        yield gap(RUNS.title, Text("logs.mixed"), Text("logs.mixed-hint"))
    if logged.earlier:
        yield gap(RUNS.title, Text("logs.earlier", count=logged.earlier))
    if routine := sum(line.message in ROUTINE for log in logged.logs for line in log.lines):
        yield gap(LINES.title, Text("logs.routine", count=routine))
    bare = sum(len(pod_log.bare) for pod_log in logged.logs)
    if bare and logged.others:
        yield gap(LINES.title, Text("logs.bare", count=bare, name=about.name, others=", ".join(logged.others)))


def _gaps_of(snapshot: Snapshot, log: PodLog, about: LogSubject) -> Iterator[Gap]:
    source, read = f"log of {log.log.scheduler.namespace}/{log.log.label}", log.log.read
    if isinstance(read, Gap):
        yield read
        return
    first = read_line(read.first, snapshot.taken_at)
    if first and first.at and first.at > about.since + _SLACK:
        yield gap(source, Text("logs.begins-late", at=format_time(first.at)), Text("logs.begins-late-hint"))
    if read.ends_early:
        yield gap(source, Text("logs.ends-early"), Text("logs.shorter"))
    elif read.cut:
        yield gap(source, Text("logs.cut"), Text("logs.shorter"))
    if log.ahead:
        yield gap(source, Text("logs.ahead", count=log.ahead))
    if log.open_ended:
        yield gap(source, Text("logs.open-ended", count=log.open_ended))
    if log.older and log.older.at and not log.lines:
        yield gap(source, Text("logs.older", at=format_time(log.older.at)), Text("logs.longer"))


PLAYBOOK = Playbook(
    verb="logs",
    summary="What did HAMi's scheduler log about a pod?",
    example="logs ml/trainer-0 --since 1h",
    parameters=(
        click.Argument(["pod"], metavar="POD|KIND/NAME"),
        click.Option(["-n", "--namespace"], default="", metavar="NS", help="The pod's namespace."),
        SINCE,
    ),
    request=request,
    gather=gather,
    diagnose=diagnose,
)
