"""What a pod asks of HAMi: resource names from the device config, and the request of each container.

Rules: HAMi pkg/device/nvidia/device.go GenerateResourceRequests at v2.7 to v2.10.
"""

import re
from typing import Literal, NamedTuple, cast

import msgspec

from bot.hami.vendors import NVIDIA, VENDORS
from bot.hami.version import Version
from bot.kube.models import Container, Pod, Quantity
from bot.kube.quantities import parse_quantity
from bot.safe_yaml import parse_documents

INT32_MAX = 2**31 - 1
WHOLE_CARD = 100
UNSET_PERCENTAGE = 101
DEVICE_CONFIG_FILE = "device-config.yaml"

USE_TYPE_KEY = "nvidia.com/use-gputype"
NO_USE_TYPE_KEY = "nvidia.com/nouse-gputype"
USE_UUID_KEY = "nvidia.com/use-gpuuuid"
NO_USE_UUID_KEY = "nvidia.com/nouse-gpuuuid"
NUMA_BIND_KEY = "nvidia.com/numa-bind"
MODE_KEY = "nvidia.com/vgpu-mode"
POLICY_KEY = "hami.io/gpu-scheduler-policy"
WEIGHTS_KEY = "hami.io/device-scoring-weights"

_RESOURCE_KEY = re.compile(r"resource\w*Name\w*")
_VENDOR_DOMAINS = frozenset(vendor.count.split("/")[0] for vendor in VENDORS) - {
    "nvidia.com",
    "amd.com",
    "aws.amazon.com",
}
_EXACT_NAMES = frozenset(
    name for vendor in VENDORS for name in (vendor.count, vendor.memory, vendor.cores, vendor.percentage) if "/" in name
)
_MAX_DEPTH = 6
_GO_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})


class DeviceConfig(msgspec.Struct, frozen=True):
    """The part of HAMi's device config that decides requests; the defaults are the chart's."""

    count: str = NVIDIA.count
    memory: str = NVIDIA.memory
    percentage: str = NVIDIA.percentage
    cores: str = NVIDIA.cores
    default_memory_mib: int = 0
    default_cores: int = 0
    memory_factor: int = 1
    other_resources: frozenset[str] = frozenset()

    @property
    def nvidia_resources(self) -> tuple[str, str, str, str]:
        """Count, memory, percentage, cores."""
        return self.count, self.memory, self.percentage, self.cores

    def manages(self, resource: str) -> bool:
        """Whether HAMi hands out this resource, of whatever vendor."""
        if resource in self.nvidia_resources or resource in self.other_resources or resource in _EXACT_NAMES:
            return True
        return resource.split("/", maxsplit=1)[0] in _VENDOR_DOMAINS


class _NvidiaSection(msgspec.Struct, rename="camel"):
    resource_count_name: str = NVIDIA.count
    resource_memory_name: str = NVIDIA.memory
    resource_memory_percentage_name: str = NVIDIA.percentage
    resource_core_name: str = NVIDIA.cores
    default_memory: int = 0
    default_cores: int = 0
    memory_factor: int = 1


class _DeviceConfigFile(msgspec.Struct):
    nvidia: _NvidiaSection | None = None


def read_device_config(text: str) -> DeviceConfig | str:
    """The config in a `device-config.yaml`, or why it cannot be read, in a few words."""
    try:
        document: object = next(iter(parse_documents(text)), None)
        nvidia = msgspec.convert(document or {}, _DeviceConfigFile).nvidia or _NvidiaSection()
    except (ValueError, RecursionError) as error:
        return " ".join(str(error).split())[:160]
    return DeviceConfig(
        count=nvidia.resource_count_name,
        memory=nvidia.resource_memory_name,
        percentage=nvidia.resource_memory_percentage_name,
        cores=nvidia.resource_core_name,
        default_memory_mib=nvidia.default_memory,
        default_cores=nvidia.default_cores,
        memory_factor=max(nvidia.memory_factor, 1),
        other_resources=frozenset(_resource_names(document)),
    )


def _resource_names(document: object, depth: int = 0) -> list[str]:
    """Every value under a key like `resourceCountName`, wherever a vendor's section has it."""
    if depth > _MAX_DEPTH:
        return []
    if isinstance(document, list):
        return [name for item in cast("list[object]", document) for name in _resource_names(item, depth + 1)]
    if not isinstance(document, dict):
        return []
    names: list[str] = []
    for key, value in cast("dict[object, object]", document).items():
        if isinstance(key, str) and isinstance(value, str) and _RESOURCE_KEY.fullmatch(key) and value:
            names.append(value)
        else:
            names += _resource_names(value, depth + 1)
    return names


class ContainerRequest(msgspec.Struct, frozen=True):
    """What one container asks for, per card. An amount of memory above 0 decides; without one the percentage does.

    `percentage` is 101 when none was asked for, which is no memory at all where the amount overflowed to 0 or less.
    """

    container: str
    count: int
    memory_mib: int
    percentage: int
    cores: int
    init: bool = False

    @property
    def is_fixed(self) -> bool:
        """Whether it means the same memory on every card: an amount, or none at all."""
        return self.memory_mib > 0 or self.percentage == UNSET_PERCENTAGE

    def memory_on(self, card_memory_mib: int) -> int:
        """The MiB that this request means on a card of that registered memory."""
        if self.memory_mib > 0:
            return self.memory_mib
        return card_memory_mib * self.percentage // 100 if self.percentage != UNSET_PERCENTAGE else 0


