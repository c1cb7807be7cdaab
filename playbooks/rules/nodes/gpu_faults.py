"""Rules about faulty GPUs of a node whose device plugin works: by kubelet's figures, the plugin's log, node conditions.

Kubelet offers as many slots fewer than it counts as the plugin calls unhealthy. When the plugin ends, kubelet offers
none for five minutes and then counts none (Kubernetes 1.36 pkg/kubelet/cm/devicemanager), so a zero tells about GPUs
only once the running plugin has registered.

If a second device plugin offers HAMi's GPU resource, kubelet takes the one that registered last. Both use the same
socket file, and the one that lost logs nothing and stays ready (HAMi#829, HAMi#736, HAMi#587; HAMi v2.10.0 and
NVIDIA/k8s-device-plugin server.go): only the figures, and the other plugin's pod, tell.
"""

import re
from collections.abc import Iterable
from datetime import datetime, timedelta

from msgspec import structs

from bot.hami.vendors import FIRST
from bot.kube.hami_pods import is_plugin
from bot.kube.models import Node, Pod
from bot.kube.node_conditions import reports_fault
from bot.kube.quantities import whole
from bot.kube.times import parse_time
from bot.report import Confidence, Finding, Gap, NextAction, act, step
from bot.texts import Text
from playbooks import quotes
from playbooks.gather.node_side import NodeSide
from playbooks.quotes import kubectl
from playbooks.rule import rule
from playbooks.rules.common import prose
from playbooks.rules.common.containers import plugin_statuses
from playbooks.rules.common.findings import fix_of
from playbooks.rules.common.holders import edit, of_owner
from playbooks.rules.nodes.causes import NodeCause, by_cause
from playbooks.rules.nodes.not_selected import kept_off
from playbooks.rules.nodes.plugin_faults import has_registered, in_plugin_log, plugin_faults
from playbooks.rules.waiting.unregistered_nodes import plugin_actions
from playbooks.scenes.nodes import NodeGpus, NodeScene, NodesScene

_UNKNOWN = timedelta(minutes=5)
_REGISTERED = timedelta(seconds=30)
"""How long a plugin's figures may take from its start, where its log shows that kubelet accepted it; else 5 min."""
MIG = "nvidia.com/mig-"


@rule("card-fault")
def faulty_gpus(scene: NodesScene) -> list[Finding]:
    """The findings that a node's GPU is faulty: by its device plugin's log, a node condition, or kubelet's figures."""
    return by_cause(scene, gpu_faults, ["card-fault"], of_all=True)


def gpu_faults(node: NodeScene) -> list[NodeCause]:
    """The cause that a GPU of this node is faulty, by the nearest witness; at most one. The log and kubelet's figures
    count only where the node's pods and logs were read, and its device plugin works.
    """
    if (side := node.side) is None:
        return list(filter(None, [reported(node.node)]))
    earlier = [*node.once(plugin_faults), *node.once(kept_off), *node.once(counted_otherwise)]
    if any(cause.code == "card-fault" for cause in earlier) or (node.among.vendors and FIRST not in node.vendors):
        return []
    works = node.was_read and FIRST in node.vendors and not earlier
    short, gpus = _short(node.node, node.gpus) if works else [], node.gpus
    unhealthy = works and any(not card.health for card in gpus.cards)
    if (short or unhealthy) and (logged := _logged(side, node.node, short)) is not None:
        return [logged]
    if (result := reported(node.node)) is not None:
        return [result]
    if not short or not _settled(side, node.among.now):
        return []
    # Kubelet's figures alone.
    name, figures = short[0], node.node.status
    capacity, offered = (figures.capacity or {})[name], (figures.allocatable or {}).get(name, 0)
    claim = Text("card-fault.counted", node=side.name, resource=name, capacity=str(capacity), offered=str(offered))
    proofs = [quotes.of_capacity(node.node, name), *(quotes.of_allocatable(node.node, each) for each in short)]
    steps, why = plugin_actions(side.name, side.plugin_pods or None), f"{name} {capacity} {offered}"
    sure: Confidence = "confirmed" if gpus.allocatable else "suspected"
    return [NodeCause("card-fault", why, side.name, claim, proofs, steps, confidence=sure)]


