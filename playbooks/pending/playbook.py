"""Which pods wait for HAMi's cards, and for what: each judged as `why` does, together with those of the same cause."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import click
from msgspec import structs

from bot.kube.models import Pod
from bot.kube.times import format_time, parse_time
from bot.report import SEVERITIES, Finding, FirstNames, Gap, Report, Severity, Sheet, Subject, gap, new_report, step
from bot.texts import Text
from playbooks import quotes
from playbooks.gather.pods import Waiting, gather_scene, gather_waiting, is_of
from playbooks.gather.scheduling import InstallSeen
from playbooks.gather.subject import EmptyNamespace, gather_deserted
from playbooks.judgement.waiting import JudgedPod, by_cause, judge_all, waiting_row
from playbooks.pending.rows import CauseRow, OthersRow, PendingRow
from playbooks.playbook import ALL, Playbook, Sources, read_namespace
from playbooks.rules.admission.not_found import no_such_namespace
from playbooks.rules.common import prose
from playbooks.rules.common.findings import finding
from playbooks.scenes.cluster import ClusterScene

CAUSES = Sheet(
    "causes",
    CauseRow,
    brief={"cause": "cause", "pods": "pods", "oldest": "oldest pod", "waiting_since": "waits", "nodes": "nodes"},
    tells_findings=True,
)
PODS = Sheet("pending", PendingRow)
OTHERS = Sheet(
    "other schedulers",
    OthersRow,
    brief={"scheduler": "scheduler", "pods": "pods", "oldest": "oldest pod", "waiting_since": "waits"},
)

_MAX_GROUPS = 10
_PROVEN = 3
_GRACE = timedelta(seconds=30)
"""A pod that is younger waits as every pod does: a scheduling cycle, an event and a log line take seconds."""


class Request(NamedTuple):
    """What is asked: of which namespace; empty for all. `all`: everything instead of an overview.

    `mine`: of the asker's pods alone; `whose` are the namespaces and labels (`ml`, `owner=ada`) that the surface knows
    them by, empty where it knows none: then they are those of the credentials' own namespace.
    """

    namespace: str
    all: bool
    mine: bool = False
    whose: tuple[str, ...] = ()


class Snapshot(NamedTuple):
    """The pods that wait, and what bears on them; `scene` is None where there is none.

    `deserted`: none waits, and nothing else was seen in the namespace either.
    """

    request: Request
    cluster: str
    taken_at: datetime
    install: InstallSeen
    waiting: Waiting
    scene: ClusterScene | None
    deserted: EmptyNamespace | Gap | None
    undecodable: tuple[str, ...]


class WaitingGroup(NamedTuple):
    """Pods of one cause, the oldest first; `cause` is the oldest's."""

    cause: Finding
    severity: Severity
    pods: list[Pod]


def request(
    namespace: str = "",
    all: bool = False,  # noqa: A002, FBT001, FBT002  # the options' names
    named: str = "",
    mine: bool = False,  # noqa: FBT001, FBT002  # the same
) -> Request:
    """The namespace as typed, `ns/ml` and `ml/` too."""
    return Request(read_namespace(namespace or named), all, mine)


async def gather(wanted: Request, sources: Sources) -> Snapshot:
    """Read the pods that wait, and the cluster only where some do. Raises SourceError when no pods can be read."""
    cluster = sources.cluster
    namespace = wanted.namespace or (cluster.namespace if wanted.mine and not wanted.whose else "")
    install, waiting = await gather_waiting(sources, namespace)
    waiting = waiting._replace(
        pods=[pod for pod in waiting.pods if is_of(pod, wanted.whose)],
        of_others=[pod for pod in waiting.of_others if is_of(pod, wanted.whose)],
    )
    scene = await gather_scene(sources, install, waiting) if waiting.pods else None
    asked = "" if waiting.pods or wanted.mine else namespace
    deserted = await gather_deserted(cluster, asked) if asked else None
    undecodable = tuple(cluster.undecodable)
    return Snapshot(wanted, cluster.name, cluster.now(), install, waiting, scene, deserted, undecodable)


