"""HAMi's pods, and its scheduler's flags and log words (HAMi v2.4 to v2.10, charts/hami and cmd/scheduler/main.go)."""

import re
from collections.abc import Iterable, Mapping, Sequence

from bot.kube.models import Pod

COMPONENT_LABEL = "app.kubernetes.io/component"
SCHEDULER_COMPONENT = "hami-scheduler"
PLUGIN_COMPONENT = "hami-device-plugin"
EXTENDER_CONTAINER = "vgpu-scheduler-extender"
KUBE_SCHEDULER_CONTAINER = "kube-scheduler"

METRICS_FLAG, METRICS_PORT = "metrics-bind-address", 9395
"""The extender's flag for the address of its metrics, and their port without the flag."""

PANIC, FATAL, RELEASE = "panic", "fatal error", "deleted"
HANDSHAKE, FORBIDDEN = "TLS handshake error", "is forbidden"
UNDECODED = "Failed to decode extender arguments"
OF_NO_POD = (PANIC, FATAL, RELEASE, HANDSHAKE, FORBIDDEN, UNDECODED, "client-side throttling")
"""Words of the extender's log that bear on every pod, in lines that need not name the pod in question."""

_IN_A_SHELL = re.compile(r"^[^-].*\s--?\w")
_FLAG = re.compile(r"--?([A-Za-z][\w-]*)(?:=(.*))?", re.DOTALL)


def is_plugin(pod: Pod) -> bool:
    """Whether the pod is of HAMi's device plugin for NVIDIA."""
    return pod.metadata.label(COMPONENT_LABEL) == PLUGIN_COMPONENT


def is_scheduler(pod: Pod) -> bool:
    """Whether the pod is of HAMi's scheduler."""
    of_scheduler = pod.metadata.label(COMPONENT_LABEL) == SCHEDULER_COMPONENT
    return of_scheduler or any(container.name == EXTENDER_CONTAINER for container in pod.spec.containers)


def is_pod_of_hami(labels: Mapping[str, str] | None, containers: Iterable[str]) -> bool:
    """Whether a pod with these labels and container names is one of HAMi's own."""
    component = (labels or {}).get(COMPONENT_LABEL)
    return component in (SCHEDULER_COMPONENT, PLUGIN_COMPONENT) or EXTENDER_CONTAINER in containers


def read_flags(command: Sequence[str]) -> dict[str, str]:
    """The flags of a command line, by name; a repeated flag's last value counts, as for pflag. A value may be the next
    word; a bare flag is `true`. For a shell (`sh -c "scheduler --debug"`) the words of its command count.
    """
    flags: dict[str, str] = {}
    words = [part for word in command for part in (word.split() if _IN_A_SHELL.search(word) else (word,))]
    for position, word in enumerate(words):
        if not (found := _FLAG.fullmatch(word)):
            continue
        following = words[position + 1] if position + 1 < len(words) else ""
        separate = following and not following.startswith("-")
        flags[found[1]] = found[2] if found[2] is not None else following if separate else "true"
    return flags


def metrics_port(flags: Mapping[str, str]) -> int:
    """The port of the extender's metrics when it runs with these flags."""
    text = flags.get(METRICS_FLAG, "").rpartition(":")[2]
    return int(text) if text.isdecimal() else METRICS_PORT
