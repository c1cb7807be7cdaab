"""Lists as tables, which is what `kubectl get` shows: the columns of the API server's own printers."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sandbox.apiserver.entries import Object

_NONE = "<none>"
_UNKNOWN = "<unknown>"
_ROLE = "node-role.kubernetes.io/"
_WIDE = 1


class Column(NamedTuple):
    """One column; `priority` 1 is shown by `-o wide` only. `cell` gets the object and the time."""

    name: str
    cell: Callable[[Object, datetime], Any]
    type: str = "string"
    priority: int = 0


def columns(kind: str) -> Sequence[Column]:
    """The columns of a kind; name and age for one without a printer of its own."""
    return _COLUMNS.get(kind, (_NAME, _AGE))


def definitions(kind: str) -> list[Object]:
    return [
        {
            "name": column.name,
            "type": column.type,
            "format": "name" if column.name == "Name" else "",
            "description": "",
            "priority": column.priority,
        }
        for column in columns(kind)
    ]


def cells(kind: str, item: Object, now: datetime) -> list[Any]:
    return [column.cell(item, now) for column in columns(kind)]


def age(text: str | None, now: datetime) -> str:
    """The time since `text`, as k8s.io/apimachinery's duration.HumanDuration writes it."""
    if not text:
        return _UNKNOWN
    seconds = int((now - datetime.fromisoformat(text)).total_seconds())
    if seconds < -1:
        return "<invalid>"
    return _human(max(seconds, 0))


def _human(seconds: int) -> str:
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if seconds < 120:
        return f"{seconds}s"
    if minutes < 10:
        return f"{minutes}m" + (f"{seconds % 60}s" if seconds % 60 else "")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h" + (f"{minutes % 60}m" if minutes % 60 else "")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return f"{days}d" + (f"{hours % 24}h" if hours % 24 else "")
    if days < 730:
        return f"{days}d"
    years = days // 365
    return f"{years}y" + (f"{days % 365}d" if years < 8 and days % 365 else "")


def _at(path: str, default: Any = _NONE) -> Callable[[Object, datetime], Any]:
    """What stands at a dotted path."""
    steps = path.split(".")

    def cell(item: Object, _: datetime) -> Any:
        value: Any = item
        for step in steps:
            value = value.get(step) if isinstance(value, Mapping) else None
        return default if value in (None, "") else value

    return cell


def _node_status(item: Object, _: datetime) -> str:
    ready = next(
        (condition for condition in item.get("status", {}).get("conditions") or () if condition["type"] == "Ready"),
        None,
    )
    state = "Unknown" if ready is None else "Ready" if ready["status"] == "True" else "NotReady"
    return state + (",SchedulingDisabled" if item.get("spec", {}).get("unschedulable") else "")


def _node_roles(item: Object, _: datetime) -> str:
    labels = item["metadata"].get("labels") or {}
    roles = {label.removeprefix(_ROLE) for label in labels if label.startswith(_ROLE)} - {""}
    return ",".join(sorted(roles)) or _NONE


def _address(kind: str) -> Callable[[Object, datetime], str]:
    def cell(item: Object, _: datetime) -> str:
        addresses = item.get("status", {}).get("addresses") or ()
        return next((address["address"] for address in addresses if address["type"] == kind), _NONE)

    return cell


def _kernel(item: Object, now: datetime) -> str:
    version = _at("status.nodeInfo.kernelVersion", _UNKNOWN)(item, now)
    architecture = _at("status.nodeInfo.architecture", "")(item, now)
    return f"{version} ({architecture})" if architecture else version


def _container_statuses(item: Object) -> Sequence[Mapping[str, Any]]:
    return item.get("status", {}).get("containerStatuses") or ()


def _pod_ready(item: Object, _: datetime) -> str:
    ready = sum(bool(status.get("ready")) for status in _container_statuses(item))
    return f"{ready}/{len(item.get('spec', {}).get('containers') or ())}"


def _pod_status(item: Object, _: datetime) -> str:
    status = item.get("status", {})
    shown = status.get("reason") or status.get("phase", "Unknown")
    for container_status in _container_statuses(item):
        state = container_status.get("state") or {}
        shown = (
            (state.get("waiting") or {}).get("reason")
            or (state.get("terminated") or {}).get("reason")
            or shown
        )  # fmt: skip
    for condition in status.get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            shown = "SchedulingGated"
    return "Terminating" if item["metadata"].get("deletionTimestamp") else shown


def _restarts(item: Object, _: datetime) -> int:
    return sum(status.get("restartCount", 0) for status in _container_statuses(item))


