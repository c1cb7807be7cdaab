"""What a node object says of its GPUs: what the device plugin registered, and what kubelet counts and offers."""

import re
from typing import NamedTuple

from bot.hami.cards import Card
from bot.hami.registration import Registration, kubelet_offers, read_registration
from bot.hami.requests import DeviceConfig
from bot.hami.vendors import FIRST
from bot.kube.models import Node
from bot.kube.quantities import whole

_NVIDIA_LABELS = ("nvidia.com/gpu.present", "nvidia.com/gpu.product", "nvidia.com/gpu.count")
"""Set by GPU Feature Discovery and the GPU Operator."""
_PCI = re.compile(r"^feature\.node\.kubernetes\.io/pci-([0-9a-f]{4}_)?10de(_[0-9a-f_]+)?\.present$")
"""Set by Node Feature Discovery for a device of NVIDIA's vendor id."""
_CLOUD_LABELS = ("cloud.google.com/gke-accelerator", "k8s.amazonaws.com/accelerator")


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


def nvidia_label(node: Node) -> str:
    """The label by which the node is known to have NVIDIA GPUs, empty when none says so."""
    labels = node.metadata.labels or {}
    for key in _NVIDIA_LABELS:
        if labels.get(key, "false") not in ("false", "0", ""):
            return key
    pci = (key for key, value in labels.items() if value == "true" and _PCI.match(key))
    return next(pci, "") or next((key for key in _CLOUD_LABELS if labels.get(key, "").startswith("nvidia")), "")
