"""Biren's GPUs [HAMi v2.10 pkg/device/biren/device.go]."""

from bot.hami.fit import verdicts as checks
from bot.hami.names import Names
from bot.hami.nodes.cards import read_custom_of_100
from bot.hami.vendors.vendor import Vendor
from bot.hami.version import Version


class Biren(Vendor):
    """Biren's GPUs, of which containers request a number and nothing else."""

    names = Names(
        word="Biren",
        count="birentech.com/gpu",
        use_uuid="birentech.com/use-gpuuuid",
        no_use_uuid="birentech.com/nouse-gpuuuid",
        register="hami.io/node-biren-register",
        handshake="hami.io/node-handshake-biren",
        allocated=("hami.io/Biren-devices-allocated",),
        read=read_custom_of_100,
    )
    section = "biren"
    since = Version(2, 10, 0)
    plugin_names = "biren-device-plugin"
    node_label = ("biren", "on")
    card_checks = (checks.HEALTH, checks.UUID, checks.SLOTS, checks.MUTEX)
    each = (0, 0, 0)
