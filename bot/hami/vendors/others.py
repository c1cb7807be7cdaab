"""Vendors of which the names are known and the nodes are read, and whose fit is not modelled yet.

Sources: HAMi v2.4 to v2.10, pkg/device/*/device.go and charts/hami/templates/scheduler/device-configmap.yaml.
"""

import msgspec

from bot.hami.cards import Card
from bot.hami.names import Names


class _MetaxCard(msgspec.Struct, rename="camel"):
    uuid: str = ""
    model: str = ""
    total_dev_count: int = 0
    total_compute: int = 0
    total_v_ram: int = msgspec.field(default=0, name="totalVRam")
    numa: int = 0
    healthy: bool = False


class _EnflameDevice(msgspec.Struct):
    index: str | int = 0
    minor: str | int = 0
    capacity: int = 0


class _EnflameCapacity(msgspec.Struct):
    devices: list[_EnflameDevice] = []


_metax_cards = msgspec.json.Decoder(list[_MetaxCard])
_enflame = msgspec.json.Decoder(_EnflameCapacity)


def _read_metax(text: str) -> tuple[Card, ...]:
    return tuple(
        Card(
            uuid=card.uuid,
            slots=card.total_dev_count,
            memory_mib=card.total_v_ram,
            cores=card.total_compute,
            type=card.model,
            numa=card.numa,
            health=card.healthy,
        )
        for card in _metax_cards.decode(text.encode())
    )


def _read_enflame(text: str) -> tuple[Card, ...]:
    return tuple(
        Card(
            uuid=f"enflame-drs-{device.index}",
            slots=device.capacity,
            memory_mib=0,
            cores=0,
            type="Enflame",
            health=True,
        )
        for device in _enflame.decode(text.encode()).devices
    )


OTHERS: tuple[Names, ...] = (
    Names(
        word="MLU",
        more_annotations=("CAMBRICON_",),
        count="cambricon.com/vmlu",
        memory="cambricon.com/mlu.smlu.vmemory",
        cores="cambricon.com/mlu.smlu.vcore",
        allocated=("hami.io/cambricon-mlu-devices-allocated",),
        capacity="cambricon.com/mlu.smlu.vcore",
        capacity_unit=100,
    ),
    Names(
        word="Mthreads",
        more_annotations=("mthreads.ai/",),
        count="mthreads.com/vgpu",
        memory="mthreads.com/sgpu-memory",
        cores="mthreads.com/sgpu-core",
        allocated=("hami.io/mthreads-vgpu-devices-allocated",),
        capacity="mthreads.com/sgpu-core",
        capacity_unit=16,
    ),
    Names(
        word="Metax-GPU",
        count="metax-tech.com/gpu",
        allocated=("hami.io/metax-gpu-devices-allocated",),
        capacity="metax-tech.com/gpu",
    ),
    Names(
        word="Metax-SGPU",
        count="metax-tech.com/sgpu",
        memory="metax-tech.com/vmemory",
        cores="metax-tech.com/vcore",
        register="metax-tech.com/node-gpu-devices",
        read=_read_metax,
        allocated=("hami.io/metax-sgpu-devices-allocated",),
    ),
    Names(
        word="Enflame",
        count="enflame.com/drs-gcu",
        memory="enflame.com/gcu-memory",
        cores="enflame.com/gcu-core",
        register="enflame.com/gcu-drs-capacity",
        read=_read_enflame,
        allocated=("hami.io/enflame-vgpu-devices-allocated",),
    ),
    Names(
        word="GCU",
        count="enflame.com/gcu",
        allocated=("hami.io/enflame-gcu-devices-allocated",),
        capacity="enflame.com/gcu",
    ),
    Names(
        word="kunlun",
        more_annotations=("baidu.com/", "BAIDU_"),
        count="kunlunxin.com/xpu",
        allocated=("hami.io/kunlun-allocated",),
        capacity="kunlunxin.com/xpu",
    ),
    Names(
        word="XPU",
        count="kunlunxin.com/vxpu",
        memory="kunlunxin.com/vxpu-memory",
        register="hami.io/node-register-xpu",
        handshake="hami.io/node-handshake-xpu",
        allocated=("hami.io/xpu-devices-allocated",),
    ),
    Names(
        word="AMD",
        shares_domain=True,
        count="amd.com/gpu",
        memory="amd.com/gpumem",
        cores="amd.com/gpucores",
        register="hami.io/node-amd-register",
        allocated=("hami.io/amd-devices-allocated",),
        capacity="amd.com/gpu",
    ),
    Names(
        word="AWSNeuron",
        more_annotations=("AWS_NEURON_", "NEURON_"),
        shares_domain=True,
        count="aws.amazon.com/neuron",
        cores="aws.amazon.com/neuroncore",
        allocated=("hami.io/aws-neuron-devices-allocated",),
        capacity="aws.amazon.com/neuron",
    ),
)
