"""One GPU, as a device plugin registers it and as a filter run sees it; and the encodings that vendors share.

Text with 7 fields (up to 2.4) or 9 (2.5 to 2.7), JSON from 2.8 [HAMi pkg/device/devices.go DecodeNodeDevices,
UnMarshalNodeDevices]. MIG as HAMi v2.10 places it [pkg/device/nvidia/mig_topology.go, mig_allocations.go]; the
templates of earlier versions are not modelled (`UnmodelledError`).
"""

import re
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, NamedTuple

import msgspec

_INT32 = 2**31 - 1
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
_NO_PROFILES = re.compile(r',\s*"migProfiles"\s*:\s*null|"migProfiles"\s*:\s*null\s*,?')
"""Matches the JSON that Go writes for a card without MIG profiles, which means nothing."""
GO_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_TEXT_SIZES = (7, 9)


class MigPlacement(msgspec.Struct, frozen=True):
    start: int = 0
    size: int = 0


class MigProfile(msgspec.Struct, frozen=True):
    """One MIG profile that a GPU allows (HAMi 2.10): what it gives, and where on the GPU it may be placed."""

    name: str = ""
    memory_mib: int = msgspec.field(default=0, name="memoryMB")
    cores: int = msgspec.field(default=0, name="core")
    slices: int = msgspec.field(default=0, name="sliceCount")
    placements: tuple[MigPlacement, ...] | None = ()
    """Where the profile may be placed; None where Go wrote an empty list as `null`."""


Custom = str | int | float | bool
Int32 = Annotated[int, msgspec.Meta(ge=-_INT32, le=_INT32)]


class Card(msgspec.Struct, frozen=True, gc=False):
    """One registered GPU; memory and cores as registered, scaled by the device plugin's settings.

    Go's omitempty leaves zero values out of the JSON: a missing `health` is false.
    """

    uuid: str = msgspec.field(default="", name="id")
    slots: Int32 = msgspec.field(default=0, name="count")
    memory_mib: Int32 = msgspec.field(default=0, name="devmem")
    cores: Int32 = msgspec.field(default=0, name="devcore")
    type: str = ""
    numa: Int32 = 0
    health: bool = False
    index: Annotated[int, msgspec.Meta(ge=0, le=_INT32)] = 0
    mode: str = ""
    mig_profiles: tuple[MigProfile, ...] = msgspec.field(default=(), name="migProfiles")
    custom: tuple[tuple[str, Custom], ...] = msgspec.field(default=(), name="_custom")
    """The registered `custominfo`, only for vendors where it decides: see `read_json_with_custom`."""

    def is_of(self, word: str) -> bool:
        """Whether the GPU's type contains the vendor's or chip's `word` in any case, as HAMi checks from 2.10 on."""
        return word.upper() in self.type.upper()


class CardState(msgspec.Struct, gc=False, eq=False):
    """One GPU and what is used of it. A filter run changes copies (`copy.copy`)."""

    card: Card
    slots: int = 0
    memory_mib: int = 0
    cores: int = 0
    placements: tuple[MigPlacement, ...] = ()
    healthy: bool = False
    classes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.healthy = self.card.health

    @property
    def free_memory_mib(self) -> int:
        return self.card.memory_mib - self.memory_mib

    @property
    def free_cores(self) -> int:
        return self.card.cores - self.cores


_json_cards: msgspec.json.Decoder[tuple[Card, ...] | None] = msgspec.json.Decoder(tuple[Card, ...] | None)


def read_cards(text: str) -> tuple[Card, ...]:
    """The GPUs of a register annotation, as text or JSON. Raises ValueError for anything else."""
    if not text.lstrip().startswith(("[", "{", "null")):
        return _read_text(text)
    text = _NO_PROFILES.sub("", text) if "null" in text else text
    return _json_cards.decode(text.encode()) or ()


def read_json(text: str) -> tuple[Card, ...]:
    """The GPUs of a register annotation in JSON. Raises ValueError for other text."""
    return _json_cards.decode(text.encode()) or ()


class _Custom(msgspec.Struct):
    custominfo: dict[str, Any] | None = None


_json_custom = msgspec.json.Decoder(list[_Custom] | None)


def read_json_with_custom(text: str) -> tuple[Card, ...]:
    """The GPUs of a register annotation in JSON, with their `custominfo`. Raises ValueError for other text."""
    beside: list[dict[str, Any]] = [entry.custominfo or {} for entry in _json_custom.decode(text.encode()) or ()]
    return tuple(
        msgspec.structs.replace(
            card, custom=tuple((key, custom[key]) for key in sorted(custom) if isinstance(custom[key], Custom))
        )
        for card, custom in zip(read_json(text), beside, strict=True)
    )


