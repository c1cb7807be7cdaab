"""Why is a pod pending, or why did it fail to get its device?

The order is the guides' decision tree and what a real cluster adds: no pod, finished or placed, gates, the wrong
scheduler, no request, the scheduler itself, then what the schedulers said about it weighed against what the nodes
could give it now.
"""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import click
from msgspec import structs

from bot.errors import NotFound, SourceError, Unusable
from bot.hami.fit import NODE_UNREGISTERED
from bot.hami.install import COMPONENT_LABEL, PLUGIN_COMPONENT
from bot.hami.logs import LogLine, lines_about
from bot.hami.nodelock import LOCK_KEY, parse_lock
from bot.hami.nodestate import expects_gpus, nvidia_allocatable
from bot.hami.vendors import NVIDIA
from bot.kube.cluster import Cluster, seen
from bot.kube.models import EVENTS, PODS, Event, Node, Pod
from bot.kube.nodefilter import obstacle
from bot.kube.times import format_time, parse_time
from bot.report import SCHEMA, Evidence, Finding, Gap, NextAction, Report, Scope, Subject, Table, one_line, worst
from bot.texts import Texts
from playbooks import _evidence
from playbooks._evidence import kubectl
from playbooks._gather import (
    Capacity,
    InstallSeen,
    Log,
    gather_capacity,
    gather_install,
    gather_log,
    times_of_pod,
    times_shown,
)
from playbooks._playbook import Playbook, Sources
from playbooks._rules import admission, binding, lifecycle, prose, refusals, schedulers, unregistered
from playbooks._rules.absent import no_such_pod
from playbooks._rules.case import Case, World
from playbooks._rules.causes import Rank, rank_causes, rank_words
from playbooks._rules.gaps import capacity_gaps, fit_gaps, other_vendors
from playbooks._rules.said import Said, placed_since, what_was_said
from playbooks._subject import Absent, Found, SubjectRequest, parse_subject, resolve

_MAX_LOCK_OWNERS = 10
_MAX_PLUGIN_NODES = 3
_MAX_ROWS = 50


class Scene(NamedTuple):
    """What is only read for a pod that waits for a node."""

    install: InstallSeen
    capacity: Capacity
    log: Log
    lock_owners: Mapping[tuple[str, str], Pod | Gap | None]
    plugin_pods: Mapping[str, Sequence[Pod] | Gap]
    as_of: datetime


class Snapshot(NamedTuple):
    """Everything seen, and when."""

    wanted: SubjectRequest
    cluster: str
    taken_at: datetime
    subject: Found | Absent | Gap
    events: Sequence[Event] | Gap
    scene: Scene | None
    undecodable: tuple[str, ...]


def request(pod: str, namespace: str = "") -> SubjectRequest:
    """The subject in the words that were typed."""
    return parse_subject(pod, namespace)


async def gather(wanted: SubjectRequest, sources: Sources) -> Snapshot:
    """Read the pod first; the rest of the cluster only if the pod waits for a node. Raises Unusable."""
    cluster = sources.cluster
    subject = await _subject(cluster, wanted)
    namespace, name = _identity(wanted, subject)
    if isinstance(subject, Found) and _waits(subject.pod):
        events, scene = await asyncio.gather(_events(cluster, namespace, name), _scene(subject.pod, sources))
    else:
        events, scene = await _events(cluster, namespace, name), None
    return Snapshot(wanted, cluster.name, cluster.now(), subject, events, scene, tuple(cluster.undecodable))


async def _subject(cluster: Cluster, wanted: SubjectRequest) -> Found | Absent | Gap:
    """A source that is of no use at all gives no report; one that lacks, or refuses, the pods gives a gap."""
    try:
        return await resolve(cluster, wanted)
    except Unusable:
        raise
    except SourceError as error:
        return Gap("pod", error.message, error.hint)


def _identity(wanted: SubjectRequest, subject: Found | Absent | Gap) -> tuple[str, str]:
    pod = subject.pod if isinstance(subject, Found) else None
    return (pod.namespace, pod.name) if pod else (wanted.namespace, wanted.name)


def _waits(pod: Pod) -> bool:
    """Whether a scheduler may still place the pod; one that is being deleted is left alone."""
    ended = pod.status.phase in ("Succeeded", "Failed") or pod.metadata.deletion_timestamp
    return not pod.spec.node_name and not ended


