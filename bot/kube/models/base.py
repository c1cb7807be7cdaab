"""Nodes, the metadata of every object, and parts that several kinds have."""

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")


class Model(msgspec.Struct, rename="camel", frozen=True, gc=False, omit_defaults=True):
    """An immutable API object with the fields that the bot reads; all other fields are ignored."""


keep = msgspec.structs.force_setattr
"""Replaces a field of an immutable object; only for use while the object is made."""

MOST_SHARED = 30_000
LONGEST_SHARED = 100
"""Characters of the longest text that is shared: longer ones, such as HAMi's registrations, are rarely equal."""
_LONG = ("kubectl.kubernetes.io/last-applied-configuration", "nfd.node.kubernetes.io/", "csi.volume.kubernetes.io/")
"""The beginnings of keys of annotations that have kilobytes and that no rule reads."""
_shared: dict[Any, Any] = {}
"""Decoded parts that objects share, to save memory: nearly all labels and conditions of a node equal another's."""


def shared(part: T, key: Any = None) -> T:
    """The first equal part that was decoded, to save memory; `key` stands for a part that cannot be hashed."""
    return _shared.setdefault(part if key is None else key, part)


def _texts(texts: Mapping[str, str], left_out: tuple[str, ...] = ()) -> dict[str, str]:
    if len(_shared) > MOST_SHARED:
        _shared.clear()
    same = _shared.setdefault
    return {
        same(key, key): text if len(text) > LONGEST_SHARED else same(text, text)
        for key, text in texts.items()
        if not (left_out and key.startswith(left_out))
    }


class OwnerReference(Model, frozen=True):
    kind: str
    name: str
    uid: str = ""
    controller: bool | None = None
    api_version: str = ""


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

    def __post_init__(self) -> None:
        """Shares texts with other objects, and drops annotations that no rule reads."""
        if self.labels:
            keep(self, "labels", _texts(self.labels))
        if self.annotations:
            keep(self, "annotations", _texts(self.annotations, _LONG))
        if self.owner_references:
            keep(self, "owner_references", [shared(owner) for owner in self.owner_references])
        keep(self, "namespace", shared(self.namespace))
        keep(self, "creation_timestamp", shared(self.creation_timestamp))

    def label(self, key: str) -> str | None:
        return self.labels.get(key) if self.labels else None

    def annotation(self, key: str) -> str | None:
        return self.annotations.get(key) if self.annotations else None


Quantity = str | int | float


class Resource(Model, frozen=True):
    """An API object with its metadata; each kind adds its other fields."""

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
    last_heartbeat_time: str | None = None
    """When the condition was last reported; only a node's conditions have it."""


class Taint(Model, frozen=True):
    key: str = ""
    value: str = ""
    effect: str = ""

    @property
    def written(self) -> str:
        """As kubectl taint writes it: `key=value:effect`."""
        return f"{self.key}{'=' if self.value else ''}{self.value}:{self.effect}"


class NodeSpec(Model, frozen=True):
    unschedulable: bool = False
    taints: list[Taint] | None = None


class NodeInfo(Model, frozen=True):
    kubelet_version: str = ""


class NodeAddress(Model, frozen=True):
    address: str = ""


class NodeStatus(Model, frozen=True):
    allocatable: dict[str, Quantity] | None = None
    capacity: dict[str, Quantity] | None = None
    conditions: list[Condition] | None = None
    node_info: NodeInfo = NodeInfo()
    addresses: list[NodeAddress] | None = None

    def __post_init__(self) -> None:
        """Shares amounts and conditions, which are the same on most nodes, to save memory."""
        if self.allocatable:
            keep(self, "allocatable", shared(self.allocatable, tuple(self.allocatable.items())))
        if self.capacity:
            keep(self, "capacity", shared(self.capacity, tuple(self.capacity.items())))
        if self.conditions:
            keep(self, "conditions", [shared(condition) for condition in self.conditions])


class Node(Resource, frozen=True):
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


Kept = dict[Hashable, Any]
"""Results worked out from a cluster's objects, by a key of what they are; they hold for the same objects only."""

R = TypeVar("R", bound=Resource)


def of_each(kept: Kept | None, work_out: Callable[[R], T], items: Iterable[R]) -> list[T]:
    """What `work_out` makes of each object, in the objects' order. With `kept` it is called only for objects that were
    not given the last time; it has to be a function of the object and of nothing else.
    """
    if kept is None:
        return [work_out(item) for item in items]
    items = list(items)
    before, known = kept.get(work_out, ([], []))
    by_address: dict[int, T] = {}

    def moved(item: R) -> T:
        if not by_address:
            by_address.update(zip(map(id, before), known, strict=True))  # they are held: no other has their address
        return by_address[id(item)] if id(item) in by_address else work_out(item)

    if not before:
        results = list(map(work_out, items))
    elif len(items) == len(before):  # then most stand where they stood
        both = zip(items, before, known, strict=True)
        results = [result if item is old else moved(item) for item, old, result in both]
    else:
        results = list(map(moved, items))
    kept[work_out] = items, results
    return results.copy()
