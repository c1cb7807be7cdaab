"""What keeps a pod off the nodes that HAMi would give it, and what would let it there: Kubernetes' own filters."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from msgspec import structs

from bot.kube.models import Node, Pod, Toleration
from bot.kube.nodefilter import SELECTOR_TEXT, TAINT_TEXT, NodeFilter, Obstacle, effective_request
from bot.report import Evidence, Gap, NextAction
from bot.texts import Texts
from playbooks import _evidence
from playbooks._evidence import kubectl
from playbooks._rules import prose
from playbooks._rules.case import Case

_MAX_TRIED = 20
_MAX_NAMED = 3
_BY_AFFINITY = "nodeAffinity"
_SHARED = ("cpu", "memory", "ephemeral-storage")
"""What other pods take of a node too: HAMi's holders, which are all that is read of them, do not say how much."""
_OF_KUBERNETES = "node.kubernetes.io/"
"""Taints by which Kubernetes itself says that a node is ill: to tolerate them would bring a pod there to no use."""


def reasons(case: Case, names: Sequence[str]) -> list[str]:
    """Why kube-scheduler drops these nodes, the most frequent first; counted where there are several reasons."""
    counts = Counter(_text(case.obstacles[name]) for name in names).most_common()
    return [text for text, _ in counts] if len(counts) == 1 else [f"{count} {text}" for text, count in counts]


def _text(one: Obstacle) -> str:
    named = one.text in (SELECTOR_TEXT, TAINT_TEXT) and one.detail != _BY_AFFINITY
    return f"{one.text} ({one.detail})" if named else one.text


def proofs(case: Case, name: str) -> list[Evidence]:
    """The part of the node, or of what was asked for, that shows its obstacle."""
    node, (text, detail) = case.nodes[name], case.obstacles[name]
    if text == TAINT_TEXT:
        return [_evidence.of_node(node, detail, "{.spec.taints[*].key}")]
    if text == SELECTOR_TEXT:
        value = (case.pod.spec.node_selector or {}).get(detail)
        about = f"Pod {case.pod.namespace}/{case.pod.name}"
        return [Evidence("manifest", about, None, value, prose.command("grep", detail, "MANIFEST"))] if value else []
    return [_evidence.of_allocatable(node, detail)] if detail in (node.status.allocatable or {}) else []


def not_looked_at(case: Case, say: Texts) -> list[Gap]:
    """What the pod asks for beside cards, of which only is known that a node is large enough."""
    asked = ", ".join(one for one in _SHARED if effective_request(case.pod, one) > 0)
    return [Gap(f"free {asked}", say("gap.taken", what=asked), say("gap.taken-hint"))] if asked else []


def ways(case: Case, names: Sequence[str], say: Texts) -> list[NextAction]:
    """A looser selection, a toleration: each tried on nodes that HAMi would give the pod, at most one of each kind."""
    found: list[NextAction] = []
    unselected = [name for name in names if case.obstacles[name].text == SELECTOR_TEXT]
    if let_in := _let_in(case, unselected, _anywhere):
        detail = case.obstacles[let_in[0]].detail
        key = "change.loosen-affinity" if detail == _BY_AFFINITY else "change.loosen-selector"
        label = say(key, label=detail, nodes=", ".join(let_in))
        found.append(NextAction(label, kubectl("get", "node", let_in[0], "--show-labels")))
    tainted = [name for name in names if case.obstacles[name].text == TAINT_TEXT]
    for taint in dict.fromkeys(case.obstacles[name].detail for name in tainted):
        of_taint = [name for name in tainted if case.obstacles[name].detail == taint]
        tolerating = None if taint.startswith(_OF_KUBERNETES) else _tolerating(taint)
        if tolerating and (let_in := _let_in(case, of_taint, tolerating)):
            label = say("change.tolerate", taint=taint, nodes=", ".join(let_in))
            found.append(NextAction(label, kubectl("get", "node", let_in[0], "-o", "jsonpath={.spec.taints}")))
            break
    return found


def _let_in(case: Case, names: Sequence[str], change: Callable[[Pod], Pod]) -> list[str]:
    """Some of the nodes that have no other obstacle for the changed pod."""
    drops = NodeFilter(change(case.pod)).obstacle

    def taking() -> Iterator[Node]:
        return (node for node in map(case.nodes.__getitem__, names[:_MAX_TRIED]) if drops(node) is None)

    return [node.name for node in islice(taking(), _MAX_NAMED)]


def _anywhere(pod: Pod) -> Pod:
    return structs.replace(pod, spec=structs.replace(pod.spec, node_selector=None, affinity=None))


def _tolerating(taint: str) -> Callable[[Pod], Pod]:
    def tolerating(pod: Pod) -> Pod:
        more = [*(pod.spec.tolerations or ()), Toleration(key=taint, operator="Exists")]
        return structs.replace(pod, spec=structs.replace(pod.spec, tolerations=more))

    return tolerating
