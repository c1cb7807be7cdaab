"""The logs and metrics that a recording holds: of HAMi's own pods, and of no other."""

import asyncio
from collections.abc import Iterable, Sequence

from msgspec import structs

from bot.errors import SourceError
from bot.kube.cluster import (
    PLUGIN_LOG_BYTES,
    PLUGIN_LOG_LINES,
    Cluster,
    LogWanted,
    PodGet,
    PodPorts,
    as_one,
    newest_lines,
    served_by_each,
)
from bot.kube.hami_pods import EXTENDER_CONTAINER, OF_NO_POD, is_plugin, is_scheduler, metrics_port, read_flags
from bot.kube.models import Pod
from bot.kube.recording.files import log_name
from bot.kube.recording.redact import masked, masked_log
from bot.report import Gap, gap
from bot.texts import Text

MAX_LOGS = 32 * 1024 * 1024
"""The most bytes of log that are read, for all containers together."""
MOST_PLUGIN_PODS = 20
MONITOR_PORT = 9394
"""The port of vGPUmonitor's metrics, in the device plugin's pod."""
MOST_MONITORS = 200
_MONITORS = "metrics of vGPUmonitor"
_OF_NO_POD = tuple(words.encode() for words in OF_NO_POD)
_METRICS_WITHIN_S = 10.0
_ALL_METRICS_WITHIN_S = 20.0
"""The seconds for all metrics together: a temporary change waits until what its restart destroys is recorded."""
_PERIOD_S = 3600


async def logs_of_hami(
    cluster: Cluster, pods: Sequence[Pod], pod: str, node: str
) -> tuple[dict[str, bytes], list[Gap]]:
    """The redacted logs of HAMi's scheduler and device plugin by file name, with a restarted container's run before;
    and the gaps. The scheduler's are of the last hour: with a `pod` only the lines that name it and, of the extender,
    those that bear on every pod. The device plugin's are the newest lines of at most `MOST_PLUGIN_PODS` pods: first the
    one on `node`, then those that are not ready or were restarted.
    """

    def order(pod: Pod) -> tuple[bool, bool]:
        statuses = pod.status.container_statuses or ()
        well = bool(statuses) and all(status.ready and not status.restart_count for status in statuses)
        return pod.spec.node_name != node, well

    plugins = sorted(filter(is_plugin, pods), key=order)
    chosen = plugins[:MOST_PLUGIN_PODS]
    wanted = [run for scheduler in filter(is_scheduler, pods) for run in _runs(scheduler, pod)]
    wanted += [structs.replace(run, tail=PLUGIN_LOG_LINES) for plugin in chosen for run in _runs(plugin)]
    logs: dict[str, bytes] = {}
    gaps: list[Gap] = []
    if rest := len(plugins) - len(chosen):
        gaps.append(gap("device plugin logs", Text("error-recording.logs-more-pods", rest=rest)))
    left = MAX_LOGS
    for wanted_log in wanted:
        limit = min(left, PLUGIN_LOG_BYTES) if wanted_log.tail else left
        try:
            name = log_name(wanted_log.namespace, wanted_log.pod, wanted_log.container, previous=wanted_log.previous)
            lines, cut, *_ = await newest_lines(cluster, structs.replace(wanted_log, limit_bytes=limit))
        except SourceError as error:
            gaps.append(gap(wanted_log.source, error.message, error.hint))
            continue
        if cut:
            why = Text("error-recording.not-all-log-was-read", count=f"{len(lines):,}", limit=f"{limit:,}")
            gaps.append(gap(wanted_log.source, why))
        # In a thread: a bot that records meanwhile answers others.
        logs[name] = (await asyncio.to_thread(masked_log, lines)).encode()
        left = max(0, left - len(logs[name]))
    return logs, gaps


async def metrics_of_hami(ports: PodPorts, pods: Iterable[Pod]) -> tuple[dict[str, bytes], list[Gap]]:
    """The metrics, by file name, of the scheduler pods and of at most `MOST_MONITORS` vGPUmonitors; and the gaps."""
    of_hami = list(pods)
    monitors = list(filter(is_plugin, of_hami))
    places: list[tuple[Pod, int]] = []
    for pod in filter(is_scheduler, of_hami):
        extenders = (part for part in pod.spec.containers if part.name == EXTENDER_CONTAINER)
        words = [word for part in extenders for word in (*(part.command or ()), *(part.args or ()))]
        places.append((pod, metrics_port(read_flags(words))))
    places += [(pod, MONITOR_PORT) for pod in monitors[:MOST_MONITORS]]
    gets = (
        PodGet(pod.namespace, pod.name, "http", port, "metrics", within_s=_METRICS_WITHIN_S) for pod, port in places
    )
    wanted = [(f"metrics of {get.namespace}/{get.pod}", get) for get in gets]
    answers = await served_by_each(ports, wanted, lambda text: masked(text).encode(), within_s=_ALL_METRICS_WITHIN_S)
    found: dict[str, bytes] = {}
    gaps: list[Gap] = []
    unread: list[Gap] = []
    for (pod, port), answer in zip(places, answers, strict=True):
        if isinstance(answer, Gap):
            (unread if port == MONITOR_PORT else gaps).append(answer)
        else:
            found[f"metrics/{pod.namespace}/{pod.name}/{port}.prom"] = answer
    gaps += as_one(unread, _MONITORS, min(len(monitors), MOST_MONITORS))
    if (rest := len(monitors) - MOST_MONITORS) > 0:
        gaps.append(gap(_MONITORS, Text("error-recording.more-monitors-were-not-asked", rest=f"{rest:,}")))
    return found, gaps


def _runs(pod: Pod, named: str = "") -> list[LogWanted]:
    restarted = {status.name for status in pod.status.container_statuses or () if status.restart_count}
    return [
        LogWanted(
            pod.namespace,
            pod.name,
            container.name,
            named.encode(),
            _PERIOD_S,
            previous=previous,
            others=_OF_NO_POD if container.name == EXTENDER_CONTAINER else (),
        )
        for container in pod.spec.containers
        for previous in ((False, True) if container.name in restarted else (False,))
    ]
