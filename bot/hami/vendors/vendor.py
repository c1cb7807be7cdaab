"""What HAMi's scheduler and webhook do differently for one vendor's devices.

A vendor is a class that overrides what differs, in a file of its own, and a line in `bot.hami.vendors`. It has one
device, or one for each chip that the device config names. The frame for all vendors asks it:
`bot.hami.pods.request_parsing` for a pod's requests, `bot.hami.nodes.node_state` for a node's cards,
`bot.hami.fit.filter` for the verdict on one container, and `bot.hami.webhook` for what a pod is admitted as.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from bot.hami.fit.verdicts import USUAL, CardUse, Check, Run, Verdict, scan
from bot.hami.names import Names
from bot.hami.nodes.cards import Card, CardState
from bot.hami.nodes.node_lock import LOCK_KEY
from bot.hami.nodes.registration import (
    OTHERS_BY_KUBELET_SINCE,
    Judgement,
    Registration,
    Unregistered,
    capacity_of,
    cards_like,
    judge_as_scheduler,
    kubelet_offers,
    parse_handshake,
    registered_cards,
)
from bot.hami.pods.pod_request import (
    INT32_MAX,
    WHOLE_CARD,
    Constraints,
    ContainerRequest,
    PodRequest,
    Resources,
    amount_of,
    to_int32,
)
from bot.hami.version import Version
from bot.kube.models import Container, Node, Pod, Quantity
from bot.kube.quantities import parse_quantity, whole
from bot.kube.selectors import label_matcher

Amounts = Mapping[str, Quantity]

USUAL_KEYS = {
    "count": "resourceCountName",
    "memory": "resourceMemoryName",
    "cores": "resourceCoreName",
    "memory_factor": "memoryFactor",
}
"""The keys by which most vendors' config sections name their resources, and the factor of the memory resource."""


class AnnotatedContainer(NamedTuple):
    """A container with its pod's annotations, as a webhook sees it: a limit without a request is also the request."""

    container: str
    limits: Amounts
    requests: Amounts
    annotations: Mapping[str, str]
    version: Version

    def limit(self, resource: str) -> int | None:
        """The container's limit rounded up, as Quantity.Value() does; None without a limit."""
        return whole(self.limits.get(resource)) if resource else None

    def asked(self, resource: str) -> int | None:
        """The container's limit, else its request, rounded up; None without either."""
        return whole(self.limits.get(resource, self.requests.get(resource))) if resource else None

    def exactly(self, resource: str) -> int | None:
        """The limit, else the request, as Quantity.AsInt64() reads it; None for what is no whole number."""
        number = parse_quantity(self.limits.get(resource, self.requests.get(resource, "")))
        return int(number) if number is not None and number == number.to_integral_value() else None


class Mutation(NamedTuple):
    """What HAMi's webhook writes, for a vendor, into a container and the pod's annotations; often nothing."""

    limits: Amounts = MappingProxyType({})
    requests: Amounts = MappingProxyType({})
    annotations: Mapping[str, str] = MappingProxyType({})


class Denied(NamedTuple):
    """HAMi's webhook refuses the pod, for a vendor, in these words."""

    words: str


Answer = Mutation | Denied | None
"""What HAMi's webhook makes of a container, for a vendor; None where it requests none of the vendor's devices."""


