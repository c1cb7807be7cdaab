"""The objects of the sandbox's API server, each encoded once, and the lists that are cut from them."""

import base64
import json
import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec

from sandbox.apiserver.selectors import field_tests, label_tests, selectable_fields
from sandbox.apiserver.statuses import bad_request, expired

# What is served even where nothing was seeded: an empty list is an answer, an unknown resource is a 404.
_KINDS: dict[str, dict[str, str]] = {
    "api/v1": {
        "configmaps": "ConfigMap",
        "endpoints": "Endpoints",
        "events": "Event",
        "limitranges": "LimitRange",
        "namespaces": "Namespace",
        "nodes": "Node",
        "persistentvolumeclaims": "PersistentVolumeClaim",
        "persistentvolumes": "PersistentVolume",
        "pods": "Pod",
        "replicationcontrollers": "ReplicationController",
        "resourcequotas": "ResourceQuota",
        "secrets": "Secret",
        "serviceaccounts": "ServiceAccount",
        "services": "Service",
    },
    "apis/admissionregistration.k8s.io/v1": {
        "mutatingwebhookconfigurations": "MutatingWebhookConfiguration",
        "validatingwebhookconfigurations": "ValidatingWebhookConfiguration",
    },
    "apis/apps/v1": {
        "daemonsets": "DaemonSet",
        "deployments": "Deployment",
        "replicasets": "ReplicaSet",
        "statefulsets": "StatefulSet",
    },
    "apis/batch/v1": {"cronjobs": "CronJob", "jobs": "Job"},
    "apis/coordination.k8s.io/v1": {"leases": "Lease"},
    "apis/discovery.k8s.io/v1": {"endpointslices": "EndpointSlice"},
    "apis/scheduling.k8s.io/v1": {"priorityclasses": "PriorityClass"},
}
_CLUSTER_SCOPED = frozenset(
    {
        "MutatingWebhookConfiguration",
        "Namespace",
        "Node",
        "PersistentVolume",
        "PriorityClass",
        "ValidatingWebhookConfiguration",
    }
)
_TOKEN_VERSION = "meta.k8s.io/v1"  # noqa: S105  # the version of the continue token's format
_ANY_VERSION = -1


class Entry(NamedTuple):
    """An object as bytes, and what selectors ask about.

    `key` sorts as etcd does: `namespace/name`. `rest` is all that follows the metadata, to the closing brace.
    """

    key: str
    metadata: bytes
    rest: bytes
    labels: Mapping[str, str]
    fields: Mapping[str, str]


class ListQuery(NamedTuple):
    """One page that is asked for; `continue_token` as the client sent it, `limit` 0 for everything."""

    namespace: str = ""
    labels: str = ""
    fields: str = ""
    limit: int = 0
    continue_token: str = ""
    metadata_only: bool = False


