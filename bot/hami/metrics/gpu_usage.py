"""What containers use of their GPUs, as HAMi's vGPUmonitor measures it, under the names of every version.

Source: HAMi cmd/vGPUmonitor/metrics.go at v2.4 to v2.10. From 2.9 on `legacyMetrics` serves each figure under two
names; only the newer is read.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import NamedTuple

import msgspec
from msgspec import structs

from bot.hami.fit.allocated_totals import Holding, Share
from bot.hami.metrics.exposition import Sample
from bot.hami.pods.allocations import MIG_SUFFIX

PORT = 9394

_USED = ("hami_vgpu_memory_used_bytes", "vGPU_device_memory_usage_in_bytes")
_LIMIT = ("hami_vgpu_memory_limit_bytes", "vGPU_device_memory_limit_in_bytes")
CORE_NAMES = ("hami_container_device_utilization_ratio", "Device_utilization_desc_of_container")
"""The metric of a container's use of a GPU's cores at one moment, in percent."""
_LAST_KERNEL = ("hami_container_last_kernel_elapsed_seconds", "Device_last_kernel_of_container")
_GPU_USED = ("hami_host_gpu_memory_used_bytes", "HostGPUMemoryUsage")
_GPU_CORE = ("hami_host_gpu_utilization_ratio", "HostCoreUtilization")
REGISTERED = ("hami_gpu_memory_limit_bytes", "GPUDeviceMemoryLimit")
"""The names of the metric of a GPU's registered memory, which HAMi's scheduler serves."""
CONTAINER_FIGURES = {"used": _USED, "limit": _LIMIT, "last_kernel": _LAST_KERNEL}
"""The names of the metric behind each figure of a container, the newest first."""
GPU_FIGURES = {"used": _GPU_USED, "core": _GPU_CORE}
NAMES = tuple(name for names in (*CONTAINER_FIGURES.values(), *GPU_FIGURES.values()) for name in names)
"""The names of all metrics that are read; a figure's newest name comes before its older ones."""
_OF_CONTAINERS = {name: figure for figure, names in CONTAINER_FIGURES.items() for name in names}
_OF_GPUS = {name: figure for figure, names in GPU_FIGURES.items() for name in names}


class ContainerUse(msgspec.Struct, frozen=True):
    """What one container uses of one GPU, in bytes or seconds; a figure that was not read is None.

    `limit` of 0 is no limit. `used` of 0 beside a limit: no process of the container is on the GPU. `last_kernel` is
    the time since the last kernel, before the first one since the process started. `vdevice` tells shares of one GPU
    apart.
    """

    namespace: str
    pod: str
    container: str
    uuid: str
    vdevice: str = ""
    used: Sample | None = None
    limit: Sample | None = None
    last_kernel: Sample | None = None


class GpuUse(NamedTuple):
    """What the driver reports of a whole GPU. `node` is empty where this version of vGPUmonitor does not report it."""

    uuid: str
    node: str
    used: Sample | None = None
    core: Sample | None = None


class Usage(NamedTuple):
    """All that vGPUmonitor measured at one moment, by container and by GPU."""

    containers: tuple[ContainerUse, ...] = ()
    gpus: tuple[GpuUse, ...] = ()


def read_usage(samples: Iterable[Sample]) -> Usage:
    """The usage that these samples show. Samples that name no GPU, or no pod for a container's figure, are left out."""
    by_name: dict[str, list[Sample]] = {}
    for sample in samples:
        by_name.setdefault(sample.name, []).append(sample)
    reader = UsageReader()
    for name in NAMES:
        reader.add(by_name.get(name, ()))
    return reader.usage()


class _Share(NamedTuple):
    of: ContainerUse
    figures: dict[str, Sample]


