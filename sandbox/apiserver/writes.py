"""Creating, replacing, patching and deleting objects by the rules of the API server."""

import copy
import random
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from sandbox.apiserver.collection import Collection
from sandbox.apiserver.entries import Object
from sandbox.apiserver.jsonpatch import PatchError, apply_json_patch
from sandbox.apiserver.kinds import GENERATED, STATUS
from sandbox.apiserver.mergepatch import StrategicPatchError, merge_patch, strategic_merge_patch
from sandbox.apiserver.statuses import (
    ApiError,
    Cause,
    Target,
    already_exists,
    bad_request,
    conflict,
    invalid,
    not_found,
    patch_rejected,
    precondition_failed,
    unsupported_media_type,
)
from sandbox.apiserver.validation import validate

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"

Clock = Callable[[], datetime]

_SUFFIX = "bcdfghjklmnpqrstvwxz2456789"  # k8s.io/apimachinery, util/rand: no vowels, so no words
_MOST_OPERATIONS = 10_000
_UNCONDITIONAL_REFUSED = frozenset({"Lease"})  # AllowUnconditionalUpdate of its strategy


class Writer:
    """Writes to collections. Random parts (uids, name suffixes) repeat from run to run."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._random = random.Random(20261121)  # noqa: S311  # names, no secrets

    def now(self) -> str:
        """The time as objects show it."""
        return self.clock().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def uid(self) -> str:
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))

    def suffix(self) -> str:
        """The random end of a generated name."""
        return "".join(self._random.choices(_SUFFIX, k=5))

    def create(self, collection: Collection, target: Target, item: Object, *, dry_run: bool = False) -> Object:
        """Creates an object, and returns it as stored. Raises the server's 400, 409 or 422."""
        kind = collection.kind
        item = {"kind": kind.name, "apiVersion": kind.api_version, **item}
        metadata = item["metadata"] = dict(_metadata(item, collection, target))
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = metadata["generateName"] + self.suffix()
        if not metadata.get("name"):
            needed = Cause("FieldValueRequired", "Required value: name or generateName is required", "metadata.name")
            raise invalid(kind, "", [needed])
        if metadata.get("resourceVersion"):
            raise bad_request("resourceVersion should not be set on objects to be created")
        target = target._replace(name=metadata["name"])
        if collection.entry(target.namespace, target.name):
            raise already_exists(target)
        validate(kind, item)
        metadata |= {"uid": self.uid(), "creationTimestamp": self.now()}
        if kind.name in GENERATED:
            metadata["generation"] = 1
        if kind.name in STATUS:
            item["status"] = {"phase": "Pending"} if kind.name == "Pod" else {}
        if not dry_run:
            collection.write(item)
        return item

    def replace(
        self, collection: Collection, target: Target, item: Object, *, subresource: str = "", dry_run: bool = False
    ) -> Object:
        """Replaces an object (PUT), and returns it as stored. Raises the server's 400, 404, 409 or 422."""
        metadata = _metadata(item, collection, target)
        if metadata.get("name") != target.name:
            said = f"the name of the object ({metadata.get('name', '')}) does not match the name on the URL"
            raise bad_request(f"{said} ({target.name})")
        if collection.kind.name in _UNCONDITIONAL_REFUSED and not metadata.get("resourceVersion"):
            problem = "Invalid value: 0x0: must be specified for an update"
            kind = collection.kind._replace(name=collection.kind.plural)
            raise invalid(kind, target.name, [Cause("FieldValueInvalid", problem, "metadata.resourceVersion")])
        before = self._current(collection, target)
        return self._store(collection, target, before, item, subresource=subresource, dry_run=dry_run)

    def patch(
        self,
        collection: Collection,
        target: Target,
        media_type: str,
        body: bytes,
        *,
        subresource: str = "",
        dry_run: bool = False,
    ) -> Object:
        """Patches an object (PATCH), and returns it as stored. Raises the server's 400, 404, 409, 415 or 422."""
        patch = patcher(media_type, body)
        before = self._current(collection, target)
        after = patch(before)
        return self._store(collection, target, before, after, subresource=subresource, dry_run=dry_run)

    def delete(
        self, collection: Collection, target: Target, options: Mapping[str, Any], *, dry_run: bool = False
    ) -> Object:
        """Deletes an object, and returns it as it was. Raises the server's 404 or 409."""
        item = self._current(collection, target)
        wanted, metadata = options.get("preconditions") or {}, item["metadata"]
        for field, text, name in (("uid", "UID", "uid"), ("resourceVersion", "ResourceVersion", "resourceVersion")):
            if wanted.get(field) and wanted[field] != metadata.get(name):
                said = f"the {text} in the precondition ({wanted[field]}) does not match the {text} in record"
                hint = ". The object might have been deleted and then recreated" if field == "uid" else ""
                hint = hint or ". The object might have been modified"
                raise precondition_failed(collection.kind, target.name, f"{said} ({metadata.get(name, '')}){hint}")
        if not dry_run:
            collection.remove(target.namespace, target.name)
        return item

    def _current(self, collection: Collection, target: Target) -> Object:
        item = collection.object(target.namespace, target.name)
        if item is None:
            raise not_found(target)
        return item

    def _store(
        self, collection: Collection, target: Target, before: Object, after: Object, *, subresource: str, dry_run: bool
    ) -> Object:
        """Checks an object against the one it replaces, keeps what a writer cannot change, and stores it."""
        kind, old = collection.kind, before["metadata"]
        after = {**after, "kind": kind.name, "apiVersion": kind.api_version}
        new = after["metadata"] = dict(after.get("metadata") or {})
        if new.get("uid", old.get("uid")) != old.get("uid"):
            problem = f"Precondition failed: UID in precondition: {new['uid']}, UID in object meta: {old.get('uid')}"
            raise conflict(target, problem)
        if new.get("resourceVersion", "") not in {"", old.get("resourceVersion", "")}:
            raise conflict(target)
        if new.get("name") != old["name"] or new.get("namespace", "") != old.get("namespace", ""):
            shown = Cause(
                "FieldValueInvalid", f'Invalid value: "{new.get("name")}": field is immutable', "metadata.name"
            )
            raise invalid(kind, target.name, [shown])
        for field in ("uid", "creationTimestamp", "deletionTimestamp", "resourceVersion", "generation"):
            new.pop(field, None)
            if field in old:
                new[field] = old[field]
        if kind.name in STATUS:
            kept, source = ("spec", before) if subresource == "status" else ("status", before)
            after.pop(kept, None)
            if kept in source:
                after[kept] = source[kept]
        if after == before:
            return before
        validate(kind, after, before)
        if kind.name in GENERATED and subresource != "status" and _counts(kind.name, before, after):
            new["generation"] = old.get("generation", 0) + 1
        if not dry_run:
            collection.write(after)
        return after


