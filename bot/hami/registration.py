"""The cards that a node's device plugin registered, in every encoding that HAMi has used.

Text with 7 fields (up to 2.4) or 9 (2.5 to 2.7), JSON from 2.8 for NVIDIA; other vendors by their own form
[HAMi pkg/device/devices.go DecodeNodeDevices, UnMarshalNodeDevices at each tag].
"""

import re
from functools import lru_cache
from typing import Annotated, Literal, NamedTuple

import msgspec

from bot.hami.vendors import VENDORS, Vendor, vendor_of_register_key
from bot.kube.models import Node
from bot.kube.quantities import whole

Encoding = Literal["text", "json", "capacity"]

MOST_REMEMBERED = 2**14
"""Annotations whose content is kept: nodes write theirs again and again, and it says the same for months."""
_INT32 = 2**31 - 1
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
_CAPACITIES = frozenset(vendor.capacity for vendor in VENDORS if vendor.capacity)
_NO_PROFILES = re.compile(r',\s*"migProfiles"\s*:\s*null|"migProfiles"\s*:\s*null\s*,?')
"""What Go writes for a card without any: as good as nothing."""
_TRUE = {"1", "t", "T", "TRUE", "true", "True"}
_TEXT_SIZES = (7, 9)


class MigPlacement(msgspec.Struct, frozen=True):
    start: int = 0
    size: int = 0


class MigProfile(msgspec.Struct, frozen=True):
    """One allowed MIG profile of a card (2.10): what it gives, and where it may lie."""

    name: str = ""
    memory_mib: int = msgspec.field(default=0, name="memoryMB")
    cores: int = msgspec.field(default=0, name="core")
    slices: int = msgspec.field(default=0, name="sliceCount")
    placements: tuple[MigPlacement, ...] | None = ()
    """None where Go wrote an empty list as `null`."""


Int32 = Annotated[int, msgspec.Meta(ge=-_INT32, le=_INT32)]


class Card(msgspec.Struct, frozen=True, gc=False):
    """One registered card. `memory_mib` and `cores` are as registered: scaled by the plugin's settings.

    The names are those of the JSON. Go's omitempty leaves zero values out: a missing `health` is false.
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


class Registration(NamedTuple):
    """The cards of one vendor on one node, in the order they were registered, and the key they stand under."""

    vendor: Vendor
    word: str
    key: str
    encoding: Encoding
    cards: tuple[Card, ...]


class Unreadable(NamedTuple):
    """A register annotation that holds no usable card list, and why, in a few words."""

    vendor: Vendor
    word: str
    key: str
    why: str


class _MetaxCard(msgspec.Struct, rename="camel"):
    uuid: str = ""
    model: str = ""
    total_dev_count: int = 0
    total_compute: int = 0
    total_v_ram: int = msgspec.field(default=0, name="totalVRam")
    numa: int = 0
    healthy: bool = False


class _EnflameDevice(msgspec.Struct):
    index: str | int = 0
    minor: str | int = 0
    capacity: int = 0


class _EnflameCapacity(msgspec.Struct):
    devices: list[_EnflameDevice] = []


_json_cards: msgspec.json.Decoder[tuple[Card, ...] | None] = msgspec.json.Decoder(tuple[Card, ...] | None)
_metax_cards = msgspec.json.Decoder(list[_MetaxCard])
_enflame = msgspec.json.Decoder(_EnflameCapacity)


@lru_cache(maxsize=MOST_REMEMBERED)
def read_registration(key: str, text: str) -> Registration | Unreadable | None:
    """What a node annotation registers; None when the key is no register key."""
    return _read(key, text)


def _read(key: str, text: str) -> Registration | Unreadable | None:
    if (found := vendor_of_register_key(key)) is None:
        return None
    vendor, word = found
    cards = _read_cards(vendor, text)
    if isinstance(cards, str):
        return Unreadable(vendor, word, key, cards)
    encoding: Encoding = "json" if text.lstrip()[:1] in ("[", "{") else "text"
    return Registration(vendor, word, key, encoding, cards)


class Digest(NamedTuple):
    """Of an annotation's cards what is the same on many nodes, and the UUIDs, which are not."""

    encoding: Encoding
    cards: tuple[tuple[int, bool, str], ...]
    """Slots, health and mode of each."""
    uuids: tuple[str, ...]


