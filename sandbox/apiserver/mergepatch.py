"""Merge patch (RFC 7396), and Kubernetes' strategic merge patch for the lists that we patch.

Merge keys and atomic lists are those of k8s.io/api (`patchStrategy`, `patchMergeKey`) for Pods, Deployments, Nodes and
what they hold; a list that is not named here is replaced, as the server does.
"""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

Json = Any

_MERGE_KEYS = {
    "addresses": "type",
    "conditions": "type",
    "containers": "name",
    "env": "name",
    "ephemeralContainers": "name",
    "hostAliases": "ip",
    "imagePullSecrets": "name",
    "initContainers": "name",
    "ownerReferences": "uid",
    "podIPs": "ip",
    "topologySpreadConstraints": "topologyKey",
    "volumeDevices": "devicePath",
    "volumeMounts": "mountPath",
    "volumes": "name",
}
_PORT_KEYS = ("containerPort", "port")  # of a container and of a service
_MERGED_PRIMITIVES = frozenset({"finalizers"})
_ORDER, _DELETED, _KEPT = "$setElementOrder/", "$deleteFromPrimitiveList/", "$retainKeys"


class StrategicPatchError(Exception):
    """A patch that does not say which element of a list it means, or gives a directive nobody knows."""


def merge_patch(document: Json, patch: Json) -> Json:
    """The document as RFC 7396 patches it."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    merged = dict(document) if isinstance(document, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged


def strategic_merge_patch(document: Mapping[str, Json], patch: Mapping[str, Json]) -> dict[str, Json]:
    """The document as a strategic merge patch changes it. Raises StrategicPatchError."""
    match patch.get("$patch"):
        case None | "merge":
            merged = dict(document)
        case "replace":
            return {key: copy.deepcopy(value) for key, value in patch.items() if key != "$patch"}
        case "delete":
            return {}
        case other:
            raise StrategicPatchError(f"Unknown patch type: {other}")
    for key, value in patch.items():
        if key.startswith(_DELETED):
            name = key.removeprefix(_DELETED)
            merged[name] = [item for item in merged.get(name) or () if item not in value]
        elif key.startswith("$"):
            continue
        elif value is None:
            merged.pop(key, None)
        elif isinstance(value, dict):
            old = merged.get(key)
            merged[key] = strategic_merge_patch(old if isinstance(old, dict) else {}, value)
        elif isinstance(value, list):
            merged[key] = _merged_list(key, merged.get(key) or [], value, patch.get(_ORDER + key))
        else:
            merged[key] = value
    if _KEPT in patch:
        merged = {key: value for key, value in merged.items() if key in patch[_KEPT]}
    return merged


def _merged_list(name: str, old: Sequence[Json], patch: Sequence[Json], order: Sequence[Json] | None) -> list[Json]:
    if name in _MERGED_PRIMITIVES:
        return [*old, *(item for item in patch if item not in old)]
    key = _merge_key(name, [*patch, *old])
    if key is None:
        return [copy.deepcopy(item) for item in patch if item != {"$patch": "replace"}]
    if any(item.get("$patch") == "replace" for item in patch):
        return [copy.deepcopy(item) for item in patch if "$patch" not in item]
    merged = {item.get(key): item for item in old}
    for item in patch:
        if key not in item:
            raise StrategicPatchError(f"map: {item} does not contain declared merge key: {key}")
        if item.get("$patch") == "delete":
            merged.pop(item[key], None)
        else:
            merged[item[key]] = strategic_merge_patch(merged.get(item[key], {}), item)
    named = [item[key] for item in (order or patch)]
    return _interleaved(merged, [item.get(key) for item in old], named)


def _merge_key(name: str, elements: Sequence[Json]) -> str | None:
    """What tells the elements of a list apart, None for a list that is replaced whole."""
    if not all(isinstance(element, dict) for element in elements):
        return None
    if name == "ports":
        return next((key for key in _PORT_KEYS if any(key in element for element in elements)), _PORT_KEYS[0])
    return _MERGE_KEYS.get(name)


def _interleaved(merged: Mapping[Json, Json], old: Sequence[Json], named: Sequence[Json]) -> list[Json]:
    """The elements in the order that the server gives them.

    Those that the patch names keep its order, the others the old one; one of these stands before a named one only where
    it did so in the old list: a new element comes first (mergeSortedSlice of apimachinery's strategicpatch).
    """
    right = [key for key in dict.fromkeys(named) if key in merged]
    left = [key for key in merged if key not in right]
    keys: list[Json] = []
    while left and right:
        before = right[0] in old and old.index(left[0]) < old.index(right[0])
        keys.append((left if before else right).pop(0))
    return [merged[key] for key in keys + left + right]
