"""What all made-up objects share: identity, times, owners, managed fields."""

import random
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

Object = dict[str, Any]


class Mint:
    """Gives out uids, resource versions and times; the same seed and moment give the same ones."""

    def __init__(self, seed: int, now: datetime) -> None:
        self.random = random.Random(seed)  # noqa: S311  # made-up data
        self.now = now.astimezone(UTC)
        self._version = 1000

    def uid(self) -> str:
        return str(uuid.UUID(int=self.random.getrandbits(128), version=4))

    def version(self) -> str:
        self._version += 1
        return str(self._version)

    def ago(self, **duration: float) -> str:
        """The moment before now, as metadata carries it; the duration as `timedelta` takes it."""
        return (self.now - timedelta(**duration)).strftime("%Y-%m-%dT%H:%M:%SZ")

    def pod_address(self) -> str:
        """A loopback address: the API server that serves these objects may really be asked to dial it."""
        return f"127.{self.random.randrange(64, 128)}.{self.random.randrange(256)}.{self.random.randrange(1, 255)}"

    def metadata(self, name: str, created: str, **more: Any) -> Object:
        """The metadata of a new object; `more` goes in as it is."""
        identity = {"name": name, "uid": self.uid(), "resourceVersion": self.version(), "creationTimestamp": created}
        return identity | more


def owner(item: Mapping[str, Any]) -> list[Object]:
    """The ownerReferences of an object that the item controls."""
    reference = {
        "apiVersion": item["apiVersion"],
        "kind": item["kind"],
        "name": item["metadata"]["name"],
        "uid": item["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return [reference]


def managed(manager: str, time: str, part: Mapping[str, Any], *, subresource: str = "") -> Object:
    """A managedFields entry that says that the manager owns every field of the part."""
    fields = {f"f:{name}": _fields(value) for name, value in part.items()}
    entry = {"manager": manager, "operation": "Update", "apiVersion": "v1", "time": time}
    entry |= {"fieldsType": "FieldsV1", "fieldsV1": fields}
    return entry | ({"subresource": subresource} if subresource else {})


def _fields(value: Any) -> Object:
    if isinstance(value, Mapping) and value:
        return {".": {}} | {f"f:{name}": _fields(inner) for name, inner in value.items()}
    if isinstance(value, list):
        key = next((key for key in ("type", "name", "ip", "uid") if value and key in value[0]), "")
        if key:
            return {".": {}} | {f'k:{{"{key}":"{inner[key]}"}}': _fields(inner) for inner in value}
    return {}