class Collection:
    """All objects of one kind."""

    def __init__(self, kind: str, api: str, *, namespaced: bool, items: Iterable[Mapping[str, Any]] = ()) -> None:
        self.kind = kind
        self.api_version = api.removeprefix("apis/").removeprefix("api/")
        self.namespaced = namespaced
        self.resource_version = 0
        self._entries = sorted((_entry(kind, item) for item in items), key=attrgetter("key"))
        self._by_key = {entry.key: entry for entry in self._entries}
        self._matching = lru_cache(maxsize=128)(self._select)

    def get(self, namespace: str, name: str, *, metadata_only: bool = False) -> bytes | None:
        """The body of one object, None when there is none of that name."""
        entry = self._by_key.get(f"{namespace}/{name}" if self.namespaced else name)
        if entry is None:
            return None
        if metadata_only:
            return _partial(entry)
        return b'{"kind":"%s","apiVersion":"%s",' % (self.kind.encode(), self.api_version.encode()) + _item(entry)[1:]

    def page(self, query: ListQuery) -> bytes:
        """The body of one page of a list. Raises the server's 400 or 410."""
        entries = self._matching(query.namespace, query.labels, query.fields)
        start = 0
        if query.continue_token:
            after = self._continue_after(query.continue_token)
            start = bisect_left(entries, after, key=attrgetter("key"))
        end = start + query.limit if query.limit else len(entries)
        metadata: dict[str, Any] = {"resourceVersion": str(self.resource_version)}
        if end < len(entries):
            metadata["continue"] = _token(self.resource_version, "/" + entries[end - 1].key + "\0")
            if not (query.labels or query.fields):
                metadata["remainingItemCount"] = len(entries) - end
        chosen = entries[start:end]
        kind, api_version = f"{self.kind}List", self.api_version
        if query.metadata_only:
            kind, api_version = "PartialObjectMetadataList", "meta.k8s.io/v1"
        head = {"kind": kind, "apiVersion": api_version, "metadata": metadata}
        items = b",".join(map(_partial if query.metadata_only else _item, chosen))
        return msgspec.json.encode(head)[:-1] + b',"items":[' + items + b"]}\n"

    def _select(self, namespace: str, labels: str, fields: str) -> Sequence[Entry]:
        entries = self._entries
        if namespace:  # '0' is what follows '/'
            first, last = (bisect_left(entries, namespace + end, key=attrgetter("key")) for end in "/0")
            entries = entries[first:last]
        for passes in field_tests(self.kind, fields):
            entries = [entry for entry in entries if passes(entry.fields)]
        for passes in label_tests(labels):
            entries = [entry for entry in entries if passes(entry.labels)]
        return entries

    def _continue_after(self, token: str) -> str:
        """The key that the page starts behind."""
        problem = "invalid continue token: continue key is not valid"
        try:
            text = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True).decode("latin-1")
        except ValueError as error:
            good = re.match(r"[\w-]*", token, re.ASCII)
            raise bad_request(f"{problem}: illegal base64 data at input byte {good.end() if good else 0}") from error
        try:
            content = json.loads(text)
            version, start = int(content["rv"]), str(content["start"])
        except (ValueError, KeyError, TypeError) as error:
            first = json.dumps(text[:1])[1:-1]
            raise bad_request(f"{problem}: invalid character '{first}' looking for beginning of value") from error
        if version not in {self.resource_version, _ANY_VERSION}:
            raise expired(_token(_ANY_VERSION, start.removeprefix("/")))
        return start.removeprefix("/")


class Store:
    """Every collection, by the path of its group and version and by its plural."""

    def __init__(self, objects: Mapping[str, Iterable[Mapping[str, Any]]]) -> None:
        self._collections = {
            (api, plural): Collection(kind, api, namespaced=kind not in _CLUSTER_SCOPED)
            for api, kinds in _KINDS.items()
            for plural, kind in kinds.items()
        }
        self._collections |= dict(_seeded(name, items) for name, items in objects.items())
        newest = max((collection.resource_version for collection in self._collections.values()), default=0)
        for collection in self._collections.values():
            collection.resource_version = newest
        self._apis = {api for api, _ in self._collections}

    def collection(self, api: str, plural: str) -> Collection | None:
        return self._collections.get((api, plural))

    def serves(self, api: str) -> bool:
        """Whether any resource of that group and version is served."""
        return api in self._apis


def _seeded(name: str, items: Iterable[Mapping[str, Any]]) -> tuple[tuple[str, str], Collection]:
    """The collection of what a recording keeps in `objects/<name>.json`."""
    plural, _, group = name.partition(".")
    objects = list(items)
    for api, kinds in _KINDS.items():
        if plural in kinds and (f"apis/{group}/" in api if group else api == "api/v1"):
            kind, namespaced = kinds[plural], kinds[plural] not in _CLUSTER_SCOPED
            break
    else:
        if not objects:
            raise ValueError(f"{name!r} is no kind that is known here, and no object says which it is")
        api = f"apis/{objects[0]['apiVersion']}" if group else f"api/{objects[0]['apiVersion']}"
        kind, namespaced = objects[0]["kind"], "namespace" in objects[0]["metadata"]
    collection = Collection(kind, api, namespaced=namespaced, items=objects)
    versions = (item["metadata"].get("resourceVersion", "") for item in objects)
    collection.resource_version = max((int(version) for version in versions if version.isdecimal()), default=1)
    return (api, plural), collection


def _entry(kind: str, item: Mapping[str, Any]) -> Entry:
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


def _item(entry: Entry) -> bytes:
    """The object as a list has it: without kind and apiVersion."""
    return b'{"metadata":' + entry.metadata + entry.rest


def _partial(entry: Entry) -> bytes:
    return b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":' + entry.metadata + b"}"


def _token(version: int, start: str) -> str:
    content = json.dumps({"v": _TOKEN_VERSION, "rv": version, "start": start}, separators=(",", ":"))
    return base64.urlsafe_b64encode(content.encode()).decode().rstrip("=")
