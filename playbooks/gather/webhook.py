"""Reads what decides whether the API server asks HAMi's webhook about a pod, and whether anybody answers."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

from bot.hami.installation.install import Install
from bot.kube.cluster import Cluster, LogWanted, as_read, seen
from bot.kube.hami_pods import HANDSHAKE
from bot.kube.models import (
    ENDPOINT_SLICES,
    NAMESPACES,
    NODES,
    SERVICES,
    WEBHOOKS,
    EndpointSlice,
    Kind,
    MutatingWebhookConfiguration,
    Namespace,
    Resource,
    Service,
    Webhook,
)
from bot.report import Gap
from playbooks.gather.scheduler_logs import ExtenderLines, gather_extender_lines

R = TypeVar("R", bound=Resource)

WEBHOOK_NAME = "vgpu.hami.io"
SERVICE_LABEL = "kubernetes.io/service-name"
FAILED_CALL = f'failed calling webhook "{WEBHOOK_NAME}"'
"""The API server's words if failurePolicy Fail refuses a pod because HAMi's webhook does not answer."""

API_NAMESPACE, API_CONTAINER = "kube-system", "kube-apiserver"
"""The namespace and container where kubeadm runs the API server: a static pod for each control plane node."""
_CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
_MOST_API_SERVERS = 3
_LOG_BYTES = 2 * 1024 * 1024


class Hook(NamedTuple):
    """HAMi's webhook, and the configuration object that contains it."""

    config: MutatingWebhookConfiguration
    webhook: Webhook


class FailedCall(NamedTuple):
    """A line of an API server's log about a failed call of HAMi's webhook: the pod passed, or was refused."""

    pod: str
    line: str


class WebhookSeen(NamedTuple):
    """HAMi's webhook and the Service and pods behind it, or gaps for what was not read.

    `handshakes`: TLS connections that ended before a request, by the extender's log. `calls` are there only if API
    servers run as pods whose log may be read. `namespaces` are those in question only.
    """

    hooks: list[MutatingWebhookConfiguration] | Gap
    services: list[Service] | Gap
    slices: list[EndpointSlice] | Gap
    handshakes: ExtenderLines = ExtenderLines()
    namespaces: list[Namespace] | Gap = []  # noqa: RUF012  # never changed
    calls: tuple[FailedCall, ...] = ()

    @property
    def gaps(self) -> tuple[Gap, ...]:
        read = (self.hooks, self.services, self.slices, self.namespaces)
        return (*(gap for gap in read if isinstance(gap, Gap)), *self.handshakes.gaps)

    @property
    def hook(self) -> Hook | None:
        """HAMi's webhook; None if there is none or it could not be read."""
        configs = () if isinstance(self.hooks, Gap) else self.hooks
        return next(
            (Hook(config, hook) for config in configs for hook in config.webhooks or () if hook.name == WEBHOOK_NAME),
            None,
        )

    def service(self, namespace: str, name: str) -> Service | None:
        """The named Service; None if it does not exist or services could not be read."""
        services = () if isinstance(self.services, Gap) else self.services
        return next((service for service in services if (service.namespace, service.name) == (namespace, name)), None)

    def ready_targets(self, namespace: str, service: str) -> list[str] | None:
        """The names of the Service's ready pods; None if the endpoint slices could not be read."""
        if isinstance(self.slices, Gap):
            return None
        return [
            endpoint.target_ref.name if endpoint.target_ref else "?"
            for endpoint_slice in self.slices
            if endpoint_slice.namespace == namespace and endpoint_slice.metadata.label(SERVICE_LABEL) == service
            for endpoint in endpoint_slice.endpoints or ()
            if endpoint.conditions is None or endpoint.conditions.ready is not False
        ]

    def labels_of(self, namespace: str) -> dict[str, str] | None:
        """The namespace's labels; None if they could not be read."""
        found = () if isinstance(self.namespaces, Gap) else self.namespaces
        return next((candidate.metadata.labels or {} for candidate in found if candidate.name == namespace), None)


async def gather_webhook(
    cluster: Cluster, install: Install, namespaces: Iterable[str] = (), log: ExtenderLines | None = None
) -> WebhookSeen:
    """Reads the webhook, the Service and pods behind it, and the labels of these namespaces; never raises. `log` has
    the extenders' lines, if those that hold HANDSHAKE were read already.
    """
    wanted = sorted(set(namespaces))
    of_one = f"metadata.name={wanted[0]}" if len(wanted) == 1 else ""  # of several all: each has only its labels
    hooks, handshakes, labels = await asyncio.gather(
        seen("webhooks", cluster.list(WEBHOOKS)),
        gather_extender_lines(cluster, install, [HANDSHAKE]) if log is None else as_read(log.holding(HANDSHAKE)),
        seen("namespaces", cluster.list(NAMESPACES, fields=of_one, metadata_only=True) if wanted else as_read([])),
    )
    places = {install.namespace}
    for hook in () if isinstance(hooks, Gap) else hooks:
        clients = (hook.client_config for hook in hook.webhooks or () if hook.name == WEBHOOK_NAME)
        places |= {client.service.namespace for client in clients if client and client.service}
    services, slices, calls = await asyncio.gather(
        seen("services", _in_each(cluster, SERVICES, sorted(places))),
        seen("endpoint slices", _in_each(cluster, ENDPOINT_SLICES, sorted(places), SERVICE_LABEL)),
        _failed_calls(cluster, install),
    )
    return WebhookSeen(hooks, services, slices, handshakes, labels, calls)


async def _failed_calls(cluster: Cluster, install: Install) -> tuple[FailedCall, ...]:
    """A live cluster is only asked where the chart's rights cover these logs."""
    if install.namespace != API_NAMESPACE and cluster.clocks is not None:
        return ()
    nodes = await seen("nodes", cluster.list(NODES, labels=_CONTROL_PLANE))
    names = [] if isinstance(nodes, Gap) else [f"{API_CONTAINER}-{node.name}" for node in nodes[:_MOST_API_SERVERS]]
    wanted = (
        LogWanted(API_NAMESPACE, name, API_CONTAINER, FAILED_CALL.encode(), limit_bytes=_LOG_BYTES) for name in names
    )
    logs = await asyncio.gather(*(seen("API server's log", cluster.log(wanted_log)) for wanted_log in wanted))
    read = ((name, log) for name, log in zip(names, logs, strict=True) if not isinstance(log, Gap))
    return tuple(FailedCall(name, line) for name, log in read for line in log.lines)


async def _in_each(cluster: Cluster, kind: Kind[R], namespaces: Sequence[str], labels: str = "") -> list[R]:
    return [found for name in namespaces for found in await cluster.list(kind, name, labels=labels)]
