"""The labels by which a node is known to have NVIDIA GPUs, whatever HAMi does there."""

from bot.kube.models import Node

_LABELS = (
    *("nvidia.com/gpu.present", "nvidia.com/gpu.count", "nvidia.com/gpu.product"),  # GPU Feature Discovery
    # NFD, vendor id 10de
    *(f"feature.node.kubernetes.io/pci-{prefix}10de.present" for prefix in ("", "0302_", "0300_")),
    *("cloud.google.com/gke-accelerator", "k8s.amazonaws.com/accelerator"),
)


def gpu_label(node: Node) -> str:
    """The label by which the node is known to have NVIDIA GPUs, empty when none says so."""
    for key in _LABELS:
        value = node.metadata.label(key) or ""
        if value.startswith("nvidia") if "accelerator" in key else value not in ("", "false", "0"):
            return key
    return ""
