"""Enflame's GCUs: whole ones, and slices of them (DRS) [HAMi v2.10 pkg/device/enflame/gcu.go, drs.go]. A container gets
one slice of one card, of the first profile that the request fits (`Card.custom`).
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

import msgspec

from bot.hami.fit import verdicts as checks
from bot.hami.fit.verdicts import (
    EXCLUSIVE_CONFLICT,
    INSUFFICIENT_CORE,
    INSUFFICIENT_MEMORY,
    MODE_NOT_FIT,
    CardUse,
    Run,
    Verdict,
)
from bot.hami.names import Names
from bot.hami.nodes.cards import Card, CardState
from bot.hami.nodes.registration import Unregistered
from bot.hami.pods.pod_request import INT32_MAX, WHOLE_CARD, ContainerRequest, Resources, written
from bot.hami.vendors.vendor import AnnotatedContainer, Answer, Counted, Denied, Found, Mutation, Rescanned
from bot.hami.version import Version
from bot.kube.models import Container, Node
from bot.kube.quantities import parse_quantity

CORES = 100
_GIB_IN_MIB = 1024
_NUMBER = re.compile(r"[+-]?[0-9]{1,9}")
_NEGATIVE = -1
"""The percentage that HAMi puts beside an amount of memory; it only affects the order of cards."""
_PLUGIN_NAMES = "(gcushare|gcu|enflame)-(k8s-)?device-plugin"
_MEMORY = 100
"""The memory that HAMi takes a whole GCU to have, in no unit."""
_DRS_WORD, _DRS_CARD = "Enflame", "enflame-drs"


class EnflameGcu(Counted):
    """Enflame's GCUs, given whole."""

    names = Names(
        word="GCU",
        noun="GCU",
        count="enflame.com/gcu",
        card_word="GCU",
        allocated=("hami.io/enflame-gcu-devices-allocated",),
        capacity="enflame.com/gcu",
    )
    since = Version(2, 7, 0)
    section = "enflame"
    section_keys = {"count": "resourceNameGCU"}  # noqa: RUF012
    lock_key = ""
    plugin_names = _PLUGIN_NAMES
    card = Card(slots=1, memory_mib=_MEMORY, cores=WHOLE_CARD, type=names.word, health=True)
    card_checks = (checks.HEALTH, (EXCLUSIVE_CONFLICT, lambda _, state, __: state.slots > 0))
    wraps_count = True
    each = (_MEMORY, 0, WHOLE_CARD)


class SliceProfile(NamedTuple):
    """A profile of Enflame's DRS: how many slices of a GCU it gives, and their memory in GB."""

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
            uuid=f"{_DRS_CARD}-{index}",
            slots=capacity,
            memory_mib=gigabytes * _GIB_IN_MIB,
            cores=CORES,
            type=_DRS_WORD,
            health=True,
            index=index,
            custom=custom,
        )
        for position, (device, capacity) in enumerate(zip(found.devices or (), capacities, strict=True))
        for index in (_integer(device.index, absent=position),)
    )


@lru_cache(maxsize=256)
def read_profile(name: str) -> SliceProfile:
    """The slices and GB in a profile's name: `2g.16gb` is two slices with 16 GB. A part that is no number is 0."""
    size, _, memory = name.strip().lower().partition(".")
    return SliceProfile(_integer(size.removesuffix("g")), _integer(memory.partition(".")[0].removesuffix("gb")))


def _integer(text: str, absent: int = 0) -> int:
    return int(text) if _NUMBER.fullmatch(text) else absent


