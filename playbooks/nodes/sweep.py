"""What is seen of every node: its cards as HAMi takes them in, lock, device plugin and what Kubernetes says of it."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Literal, NamedTuple

import msgspec

from bot.hami.names import Names
from bot.hami.nodes.cards import Card
from bot.hami.nodes.handshake import READS_LOCAL_TIME, SCHEDULER_PATIENCE, Handshake, scheduler_zone
from bot.hami.nodes.node_lock import LockState
from bot.hami.nodes.node_state import (
    NODE_KEYS,
    expects_gpus,
    given_beside,
    is_for_gpus,
    is_given_by_label_alone,
    read_registrations,
)
from bot.hami.nodes.registration import JSON_SINCE, Registration, Unreadable, Unregistered, digest, kubelet_offers
from bot.hami.vendors import BESIDE, FIRST, LOCK_KEYS, OWN_LOCKS, VENDORS, vendor_of_register_key
from bot.hami.vendors.vendor import Device, Vendor
from bot.kube.models import Node, NodeCondition, Quantity
from bot.kube.selectors import label_matcher
from playbooks.gather.scheduling import Capacity, InstallSeen
from playbooks.nodes.plugins import Plugin, PluginPods, by_node
from playbooks.rules.waiting.after_restart import is_not_taken_in, start_of
from playbooks.rules.waiting.locks import Owners, lock_expiry, lock_on
from playbooks.scene import ClusterScene

_QUIET = ("ready", "missing", "unseen")
_PREFIXES = ("hami.io/", *(prefix for names in BESIDE for prefix in names.annotations))
_NODE_LABELS = tuple(vendor.node_label[0] for vendor in VENDORS if vendor.node_label[0])


class _Said(NamedTuple):
    """What a node's annotations say of its devices but for their UUIDs, and the UUIDs of the first vendor's."""

    texts: tuple[Hashable, ...]
    uuids: Sequence[str]


class OtherDevice(NamedTuple):
    """Another vendor's device that a node has, or should have, and how many of it kubelet offers.

    `since_restart`: a restarted scheduler does not know it yet.
    """

    device: Device
    state: Registration | Unregistered
    offered: int
    since_restart: bool = False


class NodeSeen(NamedTuple):
    """One node. `state` is None where HAMi's possible versions disagree about it.

    `own` is what can be read of its registration, also where HAMi does not take the cards in; `others` is of other
    vendors, and `beside` what HAMi makes of it.
    """

    node: Node
    state: Registration | Unregistered | None
    own: Registration | None
    others: tuple[Registration | Unreadable, ...]
    beside: tuple[OtherDevice, ...]
    registrations: tuple[Registration, ...]
    """All that can be read of what is registered or counted there, whichever vendor's."""
    expects_gpus: bool
    of_others: bool
    """Whether only an operator's label says that the first vendor's GPUs are there, as some other plugins want it."""
    left_out: bool
    """Whether it has GPUs that nobody gave to a device plugin: maybe on purpose."""
    count_resource: str
    """The resource that its cards are counted by; kubelet offers so many of it."""
    allocatable: int
    plugin: Plugin
    plugins_beside: Mapping[str, Plugin]
    """Those of other vendors, by the vendor's word, as far as their labels are known."""
    lock: LockState | None
    own_locks: Mapping[str, LockState]
    """Those that a vendor's binds take in a way of their own, by its word."""

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def cards(self) -> tuple[Card, ...]:
        return tuple(card for registration in self.registrations for card in registration.cards)

    @property
    def concerns(self) -> bool:
        """Whether the node has cards, or should have some."""
        return self.expects_gpus or bool(self.registrations) or bool(self.beside)


