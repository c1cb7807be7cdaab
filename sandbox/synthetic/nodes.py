"""GPU nodes as HAMi 2.10 leaves them, at the size of real ones."""

import json
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

import msgspec

from sandbox.synthetic.objects import Mint, Object, managed

SLOTS_PER_CARD = 10  # HAMi's default deviceSplitCount

_IMAGES = 18
_HANDSHAKES = ("", "-biren", "-dcu", "-va", "-xpu")  # 2.10 writes all of them on every node
_CONDITIONS = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)
_REPOSITORIES = (
    "nvcr.io/nvidia/pytorch",
    "nvcr.io/nvidia/tritonserver",
    "docker.io/vllm/vllm-openai",
    "docker.io/projecthami/hami",
    "registry.k8s.io/kube-proxy",
    "docker.io/library/python",
    "quay.io/prometheus/node-exporter",
)
_ANNOTATIONS = {
    "kubeadm.alpha.kubernetes.io/cri-socket": "unix:///run/containerd/containerd.sock",
    "node.alpha.kubernetes.io/ttl": "0",
    "volumes.kubernetes.io/controller-managed-attach-detach": "true",
}
_LABELS = {  # the last ones are what node and GPU feature discovery write, in part
    "beta.kubernetes.io/arch": "amd64",
    "beta.kubernetes.io/os": "linux",
    "gpu": "on",
    "kubernetes.io/arch": "amd64",
    "kubernetes.io/os": "linux",
    "topology.kubernetes.io/region": "lab",
    "topology.kubernetes.io/zone": "lab-a",
    "feature.node.kubernetes.io/cpu-hardware_multithreading": "true",
    "feature.node.kubernetes.io/cpu-model.family": "6",
    "feature.node.kubernetes.io/cpu-model.vendor_id": "Intel",
    "feature.node.kubernetes.io/kernel-version.full": "5.15.0-119-generic",
    "feature.node.kubernetes.io/kernel-version.major": "5",
    "feature.node.kubernetes.io/kernel-version.minor": "15",
    "feature.node.kubernetes.io/memory-numa": "true",
    "feature.node.kubernetes.io/pci-10de.present": "true",
    "feature.node.kubernetes.io/system-os_release.ID": "ubuntu",
    "feature.node.kubernetes.io/system-os_release.VERSION_ID": "22.04",
    "nvidia.com/cuda.driver-version.full": "570.86.15",
    "nvidia.com/cuda.driver-version.major": "570",
    "nvidia.com/cuda.runtime-version.full": "12.8",
    "nvidia.com/gpu.machine": "lab-8x",
    "nvidia.com/gpu.present": "true",
    "nvidia.com/gpu.replicas": "1",
    "nvidia.com/mig.capable": "true",
    "nvidia.com/mig.strategy": "none",
}


class Model(NamedTuple):
    """A kind of card as HAMi registers it."""

    pool: str
    type: str
    memory_mib: int


A100 = Model("a100", "NVIDIA A100-SXM4-80GB", 81920)
H100 = Model("h100", "NVIDIA H100 80GB HBM3", 81559)
V100 = Model("v100", "NVIDIA-Tesla V100-SXM2-32GB", 32768)
T4 = Model("t4", "NVIDIA-Tesla T4", 15360)


@dataclass(slots=True)
class Card:
    """A card and what pods hold of it."""

    uuid: str
    model: Model
    used_mib: int = 0
    used_cores: int = 0
    slots: int = 0

    def take(self, memory_mib: int, cores: int) -> bool:
        """Gives a pod that much of the card; False if it has not that much left. One slot always stays free."""
        fits = self.used_mib + memory_mib <= self.model.memory_mib and self.used_cores + cores <= 100
        if not fits or self.slots + 2 > SLOTS_PER_CARD:
            return False
        self.used_mib += memory_mib
        self.used_cores += cores
        self.slots += 1
        return True


@dataclass(slots=True)
class GpuNode:
    """A node object and its cards."""

    item: Object
    cards: list[Card] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.item["metadata"]["name"]

    @property
    def address(self) -> str:
        return self.item["status"]["addresses"][0]["address"]


