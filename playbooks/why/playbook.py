"""`why`: why is a pod pending, or why did it fail to get its device? What is read depends on the pod: one that waits
for a node, one that has it, or none of that name. Each has its table of rules in `playbooks/judgement`.
"""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import NamedTuple

import click

from bot.errors import SourceError, Troubled, Unusable
from bot.hami.pods.allocations import waits
from bot.hami.pods.request_parsing import DeviceConfig, extended_resources, gpus_of
from bot.kube.cluster import Cluster
from bot.kube.models import Pod
from bot.kube.times import format_time
from bot.report import Finding, FirstNames, Gap, Report, Sheet, Subject, Table, gap, new_report
from bot.texts import Prose, Text, in_english
from playbooks.gather.node_side import events_of
from playbooks.gather.pods import gather_absent_pod, gather_placed_pod, gather_waiting_pod
from playbooks.gather.subject import AbsentPod, FoundPod, parse_subject, resolve, role_of
from playbooks.gather.usage import MeasuredNodes, gather_usage_of
from playbooks.judgement.placed import ABSENT, PLACED
from playbooks.judgement.waiting import Judgement, judge
from playbooks.playbook import Playbook, Sources
from playbooks.rule import run
from playbooks.rules.common.findings import finding, fit_gaps, other_vendors, scene_gaps
from playbooks.rules.common.holders import in_question
from playbooks.rules.installation.surroundings import background
from playbooks.rules.placed.container_faults import unread_log
from playbooks.rules.waiting import volcano
from playbooks.scenes.placed_pod import AbsentScene, PlacedScene
from playbooks.scenes.waiting_pod import PodScene


class CandidateRow(NamedTuple):
    """A row for the nodes with the same verdict for the same reason."""

    verdict: str
    reason: Prose
    number: int
    nodes: FirstNames


class OwnedRow(NamedTuple):
    """A row for the pods of the owner that was asked about, and what each asks for. `wanted` is empty if not known."""

    role: str
    pods: int
    wanted: int | str
    waiting: int
    gpus_each: int | None
    asks: str


ROLES = Sheet("roles", OwnedRow, names="gpus_each=GPUs_each")
CANDIDATES = Sheet("candidate nodes", CandidateRow, names="number=count")
_MOST_ROWS = 50
_BY_ITS_MEMORY = ("scheduler-ledger-stale", "registration-ignored", "node-unfit-pod")
"""Codes of findings that HAMi's scheduler refuses nodes by what it remembers, and not by what the objects say."""
_OF_MEMORY = ("scheduler-ledger-stale", "registration-ignored", "waiting-for-retry")
"""Codes of findings that the scheduler's own figures would prove or refute."""


class Snapshot(NamedTuple):
    """What `why` read about one pod, and when. `found` is the pod as it was looked up; None if none was found."""

    wanted: Subject
    cluster: str
    taken_at: datetime
    scene: PodScene | PlacedScene | AbsentScene
    found: FoundPod | None
    undecodable: tuple[str, ...]

    @property
    def pod(self) -> Pod | None:
        """The pod; None if it does not exist, or could not be read."""
        return None if isinstance(self.scene, AbsentScene) else self.scene.pod

    @property
    def subject(self) -> Subject:
        pod, wanted = self.pod, self.wanted
        return Subject("Pod", pod.namespace, pod.name) if pod else wanted


def request(pod: str, namespace: str = "") -> Subject:
    """Reads the pod or owner from the words that were typed."""
    return parse_subject(pod, namespace)


async def gather(wanted: Subject, sources: Sources) -> Snapshot:
    """Reads the pod, then what bears on it: the cluster's nodes if it is pending, else its own. Raises Unusable."""
    cluster = sources.cluster
    found = await _find(cluster, wanted)
    if not isinstance(found, FoundPod):
        scene = await gather_absent_pod(wanted, found, sources)
    elif waits(found.pod):
        waiting = await gather_waiting_pod(found.pod, sources, volcano.pod_group(found.pod))
        usage = await gather_usage_of(sources, partial(in_question, waiting))
        scene = waiting.with_usage(MeasuredNodes(usage, cluster.now()))
    else:
        scene = await gather_placed_pod(found.pod, sources)
    there = found if isinstance(found, FoundPod) else None
    return Snapshot(wanted, cluster.name, cluster.now(), scene, there, tuple(cluster.undecodable))


async def _find(cluster: Cluster, wanted: Subject) -> FoundPod | AbsentPod | Gap:
    """A source that is of no use at all gives no report; one that lacks, or refuses, the pods gives a gap."""
    try:
        return await resolve(cluster, wanted)
    except Unusable:
        raise
    except Troubled as error:
        if isinstance(await events_of(cluster, wanted.namespace, wanted.name), Gap):  # all of it seems in trouble
            raise Unusable(error.message, hint=error.hint) from error
        return gap("pod", error.message, error.hint)
    except SourceError as error:
        return gap("pod", error.message, error.hint)