async def _events(cluster: Cluster, namespace: str, name: str) -> list[Event] | Gap:
    return await seen("events", cluster.list(EVENTS, namespace, fields=f"involvedObject.name={name}"))


async def _scene(pod: Pod, sources: Sources) -> Scene:
    cluster = sources.cluster
    install = await gather_install(sources)
    capacity, log = await asyncio.gather(
        gather_capacity(cluster, install.install, pod.namespace), gather_log(cluster, install.install, pod)
    )
    nodes = [] if isinstance(capacity.nodes, Gap) else capacity.nodes
    owners, plugins = await asyncio.gather(_lock_owners(cluster, pod, nodes), _plugin_pods(cluster, pod, nodes))
    as_of = cluster.as_of([*times_of_pod(pod), *times_shown(nodes, install.install)])
    return Scene(install, capacity, log, owners, plugins, as_of)


async def _lock_owners(cluster: Cluster, pod: Pod, nodes: Sequence[Node]) -> dict[tuple[str, str], Pod | Gap | None]:
    """The pods that the locks on candidate nodes name."""
    locked = [node for node in nodes if node.metadata.annotation(LOCK_KEY) and obstacle(pod, node) is None]
    texts = [node.metadata.annotation(LOCK_KEY) or "" for node in locked[:_MAX_LOCK_OWNERS]]
    locks = [lock for text in texts if (lock := parse_lock(text, None)) and lock.pod]
    names = sorted({(lock.namespace, lock.pod) for lock in locks})

    async def owner(namespace: str, name: str) -> Pod | None:
        try:
            return await cluster.get(PODS, name, namespace)
        except NotFound:
            return None

    found = await asyncio.gather(*(seen("lock owner", owner(*one)) for one in names))
    return dict(zip(names, found, strict=True))


async def _plugin_pods(cluster: Cluster, pod: Pod, nodes: Sequence[Node]) -> dict[str, Sequence[Pod] | Gap]:
    """The device plugin's pods on candidate nodes that should have cards and seem to have none registered."""
    silent = [
        node.name
        for node in nodes
        if (node.metadata.annotation(NVIDIA.register) is None or not nvidia_allocatable(node))
        and expects_gpus(node)
        and obstacle(pod, node) is None
    ][:_MAX_PLUGIN_NODES]
    labels = f"{COMPONENT_LABEL}={PLUGIN_COMPONENT}"
    found = await asyncio.gather(
        *(
            seen("device plugin pods", cluster.list(PODS, labels=labels, fields=f"spec.nodeName={name}"))
            for name in silent
        )
    )
    return dict(zip(silent, found, strict=True))


# ---------------------------------------------------------------------------------------------------- diagnosis


def diagnose(snapshot: Snapshot, say: Texts) -> Report:
    """The report that follows from the snapshot."""
    gaps = [one for one in (snapshot.subject, snapshot.events) if isinstance(one, Gap)]
    tables: list[Table] = []
    if isinstance(snapshot.subject, Absent):
        findings = [no_such_pod(snapshot.subject, snapshot.wanted.kind, snapshot.wanted.name, say)]
    elif isinstance(snapshot.subject, Gap):
        findings = _unseen(snapshot, say)
    elif snapshot.scene is None:
        events = () if isinstance(snapshot.events, Gap) else snapshot.events
        past = lifecycle.past_scheduling(snapshot.subject.pod, events, snapshot.taken_at, say)
        findings = [past] if past else [_cannot_tell(snapshot, [], say)]
    else:
        findings, tables, more = _waiting(snapshot, snapshot.subject.pod, snapshot.scene, say)
        gaps += more
    return _report(snapshot, findings, tables, gaps)


def _report(snapshot: Snapshot, findings: Sequence[Finding], tables: Sequence[Table], gaps: Sequence[Gap]) -> Report:
    namespace, name = _identity(snapshot.wanted, snapshot.subject)
    kind = "Pod" if isinstance(snapshot.subject, Found) else snapshot.wanted.kind
    return Report(
        schema=SCHEMA,
        playbook="why",
        cluster=snapshot.cluster,
        taken_at=format_time(snapshot.taken_at),
        subject=Subject(kind, namespace, name),
        verdict=one_line(findings[0].claim),
        severity=worst(tuple(findings)),
        findings=tuple(prose.few_actions(findings)),
        tables=tuple(tables),
        gaps=tuple(dict.fromkeys(gaps)),
    )


