"""What the question about HAMi itself reads: every part of the installation, beside the scheduler that others need."""

import asyncio
import re
from collections.abc import Sequence
from typing import NamedTuple

from bot.hami.install import (
    COMPONENT_LABEL,
    EXTENDER_CONTAINER,
    KUBE_SCHEDULER_CONTAINER,
    PLUGIN_COMPONENT,
    Install,
    find_device_config,
)
from bot.hami.kube_scheduler import SchedulerConfig, find_scheduler_config
from bot.hami.requests import DeviceConfig
from bot.kube.cluster import Cluster, seen
from bot.kube.models import (
    CONFIG_MAPS,
    DAEMON_SETS,
    ENDPOINT_SLICES,
    NODES,
    PODS,
    SERVICES,
    WEBHOOKS,
    Container,
    EndpointSlice,
    MutatingWebhookConfiguration,
    Node,
    Pod,
    PodSpec,
    Service,
    Webhook,
    Workload,
)
from bot.report import Gap
from playbooks.gather.scheduler_logs import gather_extender_lines

WEBHOOK_NAME = "vgpu.hami.io"
PLUGIN_CONTAINER = "device-plugin"
SERVICE_LABEL = "kubernetes.io/service-name"

_REFUSED = re.compile(r'User \\*"(system:serviceaccount:[^"\\]+)\\*" cannot (\w+) resource \\*"([^"\\]+)')
_LOG_BYTES = 8 * 1024 * 1024


class Refused(NamedTuple):
    """A log line in which the API server refuses HAMi's own service account."""

    pod: Pod
    container: str
    line: str
    account: str
    verb: str
    resource: str


class Hook(NamedTuple):
    """HAMi's webhook and the configuration that it stands in."""

    config: MutatingWebhookConfiguration
    webhook: Webhook


class Components(NamedTuple):
    """What was read, or why it was not. `resources_known`: HAMi's device config was found, no name is assumed."""

    hooks: list[MutatingWebhookConfiguration] | Gap
    services: list[Service] | Gap
    slices: list[EndpointSlice] | Gap
    plugins: list[Workload] | Gap
    plugin_pods: list[Pod] | Gap
    nodes: list[Node] | Gap
    server_version: str | Gap
    scheduler_config: SchedulerConfig | None
    resources_known: bool
    refused: tuple[Refused, ...]
    gaps: tuple[Gap, ...]

    @property
    def hook(self) -> Hook | None:
        """HAMi's webhook, None when there is none or it could not be read."""
        configs = () if isinstance(self.hooks, Gap) else self.hooks
        return next(
            (Hook(one, hook) for one in configs for hook in one.webhooks or () if hook.name == WEBHOOK_NAME), None
        )

    def service(self, namespace: str, name: str) -> Service | None:
        """The Service, None when it does not exist or services could not be read."""
        services = () if isinstance(self.services, Gap) else self.services
        return next((one for one in services if (one.namespace, one.name) == (namespace, name)), None)

    def ready_targets(self, namespace: str, service: str) -> list[str] | None:
        """The names of the pods behind a Service that take requests; None when the slices could not be read."""
        if isinstance(self.slices, Gap):
            return None
        return [
            endpoint.target_ref.name if endpoint.target_ref else "?"
            for one in self.slices
            if one.namespace == namespace and one.metadata.label(SERVICE_LABEL) == service
            for endpoint in one.endpoints or ()
            if endpoint.conditions is None or endpoint.conditions.ready is not False
        ]


def container_of(spec: PodSpec, name: str) -> Container | None:
    """The container of that name."""
    return next((one for one in spec.containers if one.name == name), None)


def kube_scheduler_of(install: Install) -> Container | None:
    """The kube-scheduler beside the extender, as it runs or else as the Deployment wants it."""
    spec = (
        install.pods[0].spec if install.pods else install.deployment.spec.template.spec if install.deployment else None
    )
    return container_of(spec, KUBE_SCHEDULER_CONTAINER) if spec else None


async def gather_components(cluster: Cluster, install: Install) -> Components:
    """Reads everything but the scheduler itself; each part that cannot be read is a gap."""
    plugin = f"{COMPONENT_LABEL}={PLUGIN_COMPONENT}"
    hooks, plugins, plugin_pods, nodes, maps, logs = await asyncio.gather(
        seen("webhooks", cluster.list(WEBHOOKS)),
        seen("daemon sets", cluster.list(DAEMON_SETS, labels=plugin)),
        seen("device plugin pods", cluster.list(PODS, labels=plugin)),
        seen("nodes", cluster.list(NODES)),
        seen("config maps", cluster.list(CONFIG_MAPS, install.namespace)),
        _refusals(cluster, install),
    )
    namespaces = {install.namespace}
    for one in () if isinstance(hooks, Gap) else hooks:
        used = [
            hook.client_config.service
            for hook in one.webhooks or ()
            if hook.name == WEBHOOK_NAME and hook.client_config
        ]
        namespaces |= {service.namespace for service in used if service}
    services, slices, version = await asyncio.gather(
        seen("services", _services(cluster, sorted(namespaces))),
        seen("endpoint slices", _slices(cluster, sorted(namespaces))),
        seen("API server's version", cluster.server_version()),
    )
    refused, log_gaps = logs
    gaps = [
        one for one in (hooks, services, slices, plugins, plugin_pods, nodes, maps, version) if isinstance(one, Gap)
    ]
    read = [] if isinstance(maps, Gap) else maps
    config = find_scheduler_config(read, kube_scheduler_of(install))
    if isinstance(config, str):
        gaps.append(Gap("kube-scheduler config", config))
        config = None
    known = isinstance(find_device_config(read), DeviceConfig)
    gaps += log_gaps
    return Components(
        hooks, services, slices, plugins, plugin_pods, nodes, version, config, known, refused, tuple(gaps)
    )


async def _services(cluster: Cluster, namespaces: Sequence[str]) -> list[Service]:
    return [one for name in namespaces for one in await cluster.list(SERVICES, name)]


async def _slices(cluster: Cluster, namespaces: Sequence[str]) -> list[EndpointSlice]:
    return [one for name in namespaces for one in await cluster.list(ENDPOINT_SLICES, name, labels=SERVICE_LABEL)]


async def _refusals(cluster: Cluster, install: Install) -> tuple[tuple[Refused, ...], tuple[Gap, ...]]:
    """What the API server refuses HAMi's scheduler, by its own log: roles themselves are not ours to read."""
    log = await gather_extender_lines(cluster, install, b"is forbidden", _LOG_BYTES)
    matches = ((pod, line, _REFUSED.search(line)) for pod, line in log.lines)
    found = [Refused(pod, EXTENDER_CONTAINER, line, *what.groups()) for pod, line, what in matches if what]
    return tuple(found), log.gaps
