"""Ascend's names [HAMi v2.4 to v2.10, pkg/device/ascend/device.go]."""

from bot.hami.names import Names
from bot.hami.nodes.cards import read_json_with_custom

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
