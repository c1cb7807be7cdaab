"""`pending`: which pods wait for HAMi's GPUs, and for what; each is judged as in `why`, and shown by cause."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import click

from bot.finding_codes import Code, PendingClass, words_of
from bot.kube.models import Pod
from bot.kube.times import parse_time
from bot.report import SEVERITIES, Finding, FirstNames, Gap, Report, Severity, Sheet, Subject, gap, step
from bot.texts import Text, Texts, in_english, listed, unstopped
from playbooks import quotes
from playbooks.gather.pods import Waiting, gather_scene, gather_waiting, is_of
from playbooks.gather.scheduling import InstallSeen
from playbooks.gather.subject import EmptyNamespace, gather_deserted
from playbooks.judgement.waiting import JudgedPod, WaitingGroup, by_cause, judge_all, waiting_row
from playbooks.pending.rows import CauseRow, OthersRow, PendingRow
from playbooks.playbook import ALL, Playbook, Snapshot, Sources, read_namespace
from playbooks.rules.admission.before_scheduling import no_such_namespace
from playbooks.rules.common import prose
from playbooks.rules.common.findings import finding
from playbooks.scenes.cluster import ClusterScene

CAUSES = Sheet(
    "causes",
    CauseRow,
    beside=("acts", "meaning"),
    brief="acts meaning=cause pods oldest=oldest_pod waiting_since=waits",
    together=4,
    tells_findings=True,
    listed=True,
)
PODS = Sheet("pending", PendingRow, beside=("waits_for",))
OTHERS = Sheet(
    "other schedulers",
    OthersRow,
    brief="scheduler pods oldest=oldest_pod waiting_since=waits",
)


_WHO_ACTS: Mapping[PendingClass, str] = {
    "platform_fault": "pending.acts-platform",
    "misconfigured": "pending.acts-owner",
    "capacity": "pending.acts-capacity",
    "retry": "pending.acts-retry",
    "unknown": "pending.acts-unknown",
}
"""In the order of the answer."""
_HELD_BY: Mapping[PendingClass, str] = {
    "platform_fault": "pending.held-platform",
    "misconfigured": "pending.held-owner",
    "capacity": "pending.held-capacity",
    "retry": "pending.held-retry",
    "unknown": "pending.held-unknown",
}
_MAX_GROUPS = 10
_PROVEN = 3
_GRACE = timedelta(seconds=30)
"""The age up to which every pod is pending: a scheduling cycle, an event and a log line take seconds."""


class Request(NamedTuple):
    """The namespace whose pending pods are asked for, empty for all. `all`: everything instead of an overview. `mine`:
    the asker's alone; Slack knows them by the namespaces and labels (`ml`, `owner=ada`) `whose`. In a shell that is
    None: there they are the pods of the credentials' own namespace.
    """

    namespace: str
    all: bool
    mine: bool = False
    whose: tuple[str, ...] | None = None


class PendingScene(NamedTuple):
    """The pending pods and their cluster (None without any). `deserted`: the namespace has no pod and no quota."""

    install: InstallSeen
    waiting: Waiting
    cluster: ClusterScene | None
    deserted: EmptyNamespace | Gap | None
    undecodable: tuple[str, ...]


def request(
    namespace: str = "",
    all: bool = False,  # noqa: A002, FBT001, FBT002  # the options' names
    named: str = "",
    mine: bool = False,  # noqa: FBT001, FBT002  # the same
) -> Request:
    """Reads the typed question; a namespace may also be written as `ns/ml` or `ml/`."""
    return Request(read_namespace(namespace, named), all, mine)


async def gather(wanted: Request, sources: Sources) -> Snapshot[Request, PendingScene]:
    """Reads the pending pods, and the cluster only if some are. Raises SourceError if no pods can be read."""
    cluster = sources.cluster
    namespace = wanted.namespace or (cluster.namespace if wanted.mine and wanted.whose is None else "")
    install, waiting = await gather_waiting(sources, namespace)
    whose = wanted.whose or ()
    waiting = waiting._replace(
        pods=[pod for pod in waiting.pods if is_of(pod, whose)],
        of_others=[pod for pod in waiting.of_others if is_of(pod, whose)],
    )
    pending_in = await gather_scene(sources, install, waiting) if waiting.pods else None
    asked = "" if waiting.pods or wanted.mine else namespace
    deserted = await gather_deserted(cluster, asked) if asked else None
    scene = PendingScene(install, waiting, pending_in, deserted, tuple(cluster.undecodable))
    return Snapshot(wanted, cluster.name, cluster.now(), scene)


def diagnose(snapshot: Snapshot[Request, PendingScene]) -> Report:
    """The report: causes by who has to act, the platform first, then by severity, number of pods, and age."""
    scene = snapshot.scene
    gaps = [*scene.waiting.gaps, *_unjudged(scene.waiting)]
    wanted = snapshot.request
    if wanted.mine and not wanted.whose and (wanted.whose is not None or not scene.waiting.namespace):
        gaps.append(gap("your pods (set mine)", Text("pending.not-mine")))
    if scene.cluster is None:
        gaps += [*scene.install.gaps, *(gap("objects", name, Text("gap.undecodable")) for name in scene.undecodable)]
        gaps += [scene.deserted] if isinstance(scene.deserted, Gap) else []
        findings, tables = [_none_waits(scene, gaps)], ()
        verdict = findings[0].text
    else:
        now = scene.cluster.now
        judged, more = judge_all(scene.cluster, scene.waiting.pods, scene.undecodable)
        gaps += more
        groups = sorted(
            by_cause(judged),
            key=lambda group: (
                [*_WHO_ACTS].index(group.cause.pending_class),
                -SEVERITIES.index(_severity(group, now)),
                -len(group.pods),
                _age_key(group.pods[0]),
            ),
        )
        by_code: dict[tuple[PendingClass, Code], list[WaitingGroup]] = {}  # on whatever nodes it holds pods
        by_fix: dict[tuple[PendingClass, str], list[WaitingGroup]] = {}
        for group in groups:
            by_code.setdefault((group.cause.pending_class, group.cause.code), []).append(group)
            by_fix.setdefault(_fix(group), []).append(group)
        findings = [_held(group, by_fix[_fix(group)], now) for group in groups[:_MAX_GROUPS]]
        brief = map(_cause_row, by_code.values())
        causes = CAUSES.table([_cause_row([group]) for group in groups], brief=brief, of=len(groups))
        tables = causes, PODS.table(_pod_rows(judged, groups, snapshot))
        verdict = _verdict(groups, len(judged))
    if anothers := scene.waiting.of_others:
        findings.append(_of_others(anothers))
        by_scheduler: dict[str, list[Pod]] = {}
        for pod in anothers:  # that of the oldest pod first
            by_scheduler.setdefault(pod.spec.scheduler_name, []).append(pod)
        oldest = ((scheduler, some[0], len(some)) for scheduler, some in by_scheduler.items())
        rows = [
            OthersRow(scheduler, count, f"{pod.namespace}/{pod.name}", parse_time(pod.metadata.creation_timestamp))
            for scheduler, pod, count in oldest
        ]
        tables = *tables, OTHERS.table(rows, brief=rows)
    about = Subject("Pods", scene.waiting.namespace, "")
    return snapshot.report("pending", about, findings, verdict=verdict, tables=tables, gaps=gaps)


def _severity(group: WaitingGroup, now: datetime) -> Severity:
    """As severe as the most severe of its pods that has waited for a while."""
    found: list[Severity] = []
    for pod, cause in zip(group.pods, group.causes, strict=True):
        created = parse_time(pod.metadata.creation_timestamp)
        just_came = created is not None and now - created < _GRACE
        found.append("info" if just_came and cause.severity == "warning" else cause.severity)
    return max(found, key=SEVERITIES.index)


def _age_key(pod: Pod) -> tuple[str, str, str]:
    return pod.metadata.creation_timestamp or "", pod.namespace, pod.name


def _none_waits(scene: PendingScene, gaps: Sequence[Gap]) -> Finding:
    if isinstance(scene.deserted, EmptyNamespace):
        return no_such_namespace(scene.deserted, ("pending", "-n"))
    namespace = scene.waiting.namespace
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
    schedulers = sorted({pod.spec.scheduler_name for pod in pods})
    claim = Text("pending.of-others", count=len(pods), schedulers=schedulers, pods=prose.names(names))
    proofs = [quotes.of_pod(pod, pod.spec.scheduler_name, "{.spec.schedulerName}") for pod in pods[:_PROVEN]]
    return finding("other-scheduler", claim, "confirmed", (), proofs, severity="info")


def _fix(group: WaitingGroup) -> tuple[PendingClass, str]:
    code = group.cause.code
    fix = words_of(code, "fix")
    return group.cause.pending_class, in_english(fix) if fix.key in Texts("en") else code


def _held(group: WaitingGroup, alike: Sequence[WaitingGroup], now: datetime) -> Finding:
    """The finding of one cause. Causes that are mended alike have one step, which says who has to do what about all."""
    cause = group.cause
    key = "pending.group" if len(group.pods) > 1 else "pending.alone"
    text = Text(key, count=len(group.pods), oldest=group.oldest, cause=cause.text)
    pods = [f"{pod.namespace}/{pod.name}" for some in alike for pod in some.pods]
    fix = unstopped(words_of(cause.code, "fix").about(cause.noun))
    who = Text(_WHO_ACTS[cause.pending_class])
    label = Text("pending.do", who=who, fix=fix, pods=prose.names(pods))
    label = Text("pending.why", pod=group.oldest) if _fix(group)[1] == cause.code else label
    look, severity = step(label, prose.command("why", group.oldest)), _severity(group, now)
    nodes, proofs = cause.scope.nodes, cause.evidence
    return finding(cause.code, text, group.confidence, nodes, proofs, severity=severity, actions=[look])


def _verdict(groups: Sequence[WaitingGroup], total: int) -> Text:
    if not groups:
        return Text("pending.verdict-none", total=total)
    first = groups[0]
    if total == 1:
        return Text("pending.alone", count=1, oldest=first.oldest, cause=first.cause.text)  # as its finding says
    held = Counter[PendingClass]()
    for group in groups:
        held[group.cause.pending_class] += len(group.pods)
    why = listed(Text(_HELD_BY[who], count=held[who]) for who in _WHO_ACTS if held[who])
    return Text("pending.verdict", total=total, why=why, oldest=first.oldest)


def _cause_row(groups: Sequence[WaitingGroup]) -> CauseRow:
    cause = groups[0].cause
    oldest = min((group.pods[0] for group in groups), key=_age_key)
    nodes = sorted({node for group in groups for node in group.cause.scope.nodes})
    return CauseRow(
        cause=cause.code,
        pods=sum(len(group.pods) for group in groups),
        oldest=f"{oldest.namespace}/{oldest.name}",
        waiting_since=parse_time(oldest.metadata.creation_timestamp),
        nodes=FirstNames(nodes),
        acts=Text(_WHO_ACTS[cause.pending_class]),
        meaning=words_of(cause.code, "meaning").about(cause.noun),
    )


def _pod_rows(
    judged: Sequence[JudgedPod], groups: Sequence[WaitingGroup], snapshot: Snapshot[Request, PendingScene]
) -> Iterator[PendingRow]:
    known = (pair for group in groups for pair in zip(group.pods, group.causes, strict=True))
    for pod, cause in [*known, *(each for each in judged if each.cause is None)]:
        row = waiting_row(pod, snapshot.scene.install.config, snapshot.taken_at)
        told = (cause.code, len(cause.scope.nodes), cause.pending_class) if cause else (None, None, "unknown")
        yield PendingRow(*row, *told)


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