def patcher(media_type: str, body: bytes) -> Callable[[Object], Object]:
    """A function that applies the patch to an object. Raises the server's 400 or 415; the function a 413 or 422."""
    if media_type not in {JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH}:
        raise unsupported_media_type()
    try:
        patch = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise bad_request(f"error decoding patch: {_go_json_error(str(error))}") from error
    if media_type == JSON_PATCH and not isinstance(patch, list):
        found = "object" if isinstance(patch, dict) else type(patch).__name__
        said = f"json: cannot unmarshal {found} into Go value of type []handlers.jsonPatchOp"
        raise bad_request(f"error decoding patch: {said}")
    if media_type != JSON_PATCH and not isinstance(patch, dict):
        raise bad_request(
            "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"
        )
    if media_type == JSON_PATCH and len(patch) > _MOST_OPERATIONS:
        message = f"The allowed maximum operations in a JSON patch is {_MOST_OPERATIONS}, got {len(patch)}"
        raise ApiError(413, "RequestEntityTooLarge", message)

    def apply(item: Object) -> Object:
        try:
            if media_type == JSON_PATCH:
                patched = apply_json_patch(item, patch)
            elif media_type == MERGE_PATCH:
                patched = merge_patch(item, patch)
            else:
                patched = strategic_merge_patch(item, patch)
        except PatchError as error:
            raise patch_rejected() from error
        except StrategicPatchError as error:
            raise ApiError(500, "", str(error)) from error
        if not isinstance(patched, dict) or not isinstance(patched.get("metadata"), dict):
            raise patch_rejected()
        return patched

    return apply


def _go_json_error(text: str) -> str:
    return "unexpected end of JSON input" if "truncated" in text else text


def _counts(kind: str, before: Object, after: Object) -> bool:
    """Whether the generation grows: with the spec, and a Deployment's with its annotations too."""
    if before.get("spec") != after.get("spec"):
        return True
    old, new = (item["metadata"].get("annotations") or {} for item in (before, after))
    return kind == "Deployment" and old != new


def _metadata(item: Object, collection: Collection, target: Target) -> dict[str, Any]:
    """A copy of the metadata of an object that was sent. Raises the server's 400 when it is not for this path."""
    kind = collection.kind
    said = item.get("kind", kind.name), item.get("apiVersion", kind.api_version)
    if said != (kind.name, kind.api_version):
        package = kind.group.split(".")[0] or "core"
        problem = f"{kind.name} in version {kind.api_version.split('/')[-1]!r} cannot be handled as a {kind.name}"
        raise bad_request(f"{problem}: got {said[1]}, Kind={said[0]} ({package})")
    metadata = copy.deepcopy(item.get("metadata") or {})
    if kind.namespaced and metadata.setdefault("namespace", target.namespace) != target.namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    item["metadata"] = metadata
    return metadata
