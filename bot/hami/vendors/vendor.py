"""The seam for vendors: everything that HAMi's scheduler and webhook do differently for one vendor's devices.

A vendor is a class that overrides what differs, in a file of its own, and a line in `bot.hami.vendors`. It
has one device, or one for each chip that the device config names. The frame around it is the same for all:
`bot.hami.pods.request_parsing` asks each device for a pod's requests, `bot.hami.nodes.node_state` for a node's cards,
`bot.hami.fit.filter` for the verdict on one container, and `bot.hami.webhook` what a pod is admitted as.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from bot.hami.fit.verdicts import CardUse, Run, Verdict
from bot.hami.names import Names
from bot.hami.nodes.cards import CardState
from bot.hami.nodes.node_lock import LOCK_KEY
from bot.hami.nodes.registration import (
    OTHERS_BY_KUBELET_SINCE,
    Judgement,
    Registration,
    Unregistered,
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
    Resources,
    amount_of,
    to_int32,
)
from bot.hami.vendors import standard_fit
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
"""The keys under which most vendors' sections name their resources, and how much one of the memory resource counts."""


class AnnotatedContainer(NamedTuple):
    """A container with its pod's annotations. The API has given each limit without a request an equal one already."""

    container: str
    limits: Amounts
    requests: Amounts
    annotations: Mapping[str, str]
    version: Version

    def limit(self, resource: str) -> int | None:
        """The limit rounded up, as Quantity.Value() does; None where there is none."""
        return whole(self.limits.get(resource)) if resource else None

    def asked(self, resource: str) -> int | None:
        """The limit, else the request, rounded up."""
        return whole(self.limits.get(resource, self.requests.get(resource))) if resource else None

    def exactly(self, resource: str) -> int | None:
        """The limit, else the request, as Quantity.AsInt64() reads it; None where that is no whole number."""
        number = parse_quantity(self.limits.get(resource, self.requests.get(resource, "")))
        return int(number) if number is not None and number == number.to_integral_value() else None


class Mutation(NamedTuple):
    """What the vendor writes into a container of its own, and into its pod's annotations; often nothing."""

    limits: Amounts = MappingProxyType({})
    requests: Amounts = MappingProxyType({})
    annotations: Mapping[str, str] = MappingProxyType({})


class Denied(NamedTuple):
    """The vendor refuses the pod, in these words."""

    words: str


Answer = Mutation | Denied | None
"""None: the container asks for none of the vendor's devices."""


class Ask(NamedTuple):
    """What one pod may ask: of one container, with the annotations that go with it."""

    container: ContainerRequest
    constraints: Constraints = Constraints()


