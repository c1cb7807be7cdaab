"""Cambricon's MLUs [HAMi v2.10 pkg/device/cambricon/device.go]."""

from datetime import timedelta

from bot.hami.fit import verdicts as checks
from bot.hami.names import Names
from bot.hami.nodes.cards import CardState
from bot.hami.pods.pod_request import WHOLE_CARD
from bot.hami.vendors.vendor import CountedByCores


class Cambricon(CountedByCores):
    """Cambricon's MLUs. A bind locks their nodes with an annotation of its own."""

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
    wraps_count = True
    obeys_quota = True
    lock_key = "cambricon.com/dsmlu.lock"
    lock_expiry = timedelta(minutes=2)
    plugin_names = "cambricon-(k8s-)?device-plugin"
    card_checks = (checks.HEALTH, checks.UUID, checks.SLOTS, checks.MUTEX, checks.QUOTA, *checks.AMOUNTS)

    def slices(self, state: CardState) -> list[int]:
        return [state.free_memory_mib // self.unit_mib * self.unit_mib]
