"""Nodes: whole ones, and what of them bears on devices."""

import msgspec

from bot.kube.gpu_conditions import is_about_gpus
from bot.kube.models.base import Model, ObjectMeta, Quantity, Resource, keep


class NodeCondition(Model, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_heartbeat_time: str | None = None
    last_transition_time: str | None = None


class Taint(Model, frozen=True):
    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(Model, frozen=True):
    unschedulable: bool = False
    taints: list[Taint] | None = None


class NodeInfo(Model, frozen=True):
    kubelet_version: str = ""


class NodeStatus(Model, frozen=True):
    allocatable: dict[str, Quantity] | None = None
    capacity: dict[str, Quantity] | None = None
    conditions: list[NodeCondition] | None = None
    node_info: NodeInfo = NodeInfo()


class Node(Resource, frozen=True):
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class FewLabels(Model, frozen=True):
    """Those that tell whether a node has GPUs or another vendor's devices, all vendors' `node_label` among them."""

    gpu: str | None = None
    ascend: str | None = None
    dcu: str | None = None
    xpu: str | None = None
    vastai: str | None = None
    biren: str | None = None
    present: str | None = msgspec.field(default=None, name="nvidia.com/gpu.present")
    count: str | None = msgspec.field(default=None, name="nvidia.com/gpu.count")
    pci: str | None = msgspec.field(default=None, name="feature.node.kubernetes.io/pci-10de.present")
    pci_3d: str | None = msgspec.field(default=None, name="feature.node.kubernetes.io/pci-0302_10de.present")
    pci_vga: str | None = msgspec.field(default=None, name="feature.node.kubernetes.io/pci-0300_10de.present")


_FEW_LABELS = {field.encode_name: field.name for field in msgspec.structs.fields(FewLabels)}


class SweptMeta(ObjectMeta, frozen=True):
    labels: dict[str, str] | None = msgspec.field(default=None, name="(left out)")
    few_labels: FewLabels = msgspec.field(default=FewLabels(), name="labels")
    uid: str = msgspec.field(default="", name="(left out too)")
    resource_version: str = msgspec.field(default="", name="(and this)")
    creation_timestamp: str | None = msgspec.field(default=None, name="(and that)")

    def label(self, key: str) -> str | None:
        name = _FEW_LABELS.get(key)
        return getattr(self.few_labels, name) if name else None


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

    Of its labels it knows those that tell of GPUs, of its amounts the devices, of its conditions Ready and
    those about GPUs.
    """

    metadata: SweptMeta = SweptMeta()
    status: SweptStatus = SweptStatus()
