"""Log lines of the schedulers about a pod, at so many seconds after its creation."""

from datetime import timedelta
from pathlib import Path
from typing import Any

from bot.report import Report
from playbooks.latency.playbook import PodRow, StageRow
from tests.playbooks.world import EXTENDER, HAMI, NOW, Object, ago, answer, gpu_node, pod, record, scheduler

AGE = 600
"""How many seconds ago a test's pods were created."""
QUIET = "flags.go:27] FLAG: --v=4"
FILES = {
    "attempt": ("schedule_one.go:123]", '"Attempting to schedule pod" pod="ml/{name}"'),
    "filter": ("scheduler.go:1068]", '"Starting schedule filter process" pod="{name}" uuid="u" namespace="ml"'),
    "chosen": ("scheduler.go:1119]", '"Scheduling pod to node" podNamespace="ml" podName="{name}" nodeID="gpu-1"'),
    "bind": ("scheduler.go:999]", '"Attempting to bind pod to node" pod="{name}" namespace="ml" node="gpu-1"'),
    "bound": ("scheduler.go:1063]", '"Successfully bound pod to node" pod="{name}" namespace="ml" node="gpu-1"'),
    "locked": (
        "scheduler.go:1048]",
        '"Failed to lock node" err="node gpu-1 has been locked within 5m0s" node="gpu-1" pod="ml/{name}"',
    ),
    "filter 2.4": ("scheduler.go:429]", '"begin schedule filter" pod="{name}" uuid="u" namespaces="ml"'),
    "chosen 2.4": ("scheduler.go:489]", "schedule ml/{name} to gpu-1 map[NVIDIA:[]]"),
    "bind 2.4": ("scheduler.go:336]", '"Bind" pod="{name}" namespace="ml" podUID="u" node="gpu-1"'),
}


def at(seconds: float, text: str, level: str = "I") -> str:
    """A klog line so many seconds after the pods' creation."""
    moment = NOW + timedelta(seconds=seconds - AGE)
    return f"{level}{moment:%m%d %H:%M:%S.%f}       1 {text}\n"


def said(name: str = "wl", **seconds: float) -> str:
    """The lines about the pod, each at its time: `said(filter=1, bound=2)`; `filter_2_4` is HAMi 2.4's."""
    lines = {key.replace("_2_4", " 2.4"): value for key, value in seconds.items()}
    return "".join(at(value, f"{FILES[key][0]} {FILES[key][1].format(name=name)}") for key, value in lines.items())


def started(
    name: str = "wl",
    *,
    after: float = 10,
    bound: float = 8,
    allocated: float | None = None,
    restarts: int = 0,
    **fields: Any,
) -> Object:
    """A pod that runs: bound, taken by kubelet and started so many seconds after its creation; after a restart it began
    just now.
    """
    first = {"startedAt": ago(AGE - after)}
    status = {"name": "main", "restartCount": restarts, "state": {"running": first}}
    if restarts:
        status |= {"state": {"running": {"startedAt": ago(1)}}, "lastState": {"terminated": first}}
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": ago(AGE - bound)}
    running = {"phase": "Running", "containerStatuses": [status], "conditions": [scheduled]}
    if allocated is not None:
        running |= {"startTime": ago(AGE - allocated)}
    more: Object = {"age": AGE, "nodeName": "gpu-1", "status": running, **fields}
    return pod(name, **more)


def latency(
    folder: Path, *pods: Object, extender: str = "", kube: str | None = "", since: str = "1h", **fields: Any
) -> Report:
    """The answer; both logs begin before the pods. `kube` None: kube-scheduler's log cannot be read."""
    begins = at(-60, QUIET)
    others = {} if kube is None else {f"{HAMI}/hami-scheduler-0/kube-scheduler": begins + kube}
    others |= fields.pop("others", {})
    objects = [*scheduler(**fields), gpu_node(), *pods]
    path = record(folder, objects, logs=fields.get("begins", begins) + extender, others=others)
    return answer("latency", path, {}, since=since)


def stages(report: Report) -> dict[str, tuple[int, float | None]]:
    """Each stage with its number of pods and its median."""
    return {row.stage: (row.n, row.median_s) for row in report.typed(StageRow)}


def pods_of(report: Report) -> list[PodRow]:
    return report.typed(PodRow)


__all__ = ["AGE", "EXTENDER", "at", "latency", "pods_of", "said", "stages", "started"]
