"""`quota`: what HAMi counts of each namespace against its quotas, what Kubernetes shows, where they differ and why."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

import click
from msgspec import structs

from bot.hami.fit.allocated_totals import build_ledger, ledger_key
from bot.hami.fit.quotas import QuotaLimit, holds_in_filter
from bot.hami.pods.allocations import waits
from bot.hami.pods.request_parsing import common_noun, pod_request
from bot.hami.version import NEWEST_READ
from bot.kube.cluster import Cluster, as_read, seen
from bot.kube.models import EVENTS, NODES, PODS, RESOURCE_QUOTAS, Event, Node, Pod
from bot.report import Gap, Report, Sheet, Subject, gap
from bot.texts import Text
from playbooks.gather.pods import PENDING, Waiting, gather_scene
from playbooks.gather.scheduling import UNFINISHED, Capacity, gather_holders, gather_install, nothing_read
from playbooks.gather.subject import gather_deserted
from playbooks.judgement.quota import QUOTA, kept_out
from playbooks.judgement.waiting import WaitingRow, waiting_row
from playbooks.playbook import ALL, Playbook, Snapshot, Sources, read_namespace
from playbooks.quota.table import QUOTAS, rows_of
from playbooks.rule import run
from playbooks.rules.installation.surroundings import answer_without_hami
from playbooks.rules.quota.effects import effect_by_hami
from playbooks.scenes.cluster import ClusterScene
from playbooks.scenes.quota import QuotaScene

KEPT_OUT_PODS = Sheet(
    "waiting for a quota",
    WaitingRow,
    brief="namespace pod waiting_since=waits asks",
)
_MAX_READ, _MOST_HOLDERS = 20, 5_000
"""The most namespaces, and holders in them, whose pods are read; above, only what HAMi counts is shown."""


class Request(NamedTuple):
    """One namespace, or all if it is empty. `all`: everything instead of an overview."""

    namespace: str
    all: bool


def request(namespace: str = "", all: bool = False, named: str = "") -> Request:  # noqa: A002, FBT001, FBT002  # the options' names
    """Reads the typed question; a namespace may also be written as `ns/ml` or `ml/`."""
    return Request(read_namespace(namespace, named), all)


async def gather(wanted: Request, sources: Sources) -> Snapshot[Request, QuotaScene]:
    """Reads the install, the quotas and who holds GPUs; pods only if a quota counts them. Raises Unusable."""
    cluster, namespace = sources.cluster, wanted.namespace
    install = await gather_install(sources)
    quotas, holders = await asyncio.gather(
        seen("resource quotas", cluster.list(RESOURCE_QUOTAS, namespace)),
        seen("pods", gather_holders(cluster, install.install.scheduler_name)),
    )
    if isinstance(quotas, Gap) and isinstance(holders, Gap):
        raise nothing_read(quotas)
    version = install.install.version.version if install.install.version else NEWEST_READ
    ledger = None if isinstance(holders, Gap) else build_ledger(holders, version)
    scene = QuotaScene(install, namespace, cluster.now(), quotas, holders, ledger)
    pods, (waiting, where), refusals, nodes = await asyncio.gather(
        _pods(cluster, scene),
        _waiting(sources, scene),
        _refusals(cluster, scene),
        # They may offer what a key names, where HAMi does not.
        seen("nodes", cluster.list(NODES)) if scene.unknown_keys else as_read(list[Node]()),
    )
    known = {object_.namespace for some in (quotas, holders) if not isinstance(some, Gap) for object_ in some}
    unknown = namespace and namespace not in known
    deserted = await gather_deserted(cluster, namespace) if unknown else None
    scene = structs.replace(
        scene,
        now=cluster.now(),
        pods=pods,
        waiting=waiting,
        cluster=where,
        refusals=refusals,
        deserted=deserted,
        nodes=nodes,
        undecodable=tuple(cluster.undecodable),
    )
    return Snapshot(wanted, cluster.name, scene.now, scene)


async def _pods(cluster: Cluster, scene: QuotaScene) -> dict[str, list[Pod] | Gap]:
    names = sorted({limit.namespace for limit in scene.limits if scene.namespace in ("", limit.namespace)})
    holders = () if isinstance(scene.holders, Gap) else scene.holders
    crowd = sum(1 for holder in holders if holder.namespace in names)
    if len(names) > 1 and (len(names) > _MAX_READ or crowd > _MOST_HOLDERS):
        return {}
    found = await asyncio.gather(
        *(seen(f"pods of {name}", cluster.list(PODS, name, fields=UNFINISHED)) for name in names)
    )
    return dict(zip(names, found, strict=True))


async def _waiting(sources: Sources, scene: QuotaScene) -> tuple[list[Pod] | Gap, ClusterScene | None]:
    """The pods that wait, the oldest first, and what bears on them: only where a quota has no room for some of them."""
    cluster, by_hami = sources.cluster, dict[str, list[QuotaLimit]]()
    for limit in scene.limits:
        if holds_in_filter(limit, scene.config) and scene.namespace in ("", limit.namespace):
            by_hami.setdefault(limit.namespace, []).append(limit)
    if not by_hami:
        return [], None
    found = await seen("pods that wait", cluster.list(PODS, scene.namespace, fields=PENDING))
    if isinstance(found, Gap):
        return found, None
    pods = [pod for pod in found if waits(pod) and _no_room(pod, by_hami.get(pod.namespace, ()), scene)]
    if not pods:
        return [], None
    pods.sort(key=lambda pod: (pod.metadata.creation_timestamp or "", pod.namespace, pod.name))
    nodes = await seen("nodes", cluster.list(NODES))
    capacity = Capacity(nodes, scene.holders, scene.quotas_read, cluster.kept)
    return pods, await gather_scene(sources, scene.seen, Waiting(pods, scene.namespace, ()), capacity)


def _no_room(pod: Pod, limits: Sequence[QuotaLimit], scene: QuotaScene) -> bool:
    """Whether the request may be more than a limit leaves: what a share of a card comes to depends on the card."""
    request = pod_request(pod, scene.config, scene.version or NEWEST_READ) if limits else None
    if request is None or not request.containers:
        return False
    effects = (effect_by_hami(limit, request, scene.ledger, scene.config, scene.rules) for limit in limits)
    return any(effect.verdict in ("refused", "unknown") for effect in effects)


async def _refusals(cluster: Cluster, scene: QuotaScene) -> list[Event] | Gap:
    if not any(scene.namespace in ("", limit.namespace) and limit.by != "nobody" for limit in scene.limits):
        return []
    return await seen("events", cluster.list(EVENTS, scene.namespace, fields="reason=FailedCreate"))


def diagnose(snapshot: Snapshot[Request, QuotaScene]) -> Report:
    """The report: pods that are kept out, other problems, then why the two counts differ; a row per resource."""
    wanted, scene = snapshot.request, snapshot.scene
    if (without := answer_without_hami("quota", snapshot, scene.seen)) is not None:
        return without
    rows = [row for space in scene.spaces for row in rows_of(scene, space)]
    kept = [waiting_row(pod, scene.config, scene.now) for group in scene.once(kept_out).groups for pod in group.pods]
    tables = [QUOTAS.table(rows, brief=rows), KEPT_OUT_PODS.table(kept, brief=kept)]
    return snapshot.report(
        "quota",
        Subject("Namespace" if wanted.namespace else "Namespaces", "", wanted.namespace),
        run(QUOTA, scene).findings,
        tables=[table for table in tables if table.rows],
        gaps=_gaps(scene),
        noun=_noun(scene),
    )


def _noun(scene: QuotaScene) -> str:
    called = {ledger_key(device): device.names.noun for device in scene.config.devices}
    holders = [holder for space in scene.spaces for holder in space.holders]
    given = {holder.others.get(uuid, "") for holder in holders for uuid in holder.shares}
    return common_noun(called[key] for key in given if key in called)


def _gaps(scene: QuotaScene) -> list[Gap]:
    read = (scene.quotas_read, scene.holders, *scene.pods.values(), scene.refusals, scene.deserted, scene.nodes)
    gaps = [*scene.seen.gaps, *(gap for gap in read if isinstance(gap, Gap))]
    if scene.version is None:
        gaps.append(gap("HAMi version", Text("gap.version"), Text("quota.version-hint")))
    if not scene.pods and (limited := sum(1 for space in scene.spaces if space.limits)):
        gaps.append(gap("pods", Text("quota.many", count=limited), Text("quota.many-hint")))
    gaps += [gap("objects", name, Text("gap.undecodable")) for name in scene.undecodable]
    known = {(gap.source, gap.text) for gap in gaps}
    return gaps + [gap for gap in scene.once(kept_out).gaps if (gap.source, gap.text) not in known]


PLAYBOOK = Playbook(
    verb="quota",
    summary="How much of each namespace's quota do HAMi and Kubernetes count as used, and which pods wait for it?",
    example="quota ml",
    parameters=(
        click.Argument(["named"], required=False, default="", metavar="[NAMESPACE]"),
        click.Option(["-n", "--namespace"], default="", metavar="NS", help="Only this namespace."),
        ALL,
    ),
    request=request,
    gather=gather,
    diagnose=diagnose,
)
