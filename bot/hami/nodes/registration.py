"""What a node registers of one vendor's GPUs, or why HAMi's scheduler knows none of them; and the node's handshake.

Handshakes on real nodes: `Reported <Go time>` by the plugin, `Requesting_<time>` and `Deleted_<time>` by the scheduler,
without a zone. HAMi's guides show plain unix seconds, which HAMi never writes; they are read too. What each version
concludes: HAMi pkg/device/nvidia/device.go CheckHealth and pkg/scheduler/scheduler.go register loop.
"""

import re
import sys
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Literal, NamedTuple

import msgspec

from bot.hami.names import Names
from bot.hami.nodes.cards import Card
from bot.hami.version import Version
from bot.kube.models import Node
from bot.kube.models.base import keep, shared
from bot.kube.quantities import whole
from bot.kube.times import parse_time

Encoding = Literal["text", "json", "capacity"]

JSON_SINCE = Version(2, 8, 0)
"""The first version of HAMi whose device plugin writes JSON for NVIDIA."""

MOST_REMEMBERED = 2**14
"""How many decoded annotations are kept: nodes write the same text again for months."""
MOST_COUNTED = 1024
"""The most GPUs that are believed to be in one node's capacity."""

Why = Literal["absent", "unreadable", "other-format", "stale", "deleted", "no-allocatable", "score-unreadable"]


class Registration(NamedTuple):
    """One vendor's GPUs as registered on one node, and the annotation or resource that has them."""

    vendor: Names
    word: str
    key: str
    encoding: Encoding
    cards: tuple[Card, ...]


class Unreadable(NamedTuple):
    """A register annotation without a usable list of GPUs, and why, in a few words."""

    vendor: Names
    word: str
    key: str
    why: str


class Unregistered(NamedTuple):
    """Why the scheduler has no GPUs of the node. `key` and `quote`: the annotation that shows it, if any does.

    `registration` is what the scheduler would have if it trusted the node.
    """

    why: Why
    key: str = ""
    quote: str = ""
    registration: Registration | None = None


def registered_cards(node: Node, names: Names, word: str) -> Registration | Unregistered:
    """The GPUs in a node's register annotation for the vendor or chip `word`, whatever the handshake says."""
    text = node.metadata.annotation(names.register.format(word=word))
    if text is None:
        return Unregistered("absent")
    read = read_registration(names, word, text)
    return Unregistered("unreadable", read.key, text[:200] or read.why) if isinstance(read, Unreadable) else read


@lru_cache(maxsize=MOST_REMEMBERED)
def read_registration(names: Names, word: str, text: str) -> Registration | Unreadable:
    """The registration in the text of a vendor's register annotation, or why it cannot be read."""
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
    """The GPUs of a register annotation in short: the part that many nodes share, and the uuids."""

    encoding: Encoding
    cards: tuple[tuple[int, bool, str], ...]
    """Slots, health and mode of each GPU."""
    types: tuple[str, ...]
    """The types of the GPUs that are not in MIG mode, each once."""
    uuids: tuple[str, ...]


@lru_cache(maxsize=MOST_REMEMBERED)
def digest(names: Names, text: str) -> CardsDigest | None:
    """The digest of a register annotation, which takes less memory than a registration; None if it cannot be read."""
    found = read_registration.__wrapped__(names, names.word, text)
    if not isinstance(found, Registration):
        return None
    cards = shared(tuple([(card.slots, card.health, card.mode) for card in found.cards]))
    types = shared(tuple(dict.fromkeys([card.type for card in found.cards if card.mode != "mig"])))
    return CardsDigest(found.encoding, cards, types, tuple([card.uuid for card in found.cards if card.uuid]))