def _short(node: Node, gpus: NodeGpus) -> list[str]:
    """The GPU resources of which kubelet offers fewer than it counts, by whole GPUs or all of them."""
    capacity, offered = node.status.capacity or {}, node.status.allocatable or {}
    split = gpus.cards[0].slots if gpus.cards else 1
    names = [name for name in capacity if name == gpus.resource or name.startswith(MIG)]
    found: list[str] = []
    for name in sorted(names, key=lambda name: not name.startswith(MIG)):
        counted, free = whole(capacity[name]) or 0, whole(offered.get(name)) or 0
        by_gpu = name != gpus.resource or free == 0 or (counted - free) % max(split, 1) == 0
        if free < counted and by_gpu:
            found.append(name)
    return found


def _logged(side: NodeSide, node: Node, short: Iterable[str]) -> NodeCause | None:
    for pod in side.plugin_pods:
        by_name = {status.name: status for status in plugin_statuses(pod)}
        for log in side.logs:
            if log.pod.metadata.uid != pod.metadata.uid or log.previous or log.container not in by_name:
                continue
            known = in_plugin_log(log, by_name[log.container])
            if found := [(hit, proof) for hit, proof in known if hit.signature.code == "card-fault"]:
                hit = found[0][0]
                proofs = [proof for _, proof in found] + [quotes.of_allocatable(node, name) for name in short]
                claim = Text("card-fault.claim", node=side.name, means=hit.means)
                return NodeCause("card-fault", hit.signature.id, side.name, claim, proofs, [fix_of(hit)])
    return None


def reported(node: Node, sure: Confidence = "confirmed") -> NodeCause | None:
    """The cause that another program reports a fault of a GPU as a node condition, which HAMi does not read."""
    for condition in node.status.conditions or ():
        emitter = reports_fault(condition.type, condition.status, condition.reason, condition.message)
        if emitter is not None:
            said = condition.message or condition.reason or condition.type
            cordoned = node.spec.unschedulable
            claim = Text(
                "card-fault.cordoned" if cordoned else "card-fault.condition",
                node=node.name,
                emitter=emitter.name,
                type=condition.type,
                status=condition.status,
                why=said.rstrip(".。 "),
            )
            field = "message" if condition.message else "reason" if condition.reason else "status"
            path = f'{{.status.conditions[?(@.type=="{condition.type}")].{field}}}'
            proof = quotes.of_node(node, condition.message or condition.reason or condition.status, path)
            at = quotes.clock(condition.last_transition_time)
            actions, proofs = prose.see_node(node.name), [structs.replace(proof, at=at)]
            if cordoned:
                proofs.append(quotes.of_node(node, "true", "{.spec.unschedulable}"))
            else:
                cordon = quotes.kubectl("cordon", node.name)
                actions = (*actions, act(Text("card-fault.cordon"), cordon))
            why = f"{condition.type} cordoned" if cordoned else condition.type
            return NodeCause("card-fault", why, node.name, claim, proofs, actions, confidence=sure)
    return None


def _settled(side: NodeSide, now: datetime) -> bool:
    """Whether a plugin has been serving for so long that kubelet's figures are its own."""
    for pod in side.plugin_pods:
        statuses = [status for status in pod.status.container_statuses or () if status in plugin_statuses(pod)]
        since = [parse_time(status.state.running.started_at) if status.state.running else None for status in statuses]
        logs = (log for log in side.logs if log.pod.metadata.uid == pod.metadata.uid and not log.previous)
        patience = _REGISTERED if any(map(has_registered, logs)) else _UNKNOWN
        if statuses and all(status.ready for status in statuses) and all(at and now - at > patience for at in since):
            return True
    return False


