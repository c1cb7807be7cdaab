"""The cards of vendors whose nodes the scheduler reads anew in every pass: no handshake, nothing is remembered.

Rules: HAMi pkg/scheduler/scheduler.go register loop and pkg/device/*/device.go GetNodeDevices at v2.10.0.
"""

from collections.abc import Callable
from datetime import datetime

import msgspec

from bot.hami.names import Names
from bot.hami.nodes.cards import Card
from bot.hami.nodes.registration import Registration, Unreadable, Unregistered, read_registration
from bot.hami.pods.pod_request import Resources
from bot.hami.version import Version
from bot.kube.models import Node
from bot.kube.quantities import whole

MOST_COUNTED = 1024
"""Cards that a capacity is believed to count."""

Found = Registration | Unregistered


class Stateless:
    """The rules of such nodes. `find` finds the cards of one."""

    def __init__(self, find: Callable[[Node, Resources], Found]) -> None:
        self.find = find

    def registration(self, node: Node, version: Version, now: datetime, resources: Resources) -> Found:  # noqa: ARG002  # a subclass may
        """The node's cards, at whatever moment."""
        return self.find(node, resources)

    def is_taken_in_for_good(self, _: Node, __: Version, ___: Resources) -> bool:
        """They count as long as they stand there."""
        return True

    def is_held_by_turns(self, _: Node, __: Version, ___: datetime, ____: Resources) -> bool:
        """They do not come and go."""
        return False


def counted(names: Names, cards: Callable[[Node, Resources], list[Card]], counted_by: str = "count") -> Stateless:
    """Of cards that are counted by the node's capacity; `counted_by` is which of the resources that is."""

    def find(node: Node, resources: Resources) -> Found:
        found = tuple(cards(node, resources))
        key = getattr(resources, counted_by)
        return Registration(names, names.word, key, "capacity", found) if found else Unregistered("absent")

    return Stateless(find)


def annotated(node: Node, names: Names, *, prefix: str = "") -> Found:
    """The cards of the register annotation; `prefix` stands before their uuids."""
    text = node.metadata.annotation(names.register)
    if text is None:
        return Unregistered("absent")
    read = read_registration(names, names.word, text)
    if isinstance(read, Unreadable):
        return Unregistered("unreadable", names.register, text[:200] or read.why)
    if prefix:
        cards = (msgspec.structs.replace(card, uuid=prefix + card.uuid) for card in read.cards)
        return read._replace(cards=tuple(cards))
    return read


def capacity_of(node: Node, resource: str) -> int:
    """How much of a resource the node says it has, whether or not kubelet may hand it out."""
    return whole((node.status.capacity or {}).get(resource)) or 0


def cards_like(card: Card, count: int, prefix: str) -> list[Card]:
    """So many of them, with their positions as indexes and in their uuids."""
    return [
        msgspec.structs.replace(card, uuid=f"{prefix}{index}", index=index) for index in range(min(count, MOST_COUNTED))
    ]


def cards_by_cores(node: Node, resources: Resources, names: Names, whole_card: int) -> list[Card]:
    """The cards of a plugin that offers the node's cores, `whole_card` of them a card, and its memory as amounts."""
    cores = capacity_of(node, resources.cores)
    if cores <= 0:
        return []
    memory = capacity_of(node, resources.memory) * resources.memory_factor * whole_card // cores
    card = Card(slots=100, memory_mib=memory, cores=whole_card, type=names.word, health=True)
    return cards_like(card, -(-cores // whole_card), f"{node.name}-{names.card_word}-")
