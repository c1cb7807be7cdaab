"""What NVIDIA's GPUs are called, and what a container asks of them.

Rules: HAMi pkg/device/nvidia/device.go GenerateResourceRequests at v2.7 to v2.10.
"""

import msgspec

from bot.hami.names import Names
from bot.hami.pods.pod_request import (
    INT32_MAX,
    UNSET_PERCENTAGE,
    WHOLE_CARD,
    ContainerRequest,
    Resources,
    amount_of,
    to_int32,
)
from bot.hami.version import Version
from bot.kube.models import Container

NAMES = Names(
    word="NVIDIA",
    count="nvidia.com/gpu",
    memory="nvidia.com/gpumem",
    cores="nvidia.com/gpucores",
    percentage="nvidia.com/gpumem-percentage",
    use_type="nvidia.com/use-gputype",
    no_use_type="nvidia.com/nouse-gputype",
    use_uuid="nvidia.com/use-gpuuuid",
    no_use_uuid="nvidia.com/nouse-gpuuuid",
    mode="nvidia.com/vgpu-mode",
    numa_bind="nvidia.com/numa-bind",
    register="hami.io/node-nvidia-register",
    handshake="hami.io/node-handshake",
    allocated=("hami.io/vgpu-devices-allocated",),
    passed_over=("nvidia.com/priority",),  # charts/hami/templates/scheduler/configmap.yaml
    shares_domain=True,
)


class _Section(msgspec.Struct, rename="camel"):
    resource_count_name: str = NAMES.count
    resource_memory_name: str = NAMES.memory
    resource_memory_percentage_name: str = NAMES.percentage
    resource_core_name: str = NAMES.cores
    default_memory: int = 0
    default_cores: int = 0
    default_gpu_num: int = msgspec.field(default=1, name="defaultGPUNum")
    memory_factor: int = 1
    device_memory_scaling: object = None


class _DeviceConfigFile(msgspec.Struct):
    nvidia: _Section | None = None


def read_resources(document: object) -> tuple[Resources, ...]:
    """The section `nvidia` of a device config. Raises ValueError where it has another shape."""
    section = msgspec.convert(document or {}, _DeviceConfigFile).nvidia or _Section()
    scaling = section.device_memory_scaling
    resources = Resources(
        word=NAMES.word,
        count=section.resource_count_name,
        memory=section.resource_memory_name,
        percentage=section.resource_memory_percentage_name,
        cores=section.resource_core_name,
        default_memory_mib=section.default_memory,
        default_cores=section.default_cores,
        default_count=section.default_gpu_num,
        memory_factor=max(section.memory_factor, 1),
        memory_scaling=float(scaling) if isinstance(scaling, int | float) else None,
    )
    return (resources,)


def container_request(container: Container, resources: Resources, version: Version) -> ContainerRequest | None:
    """The request of one container, None when it asks for nothing."""
    count = amount_of(container, resources.count)
    if not isinstance(count, int) or count <= 0 or count > INT32_MAX:
        return None
    memory, factor = amount_of(container, resources.memory), resources.memory_factor
    percentage = amount_of(container, resources.percentage)
    if version >= (2, 10):
        if memory == "unusable" or (isinstance(memory, int) and not 0 <= memory * factor <= INT32_MAX):
            return None
        percentage = min(percentage, WHOLE_CARD) if isinstance(percentage, int) and percentage > 0 else None
    memory_mib = memory * factor if isinstance(memory, int) else 0
    percent = percentage if isinstance(percentage, int) else UNSET_PERCENTAGE
    if percent == UNSET_PERCENTAGE and memory_mib == 0:
        memory_mib = resources.default_memory_mib
        percent = percent if memory_mib else WHOLE_CARD
    cores = amount_of(container, resources.cores)
    return ContainerRequest(
        word=NAMES.word,
        container=container.name,
        count=count,
        memory_mib=to_int32(memory_mib),
        percentage=percent,
        cores=min(cores if isinstance(cores, int) else resources.default_cores, WHOLE_CARD),
    )
