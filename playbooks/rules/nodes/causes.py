"""What rules about single nodes share: one finding for all nodes of the same cause, and how GPUs are uncordoned."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import msgspec

from bot.finding_codes import Code
from bot.hami.installation.install import Install
from bot.hami.nodes.node_state import CORDON_KEY
from bot.hami.vendors import FIRST
from bot.hami.vendors.vendor import Vendor
from bot.kube.models import DaemonPod, Node, Pod
from bot.report import Confidence, Evidence, Finding, NextAction, Severity, act, step
from bot.texts import Prose, Text
from playbooks.quotes import kubectl, kubectl_pod
from playbooks.rules.common import prose
from playbooks.rules.common.findings import finding
from playbooks.scenes.nodes import NodeScene, NodesScene

PROVEN = 3
"""How many nodes of a finding are quoted at most."""


class Fault(NamedTuple):
    """A fault of a node, by its object; equal faults have one cause. `device`: the word of another vendor's device."""

    code: Code
    why: str
    severity: Severity = "warning"
    about: str = ""
    device: str = ""


class Group(NamedTuple):
    """The nodes of one fault, sorted; `alike` has the first node of each set of alike nodes, and the set's size."""

    fault: Fault
    scene: NodesScene
    names: list[str]
    alike: list[tuple[str, int]]

    @property
    def shown(self) -> list[NodeScene]:
        return [self.scene.see(name) for name in self.names[:PROVEN]]

    @property
    def nodes(self) -> Prose:
        return prose.names(self.names)


class NodeCause(msgspec.Struct, frozen=True):
    """A cause on one node. Causes with the same code and `why` are one cause on several nodes. `why` is made of facts,
    such as a signature's id, never of prose. `node` is empty where it is not known.
    """

    code: Code
    why: str
    node: str
    claim: Prose
    proofs: Sequence[Evidence]
    steps: Sequence[NextAction]
    confidence: Confidence = "confirmed"

    def told(
        self, *others: "NodeCause", of: Install, nodes: Sequence[str] = (), severity: Severity = "warning"
    ) -> Finding:
        """The finding for all nodes of this cause, in its words; `nodes`: all, where more have it than were read."""
        names = sorted({cause.node for cause in (self, *others) if cause.node} | {*nodes})
        more = [name for name in names if name != self.node]
        claim = Text("nodes.same", claim=self.claim, nodes=prose.names(more)) if more else self.claim
        proofs = [proof for cause in (self, *others) for proof in cause.proofs]
        return finding(self.code, claim, self.confidence, names, proofs, severity=severity, actions=self.steps, of=of)


def by_cause(
    scene: NodesScene,
    fact: Callable[[NodeScene], Iterable[NodeCause]],
    order: Sequence[Code],
    *,
    quiet: Callable[[NodeCause], bool] = lambda _: False,
    of_all: bool = False,
) -> list[Finding]:
    """One finding per cause, in the codes' order, that of the most nodes first; `quiet` causes are information."""
    groups = dict[tuple[Code, str], list[str]]()
    for node, names in scene.alike if of_all else scene.read:
        for cause in node.once(fact):
            groups.setdefault((cause.code, cause.why), []).extend(names)

    def place(group: tuple[tuple[Code, str], list[str]]) -> tuple[int, int, str]:
        (code, why), names = group
        return order.index(code) if code in order else len(order), -len(names), why

    def of(key: tuple[Code, str], names: Iterable[str]) -> Iterable[NodeCause]:
        seen = (cause for name in names for cause in scene.see(name).once(fact))
        return (cause for cause in seen if (cause.code, cause.why) == key)

    def told(key: tuple[Code, str], names: Sequence[str]) -> Finding:
        first = next(iter(of(key, names)))
        severity: Severity = "info" if quiet(first) else "warning"
        return first.told(*of(key, names[1:PROVEN]), of=scene.install, nodes=names, severity=severity)

    return [told(key, sorted(names)) for key, names in sorted(groups.items(), key=place)]


def uncordon(node: Node, uuids: Sequence[str]) -> tuple[NextAction, NextAction]:
    """The steps to see who cordoned the node's GPUs, and to uncordon these but not others."""
    named = [name.strip() for name in (node.metadata.annotation(CORDON_KEY) or "").split(",")]
    left = ",".join(fromkey for fromkey in dict.fromkeys(named) if fromkey and fromkey not in uuids)
    change = ("--overwrite", f"{CORDON_KEY}={left}") if left else (f"{CORDON_KEY}-",)
    label = Text("card-cordoned.uncordon", node=node.name, count=len(uuids), all=len({*filter(None, named)}))
    return who_cordoned(node.name), act(label, kubectl("annotate", "node", node.name, *change))


def uncordon_node(node: str) -> tuple[NextAction, NextAction]:
    """The steps to see who cordoned the node in Kubernetes, and to uncordon it."""
    return who_cordoned(node), act(Text("node-cordoned.uncordon", node=node), kubectl("uncordon", node))


def who_cordoned(node: str) -> NextAction:
    """The step to see who set what of the node, and when."""
    show = kubectl("get", "node", node, "-o", "yaml", "--show-managed-fields")
    return step(Text("card-cordoned.who", node=node), show)


def repair(node: str, proof: Evidence, vendor: Vendor, plugin: Pod | DaemonPod | None = None) -> list[NextAction]:
    """The steps for GPUs that are registered as unhealthy, which `proof` quotes: what to look at, what to do then."""
    label = Text("card-not-healthy.look-xid" if vendor is FIRST else "card-not-healthy.look", node=node)
    restart = [act(Text("card-not-healthy.restart", node=node), kubectl_pod(plugin, "delete"))] if plugin else []
    return [step(label, proof.command), *restart]