class UsageReader:
    """Makes a `Usage` of samples that are added metric by metric, in the order of `NAMES`."""

    def __init__(self) -> None:
        self._shares: dict[ContainerUse, _Share] = {}
        self._gpus: dict[str, tuple[str, dict[str, Sample]]] = {}
        self._known: dict[int, tuple[_Share, Mapping[str, str]]] = {}

    def add(self, samples: Iterable[Sample]) -> None:
        known = self._known
        for sample in samples:
            figure = _OF_CONTAINERS.get(sample[0])
            if figure is None:
                if uuid := uuid_of(sample):
                    get = sample.labels.get
                    node = get("exported_node") or get("node") or get("nodeid") or ""
                    self._gpus.setdefault(uuid, (node, {}))[1].setdefault(_OF_GPUS[sample.name], sample)
                continue
            found = known.get(id(sample[1]))
            share = found[0] if found else self._share(sample)
            if figure not in share[1] and share[0].pod and share[0].uuid:
                share[1][figure] = sample

    def whose(self, sample: Sample) -> ContainerUse:
        """The container and GPU that the sample is about; see `container_of`."""
        return self._share(sample).of

    def _share(self, sample: Sample) -> _Share:
        """Samples of one share have the same labels, and whoever read them gave these one mapping."""
        labels = sample.labels
        known = self._known.get(id(labels))
        if known is None:
            of = container_of(sample)
            known = self._known[id(labels)] = self._shares.setdefault(of, _Share(of, {})), labels
        return known[0]

    def usage(self) -> Usage:
        return Usage(
            tuple(structs.replace(share.of, **share.figures) for share in self._shares.values() if share.figures),
            tuple(GpuUse(uuid, node, **figures) for uuid, (node, figures) in self._gpus.items()),
        )


def container_of(sample: Sample) -> ContainerUse:
    """The container and GPU that the sample is about, without figures; empty names where labels are missing.

    Prometheus renames the exporter's labels to `exported_*` where they clash with the monitor pod's own. Up to 2.8 the
    exporter's labels have other names, and the pod's own stand beside them.
    """
    get = sample.labels.get
    return ContainerUse(
        get("exported_namespace") or get("podnamespace") or get("namespace") or "",
        get("exported_pod") or get("podname") or get("pod") or "",
        get("exported_container") or get("ctrname") or get("container") or "",
        uuid_of(sample),
        get("vdevice_index") or get("vdeviceid") or "",
    )


def uuid_of(sample: Sample) -> str:
    """The uuid of the GPU that the sample is about; empty where no label names one."""
    uuid = sample.labels.get("device_uuid") or sample.labels.get("deviceuuid") or ""
    return MIG_SUFFIX.sub("", uuid) if uuid.endswith("]") else uuid


IDLE_S = 6 * 3600.0
"""Seconds without a kernel after which a pod is idle."""


class MeasuredHolding(msgspec.Struct, frozen=True, dict=True):
    """What one pod holds of NVIDIA's GPUs, with the figures of its containers.

    `unmeasured` are GPUs without a figure of some container: none of its processes has used the GPU yet, HAMi-core is
    not loaded, or vGPUmonitor does not run.
    """

    holding: Holding
    uses: tuple[ContainerUse, ...]
    unmeasured: tuple[str, ...]

    @cached_property
    def shares(self) -> Mapping[str, Share]:
        """The pod's shares of NVIDIA's GPUs, by uuid; vGPUmonitor measures no other vendor's devices."""
        return _measurable(self.holding)

    @property
    def name(self) -> str:
        return f"{self.holding.namespace}/{self.holding.name}"

    @cached_property
    def last(self) -> ContainerUse | None:
        """The share on which a kernel ran last; None where some GPU of the pod has no such figure."""
        if self.unmeasured or not self.uses or any(use.last_kernel is None for use in self.uses):
            return None
        return min(self.uses, key=lambda use: use.last_kernel.value if use.last_kernel else 0.0)

    @property
    def idle_s(self) -> float | None:
        """Seconds since the pod's last kernel on any GPU; before the first, since its process started."""
        return self.last.last_kernel.value if self.last and self.last.last_kernel else None

    @property
    def has_no_process(self) -> bool:
        """Whether no process of the pod is on any of its GPUs, though its limits are set."""
        return bool(self.uses) and all(use.used is not None and use.used.value == 0 for use in self.uses)


def held_by(holdings: Iterable[Holding], usage: Usage) -> list[MeasuredHolding]:
    """Each bound pod that holds NVIDIA's GPUs, with what was measured of it, in the order of the holdings."""
    measured: dict[tuple[str, str], list[ContainerUse]] = defaultdict(list)
    for use in usage.containers:
        measured[use.namespace, use.pod].append(use)
    held: list[MeasuredHolding] = []
    for holding in holdings:
        shares = _measurable(holding)
        if not holding.bound or not shares:
            continue
        uses = tuple(use for use in measured[holding.namespace, holding.name] if use.uuid in shares)
        seen = [use.uuid for use in uses]
        unmeasured = tuple([uuid for uuid, share in shares.items() if seen.count(uuid) < share.slots])
        held.append(MeasuredHolding(holding, uses, unmeasured))
    return held


def _measurable(holding: Holding) -> Mapping[str, Share]:
    if not holding.others:
        return holding.shares
    return {uuid: share for uuid, share in holding.shares.items() if uuid not in holding.others}
