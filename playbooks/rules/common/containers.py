"""What a pod's containers are doing, as their statuses say it, and what the log of one that ended says last."""

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from bot.hami.pods.allocations import Allocation
from bot.hami.pods.request_parsing import DeviceConfig
from bot.kube.models import Container, ContainerStatus, Pod, StateTerminated
from bot.kube.times import parse_time
from playbooks.gather.node_side import LogSeen
from playbooks.quotes import shown

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
    """The statuses of a pod's init containers, then of the others."""
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


_ERROR = re.compile(r"^[EF]\d{4} |^panic: |^fatal error: |^Error: ")
_HEADER = re.compile(r"^[IWEF]\d{4} [^\]\n]*\] |^Error: ")
"""Of klog, or of a flag that is refused, which the usage follows; a panic has none, and brackets of its own."""
_KLOG = re.compile(r"^[IWEF]\d{4} ")
_KILLED = (0, 137, 143)


class LastWords(NamedTuple):
    """A line of a log, verbatim. `error`: it says of itself that it is an error; else it is only the last one."""

    log: LogSeen
    line: str
    error: bool

    @property
    def text(self) -> str:
        """The line without klog's header."""
        return shown(_HEADER.sub("", self.line))


def last_of(logs: Iterable[LogSeen], end: StateTerminated, *, running: bool) -> LastWords | None:
    """The first of a container's logs that tells an error, else the first that tells anything."""
    found = [words for log in logs if (words := _last_words(log, end, over=log.previous or not running))]
    return next((words for words in found if words.error), found[0] if found else None)


def _last_words(log: LogSeen, end: StateTerminated, *, over: bool) -> LastWords | None:
    """The last error of a run; of one that is `over`, and that nobody killed, else its last line, if not klog's.

    What is no program of Go's, such as the runtime or a shell, prints plain text. Goroutine dumps may follow an error.
    """
    if line := next((line for line in reversed(log.lines) if _ERROR.match(line)), ""):
        return LastWords(log, line, error=True)
    if not over or end.exit_code in _KILLED or end.reason == "OOMKilled":
        return None
    line = next((line for line in reversed(log.lines) if line.strip()), "")
    return LastWords(log, line, error=False) if line and not _KLOG.match(line) else None
