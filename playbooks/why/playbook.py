"""Why is a pod pending, or why did it fail to get its device?

What is read depends on the pod: one that waits for a node, one that has it, or none of that name. Each has its table
of rules in `playbooks/judgement`.
"""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import NamedTuple

import click

from bot.errors import SourceError, Troubled, Unusable
from bot.hami.pods.allocations import waits
from bot.kube.cluster import Cluster
from bot.kube.models import Pod
from bot.kube.times import format_time
from bot.report import FirstNames, Gap, Report, Sheet, Subject, Table, gap, new_report
from bot.texts import Prose, Text, in_english
from playbooks.gather.node_side import events_of
from playbooks.gather.pods import gather_absent_pod, gather_placed_pod, gather_waiting_pod
from playbooks.gather.subject import AbsentPod, FoundPod, SubjectRequest, parse_subject, resolve
from playbooks.gather.usage import MeasuredNodes, gather_usage_of
from playbooks.judgement.placed import ABSENT, PLACED
from playbooks.judgement.waiting import Judgement, judge
from playbooks.playbook import Playbook, Sources
from playbooks.rule import run
from playbooks.rules.capacity.idle_holders import in_question
from playbooks.rules.common.findings import fit_gaps, other_vendors, scene_gaps
from playbooks.rules.installation.surroundings import background
from playbooks.rules.placed.container_faults import unread_log
from playbooks.rules.waiting import volcano
from playbooks.scenes.placed_pod import AbsentScene, PlacedScene
from playbooks.scenes.waiting_pod import PodScene


class CandidateRow(NamedTuple):
    """Nodes of one verdict for the same reason."""

    verdict: str
    reason: Prose
    number: int
    nodes: FirstNames


CANDIDATES = Sheet("candidate nodes", CandidateRow, names={"number": "count"})
_MAX_ROWS = 50
_OF_MEMORY = ("scheduler-ledger-stale", "registration-ignored", "waiting-for-retry")
"""What the scheduler's own figures would prove or refute."""


class Snapshot(NamedTuple):
    """Everything seen, and when. `by_prefix`: only this pod's name begins with what was asked for."""

    wanted: SubjectRequest
    cluster: str
    taken_at: datetime
    scene: PodScene | PlacedScene | AbsentScene
    by_prefix: bool
    gaps: tuple[Gap, ...]
    """Where the pod was not looked for."""
    undecodable: tuple[str, ...]

    @property
    def pod(self) -> Pod | None:
        """The pod, None where it is not there, or could not be read."""
        return None if isinstance(self.scene, AbsentScene) else self.scene.pod

    @property
    def subject(self) -> Subject:
        pod, wanted = self.pod, self.wanted
        return Subject("Pod", pod.namespace, pod.name) if pod else Subject(*wanted)


def request(pod: str, namespace: str = "") -> SubjectRequest:
    """The subject in the words that were typed."""
    return parse_subject(pod, namespace)


async def gather(wanted: SubjectRequest, sources: Sources) -> Snapshot:
    """Read the pod first, then what bears on it: the cluster's nodes where it waits, else its own. Raises Unusable."""
    cluster = sources.cluster
    found = await _find(cluster, wanted)
    if not isinstance(found, FoundPod):
        scene = await gather_absent_pod(wanted, found, sources)
    elif waits(found.pod):
        waiting = await gather_waiting_pod(found.pod, sources, volcano.pod_group(found.pod))
        usage = await gather_usage_of(sources, partial(in_question, waiting))
        scene = waiting.measured(MeasuredNodes(usage, cluster.now()))
    else:
        scene = await gather_placed_pod(found.pod, sources)
    by_prefix, gaps = (found.by_prefix, found.gaps) if isinstance(found, FoundPod) else (False, ())
    return Snapshot(wanted, cluster.name, cluster.now(), scene, by_prefix, gaps, tuple(cluster.undecodable))


async def _find(cluster: Cluster, wanted: SubjectRequest) -> FoundPod | AbsentPod | Gap:
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
    """The report that follows from the snapshot."""
    scene, subject, name = snapshot.scene, snapshot.subject, snapshot.wanted.name
    full, tables, gaps = f"{subject.namespace}/{subject.name}", list[Table](), [*snapshot.gaps]
    if snapshot.by_prefix:
        gaps.append(gap("pod", Text("not-found.by-prefix", name=name, pod=full)))
    match scene:
        case PodScene():
            judged = judge(scene)
            findings, tables = judged.findings, _tables(scene) if judged.of_nodes else []
            gaps += _unread(scene, judged, snapshot.undecodable)
        case PlacedScene():
            findings = run(PLACED, scene).findings
            gaps += [*scene.gaps, *unread_log(scene, {finding.code for finding in findings})]
        case AbsentScene():
            findings = run(ABSENT, scene).findings
            gaps += scene.gaps
    instead = Text("not-found.instead", pod=full, name=name, claim=findings[0].text)
    return new_report(
        playbook="why",
        cluster=snapshot.cluster,
        taken_at=format_time(snapshot.taken_at),
        subject=subject,
        verdict=instead if snapshot.by_prefix else None,
        findings=[*findings, *background(list(scene.nodes.values()))],
        tables=tables,
        gaps=gaps,
    )


def _unread(scene: PodScene, judged: Judgement, undecodable: Sequence[str]) -> list[Gap]:
    """What could not be read of what decides about a waiting pod, and where our own fit is not sure."""
    process, gaps = scene.cluster.process, scene_gaps(scene.cluster, undecodable)
    gaps += [scene.group_events] if isinstance(scene.group_events, Gap) else []
    gaps += [*(scene.claims.gaps if scene.claims else ()), *scene.volcano_plugins.gaps]
    if judged.findings[0].code in _OF_MEMORY:
        counted = [process.counted] if isinstance(process.counted, Gap) else []
        gaps += [gap for gap in (*process.unread, *counted) if gap not in gaps]
    if judged.of_nodes:
        gaps += [*(scene.usage.usage.gaps if scene.usage else ()), *fit_gaps(scene)]
    return [gap.about(scene.noun) for gap in gaps]


def _tables(scene: PodScene) -> list[Table]:
    """The candidates by reason, HAMi's verdict as our fit gives it."""
    judged = scene.request.containers and not other_vendors(scene)
    grouped: dict[tuple[str, Prose], list[str]] = defaultdict(list)
    for verdict, names in scene.by_verdict if judged else ():
        word = "fit" if verdict.fits else "unfit" if verdict.fits is False else "unknown"
        grouped[word, verdict.said or verdict.unknown] += names
    rows = sorted(grouped.items(), key=lambda item: (item[0][0], -len(item[1]), in_english(item[0][1])))
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