class Sweep:
    """All nodes at one moment. `zone`: how far the scheduler's unzoned times are ahead of UTC, as far as it shows."""

    def __init__(
        self,
        install: InstallSeen,
        nodes: Sequence[Node],
        plugins: PluginPods,
        owners: Owners,
        now: datetime,
    ) -> None:
        self.install = install.install
        self.config = install.config
        self.off = {vendor.names.word: vendor.flag for vendor in VENDORS if vendor.flag and self._is_off(vendor)}
        """The vendors that the scheduler's flags leave out, with the flag that is missing."""
        self.owners = owners
        self.now = now
        version = install.install.version
        self.version = version.version if version else None
        annotations = [node.metadata.annotations or {} for node in nodes]
        handshakes = (texts[key] for texts in annotations for key in _handshakes_in(tuple(texts)))
        self.zone = scheduler_zone(handshakes, self.version, now) if self.version else timedelta()
        self.misreads_time = self.version is not None and self.version < READS_LOCAL_TIME
        """Whether the scheduler reads its own local times as UTC."""
        self.judged_at = now + self.zone if self.version and not self.misreads_time else now
        first = msgspec.structs.replace(install.config, devices=install.config.devices[:1])
        world = ClusterScene(install._replace(config=first), Capacity(list(nodes), [], []), self.judged_at)
        self._views = world.views
        self._selects = label_matcher(world.facts.node_selector)
        self._plugins = by_node(plugins.own, now)
        of_vendors = {word: by_node(pods, now) for word, pods in plugins.beside.items()}
        self._beside = {word: by_node for word, by_node in of_vendors.items() if by_node}
        self._versions = world.versions
        self.start = start_of(install.install)
        self._nodes = world.facts.nodes
        self.plugins_known = bool(self._plugins)
        self.names = sorted(self._nodes)

    def _is_off(self, vendor: Vendor) -> bool:
        return bool(self.install.flags) and not any(device.vendor is vendor for device in self.config.devices)

    def see(self, name: str) -> NodeSeen:
        """The node, read anew: what was read of thousands of nodes would be most of the memory."""
        node = self._nodes[name]
        others = tuple(read_registrations(node, BESIDE))
        state = self._state(name)
        own = state.registration if isinstance(state, Unregistered) else state
        count = (self.config.of(own.word) if own else self.config.gpus).count
        plugin = self._plugins.get(name) or Plugin("missing" if self.plugins_known else "unseen")
        beside = tuple(self._of_others(node))
        expects = expects_gpus(node, self.config)
        of_others = expects and is_given_by_label_alone(node, self.config)
        return NodeSeen(
            node=node,
            state=state,
            own=own,
            others=others,
            beside=beside,
            registrations=_registrations(own, others, beside),
            expects_gpus=expects and not (of_others and plugin.health in _QUIET),
            of_others=of_others,
            left_out=name not in self._plugins and not is_for_gpus(node, self.config),
            count_resource=count,
            allocatable=kubelet_offers(node, count),
            plugin=plugin,
            plugins_beside={word: found for word, pods in self._beside.items() if (found := pods.get(name))},
            lock=lock_on(node, self.install, self.now, self.owners),
            own_locks={
                vendor.names.word: lock
                for vendor in OWN_LOCKS
                if (lock := lock_on(node, self.install, self.now, self.owners, vendor)) is not None
            },
        )

    def alike(self, name: str) -> tuple[Hashable, Sequence[str]] | None:
        """What is equal for nodes that have the same faults, and the UUIDs of its cards.

        None for a node that has to be looked at by itself: one that anything but its cards and what Kubernetes and
        the device plugin say of it bears on.
        """
        node, status = self._nodes[name], self._nodes[name].status
        said = self._said(node)
        if said is None:
            return None
        allocatable = _devices(status.allocatable)
        plugin = self._plugins.get(name)
        key = (
            said.texts,
            allocatable,
            allocatable if status.capacity is status.allocatable else _devices(status.capacity),
            tuple(map(_condition, status.conditions or ())),
            node.spec.unschedulable,
            tuple(node.spec.taints or ()),
            tuple([node.metadata.label(key) for key in _NODE_LABELS]),
            "" if said.uuids else FIRST.gpu_label(node),
            self._selects(node.metadata.labels),
            plugin and (plugin.health, plugin.why, plugin.monitor),
            tuple([(state.health, state.why) for pods in self._beside.values() if (state := pods.get(name))]),
        )
        return key, said.uuids

    def _said(self, node: Node) -> _Said | None:
        """What the annotations say that bears on its faults; None where that is the node's alone."""
        texts = node.metadata.annotations or {}
        own, handshake = texts.get(FIRST.names.register), texts.get(FIRST.names.handshake, "")
        # From 2.8 on the handshake is asked only where kubelet offers nothing; unix seconds are the guides' matter.
        if self.version is None or self.version < JSON_SINCE or handshake[:1].isdigit():
            return None
        if own is not None and not kubelet_offers(node, self.config.gpus.count):
            return None
        said, uuids = list[Hashable](), ()
        for key, bearing in _bearings(tuple(texts)):
            if bearing == "alone":
                return None
            if isinstance(bearing, Names):
                cards = digest(bearing, texts[key])
                if cards is None:
                    return None
                said.append((key, cards.encoding, cards.cards))
                uuids = cards.uuids if bearing is FIRST.names else uuids
            elif own is None or key != FIRST.names.handshake:
                said.append((key, texts[key]))
        return _Said(tuple(said), uuids)

    def _state(self, name: str) -> Registration | Unregistered | None:
        """What every possible version makes of the node, where they agree."""
        *rest, newest = (view.registration(name) for view in self._views)
        why = newest.why if isinstance(newest, Unregistered) else None
        agreed = all((state.why if isinstance(state, Unregistered) else None) == why for state in rest)
        return newest if agreed else None

    def _of_others(self, node: Node) -> Iterator[OtherDevice]:
        """What every possible version makes of other vendors' devices there, where they agree."""
        for device in given_beside(node, self.config):
            of = [version for version in self._versions if version >= device.vendor.since]
            found = [device.vendor.registration(node, version, self.judged_at, device.resources) for version in of]
            if found and len({state.why if isinstance(state, Unregistered) else None for state in found}) == 1:
                lost = is_not_taken_in(node, device, self.version, self.start, self.now, zone=self.zone)
                yield OtherDevice(device, found[-1], kubelet_offers(node, device.resources.count), since_restart=lost)

    def is_overdue(self, handshake: Handshake | None) -> bool:
        """Whether a question of the scheduler has gone unanswered for too long, in its own local time."""
        if handshake is None or handshake.at is None or handshake.state != "requesting":
            return False
        return self.now + self.zone - handshake.at > SCHEDULER_PATIENCE

    @property
    def lock_expiry(self) -> timedelta:
        return lock_expiry(self.install)


