"""What Kubernetes' own resources lack: more asked for than a whole node has, which no end of another pod helps."""

from collections.abc import Sequence
from decimal import ROUND_DOWN, Decimal
from typing import NamedTuple

from bot.kube.models import Node, Pod
from bot.kube.quantities import parse_quantity
from bot.kube.selectors import effective_request
from bot.report import Evidence
from bot.texts import Text, spaced
from playbooks import quotes
from playbooks.scenes.waiting_pod import PodScene

SHORT = "Insufficient "
"""How kube-scheduler's texts about resources begin; the resource follows."""
_GIB = Decimal(2**30)
_MIB = Decimal(2**20)
_MOST_QUOTED = 3


class Shortage(NamedTuple):
    """What the whole pod asks for of a resource, and the node that has the most of it of those that have less."""

    resource: str
    asked: Decimal
    node: Node
    most: Decimal
    everywhere: bool
    """Whether no node of the cluster has as much as is asked for."""

    @property
    def figures(self) -> dict[str, str]:
        """What is asked for and the most that there is, as texts have it."""
        return {"asked": _amount(self.resource, self.asked), "most": _amount(self.resource, self.most)}

    def claim(self, text: str, count: int) -> Text:
        """`text` is kube-scheduler's own, of so many nodes."""
        if self.everywhere:
            return Text("kubernetes-filter.never", **self.figures, resource=self.resource, text=text, count=count)
        return Text("kubernetes-filter.claim", text=self.noted(text), count=count)

    def noted(self, text: str) -> Text:
        """kube-scheduler's text with both figures."""
        return spaced(text, Text("words.in-parentheses", text=Text("kubernetes-filter.short", **self.figures)))

    def proofs(self, pod: Pod) -> list[Evidence]:
        """The request of each container as it is written, then what kubelet offers there."""
        everywhere = [("containers", one) for one in pod.spec.containers]
        everywhere += [("initContainers", one) for one in pod.spec.init_containers or ()]
        found = list[Evidence]()
        for field, resources in ((field, one.resources) for field, one in everywhere if one.resources):
            asked = resources.requests or {}
            kind = "requests" if self.resource in asked else "limits"  # which the API server takes for one left out
            value = (asked if kind == "requests" else resources.limits or {}).get(self.resource)
            if value is not None:
                path = f"{{.spec.{field}[*].resources.{kind}.{self.resource}}}"
                found.append(quotes.of_amount(pod, str(value), path))
        return [*found[:_MOST_QUOTED], quotes.of_allocatable(self.node, self.resource)]

    @property
    def ask_less(self) -> list[Text]:
        """To ask for no more than there is, where waiting will not help."""
        most = _amount(self.resource, self.most, whole=True)
        return [Text("kubernetes-filter.ask-less", most=most, resource=self.resource)] if self.everywhere else []


def shortage(scene: PodScene, text: str, names: Sequence[str]) -> Shortage | None:
    """The finding about nodes that have less than the pod asks for; None for what is not about a resource of a whole
    node.
    """
    resource = text.removeprefix(SHORT)
    values = {name: (node.status.allocatable or {}).get(resource) for name, node in scene.nodes.items()}
    amounts = {name: None if value is None else parse_quantity(value) for name, value in values.items()}
    offered = {name: amount for name in names if (amount := amounts[name]) is not None}
    if not text.startswith(SHORT) or not offered:
        return None
    asked = effective_request(scene.pod, resource)
    largest = max(offered, key=lambda name: offered[name])
    everywhere = all(amount is not None and amount < asked for amount in amounts.values())
    return Shortage(resource, asked, scene.nodes[largest], offered[largest], everywhere)


def _amount(resource: str, amount: Decimal, *, whole: bool = False) -> str:
    """`1,000` of cpu; bytes as GiB, or as MiB where that is less than one. `whole`: without a fraction of bytes."""
    name = ""
    if resource != "cpu":
        unit, name = (_GIB, " GiB") if amount >= _GIB else (_MIB, " MiB")
        amount = (amount / unit).quantize(Decimal(1) if whole else Decimal("0.1"), ROUND_DOWN)
    text = f"{amount:,f}"
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text}{name}"
