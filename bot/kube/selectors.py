"""Evaluates Kubernetes' selections here: label and field selectors of lists, and kube-scheduler's filters of nodes.

Grammar: k8s.io/apimachinery/pkg/labels/selector.go and fields/selector.go, without the labels' `<` and `>`. A text that
is no selector raises ValueError, and so does a field that the object does not have: an empty answer would claim that
there is no such object. The filters are those that objects alone decide (k8s.io/kubernetes
pkg/scheduler/framework/plugins: nodeunschedulable, tainttoleration, nodeaffinity, noderesources). What depends on other
pods (free cpu, ports, volumes, pod affinity) is not judged here; a pod that is larger than the whole node is.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import NamedTuple

import msgspec

from bot.kube.models import Container, Node, Pod, Quantity, Resource, Toleration
from bot.kube.models.base import SelectorRequirement, Taint
from bot.kube.models.pods import NodeSelectorTerm
from bot.kube.quantities import parse_quantity

Labels = Mapping[str, str]

_NAME = r"[A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?"
_KEY = rf"(?:[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?/)?{_NAME}"
_TERM = re.compile(
    rf"\s*(?:!\s*(?P<absent>{_KEY})"
    rf"|(?P<set_key>{_KEY})\s+(?P<set_op>in|notin)\s*\((?P<values>[^()]*)\)"
    rf"|(?P<key>{_KEY})\s*(?P<op>==?|!=)\s*(?P<value>(?:{_NAME})?)"
    rf"|(?P<present>{_KEY}))\s*(?:,(?=\s*\S)|\Z)",
    re.ASCII,
)
_VALUE = re.compile(rf"\s*((?:{_NAME})?)\s*", re.ASCII)

_FIELD_TERM = re.compile(r"(?P<path>[^=!]+)(?P<op>!=|==?)(?P<value>[^=]*)")


@lru_cache(maxsize=64)
def label_matcher(selector: str) -> Callable[[Labels | None], bool]:
    """A test of labels against a label selector; the empty one matches everything. Raises ValueError."""
    terms: list[Callable[[Labels], bool]] = []
    position = 0 if selector.strip() else len(selector)
    while position < len(selector):
        if not (term := _TERM.match(selector, position)):
            raise ValueError(f"not a label selector: {selector!r}")
        terms.append(_label_term(term))
        position = term.end()
    return lambda labels: all(term(labels or {}) for term in terms)


def _label_term(term: re.Match[str]) -> Callable[[Labels], bool]:
    if absent := term["absent"]:
        return lambda labels: absent not in labels
    if present := term["present"]:
        return lambda labels: present in labels
    if key := term["set_key"]:
        values = {_label_value(value) for value in term["values"].split(",")}
        if term["set_op"] == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    key, value = term["key"], term["value"]
    if term["op"] == "!=":
        return lambda labels: labels.get(key) != value
    return lambda labels: labels.get(key) == value


def _label_value(text: str) -> str:
    if not (value := _VALUE.fullmatch(text)):
        raise ValueError(f"not a label value: {text!r}")
    return value[1]


@lru_cache(maxsize=64)
def field_matcher(selector: str) -> Callable[[Resource], bool]:
    """A test of an object against a field selector with the API's paths (`involvedObject.name`); the empty one matches
    everything. Raises ValueError, and so does the test for a field that the model does not have.
    """
    terms: list[tuple[list[str], bool, str]] = []
    for text in filter(None, selector.split(",")):
        if not (term := _FIELD_TERM.fullmatch(text)):
            raise ValueError(f"not a field selector: {selector!r}")
        terms.append((term["path"].split("."), term["op"] != "!=", term["value"]))
    return lambda item: all((_field(item, path) == value) is wanted for path, wanted, value in terms)


def _field(item: object, path: list[str]) -> str:
    """The field as the API compares it: absent as the empty text, a boolean as true or false."""
    for name in path:
        if item is None:
            return ""
        attribute = _attributes(type(item)).get(name) if isinstance(item, msgspec.Struct) else None
        if attribute is None:
            raise ValueError(f"field label not supported: {'.'.join(path)}")
        item = getattr(item, attribute)
    if isinstance(item, bool):
        return str(item).lower()
    if isinstance(item, str | int | None):
        return "" if item is None else str(item)
    raise ValueError(f"field label not supported: {'.'.join(path)}")


@lru_cache(maxsize=64)
def _attributes(model: type[msgspec.Struct]) -> dict[str, str]:
    return dict(zip(model.__struct_encode_fields__, model.__struct_fields__, strict=True))


SELECTOR_TEXT = "node(s) didn't match Pod's node affinity/selector"
AFFINITY = "nodeAffinity"
TAINT_TEXT = "node(s) had untolerated taint(s)"
UNSCHEDULABLE_TEXT = "node(s) were unschedulable"
OF_KUBERNETES = "node.kubernetes.io/"
"""The prefix of taints by which Kubernetes says that a node is ill: tolerating them would not help the pod."""

_UNSCHEDULABLE_TAINT = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
_HARD_EFFECTS = ("NoSchedule", "NoExecute")
_RESOURCES = ("cpu", "memory", "ephemeral-storage")
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")


class Obstacle(NamedTuple):
    """Why kube-scheduler drops a node. `text` is what it prints, `detail` the part of the objects that shows it."""

    text: str
    detail: str


class NodeFilter:
    """kube-scheduler's filters for one pod and any number of nodes; `tolerations` replace the pod's own."""

    def __init__(self, pod: Pod, tolerations: Sequence[Toleration] | None = None) -> None:
        self._pod = pod
        self._tolerations = (pod.spec.tolerations or []) if tolerations is None else tolerations
        self._selects = bool(pod.spec.node_selector or pod.spec.affinity)
        self._short: dict[Sequence[Quantity | None], Obstacle | None] = {}
        amounts = ((resource, effective_request(pod, resource)) for resource in _RESOURCES)
        self._asked = [(resource, amount) for resource, amount in amounts if amount > 0]
        self._resources = [resource for resource, _ in self._asked]

    def obstacle(self, node: Node) -> Obstacle | None:
        """The first filter that drops the node for this pod; None when none of the filters judged here does."""
        if node.spec.unschedulable and not _tolerated(_UNSCHEDULABLE_TAINT, self._tolerations):
            return Obstacle(UNSCHEDULABLE_TEXT, "spec.unschedulable")
        for taint in node.spec.taints or ():
            if taint.effect in _HARD_EFFECTS and not _tolerated(taint, self._tolerations):
                return Obstacle(TAINT_TEXT, taint.key)
        if self._selects and (missing := _unselected(self._pod, node)):
            return Obstacle(SELECTOR_TEXT, missing)
        offered = tuple(map((node.status.allocatable or {}).get, self._resources))
        if offered not in self._short:
            self._short[offered] = self._shortage(offered)
        return self._short[offered]

    def _shortage(self, offered: Sequence[Quantity | None]) -> Obstacle | None:
        for (resource, asked), offer in zip(self._asked, offered, strict=True):
            amount = None if offer is None else parse_quantity(offer)
            if amount is not None and asked > amount:
                return Obstacle(f"Insufficient {resource}", resource)
        return None


def obstacle(pod: Pod, node: Node) -> Obstacle | None:
    """The first filter that drops the node for the pod, or None; for many nodes make a `NodeFilter` once."""
    return NodeFilter(pod).obstacle(node)


def _tolerated(taint: Taint, tolerations: Sequence[Toleration]) -> bool:
    return any(
        (not toleration.effect or toleration.effect == taint.effect)
        and (not toleration.key or toleration.key == taint.key)
        and (
            toleration.operator == "Exists"
            or (toleration.operator in ("", "Equal") and bool(toleration.key) and toleration.value == taint.value)
        )
        for toleration in tolerations
    )


def _unselected(pod: Pod, node: Node) -> str:
    labels = node.metadata.labels or {}
    for key, value in (pod.spec.node_selector or {}).items():
        if labels.get(key) != value:
            return key
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    met = required is None or any(_matches(term, node) for term in required.node_selector_terms or ())
    return "" if met else AFFINITY


def _matches(term: NodeSelectorTerm, node: Node) -> bool:
    expressions, fields = term.match_expressions or [], term.match_fields or []
    if not expressions and not fields:
        return False
    labels = node.metadata.labels or {}
    return all(holds(expression, labels.get(expression.key)) for expression in expressions) and all(
        holds(field, node.name if field.key == "metadata.name" else None) for field in fields
    )


def holds(requirement: SelectorRequirement, value: str | None) -> bool:
    """Whether a label or field of that value, None for none, meets the requirement."""
    values = requirement.values or []
    tests: dict[str, Callable[[], bool]] = {
        "In": lambda: value is not None and value in values,
        "NotIn": lambda: value is None or value not in values,
        "Exists": lambda: value is not None,
        "DoesNotExist": lambda: value is None,
        "Gt": lambda: _compare(value, values) > 0,
        "Lt": lambda: _compare(value, values) < 0,
    }
    test = tests.get(requirement.operator)
    return test() if test else False


def _compare(value: str | None, values: list[str]) -> int:
    if value is None or len(values) != 1 or not (_INTEGER.fullmatch(value) and _INTEGER.fullmatch(values[0])):
        return 0
    return int(value) - int(values[0])


def effective_request(pod: Pod, resource: str) -> Decimal:
    """The amount of a resource that Kubernetes counts for the whole pod, overhead included: app containers and sidecars
    together, or an init container with the sidecars before it where that is more.
    """
    sidecars = peak = Decimal()
    for container in pod.spec.init_containers or ():
        amount = _request(container, resource)
        if container.restart_policy == "Always":
            sidecars += amount
            peak = max(peak, sidecars)
        else:
            peak = max(peak, sidecars + amount)
    apps = sum((_request(container, resource) for container in pod.spec.containers), sidecars)
    return max(apps, peak) + _amount(pod.spec.overhead, resource)


def _request(container: Container, resource: str) -> Decimal:
    """The request; the API server takes the limit for one that is left out."""
    if container.resources is None:
        return Decimal()
    requests, limits = container.resources.requests, container.resources.limits
    return _amount(requests if requests and resource in requests else limits, resource)


def _amount(amounts: dict[str, Quantity] | None, resource: str) -> Decimal:
    value = (amounts or {}).get(resource)
    return (parse_quantity(value) if value is not None else None) or Decimal()
