"""What a container asks HAMi for, in the vendor's own unit and words. HAMi's reasons can mean other things for other
vendors' devices: HAMi v2.10, pkg/device/kunlun/topo.go, awsneuron, metax, mthreads and ascend device.go.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import ROUND_DOWN, Decimal
from operator import attrgetter
from typing import Any, NamedTuple

from bot.hami.fit import verdicts
from bot.hami.fit.advice import PlacementChange
from bot.hami.pods.pod_request import WHOLE_CARD, ContainerRequest, amount_of, written
from bot.hami.vendors import FIRST
from bot.hami.vendors.vendor import Device
from bot.kube.models import Container, Node, Pod
from bot.kube.quantities import parse_quantity
from bot.kube.selectors import effective_request
from bot.report import Evidence
from bot.texts import Prose, Text, listed, spaced
from playbooks import quotes
from playbooks.rules.common import prose
from playbooks.rules.waiting.cause_ranking import RankedCause
from playbooks.scenes.waiting_pod import PodScene


def size(container: ContainerRequest) -> tuple[int, int, int]:
    """A sort key: how hard a container is to place, by its memory, percentage, and number of devices."""
    return container.memory_mib, container.percentage, container.count


BY_CORES, BY_COUNT = attrgetter("cores"), attrgetter("count")


def hardest(scene: PodScene, by: Callable[[ContainerRequest], Any] = size) -> ContainerRequest | None:
    """The container that is the hardest to place, by its size or another key; None without containers."""
    return max(scene.request.containers, key=by, default=None)


_CHANGES = {
    "memory": "change.memory",
    "percent": "change.percent",
    "share": "change.share",
    "cores": "change.cores",
    "count": "change.count",
    "drop-option": "change.drop-option",
}


def memory(scene: PodScene, container: ContainerRequest) -> Prose:
    """What the container asks for of one device: `8,000 MiB`, `50% of a GPU`, or the vendor's own unit."""
    if own := _own(scene, container):
        return own
    if container.memory_mib:
        return prose.mib(container.memory_mib)
    return Text("words.percent-of-card", percent=container.percentage)


def asked(scene: PodScene, container: ContainerRequest) -> Prose:
    """What the container asks of its devices: `2 x 8,000 MiB`, or `2 GPUs` of a vendor that hands out no parts."""
    if own := _own(scene, container):
        return own
    if not scene.config.of(container.word).memory:
        return Text("words.devices", cards=container.count)
    return Text("words.asked", cards=container.count, memory=memory(scene, container))


def _own(scene: PodScene, container: ContainerRequest) -> str:
    device = scene.config.by_word.get(container.word)
    return device.vendor.own_measure(container, device.resources) if device else ""


def cores(scene: PodScene, container: ContainerRequest, amount: int | None = None) -> str:
    """The cores of each device that the container asks for (or `amount`): `50%`, or `8/16` where a device has 16."""
    vendor = scene.config.by_word[container.word].vendor
    return f"{vendor.cores_each(container) if amount is None else amount}{vendor.cores_unit}"


def change(scene: PodScene, wanted: PlacementChange, *, what: str = "") -> Text:
    """A change in words; memory also in the unit of the vendor's resource where that is not MiB."""
    what = what or wanted.what
    amount, gpus = f"{wanted.amount:,}", scene.gpus
    if what not in _CHANGES:
        written = scene.pod.metadata.annotations or {}
        keys = listed(f"{key}: {written[key]}" for key in annotated(scene, what))
        return Text("change.without", keys=keys, node=wanted.node)
    if what == "cores":
        amount = cores(scene, scene.request.containers[0], wanted.amount)
    elif what in ("memory", "share"):
        units, amount = wanted.amount // gpus.memory_factor, prose.mib(wanted.amount)
        if gpus.memory_factor != 1 and units:
            memory = prose.mib(units * gpus.memory_factor)
            amount = Text("change.units", memory=memory, resource=gpus.memory, units=units)
    return Text(_CHANGES[what], node=wanted.node, amount=amount)


def annotated(scene: PodScene, what: str) -> list[str]:
    """The pod's annotations that a change drops; none for a change of something else."""
    names = scene.device.names
    about = {
        "drop-uuid": (names.use_uuid, names.no_use_uuid),
        "drop-type": (names.use_type, names.no_use_type),
        "drop-mode": (names.mode,),
        "drop-numa": (names.numa_bind,),
    }
    keys = [name.format(word=scene.device.word) for name in about.get(what, ())]
    return [key for key in keys if key in (scene.pod.metadata.annotations or {})]


