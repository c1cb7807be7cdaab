"""What HAMi's scheduler has of a node's GPUs, whatever the vendor; and registered over physical memory and cores.

HAMi calls these ratios deviceMemoryScaling and deviceCoreScaling: HAMi charts/hami values under `devices`, and
`nodeconfig` of the device plugin's config.json.
"""

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import chain
from typing import Any, NamedTuple

import msgspec
from msgspec import structs

from bot.hami.names import Names
from bot.hami.nodes.cards import Card
from bot.hami.nodes.registration import (
    Handshake,
    Registration,
    Unreadable,
    Unregistered,
    capacity_of,
    count_cards,
    kubelet_offers,
    parse_handshake,
    read_registration,
)
from bot.hami.pods.request_parsing import DEVICE_CONFIG_FILE, DeviceConfig, common_noun
from bot.hami.vendors import (
    BESIDE,
    BY_WORD,
    FIRST,
    NAMES,
    VENDORS,
    vendor_of_register_key,
    vendor_of_resource,
)
from bot.hami.vendors.vendor import Device, Vendor
from bot.hami.version import Version
from bot.kube.models import ConfigMap, Kind, Node
from bot.kube.models.base import NodeStatus, ObjectMeta, Quantity, keep
from bot.kube.node_conditions import is_about_gpus
from bot.kube.quantities import parse_quantity, whole
from bot.safe_yaml import parse_documents

CORDON_KEY = "hami.io/device-cordon"
NODE_KEYS = (CORDON_KEY, *chain.from_iterable(vendor.node_keys for vendor in VENDORS))
"""The node annotations that change what registered GPUs can be used for."""
_KNOWN_BY_LABEL = tuple({type(vendor).gpu_label: vendor for vendor in VENDORS}.values())
"""One vendor for each `gpu_label` method, so that no method runs twice on a node."""
_CAPACITIES = frozenset(names.capacity for names in NAMES if names.capacity)
_NONE = frozenset[str]()


class Terms(NamedTuple):
    """The settings and the version of HAMi that decide which GPUs of a node its scheduler takes in."""

    version: Version
    config: DeviceConfig
    node_selector: str


def registered(node: Node, terms: Terms, now: datetime) -> Registration | Unregistered:
    """The node's GPUs as HAMi's scheduler of this version takes them in, or why it does not.

    GPUs of several devices are one registration, named after the first device.
    """
    devices = devices_on(node, terms) or terms.config.devices[:1]
    found = [device.vendor.registration(node, terms.version, now, device.resources) for device in devices]
    if len(found) == 1:
        return found[0]
    of = [registration for registration in found if isinstance(registration, Registration)]
    if not of:
        return next((state for state in found if isinstance(state, Unregistered) and state.key), found[0])
    return of[0]._replace(cards=tuple(chain.from_iterable(registration.cards for registration in of)))


def is_taken_in_for_good(node: Node, terms: Terms) -> bool:
    """Whether the scheduler keeps the node's registered GPUs whatever the handshakes say."""
    return all(
        device.vendor.is_taken_in_for_good(node, terms.version, device.resources) for device in devices_on(node, terms)
    )


def is_held_by_turns(node: Node, terms: Terms, now: datetime) -> bool:
    """Whether the scheduler adds and drops the node's GPUs every minute, because kubelet offers none of them."""
    return any(
        device.vendor.is_held_by_turns(node, terms.version, now, device.resources) for device in devices_on(node, terms)
    )


def node_facts(node: Node, terms: Terms) -> dict[str, Any]:
    """What the vendors' scans need to know of the node besides its GPUs, by the word of the device."""
    return {device.word: device.vendor.node_facts(node) for device in devices_on(node, terms)}


def devices_on(node: Node, terms: Terms) -> tuple[Device, ...]:
    """The devices that the node's annotations or capacity name, whether or not the values make sense."""
    return terms.config.named(tuple(node.metadata.annotations or ()), tuple(node.status.capacity or ()))


def noun_on(nodes: Sequence[Node], config: DeviceConfig) -> str:
    """The users' word for the devices on these nodes: `GPU`, or `device` where vendors differ."""
    texts = {key for node in nodes for key in node.metadata.annotations or ()} & config.by_register.keys()
    names = {name for node in nodes for name in node.status.capacity or ()} & config.counted.keys()
    found = [*map(config.by_register.__getitem__, texts), *map(config.counted.__getitem__, names)]
    return common_noun(device.vendor.names.noun for device in found)


