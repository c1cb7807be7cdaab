"""What a flag's new value brings with it beside a restart: pure, from the Deployment and what stands around it."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from bot.changes.flags import Object, containers, part_of
from bot.hami.installation.install import METRICS_CLOSED_SINCE, PROFILING_SINCE, ROLE_LABEL
from bot.hami.version import Version
from bot.kube.hami_pods import EXTENDER_CONTAINER, read_flags
from bot.kube.models import Node, Pod, Service, Webhook
from bot.report import Severity
from bot.texts import Text

LOUDEST_OF_HAMI = 5
"""HAMi logs nothing above V(5) (pkg/scheduler, pkg/device; 2.5 to 2.10)."""
_OUTSIDE = ("NodePort", "LoadBalancer")


class DeploymentContext(NamedTuple):
    """What stands around the Deployment; None for what could not be read.

    `pods` are the Deployment's own that have not ended. `webhooks` are HAMi's: empty when there is none. `nodes` matter
    only where a required pod anti-affinity is set, see `bot.changes.restart_effects.needs_nodes`.
    """

    pods: Sequence[Pod] | None = None
    nodes: Sequence[Node] | None = None
    webhooks: Sequence[Webhook] | None = None
    services: Sequence[Service] | None = None
    version: Version | None = None


class Setting(NamedTuple):
    """The new value of a container's flag, on a Deployment as it is now."""

    deployment: Object
    container: str
    value: str


class AddImpact(Protocol):
    """Adds a text to what the change brings with it; its key is `blast.` and the impact's code."""

    def __call__(self, what: Text, severity: Severity) -> None: ...


def nothing_more(_: Setting, __: DeploymentContext, ___: AddImpact) -> None:
    """For a value that brings nothing worth a warning."""


def loudness(setting: Setting, _: DeploymentContext, tell: AddImpact) -> None:
    """How much more is logged at this level, and whether HAMi has anything to say there."""
    level = int(setting.value)
    if setting.container != EXTENDER_CONTAINER:
        tell(Text("blast.loud-kube-scheduler", level=level), "warning" if level > LOUDEST_OF_HAMI else "info")
    elif level > LOUDEST_OF_HAMI:
        tell(Text("blast.louder-than-hami", level=level), "warning")
    elif level == LOUDEST_OF_HAMI:
        tell(Text("blast.loud"), "info")


def requests_to_come(_: Setting, __: DeploymentContext, tell: AddImpact) -> None:
    """That the API server gets more requests."""
    tell(Text("blast.more-requests"), "info")


def exposure(setting: Setting, around: DeploymentContext, tell: AddImpact) -> None:
    """Who can fetch profiles: the extender's own port serves them without authentication."""
    if around.version is not None and PROFILING_SINCE <= around.version < METRICS_CLOSED_SINCE:
        tell(Text("blast.profiles-served-already", version=around.version), "info")
    if around.services is None:
        tell(Text("blast.profiles-unseen"), "warning")
        return
    template = part_of(part_of(setting.deployment, "spec"), "template")
    leading = {**part_of(part_of(template, "metadata"), "labels"), ROLE_LABEL: "leader"}.items()
    ports = _own_ports(setting.deployment)
    outside = [
        f"{service.spec.type} {service.namespace}/{service.name} ({port.node_port or port.port})"
        for service in around.services
        if service.spec.type in _OUTSIDE and service.spec.selector and service.spec.selector.items() <= leading
        for port in service.spec.ports or ()
        if str(port.target_port or port.port) in ports
    ]
    if outside:
        tell(Text("blast.profiles-outside", where=", ".join(outside)), "warning")
    else:
        tell(Text("blast.profiles-inside"), "info")


def _own_ports(deployment: Object) -> set[str]:
    """The extender's port, by its number and by its name."""
    for container in containers(deployment):
        if container.get("name") == EXTENDER_CONTAINER:
            number = read_flags([*(container.get("command") or ()), *(container.get("args") or ())]).get(
                "http_bind", ""
            )
            number = number.rpartition(":")[2]
            named = [port for port in container.get("ports") or () if str(port.get("containerPort")) == number]
            return {number, *(str(port.get("name")) for port in named)}
    return set()
