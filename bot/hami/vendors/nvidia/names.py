"""NVIDIA's names [HAMi v2.4 to v2.10, pkg/device/nvidia/device.go]."""

from bot.hami.names import Names

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