def limits_of(scene: PodScene, wanted: PlacementChange, what: str) -> dict[str, int]:
    """The container's limits after the change, by resource; empty for a change of something else."""
    resources = scene.gpus
    memory = {resources.memory: wanted.amount // resources.memory_factor}
    found = {
        "memory": memory,
        "share": {**memory, resources.cores: 0},
        "percent": {resources.percentage: 100},
        "cores": {resources.cores: wanted.amount},
        "count": {resources.count: wanted.amount},
    }.get(what, {})
    return found if all(found) else {}


def proof(scene: PodScene, container: ContainerRequest | None, resources: Sequence[str]) -> list[Evidence]:
    """The evidence of what the container asks for, by the first of these resources that it, or any container, names."""
    pod = scene.pod
    everywhere = [*(pod.spec.init_containers or ()), *pod.spec.containers]
    own = [candidate for candidate in everywhere if container is not None and candidate.name == container.container]
    for some in (own, everywhere):
        for name in filter(None, resources):
            for candidate in some:
                if written(candidate, name) is not None and amount_of(candidate, name) != 0:
                    return [_quote(pod, candidate, name)]
    return []


def _quote(pod: Pod, container: Container, resource: str) -> Evidence:
    kind = "initContainers" if container in (pod.spec.init_containers or ()) else "containers"
    limits = container.resources.limits if container.resources else None
    of = "limits" if resource in (limits or ()) else "requests"
    return quotes.of_resource(pod, resource, str(written(container, resource)), kind=kind, of=of)


_XPU_NUMBERS, _TRN_NUMBERS = (1, 2, 4, 8), (1, 4, 8, 16)
_NUMBERS: Mapping[str, tuple[int, ...]] = {"kunlun": _XPU_NUMBERS, "XPU": _XPU_NUMBERS, "AWSNeuron": _TRN_NUMBERS}
_INSTANCE_LABEL = "node.kubernetes.io/instance-type"


def own_words(scene: PodScene, cause: RankedCause) -> Prose | None:
    """The claim about nodes that refuse another vendor's devices, in its words; None where the usual claim is right."""
    containers = scene.request.containers
    words = {container.word for container in containers}
    device = scene.config.by_word.get(next(iter(words))) if len(words) == 1 else None
    if device is None or device.vendor is FIRST or not cause.nodes:
        return None
    numbers = numbers_given(scene, cause.nodes, device)
    never = [request for request in containers if numbers is not None and request.count not in numbers]
    largest = max(never or containers, key=lambda container: container.count)
    # It means whole devices, because the pod names no cores.
    whole = device.resources.cores not in ("", *scene.asked) and largest.cores == WHOLE_CARD
    values: dict[str, object] = {
        "nodes": prose.names(cause.nodes),
        "count": len(cause.nodes),
        "cards": largest.count,
        "word": device.word,
        "resource": device.resources.count,
        "numbers": ", ".join(map(str, numbers or ())),
        "asked": asked(scene, largest),
    }
    match cause.text:
        case verdicts.NUMA_NOT_FIT if never:
            return Text("numa-not-fit.number", **values)
        case "CardNotFoundCustomFilterRule" if len(containers) > 1:
            return Text("custom-filter-rule.same", **values)
        case verdicts.NODE_INSUFFICIENT:
            some = any(card.card.is_of(device.word) for name in cause.nodes for card in scene.view.cards(name))
            return Text("node-insufficient-device.word" if some else "node-insufficient-device.none", **values)
        case verdicts.EXCLUSIVE_CONFLICT | verdicts.INSUFFICIENT_CORE if whole:
            return Text("exclusive-device-conflict.cores-left-out", **{**values, "resource": device.resources.cores})
        case verdicts.MODE_NOT_FIT:
            if not device.names.also_read:
                return Text("mode-not-fit.profile", **values)
            return Text("mode-not-fit.soft" if is_soft(scene) else "mode-not-fit.hard", **values)
        case "CardQosPolicyMismatch":
            return Text("custom-filter-rule.policy", **values)
        case "CardAppClassMismatch":
            return Text("custom-filter-rule.app-class", **values)
        case _:
            return None


def is_soft(scene: PodScene) -> bool:
    """Whether the pod asks HAMi-core to split an NPU (soft); otherwise the chip's templates split it."""
    return "hami-core" in scene.request.constraints.more


def numbers_given(scene: PodScene, nodes: Iterable[str], device: Device) -> tuple[int, ...] | None:
    """The numbers of devices that these nodes can give at once; None where any number is, as on AWS' inf instances."""
    labels = [scene.nodes[name].metadata.label(_INSTANCE_LABEL) or "" for name in nodes]
    if device.word == "AWSNeuron" and any("inf" in label.casefold() for label in labels):
        return None
    return _NUMBERS.get(device.word)


SHORT = "Insufficient "
"""The beginning of kube-scheduler's texts about resources; the resource follows."""
_GIB = Decimal(2**30)
_MIB = Decimal(2**20)
_MOST_QUOTED = 3


class Shortage(NamedTuple):
    """A resource of which nodes have less than the whole pod asks for, and the node that has the most of it."""

    resource: str
    asked: Decimal
    node: Node
    most: Decimal
    everywhere: bool
    """Whether no node of the cluster has as much as the pod asks for."""

    @property
    def figures(self) -> dict[str, str]:
        return {"asked": _amount(self.resource, self.asked), "most": _amount(self.resource, self.most)}

    def claim(self, text: str, count: int) -> Text:
        if self.everywhere:
            return Text("kubernetes-filter.never", **self.figures, resource=self.resource, text=text, count=count)
        return Text("kubernetes-filter.claim", text=self.noted(text), count=count)

    def noted(self, text: str) -> Text:
        return spaced(text, Text("words.in-parentheses", text=Text("kubernetes-filter.short", **self.figures)))

    def proofs(self, pod: Pod) -> list[Evidence]:
        """The evidence of each container's request as written, then of what kubelet offers on the node."""
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
        """The advice to ask for no more than a node has, where waiting will not help; else empty."""
        values = {**self.figures, "most": _amount(self.resource, self.most, whole=True), "resource": self.resource}
        return [Text("kubernetes-filter.ask-less", **values)] if self.everywhere else []


def shortage(scene: PodScene, text: str, names: Sequence[str]) -> Shortage | None:
    """The shortage in kube-scheduler's `text` about the nodes `names`; None for a text about something else."""
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
