"""Pods whose containers run, end or restart, with what their environment says, and questions about them."""

from pathlib import Path
from typing import Any

from bot.report import Report
from tests.playbooks.world import (
    Object,
    ago,
    ask,
    card,
    cluster,
    container,
    given,
    gpu,
    gpu_node,
    pod,
)

HALF = given("gpu-1", ("GPU-0", 8000, 0))
WHOLE = given("gpu-1", ("GPU-0", 16384, 100))


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
