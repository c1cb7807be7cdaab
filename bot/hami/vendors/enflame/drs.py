"""Slices of Enflame GCUs [HAMi v2.10 pkg/device/enflame/drs.go].

A container gets one slice of one card, of the first profile that the request fits. A node's profiles stand in
`Card.custom`.
"""

import re
from collections.abc import Iterable
from functools import lru_cache, partial
from typing import NamedTuple

import msgspec

from bot.hami.fit.verdicts import INSUFFICIENT_CORE, INSUFFICIENT_MEMORY, CardUse, Run, Verdict
from bot.hami.names import Names
from bot.hami.nodes.cards import Card, CardState
from bot.hami.pods.pod_request import INT32_MAX, ContainerRequest, Resources, written
from bot.hami.vendors.shared import standard_fit as checks
from bot.hami.vendors.shared.config_section import read_section
from bot.hami.vendors.shared.rescanned_nodes import Found, Stateless, annotated
from bot.hami.vendors.vendor import Vendor
from bot.hami.version import Version
from bot.kube.models import Container, Node
from bot.kube.quantities import parse_quantity

MODE_NOT_FIT = "ModeNotFit"
CORES = 100
_GIB_IN_MIB = 1024
_NUMBER = re.compile(r"[+-]?[0-9]{1,9}")
_NEGATIVE = -1
"""The percentage that goes with an amount, as HAMi has it: no more than a figure in the cards' order."""


class Profile(NamedTuple):
    """So many slices of a card with so much memory."""

    size: int
    gigabytes: int


class _Device(msgspec.Struct):
    index: str = ""
    capacity: int | str = 0


class _Capacity(msgspec.Struct):
    devices: list[_Device] | None = None
    profiles: dict[str, str] | None = None


_capacity = msgspec.json.Decoder(_Capacity)


def _read(text: str) -> tuple[Card, ...]:
    """Raises ValueError where no card can be made of it."""
    found = _capacity.decode(text.encode())
    profiles = [read_profile(name) for name in found.profiles or ()]
    slices = max((profile.size for profile in profiles), default=0)
    gigabytes = max((profile.gigabytes for profile in profiles), default=0) or slices
    capacities = [_integer(str(device.capacity)) for device in found.devices or ()]
    if slices <= 0 or min(capacities, default=0) <= 0:
        raise ValueError("no profile with slices, or a device without capacity")
    custom = tuple((name, 0) for name in sorted(found.profiles or ()))
    return tuple(
        Card(
            uuid=f"{NAMES.card_word}-{index}",
            slots=capacity,
            memory_mib=gigabytes * _GIB_IN_MIB,
            cores=CORES,
            type=NAMES.word,
            health=True,
            index=index,
            custom=custom,
        )
        for position, (device, capacity) in enumerate(zip(found.devices or (), capacities, strict=True))
        for index in (_integer(device.index, absent=position),)
    )


@lru_cache(maxsize=256)
def read_profile(name: str) -> Profile:
    """`2g.16gb`: two slices with 16 GB. A part that is no number is 0."""
    size, _, memory = name.strip().lower().partition(".")
    return Profile(_integer(size.removesuffix("g")), _integer(memory.partition(".")[0].removesuffix("gb")))


def _integer(text: str, absent: int = 0) -> int:
    return int(text) if _NUMBER.fullmatch(text) else absent


NAMES = Names(
    word="Enflame",
    noun="GCU",
    count="enflame.com/drs-gcu",
    memory="enflame.com/gcu-memory",
    cores="enflame.com/gcu-core",
    use_uuid="enflame.com/use-gpuuuid",
    no_use_uuid="enflame.com/nouse-gpuuuid",
    register="enflame.com/gcu-drs-capacity",
    card_word="enflame-drs",
    allocated=("hami.io/enflame-vgpu-devices-allocated",),
    read=_read,
)


class SliceRequest(NamedTuple):
    """What a container asks for: so many slices, or else a slice of at least that."""

    slices: int
    memory: int
    cores: int


