"""The parts of which the threads' situations are made: a healthy cluster of one GPU node, and what is wrong in it."""

from collections.abc import Sequence

from tests.playbooks.status_support import healthy
from tests.playbooks.world import (
    HAMI,
    Object,
    ago,
    card,
    container,
    event,
    given,
    gpu,
    gpu_node,
    node,
    none_of,
    pod,
    refused,
)
from tests.threads.thread import Scene

PLUGIN_LOG = f"{HAMI}/hami-device-plugin-gpu-1/device-plugin"
SHARE = given("gpu-1", ("GPU-gpu-1", 1000, 0))
NO_BINDING_POD = "rpc error: code = Unknown desc = no binding pod found on node gpu-1"


def base(*objects: Object, version: str = "2.10.0", without: Sequence[str] = (), nodes: int = 1) -> list[Object]:
    """A healthy installation and the objects; an object replaces the one of its kind and name.

    `without`: kinds, or names of objects, that are not there.
    """
    as_text = tuple(map(int, version.split("."))) < (2, 8, 0)
    gpus = [gpu_node(f"gpu-{number + 1}", text=as_text) for number in range(nodes)]
    plugins = [plugin(runs("device-plugin"), version=version, ready=True)]
    every = (*healthy(version, nodes), *gpus, *plugins, *objects)
    named = {(item["kind"], item["metadata"]["name"]): item for item in every}
    return [one for (kind, name), one in named.items() if kind not in without and name not in without]


def waiting(reasons: str, limits: Object | None = None, of: int = 1, **fields: object) -> Object:
    """A pod that HAMi's kube-scheduler refused for these reasons."""
    return pod(limits=limits, said=refused(none_of(of, reasons)), **fields)


def rejected(why: str, annotations: Object | None = None, **fields: object) -> Object:
    """A pod that kubelet did not admit on gpu-1, since Allocate failed."""
    message = f"Allocate failed due to {why}, which is unexpected"
    status = {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": message}
    given_to = SHARE if annotations is None else annotations
    return pod(annotations=given_to, nodeName="gpu-1", status=status, **fields)


def runs(name: str = "main", **fields: object) -> Object:
    """The status of a container that runs."""
    return {"name": name, "ready": True, "restartCount": 0, "state": {"running": {"startedAt": ago(900)}}} | fields


def looping(code: int, name: str = "main", finished: float = 30, lasted: float = 9, **end: object) -> Object:
    """The status of a container in its back-off, after it ended with that code."""
    times = {"startedAt": ago(finished + lasted), "finishedAt": ago(finished)}
    return {
        "name": name,
        "ready": False,
        "restartCount": 12,
        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container"}},
        "lastState": {"terminated": {"exitCode": code, "reason": "Error"} | times | end},
    }


def stuck(reason: str, message: str, name: str = "main") -> Object:
    """The status of a container that the runtime does not create."""
    return {
        "name": name,
        "ready": False,
        "restartCount": 0,
        "state": {"waiting": {"reason": reason, "message": message}},
    }


def placed(*statuses: Object, annotations: Object | None = None, **fields: object) -> Object:
    """A pod that HAMi gave a share of the GPU of gpu-1, with its containers' statuses."""
    status = {"phase": "Running", "startTime": ago(1000), "containerStatuses": list(statuses or [runs()])}
    given_to = SHARE if annotations is None else annotations
    return pod(annotations=given_to, nodeName="gpu-1", age=1000, status=status, **fields)


def inside(log: str, *statuses: Object, last: str = "", version: str = "2.10.0", **fields: object) -> Scene:
    """What `why` says of a placed pod with that log of its container, and of the run before."""
    logs = {"ml/wl/main": log, "ml/wl/main.previous": last}
    objects = base(placed(*statuses, **fields), version=version)
    return Scene(objects, recorded={"others": {name: text for name, text in logs.items() if text}})


def plugin(*statuses: Object, version: str = "2.10.0", ready: bool = False) -> Object:
    """HAMi's device plugin of gpu-1 with its containers' statuses."""
    image = f"docker.io/projecthami/hami:v{version}"
    names = [status["name"] for status in statuses] or ["device-plugin"]
    labels = {"app.kubernetes.io/component": "hami-device-plugin"}
    one = pod("hami-device-plugin-gpu-1", {}, namespace=HAMI, labels=labels, nodeName="gpu-1", age=9000)
    one["spec"]["containers"] = [{"name": name, "image": image} for name in names]
    conditions = [{"type": "Ready", "status": str(ready)}]
    return one | {"status": {"phase": "Running", "conditions": conditions, "containerStatuses": list(statuses)}}


def plugin_down(log: str = "", exit_code: int = 1, *, last: str = "", version: str = "2.10.0", **end: object) -> Scene:
    """What `why` says of a pod that waits because the device plugin of the only GPU node keeps ending."""
    status = looping(exit_code, "device-plugin", **end)
    bare = node("gpu-1", labels={"gpu": "on"}, allocatable={"nvidia.com/gpu": "0"})
    objects = base(bare, plugin(status, version=version), waiting("1 node unregistered"), version=version)
    logs = {PLUGIN_LOG: log, f"{PLUGIN_LOG}.previous": last}
    return Scene(objects, recorded={"others": {name: text for name, text in logs.items() if text}})


def created(reason: str, message: str, *objects: Object, version: str = "2.10.0", **fields: object) -> Scene:
    """What `why` says of a placed pod whose container is not created, in the runtime's words."""
    one = placed(stuck(reason, message), **fields)
    one["status"]["phase"] = "Pending"
    return Scene(base(one, event(one, "Failed", f"Error: {message}"), *objects, version=version))


def two_gpus(name: str = "gpu-1", **fields: object) -> Object:
    return gpu_node(name, card("GPU-0"), card("GPU-1"), **fields)


def privileged(limits: Object | None = None) -> list[Object]:
    """The containers of a pod that is privileged and asks for a GPU."""
    return [container(limits or gpu(memory=1000), securityContext={"privileged": True})]
