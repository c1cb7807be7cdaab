"""Rules about nodes with NVIDIA GPUs that HAMi's device plugin leaves out: its DaemonSet's label is set by hand."""

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import structs

from bot.finding_codes import Code
from bot.hami.vendors import FIRST
from bot.kube.models import Node, Pod, Toleration, Workload
from bot.kube.selectors import AFFINITY, SELECTOR_TEXT, TAINT_TEXT, NodeFilter, Obstacle
from bot.report import Evidence, Finding, Gap, NextAction, act, step
from bot.texts import Text, sentences
from playbooks import quotes
from playbooks.gather.node_side import PluginSets
from playbooks.quotes import kubectl, of_object
from playbooks.rule import rule
from playbooks.rules.common.findings import finding, fix_of, in_events
from playbooks.rules.nodes.causes import NodeCause, by_cause
from playbooks.scenes.nodes import NodeScene, NodesScene

_CODES: tuple[Code, ...] = ("device-plugin-not-selected", "gpu-runtime-missing")
_MEANT = "labelled "
_TOLERATED = ("not-ready", "unreachable", "disk-pressure", "memory-pressure", "pid-pressure", "unschedulable")
"""The taints that the DaemonSet controller makes its pods tolerate (k8s.io/kubernetes pkg/controller/daemon/util)."""


class KeptOff(NamedTuple):
    """What keeps a DaemonSet's pods off a node: labels and affinity before taints."""

    workload: Workload
    node: Node
    obstacles: Sequence[Obstacle]

    @property
    def taint(self) -> str:
        """The taint that the DaemonSet's pods do not tolerate, as `key=value:effect`; empty without one."""
        keys = [obstacle.detail for obstacle in self.obstacles if obstacle.text == TAINT_TEXT]
        found = (taint for taint in self.node.spec.taints or () if taint.key in keys)
        return next((taint.written for taint in found), "")

    @property
    def unselected(self) -> str:
        """The label that the node lacks, or `nodeAffinity`; empty where the node is selected."""
        return next((obstacle.detail for obstacle in self.obstacles if obstacle.text == SELECTOR_TEXT), "")

    @property
    def is_meant(self) -> bool:
        """Whether somebody set the DaemonSet's label on the node by hand, so that only a taint is in the way."""
        return bool(self.taint and not self.unselected and self.workload.spec.template.spec.node_selector)

    @property
    def proofs(self) -> list[Evidence]:
        """The evidence of the label that the DaemonSet asks for and the node's labels, and of the taint."""
        key, selector = self.taint.split(":")[0].split("=")[0], selector_proof(self.workload)
        taint = [quotes.of_node(self.node, key, "{.spec.taints[*].key}")] if key else []
        return [selector, quotes.of_labels(self.node), *taint] if self.unselected else [*taint, selector]

    @property
    def tolerate(self) -> NextAction:
        edit = kubectl("-n", self.workload.namespace, "edit", "daemonset", self.workload.name)
        return act(Text("device-plugin-not-selected.tolerate", taint=self.taint), edit)


def keeps_off(daemon_sets: Sequence[Workload], node: Node) -> KeptOff | None:
    """What keeps the pods of all these DaemonSets off the node, by the first DaemonSet; None where one may run."""
    first: KeptOff | None = None
    for workload in daemon_sets:
        spec = workload.spec.template.spec
        always = [Toleration(key=f"node.kubernetes.io/{key}", operator="Exists") for key in _TOLERATED]
        of_all = structs.replace(spec, tolerations=[Toleration(operator="Exists")])
        anywhere = structs.replace(
            spec, tolerations=[*(spec.tolerations or ()), *always], node_selector=None, affinity=None
        )
        found = [NodeFilter(Pod(spec=one)).obstacle(node) for one in (of_all, anywhere)]
        if not any(found):
            return None
        first = first or KeptOff(workload, node, list(dict.fromkeys(filter(None, found))))
    return first


@rule(*_CODES, reads=("plugin sets",))
def not_selected(scene: NodesScene) -> list[Finding]:
    """The findings that HAMi's device plugin is kept off nodes with GPUs, perhaps on purpose if other nodes have it."""
    sets = scene.questioned.sets
    quiet = (_CODES[0],) if scene.is_sweep and sets is not None and in_use(sets) else ()
    return by_cause(
        scene, kept_off, _CODES, quiet=lambda cause: cause.code in quiet and not cause.why.startswith(_MEANT)
    )


def kept_off(node: NodeScene) -> list[NodeCause]:
    """The cause why a node, whose pods were read, has no pod of HAMi's device plugin."""
    side, sets = node.side, node.among.questioned.sets
    if side is None or sets is None or not node.was_read or isinstance(side.pods, Gap) or FIRST not in node.vendors:
        return []
    return [] if side.plugin_pods else _not_wanted(sets, node) or refused_pods(sets, node.name)


