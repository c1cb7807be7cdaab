"""What Huawei's chips are called, and what HAMi's device config says of them: memory, templates of the hard split.

Source: HAMi v2.4 to v2.10, pkg/device/ascend/device.go, vnpu.go, charts/hami/templates/scheduler/device-configmap.yaml.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import structs

from bot.hami.names import Names
from bot.hami.nodes.cards import read_json_with_custom
from bot.hami.pods.pod_request import Resources
from bot.hami.vendors.shared.config_section import section_of

MODE_KEY = "huawei.com/vnpu-mode"
SOFT_MODE = "hami-core"
SOFT_NODE_KEY = "hami-vnpu-core"

NAMES = Names(
    word="Ascend",
    noun="NPU",
    count="huawei.com/{word}",
    memory="huawei.com/{word}-memory",
    cores="huawei.com/{word}-core",
    use_uuid="hami.io/use-{word}-uuid",
    no_use_uuid="hami.io/no-use-{word}-uuid",
    also_read=(MODE_KEY,),
    register="hami.io/node-register-{word}",
    handshake="hami.io/node-handshake-{word}",
    allocated=("hami.io/{word}-devices-allocated",),
    read=read_json_with_custom,
)

IN_MODULES = "Ascend910C"
"""The chip of which two devices make a module."""


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
    soft: bool = False
    """Whether nodes that do not say so themselves are set up for the soft split (`hamiVnpuCore`)."""


CHART = {
    "Ascend910A": Chip(32768, 32768, (2184, 4369, 8738, 17476), 30),
    "Ascend910B2": Chip(65536, 65536, (8192, 16384, 32768), 24),
    "Ascend910B3": Chip(65536, 65536, (16384, 32768), 20),
    "Ascend910B4-1": Chip(65536, 65536, (16384, 32768), 20),
    "Ascend910B4": Chip(32768, 32768, (8192, 16384), 20),
    "Ascend310P": Chip(21527, 24576, (3072, 6144, 12288), 8),
    IN_MODULES: Chip(65536, 65536, (16384, 32768), 20, super_pod=True),
}
"""By the word that stands in resource names."""


class _Template(msgspec.Struct):
    memory: int = 0


class _Written(msgspec.Struct, rename="camel"):
    common_word: str = ""
    resource_name: str = ""
    resource_memory_name: str = ""
    resource_core_name: str = ""
    memory_allocatable: int = 0
    memory_capacity: int = 0
    memory_factor: int = 1
    ai_core: int = 0
    super_pod: bool = False
    templates: tuple[_Template, ...] = ()


class _Section(msgspec.Struct, rename="camel"):
    configs: tuple[_Written, ...] = ()
    hami_vnpu_core: bool = False


def read_resources(document: object) -> tuple[Resources, ...]:
    """The chips of the section `vnpus`, which is a list before 2.9. Raises ValueError where it has another shape."""
    if document is None:
        return tuple(_by_default(word, chip) for word, chip in CHART.items())
    found: Any = section_of(document, "vnpus")
    section = msgspec.convert(found if isinstance(found, dict) else {"configs": found or []}, _Section)
    return tuple(_resources(chip, soft=section.hami_vnpu_core) for chip in section.configs if chip.common_word)


def hinted(resources: Resources, hints: Mapping[str, int]) -> Resources:
    """The chip's resources where a recording says that the soft split is on for all nodes (`hamiVnpuCore`)."""
    if not hints.get("hami_vnpu_core") or not isinstance(resources.chip, Chip):
        return resources
    return structs.replace(resources, chip=structs.replace(resources.chip, soft=True))


def _by_default(word: str, chip: Chip) -> Resources:
    names = NAMES.of(word)
    return Resources(word=word, count=names.count, memory=names.memory, cores=names.cores, chip=chip)


def _resources(written: _Written, *, soft: bool) -> Resources:
    templates = tuple(sorted(template.memory for template in written.templates))
    return Resources(
        word=written.common_word,
        count=written.resource_name,
        memory=written.resource_memory_name,
        cores=written.resource_core_name,
        memory_factor=max(written.memory_factor, 1),
        chip=Chip(
            written.memory_allocatable, written.memory_capacity, templates, written.ai_core, written.super_pod, soft
        ),
    )
