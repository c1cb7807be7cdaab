"""The scene of nodes: GPUs as HAMi takes them in, what kubelet offers, device plugins, and what single nodes say."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property, lru_cache
from typing import NamedTuple, Self, TypeVar
from weakref import ref

import msgspec
from msgspec import structs

from bot.hami.installation import dra
from bot.hami.nodes.cards import Card
from bot.hami.nodes.node_state import (
    SIZE_LABELS,
    PluginSettings,
    expects_gpus,
    given_beside,
    is_for,
    is_given_by_label_alone,
    read_plugin_settings,
    read_registrations,
    vendors_of,
)
from bot.hami.nodes.registration import (
    READS_LOCAL_TIME,
    SCHEDULER_PATIENCE,
    Handshake,
    Registration,
    Unreadable,
    Unregistered,
    kubelet_offers,
    read_registration,
    scheduler_zone,
)
from bot.hami.vendors import BESIDE, FIRST, VENDORS
from bot.hami.vendors.vendor import Device, Vendor
from bot.kube.models import Node, ObjectMeta, Pod, ResourceSlice
from bot.kube.quantities import whole
from bot.kube.selectors import label_matcher
from bot.report import Gap
from playbooks.gather.node_side import Driver, NodeSide, Plugin, PluginPods, by_node
from playbooks.gather.nodes_in_question import NodesInQuestion
from playbooks.gather.scheduling import Capacity
from playbooks.scenes.alike_nodes import condition_of, devices_of, said_by
from playbooks.scenes.cluster import ClusterScene, Named, OfInstall, Remembering

T = TypeVar("T")

_MOST_KEPT = 2_000
"""The most nodes whose results are kept: those of a whole large cluster would be most of the memory."""
_QUIET = ("ready", "missing", "unseen")
_NODE_LABELS = (*(vendor.node_label[0] for vendor in VENDORS if vendor.node_label[0]), *SIZE_LABELS)


class OtherDevice(NamedTuple):
    """Another vendor's device that a node has, or should have, and how many of it kubelet offers."""

    device: Device
    state: Registration | Unregistered
    offered: int


class _Sorted(NamedTuple):
    """The nodes that concern HAMi, alike ones together; results of the first of them; UUIDs registered twice."""

    alike: list[list[str]]
    kept: dict[str, "NodeScene"]
    twice: set[str]


class NodeGpus(NamedTuple):
    """What a node object says of its NVIDIA GPUs, whatever HAMi makes of its handshake. It has the GPUs that the device
    plugin registered, and kubelet's capacity and allocatable of their resource.
    """

    resource: str
    cards: tuple[Card, ...]
    capacity: int
    allocatable: int

    @property
    def slots(self) -> int:
        return sum(card.slots for card in self.cards)

    @property
    def silent(self) -> bool:
        """Whether pods get no GPU on the node: nothing is registered, or kubelet offers nothing."""
        return not self.cards or self.allocatable == 0