_IMAGES = re.compile(
    r"(k8s-device-plugin|nvidia-gpu-device-plugin|gpushare(?:-device)?-plugin|gpu-manager|cgpu|nvshare)\b"
)
_OTHER_WORK = re.compile(r"feature-discovery|mps|config-manager|validat|mock")
"""Names of containers that run from the same images and serve no resource: GPU Feature Discovery, the MPS daemon."""
_LABELS = (
    ("name", "nvidia-device-plugin-ds"),
    ("app", "nvidia-device-plugin-daemonset"),
    ("app.kubernetes.io/name", "nvidia-device-plugin"),
    ("k8s-app", "nvidia-gpu-device-plugin"),
)
"""The labels of device plugin pods of NVIDIA's manifest, the GPU Operator, NVIDIA's chart, and GKE."""
_SHARED = ("", "hami-core")


@rule("second-device-plugin")
def second_plugin(scene: NodesScene) -> list[Finding]:
    """The finding that a second device plugin offers a node's GPUs: kubelet counts another number than HAMi registered.
    None where HAMi hands out one slot per GPU, or MIG devices: then the numbers cannot tell.
    """
    return by_cause(scene, counted_otherwise, ["second-device-plugin"])


def counted_otherwise(node: NodeScene) -> list[NodeCause]:
    """The cause that kubelet counts other GPUs than the node's plugin registered, where the node's pods were read."""
    if node.side is None or not node.was_read or FIRST not in node.vendors:
        return []
    gpus = node.gpus
    shared = gpus.slots > len(gpus.cards) and all(card.mode in _SHARED for card in gpus.cards)
    if not shared or gpus.capacity in (0, gpus.slots):
        return []
    others = rivals(node.side)
    if not others and gpus.capacity != len(gpus.cards):
        return []
    register = FIRST.names.register
    entry = quotes.entry_of(node.node.metadata.annotation(register) or "", gpus.cards[0].uuid)
    proofs = [quotes.of_capacity(node.node, gpus.resource), quotes.of_node_annotation(node.node, register, entry)]
    proofs += map(quotes.of_pod_name, others)
    claim = Text(
        "second-device-plugin.claim" if others else "second-device-plugin.unseen",
        node=node.name,
        resource=gpus.resource,
        offered=gpus.capacity,
        slots=gpus.slots,
        others=prose.some([f"{pod.namespace}/{pod.name}" for pod in others]) if others else "",
    )
    steps = [step(Text("second-device-plugin.look"), quotes.kubectl_pods_on(node.name))]
    if others:
        steps = [_turned_off(others[0], node.name, gpus.resource)]
    if own := node.side.plugin_pods:
        restart = quotes.kubectl_pod(own[0], "delete")
        steps.append(act(Text("second-device-plugin.restart", node=node.name), restart))
    why = f"{gpus.resource} {gpus.capacity} {gpus.slots}{' seen' if others else ''}"
    sure = "confirmed" if others else "suspected"
    return [NodeCause("second-device-plugin", why, node.name, claim, proofs, steps, confidence=sure)]


_DEPLOYED = "nvidia.com/gpu.deploy.device-plugin"


def _turned_off(plugin: Pod, node: str, resource: str) -> NextAction:
    """The step that keeps another device plugin off the node: by the label that the GPU Operator reads, or by hand."""
    if _DEPLOYED in (plugin.spec.node_selector or {}):
        label = kubectl("label", "node", node, f"{_DEPLOYED}=false", "--overwrite")
        return act(Text("second-device-plugin.label", node=node, label=f"{_DEPLOYED}=false"), label)
    return edit(plugin, Text("second-device-plugin.off", node=node, resource=resource, **of_owner(plugin)))


def rivals(side: NodeSide) -> list[Pod]:
    """The node's running pods of other device plugins for NVIDIA's GPUs; empty also where pods could not be read."""
    pods = () if isinstance(side.pods, Gap) else side.pods
    found: list[Pod] = []
    for pod in (pod for pod in pods if pod.status.phase == "Running" and not is_plugin(pod)):
        serving = [container for container in pod.spec.containers if not _OTHER_WORK.search(container.name)]
        by_label = any(pod.metadata.label(key) == value for key, value in _LABELS)
        found += [pod] if serving and (by_label or any(_IMAGES.search(one.image) for one in serving)) else []
    return found
