"""A List of objects as the API, `kubectl get -o json` and a recording write it: bytes to models, and back."""

import codecs
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from bot.kube.models import ALL_KINDS, Kind, Resource

R = TypeVar("R", bound=Resource)

API_KINDS = {kind.plural: kind.one or kind.type.__name__ for kind in ALL_KINDS}
"""The API's `kind` of one object, by the plural in request paths."""


class BadItem(NamedTuple):
    """An item of a list that could not be read: its place, from 0, and why. `name` is empty if unreadable too."""

    position: int
    namespace: str
    name: str
    why: str


class Decoded(NamedTuple, Generic[R]):
    """The objects of a list, and the items that could not be read."""

    items: list[R]
    bad: list[BadItem]


class NotAListError(ValueError):
    """The bytes are no complete List of the kind; the text says what they are instead."""


class _ListMeta(msgspec.Struct, rename={"more": "continue"}):
    more: str | None = None


class _Head(msgspec.Struct):
    kind: str = ""
    metadata: _ListMeta | None = None
    items: list[msgspec.Raw] | msgspec.UnsetType | None = msgspec.UNSET


class _Name(msgspec.Struct):
    name: str = ""
    namespace: str = ""


class _Identity(msgspec.Struct):
    kind: str = ""
    metadata: _Name = msgspec.field(default_factory=_Name)


# Not DecodeError alone: text that is no UTF-8 and nesting without end are reported by Python's own classes.
_UNREADABLE = (ValueError, RecursionError)
_decode_head = msgspec.json.Decoder(_Head).decode
_decode_identity = msgspec.json.Decoder(_Identity).decode


@cache
def _items_decoder(model: type[Resource]) -> Callable[[bytes], Any]:
    class Items(msgspec.Struct):
        items: list[model] | None = None  # pyright: ignore[reportInvalidTypeForm]  # msgspec reads it at run time

    return msgspec.json.Decoder(Items).decode


def decode_list(kind: Kind[R], data: bytes) -> Decoded[R]:
    """The objects of a List, in its order; items that cannot be read go into `bad`. Raises NotAListError when the bytes
    are no JSON, no List, a List of another kind, or one page of a longer one.
    """
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):  # `>` in Windows PowerShell writes it so
        data = data.decode("utf-16", "replace").encode()
    data = data.removeprefix(codecs.BOM_UTF8)
    head = _head(kind, data)
    raw_items = head.items or []
    identities = [_identity(raw) for raw in raw_items]
    ours = {API_KINDS[kind.plural], ""}
    if all(identity is not None and identity.kind in ours for identity in identities):
        try:
            return Decoded(_items_decoder(kind.type)(data).items or [], [])
        except _UNREADABLE:
            pass
    decoded: Decoded[R] = Decoded([], [])
    for position, (raw, identity) in enumerate(zip(raw_items, identities, strict=True)):
        at = identity.metadata if identity else _Name()
        if identity and identity.kind not in ours:
            why = f"expected a {API_KINDS[kind.plural]}, got a {identity.kind}"
            decoded.bad.append(BadItem(position, at.namespace, at.name, why))
            continue
        try:
            decoded.items.append(msgspec.json.decode(raw, type=kind.type))
        except _UNREADABLE as error:
            decoded.bad.append(BadItem(position, at.namespace, at.name, str(error)))
    return decoded


def raw_item(kind: Kind[R], data: bytes, namespace: str, name: str) -> dict[str, Any] | None:
    """The object `namespace`/`name` of a List with all its fields; None when it has none. Raises NotAListError."""
    head = _head(kind, data)
    for raw in head.items or []:
        found = _identity(raw)
        if found and (found.metadata.namespace, found.metadata.name) == (namespace, name):
            try:
                return msgspec.json.decode(raw, type=dict[str, Any])
            except _UNREADABLE as error:
                raise NotAListError(f"has an object {name!r} that cannot be read: {error}") from error
    return None


def encode_list(kind: Kind[R], items: Iterable[dict[str, Any]]) -> bytes:
    """A List of `items` (as builtins, without their kind and version) as JSON, one object a line."""
    version = f"{kind.group}/{kind.version}" if kind.group else kind.version
    typed = {"apiVersion": version, "kind": API_KINDS[kind.plural]}
    lines = b",\n".join(msgspec.json.encode(typed | item) for item in items)
    return b'{"apiVersion":"v1","kind":"List","items":[\n' + lines + b"\n]}\n"


def _head(kind: Kind[R], data: bytes) -> _Head:
    try:
        head = _decode_head(data)
    except _UNREADABLE as error:
        what = "List" if isinstance(error, msgspec.ValidationError) else "JSON"
        raise NotAListError(f"is no {what}: {error}") from error
    if head.kind not in ("List", f"{API_KINDS[kind.plural]}List") or head.items is msgspec.UNSET:
        raise NotAListError(f"is no List of {kind.plural}: its kind is {head.kind!r}")
    if head.metadata and head.metadata.more:
        raise NotAListError("is one page of a longer list: its metadata.continue is set")
    return head


def _identity(raw: msgspec.Raw) -> _Identity | None:
    try:
        return _decode_identity(raw)
    except _UNREADABLE:
        return None
