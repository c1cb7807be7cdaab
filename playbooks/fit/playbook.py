"""Would these pods, or cards asked for in a few words, fit now, and where? If not: what would let them in.

The table `nodes` is HAMi's filter alone, per pod and node, with kubernetes' own filters beside it; the answer counts
only nodes that both leave.
"""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

import click
from msgspec import structs

from bot.errors import SourceError, UsageError
from bot.kube.cluster import Cluster
from bot.kube.models import Pod, ResourceSlice
from bot.kube.times import format_time
from bot.report import Gap, Report, Subject, Table, new_report
from bot.texts import Prose, Text
from playbooks.fit import tables
from playbooks.fit.admitted import admission
from playbooks.fit.answer import Answer, AskedPod, answer, free_nodes
from playbooks.fit.elsewhere import not_looked_at
from playbooks.fit.gpu_words import DEFAULT_NAMESPACE, EXAMPLE, CardWords, pod_of, read_card_words, words_of
from playbooks.fit.manifest import Manifest, ManifestFile, read_pods
from playbooks.fit.manifest_pod import file_of
from playbooks.fit.resources import ManifestCase
from playbooks.gather.dra import gather_slices
from playbooks.gather.namespaces import EmptyNamespace, gather_deserted
from playbooks.gather.scheduling import (
    Capacity,
    InstallSeen,
    gather_capacity,
    gather_install,
    is_absent,
    times_shown,
)
from playbooks.gather.usage import MeasuredNodes, UsageSeen
from playbooks.gather.usage_of_nodes import gather_usage_of
from playbooks.playbook import Playbook, Sources
from playbooks.rules.admission.not_found import no_such_namespace
from playbooks.rules.capacity.idle_holders import in_question, with_waited_for
from playbooks.rules.common import prose
from playbooks.rules.common.gaps import capacity_gaps, confidence_in, fit_gaps
from playbooks.rules.dra.devices import given_by_claims, handed_out_twice, served
from playbooks.rules.installation.surroundings import answer_without_hami
from playbooks.rules.waiting.stale_scheduler import maybe_unknown
from playbooks.scenes.cluster import ClusterScene
from playbooks.scenes.waiting_pod import PodScene

_MAX_FINDINGS = 20
_MAX_CORES = 100


class Request(NamedTuple):
    """The pods to try, as a webhook would have admitted them; or cards in words, for a pod of the namespace."""

    pods: tuple[Pod, ...]
    words: CardWords | None = None
    namespace: str = ""


class Snapshot(NamedTuple):
    """The cluster's cards and what is used of them. `deserted` is the namespace that was typed, if nothing is in it.

    `usage` was measured on nodes where somebody may hold GPUs without using them that a pod needs.
    """

    request: Request
    cluster: str
    taken_at: datetime
    asked: tuple[AskedPod, ...]
    usage: UsageSeen
    install: InstallSeen
    capacity: Capacity
    as_of: datetime
    deserted: EmptyNamespace | Gap | None
    slices: Sequence[ResourceSlice] | Gap
    undecodable: tuple[str, ...]


def request(
    file: Sequence[Manifest] = (),
    namespace: str = "",
    cards: Sequence[str] | str = (),
    cores: int | None = None,
    type: str = "",  # noqa: A002  # the option's name
) -> Request:
    """The pods of the files, `namespace` being for those that name none; or one pod that asks for such cards."""
    words = [cards] if isinstance(cards, str) else list(cards)
    if file and (words or cores is not None or type):
        raise UsageError(Text("error-fit.manifest-says-which"), hint=Text("error-fit.give-file-or-number"))
    if words:
        return Request((), read_card_words(words, cores, type.strip()), namespace or DEFAULT_NAMESPACE)
    if not file:
        anything = cores is None and not type
        needed = Text("error-fit.needs-number-or-manifest") if anything else Text("error-fit.needs-number-and-memory")
        raise UsageError(needed, hint=Text("error-fit.name-gpus-or-manifest"), example=EXAMPLE)
    pods = read_pods(file)
    return Request(tuple(_named(pod, number, namespace) for number, pod in enumerate(pods, 1)), None, namespace)


