"""Moore Threads' GPUs [HAMi v2.10 pkg/device/mthreads/device.go]."""

from functools import partial

from bot.hami.names import Names
from bot.hami.nodes.cards import Card, CardState
from bot.hami.pods.pod_request import ContainerRequest, Resources
from bot.hami.vendors.shared import standard_fit as checks
from bot.hami.vendors.shared.config_section import amount_in, read_usual, whole_or, wrapped_count_in
from bot.hami.vendors.shared.rescanned_nodes import cards_by_cores, counted
from bot.hami.vendors.vendor import Vendor
from bot.hami.version import Version
from bot.kube.models import Container, Node

UNIT_MIB = 512
"""What one of the memory resource means."""
ALLOWED = (2, 4, 8, 16, 32, 64, 96)
"""How much memory of one card can be asked for, in units."""
CORES = 16
"""Of one card."""

NAMES = Names(
    word="Mthreads",
    more_annotations=("mthreads.ai/",),
    count="mthreads.com/vgpu",
    memory="mthreads.com/sgpu-memory",
    cores="mthreads.com/sgpu-core",
    use_uuid="mthreads.ai/use-gpuuuid",
    no_use_uuid="mthreads.ai/nouse-gpuuuid",
    card_word="mthreads",
    allocated=("hami.io/mthreads-vgpu-devices-allocated",),
    capacity="mthreads.com/sgpu-core",
    capacity_unit=CORES,
)
_CHECKS = (*checks.USUAL, checks.SAME_CARD)


def _cards(node: Node, resources: Resources) -> list[Card]:
    return cards_by_cores(node, resources, NAMES, CORES)


def _request(container: Container, resources: Resources, _: Version) -> ContainerRequest | None:
    """Memory and cores are of all cards together."""
    count = wrapped_count_in(container, resources)
    memory = amount_in(container, resources.memory, resources.memory_factor)
    cores = amount_in(container, resources.cores)
    if not count or memory is None or cores is None:
        return None
    return ContainerRequest(NAMES.word, container.name, count, memory // count, whole_or(memory), cores // count)


def _slices(state: CardState) -> list[int]:
    return [units * UNIT_MIB for units in ALLOWED if units * UNIT_MIB <= state.free_memory_mib]


_NODES = counted(NAMES, _cards, "cores")

MTHREADS = Vendor(
    names=NAMES,
    read_resources=partial(read_usual, NAMES, key="mthreads", unit_mib=UNIT_MIB),
    request=_request,
    nodes=_NODES,
    scan=partial(checks.scan, checks=_CHECKS),
    shares_one_only=True,
    lock_key="",
    plugin_names="(mt|musa|mthreads)-(gpu-)?device-plugin",
    slices=_slices,
    cores_unit=f"/{CORES}",
    one_card_per_pod=True,
)
