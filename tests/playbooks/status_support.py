"""A healthy installation of HAMi, and ways to change it."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bot.report import Report
from tests.playbooks.tables import table
from tests.playbooks.world import HAMI, PLUGIN, READY, Object, answer, gpu_node, pod, record, scheduler

ROLE = {"hami.io/scheduler-role": "leader"}
SERVICE = {"kind": "Service", "metadata": {"name": "hami-scheduler", "namespace": HAMI}}
CONFIG = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: hami-scheduler
extenders:
- urlPrefix: "https://127.0.0.1:443"
  filterVerb: filter
  bindVerb: bind
  nodeCacheCapable: true
  httpTimeout: 30s
  managedResources:
  - name: nvidia.com/gpu
    ignoredByScheduler: true
  - name: nvidia.com/gpumem
    ignoredByScheduler: true
  - name: nvidia.com/gpucores
    ignoredByScheduler: true
  - name: nvidia.com/gpumem-percentage
    ignoredByScheduler: true
"""
Change = Callable[[Object], None]


def image(version: str) -> str:
    return f"docker.io/projecthami/hami:v{version}"


def plugin_pod(on: str, status: Object = READY, age: float = 9000) -> Object:
    one = pod(f"hami-device-plugin-{on}", {}, namespace=HAMI, labels=PLUGIN, nodeName=on, age=age)
    return one | {"status": status}


def daemon_set(nodes: int, version: str = "2.10.0") -> Object:
    containers = [{"name": "device-plugin", "image": image(version), "command": ["nvidia-device-plugin", "-v=4"]}]
    return {
        "kind": "DaemonSet",
        "metadata": {"name": "hami-device-plugin", "namespace": HAMI, "labels": PLUGIN},
        "spec": {"template": {"spec": {"containers": containers, "nodeSelector": {"gpu": "on"}}}},
        "status": {"desiredNumberScheduled": nodes, "numberReady": nodes, "updatedNumberScheduled": nodes},
    }


def service(version: str = "2.10.0", kind: str = "NodePort") -> Object:
    component = {"app.kubernetes.io/component": "hami-scheduler"}
    labels = ROLE if tuple(map(int, version.split("."))) >= (2, 9, 0) else {}
    ports = [
        {"name": "http", "port": 443, "targetPort": 443, "nodePort": 31998},
        {"name": "monitor", "port": 31993, "targetPort": 9395, "nodePort": 31993},
    ]
    return SERVICE | {"spec": {"type": kind, "selector": component | labels, "ports": ports}}


def endpoints(*pods: str, ready: bool | None = True) -> Object:
    return {
        "kind": "EndpointSlice",
        "metadata": {
            "name": "hami-scheduler-x",
            "namespace": HAMI,
            "labels": {"kubernetes.io/service-name": "hami-scheduler"},
        },
        "endpoints": [
            {"conditions": {"ready": ready}, "targetRef": {"kind": "Pod", "namespace": HAMI, "name": name}}
            for name in pods
        ],
    }


def webhook(policy: str = "Ignore", **client: Any) -> Object:
    usual = {"service": {"namespace": HAMI, "name": "hami-scheduler"}, "caBundle": "Q0EK"}
    selector = {"matchExpressions": [{"key": "hami.io/webhook", "operator": "NotIn", "values": ["ignore"]}]}
    hook = {
        "name": "vgpu.hami.io",
        "failurePolicy": policy,
        "clientConfig": usual | client,
        "namespaceSelector": selector,
        "objectSelector": selector,
    }
    return {"kind": "MutatingWebhookConfiguration", "metadata": {"name": "hami-webhook"}, "webhooks": [hook]}


def scheduler_config(text: str = CONFIG, key: str = "config.yaml") -> Object:
    metadata = {
        "name": "hami-scheduler",
        "namespace": HAMI,
        "labels": {"app.kubernetes.io/component": "hami-scheduler"},
    }
    return {"kind": "ConfigMap", "metadata": metadata, "data": {key: text}}


def healthy(version: str = "2.10.0", nodes: int = 2, **fields: Any) -> list[Object]:
    """A whole installation in which nothing is wrong; `fields` go to `scheduler`."""
    flags = ["--http_bind=0.0.0.0:443", "--cert_file=/tls/tls.crt", "--metrics-bind-address=:9395"]
    installed = copy.deepcopy(scheduler(version, **fields | {"flags": [*flags, *fields.get("flags", ())]}))
    names = [f"gpu-{number + 1}" for number in range(nodes)]
    for item in installed:
        if item["kind"] == "Pod" and item["metadata"]["name"].endswith("-0"):
            item["metadata"]["labels"] = item["metadata"]["labels"] | ROLE
    return [
        *installed,
        daemon_set(nodes, version),
        *(gpu_node(name, text=version.startswith(("2.4", "2.5", "2.6", "2.7"))) for name in names),
        *map(plugin_pod, names),
        service(version),
        endpoints("hami-scheduler-0"),
        webhook(),
        scheduler_config(),
    ]


def configured(objects: list[Object], text: str, key: str = "config.yaml") -> list[Object]:
    """The installation with another configuration of its kube-scheduler."""
    kept = [object_ for object_ in objects if object_["kind"] != "ConfigMap" or "device-config.yaml" in object_["data"]]
    return [*kept, scheduler_config(text, key)]


def without(objects: list[Object], kind: str, name: str = "") -> list[Object]:
    return [object_ for object_ in objects if not (object_["kind"] == kind and name in object_["metadata"]["name"])]


def changed(objects: list[Object], kind: str, change: Change, name: str = "") -> list[Object]:
    """The objects with one of them changed."""
    objects = copy.deepcopy(objects)
    change(next(object_ for object_ in objects if object_["kind"] == kind and name in object_["metadata"]["name"]))
    return objects


def ask(tmp_path: Path, objects: list[Object], **recorded: Any) -> Report:
    return answer("status", record(tmp_path, objects, **recorded), {})


def component(report: Report, name: str) -> dict[str, str]:
    return next(row for row in table(report, "components") if row["component"] == name)