def _unseen(snapshot: Snapshot, say: Texts) -> list[Finding]:
    """The pod itself cannot be read: what its events say, and no more."""
    events = () if isinstance(snapshot.events, Gap) else snapshot.events
    stand_in = Pod()
    said = what_was_said(stand_in, events, ())
    if (placed := placed_since(events, said)) is not None:
        return [_cannot_tell(snapshot, [_evidence.of_event(placed)], say)]
    found = [refusals.in_words(said, cause, say, sure=False) for cause in rank_words(said) if cause.rank < Rank.NORMAL]
    return found or [_cannot_tell(snapshot, [said.evidence] if said.evidence else [], say)]


def _cannot_tell(snapshot: Snapshot, proofs: Sequence[Evidence], say: Texts) -> Finding:
    namespace, name = _identity(snapshot.wanted, snapshot.subject)
    return Finding(
        code="not-enough-evidence",
        claim=say("not-enough-evidence.claim", pod=f"{namespace}/{name}" if namespace else name),
        severity="warning",
        confidence="suspected",
        scope=Scope(),
        evidence=tuple(proofs),
        next_actions=(
            NextAction(
                say("not-enough-evidence.describe"),
                kubectl("-n", namespace or "NAMESPACE", "describe", "pod", name),
            ),
        ),
    )


def _waiting(snapshot: Snapshot, pod: Pod, scene: Scene, say: Texts) -> tuple[list[Finding], list[Table], list[Gap]]:
    """A pod that waits for a node."""
    install, config, capacity = scene.install.install, scene.install.config, scene.capacity
    gaps = [*capacity_gaps(scene.install, capacity, snapshot.undecodable, say), *scene.log.gaps]
    gaps += [one for one in (*scene.lock_owners.values(), *scene.plugin_pods.values()) if isinstance(one, Gap)]
    if (gated := admission.gated(pod, say)) is not None:
        return [gated], [], gaps
    events = () if isinstance(snapshot.events, Gap) else snapshot.events
    lines = [
        (scheduler, line)
        for scheduler, raw in scene.log.lines
        for line in lines_about([raw], pod.namespace, pod.name, snapshot.taken_at)
        if not _is_older(line, pod)
    ]
    said = what_was_said(pod, events, lines)
    no_hami = schedulers.none_found(pod, scene.install, say)
    trouble = [no_hami] if no_hami else schedulers.scheduler_trouble(install, scene.as_of, say)
    if (other := admission.other_scheduler(pod, install, config, said, say)) is not None:
        return [*([no_hami] if no_hami else []), other], [], gaps
    case = Case(pod, World(capacity, install, config, scene.as_of))
    gaps += fit_gaps(case, say)
    nothing = admission.nothing_asked(case, say)
    if nothing is not None and pod.spec.scheduler_name != install.scheduler_name:
        trouble = []
    findings = _why_waiting(case, said, scene, say)
    if nothing is not None:
        findings = [nothing] if said.stage == "nothing" else [*findings, nothing]
    findings = findings or [_cannot_tell(snapshot, [said.evidence] if said.evidence else [], say)]
    return _with_trouble(findings, trouble), _tables(case), gaps


def _with_trouble(findings: list[Finding], trouble: Sequence[Finding]) -> list[Finding]:
    """A scheduler that does not work comes first; one that is unwell does so only where nothing else explains it."""
    unexplained = findings[0].code == "waiting-for-retry"
    first = [one for one in trouble if one.severity == "critical" or (unexplained and one.severity == "warning")]
    return [*first, *findings, *(one for one in trouble if one not in first)]


def _is_older(line: LogLine, pod: Pod) -> bool:
    """Whether a log line is about an earlier pod of the same name."""
    created = parse_time(pod.metadata.creation_timestamp)
    return line.at is not None and created is not None and line.at < created


