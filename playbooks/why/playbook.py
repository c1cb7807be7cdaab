"""Why is a pod pending, or why did it fail to get its device?

The order is the guides' decision tree and what a real cluster adds: no pod, finished or placed, gates, the wrong
scheduler, no request, the scheduler itself, then what the schedulers said about it weighed against what the nodes
could give it now.
"""

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import NamedTuple

import click

from bot.errors import SourceError, Troubled, Unusable
from bot.hami.installation.install import Install
from bot.hami.pods.allocations import waits
from bot.hami.scheduler_logs.log_lines import lines_about
from bot.kube.cluster import Cluster, seen
from bot.kube.hami_pods import HANDSHAKE
from bot.kube.models import EVENTS, Event, Node, Pod
from bot.kube.times import format_time
from bot.report import Finding, FirstNames, Gap, Report, Sheet, Subject, Table, gap, new_report
from bot.texts import Prose, Text
from playbooks import quotes
from playbooks.gather.dra import ClaimsSeen, gather_claims
from playbooks.gather.lock_owners import gather_owners
from playbooks.gather.nodes_in_question import NodesInQuestion, gather_nodes_in_question
from playbooks.gather.placed_pod import PlacedPod, gather_placed
from playbooks.gather.scheduler_logs import ExtenderLines
from playbooks.gather.scheduler_process import SchedulerProcess, gather_process, with_ended, with_ghosts
from playbooks.gather.scheduling import (
    Capacity,
    InstallSeen,
    gather_capacity,
    gather_install,
    times_of_pod,
    times_shown,
)
from playbooks.gather.subject import AbsentPod, FoundPod, SubjectRequest, parse_subject, resolve
from playbooks.gather.usage import UsageSeen
from playbooks.gather.usage_of_nodes import gather_usage_of
from playbooks.gather.volcano_plugins import VolcanoPluginsSeen, gather_volcano_plugins
from playbooks.gather.webhook import FAILED_CALL, WebhookOf, WebhookSeen, gather_webhook, went_past_hami
from playbooks.judgement.pod import ClusterContext, cannot_tell, judge, last_own_attempt
from playbooks.playbook import Playbook, Sources
from playbooks.rules.admission.not_found import never_created, no_such_pod
from playbooks.rules.capacity.idle_holders import MeasuredNodes, in_question, with_waited_for
from playbooks.rules.common import prose
from playbooks.rules.common.gaps import capacity_gaps, fit_gaps, other_vendors
from playbooks.rules.common.known_bugs import with_upgrades
from playbooks.rules.installation.kubernetes_version import background
from playbooks.rules.placed.after_scheduling import after_scheduling
from playbooks.rules.placed.container_faults import unread_log
from playbooks.rules.waiting import refusals, volcano
from playbooks.rules.waiting.attempt import last_attempt, placed_since
from playbooks.rules.waiting.cause_ranking import Rank, rank_words
from playbooks.rules.waiting.waiting_pod import Case, World


class CandidateRow(NamedTuple):
    """Nodes of one verdict for the same reason."""

    verdict: str
    reason: str
    number: int
    nodes: FirstNames


CANDIDATES = Sheet("candidate nodes", CandidateRow, names={"number": "count"})
_MAX_ROWS = 50
_OF_MEMORY = ("scheduler-ledger-stale", "registration-ignored", "waiting-for-retry")
"""What the scheduler's own figures would prove or refute."""


class WaitingSources(NamedTuple):
    """What is only read for a pod that waits for a node."""

    install: InstallSeen
    capacity: Capacity
    log: ExtenderLines
    lock_owners: Mapping[tuple[str, str], Pod | Gap | None]
    questioned: NodesInQuestion
    group_events: Sequence[Event] | Gap
    process: SchedulerProcess
    webhook: WebhookSeen | None
    world: World
    case: Case
    """The pod in that world: what was worked out of it to choose what to read counts for the answer as well."""
    usage: UsageSeen
    """Measured on the nodes where somebody may hold GPUs without using them."""
    claims: ClaimsSeen | None
    """Read where the pod asks for devices through ResourceClaims."""
    volcano_plugins: VolcanoPluginsSeen
    """Read where the pod asks for Volcano's vGPUs."""


