"""Shares of Kunlun XPUs [HAMi v2.10 pkg/device/kunlun/vdevice.go]."""

from functools import partial

from bot.hami.fit.verdicts import EXCLUSIVE_CONFLICT, NUMA_NOT_FIT, UUID_MISMATCH, CardUse, Run, Verdict
from bot.hami.names import Names
from bot.hami.nodes.cards import CardState, read_json
from bot.hami.pods.pod_request import INT32_MAX, ContainerRequest, Resources, amount_of
from bot.hami.vendors.kunlun.topology import pick
from bot.hami.vendors.kunlun.xpu import MEMORY_MIB, OWN_LISTS, VXPU_LISTS, is_listed
from bot.hami.vendors.shared.annotated_nodes import Annotated
from bot.hami.vendors.shared.config_section import read_section, wrapped_count_in
from bot.hami.vendors.vendor import Ask, Vendor
from bot.hami.version import Version
from bot.kube.models import Container

SIZES_MIB = (24576, 49152, MEMORY_MIB)
"""What a share can have; all shares of one card have the same."""

NAMES = Names(
    word="XPU",
    noun="XPU",
    count="kunlunxin.com/vxpu",
    memory="kunlunxin.com/vxpu-memory",
    use_uuid=VXPU_LISTS[0],
    no_use_uuid=VXPU_LISTS[1],
    also_read=OWN_LISTS,
    register="hami.io/node-register-xpu",
    handshake="hami.io/node-handshake-xpu",
    allocated=("hami.io/xpu-devices-allocated",),
    read=read_json,
)


def rounded(memory_mib: int) -> int:
    """The share that an amount of memory gets."""
    return next((size for size in SIZES_MIB if memory_mib <= size), MEMORY_MIB)


def _request(container: Container, resources: Resources, _: Version) -> ContainerRequest | None:
    count, memory = wrapped_count_in(container, resources), amount_of(container, resources.memory)
    if not count or memory == "unusable" or (memory is not None and not 0 <= memory <= INT32_MAX):
        return None
    share = MEMORY_MIB if memory is None else rounded(memory)
    return ContainerRequest(NAMES.word, container.name, count, share, 0, share * 100 // MEMORY_MIB)


def _has_room(state: CardState, memory_mib: int) -> bool:
    """Whether a share of that size goes on the card, beside shares of the same size."""
    alike = not state.slots or state.memory_mib // state.slots == memory_mib
    return state.healthy and state.free_memory_mib >= memory_mib and alike


def _scan(run: Run, in_play: list[CardState], asked: ContainerRequest) -> Verdict | list[CardUse]:
    listed = [is_listed(run, state) for state in in_play]
    room = [_has_room(state, asked.memory_mib) for state in in_play]
    shared = [run.mutex and state.slots > 0 and EXCLUSIVE_CONFLICT not in run.relax for state in in_play]
    free = [listed[i] and room[i] and not shared[i] for i in range(len(in_play))]
    if picked := pick(in_play, free, asked.count):
        return [CardUse(state, asked.memory_mib, asked.cores) for state in picked]
    return Verdict(fits=False, parts=(_reason(room, shared, listed),), of=len(in_play))


def _reason(room: list[bool], shared: list[bool], listed: list[bool]) -> tuple[str, int]:
    if conflicts := sum(fits and other for fits, other in zip(room, shared, strict=True)):
        return EXCLUSIVE_CONFLICT, conflicts
    unlisted = listed.count(False)
    return (UUID_MISMATCH, unlisted) if unlisted else (NUMA_NOT_FIT, 1)


def _slices(state: CardState) -> list[int]:
    """The size of the shares in use, or of an unused card any."""
    sizes = (state.memory_mib // state.slots,) if state.slots else SIZES_MIB
    return [size for size in sizes if size <= state.free_memory_mib]


def _least(state: CardState, word: str) -> Ask:
    return Ask(ContainerRequest(word, "", 1, min(_slices(state), default=SIZES_MIB[0]), 0, 0))


_NODES = Annotated(NAMES)

VXPU = Vendor(
    names=NAMES,
    read_resources=partial(read_section, NAMES, key="kunlun", count="resourceVCountName", memory="resourceVMemoryName"),
    request=_request,
    nodes=_NODES,
    scan=_scan,
    least=_least,
    slices=_slices,
    since=Version(2, 7, 0),
    orders=True,
    more_uuids=True,
    plugin_labels="app.kubernetes.io/component=vxpu-device-plugin",
    plugin_names="vxpu-device-plugin",
    node_label=("xpu", "on"),
)
