"""What is read of a pod that has a node: HAMi's install, the node's GPU side and, where allowed, the pod's own logs."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from bot.hami.allocations import reserved_node
from bot.kube.models import Pod
from bot.report import Gap
from playbooks.gather.node_side import (
    LogSeen,
    NodeSide,
    PluginSets,
    gather_logs,
    gather_node_side,
    gather_plugin_sets,
)
from playbooks.gather.scheduling import InstallSeen, gather_install
from playbooks.playbook import Sources


class Placed(NamedTuple):
    """`own_logs`: the newest lines of the pod's own GPU containers; None where the settings do not allow to read them.

    What could not be read of them is no gap by itself: it is one only where it would have told something.
    """

    install: InstallSeen
    side: NodeSide
    own_logs: tuple[LogSeen, ...] | None = None
    own_log_gaps: tuple[Gap, ...] = ()
    plugin_sets: PluginSets | None = None
    """Only read where the node has no device plugin."""

    @property
    def gaps(self) -> tuple[Gap, ...]:
        sets = self.plugin_sets.gaps if self.plugin_sets else ()
        return (*self.install.gaps, *self.side.gaps, *sets)


def asks_for_devices(pod: Pod) -> bool:
    """Whether any of its containers asks for an extended resource, or HAMi gave it a device."""
    return reserved_node(pod.metadata) != "" or bool(_asking(pod))


def _asking(pod: Pod) -> set[str]:
    """The containers that ask for an extended resource."""
    return {
        one.name
        for one in (*pod.spec.containers, *(pod.spec.init_containers or ()))
        if any("/" in name for name in (one.resources.limits if one.resources else None) or ())
    }


async def gather_placed(pod: Pod, sources: Sources) -> Placed | None:
    """Reads what may explain a placed pod; None for one without devices, or that has ended well."""
    if not pod.spec.node_name or pod.status.phase == "Succeeded" or not asks_for_devices(pod):
        return None
    install, side, own = await asyncio.gather(
        gather_install(sources),
        gather_node_side(sources.cluster, pod.spec.node_name, logs=not _runs_well(pod)),
        _own_logs(pod, sources),
    )
    bare = pod.status.phase == "Failed" and not side.plugin_pods
    sets = await gather_plugin_sets(sources.cluster) if bare else None
    if own is None:
        return Placed(install, side, plugin_sets=sets)
    logs = tuple(one for one in own if isinstance(one, LogSeen))
    return Placed(install, side, logs, tuple(one for one in own if isinstance(one, Gap)), sets)


def _runs_well(pod: Pod) -> bool:
    statuses = pod.status.container_statuses or ()
    return pod.status.phase == "Running" and all(one.ready and not one.restart_count for one in statuses)


async def _own_logs(pod: Pod, sources: Sources) -> Sequence[LogSeen | Gap] | None:
    return await gather_logs(sources.cluster, [pod], only=_asking(pod)) if sources.workload_logs else None