class Constraints(NamedTuple):
    """What the pod's annotations rule out. Raw texts: versions read them differently. None = absent."""

    use_type: str | None = None
    no_use_type: str | None = None
    use_uuid: str | None = None
    no_use_uuid: str | None = None
    mode: str | None = None
    policy: str | None = None
    weights: str | None = None
    numa_bind: bool = False


class PodRequest(NamedTuple):
    """A pod as HAMi's filter sees it: only the containers that yield a request, init containers first."""

    namespace: str
    name: str
    uid: str
    containers: tuple[ContainerRequest, ...]
    constraints: Constraints
    init_count: int = 0


def pod_request(pod: Pod, config: DeviceConfig, version: Version) -> PodRequest:
    """The request as this version computes it. Init containers are judged from 2.9 on."""
    inits = [] if version < (2, 9) else [(one, True) for one in pod.spec.init_containers or ()]
    apps = [(one, False) for one in pod.spec.containers]
    requests = (container_request(one, config, version, init=init) for one, init in inits + apps)
    return PodRequest(
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.metadata.uid,
        containers=tuple(one for one in requests if one is not None),
        constraints=read_constraints(pod),
        init_count=len(pod.spec.init_containers or ()),
    )


def read_constraints(pod: Pod) -> Constraints:
    """The annotations that narrow the choice of cards."""
    get = pod.metadata.annotation
    return Constraints(
        use_type=get(USE_TYPE_KEY),
        no_use_type=get(NO_USE_TYPE_KEY),
        use_uuid=get(USE_UUID_KEY),
        no_use_uuid=get(NO_USE_UUID_KEY),
        mode=get(MODE_KEY),
        policy=get(POLICY_KEY),
        weights=get(WEIGHTS_KEY),
        numa_bind=get(NUMA_BIND_KEY) in _GO_TRUE,
    )


def container_request(
    container: Container, config: DeviceConfig, version: Version, *, init: bool = False
) -> ContainerRequest | None:
    """The NVIDIA request of one container, None when it asks for nothing."""
    count = _as_int64(_asked(container, config.count))
    if not isinstance(count, int) or count <= 0 or count > INT32_MAX:
        return None
    memory = _as_int64(_asked(container, config.memory))
    percentage = _as_int64(_asked(container, config.percentage))
    if version >= (2, 10):
        if memory == "unusable" or (isinstance(memory, int) and not 0 <= memory * config.memory_factor <= INT32_MAX):
            return None
        percentage = min(percentage, WHOLE_CARD) if isinstance(percentage, int) and percentage > 0 else None
    memory_mib = memory * config.memory_factor if isinstance(memory, int) else 0
    percent = percentage if isinstance(percentage, int) else UNSET_PERCENTAGE
    if percent == UNSET_PERCENTAGE and memory_mib == 0:
        memory_mib, percent = (config.default_memory_mib, percent) if config.default_memory_mib else (0, WHOLE_CARD)
    cores = _as_int64(_asked(container, config.cores))
    return ContainerRequest(
        container=container.name,
        count=count,
        memory_mib=_to_int32(memory_mib),
        percentage=percent,
        cores=min(cores if isinstance(cores, int) else config.default_cores, WHOLE_CARD),
        init=init,
    )


def gpus_of(pod: Pod, config: DeviceConfig) -> int | None:
    """How many NVIDIA GPUs the pod asks HAMi for at once: all its containers together, or one init container if that
    asks for more.

    A container that asks for memory or cores and names no count means 1, as HAMi's webhook writes it. None for a pod
    that asks for another vendor's devices, or for a number of GPUs that is none.
    """
    vendors = {name.split("/")[0] for name in asked_resources(pod, config) if name not in config.nvidia_resources}
    apps = [_gpus_in(one, config) for one in pod.spec.containers]
    inits = [_gpus_in(one, config) for one in pod.spec.init_containers or ()]
    counts = [one for one in (*apps, *inits) if one is not None]
    if vendors - {config.count.split("/")[0]} or len(counts) < len(apps) + len(inits):
        return None
    return max(sum(counts[: len(apps)]), *counts[len(apps) :], 0)


def _gpus_in(container: Container, config: DeviceConfig) -> int | None:
    count = _as_int64(_asked(container, config.count))
    if count is None:
        return int(any(_asked(container, one) is not None for one in config.nvidia_resources))
    return count if isinstance(count, int) and 0 <= count <= INT32_MAX else None


def _asked(container: Container, resource: str) -> Quantity | None:
    """The limit, else the request."""
    resources = container.resources
    if resources is None:
        return None
    for amounts in (resources.limits, resources.requests):
        if amounts and resource in amounts:
            return amounts[resource]
    return None


def _as_int64(value: Quantity | None) -> int | Literal["unusable"] | None:
    """Quantity.AsInt64(): exact whole numbers only; None when absent."""
    if value is None:
        return None
    number = parse_quantity(value)
    if number is None or number != number.to_integral_value() or abs(number) >= 2**63:
        return "unusable"
    return int(number)


def _to_int32(number: int) -> int:
    """Go's conversion, which wraps around: before 2.10 `8Gi` of memory means 0 MiB."""
    return (number + INT32_MAX + 1) % (2 * INT32_MAX + 2) - INT32_MAX - 1


def asked_resources(pod: Pod, config: DeviceConfig) -> dict[str, str]:
    """Every HAMi-managed resource that some container asks for, with the quantity as written (the first one met)."""
    asked: dict[str, str] = {}
    for container in [*(pod.spec.init_containers or ()), *pod.spec.containers]:
        resources = container.resources
        for amounts in (resources.limits, resources.requests) if resources else ():
            for name, value in (amounts or {}).items():
                if config.manages(name) and parse_quantity(value) != 0:
                    asked.setdefault(name, str(value))
    return asked
