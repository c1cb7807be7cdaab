"""What the scheduler's log says about an open change: whether it took effect, has done its work, or does harm."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager

from msgspec import structs

from bot.changes.record import Record
from bot.errors import SourceError
from bot.hami.installation.install import verbosity_of
from bot.hami.scheduler_logs.filter_runs import rebuild
from bot.hami.scheduler_logs.log_lines import read_line, whose
from bot.kube.cluster import Cluster, LogWanted, seen
from bot.kube.hami_pods import EXTENDER_CONTAINER
from bot.kube.models import Pod
from bot.report import Evidence, Gap
from bot.texts import in_english
from playbooks.gather.scheduling import gather_install
from playbooks.playbook import Sources
from playbooks.quotes import kubectl

_RECENT_S = 900


async def effect_of(cluster: Cluster, record: Record, pods: Sequence[str]) -> tuple[Evidence, ...]:
    """Quotes the pods' lines `FLAG: --v="5"`; none for a level set in a running process, or if no log can be read. HAMi
    and kube-scheduler print their flags when they start (k8s.io/component-base/cli/flag, `PrintFlags`).
    """
    if record.means != "patch":
        return ()
    namespace, _, _ = record.target.partition("/")
    lines = [f'FLAG: --{each.flag}="{each.new}"' for each in record.flags]
    wanted = [(pod, line) for line in lines for pod in pods]
    found = await asyncio.gather(*(_line(cluster, namespace, pod, record.container, line) for pod, line in wanted))
    return tuple(evidence for evidence in found if evidence)


async def _line(cluster: Cluster, namespace: str, pod: str, container: str, line: str) -> Evidence | None:
    read = await seen("", cluster.log(LogWanted(namespace, pod, container, line.encode(), _RECENT_S)))
    if isinstance(read, Gap) or not read.lines:
        return None
    log = kubectl("-n", namespace, "logs", pod, "-c", container)
    place = f"Pod {namespace}/{pod} container {container}"
    return Evidence("scheduler log", place, None, read.lines[-1].rstrip("\n"), f"{log} | grep FLAG:")


LOUDEST_BYTES_S = 1024 * 1024
"""Bytes a second: a container that logs more for `LOUD_FOR_S` outruns the kubelet's rotation (10 MiB a file)."""
LOUD_FOR_S = 10
_OLDEST_S = 4 * 3600

log = logging.getLogger(__name__)


async def why_to_end(open_sources: Callable[[], AbstractAsyncContextManager[Sources]], record: Record) -> str:
    """Why to end the change before its deadline (see `bot.changes.reconciler.Endings`); empty: no reason, or no log."""
    if not record.kind.is_log_level:
        return ""
    try:
        async with open_sources() as sources:
            pods = [pod for pod in (await gather_install(sources)).install.pods if _has_level(pod, record)]
            reasons = await asyncio.gather(*(_of_pod(sources.cluster, pod, record) for pod in pods))
    except SourceError as error:
        log.info("the log of %s cannot be looked at: %s", record.target, in_english(error.message))
        return ""
    return next(filter(None, reasons), "")


async def _of_pod(cluster: Cluster, pod: Pod, record: Record) -> str:
    everything = LogWanted(
        pod.namespace,
        pod.name,
        record.container,
        b"",
        since_s=LOUD_FOR_S,
        limit_bytes=LOUDEST_BYTES_S * LOUD_FOR_S,
    )
    if (await cluster.log(everything)).cut:
        return f"{pod.name} logged more than {LOUDEST_BYTES_S // 1024} KiB/s"
    namespace, _, name = record.until_captured.partition("/")
    if not name:
        return ""
    since_s = round(cluster.now().timestamp() - record.since)
    wanted = structs.replace(everything, needle=name.encode(), since_s=min(max(since_s, 1), _OLDEST_S), stamped=True)
    raws = (await cluster.log(structs.replace(wanted, limit_bytes=32 * 1024 * 1024))).lines
    parsed = (read_line(raw, cluster.now()) for raw in raws)
    lines = [line for line in parsed if line and whose(line, name) in ("", namespace)]
    if record.container != EXTENDER_CONTAINER:
        return f"{len(lines)} lines about {record.until_captured} are captured" if lines else ""
    runs = [run for run in rebuild(lines) if run.start and (run.none_fit or run.chosen or run.outcome)]
    return f"a whole filter run of {record.until_captured} is captured: {len(runs[-1].lines)} lines" if runs else ""


def _has_level(pod: Pod, record: Record) -> bool:
    """Whether the pod logs at the change's level: a pod from before the change keeps the old one until it ends."""
    container = next((container for container in pod.spec.containers if container.name == record.container), None)
    if container is None or pod.status.phase != "Running":
        return False
    return record.means == "debug-flags" or str(verbosity_of(container)[0]) == record.new
