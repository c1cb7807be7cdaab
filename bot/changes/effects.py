"""What a change brings with it beside its purpose: pure, from what was read; what could not be read is told."""

from typing import Any

import msgspec

from bot.changes.flags import Object, part_of
from bot.changes.kinds import AddImpact, DeploymentContext, FlagSetting
from bot.changes.plan import Plan, owner_of
from bot.hami.webhook import unmet_key
from bot.kube.models import Pod
from bot.kube.models.workloads import PodTemplate
from bot.kube.selectors import NodeFilter
from bot.report import SEVERITIES, Impact, Severity, impact
from bot.texts import Text

HOSTNAME = "kubernetes.io/hostname"


def blast_radius(deployment: Object, plan: Plan, around: DeploymentContext) -> tuple[Impact, ...]:
    """What the planned change brings with it, the worst first."""
    impacts: list[Impact] = []

    def tell(what: Text, severity: Severity) -> None:
        impacts.append(impact(what.key.removeprefix("blast."), severity, what))

    if plan.record.means == "debug-flags":
        pods = ", ".join(pod.name for pod in around.pods or ()) or str(deployment["metadata"].get("name", ""))
        tell(Text("blast.no-restart", pods=pods, old=plan.record.old or "0"), "info")
    else:
        _restart(deployment, around, tell)
        policies = {webhook.failure_policy or "Fail" for webhook in around.webhooks or ()}
        if around.webhooks is None:
            tell(Text("blast.webhook-unseen"), "warning")
        if "Fail" in policies:
            tell(Text("blast.webhook-refuses"), "warning")
        if "Ignore" in policies:
            tell(Text("blast.webhook-bypassed"), "warning")
        tell(Text("blast.memory-lost"), "info")
        owner = owner_of(deployment)
        if owner and owner.kind == "helm":
            tell(Text("blast.helm", release=owner.value), "info")
        elif owner:
            key = "blast.gitops-argocd" if owner.kind == "gitops-argocd" else "blast.gitops-flux"
            tell(Text(key, mark=owner.mark, value=owner.value), "warning")
    for each in plan.record.flags:
        if brings := each.kind.brings:
            brings(FlagSetting(deployment, plan.record.container, each.new), around, tell)
    return tuple(sorted(dict.fromkeys(impacts), key=lambda impact: SEVERITIES.index(impact.severity), reverse=True))


def needs_nodes(deployment: Object) -> bool:
    """Whether no two pods of the Deployment may share a node, so that a rollout needs a free node."""
    template = _template_of(deployment)
    anti = template.spec.affinity.pod_anti_affinity if template.spec.affinity else None
    return any(
        term.topology_key == HOSTNAME
        and term.label_selector is not None
        and not unmet_key(term.label_selector, template.metadata.labels or {})
        for term in (anti and anti.required_during_scheduling_ignored_during_execution) or ()
    )


def _template_of(deployment: Object) -> PodTemplate:
    return msgspec.convert(part_of(part_of(deployment, "spec"), "template"), PodTemplate, strict=False)


# ----------------------------------------------------------------------------------------------------- the rollout


def _restart(deployment: Object, around: DeploymentContext, tell: AddImpact) -> None:
    spec = deployment["spec"]
    replicas = int(spec.get("replicas", 1))
    name = str(deployment["metadata"].get("name", ""))
    if around.pods is None:
        tell(Text("blast.pods-restart-unseen", name=name, count=replicas), "warning")
    elif around.pods:
        tell(
            Text("blast.pods-restart", count=len(around.pods), pods=", ".join(pod.name for pod in around.pods)),
            "warning",
        )
    else:
        tell(Text("blast.pods-none", name=name), "info")
    strategy = part_of(spec, "strategy")
    rolling = part_of(strategy, "rollingUpdate")
    unavailable = _resolved(rolling.get("maxUnavailable", "25%"), replicas)
    surge = _resolved(rolling.get("maxSurge", "25%"), replicas, up=True)
    # Without either one pod may end before its successor is there (k8s.io/kubernetes, `ResolveFenceposts`).
    if strategy.get("type") == "Recreate":
        tell(Text("blast.all-at-once", name=name), "warning")
    elif replicas and needs_nodes(deployment) and surge and not unavailable:
        # A new pod that may stand beside none of the old ones needs a node of its own before the first of them ends.
        if around.nodes is None or around.pods is None:
            tell(Text("blast.rollout-may-wait"), "warning")
        else:
            taken = {pod.spec.node_name for pod in around.pods}
            template = _template_of(deployment)
            obstacle = NodeFilter(Pod(metadata=template.metadata, spec=template.spec)).obstacle
            if all(node.name in taken or obstacle(node) is not None for node in around.nodes):
                tell(Text("blast.rollout-deadlock", nodes=len(around.nodes)), "critical")
    tell(Text("blast.leader-moves"), "warning")


def _resolved(value: Any, replicas: int, *, up: bool = False) -> int:
    text = str(value)
    if not text.endswith("%"):
        return int(text) if text.isdecimal() else 0
    share = int(text[:-1]) * replicas if text[:-1].isdecimal() else 0
    return -(-share // 100) if up else share // 100
