"""Why is a pod pending, or why did it fail to get its device?

The order is the guides' decision tree and what a real cluster adds: no pod, finished or placed, gates, the wrong
scheduler, no request, the scheduler itself, then what the schedulers said about it weighed against what the nodes
could give it now.
"""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
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
from bot.report import VERDICT_LIMIT, Finding, FirstNames, Gap, Report, Sheet, Subject, Table, gap, new_report, step
from bot.texts import Prose, Text, first_sentence, fitting
from playbooks import quotes
from playbooks.attempt import last_attempt, placed_since
from playbooks.gather.dra import gather_claims
from playbooks.gather.lock_owners import gather_owners
from playbooks.gather.nodes_in_question import gather_nodes_in_question
from playbooks.gather.placed_pod import PlacedPod, gather_placed
from playbooks.gather.scheduler_logs import ExtenderLines
from playbooks.gather.scheduler_process import gather_process, with_ended, with_ghosts
from playbooks.gather.scheduling import (
    gather_capacity,
    gather_install,
    times_of_pod,
    times_shown,
)
from playbooks.gather.subject import AbsentPod, FoundPod, SubjectRequest, parse_subject, resolve
from playbooks.gather.usage import MeasuredNodes
from playbooks.gather.usage_of_nodes import gather_usage_of
from playbooks.gather.volcano_plugins import gather_volcano_plugins
from playbooks.gather.webhook import FAILED_CALL, WebhookOf, gather_webhook, went_past_hami
from playbooks.judgement.waiting import cannot_tell, judge
from playbooks.playbook import Playbook, Sources
from playbooks.quotes import kubectl
from playbooks.rules.admission.not_found import never_created, no_such_pod
from playbooks.rules.capacity.idle_holders import in_question
from playbooks.rules.common import prose
from playbooks.rules.common.gaps import fit_gaps, other_vendors, scene_gaps
from playbooks.rules.common.known_bugs import with_upgrades
from playbooks.rules.installation.kubernetes_version import background
from playbooks.rules.placed.after_scheduling import after_scheduling
from playbooks.rules.placed.container_faults import unread_log
from playbooks.rules.waiting import refusals, volcano
from playbooks.rules.waiting.cause_ranking import Rank, rank_words
from playbooks.scene import ClusterScene, Messages, PodScene


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


class Snapshot(NamedTuple):
    """Everything seen, and when."""

    wanted: SubjectRequest
    cluster: str
    taken_at: datetime
    subject: FoundPod | AbsentPod | Gap
    events: Sequence[Event] | Gap
    scene: PodScene | None
    """Read for a pod that waits for a node."""
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
        scene = await _scene(subject.pod, sources)
        events = scene.cluster.messages.events.get((namespace, name), ())
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


async def _scene(pod: Pod, sources: Sources) -> PodScene:
    cluster = sources.cluster
    install, events = await asyncio.gather(gather_install(sources), _events(cluster, pod.namespace, pod.name))
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
    in_cluster = ClusterScene(
        install,
        capacity,
        cluster.as_of([*times_of_pod(pod), *times_shown(cluster, nodes, install.install)]),
        messages=_messages(pod, events, log, cluster.now()),
        lock_owners=owners,
        questioned=questioned,
        process=process,
        webhook=await gather_webhook(cluster, install.install, [pod.namespace], log) if past else None,
    )
    scene = PodScene(pod, in_cluster, claims, group, volcano_plugins)
    usage = await gather_usage_of(sources, partial(in_question, scene))
    return scene.measured(MeasuredNodes(usage, cluster.now()))


def _messages(pod: Pod, events: Sequence[Event] | Gap, log: ExtenderLines, now: datetime) -> Messages:
    """What the schedulers said of the one pod."""
    name, about = (pod.namespace, pod.name), log.holding(pod.name)
    lines = [
        (scheduler, line) for scheduler, raw in about.lines for line in lines_about([raw], pod.namespace, pod.name, now)
    ]
    unread = [events] if isinstance(events, Gap) else []
    return Messages({} if isinstance(events, Gap) else {name: events}, {name: lines}, (*unread, *about.gaps))


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
        findings, tables, more = _waiting(snapshot.scene, snapshot.undecodable)
        gaps += more
    findings = with_upgrades([*findings, *background(_nodes(snapshot))], _install(snapshot))
    return _report(snapshot, _verdict(snapshot, findings[0]), findings, tables, gaps)


def _install(snapshot: Snapshot) -> Install:
    """HAMi's install, empty where it was not read."""
    if snapshot.scene is not None:
        return snapshot.scene.install
    read = snapshot.placed or snapshot.refused_by
    return read.install.install if read else Install()


def _nodes(snapshot: Snapshot) -> Sequence[Node]:
    """Those that the pod may come to, or its own."""
    if snapshot.scene is not None:
        return list(snapshot.scene.nodes.values())
    own = [snapshot.placed.side.node] if snapshot.placed else []
    return [node for node in own if not isinstance(node, Gap)]


def _verdict(snapshot: Snapshot, first: Finding) -> Prose:
    """The first finding's claim, after whom it is about where that is not the pod that was named."""
    if not isinstance(snapshot.subject, FoundPod) or not snapshot.subject.by_prefix:
        whole = first.text
        short = first_sentence(whole)
        return whole if short is whole else fitting((whole, short), VERDICT_LIMIT)
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
    ranked = [cause for cause in rank_words(attempt) if cause.rank < Rank.NORMAL]
    steps = [step(Text("blocked-after-filter.look"), kubectl("-n", namespace, "describe", "pod", name))]
    proofs = [attempt.evidence] if attempt.evidence else []
    found = [refusals.in_words(attempt, cause, steps, sure=False) for cause in ranked]
    return found or [cannot_tell(namespace, name, proofs, snapshot.wanted.kind)]


def _waiting(scene: PodScene, undecodable: Sequence[str]) -> tuple[list[Finding], list[Table], list[Gap]]:
    """A pod that waits for a node."""
    process = scene.cluster.process
    gaps = scene_gaps(scene.cluster, undecodable)
    gaps += [scene.group_events] if isinstance(scene.group_events, Gap) else []
    gaps += [*(scene.claims.gaps if scene.claims else ()), *scene.volcano_plugins.gaps]
    judged = judge(scene)
    if judged.findings[0].code in _OF_MEMORY:
        counted = [process.counted] if isinstance(process.counted, Gap) else []
        gaps += [gap for gap in (*process.unread, *counted) if gap not in gaps]
    if judged.of_nodes:
        gaps += [*(scene.usage.usage.gaps if scene.usage else ()), *fit_gaps(scene)]
    return judged.findings, _tables(scene) if judged.of_nodes else [], [gap.about(scene.noun) for gap in gaps]


def _tables(scene: PodScene) -> list[Table]:
    """The candidates by reason, HAMi's verdict as our fit gives it."""
    judged = scene.request.containers and not other_vendors(scene)
    grouped: dict[tuple[str, str], list[str]] = defaultdict(list)
    for verdict, names in scene.by_verdict if judged else ():
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
