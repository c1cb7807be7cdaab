"""What a node object says of its GPUs: what the device plugin registered, and what kubelet counts and offers."""

from typing import NamedTuple

from bot.hami.nodes.cards import Card
from bot.hami.nodes.registration import Registration, kubelet_offers, read_registration
from bot.hami.pods.request_parsing import DeviceConfig
from bot.hami.vendors import FIRST
from bot.kube.models import Node
from bot.kube.quantities import whole


class NodeGpus(NamedTuple):
    """The registered cards, and kubelet's figures for the resource that they are counted by."""

    resource: str
    cards: tuple[Card, ...]
    capacity: int
    allocatable: int

    @property
    def slots(self) -> int:
        return sum(card.slots for card in self.cards)

    @property
    def silent(self) -> bool:
        """Whether pods get nothing there: nothing is registered, or kubelet offers nothing."""
        return not self.cards or self.allocatable == 0


def gpus_of(node: Node, config: DeviceConfig) -> NodeGpus:
    """The node's NVIDIA GPUs, whatever HAMi makes of its handshake."""
    text = node.metadata.annotation(FIRST.names.register)
    found = read_registration(FIRST.names, FIRST.names.word, text) if text is not None else None
    resource = config.gpus.count
    return NodeGpus(
        resource,
        found.cards if isinstance(found, Registration) else (),
        whole((node.status.capacity or {}).get(resource)) or 0,
        kubelet_offers(node, resource),
    )
