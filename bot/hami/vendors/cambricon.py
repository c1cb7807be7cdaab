"""Cambricon's MLUs [HAMi v2.10 pkg/device/cambricon/device.go]."""

from datetime import timedelta

from bot.hami.names import Names
from bot.hami.nodes.cards import CardState
from bot.hami.pods.pod_request import WHOLE_CARD, ContainerRequest, Resources
from bot.hami.vendors import standard_fit as checks
from bot.hami.vendors.rescanned_nodes import CountedByCores
from bot.hami.vendors.vendor import amount_in, whole_or, wrapped_count_in
from bot.hami.version import Version
from bot.kube.models import Container


class Cambricon(CountedByCores):
    """MLUs: a bind locks their nodes in a way of its own."""

    names = Names(
        word="MLU",
        noun="MLU",
        more_annotations=("CAMBRICON_",),
        count="cambricon.com/vmlu",
        memory="cambricon.com/mlu.smlu.vmemory",
        cores="cambricon.com/mlu.smlu.vcore",
        use_uuid="cambricon.com/use-gpuuuid",
        no_use_uuid="cambricon.com/nouse-gpuuuid",
        card_word="cambricon-mlu",
        allocated=("hami.io/cambricon-mlu-devices-allocated",),
        capacity="cambricon.com/mlu.smlu.vcore",
        capacity_unit=WHOLE_CARD,
    )
    section = "cambricon"
    unit_mib = 256
    obeys_quota = True
    lock_key = "cambricon.com/dsmlu.lock"
    lock_expiry = timedelta(minutes=2)
    plugin_names = "cambricon-(k8s-)?device-plugin"
    card_checks = (checks.HEALTH, checks.UUID, checks.SLOTS, checks.MUTEX, checks.QUOTA, *checks.AMOUNTS)

    def request(self, container: Container, resources: Resources, version: Version) -> ContainerRequest | None:
        count = wrapped_count_in(container, resources)
        memory = amount_in(container, resources.memory, resources.memory_factor)
        cores = amount_in(container, resources.cores, absent=WHOLE_CARD)
        if not count or memory is None or cores is None:
            return None
        return ContainerRequest(self.names.word, container.name, count, memory, whole_or(memory), cores)

    def slices(self, state: CardState) -> list[int]:
        return [state.free_memory_mib // self.unit_mib * self.unit_mib]