def gpu_node(mint: Mint, index: int, model: Model, gpus: int) -> GpuNode:
    """A healthy, registered node with that many cards. Its managedFields are shared with other nodes."""
    name = f"gpu-node-{index:05d}"
    template, managed_fields = _template(mint.ago(days=90), gpus)
    node = GpuNode(msgspec.json.decode(template))
    node.cards = [Card(f"GPU-{mint.uid()}", model) for _ in range(gpus)]
    node.item["metadata"] |= {"name": name, "uid": mint.uid(), "resourceVersion": mint.version()}
    node.item["metadata"]["managedFields"] = managed_fields
    node.item["metadata"]["labels"] |= {
        "kubernetes.io/hostname": name,
        "node.kubernetes.io/instance-type": f"{model.pool}-x{gpus}",
        "pool": model.pool,
        "nvidia.com/gpu.product": model.type.replace(" ", "-"),
        "nvidia.com/gpu.memory": str(model.memory_mib),
        "nvidia.com/gpu.count": str(gpus),
    }
    # The scheduler stamps the handshake once; nobody answers it, so it is as old as the scheduler.
    stamp = "Requesting_" + mint.ago(days=30).replace("T", " ").removesuffix("Z")
    node.item["metadata"]["annotations"] |= {f"hami.io/node-handshake{suffix}": stamp for suffix in _HANDSHAKES}
    node.item["metadata"]["annotations"]["hami.io/node-nvidia-register"] = _register(node.cards)
    node.item["status"]["addresses"] = [
        {"type": "InternalIP", "address": f"127.1.{index >> 8 & 255}.{index & 255}"},
        {"type": "Hostname", "address": name},
    ]
    node.item["status"]["nodeInfo"] |= {"machineID": mint.uid(), "systemUUID": mint.uid(), "bootID": mint.uid()}
    return node


def _register(cards: list[Card]) -> str:
    """The register annotation: JSON without the zero values, as Go's omitempty writes it."""
    devices = []
    for index, card in enumerate(cards):
        numa = int(index >= len(cards) / 2)
        device = {"id": card.uuid, "index": index, "count": SLOTS_PER_CARD, "devmem": card.model.memory_mib}
        device |= {"devcore": 100, "type": card.model.type, "numa": numa, "mode": "hami-core", "health": True}
        devices.append({key: value for key, value in device.items() if value})
    return json.dumps(devices, separators=(",", ":"))


@lru_cache(maxsize=4)
def _template(created: str, gpus: int) -> tuple[bytes, list[Object]]:
    """A node without what is its own (name, cards, address), and its managedFields."""
    status = _status(created, gpus)
    handshakes = {f"hami.io/node-handshake{suffix}": "" for suffix in _HANDSHAKES}
    register = {"hami.io/node-nvidia-register": ""}
    metadata = {
        "name": "",
        "uid": "",
        "resourceVersion": "",
        "creationTimestamp": created,
        "labels": _LABELS,
        "annotations": _ANNOTATIONS | handshakes | register,
    }
    managed_fields = [
        managed("kubelet", created, {"metadata": {"annotations": _ANNOTATIONS, "labels": _LABELS}}),
        managed("scheduler", created, {"metadata": {"annotations": handshakes}}),
        managed("nvidia-device-plugin", created, {"metadata": {"annotations": register}}),
        managed("kubelet", created, {"status": status}, subresource="status"),
    ]
    node = {"kind": "Node", "apiVersion": "v1", "metadata": metadata, "spec": {}, "status": status}
    return msgspec.json.encode(node), managed_fields


def _status(created: str, gpus: int) -> Object:
    capacity = {
        "cpu": "96",
        "ephemeral-storage": "1887436800Ki",
        "hugepages-1Gi": "0",
        "hugepages-2Mi": "0",
        "memory": "830472192Ki",
        "nvidia.com/gpu": str(gpus * SLOTS_PER_CARD),
        "pods": "250",
    }
    times = {"lastHeartbeatTime": created, "lastTransitionTime": created}
    node_info = {
        "kernelVersion": "5.15.0-119-generic",
        "osImage": "Ubuntu 22.04.4 LTS",
        "containerRuntimeVersion": "containerd://1.7.22",
        "kubeletVersion": "v1.34.1",
        "kubeProxyVersion": "",
        "operatingSystem": "linux",
        "architecture": "amd64",
    }
    return {
        "capacity": capacity,
        "allocatable": capacity | {"cpu": "95500m", "memory": "826172416Ki"},
        "conditions": [
            {"type": kind, "status": status, "reason": reason, "message": message} | times
            for kind, status, reason, message in _CONDITIONS
        ],
        "addresses": [],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
        "nodeInfo": node_info,
        "images": [_image(index) for index in range(_IMAGES)],
    }


def _image(index: int) -> Object:
    repository = _REPOSITORIES[index % len(_REPOSITORIES)]
    digest = f"{index + 1:02x}" * 32
    return {"names": [f"{repository}@sha256:{digest}", f"{repository}:24.{index:02d}-py3"], "sizeBytes": 10**9 + index}
