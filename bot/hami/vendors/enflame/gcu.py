"""Whole Enflame GCUs [HAMi v2.10 pkg/device/enflame/gcu.go]."""

from functools import partial

from bot.hami.fit.verdicts import EXCLUSIVE_CONFLICT
from bot.hami.names import Names
from bot.hami.nodes.cards import Card
from bot.hami.pods.pod_request import WHOLE_CARD, ContainerRequest, Resources
from bot.hami.vendors.shared import standard_fit as checks
from bot.hami.vendors.shared.config_section import read_section, wrapped_count_in
from bot.hami.vendors.shared.rescanned_nodes import capacity_of, cards_like, counted
from bot.hami.vendors.vendor import Vendor
from bot.hami.version import Version
from bot.kube.models import Container, Node

MEMORY = 100
"""What HAMi takes a whole GCU to have, in no unit."""

NAMES = Names(
    word="GCU",
    noun="GCU",
    count="enflame.com/gcu",
    card_word="GCU",
    allocated=("hami.io/enflame-gcu-devices-allocated",),
    capacity="enflame.com/gcu",
)
_CARD = Card(slots=1, memory_mib=MEMORY, cores=WHOLE_CARD, type=NAMES.word, health=True)
_UNUSED: checks.Check = (EXCLUSIVE_CONFLICT, lambda _, state, __: state.slots > 0)
_CHECKS = (checks.HEALTH, _UNUSED)


def _cards(node: Node, resources: Resources) -> list[Card]:
    return cards_like(_CARD, capacity_of(node, resources.count), f"{node.name}-{NAMES.card_word}-")


def _request(container: Container, resources: Resources, _: Version) -> ContainerRequest | None:
    count = wrapped_count_in(container, resources)
    return ContainerRequest(NAMES.word, container.name, count, MEMORY, 0, WHOLE_CARD) if count else None


_NODES = counted(NAMES, _cards)

ENFLAME_GCU = Vendor(
    names=NAMES,
    read_resources=partial(read_section, NAMES, key="enflame", count="resourceNameGCU"),
    request=_request,
    nodes=_NODES,
    scan=partial(checks.scan, checks=_CHECKS),
    since=Version(2, 7, 0),
    lock_key="",
    plugin_names="(gcushare|gcu|enflame)-(k8s-)?device-plugin",
)