def expects_gpus(node: Node, config: DeviceConfig) -> bool:
    """Whether the node has NVIDIA GPUs or is meant to; any other node is rightly unregistered."""
    return is_for(node, config.devices[0]) or any(vendor.gpu_label(node) for vendor in _KNOWN_BY_LABEL)


def is_for(node: Node, device: Device) -> bool:
    """Whether the node is meant for a device's plugin: by its label, what the plugin wrote or what kubelet counts."""
    key, value = device.vendor.node_label
    return _shows(node, device) or (bool(key) and node.metadata.label(key) == value)


def _shows(node: Node, device: Device) -> bool:
    count = device.resources.count
    counted = kubelet_offers(node, count) > 0 or capacity_of(node, count) > 0
    return counted or node.metadata.annotation(device.names.register) is not None


def given_beside(node: Node, config: DeviceConfig) -> list[Device]:
    """The devices of vendors except NVIDIA that the node is meant for; for a label alone the vendor's first chip."""
    status, label = node.status, node.metadata.label
    # Intersecting views needs no Python per key: most of 5,000 nodes have nothing here.
    registers = config.by_register.keys() & (node.metadata.annotations or {}).keys()
    found = {config.by_register[key].word for key in registers}
    for amounts in (status.allocatable or {}, status.capacity or {}):
        for name in config.counted.keys() & amounts.keys():
            if (whole(amounts[name]) or 0) > 0:
                found.add(config.counted[name].word)
    if labelled := [device for (key, value), device in config.labels.items() if label(key) == value]:
        domains = {config.by_word[word].names.domain for word in found}
        found |= {device.word for device in labelled if device.names.domain not in domains}
    found.discard(config.devices[0].word)
    return config.in_order(found)


def is_given_by_label_alone(node: Node, config: DeviceConfig) -> bool:
    """Whether only an operator's label says that the node has NVIDIA GPUs, while it shows another vendor's."""
    if _shows(node, config.devices[0]) or FIRST.gpu_label(node):
        return False
    others = (isinstance(registration, Registration) for registration in read_registrations(node, BESIDE))
    return bool(given_beside(node, config)) or any(others)


def wants_own_plugin(node: Node, config: DeviceConfig) -> bool:
    """Whether HAMi's own device plugin, which serves NVIDIA's GPUs, should run on the node."""
    return expects_gpus(node, config) and not is_given_by_label_alone(node, config)


def vendors_of(node: Node, config: DeviceConfig) -> list[Vendor]:
    """The vendors whose devices the node has, or is meant to have."""
    beside = dict.fromkeys(device.vendor.names.word for device in given_beside(node, config))
    return [*([FIRST] if expects_gpus(node, config) else []), *(BY_WORD[word] for word in beside)]


def handshake_of(node: Node) -> Handshake | None:
    """The handshake of NVIDIA's device plugin on the node; None without one."""
    text = node.metadata.annotation(FIRST.names.handshake)
    return None if text is None else parse_handshake(text)


def cordoned_uuids(node: Node) -> frozenset[str]:
    """The uuids of the GPUs that an operator cordoned on the node; HAMi 2.10 reads them at registration."""
    text = node.metadata.annotation(CORDON_KEY)
    return frozenset(uuid.strip() for uuid in text.split(",") if uuid.strip()) if text else _NONE


def read_registrations(node: Node, of: Sequence[Names] = NAMES) -> list[Registration | Unreadable]:
    """What the node registers of these vendors' devices; those without an annotation are counted by capacity."""
    texts = node.metadata.annotations or {}
    found = ((key, vendor_of_register_key(key)) for key in sorted(texts))
    named = [read_registration(*who, texts[key]) for key, who in found if who is not None and who[0] in of]
    capacities = _CAPACITIES & (node.status.capacity or {}).keys()
    if not capacities:
        return named
    words = {registration.vendor.word for registration in named}
    counted = (count_cards(names, node) for names in of if names.capacity in capacities and names.word not in words)
    return named + [registration for registration in counted if registration is not None]


def registered_cards(node: Node, of: Sequence[Names] = NAMES) -> list[Card]:
    """The devices of these vendors that the node registers, as far as they can be read."""
    found = (each for each in read_registrations(node, of) if isinstance(each, Registration))
    return [card for registration in found for card in registration.cards]


def listed(node: Node) -> set[str]:
    """The resources in the node's allocatable and capacity, even where the amount is 0."""
    return {*(node.status.allocatable or ()), *(node.status.capacity or ())}


def is_offered(resource: str, nodes: Iterable[Node]) -> bool:
    amounts = (some or {} for node in nodes for some in (node.status.allocatable, node.status.capacity))
    return any(resource in some for some in amounts)


