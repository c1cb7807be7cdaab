"""What a change brings with it beside what it is for: pure, from the Deployment and what stands around it.

Only what was seen is claimed; what decides and was not seen is told as that.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import msgspec

from bot.changes.basis import owner_of
from bot.changes.flags import VERBOSITY, Object, containers
from bot.changes.plan import PROFILING_SINCE, Plan
from bot.hami.install import EXTENDER_CONTAINER, ROLE_LABEL, read_flags
from bot.hami.version import Version
from bot.kube.models import Node, Pod, PodTemplate, Service, Webhook
from bot.kube.nodefilter import NodeFilter
from bot.kube.selectors import label_matcher
from bot.report import Impact, Severity
from bot.texts import Texts

LOUDEST_OF_HAMI = 5
"""HAMi logs nothing above V(5) (pkg/scheduler, pkg/device; 2.5 to 2.10)."""
PPROF_CLOSED_SINCE = Version(2, 10, 0)
"""2.6 to 2.9 serve /debug/pprof on the metrics port as well, without the flag (cmd/scheduler/main.go)."""
HOSTNAME = "kubernetes.io/hostname"
_OUTSIDE = ("NodePort", "LoadBalancer")


class Around(NamedTuple):
    """What stands around the Deployment; None for what could not be read.

    `pods` are the Deployment's own that have not ended. `webhooks` are HAMi's: empty when there is none. `nodes` matter
    only where a required pod anti-affinity is set, see `needs_nodes`.
    """

    pods: Sequence[Pod] | None = None
    nodes: Sequence[Node] | None = None
    webhooks: Sequence[Webhook] | None = None
    services: Sequence[Service] | None = None
    version: Version | None = None


def blast_radius(deployment: Object, plan: Plan, around: Around, say: Texts) -> tuple[Impact, ...]:
    """The worst first."""
    tell = _Teller(say)
    if plan.record.means == "debug-flags":
        pods = ", ".join(one.name for one in around.pods or ()) or str(deployment["metadata"].get("name", ""))
        tell("no-restart", "info", pods=pods, old=plan.record.old or "0")
    else:
        _restart(deployment, around, tell)
        _webhook(around, tell)
        tell("memory-lost", "info")
        _owner(deployment, tell)
    if plan.record.flag == VERBOSITY:
        _loudness(int(plan.record.new), plan.record.container, tell)
    else:
        _exposure(deployment, around, tell)
    order: tuple[Severity, ...] = ("critical", "warning", "info")
    return tuple(sorted(tell.impacts, key=lambda one: order.index(one.severity)))


def needs_nodes(deployment: Object) -> bool:
    """Whether no two of its pods may share a node, so that a rollout needs a free one."""
    return any(True for _ in _keeps_apart(deployment))


class _Teller:
    def __init__(self, say: Texts) -> None:
        self.say = say
        self.impacts: list[Impact] = []

    def __call__(self, code: str, severity: Severity, **values: object) -> None:
        self.impacts.append(Impact(code, severity, self.say(f"blast.{code}", **values)))


_Tell = Callable[..., None]

# ----------------------------------------------------------------------------------------------------- the rollout


def _restart(deployment: Object, around: Around, tell: _Tell) -> None:
    spec = deployment["spec"]
    replicas = int(spec.get("replicas", 1))
    name = str(deployment["metadata"].get("name", ""))
    if around.pods is None:
        tell("pods-restart-unseen", "warning", name=name, count=replicas)
    elif around.pods:
        tell("pods-restart", "warning", count=len(around.pods), pods=", ".join(one.name for one in around.pods))
    else:
        tell("pods-none", "info", name=name)
    if _recreates(deployment):
        tell("all-at-once", "warning", name=name)
    elif replicas and needs_nodes(deployment) and not _spare(deployment, replicas):
        _anti_affinity(deployment, around, tell)
    tell("leader-moves", "warning")


def _recreates(deployment: Object) -> bool:
    return _strategy(deployment).get("type") == "Recreate"


def _spare(deployment: Object, replicas: int) -> int:
    """How many pods may end before their successors are there (k8s.io/kubernetes, `ResolveFenceposts`)."""
    rolling = _part(_strategy(deployment), "rollingUpdate")
    unavailable = _resolved(rolling.get("maxUnavailable", "25%"), replicas)
    surge = _resolved(rolling.get("maxSurge", "25%"), replicas, up=True)
    return unavailable if unavailable or surge else 1


def _resolved(value: Any, replicas: int, *, up: bool = False) -> int:
    text = str(value)
    if not text.endswith("%"):
        return int(text) if text.isdecimal() else 0
    share = int(text[:-1]) * replicas if text[:-1].isdecimal() else 0
    return -(-share // 100) if up else share // 100


def _anti_affinity(deployment: Object, around: Around, tell: _Tell) -> None:
    """A new pod that may stand beside none of the old ones needs a node of its own before the first of them ends."""
    if around.nodes is None or around.pods is None:
        tell("rollout-may-wait", "warning")
        return
    taken = {one.spec.node_name for one in around.pods}
    template = msgspec.convert(_part(deployment["spec"], "template"), PodTemplate, strict=False)
    obstacle = NodeFilter(Pod(metadata=template.metadata, spec=template.spec)).obstacle
    free = [one.name for one in around.nodes if one.name not in taken and obstacle(one) is None]
    if not free:
        tell("rollout-deadlock", "critical", nodes=len(around.nodes))


def _keeps_apart(deployment: Object) -> Sequence[Object]:
    """The terms by which a pod of the template refuses a node that has another one."""
    template = _part(_part(deployment, "spec"), "template")
    anti = _part(_part(_part(template, "spec"), "affinity"), "podAntiAffinity")
    labels = cast(dict[str, str], _part(_part(template, "metadata"), "labels"))
    terms = cast(list[Object], anti.get("requiredDuringSchedulingIgnoredDuringExecution") or [])
    return [
        one for one in terms if one.get("topologyKey") == HOSTNAME and _matches(_part(one, "labelSelector"), labels)
    ]


def _matches(selector: Object, labels: dict[str, str]) -> bool:
    """A label selector as objects write it; one that is not there selects nothing."""
    parts = [f"{key}={value}" for key, value in _part(selector, "matchLabels").items()]
    for one in cast(list[Object], selector.get("matchExpressions") or []):
        key, values = str(one.get("key", "")), ",".join(map(str, one.get("values") or ()))
        forms = {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})", "Exists": key}
        parts.append(forms.get(str(one.get("operator")), f"!{key}"))
    try:
        return bool(selector) and label_matcher(",".join(parts))(labels)
    except ValueError:
        return True


# ----------------------------------------------------------------------------------------------- what stands around


def _webhook(around: Around, tell: _Tell) -> None:
    if around.webhooks is None:
        tell("webhook-unseen", "warning")
        return
    policies = {one.failure_policy or "Fail" for one in around.webhooks}
    if "Fail" in policies:
        tell("webhook-refuses", "warning")
    if "Ignore" in policies:
        tell("webhook-bypassed", "warning")


def _owner(deployment: Object, tell: _Tell) -> None:
    owner = owner_of(deployment)
    if owner and owner.kind == "helm":
        tell("helm", "info", release=owner.value)
    elif owner:
        tell(owner.kind, "warning", mark=owner.mark, value=owner.value)


def _loudness(level: int, container: str, tell: _Tell) -> None:
    if container != EXTENDER_CONTAINER:
        tell("loud-kube-scheduler", "warning" if level > LOUDEST_OF_HAMI else "info", level=level)
    elif level > LOUDEST_OF_HAMI:
        tell("louder-than-hami", "warning", level=level)
    elif level == LOUDEST_OF_HAMI:
        tell("loud", "info")


def _exposure(deployment: Object, around: Around, tell: _Tell) -> None:
    """Profiles are served to whoever reaches the extender's own port; nobody is asked who they are."""
    if around.version is not None and PROFILING_SINCE <= around.version < PPROF_CLOSED_SINCE:
        tell("profiles-served-already", "info", version=around.version)
    if around.services is None:
        tell("profiles-unseen", "warning")
        return
    labels: Object = _part(_part(_part(deployment, "spec"), "template"), "metadata").get("labels") or {}
    leading = {**labels, ROLE_LABEL: "leader"}.items()
    ports = _own_ports(deployment)
    outside = [
        f"{one.spec.type} {one.namespace}/{one.name} ({port.node_port or port.port})"
        for one in around.services
        if one.spec.type in _OUTSIDE and one.spec.selector and one.spec.selector.items() <= leading
        for port in one.spec.ports or ()
        if str(port.target_port or port.port) in ports
    ]
    if outside:
        tell("profiles-outside", "warning", where=", ".join(outside))
    else:
        tell("profiles-inside", "info")


def _own_ports(deployment: Object) -> set[str]:
    """The extender's port, by its number and by its name."""
    for one in containers(deployment):
        if one.get("name") == EXTENDER_CONTAINER:
            number = read_flags([*(one.get("command") or ()), *(one.get("args") or ())]).get("http_bind", "")
            number = number.rpartition(":")[2]
            named = [port for port in one.get("ports") or () if str(port.get("containerPort")) == number]
            return {number, *(str(port.get("name")) for port in named)}
    return set()


def _strategy(deployment: Object) -> Object:
    return _part(_part(deployment, "spec"), "strategy")


def _part(value: Object, name: str) -> Object:
    part = value.get(name)
    return cast(Object, part) if isinstance(part, dict) else {}
