"""Faulty GPUs of a node whose device plugin works: by kubelet's figures, the plugin's log and node conditions.

Kubelet offers as many slots fewer than it counts as the plugin calls unhealthy. When the plugin ends, kubelet offers
none for five minutes and then counts none (Kubernetes 1.36 pkg/kubelet/cm/devicemanager): so a zero tells about GPUs
only once the plugin that runs now has registered.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from msgspec import structs

from bot.hami.vendors import FIRST
from bot.kube.models import Node, NodeCondition
from bot.kube.node_conditions import reports_fault
from bot.kube.quantities import whole
from bot.kube.times import parse_time
from bot.report import Confidence, Evidence, Finding, step
from bot.texts import Text
from playbooks import quotes
from playbooks.gather.node_side import NodeSide
from playbooks.rule import rule
from playbooks.rules.common import prose
from playbooks.rules.common.signature_findings import fix_of
from playbooks.rules.nodes.causes import NodeCause, by_cause
from playbooks.rules.nodes.not_selected import kept_off
from playbooks.rules.nodes.plugin_faults import plugin_faults
from playbooks.rules.nodes.plugin_runs import has_registered, in_plugin_log, plugin_statuses
from playbooks.rules.nodes.second_device_plugin import counted_otherwise
from playbooks.rules.waiting.unregistered_nodes import plugin_actions
from playbooks.scenes.nodes import NodeGpus, NodeScene, NodesScene

_UNKNOWN = timedelta(minutes=5)
_REGISTERED = timedelta(seconds=30)
"""For a plugin of whose registration nothing is known, and for one whose log says that kubelet took it."""
_MIG = "nvidia.com/mig-"


@rule("card-fault")
def faulty_gpus(scene: NodesScene) -> list[Finding]:
    """A GPU of the node is faulty: by the log of its device plugin, a node condition, or kubelet's figures alone."""
    return by_cause(scene, gpu_faults, ["card-fault"], of_all=True)


def gpu_faults(node: NodeScene) -> list[NodeCause]:
    """What says that a GPU of this node is faulty, the nearest witness first; at most one cause.

    Its log and kubelet's figures count only of a node that was read by itself, and whose device plugin works.
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
    return [_counted(side, node.node, gpus, short)] if short and _settled(side, node.among.now) else []


def _short(node: Node, gpus: NodeGpus) -> list[str]:
    """The resources of the node's GPUs of which kubelet offers fewer than it counts, by whole GPUs or all of them."""
    capacity, offered = node.status.capacity or {}, node.status.allocatable or {}
    split = gpus.cards[0].slots if gpus.cards else 1
    names = [name for name in capacity if name == gpus.resource or name.startswith(_MIG)]
    found: list[str] = []
    for name in sorted(names, key=lambda name: not name.startswith(_MIG)):
        counted, free = whole(capacity[name]) or 0, whole(offered.get(name)) or 0
        by_gpu = name != gpus.resource or free == 0 or (counted - free) % max(split, 1) == 0
        if free < counted and by_gpu:
            found.append(name)
    return found


def _logged(side: NodeSide, node: Node, short: Iterable[str]) -> NodeCause | None:
    """What the plugin's log says of a GPU, with kubelet's figures."""
    for pod in side.plugin_pods:
        by_name = {status.name: status for status in plugin_statuses(pod)}
        for log in side.logs:
            if log.pod.metadata.uid != pod.metadata.uid or log.previous or log.container not in by_name:
                continue
            found = [
                fault for fault in in_plugin_log(log, by_name[log.container]) if fault[0].signature.code == "card-fault"
            ]
            if found:
                means = found[0][0].signature.means
                proofs = [proof for _, proof in found] + [quotes.of_allocatable(node, name) for name in short]
                claim = Text("card-fault.claim", node=side.name, means=means)
                why = found[0][0].signature.id
                return NodeCause("card-fault", why, side.name, claim, proofs, [fix_of(found[0][0])])
    return None


def reported(node: Node, sure: Confidence = "confirmed") -> NodeCause | None:
    """What another program found out about a GPU of the node: HAMi does not read node conditions."""
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
            actions, proofs = prose.see_node(node.name), [_of_condition(node, condition)]
            if cordoned:
                proofs.append(quotes.of_node(node, "true", "{.spec.unschedulable}"))
            else:
                cordon = quotes.kubectl("cordon", node.name)
                actions = (*actions, step(Text("card-fault.cordon"), cordon, changes_cluster=True))
            why = f"{condition.type} cordoned" if cordoned else condition.type
            return NodeCause("card-fault", why, node.name, claim, proofs, actions, sure)
    return None


def _of_condition(node: Node, condition: NodeCondition) -> Evidence:
    field = "message" if condition.message else "reason" if condition.reason else "status"
    quote = condition.message or condition.reason or condition.status
    proof = quotes.of_node(node, quote, f'{{.status.conditions[?(@.type=="{condition.type}")].{field}}}')
    return structs.replace(proof, at=quotes.clock(condition.last_transition_time))


def _counted(side: NodeSide, node: Node, gpus: NodeGpus, short: list[str]) -> NodeCause:
    """Kubelet's figures alone."""
    name = short[0]
    capacity, offered = (node.status.capacity or {})[name], (node.status.allocatable or {}).get(name, 0)
    claim = Text("card-fault.counted", node=side.name, resource=name, capacity=str(capacity), offered=str(offered))
    paths = "{.status.capacity." + name.replace(".", "\\.") + "}"
    proofs = [proof for resource in short for proof in (quotes.of_allocatable(node, resource),)]
    proofs.insert(0, quotes.of_node(node, str(capacity), paths))
    sure: Confidence = "confirmed" if gpus.allocatable else "suspected"
    steps = plugin_actions(side.name, side.plugin_pods)
    return NodeCause("card-fault", f"{name} {capacity} {offered}", side.name, claim, proofs, steps, sure)


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