def is_left(resource: str, nodes: Iterable[Node]) -> bool:
    amounts = ((node.status.allocatable or {}).get(resource) for node in nodes)
    return any((parse_quantity(amount) or 0) > 0 for amount in amounts if amount is not None)


def has_vendor(resource: str, nodes: Iterable[Node]) -> bool:
    """Whether some node offers, or registers with HAMi, devices of the resource's vendor and chip.

    For a resource that HAMi's chart does not name, only the domain tells the vendor.
    """
    vendor = vendor_of_resource(resource)
    if vendor is None:
        domain = f"{resource.split('/', maxsplit=1)[0]}/"
        return any(name.startswith(domain) for node in nodes for name in listed(node))
    names, word = vendor
    usual = {name.replace("{word}", word) for name in (names.count, names.memory, names.cores, names.capacity) if name}
    return any(
        listed(node) & usual or vendor in map(vendor_of_register_key, node.metadata.annotations or ()) for node in nodes
    )


PLUGIN_CONFIG_FILE = "config.json"
MODE_SETTING = "operatingmode"
FULL_CORES = 100
_ABOUT = 0.15
"""The part by which a GPU may have less memory than its model's name says."""
READS_DEVICE_CONFIG = Version(2, 5, 0)
"""From this version on the device plugin reads the device config; before, the chart passed it as flags."""

_GIGABYTES = re.compile(r"(?<![0-9A-Za-z])([0-9]{1,3}) ?GB(?![A-Za-z])")
_MOST_GIGABYTES = 400
"""The largest size in a model's name that is the GPU's, in GB: a larger one, as GH200's, is the processor's."""
SIZE_LABELS = "nvidia.com/gpu.memory", "nvidia.com/gpu.product"
"""The labels of GPU feature discovery that tell a GPU's physical memory in MiB, and its model."""


class GpuSettings(msgspec.Struct, frozen=True):
    """The device plugin's settings for a node's GPUs; None or empty where one is not set.

    `mode`: hami-core, mig or mps. `split`: the slots of a GPU. The scalings: registered over physical.
    """

    name: str = ""
    mode: str = msgspec.field(default="", name=MODE_SETTING)
    split: int | None = msgspec.field(default=None, name="devicesplitcount")
    memory_scaling: float | None = msgspec.field(default=None, name="devicememoryscaling")
    core_scaling: float | None = msgspec.field(default=None, name="devicecorescaling")

    def value_of(self, key: str) -> float | None:
        """A setting by its key in `SETTING_FLAGS`; None where it is not set."""
        return dict(zip(SETTING_FLAGS, (self.split, self.memory_scaling, self.core_scaling), strict=True))[key]


_UNSET = GpuSettings()


class _PluginConfigFile(msgspec.Struct):
    nodeconfig: list[GpuSettings] | None = None


class _SettingsOfAll(msgspec.Struct):
    nvidia: dict[str, object] | None = None


class PluginSettings(msgspec.Struct, frozen=True):
    """The device plugin's settings, for all nodes and for single ones. `config_maps`: where each file stands."""

    every: GpuSettings = _UNSET
    by_node: dict[str, GpuSettings] = {}
    config_maps: dict[str, ConfigMap] = {}

    def memory_scaling_of(self, node: str) -> float | None:
        """The memory scaling set for the node, else the one for all nodes; None without either."""
        own = self.by_node.get(node)
        return (own and own.memory_scaling) or self.every.memory_scaling


def read_plugin_settings(config_maps: Iterable[ConfigMap]) -> PluginSettings:
    """The device plugin's settings in HAMi's config maps; a file that cannot be read sets nothing."""
    found = PluginSettings()
    for config_map in config_maps:
        for name, text in (config_map.data or {}).items():
            try:
                if name == DEVICE_CONFIG_FILE:
                    read = msgspec.convert(next(iter(parse_documents(text)), None) or {}, _SettingsOfAll)
                    if not read.nvidia:
                        continue
                    lowered = {key.lower(): value for key, value in read.nvidia.items()}
                    found = structs.replace(found, every=msgspec.convert(lowered, GpuSettings, strict=False))
                elif name == PLUGIN_CONFIG_FILE:
                    nodes = msgspec.json.decode(text.encode(), type=_PluginConfigFile).nodeconfig or ()
                    found = structs.replace(found, by_node=found.by_node | {node.name: node for node in nodes})
                else:
                    continue
                found = structs.replace(found, config_maps=found.config_maps | {name: config_map})
            except (ValueError, RecursionError):
                continue
    return found