def diagnose(snapshot: Snapshot) -> Report:
    """The causes in the order of their severity, then of how many pods they hold, then of age."""
    gaps = [*snapshot.waiting.gaps, *_unjudged(snapshot.waiting)]
    if snapshot.scene is None:
        gaps += [
            *snapshot.install.gaps,
            *(gap("objects", name, Text("gap.undecodable")) for name in snapshot.undecodable),
        ]
        gaps += [snapshot.deserted] if isinstance(snapshot.deserted, Gap) else []
        findings, tables = [_none_waits(snapshot, gaps)], ()
        verdict = findings[0].text
    else:
        waiting = snapshot.waiting.pods
        judged, more = judge_all(snapshot.scene, waiting, snapshot.undecodable)
        gaps += more
        groups = _grouped(judged, snapshot.scene.now)
        findings = [_finding(group) for group in groups[:_MAX_GROUPS]]
        rows = [_cause_row(group) for group in groups]
        causes = CAUSES.table(rows, brief=None if snapshot.request.all else rows)
        tables = causes, PODS.table(_pod_rows(judged, groups, snapshot))
        verdict = _verdict(groups, len(judged))
    if anothers := snapshot.waiting.of_others:
        findings.append(_of_others(anothers))
        rows = _others_rows(anothers)
        tables = *tables, OTHERS.table(rows, brief=None if snapshot.request.all else rows)
    return new_report(
        playbook="pending",
        cluster=snapshot.cluster,
        taken_at=format_time(snapshot.taken_at),
        subject=Subject("Pods", snapshot.waiting.namespace, ""),
        verdict=verdict,
        findings=prose.each_once(findings),
        tables=tables,
        gaps=gaps,
    )


def _grouped(judged: Sequence[JudgedPod], now: datetime) -> list[WaitingGroup]:
    return sorted(
        (_group(members, now) for members in by_cause(judged)),
        key=lambda group: (-SEVERITIES.index(group.severity), -len(group.pods), _age_key(group.pods[0])),
    )


def _group(members: Sequence[JudgedPod], now: datetime) -> WaitingGroup:
    """As sure as the least sure of its pods, and as severe as the most severe that has waited for a while."""
    causes = [member.cause for member in members if member.cause is not None]
    severity = SEVERITIES[max(SEVERITIES.index(_severity(member, now)) for member in members)]
    unsure = any(cause.confidence == "suspected" for cause in causes)
    first = structs.replace(causes[0], confidence="suspected") if unsure else causes[0]
    return WaitingGroup(first, severity, [member.pod for member in members])


def _severity(judged: JudgedPod, now: datetime) -> Severity:
    created = parse_time(judged.pod.metadata.creation_timestamp)
    severity = judged.cause.severity if judged.cause else "info"
    just_came = created is not None and now - created < _GRACE
    return "info" if just_came and severity == "warning" else severity


def _age_key(pod: Pod) -> tuple[str, str, str]:
    return pod.metadata.creation_timestamp or "", pod.namespace, pod.name


# ------------------------------------------------------------------------------------------------ findings, tables


def _none_waits(snapshot: Snapshot, gaps: Sequence[Gap]) -> Finding:
    if isinstance(snapshot.deserted, EmptyNamespace):
        return no_such_namespace(snapshot.deserted, ("pending", "-n"))
    namespace = snapshot.waiting.namespace
    claim = Text("nothing-pending.namespace", namespace=namespace) if namespace else Text("nothing-pending.claim")
    return finding("nothing-pending", claim, "suspected" if gaps else "confirmed", (), (), severity="info")


def _unjudged(waiting: Waiting) -> list[Gap]:
    """The pods that kube-scheduler and a DRA driver serve, of which nothing says that their devices are HAMi's."""
    names = [f"{pod.namespace}/{pod.name}" for pod in waiting.by_claims]
    if not names:
        return []
    hint = Text("pending.by-claims-hint", pod=names[0])
    return [gap("pods", Text("pending.by-claims", count=len(names), pods=prose.names(names)), hint)]