class NodesScene(OfInstall, frozen=True, dict=True, eq=False, weakref=True):
    """Nodes at one moment: all of a cluster, or those that were read individually.

    `questioned` are those that were read individually, with their pods and logs. `plugins`, the device plugins' pods of
    every node, is None if not every node is read; `owners` are the pods that node locks name, `slices` what DRA drivers
    publish. `wanted`: the one node that is asked about, of all that were read. `vendors`: whose device plugins are
    looked at; if empty, those whose devices a node should have.
    """

    nodes: Sequence[Node]
    now: datetime
    questioned: NodesInQuestion = NodesInQuestion({})
    plugins: PluginPods | None = None
    owners: Mapping[Named, Pod | Gap | None] = msgspec.field(default_factory=dict[Named, "Pod | Gap | None"])
    slices: Sequence[ResourceSlice] | Gap = ()
    undecodable: tuple[str, ...] = ()
    wanted: str = ""
    vendors: tuple[Vendor, ...] = ()

    def was_read(self, source: str) -> bool:
        return source != "plugin sets" or self.questioned.sets is not None

    @property
    def is_sweep(self) -> bool:
        """Whether every node is asked about."""
        return self.plugins is not None and not self.wanted

    @cached_property
    def off(self) -> dict[str, str]:
        """The vendors that the scheduler's flags leave out, each with the flag that is missing."""
        on = {device.vendor.names.word for device in self.config.devices}
        left = (vendor for vendor in VENDORS if vendor.flag and vendor.names.word not in on)
        return {vendor.names.word: vendor.flag for vendor in left} if self.install.flags else {}

    @cached_property
    def zone(self) -> timedelta:
        """How far the scheduler's local times, which name no zone, are ahead of UTC, as far as they show it."""
        annotations = [node.metadata.annotations or {} for node in self.nodes]
        handshakes = (texts[key] for texts in annotations for key in _handshakes_in(tuple(texts)))
        return scheduler_zone(handshakes, self.version, self.now) if self.version else timedelta()

    @property
    def misreads_time(self) -> bool:
        """Whether the scheduler reads its own local times as UTC."""
        return self.version is not None and self.version < READS_LOCAL_TIME

    @cached_property
    def judged_at(self) -> datetime:
        return self.now + self.zone if self.version and not self.misreads_time else self.now

    @cached_property
    def world(self) -> ClusterScene:
        """The cluster as HAMi sees the first vendor's GPUs, with all of them free."""
        first = structs.replace(self.config, devices=self.config.devices[:1])
        seen = structs.replace(self.seen, config=first)
        return ClusterScene(seen, Capacity(list(self.nodes), [], []), self.judged_at)

    @cached_property
    def _by_name(self) -> Mapping[str, Node]:
        return {node.name: node for node in self.nodes}

    @cached_property
    def names(self) -> list[str]:
        return sorted({*self._by_name, *self.questioned.sides})

    @cached_property
    def by_plugins(self) -> Mapping[str, Plugin]:
        return by_node(self.plugins.own, self.now) if self.plugins else {}

    @cached_property
    def by_others(self) -> Mapping[str, Mapping[str, Plugin]]:
        beside = self.plugins.beside.items() if self.plugins else ()
        of_vendors = ((word, by_node(pods, self.now)) for word, pods in beside)
        return {word: found for word, found in of_vendors if found}

    @cached_property
    def drivers(self) -> Mapping[str, list[tuple[Driver, Plugin]]]:
        """By node, the pods of NVIDIA's driver that do not work, without those that are just starting."""
        read = self.plugins.drivers if self.plugins and not isinstance(self.plugins.drivers, Gap) else ()
        found = defaultdict[str, list[tuple[Driver, Plugin]]](list)
        for driver, pods in read:
            for name, pod in by_node(pods, self.now).items():
                if pod.fails(self.now):
                    found[name].append((driver, pod))
        return found

    @cached_property
    def settings(self) -> PluginSettings:
        """The settings for nodes' GPUs in HAMi's ConfigMaps."""
        return read_plugin_settings(self.seen.config_maps)

    @cached_property
    def by_drivers(self) -> frozenset[str]:
        """The names of nodes whose devices a DRA driver of HAMi's publishes."""
        slices = () if isinstance(self.slices, Gap) else dra.of_hami(self.slices)
        return frozenset(slice_.spec.node_name for slice_ in slices)

    def is_overdue(self, handshake: Handshake | None) -> bool:
        """Whether the scheduler's handshake went unanswered for too long, by the scheduler's local time."""
        if handshake is None or handshake.at is None or handshake.state != "requesting":
            return False
        return self.now + self.zone - handshake.at > SCHEDULER_PATIENCE

    def with_questioned(self, questioned: NodesInQuestion, undecodable: tuple[str, ...]) -> Self:
        """Adds a few nodes that were read individually, once it was known which; earlier results are kept."""
        other = structs.replace(self, questioned=questioned, undecodable=undecodable)
        vars(other).update(
            {name: value for name, value in vars(self).items() if name not in ("read", "alike", "_facts")}
        )
        vars(other)["_before"] = self  # its nodes, which are kept, do not hold it
        return other

    def see(self, name: str) -> "NodeScene":
        """The scene of one node."""
        side = self.questioned.sides.get(name)
        if side is None:
            return self._sorted.kept.get(name) or NodeScene(self._by_name[name], ref(self))
        listed = self._by_name.get(name) or Node(metadata=ObjectMeta(name=name))
        return NodeScene(listed if isinstance(side.node, Gap) else side.node, ref(self), side)

    @cached_property
    def read(self) -> list[tuple["NodeScene", list[str]]]:
        """The nodes that were read individually, each with its name in a list, as `alike` has them."""
        return [(self.see(name), [name]) for name in self.questioned.sides if self.wanted in ("", name)]

    @property
    def alike(self) -> Iterator[tuple["NodeScene", list[str]]]:
        """The nodes that concern HAMi, in sets of alike ones: the first node by name, and the names of all."""
        for names in self._sorted.alike if self.plugins else ():
            rest = [name for name in names if name not in self.questioned.sides and self.wanted in ("", name)]
            if rest:
                yield self.see(rest[0]), rest
        yield from self.read

    @cached_property
    def _sorted(self) -> _Sorted:
        known, found, kept = dict[Hashable, list[str]](), list[list[str]](), dict[str, NodeScene]()
        uuids, twice = set[str](), set[str]()
        for name in sorted(self._by_name):
            alike = self._alike(name)
            names, own = (known.get(alike[0]), alike[1]) if alike else (None, ())
            if names is None:
                node, names = NodeScene(self._by_name[name], ref(self)), list[str]()
                own = own if alike else node.uuids
                if alike:
                    known[alike[0]] = names
                if node.concerns:
                    found.append(names)
                    kept |= {name: node} if len(kept) < _MOST_KEPT else {}
            names.append(name)
            if not uuids.isdisjoint(own):
                twice.update(uuids.intersection(own))
            uuids.update(own)
        return _Sorted(found, kept, twice)

    def _alike(self, name: str) -> tuple[Hashable, Sequence[str]] | None:
        """What is equal for nodes of which the same is to be told, and the UUIDs of its cards.

        None for a node that has to be looked at by itself: one that anything but its cards and what Kubernetes and the
        device plugin say of it bears on.
        """
        node, status = self._by_name[name], self._by_name[name].status
        said = said_by(node, self.version, self.config.gpus.count)
        if said is None or name in self.settings.by_node:
            return None
        allocatable = devices_of(status.allocatable)
        plugin = self.by_plugins.get(name)
        key = (
            said.texts,
            allocatable,
            allocatable if status.capacity is status.allocatable else devices_of(status.capacity),
            tuple(map(condition_of, status.conditions or ())),
            node.spec.unschedulable,
            tuple(node.spec.taints or ()),
            tuple([node.metadata.label(key) for key in _NODE_LABELS]),
            "" if said.uuids else FIRST.gpu_label(node),
            self._selects(node.metadata.labels),
            plugin and (plugin.health, plugin.why, plugin.monitor),
            tuple([(state.health, state.why) for pods in self.by_others.values() if (state := pods.get(name))]),
            name in self.by_drivers,
            tuple([(driver, pod.why) for driver, pod in self.drivers.get(name, ())]),
        )
        return key, said.uuids

    @cached_property
    def _selects(self) -> Callable[[Mapping[str, str] | None], bool]:
        return label_matcher(self.world.facts.node_selector)

    @cached_property
    def shared_uuids(self) -> dict[tuple[str, ...], list[str]]:
        """The UUIDs that several nodes register, by the nodes' names; only NVIDIA's, as others number their devices."""
        twice, holders = self._sorted.twice, defaultdict[str, set[str]](set)
        for node in map(self.see, self.names if twice else ()):
            for uuid in twice.intersection(node.uuids):
                holders[uuid].add(node.name)
        found = defaultdict[tuple[str, ...], list[str]](list)
        for uuid, names in sorted(holders.items()):
            found[tuple(sorted(names))].append(uuid)
        return found


