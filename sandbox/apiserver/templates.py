"""Pods and ReplicaSets as controllers make them from a Deployment, in the shape that a cluster gave the old ones."""

import copy
import hashlib
from typing import Any, NamedTuple

import msgspec

from sandbox.apiserver.entries import Object

HASH_LABEL = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_TOKEN_VOLUME = "kube-api-access-"  # noqa: S105  # the volume that admission adds, and its mounts


class Made(NamedTuple):
    """The uid and time that a new object is given."""

    uid: str
    now: str


def template_hash(template: Object) -> str:
    """Ten characters that stand for a pod template."""
    digest = hashlib.sha256(msgspec.json.encode(template, order="deterministic")).digest()
    return "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in digest[:10])


def same_template(replica_set: Object, template: Object) -> bool:
    """Whether a ReplicaSet was made from that template."""
    own = copy.deepcopy(replica_set["spec"]["template"])
    (own.get("metadata", {}).get("labels") or {}).pop(HASH_LABEL, None)
    return own == template


def replica_set_of(deployment: Object, revision: int, surge: int, made: Made) -> Object:
    """The ReplicaSet of a Deployment's present template, without replicas."""
    metadata, spec = deployment["metadata"], deployment["spec"]
    template = copy.deepcopy(spec["template"])
    name = template_hash(template)
    labels = template.setdefault("metadata", {}).setdefault("labels", {})
    labels[HASH_LABEL] = name
    selector = {"matchLabels": {**spec["selector"].get("matchLabels", {}), HASH_LABEL: name}}
    replicas = spec.get("replicas", 1)
    annotations = {
        "deployment.kubernetes.io/desired-replicas": str(replicas),
        "deployment.kubernetes.io/max-replicas": str(replicas + surge),
        REVISION: str(revision),
    }
    return {
        "kind": "ReplicaSet",
        "apiVersion": "apps/v1",
        "metadata": {
            "name": f"{metadata['name']}-{name}",
            "namespace": metadata["namespace"],
            "uid": made.uid,
            "generation": 1,
            "creationTimestamp": made.now,
            "labels": dict(labels),
            "annotations": annotations,
            "ownerReferences": [owner_reference(deployment)],
        },
        "spec": {"replicas": 0, "selector": selector, "template": template},
        "status": {"replicas": 0},
    }


def owner_reference(owner: Object) -> Object:
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def owned_by(item: Object, owner: Object) -> bool:
    """Whether `owner` is the controller of `item`."""
    references = item["metadata"].get("ownerReferences") or ()
    return any(
        reference.get("controller") and reference["uid"] == owner["metadata"].get("uid") for reference in references
    )


def pod_of(replica_set: Object, suffix: str, sibling: Object | None, node: str, made: Made) -> Object:
    """A pod of a ReplicaSet that has a node and whose containers are being created. What a cluster adds to the template
    (tolerations, priority, the token volume) is taken from `sibling`.
    """
    metadata, template = replica_set["metadata"], replica_set["spec"]["template"]
    spec = _spec(copy.deepcopy(template["spec"]), sibling, suffix)
    spec["nodeName"] = node
    names = [container["name"] for container in spec["containers"]]
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": f"{metadata['name']}-{suffix}",
            "generateName": f"{metadata['name']}-",
            "namespace": metadata["namespace"],
            "uid": made.uid,
            "generation": 1,
            "creationTimestamp": made.now,
            "labels": dict(template["metadata"]["labels"]),
            **({"annotations": template["metadata"]["annotations"]} if template["metadata"].get("annotations") else {}),
            "ownerReferences": [owner_reference(replica_set)],
        },
        "spec": spec,
        "status": {
            "phase": "Pending",
            "conditions": _conditions({"PodScheduled": "True", "Initialized": "True"}, names, made.now),
            "hostIP": (sibling or {}).get("status", {}).get("hostIP", "127.0.1.1"),
            "startTime": made.now,
            "containerStatuses": [_waiting(container) for container in spec["containers"]],
            "qosClass": (sibling or {}).get("status", {}).get("qosClass", "BestEffort"),
        },
    }


def running(pod: Object, ip: str, number: int, now: str) -> Object:
    """The pod's status once every container runs and is ready."""
    true = dict.fromkeys(
        ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"), "True"
    )
    return pod["status"] | {
        "phase": "Running",
        "conditions": _conditions(true, [], now),
        "podIP": ip,
        "podIPs": [{"ip": ip}],
        "containerStatuses": [
            {
                "name": container["name"],
                "state": {"running": {"startedAt": now}},
                "lastState": {},
                "ready": True,
                "restartCount": 0,
                "image": container["image"],
                "imageID": "docker.io/x@sha256:" + "0" * 64,
                "containerID": f"containerd://{number:032x}{index:032x}",
                "started": True,
            }
            for index, container in enumerate(pod["spec"]["containers"])
        ],
    }


def is_ready(pod: Object) -> bool:
    conditions = pod.get("status", {}).get("conditions") or ()
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def _spec(spec: Object, sibling: Object | None, suffix: str) -> Object:
    """The pod spec of a template with what admission adds to it, as it did to the sibling's."""
    if sibling is None:
        return spec
    old = sibling["spec"]
    for field in ("tolerations", "priority", "enableServiceLinks", "preemptionPolicy"):
        if field in old:
            spec.setdefault(field, old[field])
    volume: Any = next(
        (volume for volume in old.get("volumes") or () if volume["name"].startswith(_TOKEN_VOLUME)), None
    )
    if volume is None:
        return spec
    name = _TOKEN_VOLUME + suffix
    spec["volumes"] = [*(spec.get("volumes") or ()), {**volume, "name": name}]
    mount = {"name": name, "readOnly": True, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}
    for container in spec["containers"]:
        container["volumeMounts"] = [*(container.get("volumeMounts") or ()), mount]
    return spec


def _waiting(container: Object) -> Object:
    return {
        "name": container["name"],
        "state": {"waiting": {"reason": "ContainerCreating"}},
        "lastState": {},
        "ready": False,
        "restartCount": 0,
        "image": container["image"],
        "imageID": "",
        "started": False,
    }


def _conditions(true: Object, unready: list[str], now: str) -> list[Object]:
    shown = [{"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": now} for kind in true]
    if unready:
        why = {"reason": "ContainersNotReady", "message": f"containers with unready status: [{' '.join(unready)}]"}
        shown += [
            {"type": kind, "status": "False", "lastProbeTime": None, "lastTransitionTime": now, **why}
            for kind in ("Ready", "ContainersReady")
        ]
    return shown