def _registrations(
    own: Registration | None, others: Iterable[Registration | Unreadable], beside: Iterable[OtherDevice]
) -> tuple[Registration, ...]:
    found = [registration for registration in (own, *others) if isinstance(registration, Registration)]
    known = {registration.word for registration in found}
    states = (device.state for device in beside if device.device.word not in known)
    return (*found, *(state for state in states if isinstance(state, Registration)))


@lru_cache(maxsize=1024)  # the nodes of a cluster have the same few keys
def _handshakes_in(keys: tuple[str, ...]) -> list[str]:
    """Those of all vendors: the others' keys begin with the first one's."""
    return [key for key in keys if key.startswith(FIRST.names.handshake)]


@lru_cache(maxsize=1024)
def _bearings(keys: tuple[str, ...]) -> list[tuple[str, Names | Literal["text", "alone"]]]:
    """The annotations that bear on a node's faults, and how: by the cards of this vendor that they register, by their
    text, or in a way that has the node looked at by itself.
    """
    found = list[tuple[str, Names | Literal["text", "alone"]]]()
    for key in keys:
        if key in (*LOCK_KEYS, *NODE_KEYS):
            found.append((key, "alone"))
        elif (vendor := vendor_of_register_key(key)) is not None:
            found.append((key, vendor[0]))
        elif key.startswith(_PREFIXES):
            found.append((key, "text"))
    return found


def _condition(condition: NodeCondition) -> Hashable:
    """What of it bears on a node's faults."""
    state = (condition.type, condition.status)
    return state if condition.type == "Ready" else (*state, condition.reason, condition.message)


def _devices(amounts: Mapping[str, Quantity] | None) -> tuple[tuple[str, Quantity], ...]:
    return tuple([item for item in (amounts or {}).items() if "/" in item[0]])