class Snapshot(NamedTuple):
    """Everything seen, and when."""

    wanted: SubjectRequest
    cluster: str
    taken_at: datetime
    subject: FoundPod | AbsentPod | Gap
    events: Sequence[Event] | Gap
    scene: WaitingSources | None
    placed: PlacedPod | None
    undecodable: tuple[str, ...]
    refused_by: WebhookOf | None = None
    """Read where HAMi's webhook kept the pod from being created because nobody answered."""


def request(pod: str, namespace: str = "") -> SubjectRequest:
    """The subject in the words that were typed."""
    return parse_subject(pod, namespace)


async def gather(wanted: SubjectRequest, sources: Sources) -> Snapshot:
    """Read the pod first, then what bears on it: the cluster's nodes where it waits, else its own. Raises Unusable."""
    cluster = sources.cluster
    subject = await _subject(cluster, wanted)
    namespace, name = _identity(wanted, subject)
    scene = placed = webhook = None
    if isinstance(subject, FoundPod) and waits(subject.pod):
        events, scene = await asyncio.gather(_events(cluster, namespace, name), _scene(subject.pod, sources))
    elif isinstance(subject, FoundPod):
        events, placed = await asyncio.gather(_events(cluster, namespace, name), gather_placed(subject.pod, sources))
    else:
        events = await _events(cluster, namespace, name)
    if isinstance(subject, AbsentPod) and any(FAILED_CALL in refusal.message for refusal in subject.refusals):
        install = await gather_install(sources)
        webhook = WebhookOf(install, await gather_webhook(cluster, install.install))
    undecodable = tuple(cluster.undecodable)
    return Snapshot(wanted, cluster.name, cluster.now(), subject, events, scene, placed, undecodable, webhook)


async def _subject(cluster: Cluster, wanted: SubjectRequest) -> FoundPod | AbsentPod | Gap:
    """A source that is of no use at all gives no report; one that lacks, or refuses, the pods gives a gap."""
    try:
        return await resolve(cluster, wanted)
    except Unusable:
        raise
    except Troubled as error:
        if isinstance(await _events(cluster, wanted.namespace, wanted.name), Gap):  # all of it is in trouble, it seems
            raise Unusable(error.message, hint=error.hint) from error
        return gap("pod", error.message, error.hint)
    except SourceError as error:
        return gap("pod", error.message, error.hint)


def _identity(wanted: SubjectRequest, subject: FoundPod | AbsentPod | Gap) -> tuple[str, str]:
    pod = subject.pod if isinstance(subject, FoundPod) else None
    return (pod.namespace, pod.name) if pod else (wanted.namespace, wanted.name)


async def _events(cluster: Cluster, namespace: str, name: str) -> list[Event] | Gap:
    return await seen("events", cluster.list(EVENTS, namespace, fields=f"involvedObject.name={name}"))


async def _events_of_group(cluster: Cluster, pod: Pod) -> list[Event] | Gap:
    """About the pod's PodGroup, where Volcano names one."""
    name = volcano.pod_group(pod)
    return await _events(cluster, pod.namespace, name) if name else []


async def _scene(pod: Pod, sources: Sources) -> WaitingSources:
    cluster = sources.cluster
    install = await gather_install(sources)
    past = went_past_hami(pod, install.install, install.config)
    needles = [pod.name, *([HANDSHAKE] if past else [])]
    capacity, group, (process, log) = await asyncio.gather(
        gather_capacity(cluster, install.install, pod.namespace),
        _events_of_group(cluster, pod),
        gather_process(sources, install, [pod], *needles),
    )
    nodes = [] if isinstance(capacity.nodes, Gap) else capacity.nodes
    owners, questioned, process, claims, volcano_plugins = await asyncio.gather(
        gather_owners(cluster, nodes, [pod]),
        gather_nodes_in_question(cluster, pod, nodes, install.config),
        with_ghosts(sources, process, capacity.pods),
        gather_claims(cluster, pod),
        gather_volcano_plugins(cluster, pod),
    )
    process = await with_ended(cluster, process)
    as_of = cluster.as_of([*times_of_pod(pod), *times_shown(cluster, nodes, install.install)])
    webhook = await gather_webhook(cluster, install.install, [pod.namespace], log) if past else None
    world = World(capacity, install.install, install.config, as_of)
    case = Case(pod, world)
    usage = await gather_usage_of(sources, partial(in_question, case))
    return WaitingSources(
        install,
        capacity,
        log.holding(pod.name),
        owners,
        questioned,
        group,
        process,
        webhook,
        world,
        case,
        usage,
        claims,
        volcano_plugins,
    )


