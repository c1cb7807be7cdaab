"""Nodes."""

from bot.kube.models.base import Model, Quantity, Resource


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
