"""Pods of a busy cluster: shares of cards, plain services, finished jobs."""

from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache

import msgspec

from sandbox.synthetic.nodes import Card, GpuNode
from sandbox.synthetic.objects import Mint, Object, managed

SCHEDULER_NAME = "hami-scheduler"

_CONDITIONS = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
_TOKEN_MOUNT = {
    "name": "kube-api-access",
    "readOnly": True,
    "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
}
_TOKEN_SOURCES = [
    {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
    {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
    {
        "downwardAPI": {
            "items": [{"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]
        }
    },
]
_TOLERATIONS = [
    {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for key in ("not-ready", "unreachable")
]


def plain_pod(mint: Mint, name: str, namespace: str, node: GpuNode, *, succeeded: bool) -> Object:
    """A pod without a GPU that runs on the node, or has finished there."""
    pod = _pod(mint, name, namespace, hours_old=mint.random.randrange(2, 700), gpu=False)
    return _placed(mint, pod, node, succeeded=succeeded)


def gpu_pod(
    mint: Mint, name: str, namespace: str, node: GpuNode, cards: Sequence[Card], *, memory_mib: int, cores: int
) -> Object:
    """A running pod that holds that much of each of the cards of the node."""
    pod = _pod(mint, name, namespace, hours_old=mint.random.randrange(2, 300), gpu=True)
    _ask(pod, len(cards), memory_mib, cores)
    decided = str(int(datetime.fromisoformat(pod["metadata"]["creationTimestamp"]).timestamp()))
    pod["metadata"]["labels"]["hami.io/vgpu-node"] = node.name
    pod["metadata"]["annotations"] = {
        "hami.io/bind-phase": "success",
        "hami.io/bind-time": decided,
        "hami.io/vgpu-devices-allocated": "".join(f"{card.uuid},NVIDIA,{memory_mib},{cores}:" for card in cards) + ";",
        "hami.io/vgpu-devices-to-allocate": ";",  # erased container by container while the plugin allocates
        "hami.io/vgpu-node": node.name,
        "hami.io/vgpu-time": decided,
    }
    return _placed(mint, pod, node, succeeded=False)


def pending_pod(mint: Mint, name: str, namespace: str, memory_mib: int, condition_message: str) -> Object:
    """A pod that asks for one card with that much memory, and that no node could take."""
    pod = _pod(mint, name, namespace, hours_old=0, gpu=True)
    created = mint.ago(minutes=6)
    pod["metadata"]["creationTimestamp"] = created
    del pod["metadata"]["ownerReferences"]
    _ask(pod, 1, memory_mib, 0)
    condition = {
        "type": "PodScheduled",
        "observedGeneration": 1,
        "status": "False",
        "lastProbeTime": None,
        "lastTransitionTime": created,
        "reason": "Unschedulable",
        "message": condition_message,
    }
    pod["status"] = {"phase": "Pending", "conditions": [condition], "qosClass": "Burstable"}
    pod["metadata"]["managedFields"] = [
        pod["metadata"]["managedFields"][0],
        managed("kube-scheduler", created, {"status": {"conditions": [condition]}}, subresource="status"),
    ]
    return pod


def quantity(number: int) -> str:
    """The number as the API server writes it back: 20000 is `20k`."""
    return f"{number // 1000}k" if number and number % 1000 == 0 else str(number)


def _ask(pod: Object, count: int, memory_mib: int, cores: int) -> None:
    asked = {"nvidia.com/gpu": str(count), "nvidia.com/gpumem": quantity(memory_mib)}
    asked |= {"nvidia.com/gpucores": str(cores)} if cores else {}
    resources = pod["spec"]["containers"][0]["resources"]
    resources["limits"] |= asked
    resources["requests"] |= asked


def _pod(mint: Mint, name: str, namespace: str, *, hours_old: int, gpu: bool) -> Object:
    template, managed_fields = _template(mint.ago(hours=2), gpu=gpu)
    pod: Object = msgspec.json.decode(template)
    app = name.rsplit("-", 1)[0]
    pod["metadata"] |= {
        "name": name,
        "namespace": namespace,
        "uid": mint.uid(),
        "resourceVersion": mint.version(),
        "creationTimestamp": mint.ago(hours=hours_old),
        "managedFields": managed_fields,
    }
    pod["metadata"]["labels"] |= {"app": app, "app.kubernetes.io/instance": app}
    pod["metadata"]["ownerReferences"][0] |= {"name": app, "uid": mint.uid()}
    return pod


def _placed(mint: Mint, pod: Object, node: GpuNode, *, succeeded: bool) -> Object:
    """Binds the pod to the node, and gives it the status of one that runs or has finished there."""
    started = pod["metadata"]["creationTimestamp"]
    pod["spec"]["nodeName"] = node.name
    status = pod["status"]
    address = mint.pod_address()
    status |= {"hostIP": node.address, "startTime": started, "podIP": address, "podIPs": [{"ip": address}]}
    for condition in status["conditions"]:
        condition["lastTransitionTime"] = started
    container = status["containerStatuses"][0]
    container["containerID"] = f"containerd://{mint.random.getrandbits(256):064x}"
    container["state"] = {"running": {"startedAt": started}}
    if succeeded:
        ended = {"exitCode": 0, "reason": "Completed", "startedAt": started, "finishedAt": mint.ago(hours=1)}
        container |= {"ready": False, "started": False, "state": {"terminated": ended}}
        status["phase"] = "Succeeded"
        for condition in status["conditions"]:
            if condition["type"] in {"Ready", "ContainersReady"}:
                condition |= {"status": "False", "reason": "PodCompleted"}
    return pod


@lru_cache(maxsize=4)
def _template(managed_at: str, *, gpu: bool) -> tuple[bytes, list[Object]]:
    """A running pod without what is its own (name, node, devices, times), and its managedFields."""
    labels = {"app": "", "app.kubernetes.io/instance": "", "app.kubernetes.io/managed-by": "platform"}
    job = {"apiVersion": "batch/v1", "kind": "Job", "name": "", "uid": "", "controller": True}
    metadata: Object = {
        "name": "",
        "namespace": "",
        "uid": "",
        "resourceVersion": "",
        "generation": 1,
        "creationTimestamp": managed_at,
        "labels": labels,
        "ownerReferences": [job | {"blockOwnerDeletion": True}],
    }
    spec = _spec(gpu=gpu)
    status = _status(spec["containers"][0], managed_at)
    created = {name: spec[name] for name in ("containers", "dnsPolicy", "restartPolicy", "schedulerName")}
    of_kubelet = {name: value for name, value in status.items() if name != "containerStatuses"}
    managed_fields = [
        managed("kube-controller-manager", managed_at, {"metadata": {"labels": labels}, "spec": created}),
        managed("kubelet", managed_at, {"status": of_kubelet}, subresource="status"),
    ]
    pod = {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": spec, "status": status}
    return msgspec.json.encode(pod), managed_fields


def _spec(*, gpu: bool) -> Object:
    memory = "64Gi" if gpu else "512Mi"
    container = {
        "name": "main",
        "image": "nvcr.io/nvidia/pytorch:24.08-py3" if gpu else "docker.io/library/python:3.12-slim",
        "imagePullPolicy": "IfNotPresent",
        "command": ["python", "-m", "app.main"],
        "env": [{"name": "OMP_NUM_THREADS", "value": "8"}],
        "resources": {"limits": {"memory": memory}, "requests": {"cpu": "500m", "memory": memory}},
        "volumeMounts": [_TOKEN_MOUNT],
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    }
    return {
        "containers": [container],
        "volumes": [{"name": "kube-api-access", "projected": {"defaultMode": 420, "sources": _TOKEN_SOURCES}}],
        "dnsPolicy": "ClusterFirst",
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
        "priority": 0,
        "restartPolicy": "Never",
        "schedulerName": SCHEDULER_NAME if gpu else "default-scheduler",
        "securityContext": {},
        "serviceAccount": "default",
        "serviceAccountName": "default",
        "terminationGracePeriodSeconds": 30,
        "tolerations": _TOLERATIONS,
    }


def _status(container: Object, started: str) -> Object:
    """The status of a pod that runs; the addresses are filled in when it is placed."""
    running = {
        "name": container["name"],
        "image": container["image"],
        "imageID": f"docker.io/library/app@sha256:{'5e' * 32}",
        "containerID": "",
        "lastState": {},
        "ready": True,
        "restartCount": 0,
        "started": True,
        "state": {"running": {"startedAt": started}},
    }
    since = {"status": "True", "lastProbeTime": None, "lastTransitionTime": started}
    return {
        "phase": "Running",
        "conditions": [{"type": kind} | since for kind in _CONDITIONS],
        "containerStatuses": [running],
        "hostIP": "",
        "podIP": "",
        "podIPs": [],
        "qosClass": "Burstable",
        "startTime": started,
    }
