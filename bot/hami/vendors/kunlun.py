"""Kunlunxin's XPUs: whole ones, and shares of them (vXPU) [HAMi v2.10 pkg/device/kunlun/device.go, vdevice.go]."""

import msgspec

from bot.hami.fit.verdicts import EXCLUSIVE_CONFLICT, NUMA_NOT_FIT, UUID_MISMATCH, CardUse, Run, Verdict, uuid_allows
from bot.hami.names import Names
from bot.hami.nodes.cards import Card, CardState, read_json
from bot.hami.pods.pod_request import (
    INT32_MAX,
    WHOLE_CARD,
    Constraints,
    ContainerRequest,
    PodRequest,
    Resources,
    amount_of,
)
from bot.hami.vendors.vendor import AnnotatedContainer, Answer, Counted, Mutation, Vendor
from bot.hami.version import Version
from bot.kube.models import Container, Node

MEMORY_MIB = 98304
"""The MiB of one Kunlun card."""
SIZES_MIB = (24576, 49152, MEMORY_MIB)
"""The sizes of a vXPU share: a quarter, a half or all; all shares of one card have the same size."""
_OWN_LISTS = ("baidu.com/use-gpuuuid", "baidu.com/nouse-gpuuuid")
_VXPU_LISTS = ("hami.io/use-xpu-uuid", "hami.io/no-use-xpu-uuid")


class Kunlun(Counted):
    """Kunlunxin's XPUs, given whole."""

    names = Names(
        word="kunlun",
        noun="XPU",
        more_annotations=("baidu.com/", "BAIDU_"),
        count="kunlunxin.com/xpu",
        use_uuid=_OWN_LISTS[0],
        no_use_uuid=_OWN_LISTS[1],
        also_read=_VXPU_LISTS,
        card_word="kunlun",
        allocated=("hami.io/kunlun-allocated",),
        capacity="kunlunxin.com/xpu",
    )
    since = Version(2, 7, 0)
    orders = True
    more_uuids = True
    lock_key = ""
    section = "kunlun"
    section_keys = {"count": "resourceCountName"}  # noqa: RUF012
    plugin_names = "(v?xpu|kunlun(xin)?)-device-plugin"
    wraps_count = True
    each = (0, 0, 0)
    card = Card(slots=100, memory_mib=MEMORY_MIB, cores=WHOLE_CARD, type=names.word, health=True)

    def cards(self, node: Node, resources: Resources) -> list[Card]:
        cards = super().cards(node, resources)
        half = len(cards) // 2
        return [msgspec.structs.replace(card, numa=int(card.index >= half)) for card in cards]

    def scan(self, run: Run, in_play: list[CardState], asked: ContainerRequest) -> Verdict | list[CardUse]:
        listed = [_is_listed(run, state) for state in in_play]
        free = [allowed and state.healthy and not state.slots for state, allowed in zip(in_play, listed, strict=True)]
        if picked := pick(in_play, free, asked.count):
            return [CardUse(state, 0, 0) for state in picked]
        return _refused(listed, [])


