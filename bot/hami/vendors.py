"""The keys and resource names of every vendor that HAMi knows: one table, read by everything else.

Sources: HAMi v2.4 to v2.10, pkg/device/*/device.go and charts/hami/templates/scheduler/device-configmap.yaml.
The resource names are the chart's defaults; a cluster's device config may rename them (`bot.hami.requests`).
"""

import re
from functools import lru_cache

import msgspec


class Vendor(msgspec.Struct, frozen=True):
    """One device backend.

    `register`, `handshake` and `allocated` are annotation keys; `{word}` stands for a chip's name where one backend
    serves several. `capacity` is the node resource that a backend without a register annotation counts cards by, and
    `capacity_unit` how many of it make one card.
    """

    word: str
    count: str
    memory: str = ""
    cores: str = ""
    percentage: str = ""
    register: str = ""
    handshake: str = ""
    allocated: tuple[str, ...] = ()
    capacity: str = ""
    capacity_unit: int = 1


NVIDIA = Vendor(
    word="NVIDIA",
    count="nvidia.com/gpu",
    memory="nvidia.com/gpumem",
    cores="nvidia.com/gpucores",
    percentage="nvidia.com/gpumem-percentage",
    register="hami.io/node-nvidia-register",
    handshake="hami.io/node-handshake",
    allocated=("hami.io/vgpu-devices-allocated",),
)

VENDORS: tuple[Vendor, ...] = (
    NVIDIA,
    Vendor(
        word="MLU",
        count="cambricon.com/vmlu",
        memory="cambricon.com/mlu.smlu.vmemory",
        cores="cambricon.com/mlu.smlu.vcore",
        allocated=("hami.io/cambricon-mlu-devices-allocated",),
        capacity="cambricon.com/mlu.smlu.vcore",
        capacity_unit=100,
    ),
    Vendor(
        word="DCU",
        count="hygon.com/dcunum",
        memory="hygon.com/dcumem",
        cores="hygon.com/dcucores",
        register="hami.io/node-dcu-register",
        handshake="hami.io/node-handshake-dcu",
        allocated=("hami.io/dcu-devices-allocated",),
    ),
    Vendor(
        word="Ascend",
        count="huawei.com/{word}",
        memory="huawei.com/{word}-memory",
        cores="huawei.com/{word}-core",
        register="hami.io/node-register-{word}",
        handshake="hami.io/node-handshake-{word}",
        allocated=("hami.io/{word}-devices-allocated",),
    ),
    Vendor(
        word="Iluvatar",
        count="iluvatar.ai/{word}-vgpu",
        memory="iluvatar.ai/{word}.vMem",
        cores="iluvatar.ai/{word}.vCore",
        register="hami.io/node-{word}-register",
        handshake="hami.io/node-handshake-{word}",
        allocated=("hami.io/{word}-devices-allocated", "hami.io/iluvatar-vgpu-devices-allocated"),
        capacity="iluvatar.ai/vcuda-core",
        capacity_unit=100,
    ),
    Vendor(
        word="Mthreads",
        count="mthreads.com/vgpu",
        memory="mthreads.com/sgpu-memory",
        cores="mthreads.com/sgpu-core",
        allocated=("hami.io/mthreads-vgpu-devices-allocated",),
        capacity="mthreads.com/sgpu-core",
        capacity_unit=16,
    ),
    Vendor(
        word="Metax-GPU",
        count="metax-tech.com/gpu",
        allocated=("hami.io/metax-gpu-devices-allocated",),
        capacity="metax-tech.com/gpu",
    ),
    Vendor(
        word="Metax-SGPU",
        count="metax-tech.com/sgpu",
        memory="metax-tech.com/vmemory",
        cores="metax-tech.com/vcore",
        register="metax-tech.com/node-gpu-devices",
        allocated=("hami.io/metax-sgpu-devices-allocated",),
    ),
    Vendor(
        word="Enflame",
        count="enflame.com/drs-gcu",
        memory="enflame.com/gcu-memory",
        cores="enflame.com/gcu-core",
        register="enflame.com/gcu-drs-capacity",
        allocated=("hami.io/enflame-vgpu-devices-allocated",),
    ),
    Vendor(
        word="GCU",
        count="enflame.com/gcu",
        allocated=("hami.io/enflame-gcu-devices-allocated",),
        capacity="enflame.com/gcu",
    ),
    Vendor(
        word="kunlun",
        count="kunlunxin.com/xpu",
        allocated=("hami.io/kunlun-allocated",),
        capacity="kunlunxin.com/xpu",
    ),
    Vendor(
        word="XPU",
        count="kunlunxin.com/vxpu",
        memory="kunlunxin.com/vxpu-memory",
        register="hami.io/node-register-xpu",
        handshake="hami.io/node-handshake-xpu",
        allocated=("hami.io/xpu-devices-allocated",),
    ),
    Vendor(
        word="Vastai",
        count="vastaitech.com/va",
        register="hami.io/node-va-register",
        handshake="hami.io/node-handshake-va",
        allocated=("hami.io/Vastai-devices-allocated",),
    ),
    Vendor(
        word="Biren",
        count="birentech.com/gpu",
        register="hami.io/node-biren-register",
        handshake="hami.io/node-handshake-biren",
        allocated=("hami.io/Biren-devices-allocated",),
    ),
    Vendor(
        word="AMD",
        count="amd.com/gpu",
        memory="amd.com/gpumem",
        cores="amd.com/gpucores",
        register="hami.io/node-amd-register",
        allocated=("hami.io/amd-devices-allocated",),
        capacity="amd.com/gpu",
    ),
    Vendor(
        word="AWSNeuron",
        count="aws.amazon.com/neuron",
        cores="aws.amazon.com/neuroncore",
        allocated=("hami.io/aws-neuron-devices-allocated",),
        capacity="aws.amazon.com/neuron",
    ),
)

_EXACT = {vendor.register: vendor for vendor in VENDORS if vendor.register and "{" not in vendor.register}
_ASCEND = next(vendor for vendor in VENDORS if vendor.word == "Ascend")
_ILUVATAR = next(vendor for vendor in VENDORS if vendor.word == "Iluvatar")
_REGISTER_BEFORE = re.compile(r"hami\.io/node-register-(.+)")
_REGISTER_AFTER = re.compile(r"hami\.io/node-(.+)-register")
_ALLOCATED = re.compile(r"hami\.io/.+-(?:devices-)?allocated")


@lru_cache(maxsize=1024)  # the nodes of a cluster have the same few keys
def vendor_of_register_key(key: str) -> tuple[Vendor, str] | None:
    """The vendor and the chip's word that a node annotation key registers cards for; None for any other key."""
    if vendor := _EXACT.get(key):
        return vendor, vendor.word
    if found := _REGISTER_BEFORE.fullmatch(key):
        return _ASCEND, found[1]
    if found := _REGISTER_AFTER.fullmatch(key):
        return _ILUVATAR, found[1]
    return None


def is_allocated_key(key: str) -> bool:
    """Whether a pod annotation key holds devices that HAMi gave to the pod, of whatever vendor."""
    return _ALLOCATED.fullmatch(key) is not None
