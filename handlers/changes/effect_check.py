"""Whether a raised flag took effect: what the processes themselves log about it at their start."""

import asyncio
from collections.abc import Sequence

from bot.changes.record import Record
from bot.kube.cluster import Cluster, LogWanted, seen
from bot.report import Evidence, Gap
from playbooks.quotes import kubectl

_RECENT_S = 900


async def effect_of(cluster: Cluster, record: Record, pods: Sequence[str]) -> tuple[Evidence, ...]:
    """The lines `FLAG: --v="5"` of the pods; none for a level set in a running process, or where no log can be read.

    HAMi and kube-scheduler print their flags when they start (k8s.io/component-base/cli/flag, `PrintFlags`).
    """
    if record.means != "patch":
        return ()
    namespace, _, _ = record.target.partition("/")
    line = f'FLAG: --{record.flag}="{record.new}"'
    found = await asyncio.gather(*(_line(cluster, namespace, pod, record.container, line) for pod in pods))
    return tuple(evidence for evidence in found if evidence)


async def _line(cluster: Cluster, namespace: str, pod: str, container: str, line: str) -> Evidence | None:
    read = await seen("", cluster.log(LogWanted(namespace, pod, container, line.encode(), _RECENT_S)))
    if isinstance(read, Gap) or not read.lines:
        return None
    log = kubectl("-n", namespace, "logs", pod, "-c", container)
    place = f"Pod {namespace}/{pod} container {container}"
    return Evidence("scheduler log", place, None, read.lines[-1].rstrip("\n"), f"{log} | grep FLAG:")
