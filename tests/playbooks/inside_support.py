"""Pods whose containers run, end or restart, with what their environment says, and questions about them."""

from pathlib import Path
from typing import Any

from bot.report import Report
from tests.playbooks.world import Object, ago, ask, card, cluster, container, given, gpu, gpu_node, plugin_pod, pod

HALF = given("gpu-1", ("GPU-0", 8000, 0))
WHOLE = given("gpu-1", ("GPU-0", 16384, 100))
TWO_WHOLE = given("gpu-1", ("GPU-0", 16384, 100), ("GPU-1", 16384, 100))
CORE = "[HAMI-core {} (pid:1 thread=140 allocator.c:52)]: "
OOM = CORE.format("ERROR") + "Device 0 OOM 17179869184 / 16777216000"
WAIT = "[HAMI-core Warn(1:140:multiprocess_memory_limit.c:764)]: Lock shrreg timeout (trial {}/30), owner=4711"
WAITS = "\n".join(WAIT.format(trial) for trial in (1, 2, 3))
STARTS = "[HAMI-core Msg(1:140:libvgpu.c:838)]: Initializing....."
NCCL = "(Worker pid=9) INFO 11-20 09:50:09 [pynccl.py:113] vLLM is using nccl==2.28.9"
PRELOAD = "ERROR: ld.so: object '/usr/local/vgpu/libvgpu.so' from /etc/ld.so.preload cannot be preloaded ({}): ignored."
GONE, SHORT = PRELOAD.format("cannot open shared object file"), PRELOAD.format("file too short")
ILLEGAL = CORE.format("ERROR") + "Illegal device id: -644371744"
LIBCUDA = "{}libcuda.so{}: cannot open shared object file: No such file or directory"
MISSING, LOST = LIBCUDA.format("ImportError: ", ".1"), "pynvml.NVMLError_GpuIsLost: GPU is lost"
NO_NVML = "Failed to initialize NVML: Unknown Error"


def ended(code: int, finished: float = 30, lasted: float = 9, **fields: object) -> Object:
    one = {"exitCode": code, "reason": "Error", "startedAt": ago(finished + lasted), "finishedAt": ago(finished)}
    return {"terminated": one | fields}


def looping(code: int, restarts: int = 3, name: str = "main", **times: float) -> Object:
    """A container in its back-off."""
    state = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s"}}
    return {"name": name, "state": state, "lastState": ended(code, **times), "restartCount": restarts}


def runs(name: str = "main", **fields: object) -> Object:
    return {"name": name, "ready": True, "restartCount": 0, "state": {"running": {"startedAt": ago(900)}}} | fields


def placed(*statuses: Object, annotations: Object = HALF, age: float = 1000, **fields: Any) -> Object:
    """Its container asks for what the annotations give it, unless told."""
    fields = {"limits": asked_for(annotations)} | fields
    status = {"phase": "Running", "startTime": ago(age), "containerStatuses": list(statuses or [runs()])}
    return pod(annotations=annotations, nodeName="gpu-1", age=age, status=status, **fields)


def asked(
    tmp_path: Path, one: Object, *others: Object, log: str = "ready\n", last: str = "", allowed: bool = True
) -> Report:
    """What `why` says. `log` and `last`, of the run before, are the container's; an empty one is not recorded."""
    logs = {name: text for name, text in (("ml/wl/main", log), ("ml/wl/main.previous", last)) if text}
    node = gpu_node("gpu-1", card("GPU-0"), card("GPU-1"))
    return ask(tmp_path, cluster(one, node, *others), others=logs, settings={"workload_logs": allowed})


def with_container(annotations: Object = HALF, limits: Object | None = None, **fields: Any) -> Object:
    more = {key: fields.pop(key) for key in ("volumes", "runtimeClassName") if key in fields}
    return placed(annotations=annotations, containers=[container(limits or asked_for(annotations), **fields)], **more)


def asked_for(annotations: Object) -> Object:
    """The limits of a container that was given this."""
    text: str = next(filter(None, str(annotations.get("hami.io/vgpu-devices-allocated", "")).split(";")), "")
    shares = [share.split(",") for share in text.split(":") if "," in share]
    return gpu(len(shares), shares[0][2], int(shares[0][3]) or None) if shares else gpu(memory=1000)


def env(name: str, value: str) -> Object:
    return {"env": [{"name": name, "value": value}]}


OFF = env("CUDA_DISABLE_CONTROL", "true")


def plugin(started: float, image: str = "docker.io/projecthami/hami:v2.10.0", **fields: object) -> Object:
    """HAMi's device plugin of gpu-1, running for so many seconds."""
    one = plugin_pod("gpu-1")
    one["spec"]["containers"] = [{"name": "device-plugin", "image": image}]
    state = {"name": "device-plugin", "ready": True, "state": {"running": {"startedAt": ago(started)}}} | fields
    one["status"]["containerStatuses"] = [state]
    return one