class Vxpu(Vendor):
    """Kunlunxin's XPUs, given in shares (vXPU)."""

    names = Names(
        word="XPU",
        noun="XPU",
        count="kunlunxin.com/vxpu",
        memory="kunlunxin.com/vxpu-memory",
        use_uuid=_VXPU_LISTS[0],
        no_use_uuid=_VXPU_LISTS[1],
        also_read=_OWN_LISTS,
        register="hami.io/node-register-xpu",
        handshake="hami.io/node-handshake-xpu",
        allocated=("hami.io/xpu-devices-allocated",),
        read=read_json,
    )
    since = Version(2, 7, 0)
    orders = True
    more_uuids = True
    wraps_count = True
    plugin_labels = "app.kubernetes.io/component=vxpu-device-plugin"
    section = "kunlun"
    section_keys = {"count": "resourceVCountName", "memory": "resourceVMemoryName"}  # noqa: RUF012
    plugin_names = "vxpu-device-plugin"
    node_label = ("xpu", "on")

    def request(self, container: Container, resources: Resources, version: Version) -> ContainerRequest | None:
        count, memory = self.count_in(container, resources), amount_of(container, resources.memory)
        if not count or memory == "unusable" or (memory is not None and not 0 <= memory <= INT32_MAX):
            return None
        share = MEMORY_MIB if memory is None else rounded(memory)
        return ContainerRequest(self.names.word, container.name, count, share, 0, share * 100 // MEMORY_MIB)

    def admit(self, shown: AnnotatedContainer, resources: Resources) -> Answer:
        """Rounds the container's memory up to one of the three sizes of a share [MutateAdmission]."""
        if shown.limit(resources.count) is None:
            return None
        memory = shown.limit(resources.memory)
        if memory is None:
            return Mutation()
        size = {resources.memory: rounded(memory)}
        return Mutation(size, size)

    def scan(self, run: Run, in_play: list[CardState], asked: ContainerRequest) -> Verdict | list[CardUse]:
        listed = [_is_listed(run, state) for state in in_play]
        alike = [not state.slots or state.memory_mib // state.slots == asked.memory_mib for state in in_play]
        room = [
            same and state.healthy and state.free_memory_mib >= asked.memory_mib
            for state, same in zip(in_play, alike, strict=True)
        ]
        shared = [run.mutex and state.slots > 0 and EXCLUSIVE_CONFLICT not in run.relax for state in in_play]
        free = [listed[i] and room[i] and not shared[i] for i in range(len(in_play))]
        if picked := pick(in_play, free, asked.count):
            return [CardUse(state, asked.memory_mib, asked.cores) for state in picked]
        conflicts = sum(fits and other for fits, other in zip(room, shared, strict=True))
        return _refused(listed, [(EXCLUSIVE_CONFLICT, conflicts)])

    def slices(self, state: CardState) -> list[int]:
        """Sizes in MiB of the shares that the card can give: that of the shares in use, or any on an unused card."""
        sizes = (state.memory_mib // state.slots,) if state.slots else SIZES_MIB
        return [size for size in sizes if size <= state.free_memory_mib]

    def least(self, state: CardState, word: str) -> PodRequest:
        return self.alone(ContainerRequest(word, "", 1, min(self.slices(state), default=SIZES_MIB[0]), 0, 0))


def rounded(memory_mib: int) -> int:
    """The MiB of the share that a container with this memory gets."""
    return next((size for size in SIZES_MIB if memory_mib <= size), MEMORY_MIB)


def _is_listed(run: Run, state: CardState) -> bool:
    """Whether the annotations of both Kunlun devices, XPU and vXPU, admit the card."""
    wanted = run.wanted
    use, no_use = wanted.more or (None, None)
    both = wanted, Constraints(use_uuid=use, no_use_uuid=no_use)
    return UUID_MISMATCH in run.relax or all(
        uuid_allows(constraints, state.card.uuid, run.rules) for constraints in both
    )


def _refused(listed: list[bool], before: list[tuple[str, int]]) -> Verdict:
    reasons = (*before, (UUID_MISMATCH, listed.count(False)), (NUMA_NOT_FIT, 1))
    return Verdict(fits=False, parts=(next(part for part in reasons if part[1]),), of=len(listed))


COUNTS = (1, 2, 4, 8)
"""The numbers of XPUs that one container can have; any other number fits nowhere."""

_WING = 4
_FOURS = ((0, 1, 4, 5), (2, 3, 6, 7), (0, 2, 4, 6), (1, 3, 5, 7), (0, 3, 4, 7), (1, 2, 5, 6))
_SINGLE_ORDER = (1, 3, 2, 4)
_ALL = 8
_SIX = 6


def pick(cards: list[CardState], free: list[bool], count: int) -> list[CardState]:
    """`count` of the free XPUs; none where no allowed group is free. `cards` are in the order of the policy."""
    left = [state for state, is_free in zip(cards[:_WING], free, strict=False) if is_free]
    right = [state for state, is_free in zip(cards[_WING:], free[_WING:], strict=True) if is_free]
    if count == _ALL:
        both = sorted([*left, *right], key=lambda state: state.card.index)
        return both if len(both) == _ALL else []
    if count not in COUNTS:
        return []
    if max(len(left), len(right)) >= count:
        sizes = _SINGLE_ORDER if count == 1 else range(count, _WING + 1)  # the wing with fewer free cards goes first
        wings = [wing for size in sizes for wing in (left, right) if len(wing) == size]
        return wings[0][:count] if wings else []
    both = [*left, *right]
    by_index = {state.card.index: state for state in both}
    if count == 2:  # the first two that face each other
        lows = (state.card.index % _WING for state in both)
        low = next((low for low in lows if low in by_index and low + _WING in by_index), None)
        return [] if low is None else [by_index[low], by_index[low + _WING]]
    # Four XPUs are two facing pairs; if six are free, the two left over should face each other too.
    groups = [group for group in _FOURS if by_index.keys() >= set(group)] if count == _WING else []
    if not groups:
        return []
    chosen = groups[0]
    if len(by_index) == _SIX:
        left_over = ((group, *sorted(by_index.keys() - set(group))) for group in groups)
        linked = (group for group, a, b in left_over if b - a == _WING or a // _WING == b // _WING)
        chosen = next(linked, groups[-1])
    return [by_index[index] for index in chosen]
