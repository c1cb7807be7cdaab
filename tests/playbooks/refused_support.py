"""Pods that the scheduler or the node has refused, with the events that say so."""

from typing import Any

from tests.playbooks.world import Object, ago, event, none_of, pod, refused

FULL = "1 1/1 CardInsufficientMemory"


def refused_again(reasons: str = FULL, *, first: float = 3600, last: float = 30, count: int = 12) -> list[Object]:
    """A pod that HAMi refused so often, and the event that says so."""
    message = none_of(1, reasons)
    waiting = pod(age=first + 10, said=refused(message, first))
    series = {"series": {"count": count, "lastObservedTime": ago(last)}}
    return [waiting, event(waiting, "FailedScheduling", message, first, **series)]


NO_BINDING = "rpc error: code = Unknown desc = no binding pod found on node gpu-1"
ADMISSION = f"Pod was rejected: Allocate failed due to {NO_BINDING}, which is unexpected"


def refused_on_the_node(**fields: Any) -> Object:
    """A pod that default-scheduler bound and kubelet refused."""
    one = pod(**{"schedulerName": "default-scheduler", "nodeName": "gpu-1"} | fields)
    one["status"] |= {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": ADMISSION}
    return one
