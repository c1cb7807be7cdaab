"""What HAMi's scheduler counts as given away, by its own metrics: they come straight from its memory.

Names and labels per version: HAMi cmd/scheduler/metrics.go at v2.4 to v2.10. 2.7, and 2.9 on with `legacyMetrics`,
serve two names for one figure: only the newest name is read.
"""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from bot.hami.allocations import is_finished, reserved_node
from bot.kube.models import Holder, Pod

PORT = 9395
_POD_MEMORY = ("hami_vgpu_memory_allocated_bytes", "vGPUMemoryAllocated", "vGPUPodsDeviceAllocated")
_GPU_MEMORY = ("hami_gpu_memory_allocated_bytes", "GPUDeviceMemoryAllocated")
_GPU_LIMIT = ("hami_gpu_memory_limit_bytes", "GPUDeviceMemoryLimit")
_NODE, _POD = ("node", "nodename", "nodeid"), ("pod", "podname")
_NAMESPACE, _UUID = ("namespace", "podnamespace"), ("device_uuid", "deviceuuid")
_SAMPLE = re.compile(r"(?P<name>\w+)\{(?P<labels>.*)\} (?P<value>\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_MIG_SUFFIX = re.compile(r"\[\d+-\d+\]$")
_MIB = 2**20


class Taken(NamedTuple):
    """What one pod holds of one GPU in the scheduler's memory; `line` is the sample that says so."""

    namespace: str
    pod: str
    node: str
    uuid: str
    memory_mib: int
    line: str


class Counted(NamedTuple):
    """The scheduler's memory. `gpus` is MiB given away by node and GPU; `nodes` those of which it knows GPUs."""

    taken: tuple[Taken, ...]
    gpus: Mapping[tuple[str, str], int]
    nodes: frozenset[str]


def read_counted(text: str) -> Counted | None:
    """The figures of a scrape; None where it has none of a GPU: another program's, or a scheduler that knows no GPU."""
    samples = [found for line in text.splitlines() if not line.startswith("#") and (found := _SAMPLE.match(line))]
    names = {sample["name"] for sample in samples}
    gpus = {(_first(labels, _NODE), _uuid(labels)): mib for labels, mib, _ in _of(samples, names, _GPU_MEMORY)}
    limits = _of(samples, names, _GPU_LIMIT)
    taken = tuple(
        Taken(_first(labels, _NAMESPACE), _first(labels, _POD), _first(labels, _NODE), _uuid(labels), mib, line)
        for labels, mib, line in _of(samples, names, _POD_MEMORY)
    )
    nodes = frozenset(_first(labels, _NODE) for labels, _, _ in limits) | {node for node, _ in gpus}
    return Counted(taken, gpus, nodes) if nodes else None


def unheld(counted: Counted, pods: Iterable[Pod | Holder]) -> list[Taken]:
    """What is counted of pods that are not among these, or that have finished or are reserved on another node."""
    live = {(pod.namespace, pod.name, reserved_node(pod.metadata)) for pod in pods if not is_finished(pod)}
    return [taken for taken in counted.taken if (taken.namespace, taken.pod, taken.node) not in live]


def _of(
    samples: Iterable[re.Match[str]], served: set[str], names: tuple[str, ...]
) -> list[tuple[dict[str, str], int, str]]:
    """The samples of the newest of these names that is served: labels, MiB, line."""
    name = next((one for one in names if one in served), "")
    return [
        (dict(_LABEL.findall(sample["labels"])), _mib(sample["value"]), sample[0])
        for sample in samples
        if sample["name"] == name
    ]


def _mib(value: str) -> int:
    try:
        return round(float(value) / _MIB)
    except (ValueError, OverflowError):
        return 0


def _first(labels: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((labels[name] for name in names if name in labels), "")


def _uuid(labels: Mapping[str, str]) -> str:
    return _MIG_SUFFIX.sub("", _first(labels, _UUID))
