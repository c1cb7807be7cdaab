"""Reads one node's GPU side: the node, the pods there, and the logs of the device plugins."""

import asyncio
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

from bot.errors import NotFound
from bot.hami.installation.install import is_ready
from bot.hami.nodes.node_state import given_beside
from bot.hami.pods.request_parsing import DeviceConfig, extended_resources
from bot.hami.vendors import FIRST, VENDORS
from bot.hami.vendors.vendor import Vendor
from bot.kube.cluster import PLUGIN_LOG_BYTES, PLUGIN_LOG_LINES, Cluster, LogWanted, newest_lines, newest_missing, seen
from bot.kube.hami_pods import COMPONENT_LABEL, PLUGIN_COMPONENT
from bot.kube.models import (
    DAEMON_PODS,
    DAEMON_SETS,
    EVENTS,
    NODES,
    PODS,
    Container,
    DaemonPod,
    Event,
    Node,
    Pod,
    Resource,
    Workload,
)
from bot.kube.times import parse_time
from bot.report import Gap
from bot.texts import Text

MOST_NODES = 3
"""The most nodes whose logs one question reads."""


class LogSeen(NamedTuple):
    """The newest lines of one container's log; `previous`: the log of its run before a restart."""

    pod: Pod
    container: str
    previous: bool
    lines: tuple[str, ...]
    read_at: datetime | None = None
    """When the log was read: klog's times carry no year, and lie before this."""


class ContainerLogs(NamedTuple):
    """Logs of containers, and the gaps of those that could not be read."""

    logs: tuple[LogSeen, ...] = ()
    gaps: tuple[Gap, ...] = ()


class NodeSide(NamedTuple):
    """One node and all pods that are assigned to it; what could not be read is a gap in its place, or in `log_gaps`."""

    name: str
    node: Node | Gap
    pods: list[Pod] | Gap
    logs: tuple[LogSeen, ...] = ()
    log_gaps: tuple[Gap, ...] = ()
    events: tuple[Event, ...] = ()
    """Events about the device plugin's pods; empty also if events could not be read."""

    @property
    def plugin_pods(self) -> list[Pod]:
        """The pods of HAMi's own (NVIDIA's) device plugin on the node; empty also if pods could not be read."""
        return self.plugins_of(FIRST)

    def plugins_of(self, vendor: Vendor) -> list[Pod]:
        """The pods of the vendor's device plugin on the node; empty also if they were not read or not recognised."""
        return [] if isinstance(self.pods, Gap) else [pod for pod in self.pods if vendor.is_plugin(pod)]

    @property
    def every_plugin(self) -> list[Pod]:
        """The device plugins' pods of all vendors on the node."""
        pods = () if isinstance(self.pods, Gap) else self.pods
        return [pod for pod in pods if any(vendor.is_plugin(pod) for vendor in VENDORS)]

    @property
    def drivers(self) -> list[tuple[Pod, "Driver"]]:
        """The node's pods that make its GPUs usable before a device plugin starts, and which part each is."""
        pods = () if isinstance(self.pods, Gap) else self.pods
        return [(pod, driver) for pod in pods if (driver := driver_of(pod, pod.spec.containers))]

    @property
    def gaps(self) -> tuple[Gap, ...]:
        return (*(gap for gap in (self.node, self.pods) if isinstance(gap, Gap)), *self.log_gaps)


class PluginSets(NamedTuple):
    """The DaemonSets of HAMi's device plugin, and the events about them: why their pods are not created."""

    sets: Sequence[Workload] | Gap
    events: Sequence[Event] | Gap

    @property
    def gaps(self) -> tuple[Gap, ...]:
        return tuple(gap for gap in self if isinstance(gap, Gap))


_DRIVER_LABELS = (
    "nvidia.com/cuda.driver-version.full",
    "nvidia.com/cuda.driver-version.major",
    "nvidia.com/cuda.driver.major",
)


def driver_label(node: Node) -> str:
    """The node's label by which GPU feature discovery tells the driver's version; empty if there is none."""
    labels = node.metadata.labels or {}
    return next((key for key in _DRIVER_LABELS if labels.get(key, "").partition(".")[0].isdigit()), "")


Driver = Literal["driver", "toolkit", "validator"]
_DRIVERS: Mapping[Driver, tuple[Mapping[str, str], re.Pattern[str]]] = {
    "driver": (
        {"app": "nvidia-driver-daemonset", "app.kubernetes.io/component": "nvidia-driver"},
        re.compile(r"(?:^|/)(?:nvidia/driver|nvidia-driver\b[\w-]*)[:@]"),
    ),
    "toolkit": ({"app": "nvidia-container-toolkit-daemonset"}, re.compile(r"/container-toolkit[:@]")),
    "validator": ({"app": "nvidia-operator-validator"}, re.compile(r"/gpu-operator-validator[:@]")),
}
"""The labels and images by which each part of the driver is known (NVIDIA/gpu-operator assets/state-driver,
-container-toolkit, -operator-validation). The operator's pods that wait for these have the validator as init container.
"""


