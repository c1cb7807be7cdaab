"""What the API server refuses in an object, for the kinds that are written here; texts as recorded from v1.36."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from sandbox.apiserver.kinds import Kind
from sandbox.apiserver.statuses import Cause, invalid


def validate(kind: Kind, item: Mapping[str, Any], before: Mapping[str, Any] | None = None) -> None:
    """Raises the server's 422 for an object that must not be stored; `before` is what an update replaces."""
    name = item["metadata"].get("name", "")
    causes = list(_causes(kind, item, before))
    if causes:
        raise invalid(kind, name, causes)


def _causes(kind: Kind, item: Mapping[str, Any], before: Mapping[str, Any] | None) -> Iterator[Cause]:
    if kind.name == "Pod":
        yield from _containers(item.get("spec") or {}, "spec")
    elif kind.name == "Lease":
        yield from _lease(item.get("spec") or {})
    elif kind.name in {"Deployment", "ReplicaSet"}:
        spec = item.get("spec") or {}
        if (replicas := spec.get("replicas", 1)) < 0:
            problem = f"Invalid value: {replicas}: must be greater than or equal to 0"
            yield Cause("FieldValueInvalid", problem, "spec.replicas")
        template = spec.get("template") or {}
        yield from _labels(spec, template)
        yield from _containers(template.get("spec") or {}, "spec.template.spec")
        old = (before or {}).get("spec", {}).get("selector")
        if before and old != spec.get("selector"):
            yield _bad(spec.get("selector"), "field is immutable", "spec.selector")


def _labels(spec: Mapping[str, Any], template: Mapping[str, Any]) -> Iterator[Cause]:
    labels = (template.get("metadata") or {}).get("labels") or {}
    wanted = (spec.get("selector") or {}).get("matchLabels") or {}
    if not wanted.items() <= labels.items():
        yield _bad(labels, "`selector` does not match template `labels`", "spec.template.metadata.labels")


def _containers(spec: Mapping[str, Any], path: str) -> Iterator[Cause]:
    containers = spec.get("containers")
    if not containers:
        yield _required(f"{path}.containers")
    seen: set[str] = set()
    for index, container in enumerate(containers or ()):
        place = f"{path}.containers[{index}]"
        name = container.get("name", "")
        if not name:
            yield _required(f"{place}.name")
        elif name in seen:
            yield Cause("FieldValueDuplicate", f'Duplicate value: "{name}"', f"{place}.name")
        seen.add(name)
        if not container.get("image"):
            yield _required(f"{place}.image")


def _lease(spec: Mapping[str, Any]) -> Iterator[Cause]:
    for field, least in (("leaseDurationSeconds", 1), ("leaseTransitions", 0)):
        value = spec.get(field)
        if value is not None and value < least:
            bound = "greater than 0" if least else "greater than or equal to 0"
            yield Cause("FieldValueInvalid", f"Invalid value: {value}: must be {bound}", f"spec.{field}")


def _required(field: str) -> Cause:
    return Cause("FieldValueRequired", "Required value", field)


def _bad(value: Any, problem: str, field: str) -> Cause:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return Cause("FieldValueInvalid", f"Invalid value: {text}: {problem}", field)
