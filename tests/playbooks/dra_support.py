"""Dynamic resource allocation as HAMi-DRA installs it: its webhook, a driver's slices, claims and their pods."""

from typing import Any

from tests.playbooks.world import HAMI, NAMESPACE, Object, node, pod

DRIVER = "hami-core-gpu.project-hami.io"
"""The driver, and the DeviceClass that HAMi-DRA's webhook names."""


def dra_node(name: str = "dra-1") -> Object:
    """A GPU node without HAMi's device plugin: the label gpu=on is what HAMi-DRA's driver is selected by, too."""
    return node(name, labels={"gpu": "on", "nvidia.com/gpu.present": "true"})


def dra_webhook(name: str = "mutate.hami.io", release: str = "hami-dra") -> Object:
    service = {"name": f"{release}-webhook", "namespace": HAMI, "path": "/mutate"}
    return {
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": f"{release}-mutatingwebhookconfiguration"},
        "webhooks": [{"name": name, "clientConfig": {"service": service, "caBundle": "Q0E="}}],
    }


def resource_slice(on: str = "dra-1", *uuids: str, **fields: Any) -> Object:
    """The slice of a node with one device (or those of the uuids); `fields`: driver, generation, beta."""
    driver, generation = fields.get("driver", DRIVER), fields.get("generation", 1)
    attributes = [{"attributes": {"uuid": {"string": uuid}}} for uuid in uuids or (f"GPU-{on}",)]
    devices = [
        {"name": f"hami-gpu-{at}", **({"basic": one} if fields.get("beta") else one)}
        for at, one in enumerate(attributes)
    ]
    return {
        "kind": "ResourceSlice",
        "metadata": {"name": f"{on}-{driver}-{generation}x7kq"},
        "spec": {
            "driver": driver,
            "nodeName": on,
            "pool": {"name": on, "generation": generation, "resourceSliceCount": 1},
            "devices": devices,
        },
    }


def resource_claim(name: str = "half-gpu", *devices: tuple[str, str], **fields: Any) -> Object:
    """A claim that was given these devices (pool and name); `fields`: class_name, users, namespace, beta."""
    wanted = {"deviceClassName": fields.get("class_name", DRIVER)}
    status: Object = {}
    if devices:
        results = [{"driver": DRIVER, "pool": pool, "device": device, "request": "gpu"} for pool, device in devices]
        status["allocation"] = {"devices": {"results": results}}
    if users := fields.get("users", ()):
        status["reservedFor"] = [{"resource": "pods", "name": user, "uid": f"uid-{user}"} for user in users]
    return {
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": fields.get("namespace", NAMESPACE)},
        "spec": {"devices": {"requests": [{"name": "gpu"} | (wanted if fields.get("beta") else {"exactly": wanted})]}},
        "status": status,
    }


def claiming(name: str = "wl", claim: str = "half-gpu", **fields: Any) -> Object:
    """A pod as HAMi-DRA's webhook leaves it: labelled, a claim in the place of its resources."""
    claims = [{"name": "gpu", "resourceClaimName": claim}]
    usual = {"schedulerName": "default-scheduler", "labels": {"hami.io/dra": "true"}, "resourceClaims": claims}
    return pod(name, limits={}, **(usual | fields))


def templated(name: str = "wl", template: str = "one-gpu", made: str = "", **fields: Any) -> Object:
    """A pod whose claim is made from a template, or was."""
    claims = [{"name": "gpu", "resourceClaimTemplateName": template}]
    statuses = [{"name": "gpu", "resourceClaimName": made}] if made else []
    return claiming(name, resourceClaims=claims, status={"resourceClaimStatuses": statuses}, **fields)


def claim_template(name: str = "one-gpu") -> Object:
    return {"kind": "ResourceClaimTemplate", "metadata": {"name": name, "namespace": NAMESPACE}}


def queued(name: str = "wl") -> Object:
    """A pod that Kueue holds."""
    gates = [{"name": "kueue.x-k8s.io/admission"}]
    return pod(name, labels={"kueue.x-k8s.io/queue-name": "gpus"}, schedulingGates=gates)