def _gates(item: Object, _: datetime) -> str:
    gates = item.get("spec", {}).get("readinessGates") or ()
    true = {
        condition["type"]
        for condition in item.get("status", {}).get("conditions") or ()
        if condition["status"] == "True"
    }
    return f"{sum(gate['conditionType'] in true for gate in gates)}/{len(gates)}" if gates else _NONE


def _deployment_ready(item: Object, _: datetime) -> str:
    return f"{item.get('status', {}).get('readyReplicas', 0)}/{item.get('spec', {}).get('replicas', 1)}"


def _of_containers(field: str) -> Callable[[Object, datetime], str]:
    def cell(item: Object, _: datetime) -> str:
        containers = item.get("spec", {}).get("template", {}).get("spec", {}).get("containers") or ()
        return ",".join(container.get(field, "") for container in containers)

    return cell


def _selector(item: Object, _: datetime) -> str:
    labels = (item.get("spec", {}).get("selector") or {}).get("matchLabels") or {}
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items())) or _NONE


def _event_last_seen(item: Object, now: datetime) -> str:
    series = item.get("series") or {}
    first = item.get("firstTimestamp") or item.get("eventTime")
    last = series.get("lastObservedTime") or item.get("lastTimestamp") or first
    times = series.get("count") or item.get("count") or 1
    return f"{age(last, now)} (x{times} over {age(first, now)})" if times > 1 else age(last, now)


def _event_object(item: Object, _: datetime) -> str:
    regarding = item.get("involvedObject") or {}
    return f"{regarding.get('kind', '').lower()}/{regarding.get('name', '')}"


def _event_source(item: Object, _: datetime) -> str:
    source = item.get("source") or {}
    parts = (source.get("component") or item.get("reportingComponent", ""), source.get("host", ""))
    return ", ".join(filter(None, parts))


def _event_message(item: Object, _: datetime) -> str:
    return re.sub(r"\s+$", "", item.get("message", ""))


_NAME = Column("Name", _at("metadata.name"))
_AGE = Column("Age", lambda item, now: age(item["metadata"].get("creationTimestamp"), now))


def _wide(rows: Mapping[str, Callable[[Object, datetime], Any]]) -> Iterator[Column]:
    for name, cell in rows.items():
        yield Column(name, cell, priority=_WIDE)


_WORKLOAD = {"Containers": _of_containers("name"), "Images": _of_containers("image"), "Selector": _selector}
_COLUMNS: dict[str, Sequence[Column]] = {
    "Node": (
        _NAME,
        Column("Status", _node_status),
        Column("Roles", _node_roles),
        _AGE,
        Column("Version", _at("status.nodeInfo.kubeletVersion", "")),
        *_wide(
            {
                "Internal-IP": _address("InternalIP"),
                "External-IP": _address("ExternalIP"),
                "OS-Image": _at("status.nodeInfo.osImage", _UNKNOWN),
                "Kernel-Version": _kernel,
                "Container-Runtime": _at("status.nodeInfo.containerRuntimeVersion", _UNKNOWN),
            }
        ),
    ),
    "Pod": (
        _NAME,
        Column("Ready", _pod_ready),
        Column("Status", _pod_status),
        Column("Restarts", _restarts),
        _AGE,
        *_wide(
            {
                "IP": _at("status.podIP"),
                "Node": _at("spec.nodeName"),
                "Nominated Node": _at("status.nominatedNodeName"),
                "Readiness Gates": _gates,
            }
        ),
    ),
    "Deployment": (
        _NAME,
        Column("Ready", _deployment_ready),
        Column("Up-to-date", _at("status.updatedReplicas", 0), "integer"),
        Column("Available", _at("status.availableReplicas", 0), "integer"),
        _AGE,
        *_wide(_WORKLOAD),
    ),
    "ReplicaSet": (
        _NAME,
        Column("Desired", _at("spec.replicas", 0), "integer"),
        Column("Current", _at("status.replicas", 0), "integer"),
        Column("Ready", _at("status.readyReplicas", 0), "integer"),
        _AGE,
        *_wide(_WORKLOAD),
    ),
    "Event": (
        Column("Last Seen", _event_last_seen),
        Column("Type", _at("type", "")),
        Column("Reason", _at("reason", "")),
        Column("Object", _event_object),
        Column("Subobject", _at("involvedObject.fieldPath", ""), priority=_WIDE),
        Column("Source", _event_source, priority=_WIDE),
        Column("Message", _event_message),
        Column(
            "First Seen", lambda item, now: age(item.get("firstTimestamp") or item.get("eventTime"), now), priority=1
        ),
        Column("Count", _at("count", 1), priority=_WIDE),
        Column("Name", _at("metadata.name"), priority=_WIDE),
    ),
    "Lease": (_NAME, Column("Holder", _at("spec.holderIdentity", "")), _AGE),
    "Namespace": (_NAME, Column("Status", _at("status.phase", "")), _AGE),
}
