"""Every collection of the sandbox's API server, under one counter of versions."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sandbox.apiserver.collection import Collection, Versions
from sandbox.apiserver.kinds import KINDS, Kind

# A fresh cluster has had its own objects written first.
_FIRST_VERSION = 1


class Store:
    """Every collection, by the path of its group and version and by its plural."""

    def __init__(self, objects: Mapping[str, Iterable[Mapping[str, Any]]]) -> None:
        self.versions = Versions(_FIRST_VERSION)
        self._collections = {(kind.api, kind.plural): Collection(kind, self.versions) for kind in KINDS}
        for name, items in objects.items():
            seed = list(items)
            kind = _kind(name, seed)
            self._collections[kind.api, kind.plural] = Collection(kind, self.versions, seed)
            self.versions.newest = max([self.versions.newest, *_versions_of(seed)])
        if "namespaces" not in objects:  # recordings leave them out; nothing can be created in one that is not there
            self._add_namespaces()
        for collection in self:
            collection.forget()

    def __iter__(self) -> Iterator[Collection]:
        return iter(self._collections.values())

    def _add_namespaces(self) -> None:
        entries = (entry for collection in self if collection.kind.namespaced for entry in collection.select())
        names = sorted({"default", *(entry.key.partition("/")[0] for entry in entries if "/" in entry.key)})
        kind = self.of("namespaces").kind
        seed = [_namespace(name) for name in names]
        self._collections[kind.api, kind.plural] = Collection(kind, self.versions, seed)

    def collection(self, api: str, plural: str) -> Collection | None:
        return self._collections.get((api, plural))

    def of(self, resource: str) -> Collection:
        """The collection of a known resource, such as `pods` or `deployments.apps`. Raises KeyError for another."""
        return self._collections[next((kind.api, kind.plural) for kind in KINDS if kind.resource == resource)]

    def serves(self, api: str) -> bool:
        """Whether any resource of that group and version is served."""
        return any(api == served for served, _ in self._collections)


def _kind(name: str, objects: list[Mapping[str, Any]]) -> Kind:
    """The kind of what a recording keeps in `objects/<name>.json`."""
    known = next((kind for kind in KINDS if kind.resource == name), None)
    if known:
        return known
    plural, _, group = name.partition(".")
    if not objects:
        raise ValueError(f"{name!r} is no kind that is known here, and no object says which it is")
    api = f"apis/{objects[0]['apiVersion']}" if group else f"api/{objects[0]['apiVersion']}"
    return Kind(objects[0]["kind"], plural, api, "namespace" in objects[0]["metadata"])


def _namespace(name: str) -> Mapping[str, Any]:
    metadata = {"name": name, "labels": {"kubernetes.io/metadata.name": name}}
    return {"kind": "Namespace", "apiVersion": "v1", "metadata": metadata, "status": {"phase": "Active"}}


def _versions_of(items: Iterable[Mapping[str, Any]]) -> list[int]:
    versions = (item["metadata"].get("resourceVersion", "") for item in items)
    return [int(version) for version in versions if version.isdecimal()]
