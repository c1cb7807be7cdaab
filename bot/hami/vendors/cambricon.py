"""Cambricon's MLUs [HAMi v2.10 pkg/device/cambricon/device.go]."""

from functools import partial

from bot.hami.names import Names
from bot.hami.nodes.cards import Card, CardState
from bot.hami.pods.pod_request import WHOLE_CARD, ContainerRequest, Resources
from bot.hami.vendors.shared import standard_fit as checks
from bot.hami.vendors.shared.config_section import amount_in, read_usual, whole_or, wrapped_count_in
from bot.hami.vendors.shared.rescanned_nodes import cards_by_cores, counted
from bot.hami.vendors.vendor import Vendor
from bot.hami.version import Version
from bot.kube.models import Container, Node

UNIT_MIB = 256
"""What one of the memory resource means."""

NAMES = Names(
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
_CHECKS = (checks.HEALTH, checks.UUID, checks.SLOTS, checks.MUTEX, checks.QUOTA, *checks.AMOUNTS)


def _cards(node: Node, resources: Resources) -> list[Card]:
    return cards_by_cores(node, resources, NAMES, WHOLE_CARD)


def _request(container: Container, resources: Resources, _: Version) -> ContainerRequest | None:
    count = wrapped_count_in(container, resources)
    memory = amount_in(container, resources.memory, resources.memory_factor)
    cores = amount_in(container, resources.cores, absent=WHOLE_CARD)
    if not count or memory is None or cores is None:
        return None
    return ContainerRequest(NAMES.word, container.name, count, memory, whole_or(memory), cores)


def _slices(state: CardState) -> list[int]:
    return [state.free_memory_mib // UNIT_MIB * UNIT_MIB]


_NODES = counted(NAMES, _cards, "cores")

CAMBRICON = Vendor(
    names=NAMES,
    read_resources=partial(read_usual, NAMES, key="cambricon", unit_mib=UNIT_MIB),
    request=_request,
    nodes=_NODES,
    scan=partial(checks.scan, checks=_CHECKS),
    slices=_slices,
    obeys_quota=True,
    lock_key="cambricon.com/dsmlu.lock",
    plugin_names="cambricon-(k8s-)?device-plugin",
)