class Vendor:
    """One vendor of devices, with what most vendors do; subclasses override what differs, and every method is pure. A
    parameter `resources` has the resources of one of the vendor's devices in the cluster.
    """

    names: Names

    # ------------------------------------------------------------------------------- the device config, requests

    section: str = ""
    """The key of the vendor's section in the device config."""

    section_keys: Mapping[str, str] = USUAL_KEYS
    """The keys in the vendor's section, by the fields of `Resources`."""

    unit_mib: int = 1
    """The MiB that one unit of the vendor's memory resource means."""

    since: Version = Version(0, 0, 0)
    """The first version of HAMi that supports the vendor."""

    flag: str = ""
    """The scheduler's flag that turns the vendor on; empty where it is always on."""

    obeys_quota: bool = False
    """Whether HAMi's filter applies quotas to the devices; the webhook does for every vendor from 2.10 on."""

    cores_unit: str = "%"
    """The unit behind an amount of cores: `50%`, or `8/16` where a whole device has 16; empty for a number."""

    wraps_count: bool = False
    """Whether HAMi silently cuts the vendor's count down to 32 bits."""

    each: tuple[int, int, int] | None = None
    """MiB, percentage and cores of each device, where containers can request only a number of them."""

    def read_resources(self, section: object) -> Sequence[Resources]:
        """The vendor's devices in its section of the device config, the chart's for None. Raises ValueError where the
        section has another shape.
        """
        names, keys = self.names, self.section_keys
        found = {} if section is None else msgspec.convert(section, dict[str, Any])

        def named(part: str, usual: str) -> str:
            return msgspec.convert(found.get(keys[part]) or usual, str) if usual and part in keys else usual

        factor = msgspec.convert(found.get(keys.get("memory_factor", ""), 1), int)
        return (
            Resources(
                word=names.word,
                count=named("count", names.count),
                memory=named("memory", names.memory),
                cores=named("cores", names.cores),
                memory_factor=max(factor, 1) * self.unit_mib,
            ),
        )

    def hinted(self, resources: Resources, hints: Mapping[str, int]) -> Resources:
        """The resources with what a recording tells that no object shows (`bot.kube.cluster.Hinting`)."""
        return resources

    def request(self, container: Container, resources: Resources, version: Version) -> ContainerRequest | None:
        """What the container requests of the vendor's device; None for nothing."""
        count = self.count_in(container, resources)
        if self.each is not None:
            return ContainerRequest(self.names.word, container.name, count, *self.each) if count else None
        memory = amount_in(container, resources.memory, resources.memory_factor)
        cores = amount_in(container, resources.cores, absent=WHOLE_CARD)
        if not count or memory is None or cores is None:
            return None
        return ContainerRequest(self.names.word, container.name, count, memory, whole_or(memory), cores)

    def count_in(self, container: Container, resources: Resources) -> int:
        """How many devices the container requests; 0 for a text that is no number of devices."""
        count = amount_of(container, resources.count)
        if not isinstance(count, int):
            return 0
        return max(to_int32(count), 0) if self.wraps_count else count if 0 < count <= INT32_MAX else 0

    def admit(self, shown: AnnotatedContainer, resources: Resources) -> Answer:
        """What HAMi's webhook makes of a container. Most vendors only look whether its limits name their count."""
        return Mutation() if resources.count in shown.limits else None

    def askable(self, container: ContainerRequest, constraints: Constraints, resources: Resources, amount: int) -> int:
        """The most MiB, up to `amount`, that the webhook leaves as written."""
        return amount

    def own_measure(self, container: ContainerRequest, resources: Resources) -> str:
        """The container's request in words, where its memory is no amount in MiB; else empty."""
        return ""

    def cores_each(self, container: ContainerRequest) -> int:
        return container.cores

    # ------------------------------------------------------------------------------------------------- its nodes

    node_label: tuple[str, str] = ("", "")
    """The label that an operator sets on nodes where the vendor's device plugin should run."""

    node_keys: tuple[str, ...] = ()
    """The node annotations that decide about the vendor's devices, besides registration and handshake."""

    by_kubelet_since: Version = OTHERS_BY_KUBELET_SINCE
    """The first version of HAMi that asks kubelet's allocatable before it asks the handshake of these devices."""

    lock_key: str = LOCK_KEY
    """The node annotation by which a bind locks a node; empty where it locks none (pkg/device/*/device.go)."""

    lock_expiry: timedelta | None = None
    """How long the vendor's own kind of lock, a bare time, is kept; None for HAMi's usual lock."""

    locks_since: Version = Version(0, 0, 0)
    """The first version of HAMi whose binds lock a node for the vendor."""

    plugin_labels: str = ""
    """The label selector of the vendor's device plugin pods; empty where their labels are not known."""

    plugin_names: str = ""
    """A regular expression for the names of the device plugin's pods or images."""

    def is_plugin(self, pod: Pod) -> bool:
        """Whether the pod is of the vendor's device plugin, by its labels, its name or an image."""
        if self.plugin_labels and label_matcher(self.plugin_labels)(pod.metadata.labels):
            return True
        called = (pod.name, *(container.image for container in pod.spec.containers))
        return bool(self.plugin_names) and any(re.search(self.plugin_names, name) for name in called)

    gpu_labels: tuple[str, ...] = ()
    """The labels that `gpu_label` reads, which a question about all nodes must keep."""

    def gpu_label(self, node: Node) -> str:
        """The key of the label that shows the vendor's GPUs on the node; empty without one."""
        return ""

    def node_facts(self, node: Node) -> Any:
        """What `scan` needs to know of the node besides its cards; None for nothing."""
        return None

    def registration(
        self, node: Node, version: Version, now: datetime, resources: Resources
    ) -> Registration | Unregistered:
        """The node's cards as this version's scheduler has them at `now`, or why it has none.

        Most plugins write cards on the node and answer handshakes [pkg/scheduler/scheduler.go register loop and
        pkg/device/*/device.go GetNodeDevices, CheckHealth].
        """
        read = registered_cards(node, self.names, resources.word)
        judgement = self._judge_handshake(node, version, now, resources)
        if isinstance(read, Unregistered) or judgement in ("alive", "unknown"):
            return read
        key = self.names.of(resources.word).handshake
        why = "deleted" if judgement == "deleted" else "stale"
        return Unregistered(why, key, node.metadata.annotation(key) or "", read)

    def is_taken_in_for_good(self, node: Node, version: Version, resources: Resources) -> bool:
        """Whether the scheduler keeps the registered cards whatever the handshake says, because kubelet offers some."""
        return version >= self.by_kubelet_since and kubelet_offers(node, resources.count) > 0

    def is_held_by_turns(self, node: Node, version: Version, now: datetime, resources: Resources) -> bool:
        """Whether the scheduler adds and drops the node's cards every minute, because kubelet offers none."""
        return self._judge_handshake(node, version, now, resources) == "unknown"

    def _judge_handshake(self, node: Node, version: Version, now: datetime, resources: Resources) -> Judgement:
        text = node.metadata.annotation(self.names.of(resources.word).handshake)
        handshake = None if text is None else parse_handshake(text)
        offered = kubelet_offers(node, resources.count)
        return judge_as_scheduler(handshake, version, offered, now, self.by_kubelet_since)

    # ----------------------------------------------------------------------------------------------- the verdict

    card_checks: tuple[Check, ...] = USUAL
    """The checks that the usual scan runs on each card."""

    more_uuids: bool = False
    """Whether the further annotations that the scan reads (`Names.also_read`) list uuids."""

    class_key: str = ""
    """The pod annotation with the app class, which decides who may share a card (`CardState.classes`)."""

    shares_one_only: bool = False
    """Whether a container gets a part of a card only when it requests one card."""

    one_card_per_pod: bool = False
    orders: bool = False
    """Whether the order of the cards decides even for a single container."""

    def scan(self, run: Run, in_play: list[CardState], asked: ContainerRequest) -> Verdict | list[CardUse]:
        """The cards that the container takes of those `in_play`, or why it does not fit. Called once for each container
        and node; the cards are in the order of the policy where that can matter.
        """
        return scan(run, in_play, asked, self.card_checks)

    def may_split(self, run: Run, in_play: list[CardState]) -> bool:
        """Whether one card may serve a container that requests several."""
        return False

    def least(self, state: CardState, word: str) -> PodRequest:
        """The smallest request that a pod can make of the card as it is used; `word` is the device's."""
        return self.alone(ContainerRequest(word, "", 1, 1, 0, 0))

    def alone(self, container: ContainerRequest, **annotations: Any) -> PodRequest:
        """A pod's request with only this container, of this vendor; `annotations` are fields of `Constraints`."""
        own = msgspec.structs.replace(container, vendor=self.names.word)
        return PodRequest("", "", "", (own,), Constraints(**annotations))

    def slices(self, state: CardState) -> Sequence[int]:
        """The amounts of memory in MiB that one pod could get from the card as it is used."""
        return (state.free_memory_mib,)

    def count_cores(self, cores: int) -> int:
        """The number of cores behind the figure in a registration or an allocation."""
        return cores