# ---------------------------------------------------------------------------------------------------- diagnosis


def diagnose(snapshot: Snapshot) -> Report:
    """The report that follows from the snapshot."""
    gaps = [gap for gap in (snapshot.subject, snapshot.events) if isinstance(gap, Gap)]
    gaps += () if isinstance(snapshot.subject, Gap) else snapshot.subject.gaps
    if isinstance(snapshot.subject, FoundPod) and snapshot.subject.by_prefix:
        full = "/".join(_identity(snapshot.wanted, snapshot.subject))
        gaps.append(gap("pod", Text("not-found.by-prefix", name=snapshot.wanted.name, pod=full)))
    tables: list[Table] = []
    if isinstance(snapshot.subject, AbsentPod):
        wanted = snapshot.wanted
        findings = never_created(snapshot.subject, wanted.name, snapshot.refused_by, snapshot.taken_at)
        findings = findings or [no_such_pod(snapshot.subject, wanted.kind, wanted.name, wanted.namespace)]
        gaps += snapshot.refused_by.gaps if snapshot.refused_by else ()
    elif isinstance(snapshot.subject, Gap):
        findings = _unseen(snapshot)
    elif snapshot.scene is None:
        events = () if isinstance(snapshot.events, Gap) else snapshot.events
        findings = after_scheduling(snapshot.subject.pod, events, snapshot.placed, snapshot.taken_at)
        findings = findings or [cannot_tell(*_identity(snapshot.wanted, snapshot.subject), [])]
        if snapshot.placed:
            gaps += snapshot.placed.gaps
            gaps += unread_log(snapshot.subject.pod, snapshot.placed, findings, snapshot.taken_at)
    else:
        findings, tables, more = _waiting(snapshot, snapshot.subject.pod, snapshot.scene)
        gaps += more
    findings = with_upgrades([*findings, *background(_nodes(snapshot))], _install(snapshot))
    return _report(snapshot, _verdict(snapshot, findings[0]), findings, tables, gaps)


def _install(snapshot: Snapshot) -> Install:
    """HAMi's install, empty where it was not read."""
    read = snapshot.scene or snapshot.placed or snapshot.refused_by
    return read.install.install if read else Install()


def _nodes(snapshot: Snapshot) -> Sequence[Node]:
    """Those that the pod may come to, or its own."""
    seen = snapshot.scene.capacity.nodes if snapshot.scene else [snapshot.placed.side.node] if snapshot.placed else []
    return [] if isinstance(seen, Gap) else [node for node in seen if not isinstance(node, Gap)]


def _verdict(snapshot: Snapshot, first: Finding) -> Prose:
    """The first finding's claim, after whom it is about where that is not the pod that was named."""
    if not isinstance(snapshot.subject, FoundPod) or not snapshot.subject.by_prefix:
        return first.text
    full = "/".join(_identity(snapshot.wanted, snapshot.subject))
    return Text("not-found.instead", pod=full, name=snapshot.wanted.name, claim=first.text)


def _report(
    snapshot: Snapshot, verdict: Prose, findings: Sequence[Finding], tables: Sequence[Table], gaps: Sequence[Gap]
) -> Report:
    namespace, name = _identity(snapshot.wanted, snapshot.subject)
    kind = "Pod" if isinstance(snapshot.subject, FoundPod) else snapshot.wanted.kind
    return new_report(
        playbook="why",
        cluster=snapshot.cluster,
        taken_at=format_time(snapshot.taken_at),
        subject=Subject(kind, namespace, name),
        verdict=verdict,
        findings=prose.few_actions(findings),
        tables=tuple(tables),
        gaps=gaps,
    )


