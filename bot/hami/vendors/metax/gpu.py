"""Whole MetaX GPUs [HAMi v2.10 pkg/device/metax/device.go]."""

from functools import partial

from bot.hami.names import Names
from bot.hami.nodes.cards import Card
from bot.hami.pods.pod_request import WHOLE_CARD, ContainerRequest, Resources
from bot.hami.vendors.shared import standard_fit as checks
from bot.hami.vendors.shared.config_section import read_usual, wrapped_count_in
from bot.hami.vendors.shared.rescanned_nodes import capacity_of, cards_like, counted
from bot.hami.vendors.vendor import Vendor
from bot.hami.version import Version
from bot.kube.models import Container, Node

MEMORY_MIB = 65536
"""What HAMi takes every one to have."""

NAMES = Names(
    word="Metax-GPU",
    count="metax-tech.com/gpu",
    card_word="metax",
    allocated=("hami.io/metax-gpu-devices-allocated",),
    capacity="metax-tech.com/gpu",
)
_CHECKS = (checks.HEALTH, checks.SLOTS, checks.MUTEX, *checks.AMOUNTS, checks.SAME_CARD)
_CARD = Card(slots=1, memory_mib=MEMORY_MIB, cores=WHOLE_CARD, type=NAMES.word, health=True)


def _cards(node: Node, resources: Resources) -> list[Card]:
    return cards_like(_CARD, capacity_of(node, resources.count), f"{node.name}-{NAMES.card_word}-")


def _request(container: Container, resources: Resources, _: Version) -> ContainerRequest | None:
    count = wrapped_count_in(container, resources)
    return ContainerRequest(NAMES.word, container.name, count, 0, WHOLE_CARD, WHOLE_CARD) if count else None


_NODES = counted(NAMES, _cards)

METAX_GPU = Vendor(
    names=NAMES,
    read_resources=partial(read_usual, NAMES, key="metax"),
    request=_request,
    nodes=_NODES,
    scan=partial(checks.scan, checks=_CHECKS),
    lock_key="",
    plugin_names="(metax|mx)[a-z-]*-device|/gpu-device:",
    one_card_per_pod=True,
)