def diagnose(snapshot: Snapshot) -> Report:
    """The report on the pod: why it is pending, or did not get its device."""
    scene, subject, name = snapshot.scene, snapshot.subject, snapshot.wanted.name
    full, tables, gaps = f"{subject.namespace}/{subject.name}", list[Table](), list[Gap]()
    if found := snapshot.found:
        gaps += found.gaps
    told = Text("not-found.by-prefix", name=name, pod=full)
    taken = [finding("not-found", told, severity="info")] if found and found.by_prefix else []
    match scene:
        case PodScene():
            judged = judge(scene)
            findings, tables = judged.findings, _tables(scene, judged.findings[0]) if judged.of_nodes else []
            gaps += _unread(scene, judged, snapshot.undecodable)
        case PlacedScene():
            findings = run(PLACED, scene).findings
            gaps += [*scene.gaps, *unread_log(scene, {finding.code for finding in findings})]
        case AbsentScene():
            findings = run(ABSENT, scene).findings
            gaps += scene.gaps
    if found and found.alike and not isinstance(scene, AbsentScene):
        tables = [_roles(snapshot.wanted, found, scene.config), *tables]
        if len(found.alike) > 1:
            owner = f"{snapshot.wanted.kind} {name}"
            told = Text("not-found.most-in-need", pod=full, owner=owner, count=len(found.alike))
            gaps.append(gap("the other pods", told, Text("not-found.each-alone")))
    return new_report(
        playbook="why",
        cluster=snapshot.cluster,
        taken_at=format_time(snapshot.taken_at),
        subject=subject,
        findings=[*findings, *background(list(scene.nodes.values())), *taken],
        tables=tables,
        gaps=gaps,
        pod_status=snapshot.pod.shown_status if snapshot.pod else "",
    )


def _unread(scene: PodScene, judged: Judgement, undecodable: Sequence[str]) -> list[Gap]:
    process, gaps = scene.cluster.process, scene_gaps(scene.cluster, undecodable)
    gaps += [read for read in (scene.group_events, scene.queued) if isinstance(read, Gap)]
    gaps += [*(scene.claims.gaps if scene.claims else ()), *scene.volcano_plugins.gaps]
    if judged.findings[0].code in _OF_MEMORY:
        counted = [process.counted] if isinstance(process.counted, Gap) else []
        gaps += [gap for gap in (*process.unread, *counted) if gap not in gaps]
    if judged.of_nodes:
        gaps += [*(scene.usage.usage.gaps if scene.usage else ()), *fit_gaps(scene)]
    return [gap.about(scene.noun) for gap in gaps]


def _roles(wanted: Subject, found: FoundPod, config: DeviceConfig) -> Table:
    """The owner's pods by their roles; those of one role that ask for different things are told apart."""
    grouped: dict[tuple[str, str], list[Pod]] = defaultdict(list)
    for pod in found.alike:
        asks = ", ".join(f"{name}: {value}" for name, value in extended_resources(pod).items())
        grouped[role_of(pod) or wanted.name, asks].append(pod)
    return ROLES.table(
        OwnedRow(
            role,
            len(pods),
            found.wanted if found.wanted is not None and len(grouped) == 1 else "",
            sum(1 for pod in pods if waits(pod)),
            gpus_each=gpus_of(pods[0], config),
            asks=asks,
        )
        for (role, asks), pods in grouped.items()
    )


def _tables(scene: PodScene, first: Finding) -> list[Table]:
    """The candidates by reason, HAMi's verdict as our fit gives it; what it refuses by what it keeps does not fit."""
    kept_out = set(first.scope.nodes) if first.code in _BY_ITS_MEMORY else set[str]()
    judged = scene.request.containers and not other_vendors(scene)
    grouped: dict[tuple[str, Prose], list[str]] = defaultdict(list)
    for verdict, names in scene.by_verdict if judged else ():
        word = "fit" if verdict.fits else "unfit" if verdict.fits is False else "unknown"
        kept = [name for name in names if verdict.fits and name in kept_out]
        grouped[word, verdict.said or verdict.unknown] += [name for name in names if name not in kept]
        grouped["refused", Text("scheduler-ledger-stale.refused-still")] += kept
    held = ((key, names) for key, names in grouped.items() if names)
    rows = sorted(held, key=lambda item: (item[0][0], -len(item[1]), in_english(item[0][1])))
    shown = (CandidateRow(*key, len(names), FirstNames(sorted(names))) for key, names in rows[:_MOST_ROWS])
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