class Device(msgspec.Struct, frozen=True):
    """A device that HAMi hands out under one word: a vendor's, or one of the vendor's chips."""

    vendor: Vendor
    resources: Resources

    @property
    def word(self) -> str:
        return self.resources.word

    @property
    def names(self) -> Names:
        """The names of the device's annotations; for its resources see `resources`."""
        return self.vendor.names.of(self.resources.word)

    @property
    def capacity(self) -> str:
        """The node resource that counts the device's cards where no annotation lists them."""
        names, resources = self.names, self.resources
        return {names.count: resources.count, names.cores: resources.cores}.get(names.capacity, names.capacity)


def amount_in(container: Container, resource: str, factor: int = 1, *, absent: int = 0) -> int | None:
    """The container's amount times `factor`, `absent` without one; None where HAMi then sees no request at all."""
    amount = amount_of(container, resource) if resource else None
    if amount is None:
        return absent
    return amount * factor if isinstance(amount, int) and 0 <= amount * factor <= INT32_MAX else None


def whole_or(memory_mib: int) -> int:
    """The percentage of a card's memory that goes with this amount: 0, or the whole card where no amount is given."""
    return 0 if memory_mib else WHOLE_CARD


def limits_of(container: Container) -> Container:
    """The container without its requests, for a vendor of which HAMi reads only limits."""
    if container.resources is None:
        return container
    limits = msgspec.structs.replace(container.resources, requests=None)
    return msgspec.structs.replace(container, resources=limits)


