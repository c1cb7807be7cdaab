"""The pods of device plugins, by node: HAMi's own and those of other vendors as far as their labels are known."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

from bot.hami.nodes.node_state import given_beside
from bot.hami.pods.request_parsing import DeviceConfig
from bot.hami.vendors import FIRST
from bot.hami.vendors.vendor import Vendor
from bot.kube.cluster import Cluster, seen
from bot.kube.models import DAEMON_PODS, DaemonPod, Node
from bot.kube.times import parse_time
from bot.report import Gap
from playbooks.gather.node_side import is_monitor

PLUGIN_SOURCE = "device plugin pods"

_MANY_RESTARTS = 3
_RECENTLY = timedelta(hours=1)

Health = Literal["ready", "not-ready", "restarting", "missing", "unseen"]
Read = Sequence[DaemonPod] | Gap


class PluginPods(NamedTuple):
    """The pods of HAMi's own device plugin, and those of other vendors' by the vendor's word."""

    own: Read
    beside: Mapping[str, Read]

    @property
    def gaps(self) -> list[Gap]:
        return [pods for pods in (self.own, *self.beside.values()) if isinstance(pods, Gap)]


class Plugin(NamedTuple):
    """The device plugin's pod on a node: `unseen` where pods could not be read, or none of them carries the label."""

    health: Health
    pod: DaemonPod | None = None
    restarts: int = 0
    why: str = ""
    monitor: bool = False
    """Whether vGPUmonitor alone is in trouble: GPUs are handed out all the same."""


def by_node(pods: Read, now: datetime) -> dict[str, Plugin]:
    """The best pod of each node: while one ends its successor may run."""
    found: dict[str, Plugin] = {}
    order: tuple[Health, ...] = ("ready", "restarting", "not-ready", "missing", "unseen")
    for pod in () if isinstance(pods, Gap) else pods:
        plugin = _plugin(pod, now)
        known = found.get(pod.spec.node_name)
        if pod.spec.node_name and (known is None or order.index(plugin.health) < order.index(known.health)):
            found[pod.spec.node_name] = plugin
    return found


def _plugin(pod: DaemonPod, now: datetime) -> Plugin:
    restarts, waiting, down = 0, "", list[str]()
    statuses = pod.status.container_statuses or ()
    for status in statuses:  # no generator: of 5,000 pods they would take longer than what they look at
        restarts += status.restart_count
        if not status.ready:
            down.append(status.name)
        if status.state.waiting and not waiting:
            waiting = status.state.waiting.reason
    ready = [condition.status for condition in pod.status.conditions or () if condition.type == "Ready"]
    monitor = bool(down) and all(map(is_monitor, down)) and len(down) < len(statuses)
    if pod.status.phase != "Running" or "False" in ready or waiting:
        return Plugin("not-ready", pod, restarts, waiting or pod.status.reason or pod.status.phase, monitor)
    often = [daemon_container for daemon_container in statuses if daemon_container.restart_count >= _MANY_RESTARTS]
    for container in often:
        end = container.last_state.terminated
        ended = parse_time(end.finished_at) if end else None
        if end and ended and now - ended <= _RECENTLY:
            return Plugin("restarting", pod, restarts, end.reason, all(is_monitor(other.name) for other in often))
    return Plugin("ready", pod, restarts)


async def gather_plugins(cluster: Cluster, node: str = "") -> Read:
    """The pods of HAMi's own device plugin, of all nodes or of one."""
    return await _plugins_of(cluster, FIRST, node)


async def gather_plugins_beside(
    cluster: Cluster, nodes: Sequence[Node], config: DeviceConfig, node: str = ""
) -> Mapping[str, Read]:
    """Those of other vendors whose labels are known and whose devices some node is given to."""
    found = {device.vendor.names.word: device.vendor for node in nodes for device in given_beside(node, config)}
    vendors = [vendor for vendor in found.values() if vendor.plugin_labels]
    read = await asyncio.gather(*(_plugins_of(cluster, vendor, node) for vendor in vendors))
    return {vendor.names.word: pods for vendor, pods in zip(vendors, read, strict=True)}


async def _plugins_of(cluster: Cluster, vendor: Vendor, node: str) -> Read:
    fields = f"spec.nodeName={node}" if node else ""
    return await seen(PLUGIN_SOURCE, cluster.list(DAEMON_PODS, labels=vendor.plugin_labels, fields=fields))
