"""What containers use of their GPUs, as HAMi's vGPUmonitor measures it, under the names of every version.

Names and labels: HAMi cmd/vGPUmonitor/metrics.go at v2.4 to v2.10. 2.9 on with `legacyMetrics` serves each figure under
two names: only the newest is read.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from bot.hami.exposition import Sample

PORT = 9394
_MIG_SUFFIX = re.compile(r"\[\d+-\d+\]$")

_USED = ("hami_vgpu_memory_used_bytes", "vGPU_device_memory_usage_in_bytes")
_LIMIT = ("hami_vgpu_memory_limit_bytes", "vGPU_device_memory_limit_in_bytes")
_CORE = ("hami_container_device_utilization_ratio", "Device_utilization_desc_of_container")
_LAST_KERNEL = ("hami_container_last_kernel_elapsed_seconds", "Device_last_kernel_of_container")
_GPU_USED = ("hami_host_gpu_memory_used_bytes", "HostGPUMemoryUsage")
_GPU_CORE = ("hami_host_gpu_utilization_ratio", "HostCoreUtilization")
CONTAINER_FIGURES = {"used": _USED, "limit": _LIMIT, "core": _CORE, "last_kernel": _LAST_KERNEL}
"""Each figure of a container, with its names, the newest first."""
GPU_FIGURES = {"used": _GPU_USED, "core": _GPU_CORE}
NAMES = frozenset(name for names in (*CONTAINER_FIGURES.values(), *GPU_FIGURES.values()) for name in names)

# Prometheus without honorLabels keeps the exporter's labels so, since the scraped pod has some of these names. It has
# them beside the names up to 2.8 as well: then `pod` is vGPUmonitor's own.
_NAMESPACE = ("exported_namespace", "podnamespace", "namespace")
_POD = ("exported_pod", "podname", "pod")
_CONTAINER = ("exported_container", "ctrname", "container")
_UUID = ("device_uuid", "deviceuuid")
_VDEVICE = ("vdevice_index", "vdeviceid")
_NODE = ("exported_node", "node", "nodeid")


class Reading(NamedTuple):
    """A figure and the sample that says so, verbatim: bytes, percent or seconds."""

    value: float
    line: str


class ContainerUse(NamedTuple):
    """What one container uses of one GPU. A figure that was not served is None.

    `limit` of 0 is no limit. `used` of 0 beside a limit: no process of the container is on the GPU. `last_kernel` is
    the time since the last kernel, before the first one the time since the process started. `vdevice` tells several
    shares of one GPU apart.
    """

    namespace: str
    pod: str
    container: str
    uuid: str
    vdevice: str = ""
    used: Reading | None = None
    limit: Reading | None = None
    core: Reading | None = None
    last_kernel: Reading | None = None


class GpuUse(NamedTuple):
    """What the driver says of a whole GPU. `node` is empty where the version serves none."""

    uuid: str
    node: str
    used: Reading | None = None
    core: Reading | None = None


class Usage(NamedTuple):
    """All that was measured at one moment, by container and by GPU."""

    containers: tuple[ContainerUse, ...] = ()
    gpus: tuple[GpuUse, ...] = ()


def read_usage(samples: Iterable[Sample]) -> Usage:
    """The figures of these samples; what has no GPU or, of a container, no pod is left out."""
    by_name: dict[str, list[Sample]] = {}
    for sample in samples:
        by_name.setdefault(sample.name, []).append(sample)
    containers: dict[ContainerUse, dict[str, Reading]] = {}
    known: dict[int, ContainerUse] = {}
    for figure, sample in _figures(by_name, CONTAINER_FIGURES):
        of = known.get(id(sample.labels)) or known.setdefault(id(sample.labels), container_of(sample))
        if of.pod and of.uuid:
            containers.setdefault(of, {}).setdefault(figure, Reading(sample.value, sample.line))
    gpus: dict[str, tuple[str, dict[str, Reading]]] = {}
    for figure, sample in _figures(by_name, GPU_FIGURES):
        if uuid := _uuid(sample):
            _, figures = gpus.setdefault(uuid, (first(sample.labels, _NODE), {}))
            figures.setdefault(figure, Reading(sample.value, sample.line))
    return Usage(
        tuple(of._replace(**figures) for of, figures in containers.items()),
        tuple(GpuUse(uuid, node, **figures) for uuid, (node, figures) in gpus.items()),
    )


def container_of(sample: Sample) -> ContainerUse:
    """Whose share of which GPU the sample is about, without figures; names are empty where its labels have none."""
    namespace, pod, container, vdevice = (
        first(sample.labels, keys) for keys in (_NAMESPACE, _POD, _CONTAINER, _VDEVICE)
    )
    return ContainerUse(namespace, pod, container, _uuid(sample), vdevice)


def first(labels: Mapping[str, str], keys: Sequence[str]) -> str:
    """The first of these labels that is set."""
    return next((labels[key] for key in keys if labels.get(key)), "")


def _figures(
    by_name: Mapping[str, list[Sample]], figures: Mapping[str, tuple[str, ...]]
) -> Iterable[tuple[str, Sample]]:
    """Each figure with its samples, those of its newest name first."""
    for figure, names in figures.items():
        for name in names:
            for sample in by_name.get(name, ()):
                yield figure, sample


def _uuid(sample: Sample) -> str:
    return _MIG_SUFFIX.sub("", first(sample.labels, _UUID))
