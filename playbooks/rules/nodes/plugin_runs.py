"""How the containers of a device plugin's pod do, and which lines of their logs are about now.

Sources: HAMi v2.4.1 to v2.10.0 cmd/device-plugin/nvidia/main.go and server.go and register.go print the markers.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from bot.hami.signatures import Hit
from bot.hami.version import Version, parse_version
from bot.kube.models import ContainerStatus, Pod
from bot.kube.times import parse_time
from bot.report import Evidence
from playbooks.gather.node_side import LogSeen, is_monitor
from playbooks.rules.common.containers import in_trouble, statuses
from playbooks.rules.common.signature_findings import in_log

_BETWEEN_CRASHES = timedelta(minutes=10)
"""Kubelet waits at most 5 minutes between two starts of a container that keeps ending."""
_STARTED = "Starting Plugins."
_REGISTERED = "Registered device plugin for"
_WRITTEN = (
    "Successfully updated node annotation",
    "Successfully registered annotation",
    "Device info unchanged, skipping annotation update",
    "No device changes detected",
)
_UNTIL_WRITTEN = ("plugin-register-annotation", "plugin-rbac")
"""Signatures of a loop that tries again: one success, and they are over."""
_AFTER = (*_WRITTEN, "Updating node annotations with")
"""The plugin writes the annotation only once kubelet took its registration; these lines come every 30 s."""


def plugin_statuses(pod: Pod, *, monitor: bool = False) -> list[ContainerStatus]:
    """The containers that hand GPUs out, with those that come before them; or the monitor's."""
    return [status for status in statuses(pod) if is_monitor(status.name) == monitor]


def ails(status: ContainerStatus, now: datetime, *, silent: bool = False) -> bool:
    """Whether the container is down, or up between two crashes. `silent`: its node gets no GPUs handed out."""
    ended = status.last_state.terminated
    at = parse_time(ended.finished_at) if ended else None
    return in_trouble(status, now) or (silent and at is not None and now - at <= _BETWEEN_CRASHES)


def in_plugin_log(log: LogSeen, status: ContainerStatus) -> list[tuple[Hit, Evidence]]:
    """The signatures in what one run printed since it last started its plugins.

    Of a run that goes on, what came before kubelet took its registration is over; so is a node annotation that could
    not be written once it was.
    """
    where = "monitor-log" if is_monitor(log.container) else "plugin-log"
    lines = _since(log.lines, _STARTED)
    if status.state.running and not log.previous:
        lines = _since(lines, _REGISTERED)
    found = in_log(where, log._replace(lines=tuple(lines)), version_of(log.pod, log.container))
    written = max((at for at, line in enumerate(lines) if any(marker in line for marker in _WRITTEN)), default=-1)
    return [fault for fault in found if fault[0].signature.id not in _UNTIL_WRITTEN or fault[0].line > written]


def has_registered(log: LogSeen) -> bool:
    """Whether kubelet took the registration of this run."""
    return any(marker in line for line in log.lines for marker in (_REGISTERED, *_AFTER))


def version_of(pod: Pod, container: str) -> Version | None:
    """HAMi's version by the image's tag."""
    both = (*pod.spec.containers, *(pod.spec.init_containers or ()))
    image = next((status.image for status in both if status.name == container), "")
    return parse_version(image)


def _since(lines: Sequence[str], marker: str) -> Sequence[str]:
    at = next((at for at in range(len(lines) - 1, -1, -1) if marker in lines[at]), 0)
    return lines[at:]
