"""Vendors whose nodes the scheduler reads anew in every pass: without a handshake, and with nothing remembered.

Rules: HAMi pkg/scheduler/scheduler.go register loop and pkg/device/*/device.go GetNodeDevices at v2.10.0.
"""

from datetime import datetime

from bot.hami.nodes.cards import Card
from bot.hami.nodes.registration import Registration, Unregistered, capacity_of, cards_like, registered_cards
from bot.hami.pods.pod_request import Resources
from bot.hami.vendors.vendor import Vendor
from bot.hami.version import Version
from bot.kube.models import Node

Found = Registration | Unregistered


class Rescanned(Vendor):
    """A vendor whose cards count for as long as the node has the register annotation."""

    def find(self, node: Node, resources: Resources) -> Found:
        """The node's cards as its register annotation has them, or why there are none."""
        return registered_cards(node, self.names, self.names.word)

    def registration(self, node: Node, version: Version, now: datetime, resources: Resources) -> Found:
        """The node's cards as `find` reads them; neither version nor time matters."""
        return self.find(node, resources)

    def is_taken_in_for_good(self, node: Node, version: Version, resources: Resources) -> bool:
        """True: the cards count for as long as they are registered."""
        return True

    def is_held_by_turns(self, node: Node, version: Version, now: datetime, resources: Resources) -> bool:
        """False: the scheduler does not drop registered cards."""
        return False


class Counted(Rescanned):
    """A vendor whose cards are counted by the node's capacity, and are all alike."""

    card: Card
    counted_by: str = "count"
    """The field of `Resources` with the resource that counts the cards."""

    def cards(self, node: Node, resources: Resources) -> list[Card]:
        """The cards that the node's capacity counts."""
        return cards_like(self.card, capacity_of(node, resources.count), f"{node.name}-{self.names.card_word}-")

    def find(self, node: Node, resources: Resources) -> Found:
        """The counted cards as a registration, under the resource that counts them."""
        found = tuple(self.cards(node, resources))
        key = getattr(resources, self.counted_by)
        return Registration(self.names, self.names.word, key, "capacity", found) if found else Unregistered("absent")


class CountedByCores(Counted):
    """A vendor whose plugin offers the node's cores, `Names.capacity_unit` of them a card, and memory as amounts."""

    counted_by = "cores"

    def cards(self, node: Node, resources: Resources) -> list[Card]:
        """The cards that the node's cores make, each with an equal part of the memory."""
        cores, whole_card = capacity_of(node, resources.cores), self.names.capacity_unit
        if cores <= 0:
            return []
        memory = capacity_of(node, resources.memory) * resources.memory_factor * whole_card // cores
        card = Card(slots=100, memory_mib=memory, cores=whole_card, type=self.names.word, health=True)
        return cards_like(card, -(-cores // whole_card), f"{node.name}-{self.names.card_word}-")
