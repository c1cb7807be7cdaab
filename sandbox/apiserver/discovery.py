"""What the API server says about itself: its groups, their resources, and as much OpenAPI as kubectl asks for.
Aggregated discovery is not offered; clients fall back to one document a group, as they do with old servers.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from sandbox.apiserver.access import REVIEWS
from sandbox.apiserver.kinds import SCALED, STATUS, Kind

_VERBS = ["create", "delete", "get", "list", "patch", "update", "watch"]
_SUB_VERBS = ["get", "patch", "update"]
_ALL = frozenset({"DaemonSet", "Deployment", "Job", "CronJob", "Pod", "ReplicaSet", "Service", "StatefulSet"})
_REVIEW_KINDS = {
    "selfsubjectaccessreviews": "SelfSubjectAccessReview",
    "selfsubjectrulesreviews": "SelfSubjectRulesReview",
}

Document = dict[str, Any]


def api_versions(address: str) -> Document:
    """The document at `/api`."""
    servers = [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": servers}


def group_list(kinds: Iterable[Kind]) -> Document:
    """The document at `/apis`."""
    apis = sorted({kind.api for kind in kinds if kind.group} | {REVIEWS})
    names = dict.fromkeys(api.split("/")[1] for api in apis)
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(name, apis) for name in names]}


def group(kinds: Iterable[Kind], name: str) -> Document | None:
    """The document at `/apis/<group>`; None for a group that is not served."""
    groups = group_list(kinds)["groups"]
    found = next((group for group in groups if group["name"] == name), None)
    return {"kind": "APIGroup", "apiVersion": "v1", **found} if found else None


def resource_list(kinds: Iterable[Kind], api: str) -> Document | None:
    """The document at `/api/v1` or `/apis/<group>/<version>`; None for one that is not served."""
    resources = [resource for kind in kinds if kind.api == api for resource in _resources(kind)]
    if api == REVIEWS:
        resources = [_resource(name, kind, namespaced=False, verbs=["create"]) for name, kind in _REVIEW_KINDS.items()]
    if not resources:
        return None
    version = api.removeprefix("apis/").removeprefix("api/")
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": resources}


def openapi_index(kinds: Iterable[Kind]) -> Document:
    """The document at `/openapi/v3`."""
    apis = sorted({kind.api for kind in kinds})
    return {"paths": {api: {"serverRelativeURL": f"/openapi/v3/{api}?hash=0"} for api in apis}}


def openapi(kinds: Iterable[Kind], api: str) -> Document:
    """The document at `/openapi/v3/<api>`, without schemas: that a PATCH takes dryRun and fieldValidation."""
    paths: Document = {}
    for kind in kinds:
        if kind.api != api:
            continue
        of_kind = {"group": kind.group, "version": api.rsplit("/", maxsplit=1)[-1], "kind": kind.name}
        parameters = [
            {"name": name, "in": "query", "schema": {"type": "string"}} for name in ("dryRun", "fieldValidation")
        ]
        operation = {"parameters": parameters, "responses": {}, "x-kubernetes-group-version-kind": of_kind}
        where = "/namespaces/{namespace}" if kind.namespaced else ""
        paths[f"/{api}{where}/{kind.plural}/{{name}}"] = {"patch": operation}
    info = {"title": "Kubernetes", "version": "unversioned"}
    return {"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": {}}}


def _group(name: str, apis: Iterable[str]) -> Document:
    versions = [api.removeprefix("apis/") for api in apis if api.startswith(f"apis/{name}/")]
    shown = [{"groupVersion": version, "version": version.split("/")[1]} for version in versions]
    return {"name": name, "versions": shown, "preferredVersion": shown[0]}


def _resources(kind: Kind) -> Iterator[Document]:
    plain = _resource(kind.plural, kind.name, namespaced=kind.namespaced, verbs=_VERBS)
    plain |= {"shortNames": list(kind.short)} if kind.short else {}
    yield plain | ({"categories": ["all"]} if kind.name in _ALL else {})
    if kind.name in STATUS:
        yield _resource(f"{kind.plural}/status", kind.name, namespaced=kind.namespaced, verbs=_SUB_VERBS)
    if kind.name in SCALED:
        scale = _resource(f"{kind.plural}/scale", "Scale", namespaced=True, verbs=_SUB_VERBS)
        yield scale | {"group": "autoscaling", "version": "v1"}
    if kind.name == "Pod":
        yield _resource("pods/log", "Pod", namespaced=True, verbs=["get"])
        proxy = _resource(
            "pods/proxy", "PodProxyOptions", namespaced=True, verbs=["create", "delete", "get", "patch", "update"]
        )
        yield proxy


def _resource(name: str, kind: str, *, namespaced: bool, verbs: list[str]) -> Document:
    return {"name": name, "singularName": kind.lower() if "/" not in name else "", "namespaced": namespaced,
            "kind": kind, "verbs": verbs}  # fmt: skip
