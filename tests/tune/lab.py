"""A small cluster for questions of tuning: vGPUmonitors that answer, and a Prometheus that is as it has to be."""

import asyncio
import math
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from bot.errors import SourceError
from bot.hami.metrics.exposition import Sample, read_samples
from bot.hami.metrics.gpu_usage import NAMES
from bot.kube.recording.recorded_cluster import RecordedCluster
from bot.prometheus import Prometheus
from bot.report import Report
from bot.texts import Texts
from playbooks.playbook import Sources
from playbooks.tune.advice import AdviceRow
from playbooks.tune.playbook import PLAYBOOK, Request
from tests.playbooks.world import Object, plugin_pod, record
from tests.tune.support import rows_of

GIB = 2**30
USED, LIMIT = "hami_vgpu_memory_used_bytes", "hami_vgpu_memory_limit_bytes"
CORE, KERNEL = "hami_container_device_utilization_ratio", "hami_container_last_kernel_elapsed_seconds"
HOURS = 168


class FakePrometheus:
    """Holds the samples of one moment, of a week the peaks and how many hours each series has, and of a day the average
    cores; `cores` are those of which it has the whole day.
    """

    def __init__(self, now: str = "", peaks: str = "", hours: str = "", *, cores: str = "", fails: str = "") -> None:
        whole = f"{CORE} {len(cores.splitlines())}\n" if cores else ""
        self._texts = {
            "max_over_time": peaks,
            "count_over_time": hours,
            "avg_over_time": cores,
            "count(count_over_time": whole,
            "": now,
        }
        self._fails = fails

    async def query(self, expression: str, at: datetime, labels: object = None) -> list[Sample]:
        del at
        if self._fails:
            raise SourceError(f"POST http://prometheus/api/v1/query: {self._fails}", hint="Ask Prometheus.")
        function = next(name for name in self._texts if expression.startswith(name))
        samples = read_samples(self._texts[function], (*NAMES, CORE))
        asked = re.split(r"[^\w:]+", expression)
        least = float(found[1]) if (found := re.search(r" > (\d+) and ", expression)) else -math.inf
        return [sample for sample in samples if sample.name in asked and sample.value > least]


def use(name: str, pod: str, uuid: str, value: float | str, **labels: str) -> str:
    """One sample of a container `main`, as the exporter writes it."""
    known = {"namespace": "ml", "pod": pod, "container": "main", "vdevice_index": "0", "device_uuid": uuid} | labels
    pairs = ",".join(f'{key}="{text}"' for key, text in known.items())
    return f"{name}{{{pairs}}} {value}\n"


def tune(
    folder: Path,
    objects: Sequence[Object],
    *,
    monitors: Mapping[str, str] | None = None,
    prometheus: Prometheus | None = None,
    template: str = "",
    **recorded: Any,
) -> Report:
    """The answer of `tune --all`, or of `--template`.

    `monitors` are what vGPUmonitor of each node answers; `recorded` goes to `record`.
    """
    nodes = [object_["metadata"]["name"] for object_ in objects if object_["kind"] == "Node"]
    path = record(folder, [*objects, *map(plugin_pod, nodes)], monitors=monitors, **recorded)
    opened = RecordedCluster.open(path)
    sources = Sources(opened, ports=opened, prometheus=prometheus)
    return PLAYBOOK.report(
        asyncio.run(PLAYBOOK.gather(Request(all=not template, template=template), sources)), Texts("en")
    )


def row(report: Report, topic: str) -> AdviceRow:
    """The only row of the topic."""
    (found,) = (advice for advice in rows_of(report) if advice.topic == topic)
    return found


def advised(report: Report) -> set[tuple[str, str]]:
    """What is to be changed or repaired, or must not be changed: topic and direction."""
    return {
        (advice.topic, advice.direction)
        for advice in rows_of(report)
        if advice.direction in ("raise", "lower", "refuse", "repair")
    }


def told(report: Report, words: str) -> Any:
    """The only finding with these words."""
    (found,) = (finding for finding in report.findings if words in finding.claim)
    return found