def _named(pod: Pod, number: int, namespace: str) -> Pod:
    meta = pod.metadata
    name = meta.name or (f"{meta.generate_name}{number}" if meta.generate_name else f"pod-{number}")
    within = meta.namespace or namespace or DEFAULT_NAMESPACE
    return structs.replace(pod, metadata=structs.replace(meta, name=name, namespace=within))


async def gather(wanted: Request, sources: Sources) -> Snapshot:
    """Read the install and the cards. Raises SourceError when the nodes cannot be read: there is nothing to fit on."""
    cluster = sources.cluster
    install, slices = await asyncio.gather(gather_install(sources), gather_slices(cluster))
    capacity = await gather_capacity(cluster, install.install, "")
    if isinstance(capacity.nodes, Gap):
        raise SourceError(capacity.nodes.text, hint=capacity.nodes.advice)
    as_of = cluster.as_of(times_shown(cluster, capacity.nodes, install.install))
    deserted = await _deserted(cluster, wanted.namespace, capacity)
    undecodable = tuple(cluster.undecodable)
    asked = asked_of(wanted, install, capacity, as_of)
    crowded = (
        nodes
        for asked_pod in asked[:_MAX_FINDINGS]
        if asked_pod.refused is None and (nodes := in_question(asked_pod.scene))
    )
    usage = await gather_usage_of(sources, lambda: next(crowded, dict[str, list[str]]()))
    taken_at = cluster.now()
    return Snapshot(
        wanted, cluster.name, taken_at, asked, usage, install, capacity, as_of, deserted, slices, undecodable
    )


def asked_of(wanted: Request, seen: InstallSeen, capacity: Capacity, as_of: datetime) -> tuple[AskedPod, ...]:
    """Every pod of the question against that cluster."""
    world = ClusterScene(seen, _quotas_or_none(capacity), as_of)
    if wanted.words:
        pod = pod_of(wanted.words, wanted.namespace, world.config)
        admitted = admission(pod, world.install, world.config)
        return (AskedPod(ManifestCase(admitted.pod, world), pod.name, wanted.words, admitted.pod, admitted.refused),)
    return tuple(
        AskedPod(ManifestCase(admitted.pod, world), name, None, pod, admitted.refused)
        for pod, name in zip(wanted.pods, _names(wanted.pods), strict=True)
        for admitted in [admission(pod, world.install, world.config)]
    )


async def _deserted(cluster: Cluster, namespace: str, capacity: Capacity) -> EmptyNamespace | Gap | None:
    """More is read only for a namespace without quotas and without cards."""
    seen = {
        object_.namespace for some in (capacity.quotas, capacity.pods) if not isinstance(some, Gap) for object_ in some
    }
    return None if namespace in {"", DEFAULT_NAMESPACE, *seen} else await gather_deserted(cluster, namespace)


def diagnose(snapshot: Snapshot) -> Report:
    """A finding per pod; the nodes grouped by reason, and one by one. None is judged where only DRA gives devices."""
    if (without := answer_without_hami("fit", snapshot, snapshot.install)) is not None:
        return without
    wanted = snapshot.request
    world = ClusterScene(snapshot.install, snapshot.capacity, snapshot.as_of, slices=snapshot.slices)
    asked = () if served(snapshot.slices) and is_absent(snapshot.install) else snapshot.asked
    pods = [asked_pod.scene.pod for asked_pod in snapshot.asked]
    sure = confidence_in(snapshot.install, snapshot.capacity, snapshot.undecodable)
    answers = [answer(asked_pod, sure) for asked_pod in asked[:_MAX_FINDINGS]]
    measured = MeasuredNodes(snapshot.usage, snapshot.taken_at)
    pairs = zip(answers, asked, strict=False)
    findings = [found for given, of in pairs for found in with_waited_for([given.finding], of.scene.measured(measured))]
    findings.sort(key=lambda finding: finding.severity == "info")
    findings = [*handed_out_twice(world), *findings, *given_by_claims(world)]
    gaps = capacity_gaps(snapshot.install, snapshot.capacity, snapshot.undecodable)
    created = [asked_pod for asked_pod in asked if asked_pod.refused is None]
    gaps += [gap for asked_pod in created for gap in _gaps_of(asked_pod.scene)]
    gaps += [*(gap for given in answers for gap in given.gaps), *snapshot.usage.gaps]
    gaps += [snapshot.slices] if isinstance(snapshot.slices, Gap) else []
    if isinstance(snapshot.deserted, EmptyNamespace):
        findings.append(no_such_namespace(snapshot.deserted, _without_namespace(wanted)))
    elif snapshot.deserted is not None:
        gaps.append(snapshot.deserted)
    return new_report(
        playbook="fit",
        cluster=snapshot.cluster,
        taken_at=format_time(snapshot.taken_at),
        subject=_subject(wanted, pods),
        verdict=_verdict(asked, answers) if asked else findings[0].text,
        findings=prose.few_actions(findings),
        tables=tuple(table for table in _tables(asked, answers) if table.rows or table.title == tables.NODES.title),
        gaps=gaps,
    )


