"""What `status` reads of HAMi: every part of the installation beside the scheduler, which other questions read too."""

import asyncio
from typing import NamedTuple

import msgspec

from bot.hami.installation.install import (
    Forbidden,
    Install,
    SchedulerConfig,
    find_device_config,
    find_scheduler_config,
    kube_scheduler_of,
    read_forbidden,
)
from bot.hami.pods.request_parsing import DeviceConfig
from bot.kube.cluster import Cluster, seen
from bot.kube.hami_pods import COMPONENT_LABEL, EXTENDER_CONTAINER, FORBIDDEN, HANDSHAKE, PLUGIN_COMPONENT
from bot.kube.models import CONFIG_MAPS, DAEMON_SETS, NODES, PODS, Node, Pod, ResourceSlice, Workload
from bot.report import Gap, gap
from playbooks.gather.dra import gather_slices
from playbooks.gather.scheduler_logs import ExtenderLines
from playbooks.gather.webhook import WebhookSeen, gather_webhook

PLUGIN_CONTAINER = "device-plugin"

NEEDLES = (FORBIDDEN, HANDSHAKE)
"""The words that the extender's log is searched for."""


class RefusedLine(NamedTuple):
    """A log line in which the API server refuses HAMi's own service account."""

    pod: Pod
    container: str
    line: str
    what: Forbidden


class Components(msgspec.Struct, frozen=True):
    """The parts of the installation that were read, or gaps. `resources_known`: HAMi's device config was found."""

    webhook: WebhookSeen
    plugins: list[Workload] | Gap
    plugin_pods: list[Pod] | Gap
    nodes: list[Node] | Gap
    server_version: str | Gap
    scheduler_config: SchedulerConfig | None
    resources_known: bool
    refused: tuple[RefusedLine, ...]
    slices: list[ResourceSlice] | Gap
    """The devices that DRA drivers offer; empty does not prove that there are none, see `gather_slices`."""
    gaps: tuple[Gap, ...]


async def gather_components(cluster: Cluster, install: Install, log: ExtenderLines) -> Components:
    """Reads all parts but the scheduler; a part that cannot be read is a gap. `log` has the lines of NEEDLES."""
    plugin = f"{COMPONENT_LABEL}={PLUGIN_COMPONENT}"
    plugins, plugin_pods, nodes, maps, slices = await asyncio.gather(
        seen("daemon sets", cluster.list(DAEMON_SETS, labels=plugin)),
        seen("device plugin pods", cluster.list(PODS, labels=plugin)),
        seen("nodes", cluster.list(NODES)),
        seen("config maps", cluster.list(CONFIG_MAPS, install.namespace)),
        gather_slices(cluster),
    )
    webhook, version = await asyncio.gather(
        gather_webhook(cluster, install, log=log), seen("API server's version", cluster.server_version())
    )
    gaps = [
        *webhook.gaps,
        *(gap for gap in (plugins, plugin_pods, nodes, maps, slices, version) if isinstance(gap, Gap)),
    ]
    read = [] if isinstance(maps, Gap) else maps
    config = find_scheduler_config(read, kube_scheduler_of(install))
    if isinstance(config, str):
        gaps.append(gap("kube-scheduler config", config))
        config = None
    known = isinstance(find_device_config(read), DeviceConfig)
    gaps += log.gaps
    # What the API server refuses HAMi's scheduler, by its own log: roles themselves are not ours to read.
    matches = ((pod, line, read_forbidden(line)) for pod, line in log.holding(FORBIDDEN).lines)
    return Components(
        webhook,
        plugins,
        plugin_pods,
        nodes,
        server_version=version,
        scheduler_config=config,
        resources_known=known,
        refused=tuple(RefusedLine(pod, EXTENDER_CONTAINER, line, what) for pod, line, what in matches if what),
        slices=slices,
        gaps=tuple(dict.fromkeys(gaps)),
    )
