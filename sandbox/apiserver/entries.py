"""Objects as bytes: encoded once, cut into lists, and watched."""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import msgspec

from sandbox.apiserver.kinds import Kind
from sandbox.apiserver.selectors import selectable_fields

Object = dict[str, Any]
ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]


class Entry(NamedTuple):
    """An object as bytes, and what selectors ask about. `key` sorts as etcd does: `namespace/name`. `rest` is all that
    follows the metadata, to the closing brace.
    """

    key: str
    metadata: bytes
    rest: bytes
    labels: Mapping[str, str]
    fields: Mapping[str, str]


class Change(NamedTuple):
    """What happened to one object. `entry` is its new state, or its last one at the deletion's version."""

    version: int
    type: ChangeType
    entry: Entry
    before: Entry | None


def entry_of(kind: str, item: Mapping[str, Any]) -> Entry:
    """The entry of an object of that kind, which needs a `metadata.name`."""
    metadata = item["metadata"]
    namespace, name = metadata.get("namespace", ""), metadata["name"]
    rest = {key: value for key, value in item.items() if key not in {"kind", "apiVersion", "metadata"}}
    return Entry(
        key=f"{namespace}/{name}" if namespace else name,
        metadata=msgspec.json.encode(metadata),
        rest=b"," + msgspec.json.encode(rest)[1:] if rest else b"}",
        labels=metadata.get("labels") or {},
        fields=selectable_fields(kind, item),
    )


def at_version(entry: Entry, version: int) -> Entry:
    """The same object with that resourceVersion."""
    metadata = msgspec.json.decode(entry.metadata)
    return entry._replace(metadata=msgspec.json.encode(metadata | {"resourceVersion": str(version)}))


def list_item(entry: Entry) -> bytes:
    """The object as it stands in a list: without kind and apiVersion."""
    return b'{"metadata":' + entry.metadata + entry.rest


def whole(entry: Entry, kind: Kind) -> bytes:
    """The object with its kind and apiVersion."""
    head = b'{"kind":"%s","apiVersion":"%s",' % (kind.name.encode(), kind.api_version.encode())
    return head + list_item(entry)[1:]


def partial(entry: Entry) -> bytes:
    """The object's metadata alone."""
    return b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":' + entry.metadata + b"}"


def decoded(entry: Entry, kind: Kind) -> Object:
    """The object as a dict that the caller may change."""
    return msgspec.json.decode(whole(entry, kind))
