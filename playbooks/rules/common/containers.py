"""What a pod's containers are doing, as their statuses say it."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from bot.hami.pods.allocations import Allocation
from bot.hami.pods.request_parsing import DeviceConfig
from bot.kube.models import Container, ContainerStatus, Pod, StateTerminated
from bot.kube.times import parse_time

_STARTING = ("ContainerCreating", "PodInitializing", "")
_WHOLE = 100
_AGAIN = timedelta(seconds=60)
"""A container that was restarted and runs no longer than this may end as it did before."""
_OFTEN = 3
_ZERO = datetime(1970, 1, 1, tzinfo=UTC)
_SLOW = timedelta(minutes=10)
"""kubelet starts its back-off anew for a container that ran this long."""


class GpuContainers(NamedTuple):
    """The pod's containers that ask for NVIDIA's GPUs, and what HAMi gave it of them."""

    containers: Sequence[Container]
    shares: Sequence[Allocation]

    @property
    def cores(self) -> bool:
        """Whether GPU cores are limited: 0 and 100 are no limit to HAMi-core."""
        return any(0 < share.cores < _WHOLE for share in self.shares)


def statuses(pod: Pod) -> list[ContainerStatus]:
    """Of its init containers, then of the others."""
    return [*(pod.status.init_container_statuses or ()), *(pod.status.container_statuses or ())]


def path_in(pod: Pod, container: str, field: str) -> str:
    """The JSONPath that shows a field of the status of a container of that name, and of its siblings."""
    init = any(status.name == container for status in pod.status.init_container_statuses or ())
    return f"{{.status.{'initContainerStatuses' if init else 'containerStatuses'}[*].{field}}}"


def stuck(status: ContainerStatus) -> bool:
    """Whether it waits for anything but its first start."""
    return status.state.waiting is not None and status.state.waiting.reason not in _STARTING


def between_restarts(status: ContainerStatus, now: datetime) -> bool:
    """Whether it runs only since moments, after an end with an error: a crash loop looks like this between two ends."""
    running, ended = status.state.running, status.last_state.terminated
    if running is None or ended is None or not ended.exit_code or not status.restart_count:
        return False
    since = parse_time(running.started_at)
    if since is None:
        return False
    lasted = run_time(ended)
    often = lasted if lasted is not None and status.restart_count >= _OFTEN and lasted <= _SLOW else timedelta()
    return now - since <= max(_AGAIN, often)


def in_trouble(status: ContainerStatus, now: datetime) -> bool:
    """Whether it does not run, ended with an error, or was restarted moments ago after one."""
    ended = status.state.terminated
    return stuck(status) or between_restarts(status, now) or (ended is not None and ended.exit_code != 0)


def run_time(ended: StateTerminated) -> timedelta | None:
    """How long a run lasted; None where its times are not given. A run that never began has 1970 as its start."""
    started, finished = parse_time(ended.started_at), parse_time(ended.finished_at)
    if started is None or finished is None or started > finished or started == _ZERO:
        return None
    return finished - started


def gpu_containers(pod: Pod, config: DeviceConfig) -> list[Container]:
    """The containers that ask for NVIDIA's GPUs by HAMi's resources, init containers first."""
    return [
        container
        for container in (*(pod.spec.init_containers or ()), *pod.spec.containers)
        if container.resources
        and not {*(container.resources.limits or ()), *(container.resources.requests or ())}.isdisjoint(config.gpus.all)
    ]
