"""`fit`: would these pods, or GPUs asked for in a few words, fit now, and where? If not: what would let them in.
The table `nodes` shows HAMi's filter per pod and node, and Kubernetes' own beside it; a node that counts passes both.
"""

import asyncio
from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import click
from msgspec import structs

from bot.errors import SourceError, UsageError
from bot.kube.models import Pod
from bot.report import Gap, Report, Subject, gap
from bot.texts import Prose, Text
from playbooks.fit import tables
from playbooks.fit.elsewhere import not_looked_at, replicas_unjudged
from playbooks.fit.gpu_words import DEFAULT_NAMESPACE, EXAMPLE, CardWords, pod_of, read_card_words, words_of
from playbooks.fit.manifest import Manifest, ManifestFile, file_of, read_pods, role_of
from playbooks.fit.rules import FIT, endings, free_nodes, verdict
from playbooks.fit.scene import AskedScene, admission
from playbooks.gather.dra import gather_slices
from playbooks.gather.scheduling import gather_capacity, gather_install, is_absent, times_shown
from playbooks.gather.subject import EmptyNamespace, gather_deserted
from playbooks.gather.usage import MeasuredNodes, UsageSeen, gather_usage_of
from playbooks.playbook import Playbook, Snapshot, Sources
from playbooks.rule import FindingsSoFar, run
from playbooks.rules.admission.before_scheduling import no_such_namespace
from playbooks.rules.common.findings import capacity_gaps, fit_gaps
from playbooks.rules.common.holders import in_question
from playbooks.rules.dra import given_by_claims, handed_out_twice, served
from playbooks.rules.installation.surroundings import answer_without_hami
from playbooks.rules.waiting.stale_scheduler import maybe_unknown
from playbooks.scenes.cluster import ClusterScene

_MAX_FINDINGS = 20
_MAX_CORES = 100


class Request(NamedTuple):
    """What to try: `pods` as their manifests have them, or GPUs in `words`, for a pod of the namespace."""

    pods: tuple[Pod, ...]
    words: CardWords | None = None
    namespace: str = ""


class FitScene(NamedTuple):
    """The cluster's GPUs and what is used of them. `deserted` is the namespace that was typed, if it has no pod and no
    quota. `usage` was measured on nodes where pods may hold, without using them, GPUs that the pod needs.
    """

    world: ClusterScene
    asked: tuple[AskedScene, ...]
    usage: UsageSeen
    deserted: EmptyNamespace | Gap | None
    undecodable: tuple[str, ...]


def request(
    file: Sequence[Manifest] = (),
    namespace: str = "",
    cards: Sequence[str] | str = (),
    cores: int | None = None,
    type: str = "",  # noqa: A002  # the option's name
) -> Request:
    """Reads the typed question: pods of files (in `namespace` if they name none), or GPU words. Raises UsageError."""
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


async def gather(wanted: Request, sources: Sources) -> Snapshot[Request, FitScene]:
    """Reads the install and the nodes' GPUs. Raises SourceError if the nodes cannot be read: nothing could fit."""
    cluster = sources.cluster
    install, slices = await asyncio.gather(gather_install(sources), gather_slices(cluster))
    capacity = await gather_capacity(cluster, install.install, "")
    if isinstance(capacity.nodes, Gap):
        raise SourceError(capacity.nodes.text, hint=capacity.nodes.advice)
    as_of = cluster.as_of(times_shown(cluster, capacity.nodes, install.install))
    # More is read only for a namespace without quotas and without cards.
    objects = chain.from_iterable(some for some in (capacity.quotas, capacity.pods) if not isinstance(some, Gap))
    known = wanted.namespace in {"", DEFAULT_NAMESPACE, *(object_.namespace for object_ in objects)}
    deserted = None if known else await gather_deserted(cluster, wanted.namespace)
    undecodable = tuple(cluster.undecodable)
    world = ClusterScene(install, capacity, as_of, slices=slices)
    asked = asked_of(wanted, world, undecodable)
    crowded = (nodes for scene in asked[:_MAX_FINDINGS] if scene.refused is None and (nodes := in_question(scene)))
    usage = await gather_usage_of(sources, lambda: next(crowded, dict[str, list[str]]()))
    taken_at = cluster.now()
    asked = tuple(scene.with_usage(MeasuredNodes(usage, taken_at)) for scene in asked)
    return Snapshot(wanted, cluster.name, taken_at, FitScene(world, asked, usage, deserted, undecodable))


