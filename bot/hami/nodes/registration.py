"""What a node registers of one vendor's GPUs, or why the scheduler knows none of them."""

import sys
from functools import lru_cache
from typing import Literal, NamedTuple

import msgspec

from bot.hami.names import Names
from bot.hami.nodes.cards import Card
from bot.hami.version import Version
from bot.kube.models import Node
from bot.kube.models.base import keep
from bot.kube.quantities import whole

Encoding = Literal["text", "json", "capacity"]

JSON_SINCE = Version(2, 8, 0)
"""The first version whose plugin writes JSON for NVIDIA."""

MOST_REMEMBERED = 2**14
"""Annotations whose content is kept: nodes write theirs again and again, and it says the same for months."""
_MOST_COUNTED = 1024

Why = Literal["absent", "unreadable", "other-format", "stale", "deleted", "no-allocatable", "score-unreadable"]


class Registration(NamedTuple):
    """The cards of one vendor on one node, in the order they were registered, and the key they stand under."""

    vendor: Names
    word: str
    key: str
    encoding: Encoding
    cards: tuple[Card, ...]


class Unreadable(NamedTuple):
    """A register annotation that holds no usable card list, and why, in a few words."""

    vendor: Names
    word: str
    key: str
    why: str


class Unregistered(NamedTuple):
    """Why the scheduler has no cards of the node. `key` and `quote` are the annotation that shows it, if one does.

    `registration` is what would be there if the node were trusted.
    """

    why: Why
    key: str = ""
    quote: str = ""
    registration: Registration | None = None


@lru_cache(maxsize=MOST_REMEMBERED)
def read_registration(names: Names, word: str, text: str) -> Registration | Unreadable:
    """What the text of a vendor's register annotation registers."""
    return _read(names, word, text)


def _read(names: Names, word: str, text: str) -> Registration | Unreadable:
    key = names.register.format(word=word)
    try:
        cards = names.read(text) if text.strip() else ()
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        return Unreadable(names, word, key, f"unreadable: {' '.join(str(error).split())[:120]}")
    for card in cards:  # of thousands of nodes most say the same: one text each instead of 40,000
        keep(card, "type", sys.intern(card.type))
        keep(card, "mode", sys.intern(card.mode))
    if not cards:
        return Unreadable(names, word, key, "no device in it" if text.strip() else "empty")
    return Registration(names, word, key, "json" if text.lstrip()[:1] in ("[", "{") else "text", cards)


class CardsDigest(NamedTuple):
    """Of an annotation's cards what is the same on many nodes, and the UUIDs, which are not."""

    encoding: Encoding
    cards: tuple[tuple[int, bool, str], ...]
    """Slots, health and mode of each."""
    uuids: tuple[str, ...]


@lru_cache(maxsize=MOST_REMEMBERED)
def digest(names: Names, text: str) -> CardsDigest | None:
    """The digest of what a register annotation registers; None when that cannot be read.

    Smaller than the registration itself, which is remembered for those alone who ask for it.
    """
    found = _read(names, names.word, text)
    if not isinstance(found, Registration):
        return None
    cards = _as_known(tuple([(card.slots, card.health, card.mode) for card in found.cards]))
    return CardsDigest(found.encoding, cards, tuple([card.uuid for card in found.cards if card.uuid]))


@lru_cache(maxsize=1024)
def _as_known(cards: tuple[tuple[int, bool, str], ...]) -> tuple[tuple[int, bool, str], ...]:
    """The same, as first seen: nodes of one kind share it."""
    return cards


def count_cards(names: Names, node: Node) -> Registration | None:
    """The cards of a vendor that registers none and is counted by the node's capacity."""
    amount = whole((node.status.capacity or {}).get(names.capacity)) or 0
    count = min(-(-amount // names.capacity_unit), _MOST_COUNTED)
    if count <= 0:
        return None
    usual = Card(slots=1, cores=100, type=names.word, health=True)
    uuids = (f"{node.name}-{names.word}-{i}" for i in range(count))
    cards = tuple(msgspec.structs.replace(usual, uuid=uuid, index=i) for i, uuid in enumerate(uuids))
    return Registration(names, names.word, names.capacity, "capacity", cards)


def kubelet_offers(node: Node, resource: str) -> int:
    """How many of a resource kubelet offers; 0 when none."""
    return whole((node.status.allocatable or {}).get(resource)) or 0
