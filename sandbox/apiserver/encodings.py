"""The shapes in which a client may ask for objects: as they are, their metadata alone, or as rows of a table."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Literal

import msgspec

from sandbox.apiserver import tables
from sandbox.apiserver.collection import Collection, ListQuery
from sandbox.apiserver.entries import Entry, Object, decoded, partial, whole
from sandbox.apiserver.kinds import Kind
from sandbox.apiserver.statuses import not_acceptable
from sandbox.apiserver.watches import Encoding

Shape = Literal["object", "metadata", "table"]
_META = "meta.k8s.io/v1"


def shape_of(accept: str, kind: Kind, *, is_list: bool) -> Shape:
    """The shape that the first acceptable media type asks for. Raises the server's 406 for metadata of a list where one
    object is the answer, and the other way round.
    """
    first = accept.split(",", maxsplit=1)[0].replace(" ", "")
    if "as=Table;" in first + ";":
        return "table"
    if "as=PartialObjectMetadata" not in first:
        return "object"
    right, wrong = "PartialObjectMetadata", "PartialObjectMetadataList"
    if is_list:
        right, wrong = wrong, right
    if f"as={right};" in first + ";":
        return "metadata"
    found = f"a list (*{_package(kind)}.{kind.name}List)" if is_list else f"not a list (*{_package(kind)}.{kind.name})"
    raise not_acceptable(f"you requested {wrong}, but the requested object is {found}")


def one_body(kind: Kind, entry: Entry, shape: Shape, now: datetime) -> bytes:
    """The body of an answer with one object."""
    if shape == "metadata":
        return partial(entry)
    if shape == "table":
        metadata = {"resourceVersion": msgspec.json.decode(entry.metadata).get("resourceVersion", "")}
        return _table(kind, [entry], metadata, now, with_columns=True)
    return whole(entry, kind)


def list_body(collection: Collection, query: ListQuery, shape: Shape, now: datetime) -> bytes:
    """The body of a page of a list. Raises as `Collection.page` does."""
    if shape == "table":
        page = collection.page(query)
        return _table(collection.kind, page.entries, page.metadata, now, with_columns=True)
    return collection.body(query)


def watch_encoding(kind: Kind, shape: Shape, clock: Callable[[], datetime]) -> Encoding:
    """How a watch sends objects in that shape; only the first event tells a table's columns."""
    if shape == "metadata":
        return Encoding(partial, lambda item: _partial_bookmark(item["metadata"]))
    if shape == "object":
        return Encoding(lambda entry: whole(entry, kind), msgspec.json.encode)
    told = False

    def table(entries: Sequence[Entry], metadata: Any) -> bytes:
        nonlocal told
        body = _table(kind, entries, metadata, clock(), with_columns=not told)
        told = True
        return body

    def row(entry: Entry) -> bytes:
        version = msgspec.json.decode(entry.metadata).get("resourceVersion", "")
        return table([entry], {"resourceVersion": version})

    return Encoding(row, lambda item: table([], item["metadata"]))


def _partial_bookmark(metadata: Object) -> bytes:
    return msgspec.json.encode({"kind": "PartialObjectMetadata", "apiVersion": _META, "metadata": metadata})


def _table(kind: Kind, entries: Sequence[Entry], metadata: Any, now: datetime, *, with_columns: bool) -> bytes:
    rows = [
        {"cells": tables.cells(kind.name, decoded(entry, kind), now), "object": msgspec.Raw(partial(entry))}
        for entry in entries
    ]
    head = {"kind": "Table", "apiVersion": _META, "metadata": metadata}
    columns = tables.definitions(kind.name) if with_columns else None
    return msgspec.json.encode(head | {"columnDefinitions": columns, "rows": rows})


def _package(kind: Kind) -> str:
    """The Go package of a kind's internal type, which messages show."""
    return kind.group.split(".")[0] or "core"
