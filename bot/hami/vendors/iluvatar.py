"""Iluvatar's GPUs: one device for each chip that the device config names.

Source: HAMi v2.10 pkg/device/iluvatar/device.go.
"""

from typing import Any

import msgspec

from bot.hami.names import Names
from bot.hami.nodes.cards import read_strict_text
from bot.hami.pods.pod_request import INT32_MAX, ContainerRequest, Resources
from bot.hami.vendors.shared import standard_fit as checks
from bot.hami.vendors.shared.annotated_nodes import Annotated
from bot.hami.vendors.shared.config_section import amount_in, section_of, whole_or, wrapped_count_in
from bot.hami.vendors.vendor import Vendor
from bot.hami.version import Version
from bot.kube.models import Container

_UNIT_MIB = 256

NAMES = Names(
    word="Iluvatar",
    count="iluvatar.ai/{word}-vgpu",
    memory="iluvatar.ai/{word}.vMem",
    cores="iluvatar.ai/{word}.vCore",
    use_uuid="hami.io/use-{word}-uuid",
    no_use_uuid="hami.io/no-use-{word}-uuid",
    register="hami.io/node-{word}-register",
    handshake="hami.io/node-handshake-{word}",
    allocated=("hami.io/{word}-devices-allocated", "hami.io/iluvatar-vgpu-devices-allocated"),
    read=read_strict_text,
    capacity="iluvatar.ai/vcuda-core",
    capacity_unit=100,
)
_NODES = Annotated(NAMES)


class _Chip(msgspec.Struct, rename="camel"):
    common_word: str = ""
    resource_count_name: str = ""
    resource_memory_name: str = ""
    resource_core_name: str = ""


def _default(word: str) -> _Chip:
    names = NAMES.of(word)
    return _Chip(word, names.count, names.memory, names.cores)


_DEFAULTS = [_default(word) for word in ("MR-V100", "MR-V50", "BI-V150", "BI-V100")]


def _read_resources(document: object) -> tuple[Resources, ...]:
    found: Any = section_of(document, "iluvatars")
    chips = _DEFAULTS if document is None else msgspec.convert(found or [], list[_Chip])
    return tuple(
        Resources(
            word=chip.common_word,
            count=chip.resource_count_name,
            memory=chip.resource_memory_name,
            cores=chip.resource_core_name,
            memory_factor=_UNIT_MIB,
        )
        for chip in chips
        if chip.common_word
    )


def _request(container: Container, resources: Resources, _: Version) -> ContainerRequest | None:
    count = wrapped_count_in(container, resources)
    memory = amount_in(container, resources.memory, resources.memory_factor)
    if not count or memory is None:
        return None
    cores = min(amount_in(container, resources.cores) or 0, INT32_MAX)
    return ContainerRequest(resources.word, container.name, count, memory, whole_or(memory), cores, vendor=NAMES.word)


ILUVATAR = Vendor(
    names=NAMES,
    read_resources=_read_resources,
    request=_request,
    nodes=_NODES,
    scan=checks.scan,
    flag="enable-iluvatar",
    locks_since=Version(2, 8, 0),
    plugin_names="(ix|iluvatar)-device-plugin",
    cores_each=checks.cores_of,
)