def count_cards(names: Names, node: Node) -> Registration | None:
    """The GPUs that a node's capacity counts, for a vendor without a register annotation; None for 0."""
    count = -(-capacity_of(node, names.capacity) // names.capacity_unit)
    usual = Card(slots=1, cores=100, type=names.word, health=True)
    cards = tuple(cards_like(usual, count, f"{node.name}-{names.word}-"))
    return Registration(names, names.word, names.capacity, "capacity", cards) if cards else None


def cards_like(card: Card, count: int, prefix: str) -> list[Card]:
    """`count` copies of the GPU, each with its position as its index and in its uuid."""
    indexes = range(min(count, MOST_COUNTED))
    return [msgspec.structs.replace(card, uuid=f"{prefix}{index}", index=index) for index in indexes]


def capacity_of(node: Node, resource: str) -> int:
    """The amount of a resource in the node's capacity, whether or not kubelet may hand it out; 0 without."""
    return whole((node.status.capacity or {}).get(resource)) or 0


def kubelet_offers(node: Node, resource: str) -> int:
    """The amount of a resource in the node's allocatable; 0 without."""
    return whole((node.status.allocatable or {}).get(resource)) or 0


State = Literal["reported", "requesting", "deleted", "unix", "time", "unreadable"]
Judgement = Literal["alive", "stale", "deleted", "unknown"]

SCHEDULER_PATIENCE = timedelta(seconds=60)
"""How long HAMi's scheduler waits for an answer to `Requesting_`, in each version that reads handshakes."""

READS_LOCAL_TIME = Version(2, 9, 0)
"""From this version on HAMi's scheduler reads handshakes' times as local times; before, as UTC."""

GUIDES_THRESHOLD = timedelta(seconds=300)
"""The age at which HAMi's published guides call a handshake in unix seconds stale."""

_WORDS: tuple[State, ...] = ("reported", "requesting", "deleted")
_MOMENT = re.compile(r"(\d{4})[-.](\d{2})[-.](\d{2})[ T](\d{2}):(\d{2}):(\d{2})(?:\.\d+)?(?: ?([+-])(\d{2}):?(\d{2}))?")
_UNIX = re.compile(r"\d{9,13}")
_MILLISECONDS = 11


class Handshake(NamedTuple):
    """A node's handshake. `at` is in UTC; a time without a zone (`zoned` is false) is taken as UTC."""

    state: State
    at: datetime | None
    zoned: bool = False


@lru_cache(maxsize=1024)  # thousands of nodes are asked within the same few seconds
def parse_handshake(text: str) -> Handshake:
    """The handshake in the annotation's text; state "unreadable" for other text, never an error."""
    text = text.strip()
    if _UNIX.fullmatch(text):
        seconds = int(text) / (1000 if len(text) > _MILLISECONDS else 1)
        return Handshake("unix", datetime.fromtimestamp(seconds, UTC), zoned=True)
    for state in _WORDS:
        if text.startswith(state.capitalize()):
            return Handshake(state, *_moment(text))
    if (moment := parse_time(text)) is not None:
        return Handshake("time", moment, zoned=True)
    return Handshake("unreadable", None)


def _moment(text: str) -> tuple[datetime | None, bool]:
    if not (found := _MOMENT.search(text)):
        return None, False
    *numbers, sign, hours, minutes = found.groups()
    try:
        moment = datetime(*map(int, numbers), tzinfo=UTC)  # pyright: ignore[reportArgumentType]  # six groups of digits
        if sign is None:
            return moment, False
        offset = timedelta(hours=int(hours), minutes=int(minutes))
        return (moment - offset if sign == "+" else moment + offset), True
    except (ValueError, OverflowError):
        return None, False


def judge_by_guides(handshake: Handshake | None, version: Version, allocatable: int, now: datetime) -> Judgement:
    """Whether this version's scheduler trusts the GPUs of a node with that handshake; also by HAMi's guides.

    `allocatable`: what kubelet offers of the GPUs. It decides from 2.8 on, where plugins no longer answer handshakes.
    If it is 0, 2.9 and later add and drop the node by turns: unknown, unless an unanswered request shows that it was
    never added.
    """
    if handshake is not None and handshake.state == "unix" and handshake.at is not None:
        return "stale" if now - handshake.at > GUIDES_THRESHOLD else "alive"
    return judge_as_scheduler(handshake, version, allocatable, now)


OTHERS_BY_KUBELET_SINCE = Version(2, 9, 0)
"""From this version on kubelet's allocatable decides for other vendors' devices too; before, their handshake."""


def judge_as_scheduler(
    handshake: Handshake | None,
    version: Version,
    allocatable: int,
    now: datetime,
    by_kubelet_since: Version = JSON_SINCE,
) -> Judgement:
    """What HAMi's scheduler makes of a node's handshake; from `by_kubelet_since` on `allocatable` decides first."""
    if version < by_kubelet_since:
        if handshake is not None and handshake.state == "deleted":
            return "deleted"
        unanswered = handshake is not None and handshake.state == "requesting" and _is_overdue(handshake, now)
        return "stale" if unanswered else "alive"
    if allocatable > 0:
        return "alive"
    if version < (2, 9):
        return "stale"
    if handshake is None:
        return "unknown"
    if handshake.state == "deleted" and version < (2, 10) and not _is_overdue(handshake, now):
        return "deleted"
    if handshake.state == "requesting" and handshake.at is not None and _is_overdue(handshake, now):
        return "stale"
    return "unknown"


_STAMPS = ("Requesting_", "Deleted_")
_ZONES = timedelta(minutes=15)
_LARGEST_ZONE = timedelta(hours=14)
_FRESH = timedelta(minutes=2)


def scheduler_zone(handshakes: Iterable[str], version: Version, now: datetime) -> timedelta:
    """How far the scheduler's local time, written without a zone, is ahead of UTC; 0 where it cannot be told.

    Where plugins answer (`Reported`, with their own zone, up to 2.7) the scheduler's newest stamp is at most minutes
    old, so its difference from now is the zone. Where no plugin answers, stamps may be old.
    """
    texts = set(handshakes)
    newest = max((text.partition("_")[2] for text in texts if text.startswith(_STAMPS)), default="")
    at, zoned = _moment(newest)
    if at is None or zoned:
        return timedelta()
    ahead = at - now
    zone = round(ahead / _ZONES) * _ZONES
    if abs(ahead - zone) > _FRESH or abs(zone) > _LARGEST_ZONE:
        return timedelta()
    return zone if zone >= timedelta() or (version < (2, 8) and _answers(texts, at, now)) else timedelta()


def _answers(texts: Iterable[str], newest: datetime, now: datetime) -> bool:
    """Whether some plugin answers now, and the scheduler has stamped several nodes lately by its own time."""
    seen = [(handshake.state, handshake.at) for handshake in map(parse_handshake, texts) if handshake.at]
    reported = any(state == "reported" and abs(now - at) <= _FRESH for state, at in seen)
    return reported and sum(state in ("requesting", "deleted") and newest - at <= _FRESH for state, at in seen) > 1


def _is_overdue(handshake: Handshake, now: datetime) -> bool:
    """Whether the scheduler has stopped waiting. It takes a time that it cannot read for the year 1."""
    return handshake.at is None or now - handshake.at > SCHEDULER_PATIENCE
