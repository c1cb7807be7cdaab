"""The logs of Volcano's vGPU device plugin, for a pod that Volcano places."""

from collections.abc import Sequence
from typing import NamedTuple

from bot.hami.pods.request_parsing import extended_resources
from bot.kube.cluster import Cluster, seen
from bot.kube.models import PODS, Pod
from bot.report import Gap
from playbooks.gather.node_side import LogSeen, gather_logs

_LABEL = "name=volcano-device-plugin"
"""Of the DaemonSet in volcano-vgpu-device-plugin.yml (Project-HAMi/volcano-vgpu-device-plugin v1.9 to v1.12)."""
_VGPU = "volcano.sh/vgpu-"
_MONITOR = "monitor"
_MOST_PODS = 3
"""Whose logs one question reads."""


class VolcanoPluginsSeen(NamedTuple):
    """The logs, and what could not be read of them. Empty is no proof: a plugin may have other labels."""

    logs: tuple[LogSeen, ...] = ()
    gaps: tuple[Gap, ...] = ()


async def gather_volcano_plugins(cluster: Cluster, pod: Pod) -> VolcanoPluginsSeen:
    """Read where the pod asks for Volcano's vGPUs, else nothing; never raises."""
    if not any(name.startswith(_VGPU) for name in extended_resources(pod)):
        return VolcanoPluginsSeen()
    pods = await seen("Volcano's device plugin pods", cluster.list(PODS, labels=_LABEL))
    if isinstance(pods, Gap):
        return VolcanoPluginsSeen(gaps=(pods,))
    first = sorted(pods, key=lambda one: one.spec.node_name or "")[:_MOST_PODS]
    read = await gather_logs(cluster, first, only=_containers(first))
    logs = tuple(log for log in read if isinstance(log, LogSeen))
    return VolcanoPluginsSeen(logs, tuple(gap for gap in read if isinstance(gap, Gap)))


def _containers(pods: Sequence[Pod]) -> set[str]:
    return {part.name for pod in pods for part in pod.spec.containers if _MONITOR not in part.name}
