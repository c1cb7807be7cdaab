"""Nodes, what every object has, and parts that several kinds have."""

import msgspec


class Model(msgspec.Struct, rename="camel", frozen=True, gc=False, omit_defaults=True):
    """A narrow, immutable view of an API object; unknown fields are ignored."""


class OwnerReference(Model, frozen=True):
    kind: str
    name: str
    uid: str = ""
    controller: bool | None = None


class ObjectMeta(Model, frozen=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    generate_name: str = ""
    resource_version: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None

    def label(self, key: str) -> str | None:
        """The label's value, None when absent."""
        return self.labels.get(key) if self.labels else None

    def annotation(self, key: str) -> str | None:
        """The annotation's value, None when absent."""
        return self.annotations.get(key) if self.annotations else None


keep = msgspec.structs.force_setattr
"""Replaces a field while the object is made, and at no other time."""

Quantity = str | int | float


class Resource(Model, frozen=True):
    """What every API object has."""

    metadata: ObjectMeta = ObjectMeta()

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def namespace(self) -> str:
        return self.metadata.namespace


class SelectorRequirement(Model, frozen=True):
    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class LabelSelector(Model, frozen=True):
    match_labels: dict[str, str] | None = None
    match_expressions: list[SelectorRequirement] | None = None


class ObjectReference(Model, frozen=True):
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    field_path: str = ""


class Condition(Model, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


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
