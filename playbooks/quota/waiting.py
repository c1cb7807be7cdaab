"""The waiting pods that a namespace's quota keeps out, judged as `why` and `pending` judge them."""

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import groupby
from typing import NamedTuple

from bot.hami.fit.allocated_totals import Ledger
from bot.hami.fit.quotas import Limit, holds_in_filter
from bot.hami.fit.verdicts import QUOTA_NOT_FIT
from bot.hami.fit.version_differences import NEWEST_READ, rules_of
from bot.hami.pods.allocations import waits
from bot.hami.pods.request_parsing import pod_request
from bot.hami.scheduler_logs.filter_reasons import finding_code
from bot.kube.cluster import seen
from bot.kube.models import NODES, PODS, Holder, Pod, ResourceQuota
from bot.report import Finding, Gap, NextAction, Sheet, Table, step
from bot.texts import Text
from playbooks.gather.scheduling import Capacity, InstallSeen
from playbooks.gather.waiting import PENDING, Waiting, gather_scene
from playbooks.judgement.waiting import JudgedPod, WaitingRow, by_cause, judge_all, waiting_row
from playbooks.playbook import Sources
from playbooks.quota.rules import Effect, effect_by_hami, effects
from playbooks.quotes import kubectl
from playbooks.rules.capacity.large_request import advise
from playbooks.rules.common import prose
from playbooks.scenes.cluster import ClusterScene
from playbooks.scenes.waiting_pod import PodScene

KEPT_OUT_PODS = Sheet(
    "waiting for a quota",
    WaitingRow,
    brief={"namespace": "namespace", "pod": "pod", "waiting_since": "waits", "asks": "asks"},
)
KEPT_OUT = finding_code(QUOTA_NOT_FIT)
_LONGEST_CLAIM = 400

"""Per namespace the MiB and cores that HAMi counts."""


class QuotaSources(NamedTuple):
    """What was read of who holds cards and of the quotas; the ledger is the holders summed up."""

    quotas: list[ResourceQuota] | Gap
    holders: list[Holder] | Gap
    ledger: Ledger | None


class KeptOut(NamedTuple):
    """Waiting pods whose namespace's quota may refuse them, the oldest first; `scene` is None where there are none."""

    pods: list[Pod] | Gap
    scene: ClusterScene | None = None


class WaitingReport(NamedTuple):
    """What follows: one finding per namespace and cause, every pod as a row, and what could not be seen."""

    findings: list[Finding]
    tables: tuple[Table, ...]
    gaps: list[Gap]


async def gather_kept_out(
    sources: Sources, install: InstallSeen, limits: Iterable[Limit], read: QuotaSources, namespace: str
) -> KeptOut:
    """Read the pods that wait, and what bears on them only where a quota has no room for some of them."""
    cluster, by_hami = sources.cluster, dict[str, list[Limit]]()
    for limit in limits:
        if holds_in_filter(limit, install.config) and namespace in ("", limit.namespace):
            by_hami.setdefault(limit.namespace, []).append(limit)
    if not by_hami:
        return KeptOut([])
    found = await seen("pods that wait", cluster.list(PODS, namespace, fields=PENDING))
    if isinstance(found, Gap):
        return KeptOut(found)
    pods = [pod for pod in found if waits(pod) and _no_room(pod, by_hami.get(pod.namespace, ()), read.ledger, install)]
    if not pods:
        return KeptOut([])
    pods.sort(key=lambda pod: (pod.metadata.creation_timestamp or "", pod.namespace, pod.name))
    nodes = await seen("nodes", cluster.list(NODES))
    capacity = Capacity(nodes, read.holders, read.quotas, cluster.kept)
    return KeptOut(pods, await gather_scene(sources, install, Waiting(pods, namespace, ()), capacity))


def _no_room(pod: Pod, limits: Sequence[Limit], ledger: Ledger | None, install: InstallSeen) -> bool:
    """Whether the request may be more than a limit leaves: what a share of a card comes to depends on the card."""
    version = install.install.version.version if install.install.version else NEWEST_READ
    request = pod_request(pod, install.config, version) if limits else None
    if request is None or not request.containers:
        return False
    effects = (effect_by_hami(limit, request, ledger, install.config, rules_of(version)) for limit in limits)
    return any(effect.verdict in ("refused", "unknown") for effect in effects)


