"""A node of a sweep over all of them: what of it bears on devices."""

import msgspec

from bot.hami.vendors import VENDORS
from bot.kube.models import Kind
from bot.kube.models.base import Node, NodeStatus, ObjectMeta, Quantity, keep
from bot.kube.node_conditions import is_about_gpus

_LABELS = frozenset(key for vendor in VENDORS for key in (vendor.node_label[0], *vendor.gpu_labels) if key)
_NO_LABELS: dict[str, str] = {}


class SweptMeta(ObjectMeta, frozen=True):
    uid: str = msgspec.field(default="", name="(left out)")
    resource_version: str = msgspec.field(default="", name="(and this)")
    creation_timestamp: str | None = msgspec.field(default=None, name="(and that)")

    def __post_init__(self) -> None:
        """The labels alone stay that tell of a vendor's devices."""
        kept = (self.labels or _NO_LABELS).keys() & _LABELS
        keep(self, "labels", {key: self.labels[key] for key in kept} if self.labels and kept else None)


class SweptStatus(NodeStatus, frozen=True):
    def __post_init__(self) -> None:
        """Devices alone stay of the amounts, of the conditions Ready and those about GPUs."""
        kept = [
            condition
            for condition in self.conditions or ()
            if condition.type == "Ready" or is_about_gpus(condition.type)
        ]
        keep(self, "conditions", kept)
        allocatable, capacity = _devices(self.allocatable), _devices(self.capacity)
        keep(self, "allocatable", allocatable)
        keep(self, "capacity", allocatable if allocatable == capacity else capacity)


def _devices(amounts: dict[str, Quantity] | None) -> dict[str, Quantity]:
    return {name: amount for name, amount in (amounts or {}).items() if "/" in name}


class SweptNode(Node, frozen=True):
    """A node of a sweep over all, with what bears on its devices: the rest would be most of the memory.

    Of its labels it knows those that tell of devices, of its amounts the devices, of its conditions Ready and
    those about GPUs.
    """

    metadata: SweptMeta = SweptMeta()
    status: SweptStatus = SweptStatus()


SWEPT_NODES = Kind("nodes", SweptNode, namespaced=False)
