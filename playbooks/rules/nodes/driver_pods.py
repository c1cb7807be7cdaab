"""The pod that loads the NVIDIA driver on a node, where the GPU Operator or an image of its own does so.

HAMi's device plugin ends as long as that pod is not ready (HAMi#272, HAMi#136; NVIDIA gpu-operator's driver DaemonSet).
"""

import re

from bot.hami.installation.install import is_ready
from bot.kube.models import Pod
from bot.report import Finding, Gap, step
from bot.texts import Text, unstopped
from playbooks import quotes
from playbooks.gather.node_side import NodeSide
from playbooks.rules.common.containers import statuses, stuck

_LABELS = (("app", "nvidia-driver-daemonset"), ("app.kubernetes.io/component", "nvidia-driver"))
_IMAGE = re.compile(r"(?:^|/)(?:nvidia/driver|nvidia-driver\b[\w-]*)[:@]")


def without_driver(side: NodeSide, ended: Finding) -> Finding:
    """The end of the device plugin, told as a missing driver where the node's driver pod is not ready."""
    pods = () if isinstance(side.pods, Gap) else side.pods
    driver = next((pod for pod in pods if _loads_driver(pod) and not is_ready(pod)), None)
    if driver is None:
        return ended
    name = f"{driver.namespace}/{driver.name}"
    waiting = next(
        (status.state.waiting for status in statuses(driver) if stuck(status) and status.state.waiting), None
    )
    quote, path = (
        (waiting.reason, "{.status..state.waiting.reason}") if waiting else (driver.status.phase, "{.status.phase}")
    )
    claim = Text("driver-not-loaded.pod", claim=unstopped(ended.text), pod=name, why=quote)
    look = step(Text("driver-not-loaded.look", pod=name), quotes.kubectl_pod(driver, "describe"))
    proofs = (quotes.of_pod(driver, quote, path), *ended.evidence)
    return ended.saying(
        claim,
        code="driver-not-loaded",
        confidence="suspected",
        evidence=proofs,
        next_actions=(look, *ended.next_actions),
    )


def _loads_driver(pod: Pod) -> bool:
    labelled = any(pod.metadata.label(key) == value for key, value in _LABELS)
    return labelled or any(_IMAGE.search(part.image) for part in pod.spec.containers)
