"""Hygon's DCUs [HAMi v2.10 pkg/device/hygon/device.go]."""

from bot.hami.names import Names
from bot.hami.nodes.cards import read_strict_text
from bot.hami.vendors import standard_fit as checks
from bot.hami.vendors.vendor import Vendor


class Hygon(Vendor):
    """The most usual of all, but for the annotations about types."""

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