def _of_others(pods: Sequence[Pod]) -> Finding:
    """The pods of somebody else's schedulers, which say themselves why they wait: none of them counts as HAMi's."""
    names = [f"{pod.namespace}/{pod.name}" for pod in pods]
    schedulers = ", ".join(sorted({pod.spec.scheduler_name for pod in pods}))
    claim = Text("pending.of-others", count=len(pods), schedulers=schedulers, pods=prose.names(names))
    proofs = [quotes.of_pod(pod, pod.spec.scheduler_name, "{.spec.schedulerName}") for pod in pods[:_PROVEN]]
    return finding("other-scheduler", claim, "confirmed", (), proofs, severity="info")


def _others_rows(pods: Sequence[Pod]) -> list[OthersRow]:
    """A row per scheduler, that of the oldest pod first."""
    by_scheduler: dict[str, list[Pod]] = {}
    for pod in pods:
        by_scheduler.setdefault(pod.spec.scheduler_name, []).append(pod)
    return [
        OthersRow(
            scheduler,
            len(some),
            f"{some[0].namespace}/{some[0].name}",
            parse_time(some[0].metadata.creation_timestamp),
        )
        for scheduler, some in by_scheduler.items()
    ]


def _finding(group: WaitingGroup) -> Finding:
    oldest = group.pods[0]
    name = f"{oldest.namespace}/{oldest.name}"
    key = "pending.group" if len(group.pods) > 1 else "pending.alone"
    text = Text(key, count=len(group.pods), oldest=name, cause=group.cause.text)
    look = step(Text("pending.why", pod=name), prose.command("why", name))
    return group.cause.saying(text, severity=group.severity, next_actions=(look,))


def _verdict(groups: Sequence[WaitingGroup], total: int) -> Text:
    if not groups:
        return Text("pending.verdict-none", total=total)
    first, oldest = groups[0], groups[0].pods[0]
    name = f"{oldest.namespace}/{oldest.name}"
    if total == 1:
        return Text("pending.alone", oldest=name, cause=first.cause.text)
    values = {"total": total, "code": first.cause.code, "oldest": name}
    if len(first.pods) == total:
        return Text("pending.verdict-all", **values)
    return Text("pending.verdict", causes=len(groups), count=len(first.pods), **values)


def _cause_row(group: WaitingGroup) -> CauseRow:
    oldest = group.pods[0]
    return CauseRow(
        cause=group.cause.code,
        pods=len(group.pods),
        oldest=f"{oldest.namespace}/{oldest.name}",
        waiting_since=parse_time(oldest.metadata.creation_timestamp),
        nodes=FirstNames(group.cause.scope.nodes),
    )


def _pod_rows(judged: Sequence[JudgedPod], groups: Sequence[WaitingGroup], snapshot: Snapshot) -> Iterator[PendingRow]:
    """Every pod, in the order of the causes; those that were not judged last."""
    of_pod = {id(judged_pod.pod): judged_pod.cause for judged_pod in judged}
    ordered = [pod for group in groups for pod in group.pods] + [
        judged_pod.pod for judged_pod in judged if judged_pod.cause is None
    ]
    config, now = snapshot.install.config, snapshot.taken_at
    for pod in ordered:
        cause = of_pod[id(pod)]
        row = waiting_row(pod, config, now)
        yield PendingRow(*row, cause.code if cause else None, len(cause.scope.nodes) if cause else None)


PLAYBOOK = Playbook(
    verb="pending",
    summary="Which pods wait for GPUs, and why?",
    example="pending ml",
    parameters=(
        click.Argument(["named"], default="", required=False, metavar="[NS]"),
        click.Option(["-n", "--namespace"], default="", metavar="NS", help="Only the pods of this namespace."),
        click.Option(["--mine"], is_flag=True, help="Only your pods: see the setting `mine`."),
        ALL,
    ),
    request=request,
    gather=gather,
    diagnose=diagnose,
)