@lru_cache(maxsize=MOST_REMEMBERED)
def digest(key: str, text: str) -> Digest | None:
    """The digest of what a node annotation registers; None when that cannot be read.

    Smaller than the registration itself, which is remembered for those alone who ask for it.
    """
    found = _read(key, text)
    if not isinstance(found, Registration):
        return None
    cards = _as_known(tuple([(card.slots, card.health, card.mode) for card in found.cards]))
    return Digest(found.encoding, cards, tuple([card.uuid for card in found.cards if card.uuid]))


@lru_cache(maxsize=1024)
def _as_known(cards: tuple[tuple[int, bool, str], ...]) -> tuple[tuple[int, bool, str], ...]:
    """The same, as first seen: nodes of one kind share it."""
    return cards


def read_registrations(node: Node, *, but: Vendor | None = None) -> list[Registration | Unreadable]:
    """Everything the node registers, vendors without an annotation included (they are counted by capacity).

    `but` is a vendor to leave out, whose cards are read elsewhere.
    """
    texts = node.metadata.annotations or {}
    keys = sorted(key for key in texts if (of := vendor_of_register_key(key)) and of[0] is not but)
    named = [one for key in keys if (one := read_registration(key, texts[key])) is not None]
    if _CAPACITIES.isdisjoint(node.status.capacity or ()):
        return named
    words = {one.vendor.word for one in named}
    counted = (_counted(vendor, node) for vendor in VENDORS if vendor.capacity and vendor.word not in words)
    return named + [one for one in counted if one is not None]


def _read_cards(vendor: Vendor, text: str) -> tuple[Card, ...] | str:
    if not text.strip():
        return "empty"
    try:
        if vendor.word == "Metax-SGPU":
            cards = _read_metax(text)
        elif vendor.word == "Enflame":
            cards = _read_enflame(text)
        elif text.lstrip().startswith(("[", "{", "null")):
            cards = _read_json(text)
        else:
            cards = _read_text(text)
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        return f"unreadable: {' '.join(str(error).split())[:120]}"
    return cards or "no card in it"


def _read_json(text: str) -> tuple[Card, ...]:
    text = _NO_PROFILES.sub("", text) if "null" in text else text
    return _json_cards.decode(text.encode()) or ()


def _read_text(text: str) -> tuple[Card, ...]:
    if ":" not in text:
        raise ValueError("neither a JSON list nor cards that end in a colon")
    cards: list[Card] = []
    for piece in text.split(":"):
        if "," not in piece:
            continue
        fields = piece.split(",")
        if len(fields) not in _TEXT_SIZES:
            raise ValueError(f"a card has {len(fields)} fields, not 7 or 9")
        uuid, slots, memory, cores, kind, numa, health = fields[:7]
        index, mode = fields[7:] if len(fields) == _TEXT_SIZES[1] else ("0", "hami-core")
        cards.append(
            Card(
                uuid=uuid,
                slots=_integer(slots),
                memory_mib=_integer(memory),
                cores=_integer(cores),
                type=kind,
                numa=_integer(numa),
                health=health in _TRUE,
                index=_integer(index),
                mode=mode,
            )
        )
    return tuple(cards)


def _integer(text: str) -> int:
    """Go's ParseInt to 32 bits with the error thrown away: what is no integer is 0, what is too large the largest."""
    return max(-_INT32 - 1, min(int(text), _INT32)) if _INTEGER.fullmatch(text) else 0


def _read_metax(text: str) -> tuple[Card, ...]:
    return tuple(
        Card(
            uuid=card.uuid,
            slots=card.total_dev_count,
            memory_mib=card.total_v_ram,
            cores=card.total_compute,
            type=card.model,
            numa=card.numa,
            health=card.healthy,
        )
        for card in _metax_cards.decode(text.encode())
    )


def _read_enflame(text: str) -> tuple[Card, ...]:
    return tuple(
        Card(
            uuid=f"enflame-drs-{device.index}",
            slots=device.capacity,
            memory_mib=0,
            cores=0,
            type="Enflame",
            health=True,
        )
        for device in _enflame.decode(text.encode()).devices
    )


def _counted(vendor: Vendor, node: Node) -> Registration | None:
    amount = whole((node.status.capacity or {}).get(vendor.capacity)) or 0
    count = min(amount // vendor.capacity_unit, 1024)
    if count <= 0:
        return None
    cards = tuple(
        Card(
            uuid=f"{node.name}-{vendor.word}-{i}",
            slots=1,
            memory_mib=0,
            cores=100,
            type=vendor.word,
            health=True,
            index=i,
        )
        for i in range(count)
    )
    return Registration(vendor, vendor.word, vendor.capacity, "capacity", cards)