class NodeScene(Remembering, frozen=True, dict=True, eq=False):
    """One node of a `NodesScene`. `side`: what was read of this node individually. It does not hold the scene that
    holds it: thousands of nodes would stay until Python looks for such cycles.
    """

    node: Node
    within: "ref[NodesScene]"
    side: NodeSide | None = None

    @property
    def among(self) -> NodesScene:
        scene = self.within()
        assert scene is not None, "a node was asked when its scene was gone"
        return scene

    @property
    def name(self) -> str:
        return self.node.name

    @cached_property
    def state(self) -> Registration | Unregistered | None:
        """The registration as every possible version of HAMi reads it; None if they do not agree."""
        *rest, newest = (view.registration(self.name) for view in self.among.world.views)
        why = newest.why if isinstance(newest, Unregistered) else None
        agreed = all((state.why if isinstance(state, Unregistered) else None) == why for state in rest)
        return newest if agreed else None

    @property
    def own(self) -> Registration | None:
        """The node's registration as far as it can be read, also if HAMi does not take its GPUs in."""
        return self.state.registration if isinstance(self.state, Unregistered) else self.state

    @property
    def uuids(self) -> list[str]:
        return [card.uuid for card in (self.own.cards if self.own else ()) if card.uuid]

    @cached_property
    def others(self) -> tuple[Registration | Unreadable, ...]:
        """The registrations of other vendors."""
        return tuple(read_registrations(self.node, BESIDE))

    @cached_property
    def beside(self) -> tuple[OtherDevice, ...]:
        """Other vendors' devices of the node as every possible version sees them, if they agree."""
        node, among, others = self.node, self.among, list[OtherDevice]()
        for device in given_beside(node, among.config):
            of = [version for version in among.world.versions if version >= device.vendor.since]
            found = [device.vendor.registration(node, version, among.judged_at, device.resources) for version in of]
            if found and len({state.why if isinstance(state, Unregistered) else None for state in found}) == 1:
                others.append(OtherDevice(device, found[-1], kubelet_offers(node, device.resources.count)))
        return tuple(others)

    @cached_property
    def registrations(self) -> tuple[Registration, ...]:
        """All registrations and counts of devices that can be read on the node, of any vendor."""
        found = [registered for registered in (self.own, *self.others) if isinstance(registered, Registration)]
        known = {registration.word for registration in found}
        states = (device.state for device in self.beside if device.device.word not in known)
        return (*found, *(state for state in states if isinstance(state, Registration)))

    @property
    def cards(self) -> tuple[Card, ...]:
        return tuple(card for registration in self.registrations for card in registration.cards)

    @property
    def slots(self) -> tuple[int, int]:
        """The number of slots of the first vendor's GPUs, and of the healthy ones among them."""
        cards = self.own.cards if self.own else ()
        return sum(card.slots for card in cards), sum(card.slots for card in cards if card.health)

    @cached_property
    def of_others(self) -> bool:
        """Whether only an operator's label says that the node has NVIDIA's GPUs, as other plugins want it."""
        return expects_gpus(self.node, self.among.config) and is_given_by_label_alone(self.node, self.among.config)

    @cached_property
    def expects_gpus(self) -> bool:
        """Whether HAMi is to hand out GPUs of the first vendor on the node."""
        return expects_gpus(self.node, self.among.config) and not (self.of_others and self.plugin.health in _QUIET)

    @property
    def left_out(self) -> bool:
        """Whether the node's GPUs were given to no device plugin, and none runs there: maybe on purpose."""
        return self.plugin.pod is None and not is_for(self.node, self.among.config.devices[0])

    @property
    def concerns(self) -> bool:
        """Whether the node has devices that HAMi hands out, or should have some."""
        return self.expects_gpus or bool(self.registrations) or bool(self.beside)

    @property
    def count_resource(self) -> str:
        """The resource by which kubelet counts the node's GPUs."""
        config = self.among.config
        return (config.of(self.own.word) if self.own else config.gpus).count

    @property
    def allocatable(self) -> int:
        """How many of `count_resource` kubelet offers."""
        return kubelet_offers(self.node, self.count_resource)

    @property
    def plugin(self) -> Plugin:
        """The state of HAMi's own device plugin on the node."""
        known = self.among.by_plugins
        return known.get(self.name) or Plugin("missing" if known else "unseen")

    @property
    def plugins_beside(self) -> Mapping[str, Plugin]:
        """The device plugins of other vendors on the node, by vendor, as far as their labels are known."""
        return {word: found for word, pods in self.among.by_others.items() if (found := pods.get(self.name))}

    @property
    def is_by_driver(self) -> bool:
        """Whether a DRA driver of HAMi's replaces the node's device plugins."""
        return self.name in self.among.by_drivers and self.plugin.pod is None and not self.plugins_beside

    @property
    def vendors(self) -> Sequence[Vendor]:
        """The vendors whose device plugins on the node are looked at."""
        own = vendors_of(self.node, self.among.config) if self.was_read else ()
        return self.among.vendors or own or [FIRST]

    @property
    def was_read(self) -> bool:
        """Whether the node object could be read."""
        return not (self.side and isinstance(self.side.node, Gap))

    @property
    def gpus(self) -> NodeGpus:
        text, resource = self.node.metadata.annotation(FIRST.names.register), self.among.config.gpus.count
        found = read_registration(FIRST.names, FIRST.names.word, text) if text is not None else None
        return NodeGpus(
            resource,
            found.cards if isinstance(found, Registration) else (),
            whole((self.node.status.capacity or {}).get(resource)) or 0,
            kubelet_offers(self.node, resource),
        )


@lru_cache(maxsize=1024)  # the nodes of a cluster have the same few keys
def _handshakes_in(keys: tuple[str, ...]) -> list[str]:
    """Those of all vendors: the others' keys begin with the first one's."""
    return [key for key in keys if key.startswith(FIRST.names.handshake)]
