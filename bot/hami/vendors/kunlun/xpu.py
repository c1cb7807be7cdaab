"""Whole Kunlun XPUs [HAMi v2.10 pkg/device/kunlun/device.go]."""

from functools import partial

import msgspec

from bot.hami.fit.verdicts import NUMA_NOT_FIT, UUID_MISMATCH, CardUse, Run, Verdict, uuid_allows
from bot.hami.names import Names
from bot.hami.nodes.cards import Card, CardState
from bot.hami.pods.pod_request import WHOLE_CARD, Constraints, ContainerRequest, Resources
from bot.hami.vendors.kunlun.topology import pick
from bot.hami.vendors.shared.config_section import read_section, wrapped_count_in
from bot.hami.vendors.shared.rescanned_nodes import capacity_of, cards_like, counted
from bot.hami.vendors.vendor import Vendor
from bot.hami.version import Version
from bot.kube.models import Container, Node

MEMORY_MIB = 98304
"""Of one card."""
OWN_LISTS = ("baidu.com/use-gpuuuid", "baidu.com/nouse-gpuuuid")
VXPU_LISTS = ("hami.io/use-xpu-uuid", "hami.io/no-use-xpu-uuid")

NAMES = Names(
    word="kunlun",
    noun="XPU",
    more_annotations=("baidu.com/", "BAIDU_"),
    count="kunlunxin.com/xpu",
    use_uuid=OWN_LISTS[0],
    no_use_uuid=OWN_LISTS[1],
    also_read=VXPU_LISTS,
    card_word="kunlun",
    allocated=("hami.io/kunlun-allocated",),
    capacity="kunlunxin.com/xpu",
)
_CARD = Card(slots=100, memory_mib=MEMORY_MIB, cores=WHOLE_CARD, type=NAMES.word, health=True)


def _cards(node: Node, resources: Resources) -> list[Card]:
    cards = cards_like(_CARD, capacity_of(node, resources.count), f"{node.name}-{NAMES.card_word}-")
    half = len(cards) // 2
    return [msgspec.structs.replace(card, numa=int(card.index >= half)) for card in cards]


def _request(container: Container, resources: Resources, _: Version) -> ContainerRequest | None:
    count = wrapped_count_in(container, resources)
    return ContainerRequest(NAMES.word, container.name, count, 0, 0, 0) if count else None


def is_listed(run: Run, state: CardState) -> bool:
    """Whether both pairs of lists, this one's and that of the other Kunlun device, admit the card."""
    wanted = run.wanted
    use, no_use = wanted.more or (None, None)
    both = wanted, Constraints(use_uuid=use, no_use_uuid=no_use)
    return UUID_MISMATCH in run.relax or all(
        uuid_allows(constraints, state.card.uuid, run.rules) for constraints in both
    )


def _scan(run: Run, in_play: list[CardState], asked: ContainerRequest) -> Verdict | list[CardUse]:
    listed = [is_listed(run, state) for state in in_play]
    free = [allowed and state.healthy and not state.slots for state, allowed in zip(in_play, listed, strict=True)]
    if picked := pick(in_play, free, asked.count):
        return [CardUse(state, 0, 0) for state in picked]
    unlisted = listed.count(False)
    part = (UUID_MISMATCH, unlisted) if unlisted else (NUMA_NOT_FIT, 1)
    return Verdict(fits=False, parts=(part,), of=len(in_play))


_NODES = counted(NAMES, _cards)

KUNLUN = Vendor(
    names=NAMES,
    read_resources=partial(read_section, NAMES, key="kunlun", count="resourceCountName"),
    request=_request,
    nodes=_NODES,
    scan=_scan,
    since=Version(2, 7, 0),
    orders=True,
    more_uuids=True,
    lock_key="",
    plugin_names="(v?xpu|kunlun(xin)?)-device-plugin",
)
