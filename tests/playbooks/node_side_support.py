"""A pod and the GPU node behind it: the device plugin's pod with its containers' states and logs, and its DaemonSet."""

from pathlib import Path
from typing import Any

from bot.report import Report
from tests.playbooks.world import HAMI, PLUGIN, Object, ago, ask, card, cluster, given, gpu_node, node, pod

RUNS = {"ready": True, "restartCount": 0, "state": {"running": {"startedAt": ago(7200)}}, "lastState": {}}
PLUGIN_LOG = f"{HAMI}/hami-device-plugin-gpu-1/device-plugin"
MONITOR_LOG = f"{HAMI}/hami-device-plugin-gpu-1/vgpu-monitor"
KUBELET = "Pod was rejected: Allocate failed due to {}, which is unexpected"
NONE_HEALTHY = KUBELET.format("no healthy devices present; cannot allocate unhealthy devices nvidia.com/gpu")
TOO_FEW = KUBELET.format("requested number of devices unavailable for nvidia.com/gpu. Requested: 1, Available: 0")
REGISTERED = "I1121 03:00:02.000000       1 server.go:329] Registered device plugin for 'nvidia.com/gpu' with Kubelet"
NO_NVML = "E1121 04:58:00.000000       1 factory.go:135] Incompatible strategy detected auto"
NOT_LOADED = "nvidia-container-cli: initialization error: nvml error: driver not loaded: unknown"
NO_LABEL = "feature.node.kubernetes.io/pci-0302_10de.present"


def crashing(code: int = 1, restarts: int = 4, message: str = "", reason: str = "Error", ended: float = 30) -> Object:
    """A container that waits for its next start after an end."""
    end = {"exitCode": code, "reason": reason, "finishedAt": ago(ended)} | ({"message": message} if message else {})
    waiting = {"reason": "CrashLoopBackOff", "message": "back-off 40s restarting failed container"}
    return {
        "ready": False,
        "restartCount": restarts,
        "state": {"waiting": waiting},
        "lastState": {"terminated": end},
    }


def between_crashes(code: int = 2, restarts: int = 6) -> Object:
    """A container that was started again 20 s ago."""
    end = {"exitCode": code, "reason": "Error", "startedAt": ago(140), "finishedAt": ago(100)}
    running = {"running": {"startedAt": ago(20)}}
    return {"ready": True, "restartCount": restarts, "state": running, "lastState": {"terminated": end}}


def waiting(reason: str, message: str) -> Object:
    """A container that does not start."""
    state = {"waiting": {"reason": reason, "message": message}}
    return {"ready": False, "restartCount": 0, "state": state, "lastState": {}}


def plugin(on: str = "gpu-1", device: Object | None = None, monitor: Object | None = None, **fields: Any) -> Object:
    """The device plugin's pod of a node; both of its containers have been running for two hours, unless told."""
    statuses = [{"name": "device-plugin"} | (device or RUNS), {"name": "vgpu-monitor"} | (monitor or RUNS)]
    ready = all(status["ready"] for status in statuses)
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    images = [{"name": status["name"], "image": "docker.io/projecthami/hami:v2.10.0"} for status in statuses]
    name = f"hami-device-plugin-{on}"
    one = pod(name, {}, namespace=HAMI, labels=PLUGIN, nodeName=on, age=9000, containers=images, **fields)
    one["status"] = {"phase": "Running", "conditions": conditions, "containerStatuses": statuses}
    return one


def rival(on: str = "gpu-1", image: str = "nvcr.io/nvidia/k8s-device-plugin:v0.17.1", **fields: Any) -> Object:
    """Another device plugin's pod."""
    main = {"name": fields.pop("container", "nvidia-device-plugin-ctr"), "image": image}
    one = pod(f"other-{on}", {}, namespace="gpu-operator", nodeName=on, containers=[main], **fields)
    one["status"] = {"phase": "Running"}
    return one


def counted(on: str = "gpu-1", *, capacity: int, allocatable: int, **fields: Any) -> Object:
    """A node with two registered T4 of ten slots each; kubelet counts and offers that many."""
    one = gpu_node(on, card(f"GPU-{on}-a"), card(f"GPU-{on}-b"), **fields)
    status = one["status"]
    status["capacity"] = status["capacity"] | {"nvidia.com/gpu": str(capacity)}
    status["allocatable"] = status["allocatable"] | {"nvidia.com/gpu": str(allocatable)}
    return one


def refused_pod(message: str = NONE_HEALTHY, on: str = "gpu-1") -> Object:
    """A pod that kubelet refused two minutes ago."""
    annotations = given(on, ("GPU-a", 1000, 0)) | {"hami.io/bind-phase": "allocating"}
    one = pod(annotations=annotations, nodeName=on)
    one["status"] = {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": message, "startTime": ago(120)}
    return one


def unlabelled(name: str = "gpu-9", **fields: Any) -> Object:
    """A node with a GPU by a label of Node Feature Discovery, and without HAMi's."""
    return node(name, labels={NO_LABEL: "true"} | fields.pop("labels", {}), **fields)


def bare(on: str = "gpu-1") -> Object:
    """A node with two GPUs of which neither HAMi nor kubelet knows."""
    one = counted(on, capacity=0, allocatable=0)
    one["metadata"]["annotations"] = {}
    return one


def behind(
    offered: int, *, of: int = 20, said: str = NONE_HEALTHY, device: Object | None = None, **fields: Any
) -> list[Object]:
    """The refused pod, its node of which kubelet offers so many devices, and the device plugin there."""
    return [refused_pod(said), counted(capacity=of, allocatable=offered, **fields), plugin(device=device)]


def dead(**device: Any) -> list[Object]:
    """The refused pod, a node of which kubelet offers nothing, and its device plugin between two starts."""
    return behind(0, device=crashing(**device))


def why(tmp_path: Path, *objects: Object, log: str = "", previous: str = "", **recorded: Any) -> Report:
    """About the pod; the plugin's logs are there, empty unless told."""
    others = {PLUGIN_LOG: log, f"{PLUGIN_LOG}.previous": previous, MONITOR_LOG: "", f"{MONITOR_LOG}.previous": ""}
    return ask(tmp_path, cluster(*objects), others=others | recorded.pop("others", {}), **recorded)
