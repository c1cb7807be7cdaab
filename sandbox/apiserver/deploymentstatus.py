"""The status of Deployments and ReplicaSets, as their controllers count it. Pure; order and texts as recorded."""

from collections.abc import Sequence

from sandbox.apiserver.entries import Object
from sandbox.apiserver.rollouts import bounds
from sandbox.apiserver.templates import is_ready


def replica_set_status(replica_set: Object, pods: Sequence[Object]) -> Object:
    """The status of a ReplicaSet; `pods` are those that it owns, ending ones included."""
    active = [pod for pod in pods if not pod["metadata"].get("deletionTimestamp")]
    ready = sum(is_ready(pod) for pod in active)
    counts = {"fullyLabeledReplicas": len(active), "readyReplicas": ready, "availableReplicas": ready}
    before = replica_set.get("status", {}).get("observedGeneration", 0)
    scaled = len(active) == replica_set["spec"]["replicas"]
    return {
        "replicas": len(active),
        **{name: count for name, count in counts.items() if count},
        "terminatingReplicas": len(pods) - len(active),
        "observedGeneration": replica_set["metadata"].get("generation", 1) if scaled else before,
    }


def deployment_status(deployment: Object, sets: Sequence[Object], pods: Sequence[Sequence[Object]], now: str) -> Object:
    """The status of a Deployment; `pods` are those of each ReplicaSet, of which the last has the present template."""
    active = [[pod for pod in group if not pod["metadata"].get("deletionTimestamp")] for group in pods]
    present, ready = [len(group) for group in active], [sum(map(is_ready, group)) for group in active]
    replicas = deployment["spec"].get("replicas", 1)
    counts = {
        "replicas": sum(present),
        "updatedReplicas": present[-1],
        "readyReplicas": sum(ready),
        "availableReplicas": sum(ready),
        "unavailableReplicas": max(sum(set_["spec"]["replicas"] for set_ in sets) - sum(ready), 0),
    }
    complete = sum(present) == present[-1] == ready[-1] == replicas
    old = {condition["type"]: condition for condition in deployment.get("status", {}).get("conditions") or ()}
    name = sets[-1]["metadata"]["name"]
    progressing = _progressing(name, old.get("Progressing"), now, complete=complete, any_new=present[-1] > 0)
    available = sum(ready) >= replicas - bounds(deployment["spec"])[1]
    return {
        "observedGeneration": deployment["metadata"].get("generation", 1),
        **{name: count for name, count in counts.items() if count},
        "terminatingReplicas": sum(map(len, pods)) - sum(present),
        "conditions": [_available(old.get("Available"), now, available=available), progressing],
    }


def _available(before: Object | None, now: str, *, available: bool) -> Object:
    if available:
        reason, message = "MinimumReplicasAvailable", "Deployment has minimum availability."
    else:
        reason, message = "MinimumReplicasUnavailable", "Deployment does not have minimum availability."
    return _condition("Available", before, now, ("True" if available else "False", reason, message))


def _progressing(name: str, before: Object | None, now: str, *, complete: bool, any_new: bool) -> Object:
    if complete:
        reason, message = "NewReplicaSetAvailable", f'ReplicaSet "{name}" has successfully progressed.'
    elif any_new or before is None or before["reason"] == "NewReplicaSetAvailable":
        reason, message = "ReplicaSetUpdated", f'ReplicaSet "{name}" is progressing.'
    else:
        return before
    return _condition("Progressing", before, now, ("True", reason, message))


def _condition(kind: str, before: Object | None, now: str, said: tuple[str, str, str]) -> Object:
    """The condition with that status, reason and message; unchanged while it holds, its transition when it began to."""
    status, reason, message = said
    if before and (before["status"], before["reason"], before["message"]) == said:
        return before
    since = before["lastTransitionTime"] if before and before["status"] == status else now
    times = {"lastUpdateTime": now, "lastTransitionTime": since}
    return {"type": kind, "status": status, **times, "reason": reason, "message": message}
