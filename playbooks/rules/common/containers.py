"""What a pod's containers are doing, by their statuses, and the last words in the log of one that ended."""

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from bot.hami.pods.allocations import Allocation
from bot.hami.pods.request_parsing import DeviceConfig
from bot.hami.version import Version, parse_version
from bot.kube.models import Container, ContainerStatus, Pod, StateTerminated
from bot.kube.recording.redact import NEVER_STARTED
from bot.kube.times import parse_time
from bot.report import Evidence
from playbooks import quotes
from playbooks.gather.node_side import LogSeen, is_monitor
from playbooks.quotes import shown

_STARTING = ("ContainerCreating", "PodInitializing", "")
_WHOLE = 100
_AGAIN = timedelta(seconds=60)
"""The time after a restart in which a container may still end as it did before."""
_OFTEN = 3
_ZERO = datetime(1970, 1, 1, tzinfo=UTC)
_SLOW = timedelta(minutes=10)
"""The run time after which kubelet starts its back-off for a container anew."""


class GpuContainers(NamedTuple):
    """The pod's containers that ask for NVIDIA's GPUs, and the shares that HAMi gave the pod."""

    containers: Sequence[Container]
    shares: Sequence[Allocation]

    @property
    def limits_cores(self) -> bool:
        """Whether GPU cores are limited; HAMi-core takes 0 and 100 as no limit."""
        return any(0 < share.cores < _WHOLE for share in self.shares)


def statuses(pod: Pod) -> list[ContainerStatus]:
    return [*(pod.status.init_container_statuses or ()), *(pod.status.container_statuses or ())]


def path_in(pod: Pod, container: str, field: str) -> str:
    """The JSONPath of a field in the statuses of all init containers, or of all app containers, where this one is."""
    init = any(status.name == container for status in pod.status.init_container_statuses or ())
    return f"{{.status.{'initContainerStatuses' if init else 'containerStatuses'}[*].{field}}}"


def of_end(pod: Pod, status: ContainerStatus, end: StateTerminated) -> Evidence:
    """The evidence of a run's end: the runtime's message if it did not start, else the reason or the exit code."""
    state = "state" if status.state.terminated == end else "lastState"
    field, quote = ("reason", end.reason) if end.reason and end.reason != "Error" else ("exitCode", str(end.exit_code))
    if end.reason in NEVER_STARTED and end.message:
        field, quote = "message", end.message
    return quotes.of_status(pod, quote, path_in(pod, status.name, f"{state}.terminated.{field}"), end.finished_at)


def stuck(status: ContainerStatus) -> bool:
    """Whether the container waits for anything but its first start."""
    return status.state.waiting is not None and status.state.waiting.reason not in _STARTING


def between_restarts(status: ContainerStatus, now: datetime) -> bool:
    """Whether the container was restarted after an error so lately that it may be in a crash loop."""
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
    """Whether the container does not run, ended with an error, or was restarted moments ago after an error."""
    ended = status.state.terminated
    return stuck(status) or between_restarts(status, now) or (ended is not None and ended.exit_code != 0)


def run_time(ended: StateTerminated) -> timedelta | None:
    """How long a container's run lasted; None without its times, or if it never began (then its start is in 1970)."""
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
"""Matches how a klog line begins, or one about a refused flag; a panic's first line has neither."""
_KLOG = re.compile(r"^[IWEF]\d{4} ")
_KILLED = (0, 137, 143)


class LastWords(NamedTuple):
    """A line of a log, verbatim. `error`: the line says that it is an error; otherwise it is only the last line."""

    log: LogSeen
    line: str
    error: bool

    @property
    def text(self) -> str:
        """The line without klog's header, as a channel may see it."""
        return shown(_HEADER.sub("", self.line))


def last_of(logs: Iterable[LogSeen], end: StateTerminated, *, running: bool) -> LastWords | None:
    """The last words of a container that ended: from the first log with an error, else from the first with any line."""
    found = [words for log in logs if (words := _last_words(log, end, over=log.previous or not running))]
    return next((words for words in found if words.error), found[0] if found else None)


def _last_words(log: LogSeen, end: StateTerminated, *, over: bool) -> LastWords | None:
    """The last error of a run; else its last line, if the run is `over`, nobody killed it, and the line is not klog's.
    A runtime or a shell prints plain text. Goroutine dumps may follow an error.
    """
    if line := next((line for line in reversed(log.lines) if _ERROR.match(line)), ""):
        return LastWords(log, line, error=True)
    if not over or end.exit_code in _KILLED or end.reason == "OOMKilled":
        return None
    line = next((line for line in reversed(log.lines) if line.strip()), "")
    return LastWords(log, line, error=False) if line and not _KLOG.match(line) else None


_BETWEEN_CRASHES = timedelta(minutes=10)
"""Up to this time after a crash the next one may come: kubelet waits at most 5 minutes between starts."""


def plugin_statuses(pod: Pod, *, monitor: bool = False) -> list[ContainerStatus]:
    """The statuses of a plugin pod's containers that hand out GPUs, and of init containers; or those of vGPUmonitor."""
    return [status for status in statuses(pod) if is_monitor(status.name) == monitor]


def ails(status: ContainerStatus, now: datetime, *, silent: bool = False) -> bool:
    """Whether the container is down, or up between two crashes. `silent`: its node hands out no GPUs."""
    ended = status.last_state.terminated
    at = parse_time(ended.finished_at) if ended else None
    return in_trouble(status, now) or (silent and at is not None and now - at <= _BETWEEN_CRASHES)


def version_of(pod: Pod, container: str) -> Version | None:
    """HAMi's version, by the image tag of the container in the pod."""
    both = (*pod.spec.containers, *(pod.spec.init_containers or ()))
    image = next((status.image for status in both if status.name == container), "")
    return parse_version(image)
