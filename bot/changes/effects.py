"""What a change brings with it beside its purpose: pure, from what was read; what could not be read is told."""

from typing import Any, cast

import msgspec

from bot.changes.flags import Object, part_of
from bot.changes.kinds import AddImpact, DeploymentContext, FlagSetting
from bot.changes.plan import Plan, owner_of
from bot.kube.models import Pod
from bot.kube.models.workloads import PodTemplate
from bot.kube.selectors import NodeFilter, label_matcher
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
    template = part_of(part_of(deployment, "spec"), "template")
    anti = part_of(part_of(part_of(template, "spec"), "affinity"), "podAntiAffinity")
    labels = cast(dict[str, str], part_of(part_of(template, "metadata"), "labels"))
    return any(
        term.get("topologyKey") == HOSTNAME and _matches(part_of(term, "labelSelector"), labels)
        for term in cast(list[Object], anti.get("requiredDuringSchedulingIgnoredDuringExecution") or [])
    )


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
            template = msgspec.convert(part_of(spec, "template"), PodTemplate, strict=False)
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


def _matches(selector: Object, labels: dict[str, str]) -> bool:
    """Whether the selector, as objects write it, matches the labels; one that is not there matches nothing."""
    parts = [f"{key}={value}" for key, value in part_of(selector, "matchLabels").items()]
    for match_expression in cast(list[Object], selector.get("matchExpressions") or []):
        key, values = str(match_expression.get("key", "")), ",".join(map(str, match_expression.get("values") or ()))
        forms = {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})", "Exists": key}
        parts.append(forms.get(str(match_expression.get("operator")), f"!{key}"))
    try:
        return bool(selector) and label_matcher(",".join(parts))(labels)
    except ValueError:
        return True