def asked_of(wanted: Request, world: ClusterScene, undecodable: Sequence[str] = ()) -> tuple[AskedScene, ...]:
    """Makes a scene in the cluster `world` for every pod of the question. If quotas could not be read, pods are judged
    without them: a gap says so, and every finding is only suspected.
    """
    unread = world.capacity.gaps
    if isinstance(world.capacity.quotas, Gap):
        world = structs.replace(world, capacity=world.capacity._replace(quotas=[]))
    pods = (pod_of(wanted.words, wanted.namespace, world.config),) if wanted.words else wanted.pods
    admissions = [admission(pod, world.install, world.config) for pod in pods]
    several = len({pod.name for pod in pods}) < len(pods)  # whom a name alone would not tell apart
    names = [f"{pod.namespace}/{pod.name}" if several else pod.name for pod in pods]
    return tuple(
        AskedScene(
            world,
            admitted,
            name=name,
            written=admitted if wanted.words else pod,
            card_words=wanted.words,
            refused=refused,
            unread=unread,
            undecodable=undecodable,
        )
        for name, pod, (admitted, refused) in zip(names, pods, admissions, strict=True)
    )


def diagnose(snapshot: Snapshot[Request, FitScene]) -> Report:
    """The report: a finding per pod; nodes grouped by reason and one by one. No pod is judged if only DRA has GPUs."""
    wanted, (world, tried, usage, deserted, undecodable) = snapshot.request, snapshot.scene
    if (without := answer_without_hami("fit", snapshot, world.seen)) is not None:
        return without
    asked = () if served(world.slices) and is_absent(world.seen) else tried
    answers = [(scene, run(FIT, scene)) for scene in asked[:_MAX_FINDINGS]]
    findings = [finding for _, told in answers for finding in told.findings]
    findings.sort(key=lambda finding: finding.severity == "info" or finding.code == "unknown-policy")
    findings = [*handed_out_twice(world), *findings, *given_by_claims(world)]
    created = [scene for scene in asked if scene.refused is None and not scene.placed_by]
    searches = [(scene.name, endings(scene, told)) for scene, told in answers]
    gaps = capacity_gaps(world.seen, world.capacity, undecodable)
    gaps += [found for scene in created for found in (*fit_gaps(scene), *maybe_unknown(scene), *not_looked_at(scene))]
    gaps += [gap("fit", Text("fit.cut-short"), Text("fit.cut-short-hint")) for _, some in searches if not some.complete]
    gaps += replicas_unjudged(created)
    gaps += [*usage.gaps, *([world.slices] if isinstance(world.slices, Gap) else [])]
    if isinstance(deserted, EmptyNamespace):
        files = dict.fromkeys(map(file_of, wanted.pods))
        typed = words_of(wanted.words, DEFAULT_NAMESPACE) if wanted.words else [w for f in files for w in ("-f", f)]
        findings.append(no_such_namespace(deserted, ("fit", *typed, "-n")))
    elif deserted is not None:
        gaps.append(deserted)
    # What is short first: the nodes one by one are for machines. A pod that would be refused is on no node.
    shown = (
        tables.roles(asked),
        tables.admitted(created),
        tables.by_reason(created),
        tables.endings([(name, some.found) for name, some in searches]),
        tables.requests(created),
        tables.quota_effect(created),
        tables.nodes(created),
    )
    return snapshot.report(
        "fit",
        _subject(wanted, [scene.pod for scene in tried]),
        findings,
        verdict=_verdict(asked, answers[0][1]) if asked else findings[0].text,
        tables=[table for table in shown if table.rows or table.title == tables.NODES.title],
        gaps=gaps,
    )


def _subject(wanted: Request, pods: Sequence[Pod]) -> Subject:
    first, *others = pods
    if not others:
        return Subject("GPUs" if wanted.words else "Pod", first.namespace, first.name)
    return Subject("Pods", first.namespace if {pod.namespace for pod in pods} == {first.namespace} else "", "")


def _verdict(asked: Sequence[AskedScene], of_first: FindingsSoFar) -> Prose:
    if len(asked) == 1:
        return verdict(asked[0], of_first)
    fitting = sum(1 for scene in asked if scene.refused is None and free_nodes(scene))
    of_roles = any(role_of(scene.written).kind != "Pod" for scene in asked)
    return Text("fit.roles" if of_roles else "fit.summary", fitting=fitting, pods=len(asked))


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
            help="Pods, or anything with pod templates, as YAML or JSON; - for standard input. May be repeated.",
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
