"""Which logs and metrics a recording holds: of HAMi's own pods, and of no other."""

import asyncio
from collections.abc import Iterable, Sequence

from bot.errors import SourceError
from bot.kube.cluster import PLUGIN_LOG_BYTES, PLUGIN_LOG_LINES, Cluster, LogWanted, seen
from bot.kube.models import Pod
from bot.kube.newest import newest_lines
from bot.kube.podget import PodGet, PodPorts
from bot.kube.recording_files import log_name
from bot.kube.redact import COMPONENT_LABEL, EXTENDER, masked, masked_log
from bot.report import Gap

MAX_LOGS = 32 * 1024 * 1024
"""How much log is read, all containers together, in bytes."""
MOST_PLUGIN_PODS = 20
METRICS_PORT = 9395
"""The extender's --metrics-bind-address as the chart sets it."""
_PERIOD_S = 3600


async def logs_of_hami(
    cluster: Cluster, pods: Sequence[Pod], needle: bytes, node: str
) -> tuple[dict[str, bytes], list[Gap]]:
    """The redacted logs of HAMi's scheduler and device plugin by file name, with a restarted container's run before.

    The scheduler's are of the last hour, only the lines that hold `needle`. The device plugin's are the newest lines of
    at most `MOST_PLUGIN_PODS` pods: first the one on `node`, then those that are not ready or were restarted.
    """
    plugins = sorted((pod for pod in pods if _is_plugin(pod)), key=lambda pod: (pod.spec.node_name != node, _well(pod)))
    chosen = plugins[:MOST_PLUGIN_PODS]
    wanted = [run for pod in filter(is_scheduler, pods) for run in _runs(pod, needle)]
    wanted += [run._replace(tail=PLUGIN_LOG_LINES) for pod in chosen for run in _runs(pod, b"")]
    logs: dict[str, bytes] = {}
    gaps: list[Gap] = []
    if rest := len(plugins) - len(chosen):
        gaps.append(Gap("device plugin logs", f"the logs of {rest} more pods were not read"))
    left = MAX_LOGS
    for wanted_log in wanted:
        limit = min(left, PLUGIN_LOG_BYTES) if wanted_log.tail else left
        try:
            name = log_name(wanted_log.namespace, wanted_log.pod, wanted_log.container, previous=wanted_log.previous)
            lines, cut, *_ = await newest_lines(cluster, wanted_log._replace(limit_bytes=limit))
        except SourceError as error:
            gaps.append(Gap(wanted_log.source, error.message, error.hint))
            continue
        if cut:
            gaps.append(
                Gap(wanted_log.source, f"not all of the log was read: {len(lines):,} lines of at most {limit:,} bytes")
            )
        # In a thread: a bot that records meanwhile answers others.
        logs[name] = (await asyncio.to_thread(masked_log, lines)).encode()
        left = max(0, left - len(logs[name]))
    return logs, gaps


async def metrics_of_scheduler(ports: PodPorts, pods: Iterable[Pod]) -> tuple[dict[str, bytes], list[Gap]]:
    """What the scheduler pods among these tell on their metrics port, by file name; what may not be read is a gap."""
    found: dict[str, bytes] = {}
    gaps: list[Gap] = []
    for pod in filter(is_scheduler, pods):
        at = f"metrics of {pod.namespace}/{pod.name}"
        answer = await seen(at, ports.pod_get(PodGet(pod.namespace, pod.name, "http", METRICS_PORT, "metrics")))
        if isinstance(answer, Gap):
            gaps.append(answer)
        elif answer.status != 200:
            gaps.append(Gap(at, f"port {METRICS_PORT} answered HTTP {answer.status}"))
        else:
            text = masked(answer.body.decode("utf-8", "replace"))
            found[f"metrics/{pod.namespace}/{pod.name}/{METRICS_PORT}.prom"] = text.encode()
    return found, gaps


def is_scheduler(pod: Pod) -> bool:
    """Whether the pod is of HAMi's scheduler."""
    of_scheduler = pod.metadata.label(COMPONENT_LABEL) == "hami-scheduler"
    return of_scheduler or any(container.name == EXTENDER for container in pod.spec.containers)


def _is_plugin(pod: Pod) -> bool:
    return pod.metadata.label(COMPONENT_LABEL) == "hami-device-plugin"


def _well(pod: Pod) -> bool:
    statuses = pod.status.container_statuses or ()
    return bool(statuses) and all(status.ready and not status.restart_count for status in statuses)


def _runs(pod: Pod, needle: bytes) -> list[LogWanted]:
    """Each container's log, and that of its run before where it was restarted."""
    restarted = {status.name for status in pod.status.container_statuses or () if status.restart_count}
    return [
        LogWanted(pod.namespace, pod.name, container.name, needle, _PERIOD_S, previous=previous)
        for container in pod.spec.containers
        for previous in ((False, True) if container.name in restarted else (False,))
    ]