def driver_of(what: Resource, containers: Iterable[Container]) -> Driver | None:
    """Which part of NVIDIA's driver a pod or DaemonSet with these containers is; None for any other."""
    for driver, (labels, image) in _DRIVERS.items():
        labelled = any(what.metadata.label(key) == value for key, value in labels.items())
        if labelled or any(image.search(part.image) for part in containers):
            return driver
    return None


def is_monitor(name: str) -> bool:
    """Whether a container of that name is vGPUmonitor, which serves metrics and hands out no GPUs."""
    return "monitor" in name


async def gather_node_side(cluster: Cluster, name: str, *, logs: bool) -> NodeSide:
    """Reads one node and its pods; with `logs` also its device plugins' events and logs, before restarts too."""
    node, pods = await asyncio.gather(
        seen(f"node {name}", _node(cluster, name)),
        seen(f"pods of node {name}", cluster.list(PODS, fields=f"spec.nodeName={name}")),
    )
    side = NodeSide(name, node, pods)
    if not logs:
        return side
    plugins = side.every_plugin
    read, events = await asyncio.gather(
        gather_logs(cluster, [*plugins, *(pod for pod, _ in side.drivers if not is_ready(pod))]),
        asyncio.gather(*(events_of(cluster, pod.namespace, pod.name) for pod in plugins if not is_ready(pod))),
    )
    return side._replace(
        logs=read.logs,
        log_gaps=(*read.gaps, *(gap for gap in events if isinstance(gap, Gap))),
        events=tuple(event for some in events if not isinstance(some, Gap) for event in some),
    )


async def gather_plugin_sets(cluster: Cluster) -> PluginSets:
    """Reads the DaemonSets of HAMi's device plugin, and the events about them."""
    sets = await seen("daemon sets", cluster.list(DAEMON_SETS, labels=f"{COMPONENT_LABEL}={PLUGIN_COMPONENT}"))
    if isinstance(sets, Gap):
        return PluginSets(sets, ())
    events = await asyncio.gather(*(events_of(cluster, workload.namespace, workload.name) for workload in sets))
    gap = next((found for found in events if isinstance(found, Gap)), None)
    return PluginSets(sets, gap or [event for some in events if not isinstance(some, Gap) for event in some])


async def events_of(cluster: Cluster, namespace: str, name: str) -> list[Event] | Gap:
    """The events about objects of this name in the namespace, or the gap."""
    return await seen("events", cluster.list(EVENTS, namespace, fields=f"involvedObject.name={name}"))


async def _node(cluster: Cluster, name: str) -> Node:
    """By a list, which the bot may do: it has no right to get one node. Raises NotFound."""
    found = await cluster.list(NODES, fields=f"metadata.name={name}")
    if not found:
        raise NotFound(Text("error-kube.node-not-found", name=name))
    return found[0]


async def gather_logs(cluster: Cluster, pods: Sequence[Pod], *, only: Collection[str] | None = None) -> ContainerLogs:
    """Reads the logs of all containers of these pods, or of those in `only`; of restarted ones also the run before."""
    wanted = [
        LogWanted(
            pod.namespace,
            pod.name,
            status.name,
            b"",
            limit_bytes=PLUGIN_LOG_BYTES,
            previous=previous,
            tail=PLUGIN_LOG_LINES,
        )
        for pod in pods
        for status in (*(pod.status.init_container_statuses or ()), *(pod.status.container_statuses or ()))
        if only is None or status.name in only
        for previous in ((False, True) if status.restart_count else (False,))
    ]
    read = await asyncio.gather(*(seen(want.source, newest_lines(cluster, want)) for want in wanted))
    by_name = {(pod.namespace, pod.name): pod for pod in pods}
    logs: list[LogSeen] = []
    gaps: list[Gap] = []
    for want, log in zip(wanted, read, strict=True):
        if isinstance(log, Gap):
            gaps.append(log)
            continue
        logs.append(LogSeen(by_name[want.namespace, want.pod], want.container, want.previous, log.lines, cluster.now()))
        gaps += [newest_missing(want)] if log.ends_early else []
    return ContainerLogs(tuple(logs), tuple(gaps))


_LABEL = "name=volcano-device-plugin"
"""The DaemonSet's label in volcano-vgpu-device-plugin.yml (Project-HAMi/volcano-vgpu-device-plugin v1.9 to v1.12)."""
_VGPU = "volcano.sh/vgpu-"
_MOST_PODS = 3
"""The most nodes whose Volcano device plugins' logs one question reads."""


