"""Iluvatar's GPUs: one device for each chip in the device config [HAMi v2.10 pkg/device/iluvatar/device.go]."""

import msgspec

from bot.hami.fit import verdicts as checks
from bot.hami.names import Names
from bot.hami.nodes.cards import read_strict_text
from bot.hami.pods.pod_request import INT32_MAX, WHOLE_CARD, ContainerRequest, Resources
from bot.hami.vendors.vendor import AnnotatedContainer, Answer, Mutation, Vendor, amount_in, whole_or
from bot.hami.version import Version
from bot.kube.models import Container

_CHIPS = ("MR-V100", "MR-V50", "BI-V150", "BI-V100")


class _Chip(msgspec.Struct, rename="camel"):
    common_word: str = ""
    resource_count_name: str = ""
    resource_memory_name: str = ""
    resource_core_name: str = ""


class Iluvatar(Vendor):
    """Iluvatar's GPUs, whose memory comes in units of 256 MiB."""

    names = Names(
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
    section = "iluvatars"
    unit_mib = 256
    wraps_count = True
    flag = "enable-iluvatar"
    locks_since = Version(2, 8, 0)
    plugin_names = "(ix|iluvatar)-device-plugin"

    def read_resources(self, section: object) -> tuple[Resources, ...]:
        called = map(self.names.of, _CHIPS)
        chart = [_Chip(names.word, names.count, names.memory, names.cores) for names in called]
        chips = chart if section is None else msgspec.convert(section or [], list[_Chip])
        return tuple(
            Resources(
                word=chip.common_word,
                count=chip.resource_count_name,
                memory=chip.resource_memory_name,
                cores=chip.resource_core_name,
                memory_factor=self.unit_mib,
            )
            for chip in chips
            if chip.common_word
        )

    def request(self, container: Container, resources: Resources, version: Version) -> ContainerRequest | None:
        count = self.count_in(container, resources)
        memory = amount_in(container, resources.memory, resources.memory_factor)
        if not count or memory is None:
            return None
        cores, own = min(amount_in(container, resources.cores) or 0, INT32_MAX), self.names.word
        return ContainerRequest(resources.word, container.name, count, memory, whole_or(memory), cores, vendor=own)

    def admit(self, shown: AnnotatedContainer, resources: Resources) -> Answer:
        """Gives all their cores to a container that asks for several GPUs [MutateAdmission]."""
        count = shown.limit(resources.count)
        if count is None:
            return None
        return Mutation({resources.cores: WHOLE_CARD * count}) if count > 1 else Mutation()

    def cores_each(self, container: ContainerRequest) -> int:
        return checks.cores_of(container)
