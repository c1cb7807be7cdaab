"""The logs of scheduler containers that do not serve: the end of the run that is on, and of the one before.

Nothing is read of a scheduler that works.
"""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from bot.hami.installation.install import lacks_leader
from bot.kube.cluster import Cluster
from bot.kube.hami_pods import KUBE_SCHEDULER_CONTAINER
from bot.kube.models import ContainerStatus, Pod
from bot.report import Gap
from playbooks.gather.node_side import LogSeen, gather_logs
from playbooks.gather.scheduling import InstallSeen

_MOST_PODS = 3
"""Replicas run the same program: what ends one ends the others."""


class RunsSeen(NamedTuple):
    """The logs, and what could not be read of them."""

    logs: tuple[LogSeen, ...] = ()
    gaps: tuple[Gap, ...] = ()


async def gather_runs(cluster: Cluster, seen: InstallSeen) -> RunsSeen:
    """What the containers logged that keep every pod of HAMi's scheduler from serving; never raises."""
    wanted = _wanted(seen, cluster.now())
    read = await asyncio.gather(*(gather_logs(cluster, [pod], only=names) for pod, names in wanted))
    logs = tuple(log for some in read for log in some if isinstance(log, LogSeen))
    return RunsSeen(logs, tuple(gap for some in read for gap in _missed(some)))


def _wanted(seen: InstallSeen, now: datetime) -> list[tuple[Pod, list[str]]]:
    """The containers by pod: those that do not work where no pod is ready; kube-scheduler where nobody leads."""
    install = seen.install
    if not install.ready_pods:
        return [(pod, names) for pod in install.pods[:_MOST_PODS] if (names := _sick(pod))]
    if seen.lease_unread or not lacks_leader(install, now):
        return []
    return [(pod, _kube(pod)) for pod in install.ready_pods[:_MOST_PODS]]


def _kube(pod: Pod) -> list[str]:
    return [part.name for part in pod.spec.containers if part.name == KUBE_SCHEDULER_CONTAINER]


def _sick(pod: Pod) -> list[str]:
    """The containers that are not ready and were started once: others have no log."""
    both = (*(pod.status.init_container_statuses or ()), *(pod.status.container_statuses or ()))
    return [status.name for status in both if not status.ready and _started(status)]


def _started(status: ContainerStatus) -> bool:
    return bool(status.restart_count or status.state.running or status.state.terminated)


def _missed(read: Sequence[LogSeen | Gap]) -> list[Gap]:
    """What could not be read, unless another run of the same pod was: kubelet keeps only the newest logs."""
    some = any(isinstance(log, LogSeen) and log.lines for log in read)
    return [] if some else [gap for gap in read if isinstance(gap, Gap)]