class Vendor:
    """One vendor, as most are: it overrides what differs. Every method is pure.

    `resources`, wherever they are a parameter, are those of one of its devices in the cluster.
    """

    names: Names

    # ------------------------------------------------------------------------------- the device config, requests

    section: str = ""
    """Its key in the device config."""

    section_keys: Mapping[str, str] = USUAL_KEYS
    """The keys in its section, by what they name."""

    unit_mib: int = 1
    """What one of its memory resource means."""

    since: Version = Version(0, 0, 0)
    """The first version of HAMi that has it."""

    flag: str = ""
    """The scheduler's flag without which it is off; empty where it is always on."""

    obeys_quota: bool = False
    """Whether the filter holds a namespace's quota against it: the webhook does so for every vendor from 2.10 on."""

    cores_unit: str = "%"
    """What stands behind an amount of its cores: `50%`, or `8/16` where a whole one has 16; empty for a number."""

    wraps_count: bool = False
    """Whether HAMi cuts its count down to 32 bits unseen."""

    each: tuple[int, int, int] | None = None
    """Memory in MiB, percentage and cores of each one, where containers ask for their number alone."""

    def read_resources(self, document: object) -> Sequence[Resources]:
        """(device config as YAML has it, None for the chart's): its devices; none where the config leaves it out.

        Raises ValueError where its section has another shape.
        """
        found = section_of(document, self.section)
        if found is None:
            return ()
        names, section, keys = self.names, msgspec.convert(found, dict[str, Any]), self.section_keys

        def named(part: str, usual: str) -> str:
            return msgspec.convert(section.get(keys[part]) or usual, str) if usual and part in keys else usual

        factor = msgspec.convert(section.get(keys.get("memory_factor", ""), 1), int)
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
        """With what a recording says of its devices that no object shows (`bot.kube.cluster.Hinting`)."""
        return resources

    def request(self, container: Container, resources: Resources, version: Version) -> ContainerRequest | None:
        """What the container asks for; None where that is nothing."""
        count = self.count_in(container, resources)
        if self.each is not None:
            return ContainerRequest(self.names.word, container.name, count, *self.each) if count else None
        memory = amount_in(container, resources.memory, resources.memory_factor)
        cores = amount_in(container, resources.cores, absent=WHOLE_CARD)
        if not count or memory is None or cores is None:
            return None
        return ContainerRequest(self.names.word, container.name, count, memory, whole_or(memory), cores)

    def count_in(self, container: Container, resources: Resources) -> int:
        """How many devices are asked for; 0 where that is no number of devices."""
        count = amount_of(container, resources.count)
        if not isinstance(count, int):
            return 0
        return max(to_int32(count), 0) if self.wraps_count else count if 0 < count <= INT32_MAX else 0

    def admit(self, shown: AnnotatedContainer, resources: Resources) -> Answer:
        """What the webhook makes of a container; most vendors only look whether its limits name their count."""
        return Mutation() if resources.count in shown.limits else None

    def askable(self, container: ContainerRequest, constraints: Constraints, resources: Resources, amount: int) -> int:
        """The most memory up to that amount of MiB which the webhook leaves as written."""
        return amount

    def own_measure(self, container: ContainerRequest, resources: Resources) -> str:
        """What it asks for in words, where that is no amount of memory in MiB; empty elsewhere."""
        return ""

    def cores_each(self, container: ContainerRequest) -> int:
        """The cores that it asks of each of its devices."""
        return container.cores

    # ------------------------------------------------------------------------------------------------- its nodes

    node_label: tuple[str, str] = ("", "")
    """The label that an operator puts on nodes where the device plugin shall run."""

    node_keys: tuple[str, ...] = ()
    """The node annotations that bear on its GPUs, beside their registration and the handshake."""

    by_kubelet_since: Version = OTHERS_BY_KUBELET_SINCE
    """The first version that asks what kubelet offers of them, before it goes by the handshake."""

    lock_key: str = LOCK_KEY
    """The node annotation that a bind locks a node with, empty where it locks none (pkg/device/*/device.go)."""

    lock_expiry: timedelta | None = None
    """How long a lock of its own is kept, which is a bare time; None where it is HAMi's usual one."""

    locks_since: Version = Version(0, 0, 0)
    """The first version whose binds do."""

    plugin_labels: str = ""
    """The selector of its device plugin's pods; empty where their labels are not known."""

    plugin_names: str = ""
    """What its device plugin's pods or images are called as well: a regular expression."""

    def is_plugin(self, pod: Pod) -> bool:
        """Whether the pod is of its device plugin, by its labels or by what it or an image of it is called."""
        if self.plugin_labels and label_matcher(self.plugin_labels)(pod.metadata.labels):
            return True
        called = (pod.name, *(container.image for container in pod.spec.containers))
        return bool(self.plugin_names) and any(re.search(self.plugin_names, name) for name in called)

    gpu_labels: tuple[str, ...] = ()
    """The labels of those that `gpu_label` asks for which a sweep over all nodes reads."""

    def gpu_label(self, node: Node) -> str:
        """The label by which the node is known to have this vendor's GPUs, empty when none says so."""
        return ""

    def node_facts(self, node: Node) -> Any:
        """What `scan` needs to know of the node beside its cards; None for nothing."""
        return None

    def registration(
        self, node: Node, version: Version, now: datetime, resources: Resources
    ) -> Registration | Unregistered:
        """The cards as that version's scheduler takes them in at that moment.

        Most plugins write them on the node and shake hands [pkg/scheduler/scheduler.go register loop and
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
        """Whether what is registered counts at any time, whatever the handshake says: kubelet offers some of it."""
        return version >= self.by_kubelet_since and kubelet_offers(node, resources.count) > 0

    def is_held_by_turns(self, node: Node, version: Version, now: datetime, resources: Resources) -> bool:
        """Whether the scheduler takes the cards in and drops them again every minute: kubelet offers none of them."""
        return self._judge_handshake(node, version, now, resources) == "unknown"

    def _judge_handshake(self, node: Node, version: Version, now: datetime, resources: Resources) -> Judgement:
        text = node.metadata.annotation(self.names.of(resources.word).handshake)
        handshake = None if text is None else parse_handshake(text)
        offered = kubelet_offers(node, resources.count)
        return judge_as_scheduler(handshake, version, offered, now, self.by_kubelet_since)

    # ----------------------------------------------------------------------------------------------- the verdict

    card_checks: tuple[standard_fit.Check, ...] = standard_fit.USUAL
    """What the usual scan asks of each card."""

    more_uuids: bool = False
    """Whether the further annotations that its scan reads (`Names.also_read`) name cards."""

    class_key: str = ""
    """The pod annotation that sets apart the pods on a card (`CardState.classes`)."""

    shares_one_only: bool = False
    """Whether a container gets a part of a card only where it asks for one card."""

    one_card_per_pod: bool = False
    """Whether all containers of a pod must get the same card."""

    orders: bool = False
    """Whether the verdict depends on the order of the cards even for a single container."""

    def scan(self, run: Run, in_play: list[CardState], asked: ContainerRequest) -> Verdict | list[CardUse]:
        """What the container takes, or why it does not fit.

        Called once for each container and node; the cards are in the order of the policy where that can matter.
        """
        return standard_fit.scan(run, in_play, asked, self.card_checks)

    def may_split(self, run: Run, in_play: list[CardState]) -> bool:
        """Whether one GPU may serve a container that asks for several."""
        return False

    def least(self, state: CardState, word: str) -> Ask:
        """The least that a pod can ask of the card as it is used; `word` is the device's."""
        return Ask(ContainerRequest(word, "", 1, 1, 0, 0))

    def slices(self, state: CardState) -> Sequence[int]:
        """The amounts of memory in MiB that one pod could get of what is free on the card."""
        return (state.free_memory_mib,)

    def count_cores(self, cores: int) -> int:
        """How many those are that a card or a pod's annotation has as that number."""
        return cores


