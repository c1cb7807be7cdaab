"""What the API shows of one node's GPU side: the node, the pods there, and the logs of the device plugins."""

import asyncio
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import NamedTuple

from bot.errors import NotFound
from bot.hami.installation.install import is_ready
from bot.hami.vendors import FIRST, VENDORS
from bot.hami.vendors.vendor import Vendor
from bot.kube.client.logs import newest_lines, newest_missing
from bot.kube.cluster import PLUGIN_LOG_BYTES, PLUGIN_LOG_LINES, Cluster, LogWanted, seen
from bot.kube.hami_pods import COMPONENT_LABEL, PLUGIN_COMPONENT
from bot.kube.models import DAEMON_SETS, EVENTS, NODES, PODS, Event, Node, Pod, Resource, Workload
from bot.report import Gap
from bot.texts import Text

MOST_NODES = 3
"""Whose logs one question reads."""


class LogSeen(NamedTuple):
    """The newest lines of one container's log; `previous`: of its run before this one."""

    pod: Pod
    container: str
    previous: bool
    lines: tuple[str, ...]
    read_at: datetime | None = None
    """Lines carry no year: they are older than this."""


class NodeSide(NamedTuple):
    """One node. `pods` are all that are assigned to it; what could not be read is a gap in its place, or in `gaps`."""

    name: str
    node: Node | Gap
    pods: list[Pod] | Gap
    logs: tuple[LogSeen, ...] = ()
    log_gaps: tuple[Gap, ...] = ()
    events: tuple[Event, ...] = ()
    """About the device plugin's pods; empty also where events could not be read."""

    @property
    def plugin_pods(self) -> list[Pod]:
        """HAMi's own device plugin there, NVIDIA's; empty also where pods could not be read."""
        return self.plugins_of(FIRST)

    def plugins_of(self, vendor: Vendor) -> list[Pod]:
        """The vendor's device plugin there; empty also where pods could not be read, or it is not recognised."""
        return [] if isinstance(self.pods, Gap) else [pod for pod in self.pods if vendor.is_plugin(pod)]

    @property
    def every_plugin(self) -> list[Pod]:
        """The device plugins of all vendors there."""
        pods = () if isinstance(self.pods, Gap) else self.pods
        return [pod for pod in pods if any(vendor.is_plugin(pod) for vendor in VENDORS)]

    @property
    def gaps(self) -> tuple[Gap, ...]:
        return (*(gap for gap in (self.node, self.pods) if isinstance(gap, Gap)), *self.log_gaps)


class PluginSets(NamedTuple):
    """HAMi's device plugin as its DaemonSets want it, and the events about them: why their pods are not created."""

    sets: Sequence[Workload] | Gap
    events: Sequence[Event] | Gap

    @property
    def gaps(self) -> tuple[Gap, ...]:
        return tuple(gap for gap in self if isinstance(gap, Gap))


def is_monitor(name: str) -> bool:
    """Whether a container of that name is vGPUmonitor: it serves metrics and hands out nothing."""
    return "monitor" in name


async def gather_node_side(cluster: Cluster, name: str, *, logs: bool) -> NodeSide:
    """Reads one node; what the device plugin's pods say, with their logs and those of a run before, where `logs`."""
    node, pods = await asyncio.gather(
        seen(f"node {name}", _node(cluster, name)),
        seen(f"pods of node {name}", cluster.list(PODS, fields=f"spec.nodeName={name}")),
    )
    side = NodeSide(name, node, pods)
    if not logs:
        return side
    plugins = side.every_plugin
    read, events = await asyncio.gather(
        gather_logs(cluster, plugins),
        asyncio.gather(*(_events(cluster, pod) for pod in plugins if not is_ready(pod))),
    )
    return side._replace(
        logs=tuple(log for log in read if isinstance(log, LogSeen)),
        log_gaps=tuple(gap for gap in (*read, *events) if isinstance(gap, Gap)),
        events=tuple(event for some in events if not isinstance(some, Gap) for event in some),
    )


async def gather_plugin_sets(cluster: Cluster) -> PluginSets:
    """Reads the device plugin's DaemonSets, and the events about them."""
    sets = await seen("daemon sets", cluster.list(DAEMON_SETS, labels=f"{COMPONENT_LABEL}={PLUGIN_COMPONENT}"))
    if isinstance(sets, Gap):
        return PluginSets(sets, ())
    events = await asyncio.gather(*(_events(cluster, workload) for workload in sets))
    gap = next((event for event in events if isinstance(event, Gap)), None)
    return PluginSets(sets, gap or [event for some in events if not isinstance(some, Gap) for event in some])


async def _events(cluster: Cluster, about: Resource) -> list[Event] | Gap:
    return await seen("events", cluster.list(EVENTS, about.namespace, fields=f"involvedObject.name={about.name}"))


async def _node(cluster: Cluster, name: str) -> Node:
    """By a list, which the bot may do: it has no right to get one node. Raises NotFound."""
    found = await cluster.list(NODES, fields=f"metadata.name={name}")
    if not found:
        raise NotFound(Text("error-kube.node-not-found", name=name))
    return found[0]


async def gather_logs(
    cluster: Cluster, pods: Sequence[Pod], *, only: Collection[str] | None = None
) -> Sequence[LogSeen | Gap]:
    """The logs of every container of these pods, or of those named, and of the run before where one was restarted.

    A gap stands for a log that could not be read, and behind one whose newest lines are missing.
    """
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
    found: list[LogSeen | Gap] = []
    for want, log in zip(wanted, read, strict=True):
        if isinstance(log, Gap):
            found.append(log)
            continue
        pod = by_name[want.namespace, want.pod]
        found.append(LogSeen(pod, want.container, want.previous, log.lines, cluster.now()))
        if log.ends_early:
            found.append(newest_missing(want))
    return found