def read_custom_of_100(text: str) -> tuple[Card, ...]:
    """The GPUs of a JSON register annotation with `custominfo`, each with 100 cores, whatever is registered."""
    return tuple(msgspec.structs.replace(card, cores=100) for card in read_json_with_custom(text))


_FALSE = {"0", "f", "F", "FALSE", "false", "False"}


def read_strict_text(text: str) -> tuple[Card, ...]:
    """The GPUs of a register annotation in text fields. Raises ValueError where any field is wrong."""
    pieces = [piece.split(",") for piece in text.split(":") if piece]
    for fields in pieces:
        numbers = [*fields[1:4], fields[5], *fields[7:8]] if len(fields) in _TEXT_SIZES else ()
        whole = numbers and all(_INTEGER.fullmatch(number) and abs(int(number)) <= _INT32 for number in numbers)
        if not whole or fields[6] not in GO_TRUE | _FALSE or (fields[7:8] and int(fields[7]) < 0):
            raise ValueError(f"{','.join(fields)[:60]} is not a device")
    return _read_text(text)


def _read_text(text: str) -> tuple[Card, ...]:
    if ":" not in text:
        raise ValueError("neither a JSON list nor devices that end in a colon")
    cards: list[Card] = []
    for piece in text.split(":"):
        if "," not in piece:
            continue
        fields = piece.split(",")
        if len(fields) not in _TEXT_SIZES:
            raise ValueError(f"a device has {len(fields)} fields, not 7 or 9")
        uuid, slots, memory, cores, kind, numa, health = fields[:7]
        index, mode = fields[7:] if len(fields) == _TEXT_SIZES[1] else ("0", "hami-core")
        rest = kind, _integer(numa), health in GO_TRUE, _integer(index), mode
        cards.append(Card(uuid, _integer(slots), _integer(memory), _integer(cores), *rest))
    return tuple(cards)


def _integer(text: str) -> int:
    """Go's ParseInt to 32 bits with its error ignored: 0 for what is no integer, the largest for what is too large."""
    return max(-_INT32 - 1, min(int(text), _INT32)) if _INTEGER.fullmatch(text) else 0


MIG_ALLOCATIONS_KEY = "hami.io/vgpu-mig-allocations"
_DESCENDING = ("1g.", "3g.")


class MigReservation(msgspec.Struct, frozen=True, rename="camel"):
    """One MIG instance that HAMi reserved for a container: an element of `hami.io/vgpu-mig-allocations`."""

    container_index: int = 0
    device_index: int = 0
    gpu_uuid: str = msgspec.field(name="gpuUUID", default="")
    profile: str = ""
    placement: MigPlacement = MigPlacement()
    mig_uuid: str = msgspec.field(name="migUUID", default="")
    gpu_instance_id: int | None = msgspec.field(name="gpuInstanceID", default=None)
    compute_instance_id: int | None = msgspec.field(name="computeInstanceID", default=None)


class MigChoice(NamedTuple):
    """The MIG profile that a request gets on a GPU, and its place there."""

    profile: MigProfile
    placement: MigPlacement


_mig_reservations = msgspec.json.Decoder(tuple[MigReservation, ...])


def read_mig_allocations(text: str) -> tuple[MigReservation, ...]:
    """The reservations in a `hami.io/vgpu-mig-allocations`; none where one is invalid, as for HAMi's scheduler."""
    try:
        reservations = _mig_reservations.decode(text.encode())
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return ()
    places = {(reservation.container_index, reservation.device_index) for reservation in reservations}
    valid = len(places) == len(reservations) and all(
        min(each.container_index, each.device_index, each.placement.start) >= 0
        and each.placement.size > 0
        and bool(each.gpu_uuid and each.profile)
        and bool(each.mig_uuid) == (each.gpu_instance_id is not None) == (each.compute_instance_id is not None)
        and min(each.gpu_instance_id or 0, each.compute_instance_id or 0) >= 0
        for each in reservations
    )
    return reservations if valid else ()


def choose_profile(
    profiles: Sequence[MigProfile], memory_mib: int, occupied: Iterable[MigPlacement]
) -> MigChoice | None:
    """The smallest MIG profile with at least `memory_mib` and a place that is not `occupied`; None without one."""
    taken = list(occupied)
    for profile in sorted(profiles, key=lambda mig_profile: (mig_profile.memory_mib, mig_profile.slices)):
        if profile.memory_mib < memory_mib:
            continue
        descending = profile.name.startswith(_DESCENDING)
        for placement in sorted(profile.placements or (), key=lambda placement: placement.start, reverse=descending):
            start, end = placement.start, placement.start + placement.size
            if not any(start < other.start + other.size and other.start < end for other in taken):
                return MigChoice(profile, placement)
    return None