def tell_kept_out(
    kept: KeptOut, install: InstallSeen, undecodable: Sequence[str], now: datetime, *, brief: bool
) -> WaitingReport:
    """Only pods whose first finding is the quota: that of others is told where something else comes before it."""
    if isinstance(kept.pods, Gap):
        return WaitingReport([], (), [kept.pods])
    if kept.scene is None:
        return WaitingReport([], (), [])
    judged, gaps = judge_all(kept.scene, kept.pods, undecodable)
    held = [judged_pod for judged_pod in judged if judged_pod.cause is not None and judged_pod.cause.code == KEPT_OUT]
    held.sort(key=lambda entry: entry.pod.namespace)  # stable: the oldest stay first
    groups = [group for _, some in groupby(held, lambda entry: entry.pod.namespace) for group in by_cause(some)]
    rows = [waiting_row(entry.pod, install.config, now) for group in groups for entry in group]
    tables = (KEPT_OUT_PODS.table(rows, brief=rows if brief else None),) if rows else ()
    return WaitingReport([_finding(group, kept.scene) for group in groups], tables, gaps)


def _finding(group: Sequence[JudgedPod], cluster: ClusterScene) -> Finding:
    """The cause of the oldest, told of all of them; as sure as the least sure."""
    causes = [judged.cause for judged in group if judged.cause is not None]
    oldest = group[0].pod
    values: dict[str, object] = {
        "count": len(group),
        "namespace": oldest.namespace,
        "pods": prose.names([judged.pod.name for judged in group]),
        **_figures(_effect(PodScene(oldest, cluster))),
    }
    claim = Text("quota.keeps-one" if len(group) == 1 else "quota.keeps-many", **values)
    name = f"{oldest.namespace}/{oldest.name}"
    look = step(Text("pending.why", pod=name), prose.command("why", name))
    scene = PodScene(oldest, cluster)
    smaller = advise(scene)[:1] if len(group) == 1 else []
    return causes[0].saying(
        claim,
        confidence="suspected" if any(cause.confidence == "suspected" for cause in causes) else "confirmed",
        next_actions=(look, *smaller, *_raise(scene)),
    )


def _raise(scene: PodScene) -> Iterator[NextAction]:
    """To raise each limit that refuses the pod by what it lacks; of several quotas with one key none is the one."""
    own = [effect for effect in effects(scene) if effect.by == "HAMi"]
    for effect in own:
        if effect.verdict != "refused" or effect.used is None or effect.asked is None:
            continue
        if sum(other.key == effect.key for other in own) > 1:
            continue
        factor = scene.gpus.memory_factor if effect.of.resource == scene.gpus.memory else 1
        amount = -(-(effect.used + effect.asked) // factor)
        label = Text(
            "quota.raise",
            resource=effect.key,
            quota=f"{effect.of.namespace}/{effect.of.quota}",
            amount=f"{amount:,}",
            pod=scene.pod.name,
        )
        patch = json.dumps({"spec": {"hard": {effect.key: str(amount)}}}, separators=(",", ":"))
        words = ("-n", effect.of.namespace, "patch", "resourcequota", effect.of.quota, "--type", "merge", "-p", patch)
        yield step(label, kubectl(*words), changes_cluster=True)


def _effect(scene: PodScene) -> Effect | None:
    """On the limit that refuses the pod; where none can be told to, on one that may."""
    found = {effect.verdict: effect for effect in reversed(effects(scene)) if effect.by == "HAMi"}
    return found.get("refused") or found.get("unknown")


def _figures(effect: Effect | None) -> dict[str, object]:
    if effect is None:
        return {"asked": "?", "resource": "?", "used": "?", "limit": "?"}
    return {
        "asked": Text("quota.share") if effect.asked is None else f"{effect.asked:,}",
        "resource": effect.of.resource,
        "used": "?" if effect.used is None else f"{effect.used:,}",
        "limit": f"{effect.limit:,}" if isinstance(effect.limit, int) else effect.limit,
    }