def _not_wanted(sets: PluginSets, node: NodeScene) -> list[NodeCause]:
    label, gpus = FIRST.gpu_label(node.node), node.gpus
    kept = None if isinstance(sets.sets, Gap) else keeps_off(sets.sets, node.node)
    if kept is None:
        return []
    daemon_set, selector = kept.workload, selector_of(kept.workload)
    if kept.is_meant:
        label = label or next(iter(daemon_set.spec.template.spec.node_selector or {}))
    if not (label or gpus.capacity or gpus.cards):
        return []
    values = {"node": node.name, "selector": selector or daemon_set.name, "taint": kept.taint}
    claims, steps = list[Text](), list[NextAction]()
    if kept.unselected == AFFINITY:
        claims.append(Text("device-plugin-not-selected.affinity", **values))
    elif kept.unselected:
        claims.append(Text("device-plugin-not-selected.claim", **values))
        wanted = sorted((daemon_set.spec.template.spec.node_selector or {}).items())
        set_it = kubectl("label", "node", node.name, *(f"{key}={value}" for key, value in wanted))
        steps.append(act(Text("device-plugin-not-selected.label", **values), set_it))
    if kept.taint:
        also = "device-plugin-not-selected.nor" if claims else "device-plugin-not-selected.taint"
        claims.append(Text(also, **values))
        steps.append(kept.tolerate)
    if not claims:
        claims = [Text("device-plugin-not-selected.obstacle", text=kept.obstacles[0].text, **values)]
    has = quotes.of_label(node.node, label) if label else quotes.of_allocatable(node.node, gpus.resource)
    proofs = [*kept.proofs, has]
    why = f"{_MEANT if kept.is_meant else ''}{selector} {kept.unselected} {kept.taint}"
    steps = [*steps, *see_set(daemon_set)]
    return [NodeCause("device-plugin-not-selected", why, node.name, sentences(*claims), proofs, steps)]


def in_use(sets: PluginSets) -> bool:
    """Whether the DaemonSets want a device plugin on some node."""
    return not isinstance(sets.sets, Gap) and any(workload.status.desired_number_scheduled for workload in sets.sets)


def none_selected(sets: PluginSets, nodes: Sequence[Node]) -> list[Finding]:
    """The finding that no node has the label of these DaemonSets, so that they want no pod at all."""
    if isinstance(sets.sets, Gap) or not sets.sets or not nodes or in_use(sets):
        return []
    kept = [keeps_off(sets.sets, node) for node in nodes]
    if not all(match and match.unselected for match in kept):
        return []
    first = sets.sets[0]
    claim = Text("device-plugin-not-selected.none", selector=selector_of(first) or first.name)
    proofs = [of_object("DaemonSet", first, "0", "{.status.desiredNumberScheduled}"), selector_proof(first)]
    return [finding("device-plugin-not-selected", claim, proofs=proofs, actions=see_set(first))]


def refused_pods(sets: PluginSets, node: str = "") -> list[NodeCause]:
    """The cause that the API server refuses the DaemonSet's pods, because their RuntimeClass does not exist."""
    events = () if isinstance(sets.events, Gap) else sets.events
    found = in_events((event for event in events if event.reason == "FailedCreate"), None)
    for hit, proof in found[:1]:
        claim = Text("device-plugin-not-selected.refused", means=hit.means)
        return [NodeCause(hit.signature.code, hit.signature.id, node, claim, [proof], [fix_of(hit)])]
    return []


def selector_of(daemon_set: Workload) -> str:
    """The labels that the DaemonSet's nodeSelector asks for, as `gpu=on`; empty when it has none."""
    wanted = daemon_set.spec.template.spec.node_selector or {}
    return ", ".join(f"{key}={value}" for key, value in sorted(wanted.items()))


def selector_proof(daemon_set: Workload) -> Evidence:
    """The evidence of the label that the DaemonSet asks for, or else of the DaemonSet's name."""
    wanted = sorted((daemon_set.spec.template.spec.node_selector or {}).items())
    key, value = wanted[0] if wanted else ("", "")
    path = f"{{.spec.template.spec.nodeSelector.{quotes.escape(key)}}}"
    return of_object("DaemonSet", daemon_set, value, path)


def see_set(daemon_set: Workload) -> tuple[NextAction, ...]:
    look = kubectl("-n", daemon_set.namespace, "describe", "daemonset", daemon_set.name)
    return (step(Text("plugin-missing.look"), look),)