async def gather_volcano_plugins(cluster: Cluster, pod: Pod) -> ContainerLogs:
    """Reads the logs of Volcano's device plugins if the pod asks for Volcano's vGPUs, else nothing; never raises. For a
    pod with a node it reads only that node's. Empty is no proof that there is none: a plugin may have other labels.
    """
    if not any(name.startswith(_VGPU) for name in extended_resources(pod)):
        return ContainerLogs()
    fields = f"spec.nodeName={pod.spec.node_name}" if pod.spec.node_name else ""
    pods = await seen("Volcano's device plugin pods", cluster.list(PODS, labels=_LABEL, fields=fields))
    if isinstance(pods, Gap):
        return ContainerLogs(gaps=(pods,))
    first = sorted(pods, key=lambda one: one.spec.node_name or "")[:_MOST_PODS]
    plugins = {part.name for pod in first for part in pod.spec.containers if not is_monitor(part.name)}
    return await gather_logs(cluster, first, only=plugins)


PLUGIN_SOURCE = "device plugin pods"

_MANY_RESTARTS = 3
_RECENTLY = timedelta(hours=1)
_STARTING = ("ContainerCreating", "PodInitializing", "Running", "Pending", "")
_BUILT = timedelta(minutes=20)

Health = Literal["ready", "not-ready", "restarting", "missing", "unseen"]
Read = Sequence[DaemonPod] | Gap


class PluginPods(NamedTuple):
    """The pods of HAMi's own device plugin, and those of other vendors' plugins by the vendor's word. `drivers` are the
    pods of NVIDIA's driver, of those DaemonSets that have pods that are not ready.
    """

    own: Read
    beside: Mapping[str, Read]
    drivers: Sequence[tuple[Driver, Read]] | Gap = ()

    @property
    def gaps(self) -> list[Gap]:
        drivers = [self.drivers] if isinstance(self.drivers, Gap) else [pods for _, pods in self.drivers]
        return [gap for gap in (self.own, *self.beside.values(), *drivers) if isinstance(gap, Gap)]


class Plugin(NamedTuple):
    """The device plugin's pod on a node; `unseen` if pods could not be read, or none of them has the label."""

    health: Health
    pod: DaemonPod | None = None
    restarts: int = 0
    why: str = ""
    monitor: bool = False
    """Whether only the container vGPUmonitor is in trouble: GPUs are handed out all the same."""

    def fails(self, now: datetime) -> bool:
        """Whether the plugin is in trouble for longer than a start takes: a driver may be built for minutes."""
        made = parse_time(self.pod.metadata.creation_timestamp) if self.pod else None
        starts = self.why in _STARTING and made is not None and now - made < _BUILT
        return self.health in ("not-ready", "restarting") and not starts


def by_node(pods: Read, now: datetime) -> dict[str, Plugin]:
    """The device plugin's pod of each node; the healthier of two, as one may be ending while its successor runs."""
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


async def gather_plugins(cluster: Cluster, node: str = "", vendor: Vendor = FIRST) -> Read:
    """Reads the pods of a vendor's device plugin (HAMi's own by default) on all nodes, or on one."""
    fields = f"spec.nodeName={node}" if node else ""
    return await seen(PLUGIN_SOURCE, cluster.list(DAEMON_PODS, labels=vendor.plugin_labels, fields=fields))


async def gather_plugins_beside(
    cluster: Cluster, nodes: Sequence[Node], config: DeviceConfig, node: str
) -> Mapping[str, Read]:
    """Reads the pods of other vendors' device plugins, if nodes have the vendor's devices and the label is known."""
    found = {device.vendor.names.word: device.vendor for node in nodes for device in given_beside(node, config)}
    vendors = [vendor for vendor in found.values() if vendor.plugin_labels]
    read = await asyncio.gather(*(gather_plugins(cluster, node, vendor) for vendor in vendors))
    return {vendor.names.word: pods for vendor, pods in zip(vendors, read, strict=True)}


async def gather_drivers(cluster: Cluster, node: str = "") -> Sequence[tuple[Driver, Read]] | Gap:
    """Reads the pods of NVIDIA's driver, on all nodes or on one, if their DaemonSets say that some are not ready."""
    sets = await seen("daemon sets", cluster.list(DAEMON_SETS))
    if isinstance(sets, Gap):
        return sets

    async def pods_of(daemon_set: Workload, driver: Driver) -> tuple[Driver, Read]:
        labels = (daemon_set.spec.selector and daemon_set.spec.selector.match_labels) or {}
        selector = ",".join(f"{key}={value}" for key, value in labels.items())
        fields = f"spec.nodeName={node}" if node else ""
        pods = cluster.list(DAEMON_PODS, daemon_set.namespace, labels=selector, fields=fields)
        return driver, await seen("driver pods", pods)

    lists = [
        pods_of(daemon_set, driver)
        for daemon_set in sets
        if daemon_set.status.number_ready < daemon_set.status.desired_number_scheduled
        and (driver := driver_of(daemon_set, daemon_set.spec.template.spec.containers))
    ]
    return await asyncio.gather(*lists)
