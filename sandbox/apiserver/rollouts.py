"""The arithmetic of a rolling update: how many pods each ReplicaSet may have now. Pure.

As pkg/controller/deployment of Kubernetes does it: never more than replicas + maxSurge pods, never fewer available ones
than replicas - maxUnavailable, and old pods that are not ready go first.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class Pods(NamedTuple):
    """The pods of one ReplicaSet: how many it should have, how many there are, how many of those are ready."""

    wanted: int
    present: int
    ready: int


class Plan(NamedTuple):
    """How many pods the new ReplicaSet and each of the old ones should have next."""

    new: int
    old: tuple[int, ...]


def bounds(spec: Mapping[str, Any]) -> tuple[int, int]:
    """MaxSurge and maxUnavailable in pods: percentages are rounded up and down, and both cannot be 0."""
    replicas = spec.get("replicas", 1)
    rolling = (spec.get("strategy") or {}).get("rollingUpdate") or {}
    surge = _pods(rolling.get("maxSurge", "25%"), replicas, math.ceil)
    unavailable = _pods(rolling.get("maxUnavailable", "25%"), replicas, math.floor)
    return surge, unavailable if surge or unavailable else 1


def plan(spec: Mapping[str, Any], new: Pods, old: Sequence[Pods]) -> Plan:
    """The next step of a Deployment's rollout."""
    replicas = spec.get("replicas", 1)
    if (spec.get("strategy") or {}).get("type") == "Recreate":
        gone = not any(revision.present for revision in old)
        return Plan(replicas if gone else new.wanted, (0,) * len(old))
    surge, unavailable = bounds(spec)
    room = replicas + surge - new.wanted - sum(pods_.wanted for pods_ in old)
    scaled = max(min(new.wanted + max(room, 0), replicas), min(new.wanted, replicas))
    least = replicas - unavailable
    spare = new.ready + sum(min(revision.ready, revision.wanted) for revision in old) - least
    left: list[int] = []
    for revision in old:
        unready = max(revision.wanted - revision.ready, 0)
        drop = min(revision.wanted, unready + max(spare, 0))
        spare -= max(drop - unready, 0)
        left.append(revision.wanted - drop)
    return Plan(scaled, tuple(left))


def _pods(value: int | str, replicas: int, rounded: Any) -> int:
    if isinstance(value, str):
        return rounded(int(value.rstrip("%")) * replicas / 100)
    return value