def profile_for(profiles: Iterable[SliceProfile], slices: int, memory: int, cores: int) -> tuple[int, int, int] | None:
    """The smallest profile for the request (size, GB, share of cores); with `slices` that size. None without one."""
    candidates = sorted({profile for profile in profiles if profile.size > 0 and profile.gigabytes > 0})
    most = max((candidate.size for candidate in candidates), default=0)
    if candidates and memory > 2 * candidates[-1].gigabytes:
        memory = -(-memory // _GIB_IN_MIB)
    for size, gigabytes in candidates:
        share = -(-size * CORES // most)
        if size == slices if slices else gigabytes >= memory and share >= cores:
            return size, gigabytes, share
    return None


def _rounded_up(container: Container, resource: str) -> int | None:
    value = written(container, resource)
    number = parse_quantity(value) if value is not None else 0
    if number is None:
        return None
    rounded = -int(-number // 1)
    return rounded if abs(rounded) <= INT32_MAX else None


class EnflameDrs(Rescanned):
    """Enflame's GCUs, given in slices (DRS)."""

    names = Names(
        word=_DRS_WORD,
        noun="GCU",
        count="enflame.com/drs-gcu",
        memory="enflame.com/gcu-memory",
        cores="enflame.com/gcu-core",
        use_uuid="enflame.com/use-gpuuuid",
        no_use_uuid="enflame.com/nouse-gpuuuid",
        register="enflame.com/gcu-drs-capacity",
        card_word=_DRS_CARD,
        allocated=("hami.io/enflame-vgpu-devices-allocated",),
        read=_read,
    )
    since = Version(2, 10, 0)
    section = "enflame"
    section_keys = {"count": "resourceNameDRSGCU", "memory": "resourceNameGCUMemory", "cores": "resourceNameGCUCore"}  # noqa: RUF012
    lock_key = ""
    plugin_names = _PLUGIN_NAMES

    def find(self, node: Node, resources: Resources) -> Found:
        found = super().find(node, resources)
        if isinstance(found, Unregistered):
            return found
        cards = (msgspec.structs.replace(card, uuid=f"{node.name}-{card.uuid}") for card in found.cards)
        return found._replace(cards=tuple(cards))

    def request(self, container: Container, resources: Resources, version: Version) -> ContainerRequest | None:
        slices = _rounded_up(container, resources.count) or 0
        if slices > 0:
            return ContainerRequest(self.names.word, container.name, 1, 0, 0, 0, more=slices)
        memory, cores = _rounded_up(container, resources.memory), _rounded_up(container, resources.cores)
        if memory is None or cores is None or (memory <= 0 and cores <= 0):
            return None
        return ContainerRequest(self.names.word, container.name, 1, memory, _NEGATIVE, cores)

    def admit(self, shown: AnnotatedContainer, resources: Resources) -> Answer:
        """Admits slices, memory or cores; denies amounts out of range [enflame/device.go MutateAdmission]."""
        slices, memory, cores = map(shown.asked, (resources.count, resources.memory, resources.cores))
        if slices is not None:
            return Mutation() if slices > 0 else Denied(f"{resources.count} must be greater than 0")
        if memory is not None and memory <= 0:
            return Denied(f"{resources.memory} must be greater than 0")
        if cores is not None and not 0 < cores <= WHOLE_CARD:
            return Denied(f"{resources.cores} must be in range (0,{WHOLE_CARD}]")
        return None if memory is None and cores is None else Mutation()

    def own_measure(self, container: ContainerRequest, resources: Resources) -> str:
        """The request as `2 of enflame.com/drs-gcu`: only the node's profiles tell whether its memory is GB or MiB."""
        slices = container.more if isinstance(container.more, int) else 0
        parts = (slices, resources.count), (container.memory_mib, resources.memory), (container.cores, resources.cores)
        return " + ".join(f"{amount:,} of {name}" for amount, name in parts if amount > 0)

    def scan(self, run: Run, in_play: list[CardState], asked: ContainerRequest) -> Verdict | list[CardUse]:
        names = {name for state in in_play for name, _ in state.card.custom}
        slices = asked.more if isinstance(asked.more, int) else 0
        found = profile_for(map(read_profile, names), slices, asked.memory_mib, asked.cores)
        if found is None:
            return Verdict(fits=False, parts=((MODE_NOT_FIT, 1),), of=len(in_play))
        size, gigabytes, share = found
        memory = gigabytes * _GIB_IN_MIB
        which: tuple[checks.Check, ...] = (
            *(checks.HEALTH, checks.UUID, checks.SLOTS, checks.MUTEX),
            (INSUFFICIENT_MEMORY, lambda _, state, __: state.free_memory_mib < memory),
            (INSUFFICIENT_CORE, lambda _, state, __: state.free_cores < share),
        )
        passed = checks.scan(run, in_play, asked, which)
        if isinstance(passed, Verdict):
            return passed
        return [taken._replace(memory_mib=memory, cores=share, slots=size) for taken in passed]

    def slices(self, state: CardState) -> list[int]:
        profiles = [read_profile(name) for name, _ in state.card.custom]
        most = max((profile.size for profile in profiles), default=0)
        return [
            profile.gigabytes * _GIB_IN_MIB
            for profile in profiles
            if profile.size
            and profile.gigabytes * _GIB_IN_MIB <= state.free_memory_mib
            and -(-profile.size * CORES // most) <= state.free_cores
        ]