def memory_factor(card: Card, node: Node, settings: PluginSettings) -> float | None:
    """Registered over physical memory, by the size in the GPU's model or the node's label, else as set; else None."""
    return size_factor(card, node) or settings.memory_scaling_of(node.name)


def size_factor(card: Card, node: Node) -> float | None:
    """Registered over physical memory, by the size in the GPU's model or the node's label; None without one."""
    size = size_of(card.type, node)
    return round(card.memory_mib / size, 1) if size else None


def size_of(kind: str, node: Node) -> int:
    """The physical MiB of a GPU of this type, by the size in its model or the node's label; 0 without one."""
    found = _GIGABYTES.search(kind)
    if found and 0 < int(found[1]) <= _MOST_GIGABYTES:
        return int(found[1]) * 1024
    label, product = map(node.metadata.label, SIZE_LABELS)
    named = label and label.isdecimal() and product and product.removesuffix("-SHARED") in kind.replace(" ", "-")
    return int(label) if label and named else 0


class DifferingSetting(NamedTuple):
    """A setting that differs from the GPU registration; `key` is in lower case for a setting of the node alone."""

    key: str
    wanted: str
    has: str


SETTING_FLAGS = {
    "deviceSplitCount": "--device-split-count",
    "deviceMemoryScaling": "--device-memory-scaling",
    "deviceCoreScaling": "--device-cores-scaling",
}
"""The device plugin's flag for each setting; a flag overrides what is set for all nodes."""


def differing_settings(
    node: Node, card: Card, settings: PluginSettings, version: Version | None
) -> list[DifferingSetting]:
    """The settings that differ from what the GPU is registered with: the plugin reads them only when it starts.

    Of MIG GPUs only the mode is compared: they have the slots and memory of their instances.
    """
    own, every = settings.by_node.get(node.name, _UNSET), settings.every
    every = every if version and version >= READS_DEVICE_CONFIG else _UNSET
    if own.mode and card.mode and own.mode != card.mode:
        return [DifferingSetting(MODE_SETTING, own.mode, card.mode)]
    values = (
        (own.split, every.split, card.slots, 0.0),
        (own.memory_scaling, every.memory_scaling, size_factor(card, node), _ABOUT),
        (own.core_scaling, every.core_scaling, core_factor(card), 0.0),
    )
    found = list[DifferingSetting]()
    for key, (its_own, of_all, has, about) in zip(SETTING_FLAGS, values, strict=True):
        wanted = its_own or of_all
        if wanted and has and card.mode != "mig" and abs(wanted - has) > max(about * wanted, 0.01):
            found.append(DifferingSetting(key.lower() if its_own else key, f"{wanted:g}", f"{has:g}"))
    return found


def core_factor(card: Card) -> float:
    """Registered cores over the 100 of a whole GPU."""
    return round(card.cores / FULL_CORES, 2)


_DEVICE_LABELS = frozenset(
    key for vendor in VENDORS for key in (vendor.node_label[0], *vendor.gpu_labels, *SIZE_LABELS) if key
)
_NO_LABELS: dict[str, str] = {}


class SweptMeta(ObjectMeta, frozen=True):
    uid: str = msgspec.field(default="", name="(left out)")
    resource_version: str = msgspec.field(default="", name="(and this)")
    creation_timestamp: str | None = msgspec.field(default=None, name="(and that)")

    def __post_init__(self) -> None:
        kept = (self.labels or _NO_LABELS).keys() & _DEVICE_LABELS
        keep(self, "labels", {key: self.labels[key] for key in kept} if self.labels and kept else None)


class SweptStatus(NodeStatus, frozen=True):
    def __post_init__(self) -> None:
        kept = (each for each in self.conditions or () if each.type == "Ready" or is_about_gpus(each.type))
        keep(self, "conditions", list(kept))
        allocatable, capacity = _devices(self.allocatable), _devices(self.capacity)
        keep(self, "allocatable", allocatable)
        keep(self, "capacity", allocatable if allocatable == capacity else capacity)


def _devices(amounts: dict[str, Quantity] | None) -> dict[str, Quantity]:
    return {name: amount for name, amount in (amounts or {}).items() if "/" in name}


class SweptNode(Node, frozen=True):
    """A node with only the labels, amounts and conditions about devices, to save memory in answers about all nodes."""

    metadata: SweptMeta = SweptMeta()
    status: SweptStatus = SweptStatus()


SWEPT_NODES = Kind("nodes", SweptNode, namespaced=False)