Found = Registration | Unregistered


class Rescanned(Vendor):
    """A vendor without a handshake: HAMi's scheduler reads the node's cards anew in every pass. Source: HAMi v2.10.0
    pkg/scheduler/scheduler.go register loop, pkg/device/*/device.go GetNodeDevices.
    """

    def find(self, node: Node, resources: Resources) -> Found:
        """The node's cards as its register annotation has them, or why there are none."""
        return registered_cards(node, self.names, self.names.word)

    def registration(self, node: Node, version: Version, now: datetime, resources: Resources) -> Found:
        return self.find(node, resources)

    def is_taken_in_for_good(self, node: Node, version: Version, resources: Resources) -> bool:
        return True

    def is_held_by_turns(self, node: Node, version: Version, now: datetime, resources: Resources) -> bool:
        return False


class Counted(Rescanned):
    """A vendor whose cards are counted by the node's capacity, and are all alike."""

    card: Card
    counted_by: str = "count"
    """The field of `Resources` with the resource that counts the cards."""

    def cards(self, node: Node, resources: Resources) -> list[Card]:
        """The cards that the node's capacity counts."""
        return cards_like(self.card, capacity_of(node, resources.count), f"{node.name}-{self.names.card_word}-")

    def find(self, node: Node, resources: Resources) -> Found:
        found = tuple(self.cards(node, resources))
        key = getattr(resources, self.counted_by)
        return Registration(self.names, self.names.word, key, "capacity", found) if found else Unregistered("absent")


class CountedByCores(Counted):
    """A vendor whose plugin offers cores (`Names.capacity_unit` for each card) and memory as amounts of the node."""

    counted_by = "cores"

    def cards(self, node: Node, resources: Resources) -> list[Card]:
        cores, whole_card = capacity_of(node, resources.cores), self.names.capacity_unit
        if cores <= 0:
            return []
        memory = capacity_of(node, resources.memory) * resources.memory_factor * whole_card // cores
        card = Card(slots=100, memory_mib=memory, cores=whole_card, type=self.names.word, health=True)
        return cards_like(card, -(-cores // whole_card), f"{node.name}-{self.names.card_word}-")
