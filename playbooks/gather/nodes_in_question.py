"""Reads the nodes that would have to hand out GPUs to a pending pod, and seem not to."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, compress, islice
from typing import NamedTuple

from bot.errors import NotFound
from bot.hami.fit.verdicts import NODE_UNREGISTERED
from bot.hami.names import Names
from bot.hami.nodes.cards import Card
from bot.hami.nodes.node_lock import LOCK_KEY, parse_lock
from bot.hami.nodes.node_state import differing_settings, given_beside, is_for, read_plugin_settings, wants_own_plugin
from bot.hami.nodes.registration import Registration, kubelet_offers, read_registration
from bot.hami.pods.request_parsing import DeviceConfig, device_asked
from bot.hami.vendors import FIRST
from bot.hami.vendors.vendor import Device, Vendor
from bot.kube.cluster import Cluster, seen
from bot.kube.models import PODS, Node, Pod
from bot.kube.models.base import of_each
from bot.kube.quantities import whole
from bot.kube.selectors import obstacle
from bot.report import Gap
from playbooks.gather.node_side import MOST_NODES, NodeSide, PluginSets, gather_node_side, gather_plugin_sets
from playbooks.gather.scheduling import InstallSeen


class NodesInQuestion(NamedTuple):
    """What was read of nodes that seem to hand out too few GPUs, by name. `sets`: the device plugin's DaemonSets, read
    if one of the nodes has no device plugin, or none has GPUs.
    """

    sides: Mapping[str, NodeSide]
    sets: PluginSets | None = None

    def plugins_of(self, vendor: Vendor) -> Mapping[str, Sequence[Pod] | Gap]:
        """The pods of the vendor's device plugin, by node."""
        return {
            name: side.pods if isinstance(side.pods, Gap) else side.plugins_of(vendor)
            for name, side in self.sides.items()
        }

    @property
    def gaps(self) -> tuple[Gap, ...]:
        sides = (gap for side in self.sides.values() for gap in side.gaps)
        return (*sides, *(self.sets.gaps if self.sets else ()))


async def gather_nodes_in_question(
    cluster: Cluster, pod: Pod | None, nodes: Sequence[Node], config: DeviceConfig
) -> NodesInQuestion:
    """Reads the first nodes open to the pod that should have GPUs and seem, to us or to HAMi, to hand out too few."""
    device = None if pod is None else device_asked(pod, config)
    looked = of_each(cluster.kept, _Look(config, device.word if device else ""), nodes)
    has_gpus, is_ill = [look[0] for look in looked], [look[1] for look in looked]
    scheduled = pod.condition("PodScheduled") if pod else None
    refused = scheduled is not None and NODE_UNREGISTERED in scheduled.message  # then sound ones are in question too
    ill = compress(nodes, is_ill)
    sound = (node for node, has, sick in zip(nodes, has_gpus, is_ill, strict=True) if refused and has and not sick)
    open_to_it = (node for node in chain(ill, sound) if pod is None or obstacle(pod, node) is None)
    names = [node.name for node in islice(open_to_it, MOST_NODES)]
    none = not names and not any(has_gpus) and (device is None or device.vendor is FIRST)
    found = await gather_questioned(cluster, names)
    return found._replace(sets=await gather_plugin_sets(cluster)) if none else found


def seem_ill(cluster: Cluster, nodes: Sequence[Node], config: DeviceConfig) -> list[str]:
    """The nodes that should have GPUs and seem to hand out too few, then those where kubelet counts another number."""
    looked = of_each(cluster.kept, _Look(config, config.devices[0].word), nodes)
    ill = [node.name for node, (_, is_ill) in zip(nodes, looked, strict=True) if is_ill]
    for node in (node for node, (_, is_ill) in zip(nodes, looked, strict=True) if not is_ill):
        text = node.metadata.annotation(FIRST.names.register)
        cards = _registered(FIRST.names, text) if text is not None else None
        capacity = whole((node.status.capacity or {}).get(config.gpus.count))
        if cards is not None and capacity and capacity != sum(card.slots for card in cards):
            ill.append(node.name)
    return ill


def set_otherwise_on(nodes: Sequence[Node], seen: InstallSeen) -> list[str]:
    """The nodes whose GPUs are registered with other settings than HAMi's ConfigMaps have for them."""
    settings = read_plugin_settings(seen.config_maps)
    version = seen.install.version.version if seen.install.version else None
    texts = ((node, node.metadata.annotation(FIRST.names.register) or "") for node in nodes)
    cards = ((node, card) for node, text in texts for card in (_registered(FIRST.names, text) or ())[:1])
    return [node.name for node, card in cards if differing_settings(node, card, settings, version)]


async def gather_questioned(cluster: Cluster, names: Sequence[str]) -> NodesInQuestion:
    """Reads each of these nodes, and the device plugin's DaemonSets if a node has no device plugin."""
    sides = await asyncio.gather(*(gather_node_side(cluster, name, logs=True) for name in names))
    bare = any(not isinstance(side.pods, Gap) and not side.plugin_pods for side in sides)
    return NodesInQuestion(dict(zip(names, sides, strict=True)), await gather_plugin_sets(cluster) if bare else None)


class _Look(NamedTuple):
    """Whether a node should have devices, and whether it is in question, under this device config. `word`: of one
    device alone; of all that there are where it is empty.
    """

    config: DeviceConfig
    word: str

    def __call__(self, node: Node) -> tuple[bool, bool]:
        first = self.config.devices[0].word
        if self.word == first:
            return self._first(node)
        if self.word:
            device = self.config.by_word[self.word]
            return (True, _is_ill(node, device)) if is_for(node, device) else (False, False)
        expects, ill = self._first(node)
        beside = given_beside(node, self.config)
        return expects or bool(beside), ill or any(_is_ill(node, device) for device in beside)

    def _first(self, node: Node) -> tuple[bool, bool]:
        text = node.metadata.annotation(FIRST.names.register)
        if text is None:
            expects = wants_own_plugin(node, self.config)
            return expects, expects
        cards = _registered(FIRST.names, text) if kubelet_offers(node, self.config.gpus.count) else None
        return True, cards is None or not all(card.health for card in cards)


def _is_ill(node: Node, device: Device) -> bool:
    text = node.metadata.annotation(device.names.register)
    if text is None:
        return not (device.capacity and whole((node.status.capacity or {}).get(device.capacity)))
    cards = _registered(device.vendor.names, text)
    offered = kubelet_offers(node, device.resources.count)
    return cards is None or not offered or not all(card.health for card in cards)


def _registered(names: Names, text: str) -> tuple[Card, ...] | None:
    """Reads the registration once for those who need all of it."""
    found = read_registration(names, names.word, text)
    return found.cards if isinstance(found, Registration) else None


_AT_ONCE = 8


async def gather_owners(cluster: Cluster, nodes: Iterable[Node]) -> Mapping[tuple[str, str], Pod | Gap | None]:
    """Reads the pods that node locks name, by namespace and name, a few at a time: None for one that does not exist."""
    texts = (node.metadata.annotations for node in nodes)
    locks = [parse_lock(some[LOCK_KEY], None) for some in texts if some and LOCK_KEY in some]
    wanted = sorted({(lock.namespace, lock.pod) for lock in locks if lock and lock.pod})
    turn = asyncio.Semaphore(_AT_ONCE)

    async def owner(namespace: str, name: str) -> Pod | None:
        async with turn:
            try:
                return await cluster.get(PODS, name, namespace)
            except NotFound:
                return None

    found = await asyncio.gather(*(seen("lock owner", owner(*key)) for key in wanted))
    return dict(zip(wanted, found, strict=True))
