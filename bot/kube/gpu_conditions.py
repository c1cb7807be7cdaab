"""Node conditions by which other programs report a faulty GPU: who sets them, and which status means trouble.

A condition that no row names is nobody's verdict here: whoever answers quotes it and judges nothing.
"""

import re
from typing import Literal, NamedTuple

from bot.kube.models import Node, NodeCondition


class Emitter(NamedTuple):
    """One program. `types` matches its condition types whole; `faulty` is the status that means a faulty GPU.

    `unless` matches a reason or message that means something else.
    """

    name: str
    types: str
    faulty: Literal["True", "False"]
    source: str
    unless: str = ""


EMITTERS = (
    Emitter(
        "NVSentinel",
        r"Gpu[A-Z]\w*Watch|SysLogs(XIDError|SXIDError|GPUFallenOff)",
        "True",
        "docs.nvidia.com/nvsentinel/components: gpu-health-monitor, syslog-health-monitor; reasons end in IsNotHealthy",
        unless="DCGM_FR_IMEX_UNHEALTHY",  # idle or single-node NVSwitch hosts: NVIDIA/NVSentinel#1471
    ),
    Emitter(
        "EKS node monitoring agent",
        "AcceleratedHardwareReady",
        "False",
        "docs.aws.amazon.com/eks/latest/userguide/node-health-nma.html",
        unless="^DCGMError$",  # the agent lost DCGM, which says nothing of a GPU
    ),
    Emitter(
        "AKS node-problem-detector",
        "GPUMissing|XIDErrors|NVLinkStatusInactive",
        "True",
        "learn.microsoft.com/azure/aks/gpu-health-monitoring, node-problem-detector",
    ),
    Emitter("Nebius node-problem-detector", "NebiusGPUError", "True", "docs.nebius.com/kubernetes/maintenance"),
    Emitter(
        "GCM health checks",
        "GcmXidErrorsProblem",
        "True",
        "facebookresearch.github.io/gcm/docs/GCM_Health_Checks/kubernetes_deployment",
    ),
)


def faulty_gpu(node: Node) -> tuple[Emitter, NodeCondition] | None:
    """The first condition of the node that says that one of its GPUs is faulty."""
    for condition in node.status.conditions or ():
        for emitter in EMITTERS:
            if condition.status == emitter.faulty and re.fullmatch(emitter.types, condition.type):
                said = emitter.unless and any(
                    re.search(emitter.unless, text) for text in (condition.reason, condition.message)
                )
                if not said:
                    return emitter, condition
    return None
