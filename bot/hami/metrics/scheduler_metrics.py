"""What HAMi's scheduler counts as given away, by its own metrics: they come straight from its memory.

Names and labels per version: HAMi cmd/scheduler/metrics.go at v2.4 to v2.10. 2.7, and 2.9 on with `legacyMetrics`,
serve two names for one figure: only the newest name is read.
"""

import math
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from bot.hami.metrics.exposition import Sample, read_samples
from bot.hami.pods.allocations import is_finished, reserved_node
from bot.kube.models import Holder, Pod

_POD_MEMORY = ("hami_vgpu_memory_allocated_bytes", "vGPUMemoryAllocated", "vGPUPodsDeviceAllocated")
_GPU_MEMORY = ("hami_gpu_memory_allocated_bytes", "GPUDeviceMemoryAllocated")
_GPU_LIMIT = ("hami_gpu_memory_limit_bytes", "GPUDeviceMemoryLimit")
_NODE, _POD = ("node", "nodename", "nodeid"), ("pod", "podname")
_NAMESPACE, _UUID = ("namespace", "podnamespace"), ("device_uuid", "deviceuuid")
_NAMES = frozenset((*_POD_MEMORY, *_GPU_MEMORY, *_GPU_LIMIT))
_MIG_SUFFIX = re.compile(r"\[\d+-\d+\]$")
_MIB = 2**20


class CountedShare(NamedTuple):
    """What one pod holds of one GPU in the scheduler's memory; `line` is the sample that says so."""

    namespace: str
    pod: str
    node: str
    uuid: str
    memory_mib: int
    line: str


class SchedulerCounts(NamedTuple):
    """The scheduler's memory. `gpus` is MiB given away by node and GPU; `nodes` those of which it knows GPUs."""

    taken: tuple[CountedShare, ...]
    gpus: Mapping[tuple[str, str], int]
    nodes: frozenset[str]


def read_counted(text: str) -> SchedulerCounts | None:
    """The figures of a scrape; None where it has none of a GPU: another program's, or a scheduler that knows no GPU."""
    by_name: dict[str, list[Sample]] = {}
    for sample in read_samples(text, _NAMES):
        by_name.setdefault(sample.name, []).append(sample)
    gpus = {(_first(labels, _NODE), _uuid(labels)): mib for labels, mib, _ in _of(by_name, _GPU_MEMORY)}
    limits = _of(by_name, _GPU_LIMIT)
    taken = tuple(
        CountedShare(_first(labels, _NAMESPACE), _first(labels, _POD), _first(labels, _NODE), _uuid(labels), mib, line)
        for labels, mib, line in _of(by_name, _POD_MEMORY)
    )
    nodes = frozenset(_first(labels, _NODE) for labels, _, _ in limits) | {node for node, _ in gpus}
    return SchedulerCounts(taken, gpus, nodes) if nodes else None


def unheld(counted: SchedulerCounts, pods: Iterable[Pod | Holder]) -> list[CountedShare]:
    """What is counted of pods that are not among these, or that have finished or are reserved on another node."""
    live = {(pod.namespace, pod.name, reserved_node(pod.metadata)) for pod in pods if not is_finished(pod)}
    return [taken for taken in counted.taken if (taken.namespace, taken.pod, taken.node) not in live]


def _of(by_name: Mapping[str, list[Sample]], names: tuple[str, ...]) -> list[tuple[Mapping[str, str], int, str]]:
    """The samples of the newest of these names that is served: labels, MiB, line."""
    newest = next((name for name in names if name in by_name), "")
    return [(sample.labels, _mib(sample.value), sample.line) for sample in by_name.get(newest, ())]


def _mib(value: float) -> int:
    return round(value / _MIB) if math.isfinite(value) else 0


def _first(labels: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((labels[name] for name in names if name in labels), "")


def _uuid(labels: Mapping[str, str]) -> str:
    return _MIG_SUFFIX.sub("", _first(labels, _UUID))
