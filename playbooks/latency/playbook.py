"""Where the time goes between a pod's creation and its start."""

from datetime import datetime, timedelta
from typing import NamedTuple

from bot.hami.scheduler_logs.scheduling_latency import Stage, measure, settled
from bot.kube.cluster import seen
from bot.kube.models import EVENTS, Event
from bot.kube.times import format_time
from bot.report import Evidence, Finding, Gap, Report, Subject, new_report
from bot.texts import Prose, Text, sentences
from playbooks.gather.latency import LatencySeen, gather_latency
from playbooks.gather.scheduling import InstallSeen, gather_install, nothing_read
from playbooks.latency.proof import of_moment
from playbooks.latency.reasons import BY_KUBELET, longest, reason_of, retried
from playbooks.latency.rows import COUNTS, LATENCY, PODS, count_rows, pod_rows, stage_rows
from playbooks.latency.unseen import show_attempts, unseen_moments
from playbooks.lookback import SINCE, read_since
from playbooks.playbook import ALL, Playbook, Sources
from playbooks.rules.common.findings import finding
from playbooks.rules.common.prose import few_actions
from playbooks.rules.installation.surroundings import answer_without_hami

_SHOWN_PODS = 5


class Request(NamedTuple):
    """How far back, also as typed. `all`: every pod instead of an overview."""

    since: timedelta
    words: str
    all: bool


class Snapshot(NamedTuple):
    """The new pods with their moments, at one moment. `events` are of the pod that was slowest to start."""

    request: Request
    cluster: str
    taken_at: datetime
    install: InstallSeen
    seen: LatencySeen
    events: list[Event] | Gap


def request(since: str = "1h", all: bool = False) -> Request:  # noqa: A002, FBT001, FBT002  # the options' names
    """Raises UsageError for a time that is none."""
    return Request(read_since(since), since.strip(), all)


async def gather(wanted: Request, sources: Sources) -> Snapshot:
    """The new pods, the schedulers' logs, and the events of the pod that was slowest to start. Raises Unusable."""
    cluster = sources.cluster
    install = await gather_install(sources)
    found = await gather_latency(cluster, install, cluster.now() - wanted.since)
    if found.unread:
        raise nothing_read(found.gaps[0])
    top = longest(measure(settled(found.lives)))
    events: list[Event] | Gap = []
    if top and top.start in BY_KUBELET:
        pod = top.lives[0].pod
        about = f"involvedObject.name={pod.name}"
        events = await seen("events", cluster.list(EVENTS, pod.namespace, fields=about))
    return Snapshot(wanted, cluster.name, cluster.now(), install, found, events)


def diagnose(snapshot: Snapshot) -> Report:
    """The stage that takes the most and why; a row for each stage, then the slowest pods."""
    if (without := answer_without_hami("latency", snapshot, snapshot.install)) is not None:
        return without
    stages = measure(settled(snapshot.seen.lives))
    head, findings = _findings(snapshot, stages)
    overview = not snapshot.request.all
    rows, slowest = stage_rows(stages), pod_rows(stages)
    counts = count_rows(snapshot.seen.counts, len(snapshot.seen.lives), len(snapshot.seen.pending))
    tables = [LATENCY.table(rows, brief=rows if overview else None)] if snapshot.seen.lives else []
    tables += [PODS.table(slowest, brief=slowest[:_SHOWN_PODS] if overview else None)] if slowest else []
    return new_report(
        playbook="latency",
        cluster=snapshot.cluster,
        taken_at=format_time(snapshot.taken_at),
        subject=Subject("Cluster", "", ""),
        verdict=head,
        findings=few_actions(findings),
        tables=(*tables, COUNTS.table(counts, brief=counts if overview else None)),
        gaps=_gaps(snapshot),
    )


def _findings(snapshot: Snapshot, stages: list[Stage]) -> tuple[Prose, list[Finding]]:
    top = longest(stages)
    if top is None:
        pending = snapshot.seen.pending
        text = "latency.none-yet" if pending else "latency.none"
        claim = Text(text, since=snapshot.request.words, count=len(pending))
        steps = show_attempts(snapshot.seen)
        return claim, [finding("not-enough-evidence", claim, "suspected", (), (), severity="info", actions=steps)]
    events = [] if isinstance(snapshot.events, Gap) else snapshot.events
    reason = reason_of(top, stages, snapshot.seen, events)
    head = _head(snapshot, stages[-1], top)
    pending = len(snapshot.seen.pending) if stages[-1].n else 0
    left = Text("latency.pending", count=pending) if pending else ""
    incomplete = bool(snapshot.seen.gaps or snapshot.install.gaps)
    found = [
        finding(
            "scheduling-latency",
            sentences(head, reason.text, left),
            "suspected" if incomplete else reason.confidence,
            (),
            (*_slowest(top), *reason.evidence),
            severity="warning" if reason.slow else "info",
            actions=(*reason.actions, *show_attempts(snapshot.seen)),
        )
    ]
    again = retried(snapshot.seen)
    if again and again.evidence and again.evidence[0] not in reason.evidence:
        found.append(finding("scheduling-latency", again.text, "confirmed", (), again.evidence, severity="info"))
    return head, found


def _head(snapshot: Snapshot, whole: Stage, top: Stage) -> Text:
    values = {"since": snapshot.request.words, "stage": top.name, "top": top.median_s}
    if whole.n:
        return Text("latency.claim", **values, count=whole.n, median=whole.median_s, p95=whole.p95_s)
    return Text("latency.claim-unstarted", **values, count=top.n)


def _slowest(top: Stage) -> list[Evidence]:
    life = top.lives[0]
    ends = (top.start, top.end)
    return [proof for moment in ends for proof in of_moment(life, moment, exact=moment in life.logged and top.exact)]


def _gaps(snapshot: Snapshot) -> list[Gap]:
    gaps = [*snapshot.install.gaps, *snapshot.seen.gaps]
    gaps += [snapshot.events] if isinstance(snapshot.events, Gap) else []
    return [*gaps, *unseen_moments(snapshot.seen)]


PLAYBOOK = Playbook(
    verb="latency",
    summary="Where does the time go between a GPU pod's creation and its start?",
    example="latency --since 1h",
    parameters=(SINCE, ALL),
    request=request,
    gather=gather,
    diagnose=diagnose,
)