def _gaps_of(scene: PodScene) -> list[Gap]:
    """What is not known of the nodes that one pod may go to."""
    return [*fit_gaps(scene), *maybe_unknown(scene), *not_looked_at(scene)]


def _without_namespace(wanted: Request) -> tuple[str, ...]:
    """The question up to the namespace."""
    if wanted.words:
        return "fit", *words_of(wanted.words, DEFAULT_NAMESPACE), "-n"
    files = dict.fromkeys(map(file_of, wanted.pods))
    return "fit", *(word for file in files for word in ("-f", file)), "-n"


def _subject(wanted: Request, pods: Sequence[Pod]) -> Subject:
    first, *others = pods
    if not others:
        return Subject("GPUs" if wanted.words else "Pod", first.namespace, first.name)
    return Subject("Pods", first.namespace if {pod.namespace for pod in pods} == {first.namespace} else "", "")


def _tables(asked: Sequence[AskedPod], answers: Sequence[Answer]) -> list[Table]:
    """What is short first: the nodes one by one are for machines. A pod that would be refused is on no node."""
    created = [asked_pod for asked_pod in asked if asked_pod.refused is None]
    return [
        tables.admitted(created),
        tables.by_reason(created),
        tables.endings([(asked_pod.name, given.endings) for asked_pod, given in zip(asked, answers, strict=False)]),
        tables.requests(created),
        tables.quota_effect(created),
        tables.nodes(created),
    ]


def _verdict(asked: Sequence[AskedPod], answers: Sequence[Answer]) -> Prose:
    if len(asked) == 1:
        return answers[0].verdict or answers[0].finding.text
    return Text(
        "fit.summary",
        fitting=sum(1 for asked_pod in asked if asked_pod.refused is None and free_nodes(asked_pod.scene)),
        pods=len(asked),
    )


def _quotas_or_none(capacity: Capacity) -> Capacity:
    """Where quotas could not be read the question is answered without them: the gap says so, and nothing is sure."""
    return capacity._replace(quotas=[]) if isinstance(capacity.quotas, Gap) else capacity


def _names(pods: Sequence[Pod]) -> list[str]:
    """The pods' names; with their namespace where a name alone would not tell them apart."""
    plain = [pod.name for pod in pods]
    return plain if len(set(plain)) == len(plain) else [f"{pod.namespace}/{pod.name}" for pod in pods]


PLAYBOOK = Playbook(
    verb="fit",
    summary="Would these pods, or this many GPUs, fit now, and on which nodes?",
    example="fit 2x16Gi",
    parameters=(
        click.Argument(["cards"], nargs=-1, metavar="[COUNTxMEMORY|COUNTxDEVICE[:MEMORY]]"),
        click.Option(
            ["--cores"], type=click.IntRange(0, _MAX_CORES), metavar="N", help="Percentage of each GPU's cores."
        ),
        click.Option(["--type"], default="", metavar="TYPE", help="Only GPUs whose type contains this, in any case."),
        click.Option(
            ["-f", "--file"],
            type=ManifestFile(),
            multiple=True,
            metavar="FILE",
            help="A Pod or List as YAML or JSON; - for standard input. May be repeated.",
        ),
        click.Option(
            ["-n", "--namespace"],
            default="",
            metavar="NS",
            help="The pod's namespace; with -f, of pods that name none.",
        ),
    ),
    request=request,
    gather=gather,
    diagnose=diagnose,
)