class Device(msgspec.Struct, frozen=True):
    """What HAMi hands out under one word: a vendor's, or one of its chips."""

    vendor: Vendor
    resources: Resources

    @property
    def word(self) -> str:
        return self.resources.word

    @property
    def names(self) -> Names:
        """The annotations are called as here; the resources as `resources` says."""
        return self.vendor.names.of(self.resources.word)

    @property
    def capacity(self) -> str:
        """The node resource that cards are counted by where no annotation lists them."""
        names, resources = self.names, self.resources
        return {names.count: resources.count, names.cores: resources.cores}.get(names.capacity, names.capacity)


def section_of(document: object, key: str) -> Any:
    """What the config has under that key, None where it leaves it out. Without a config it is an empty section."""
    if document is None:
        return {}
    return msgspec.convert(document, dict[str, Any]).get(key)


def amount_in(container: Container, resource: str, factor: int = 1, *, absent: int = 0) -> int | None:
    """The amount times the factor, `absent` where there is none; None where it makes HAMi see no request at all."""
    amount = amount_of(container, resource) if resource else None
    if amount is None:
        return absent
    return amount * factor if isinstance(amount, int) and 0 <= amount * factor <= INT32_MAX else None


def whole_or(memory_mib: int) -> int:
    """The percentage that goes with an amount of memory: none of it is the whole card."""
    return 0 if memory_mib else WHOLE_CARD


def limits_of(container: Container) -> Container:
    """The container with its limits alone, for a vendor that reads no requests."""
    if container.resources is None:
        return container
    limits = msgspec.structs.replace(container.resources, requests=None)
    return msgspec.structs.replace(container, resources=limits)