def _request(container: Container, resources: Resources, _: Version) -> ContainerRequest | None:
    slices = _rounded_up(container, resources.count) or 0
    if slices > 0:
        return ContainerRequest(NAMES.word, container.name, 1, 0, 0, 0, more=slices)
    memory, cores = _rounded_up(container, resources.memory), _rounded_up(container, resources.cores)
    if memory is None or cores is None or (memory <= 0 and cores <= 0):
        return None
    return ContainerRequest(NAMES.word, container.name, 1, memory, _NEGATIVE, cores)


def _rounded_up(container: Container, resource: str) -> int | None:
    """0 where it is absent, None where it is no number of 32 bits."""
    value = written(container, resource)
    number = parse_quantity(value) if value is not None else 0
    if number is None:
        return None
    rounded = -int(-number // 1)
    return rounded if abs(rounded) <= INT32_MAX else None


def _own_measure(asked: ContainerRequest, resources: Resources) -> str:
    """`2 of enflame.com/drs-gcu`: whether an amount of memory means GB or MiB depends on the node's profiles."""
    slices = asked.more if isinstance(asked.more, int) else 0
    amounts = [(slices, resources.count), (asked.memory_mib, resources.memory), (asked.cores, resources.cores)]
    return " + ".join(f"{amount:,} of {name}" for amount, name in amounts if amount > 0)


def profile_for(profiles: Iterable[Profile], wanted: SliceRequest) -> tuple[Profile, int] | None:
    """The profile that serves what is wanted, and its share of a card's cores; None for none."""
    candidates = sorted({profile for profile in profiles if profile.size > 0 and profile.gigabytes > 0})
    most = max((candidate.size for candidate in candidates), default=0)
    memory = wanted.memory
    if candidates and memory > 2 * candidates[-1].gigabytes:
        memory = -(-memory // _GIB_IN_MIB)
    for profile in candidates:
        share = -(-profile.size * CORES // most)
        if profile.size == wanted.slices if wanted.slices else profile.gigabytes >= memory and share >= wanted.cores:
            return profile, share
    return None


def _scan(run: Run, in_play: list[CardState], asked: ContainerRequest) -> Verdict | list[CardUse]:
    names = {name for state in in_play for name, _ in state.card.custom}
    slices = asked.more if isinstance(asked.more, int) else 0
    found = profile_for(map(read_profile, names), SliceRequest(slices, asked.memory_mib, asked.cores))
    if found is None:
        return Verdict(fits=False, parts=((MODE_NOT_FIT, 1),), of=len(in_play))
    (size, gigabytes), share = found
    memory = gigabytes * _GIB_IN_MIB
    passed = checks.scan(
        run,
        in_play,
        asked,
        (
            *(checks.HEALTH, checks.UUID, checks.SLOTS, checks.MUTEX),
            (INSUFFICIENT_MEMORY, lambda _, state, __: state.free_memory_mib < memory),
            (INSUFFICIENT_CORE, lambda _, state, __: state.free_cores < share),
        ),
    )
    if isinstance(passed, Verdict):
        return passed
    return [taken._replace(memory_mib=memory, cores=share, slots=size) for taken in passed]


def _slices(state: CardState) -> list[int]:
    profiles = [read_profile(name) for name, _ in state.card.custom]
    most = max((profile.size for profile in profiles), default=0)
    return [
        profile.gigabytes * _GIB_IN_MIB
        for profile in profiles
        if profile.size
        and profile.gigabytes * _GIB_IN_MIB <= state.free_memory_mib
        and -(-profile.size * CORES // most) <= state.free_cores
    ]


def _find(node: Node, _: Resources) -> Found:
    return annotated(node, NAMES, prefix=f"{node.name}-")


_NODES = Stateless(_find)

ENFLAME_DRS = Vendor(
    names=NAMES,
    read_resources=partial(
        read_section,
        NAMES,
        key="enflame",
        count="resourceNameDRSGCU",
        memory="resourceNameGCUMemory",
        cores="resourceNameGCUCore",
    ),
    request=_request,
    nodes=_NODES,
    scan=_scan,
    own_measure=_own_measure,
    slices=_slices,
    since=Version(2, 10, 0),
    lock_key="",
    plugin_names="(gcushare|gcu|enflame)-(k8s-)?device-plugin",
)
