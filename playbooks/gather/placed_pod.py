"""What is read of a pod that has a node: HAMi's install, the node's GPU side and, where allowed, the pod's own logs."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from bot.hami.pods.allocations import reserved_node
from bot.kube.cluster import Cluster, seen
from bot.kube.models import DAEMON_SETS, JOBS, REPLICA_SETS, STATEFUL_SETS, Pod, Workload
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
from playbooks.gather.webhook import WebhookSeen, gather_webhook, went_past_hami
from playbooks.playbook import Sources

_CONTROLLERS = {"ReplicaSet": REPLICA_SETS, "StatefulSet": STATEFUL_SETS, "DaemonSet": DAEMON_SETS, "Job": JOBS}


class PlacedPod(NamedTuple):
    """`own_logs`: the newest lines of the pod's own GPU containers; None where the settings do not allow to read them.

    What could not be read of them is no gap by itself: it is one only where it would have told something.
    """

    install: InstallSeen
    side: NodeSide
    own_logs: tuple[LogSeen, ...] | None = None
    own_log_gaps: tuple[Gap, ...] = ()
    plugin_sets: PluginSets | None = None
    """Only read where the node has no device plugin."""
    webhook: WebhookSeen | None = None
    owner: Workload | Gap | None = None
    """Both are read where the pod went past HAMi; `owner` is what made the pod."""

    @property
    def gaps(self) -> tuple[Gap, ...]:
        owner = [self.owner] if isinstance(self.owner, Gap) else []
        parts = (self.install, self.side, self.plugin_sets, self.webhook)
        return (*(gap for part in parts if part for gap in part.gaps), *owner)


def asks_for_devices(pod: Pod) -> bool:
    """Whether any of its containers asks for an extended resource, or HAMi gave it a device."""
    return reserved_node(pod.metadata) != "" or bool(_asking(pod))


def _asking(pod: Pod) -> set[str]:
    """The containers that ask for an extended resource."""
    return {
        container.name
        for container in (*pod.spec.containers, *(pod.spec.init_containers or ()))
        if any("/" in name for name in (container.resources.limits if container.resources else None) or ())
    }


async def gather_placed(pod: Pod, sources: Sources) -> PlacedPod | None:
    """Reads what may explain a placed pod; None for one without devices, or that has ended well."""
    if not pod.spec.node_name or pod.status.phase == "Succeeded" or not asks_for_devices(pod):
        return None
    install, side, own = await asyncio.gather(
        gather_install(sources),
        gather_node_side(sources.cluster, pod.spec.node_name, logs=_may_be_refused(pod)),
        _own_logs(pod, sources),
    )
    bare = pod.status.phase == "Failed" and not side.plugin_pods
    sets = await gather_plugin_sets(sources.cluster) if bare else None
    placed = PlacedPod(install, side, plugin_sets=sets)
    if own is not None:
        logs = tuple(log for log in own if isinstance(log, LogSeen))
        placed = placed._replace(own_logs=logs, own_log_gaps=tuple(gap for gap in own if isinstance(gap, Gap)))
    if _runs_well(pod) or not went_past_hami(pod, install.install, install.config):
        return placed
    webhook, owner = await asyncio.gather(
        gather_webhook(sources.cluster, install.install, [pod.namespace]), seen("owner", _owner(sources.cluster, pod))
    )
    return placed._replace(webhook=webhook, owner=owner)


async def _owner(cluster: Cluster, pod: Pod) -> Workload | None:
    """What made the pod; None where that is none of Kubernetes' own controllers, or is gone."""
    about = next((owner for owner in pod.metadata.owner_references or () if owner.controller), None)
    kind = _CONTROLLERS.get(about.kind) if about else None
    if about is None or kind is None:
        return None
    return next(iter(await cluster.list(kind, pod.namespace, fields=f"metadata.name={about.name}")), None)


def _runs_well(pod: Pod) -> bool:
    statuses = pod.status.container_statuses or ()
    return pod.status.phase == "Running" and all(status.ready and not status.restart_count for status in statuses)


def _may_be_refused(pod: Pod) -> bool:
    """Whether kubelet may have refused its devices: it starts no container before it has them."""
    statuses = [*(pod.status.init_container_statuses or ()), *(pod.status.container_statuses or ())]
    began = any(status.state.running or status.state.terminated or status.last_state.terminated for status in statuses)
    return not began or (pod.status.phase == "Failed" and bool(pod.status.reason))


async def _own_logs(pod: Pod, sources: Sources) -> Sequence[LogSeen | Gap] | None:
    return await gather_logs(sources.cluster, [pod], only=_asking(pod)) if sources.workload_logs else None
