"""Hygon's DCUs [HAMi v2.10 pkg/device/hygon/device.go], called HCUs after 2.10 (notes of HAMi PR 2969). What the notes
leave out is taken to be as for DCUs, so findings about so new a version are only suspected.
"""

from collections.abc import Sequence

import msgspec

from bot.hami.fit import verdicts as checks
from bot.hami.names import Names
from bot.hami.nodes.cards import read_strict_text
from bot.hami.pods.pod_request import Resources
from bot.hami.vendors.vendor import Vendor
from bot.hami.version import Version

_HCU = "hygon.com/hcunum"


class Hygon(Vendor):
    """Hygon's DCUs: like most vendors' devices, but annotations may restrict their types too."""

    names = Names(
        word="DCU",
        noun="DCU",
        count="hygon.com/dcunum",
        memory="hygon.com/dcumem",
        cores="hygon.com/dcucores",
        use_type="hygon.com/use-dcutype",
        no_use_type="hygon.com/nouse-dcutype",
        use_uuid="hygon.com/use-gpuuuid",
        no_use_uuid="hygon.com/nouse-gpuuuid",
        register="hami.io/node-dcu-register",
        handshake="hami.io/node-handshake-dcu",
        allocated=("hami.io/dcu-devices-allocated",),
        read=read_strict_text,
    )
    section = "hygon"
    plugin_labels = "name=dcu-dp-ds"
    plugin_names = "dcu-(vgpu-)?device-plugin"
    node_label = ("dcu", "on")
    card_checks = (checks.HEALTH, checks.TYPE, checks.UUID, checks.SLOTS, checks.MUTEX, *checks.AMOUNTS)

    def read_resources(self, section: object) -> Sequence[Resources]:
        """The devices under this class's name: DCUs and HCUs share a section, whose resource name tells them apart."""
        found = super().read_resources(section)
        return [each for each in found if (each.count == _HCU) == (self.names.count == _HCU)]


class Hcu(Hygon):
    """Hygon's DCUs under their new name, HCU."""

    names = msgspec.structs.replace(
        Hygon.names,
        word="HCU",
        noun="HCU",
        count=_HCU,
        memory="hygon.com/hcumem",
        cores="hygon.com/hcucores",
        use_type="hygon.com/use-hcutype",
        no_use_type="hygon.com/nouse-hcutype",
        register="hami.io/node-hcu-register",
        handshake="hami.io/node-handshake-hcu",
        allocated=("hami.io/hcu-devices-allocated",),
    )
    since = Version(2, 11, 0)
    plugin_labels = plugin_names = ""
    node_label = ("", "")
