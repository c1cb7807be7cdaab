"""Reads samples of named metrics from Prometheus' text format, and what HAMi's scheduler counts of GPUs in them."""

import math
import re
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from bot.hami.pods.allocations import MIG_SUFFIX, is_finished, reserved_node
from bot.kube.models import Holder, Pod

_SAMPLE = re.compile(r"^([A-Za-z_:][\w:]*)(?:\{(.*)\})?[ \t]+(\S+)", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(r"\\(.)")
_ESCAPED = {"n": "\n"}
_WRITTEN = re.compile(r'["\\\n]')


class Sample(NamedTuple):
    """One sample of a metric. `text` is its line in the text format; else `number` is its value as JSON wrote it."""

    name: str
    labels: Mapping[str, str]
    value: float
    text: str = ""
    number: str = ""

    @property
    def line(self) -> str:
        """The sample as a line of Prometheus' text format: verbatim, or made from JSON."""
        if self.text:
            return self.text
        escaped = {name: _WRITTEN.sub(r"\\\g<0>", value).replace("\\\n", r"\n") for name, value in self.labels.items()}
        pairs = ",".join(f'{name}="{value}"' for name, value in escaped.items())
        return f"{self.name}{{{pairs}}} {self.number}" if pairs else f"{self.name} {self.number}"


def read_samples(text: str, wanted: Collection[str]) -> list[Sample]:
    """The samples in `text` with one of the wanted names, in its order, the first of each name and labels.

    A value that is no finite number is left out.
    """
    read: dict[tuple[str, str], Sample] = {}
    decoded: dict[str, Mapping[str, str]] = {}
    for found in _SAMPLE.finditer(text):
        name, labels, number = found.groups()
        if name not in wanted or (name, labels) in read:
            continue
        value = finite(number)
        if value is None:
            continue
        # An exporter gives the figures of one container the same labels in the same order.
        if labels not in decoded:
            decoded[labels] = _labels(labels or "")
        read[name, labels] = Sample(name, decoded[labels], value, found[0])
    return list(read.values())


def finite(text: str) -> float | None:
    """The number in the text; None for one that is not finite, and for other text."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _labels(text: str) -> dict[str, str]:
    labels: list[tuple[str, str]] = _LABEL.findall(text)
    if "\\" not in text:
        return dict(labels)
    return {name: _ESCAPE.sub(lambda found: _ESCAPED.get(found[1], found[1]), value) for name, value in labels}


_POD_MEMORY = ("hami_vgpu_memory_allocated_bytes", "vGPUMemoryAllocated", "vGPUPodsDeviceAllocated")
_GPU_MEMORY = ("hami_gpu_memory_allocated_bytes", "GPUDeviceMemoryAllocated")
_GPU_LIMIT = ("hami_gpu_memory_limit_bytes", "GPUDeviceMemoryLimit")
_NODE, _POD = ("node", "nodename", "nodeid"), ("pod", "podname")
_NAMESPACE, _UUID = ("namespace", "podnamespace"), ("device_uuid", "deviceuuid")
_NAMES = frozenset((*_POD_MEMORY, *_GPU_MEMORY, *_GPU_LIMIT))
_MIB = 2**20


class CountedShare(NamedTuple):
    """What one pod holds of one GPU by the scheduler's own count; `line` is the sample that says so."""

    namespace: str
    pod: str
    node: str
    uuid: str
    memory_mib: int
    line: str


class SchedulerCounts(NamedTuple):
    """What HAMi's scheduler counts. `gpus`: MiB given away, by node and GPU uuid; `nodes`: those with known GPUs."""

    taken: tuple[CountedShare, ...]
    gpus: Mapping[tuple[str, str], int]
    nodes: frozenset[str]


def read_counted(text: str) -> SchedulerCounts | None:
    """The scheduler's counts in a scrape; None without a GPU: another program's, or a scheduler that knows no GPU."""
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


def shares_without_pod(counted: SchedulerCounts, pods: Iterable[Pod | Holder]) -> list[CountedShare]:
    """The shares that the scheduler counts for pods that ended, are gone, or have their GPUs on another node."""
    live = {(pod.namespace, pod.name, reserved_node(pod.metadata)) for pod in pods if not is_finished(pod)}
    return [taken for taken in counted.taken if (taken.namespace, taken.pod, taken.node) not in live]


def _of(by_name: Mapping[str, list[Sample]], names: tuple[str, ...]) -> list[tuple[Mapping[str, str], int, str]]:
    """Labels, MiB and line of each sample, for the newest of these names that is served."""
    newest = next((name for name in names if name in by_name), "")
    return [(sample.labels, round(sample.value / _MIB), sample.line) for sample in by_name.get(newest, ())]


def _first(labels: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((labels[name] for name in names if name in labels), "")


def _uuid(labels: Mapping[str, str]) -> str:
    return MIG_SUFFIX.sub("", _first(labels, _UUID))
