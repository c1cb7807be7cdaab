"""What is wrong with namespaces' quotas: pods that one keeps out, then limits used up, then limits without effect."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from bot.hami.fit.verdicts import QUOTA_NOT_FIT
from bot.hami.scheduler_logs.scheduling_events import finding_code
from bot.report import Finding, Gap, step
from bot.texts import Text
from playbooks.judgement.waiting import WaitingGroup, by_cause, judge_all
from playbooks.rule import FindingsSoFar, Stage, before, rule
from playbooks.rules.capacity.large_request import advise
from playbooks.rules.common import prose
from playbooks.rules.common.findings import finding
from playbooks.rules.quota.effects import Effect, effects, raise_limits
from playbooks.rules.quota.limits import (
    counted_differently,
    exceeded,
    held_by_nobody,
    misspelt,
    nearly_full,
    overview,
    refused,
    set_twice,
    with_why,
)
from playbooks.scenes.quota import QuotaScene
from playbooks.scenes.waiting_pod import PodScene

_KEPT_OUT = finding_code(QUOTA_NOT_FIT)


class KeptOut(NamedTuple):
    """The pending pods that a quota keeps out, grouped by namespace and cause, and the gaps in judging them."""

    groups: Sequence[WaitingGroup]
    gaps: Sequence[Gap]


def kept_out(scene: QuotaScene) -> KeptOut:
    """The pods that a quota keeps out: those whose first finding is the quota. Others wait for something else."""
    if isinstance(scene.waiting, Gap):
        return KeptOut((), [scene.waiting])
    if scene.cluster is None:
        return KeptOut((), ())
    judged, gaps = judge_all(scene.cluster, scene.waiting, scene.undecodable)
    held = [judged_pod for judged_pod in judged if judged_pod.cause is not None and judged_pod.cause.code == _KEPT_OUT]
    held.sort(key=lambda entry: entry.pod.namespace)  # stable: the oldest stay first
    namespaces = groupby(held, lambda entry: entry.pod.namespace)
    return KeptOut([group for _, some in namespaces for group in by_cause(some)], gaps)


@rule(_KEPT_OUT)
def keeps_out(scene: QuotaScene) -> Iterator[Finding]:
    """The findings that a namespace's quota keeps pods pending, judged as `why` and `pending` judge them."""
    for group in scene.once(kept_out).groups:
        assert scene.cluster is not None, "pods wait in no cluster"
        first, several, oldest = group.cause, len(group.pods) > 1, PodScene(scene.cluster, group.pods[0])
        namespace, names = oldest.pod.namespace, prose.names([pod.name for pod in group.pods])
        # On the limit that refuses the pod; where none can be told to, on one that may.
        by_verdict = {effect.verdict: effect for effect in reversed(effects(oldest)) if effect.by == "HAMi"}
        effect = by_verdict.get("refused") or by_verdict.get("unknown")
        key = "quota.keeps-many" if several else "quota.keeps-one"
        claim = Text(key, count=len(group.pods), namespace=namespace, pods=names, **_figures(effect))
        space = next((space for space in scene.spaces if space.namespace == namespace), None)
        claim = with_why(scene, space, effect.of.resource, claim) if space and effect else claim
        look = step(Text("pending.why", pod=group.oldest), prose.command("why", group.oldest))
        steps = [look, *(() if several else advise(oldest)[:1]), *raise_limits(oldest)]
        nodes, severity = first.scope.nodes, first.severity
        yield finding(_KEPT_OUT, claim, group.confidence, nodes, first.evidence, severity=severity, actions=steps)


def _figures(effect: Effect | None) -> dict[str, object]:
    if effect is None:
        return {"asked": "?", "resource": "?", "used": "?", "limit": "?"}
    return {
        "asked": Text("quota.share") if effect.asked is None else f"{effect.asked:,}",
        "resource": effect.of.resource,
        "used": "?" if effect.used is None else f"{effect.used:,}",
        "limit": f"{effect.limit:,}" if isinstance(effect.limit, int) else effect.limit,
    }


def _nothing_wrong(_: QuotaScene, told: FindingsSoFar) -> bool:
    return all(finding.severity == "info" for finding in told.findings)


QUOTA: tuple[Stage[QuotaScene], ...] = (
    Stage("keeps pods waiting", keeps_out),
    Stage("refuses new pods", refused),
    Stage("used up", exceeded),
    Stage("nearly used up", nearly_full),
    Stage("set twice", set_twice),
    Stage("held by nobody", held_by_nobody, misspelt),
    Stage("counted in two ways", counted_differently),
    Stage("nothing is wrong", overview, when=_nothing_wrong, leads=before),
)
"""The stages about quotas. Every stage speaks: a namespace may have several of these troubles."""