def _unseen(snapshot: Snapshot) -> list[Finding]:
    """The pod itself cannot be read: what its events say, and no more."""
    namespace, name = _identity(snapshot.wanted, snapshot.subject)
    events = () if isinstance(snapshot.events, Gap) else snapshot.events
    stand_in = Pod()
    attempt = last_attempt(stand_in, events, ())
    if (placed := placed_since(events, attempt)) is not None:
        return [cannot_tell(namespace, name, [quotes.of_event(placed)], snapshot.wanted.kind)]
    found = [refusals.in_words(attempt, cause, sure=False) for cause in rank_words(attempt) if cause.rank < Rank.NORMAL]
    proofs = [attempt.evidence] if attempt.evidence else []
    return found or [cannot_tell(namespace, name, proofs, snapshot.wanted.kind)]


def _waiting(snapshot: Snapshot, pod: Pod, scene: WaitingSources) -> tuple[list[Finding], list[Table], list[Gap]]:
    """A pod that waits for a node."""
    gaps = [*capacity_gaps(scene.install, scene.capacity, snapshot.undecodable), *scene.log.gaps]
    gaps += [*scene.process.gaps, *scene.questioned.gaps]
    gaps += [
        lock_owner for lock_owner in (*scene.lock_owners.values(), scene.group_events) if isinstance(lock_owner, Gap)
    ]
    events = () if isinstance(snapshot.events, Gap) else snapshot.events
    lines = (
        (scheduler, line)
        for scheduler, raw in scene.log.lines
        for line in lines_about([raw], pod.namespace, pod.name, snapshot.taken_at)
    )
    group = [] if isinstance(scene.group_events, Gap) else volcano.of_group(scene.group_events)
    gaps += scene.webhook.gaps if scene.webhook else ()
    gaps += scene.claims.gaps if scene.claims else ()
    gaps += scene.volcano_plugins.gaps
    around = ClusterContext(
        scene.install,
        scene.world,
        scene.lock_owners,
        scene.questioned,
        scene.process,
        scene.webhook,
        scene.claims,
        group,
        scene.volcano_plugins.logs,
    )
    judged = judge(scene.case, last_own_attempt(pod, events, lines), around)
    if judged.findings[0].code in _OF_MEMORY:
        counted = [scene.process.counted] if isinstance(scene.process.counted, Gap) else []
        gaps += [gap for gap in (*scene.process.unread, *counted) if gap not in gaps]
    noun = scene.case.noun
    if judged.case is None:
        return judged.findings, [], [gap.about(noun) for gap in gaps]
    gaps += scene.usage.gaps
    findings = with_waited_for(judged.findings, judged.case, MeasuredNodes(scene.usage, snapshot.taken_at))
    gaps += fit_gaps(judged.case)
    return [finding.about(noun) for finding in findings], _tables(judged.case), [gap.about(noun) for gap in gaps]


def _tables(case: Case) -> list[Table]:
    """The candidates by reason, HAMi's verdict as our fit gives it."""
    judged = case.request.containers and not other_vendors(case)
    grouped: dict[tuple[str, str], list[str]] = defaultdict(list)
    for verdict, names in case.by_verdict if judged else ():
        word = "fit" if verdict.fits else "unfit" if verdict.fits is False else "unknown"
        grouped[word, verdict.said or verdict.unknown] += names
    rows = sorted(grouped.items(), key=lambda item: (item[0][0], -len(item[1]), item[0][1]))
    shown = (CandidateRow(*key, len(names), FirstNames(sorted(names))) for key, names in rows[:_MAX_ROWS])
    return [CANDIDATES.table(shown)] if rows else []


PLAYBOOK = Playbook(
    verb="why",
    summary="Why is a pod pending, or why did it fail to get its device?",
    example="why ml/trainer-0",
    parameters=(
        click.Argument(["pod"], metavar="POD|KIND/NAME"),
        click.Option(
            ["-n", "--namespace"],
            default="",
            metavar="NS",
            help="The pod's namespace; found automatically when unambiguous.",
        ),
    ),
    request=request,
    gather=gather,
    diagnose=diagnose,
)
