"""The seam for vendors: everything that HAMi's scheduler does differently for one vendor's devices.

A vendor is one value of `Vendor` in a folder or file of its own and a line in `bot.hami.vendors`. It has one device,
or one for each chip that the device config names. The frame around it is the same for all:
`bot.hami.pods.request_parsing` asks each device for a pod's requests, `bot.hami.nodes.node_state` for a node's cards,
and `bot.hami.fit.filter` for the verdict on one container.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, Protocol

import msgspec

from bot.hami.fit.verdicts import CardUse, Run, Verdict
from bot.hami.names import Names
from bot.hami.nodes.cards import CardState
from bot.hami.nodes.node_lock import LOCK_KEY
from bot.hami.nodes.registration import Registration, Unregistered
from bot.hami.pods.pod_request import Constraints, ContainerRequest, Resources
from bot.hami.version import Version
from bot.kube.models import Container, Node, Pod
from bot.kube.selectors import label_matcher


def _as_read(resources: Resources, _: Mapping[str, int]) -> Resources:
    return resources


def _cores(asked: ContainerRequest) -> int:
    return asked.cores


def _by_memory(_: ContainerRequest, __: Resources) -> str:
    return ""


def _no_label(_: Node) -> str:
    return ""


def _no_facts(_: Node) -> None:
    return None


class Ask(NamedTuple):
    """What one pod may ask: of one container, with the annotations that go with it."""

    container: ContainerRequest
    constraints: Constraints = Constraints()


def _a_little(state: CardState, word: str) -> Ask:
    del state
    return Ask(ContainerRequest(word, "", 1, 1, 0, 0))


def _all_free(state: CardState) -> Sequence[int]:
    return (state.free_memory_mib,)


def _any_amount(_: ContainerRequest, __: Constraints, ___: Resources, amount: int) -> int:
    return amount


def _whole(_: Run, __: list[CardState]) -> bool:
    return False


class NodeRules(Protocol):
    """How HAMi's scheduler takes in the cards of a vendor's nodes; `resources` as for the vendor."""

    def registration(
        self, node: Node, version: Version, now: datetime, resources: Resources, /
    ) -> Registration | Unregistered:
        """The cards as that version's scheduler takes them in at that moment."""
        ...

    def is_taken_in_for_good(self, node: Node, version: Version, resources: Resources, /) -> bool:
        """Whether what is registered counts at any time, whatever the handshake says."""
        ...

    def is_held_by_turns(self, node: Node, version: Version, now: datetime, resources: Resources, /) -> bool:
        """Whether the scheduler takes the cards in and drops them again every minute."""
        ...


class Vendor(NamedTuple):
    """One vendor. Every function is pure; `resources` are those of one of its devices in the cluster."""

    names: Names

    read_resources: Callable[[object], Sequence[Resources]]
    """(device config as YAML has it, None for the chart's): its devices; none where the config leaves the vendor out.

    Raises ValueError where its section has another shape.
    """

    request: Callable[[Container, Resources, Version], ContainerRequest | None]
    """(container, resources, version): what the container asks for; None where that is nothing."""

    nodes: NodeRules
    """How HAMi's scheduler takes in the cards of its nodes."""

    scan: Callable[[Run, list[CardState], ContainerRequest], Verdict | list[CardUse]]
    """(run, cards in play, container): what the container takes, or why it does not fit.

    Called once for each container and node; the cards are in the order of the policy where that can matter.
    """

    since: Version = Version(0, 0, 0)
    """The first version of HAMi that has it."""

    flag: str = ""
    """The scheduler's flag without which it is off; empty where it is always on."""

    hinted: Callable[[Resources, Mapping[str, int]], Resources] = _as_read
    """(resources, hints): with what a recording says of its devices that no object shows (`Cluster.device_hints`)."""

    obeys_quota: bool = False
    """Whether the filter holds a namespace's quota against it: the webhook does so for every vendor from 2.10 on."""

    more_uuids: bool = False
    """Whether the further annotations that its scan reads (`Names.also_read`) name cards."""

    shares_one_only: bool = False
    """Whether a container gets a part of a card only where it asks for one card."""

    orders: bool = False
    """Whether the verdict depends on the order of the cards even for a single container."""

    plugin_labels: str = ""
    """The selector of its device plugin's pods; empty where their labels are not known."""

    plugin_names: str = ""
    """What its device plugin's pods or images are called as well: a regular expression."""

    node_label: tuple[str, str] = ("", "")
    """The label that an operator puts on nodes where the device plugin shall run."""

    lock_key: str = LOCK_KEY
    """The node annotation that a bind locks a node with, empty where it locks none (pkg/device/*/device.go)."""

    locks_since: Version = Version(0, 0, 0)
    """The first version whose binds do."""

    gpu_label: Callable[[Node], str] = _no_label
    """(node): the label by which it is known to have this vendor's GPUs, empty when none says so."""

    node_keys: tuple[str, ...] = ()
    """The node annotations that bear on its GPUs, beside their registration and the handshake."""

    node_facts: Callable[[Node], Any] = _no_facts
    """What `scan` needs to know of a node beside its cards; None for nothing."""

    own_measure: Callable[[ContainerRequest, Resources], str] = _by_memory
    """(container, resources): what it asks for in words, where that is no amount of memory in MiB; empty elsewhere."""

    cores_unit: str = "%"
    """What stands behind an amount of its cores: `50%`, or `8/16` where a whole one has 16; empty for a number."""

    cores_each: Callable[[ContainerRequest], int] = _cores
    """(container): the cores that it asks of each of its devices."""

    count_cores: Callable[[int], int] = int
    """(cores as a card or a pod's annotation has them): how many those are."""

    one_card_per_pod: bool = False
    """Whether all containers of a pod must get the same card."""

    may_split: Callable[[Run, list[CardState]], bool] = _whole
    """(run, cards in play): whether one GPU may serve a container that asks for several."""

    least: Callable[[CardState, str], Ask] = _a_little
    """(card, the device's word): the least that a pod can ask of the card as it is used."""

    askable: Callable[[ContainerRequest, Constraints, Resources, int], int] = _any_amount
    """(container, constraints, resources, MiB): the most memory up to that which the webhook leaves as written."""

    slices: Callable[[CardState], Sequence[int]] = _all_free
    """(card): the amounts of memory in MiB that one pod could get of what is free."""

    def is_plugin(self, pod: Pod) -> bool:
        """Whether the pod is of its device plugin, by its labels or by what it or an image of it is called."""
        if self.plugin_labels and label_matcher(self.plugin_labels)(pod.metadata.labels):
            return True
        called = (pod.name, *(container.image for container in pod.spec.containers))
        return bool(self.plugin_names) and any(re.search(self.plugin_names, name) for name in called)


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