def _why_waiting(case: Case, said: Said, scene: Scene, say: Texts) -> list[Finding]:
    quotas = () if isinstance(scene.capacity.quotas, Gap) else scene.capacity.quotas
    if (silent := binding.extender_silent(case, said, say)) is not None:
        return [silent]
    if not case.nodes_seen or _words_know_better(case, said):
        return _from_words(case, said, scene, say)
    if other_vendors(case):
        kubernetes = (cause for cause in rank_causes(case, said) if cause.of_kubernetes)
        ours = [refusals.refused(case, said, cause, quotas, say) for cause in kubernetes]
        return _from_words(case, said, scene, say, why="said.vendor") or ours
    untrusted = unregistered.untrusted(case, said, say)
    if (passed := _past_the_filter(case, said, scene, untrusted, say)) is not None:
        return passed
    found = [untrusted] if untrusted is not None and untrusted.severity != "info" else []
    for cause in rank_causes(case, said):
        if cause.text == NODE_UNREGISTERED:
            found += unregistered.unregistered(case, said, cause, scene.plugin_pods, say)
        else:
            found.append(refusals.refused(case, said, cause, quotas, say))
    if too_large := refusals.impossible(case, said, say):
        found.insert(0, too_large)
    if found and found[0].code not in ("node-unregistered", "handshake-stale", "handshake-deleted"):
        found[0] = structs.replace(found[0], next_actions=(*refusals.advise(case, say), *found[0].next_actions))
    return found + ([untrusted] if untrusted is not None and untrusted not in found else [])


def _past_the_filter(
    case: Case, said: Said, scene: Scene, untrusted: Finding | None, say: Texts
) -> list[Finding] | None:
    """What holds a pod that some node would take, or that the filter let through; None when there is no such node."""
    for finding in (
        refusals.lost_to_kubernetes(case, said, say),
        binding.locked(case, said, scene.lock_owners, say),
        binding.bind_refused(case, said, say),
        binding.blocked(case, said, say) if case.fitting else None,
    ):
        if finding is not None:
            return [finding]
    blamed = untrusted is not None and untrusted.severity != "info"
    retry = binding.waits_for_retry(case, said, say) if case.request.containers and not blamed else None
    if retry is None:
        return None
    noise = (binding.passing_lock(case, scene.lock_owners, say), untrusted)
    return [retry, *(one for one in noise if one is not None)]


def _words_know_better(case: Case, said: Said) -> bool:
    """Whether HAMi gave reasons for nodes that our own fit cannot judge: weighing the rest would miss the cause."""
    unknown = [name for name, one in case.verdicts.items() if one.fits is None and not said.cards_on(name)]
    reasons = said.unschedulable.by_hami if said.unschedulable else ()
    return bool(unknown) and any(card.of for reason in reasons for card in reason.cards)


def _from_words(case: Case, said: Said, scene: Scene, say: Texts, why: str = "said.claim") -> list[Finding]:
    """Where our own fit cannot be asked: the schedulers' words, and no weighing of them."""
    for finding in (
        binding.locked(case, said, scene.lock_owners, say),
        binding.bind_refused(case, said, say),
        binding.blocked(case, said, say),
    ):
        if finding is not None:
            return [finding]
    causes = [cause for cause in rank_words(said) if cause.rank < Rank.NORMAL]
    telling = [cause for cause in causes if cause.code != "node-unfit-pod"] or causes
    return [refusals.in_words(said, cause, say, sure=len(causes) == 1, why=why) for cause in telling]


def _tables(case: Case) -> list[Table]:
    """The candidates by reason, HAMi's verdict as our fit gives it."""
    grouped: dict[tuple[str, str], list[str]] = {}
    judged = case.request.containers and not other_vendors(case)
    for name, verdict in case.verdicts.items() if judged else ():
        word = "fit" if verdict.fits else "unfit" if verdict.fits is False else "unknown"
        grouped.setdefault((word, verdict.text() or verdict.unknown), []).append(name)
    rows = sorted(grouped.items(), key=lambda one: (one[0][0], -len(one[1]), one[0][1]))
    return (
        [
            Table(
                title="candidate nodes",
                columns=("verdict", "reason", "count", "nodes"),
                rows=tuple(
                    (*key, str(len(names)), ", ".join(names[:8]) + (", …" if len(names) > 8 else ""))
                    for key, names in rows[:_MAX_ROWS]
                ),
            )
        ]
        if rows
        else []
    )


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
            help="The pod's namespace; found by itself when unambiguous.",
        ),
    ),
    request=request,
    gather=gather,
    diagnose=diagnose,
)
