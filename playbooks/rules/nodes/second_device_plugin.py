"""A second device plugin for HAMi's GPU resource on one node: kubelet takes whichever registered last.

Both listen on the same socket file, and the one that lost logs nothing and stays ready (HAMi#829, HAMi#736, HAMi#587;
HAMi v2.10.0 and NVIDIA/k8s-device-plugin server.go). So the figures tell, and the other plugin's pod.
"""

import re

from bot.hami.vendors import FIRST
from bot.kube.hami_pods import is_plugin
from bot.kube.models import Node, Pod
from bot.report import Finding, Gap, NextAction, step
from bot.texts import Text
from playbooks import quotes
from playbooks.gather.node_side import NodeSide
from playbooks.quotes import kubectl
from playbooks.rule import rule
from playbooks.rules.common import prose
from playbooks.rules.nodes.causes import NodeCause, by_cause
from playbooks.scenes.nodes import NodeScene, NodesScene

_IMAGES = re.compile(r"(k8s-device-plugin|nvidia-gpu-device-plugin|gpushare-device-plugin|gpu-manager|cgpu|nvshare)\b")
_OTHER_WORK = re.compile(r"feature-discovery|mps|config-manager|validat|mock")
"""Containers that run from the same images and serve no resource: GPU Feature Discovery, the MPS daemon."""
_LABELS = (
    ("name", "nvidia-device-plugin-ds"),
    ("app", "nvidia-device-plugin-daemonset"),
    ("app.kubernetes.io/name", "nvidia-device-plugin"),
    ("k8s-app", "nvidia-gpu-device-plugin"),
)
"""Of NVIDIA's manifest, the GPU Operator, NVIDIA's chart, and GKE."""
_SHARED = ("", "hami-core")


@rule("second-device-plugin")
def second_plugin(scene: NodesScene) -> list[Finding]:
    """Kubelet counts another number of devices than HAMi registered, and another plugin runs there or fits the number.

    Nothing where HAMi hands out one slot per GPU, or MIG devices: then the numbers cannot tell.
    """
    return by_cause(scene, counted_otherwise, ["second-device-plugin"])


def counted_otherwise(node: NodeScene) -> list[NodeCause]:
    """The same of one node that was read by itself."""
    if node.side is None or not node.was_read or FIRST not in node.vendors:
        return []
    gpus = node.gpus
    shared = gpus.slots > len(gpus.cards) and all(card.mode in _SHARED for card in gpus.cards)
    if not shared or gpus.capacity in (0, gpus.slots):
        return []
    others = rivals(node.side)
    if not others and gpus.capacity != len(gpus.cards):
        return []
    counted = str((node.node.status.capacity or {})[gpus.resource])
    entry = quotes.entry_of(_register(node.node), gpus.cards[0].uuid)
    proofs = [
        quotes.of_node(node.node, counted, _capacity_path(gpus.resource)),
        quotes.of_node_annotation(node.node, FIRST.names.register, entry),
        *(quotes.of_pod_name(pod) for pod in others),
    ]
    claim = Text(
        "second-device-plugin.claim" if others else "second-device-plugin.unseen",
        node=node.name,
        resource=gpus.resource,
        offered=gpus.capacity,
        slots=gpus.slots,
        others=prose.some([f"{pod.namespace}/{pod.name}" for pod in others]) if others else "",
    )
    steps = [_look(node.name)]
    if own := node.side.plugin_pods:
        restart = quotes.kubectl_pod(own[0], "delete")
        steps.append(step(Text("second-device-plugin.restart"), restart, changes_cluster=True))
    why = f"{gpus.resource} {gpus.capacity} {gpus.slots}{' seen' if others else ''}"
    sure = "confirmed" if others else "suspected"
    return [NodeCause("second-device-plugin", why, node.name, claim, proofs, steps, sure)]


def rivals(side: NodeSide) -> list[Pod]:
    """The pods of other device plugins on the node; empty also where pods could not be read."""
    pods = () if isinstance(side.pods, Gap) else side.pods
    return [pod for pod in pods if pod.status.phase == "Running" and not is_plugin(pod) and _is_rival(pod)]


def _is_rival(pod: Pod) -> bool:
    serving = [container for container in pod.spec.containers if not _OTHER_WORK.search(container.name)]
    by_image = any(_IMAGES.search(container.image) for container in serving)
    return by_image or bool(serving and any(pod.metadata.label(key) == value for key, value in _LABELS))


def _look(node: str) -> NextAction:
    pods = kubectl("get", "pods", "-A", "-o", "wide", "--field-selector", f"spec.nodeName={node}")
    return step(Text("second-device-plugin.look"), pods)


def _capacity_path(resource: str) -> str:
    return "{.status.capacity." + resource.replace(".", "\\.") + "}"


def _register(node: Node) -> str:
    return node.metadata.annotation(FIRST.names.register) or ""
