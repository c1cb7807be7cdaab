"""What HAMi's device config says of Huawei's chips: memory, and the templates that a hard split goes by.

Source: HAMi v2.10, pkg/device/ascend/vnpu.go, charts/hami/templates/scheduler/device-configmap.yaml.
"""

import msgspec


class Chip(msgspec.Struct, frozen=True):
    """One chip; memory in MiB as a pod writes it."""

    allocatable: int
    """What a pod gets that asks for no memory, or for more than the largest template holds."""
    capacity: int
    """The most that a pod may ask for."""
    templates: tuple[int, ...]
    """The memory of each, smallest first."""
    ai_cores: int
    super_pod: bool = False
    """Whether a lone device is handed out as a module of two."""


CHART = {
    "Ascend910A": Chip(32768, 32768, (2184, 4369, 8738, 17476), 30),
    "Ascend910B2": Chip(65536, 65536, (8192, 16384, 32768), 24),
    "Ascend910B3": Chip(65536, 65536, (16384, 32768), 20),
    "Ascend910B4-1": Chip(65536, 65536, (16384, 32768), 20),
    "Ascend910B4": Chip(32768, 32768, (8192, 16384), 20),
    "Ascend310P": Chip(21527, 24576, (3072, 6144, 12288), 8),
    "Ascend910C": Chip(65536, 65536, (16384, 32768), 20, super_pod=True),
}
"""By the word that stands in resource names."""
