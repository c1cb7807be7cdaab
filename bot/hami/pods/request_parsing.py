"""Reads what each container of a pod requests of HAMi, and the resources that the device config names."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple, cast

import msgspec

from bot.hami.names import Names
from bot.hami.nodes.cards import GO_TRUE
from bot.hami.pods.pod_request import INT32_MAX, Constraints, PodRequest, Resources, amount_of, written
from bot.hami.vendors import DEFAULTS, FIRST, NAMES, VENDORS
from bot.hami.vendors.vendor import Device
from bot.hami.version import NEWEST_READ, Version
from bot.kube.models import Container, Pod
from bot.kube.quantities import parse_quantity
from bot.safe_yaml import parse_documents

DEVICE_CONFIG_FILE = "device-config.yaml"
POLICY_KEY = "hami.io/gpu-scheduler-policy"
NODE_POLICY_KEY = "hami.io/node-scheduler-policy"
WEIGHTS_KEY = "hami.io/device-scoring-weights"

_RESOURCE_KEY = re.compile(r"resource\w*Name\w*")
_VENDOR_DOMAINS = frozenset(names.domain for names in NAMES if not names.shares_domain)
_EXACT_NAMES = frozenset(
    name for names in NAMES for name in (names.count, names.memory, names.cores, names.percentage) if "/" in name
)
_FIXED = frozenset(
    name
    for vendor in VENDORS[1:]
    if vendor.since <= NEWEST_READ
    for name in (vendor.names.count, vendor.names.memory, vendor.names.cores)
    if "/" in name
) | frozenset(name for names in NAMES for name in names.passed_over)
"""Resource names that a device config may leave out, because HAMi's code sets them for some vendors."""
MOST_NAMED = 1024
_MAX_DEPTH = 6


def common_noun(nouns: Iterable[str]) -> str:
    """The common word for devices with these nouns: `device` where they differ; NVIDIA's for none."""
    found = set(nouns) or {FIRST.names.noun}
    return found.pop() if len(found) == 1 else "device"


class DeviceConfig(msgspec.Struct, frozen=True, dict=True):
    """The part of HAMi's device config that decides requests; where none was read, the chart's."""

    devices: tuple[Device, ...] = DEFAULTS
    """The devices whose fit is modelled; NVIDIA's are always among them, and first."""
    other_resources: frozenset[str] = frozenset()

    @property
    def gpus(self) -> Resources:
        """NVIDIA's resources, which a question means that names no vendor."""
        return self.devices[0].resources

    def switched_on(self, flags: Mapping[str, str]) -> "DeviceConfig":
        """The config without devices that the scheduler's flags leave out; empty `flags` could not be read."""
        on = tuple(
            device for device in self.devices if not device.vendor.flag or flags.get(device.vendor.flag) in GO_TRUE
        )
        return msgspec.structs.replace(self, devices=on) if flags and len(on) < len(self.devices) else self

    def hinted(self, hints: Mapping[str, int]) -> "DeviceConfig":
        """The config with `hints`: amounts a recorded cluster states about its devices, as no API object shows them."""
        if not hints:
            return self
        devices = tuple(Device(device.vendor, device.vendor.hinted(device.resources, hints)) for device in self.devices)
        return msgspec.structs.replace(self, devices=devices)

    def of(self, word: str) -> Resources:
        """The resources of the device with this word; the first device's where no device has it."""
        return self.by_word.get(word, self.devices[0]).resources

    def in_order(self, words: Collection[str]) -> list[Device]:
        return [device for device in self.devices if device.word in words]

    @cached_property
    def by_word(self) -> Mapping[str, Device]:
        return {device.word: device for device in self.devices}

    @cached_property
    def _named(self) -> dict[tuple[tuple[str, ...], tuple[str, ...]], tuple[Device, ...]]:
        return {}

    def named(self, annotations: tuple[str, ...], resources: tuple[str, ...]) -> tuple[Device, ...]:
        """The devices that a node's annotations or resources name; cached, as thousands of nodes name the same."""
        key = annotations, resources
        if (found := self._named.get(key)) is None:
            words = {self.by_register[name].word for name in annotations if name in self.by_register}
            words |= {self.counted[name].word for name in resources if name in self.counted}
            if len(self._named) >= MOST_NAMED:
                self._named.clear()
            found = self._named[key] = tuple(self.in_order(words))
        return found

    @cached_property
    def _by_type(self) -> dict[str, Device]:
        return {}

    def device_of(self, type_: str) -> Device:
        """The device that a GPU of this type belongs to; the first one where no device's word matches."""
        if type_ not in self._by_type:
            of = [device for device in self.devices if device.word.upper() in type_.upper()]
            self._by_type[type_] = max(of, key=lambda device: len(device.word), default=self.devices[0])
        return self._by_type[type_]

    def noun_for(self, types: Iterable[str]) -> str:
        """The users' common word for GPUs of these types; types of no device are left out."""
        pairs = [(type_.upper(), self.device_of(type_)) for type_ in set(types)]
        return common_noun(device.vendor.names.noun for type_, device in pairs if device.word.upper() in type_)

    @cached_property
    def by_register(self) -> Mapping[str, Device]:
        """The devices by the node annotation that registers them."""
        return {device.names.register: device for device in self.devices if device.names.register}

    @cached_property
    def counted(self) -> Mapping[str, Device]:
        """The devices by the node resource that tells how many of them a node has."""
        return {
            name: device
            for device in reversed(self.devices)
            for name in (device.capacity, device.resources.count)
            if name
        }

    @cached_property
    def labels(self) -> Mapping[tuple[str, str], Device]:
        """The first device of each vendor, by the label that gives a node to the vendor's device plugin."""
        return {device.vendor.node_label: device for device in reversed(self.devices) if device.vendor.node_label[0]}

    @cached_property
    def by_resource(self) -> Mapping[str, Device]:
        return {name: device for device in reversed(self.devices) for name in device.resources.all}

    @cached_property
    def amounts(self) -> Mapping[str, tuple[Device, bool]]:
        """By the resources for memory or cores: the device, and whether the resource is for cores."""
        parts = ((device.resources.memory, device.resources.cores, device) for device in self.devices)
        return {
            name: (device, of_cores)
            for memory, cores, device in parts
            for name, of_cores in ((memory, False), (cores, True))
            if name
        }

    @property
    def names_all(self) -> bool:
        """Whether a device config was read that names its resources: any other resource is then not HAMi's."""
        return bool(self.other_resources)

    def names(self, resource: str) -> bool:
        """Whether the resource is HAMi's, by the device config or by a name that no config changes."""
        if not self.names_all:
            return self.manages(resource)
        return resource in self.other_resources | _FIXED or resource in self.by_resource

    def manages(self, resource: str) -> bool:
        """Whether HAMi hands out this resource, whatever the vendor."""
        if resource in self.other_resources or resource in _EXACT_NAMES:
            return True
        return resource.split("/", maxsplit=1)[0] in _VENDOR_DOMAINS or resource in self.by_resource


def read_device_config(text: str) -> DeviceConfig | str:
    """The config in the text of a `device-config.yaml`, or why the text cannot be read, in a few words."""
    try:
        document: object = next(iter(parse_documents(text)), None)
        devices = DEFAULTS if document is None else tuple(_devices(msgspec.convert(document, dict[str, Any])))
    except (ValueError, RecursionError) as error:
        return " ".join(str(error).split())[:160]
    return DeviceConfig(devices, frozenset(_resource_names(document)))


def _devices(sections: Mapping[str, Any]) -> Iterator[Device]:
    """The devices of the vendors that have a section; NVIDIA's also without one. Raises ValueError with its name."""
    for vendor in VENDORS:
        section = sections.get(vendor.section)
        if section is None and vendor is not FIRST:
            continue
        try:
            found = vendor.read_resources(section)
        except ValueError as error:
            raise ValueError(f"{vendor.section}: {error}") from error
        yield from (Device(vendor, resources) for resources in found)


def _resource_names(document: object, depth: int = 0) -> list[str]:
    if depth > _MAX_DEPTH:
        return []
    if isinstance(document, list):
        return [name for item in cast("list[object]", document) for name in _resource_names(item, depth + 1)]
    if not isinstance(document, dict):
        return []
    names: list[str] = []
    for key, value in cast("dict[object, object]", document).items():
        if isinstance(key, str) and isinstance(value, str) and _RESOURCE_KEY.fullmatch(key) and value:
            names.append(value)
        else:
            names += _resource_names(value, depth + 1)
    return names


def pod_request(pod: Pod, config: DeviceConfig, version: Version) -> PodRequest:
    """The pod's request as this version of HAMi computes it; init containers count from 2.9 on."""
    inits = pod.spec.init_containers or ()
    asked = [
        msgspec.structs.replace(request, init=True) if init else request
        for containers, init in ((inits if version >= (2, 9) else (), True), (pod.spec.containers, False))
        for container in containers
        for device in _named_in(container, config)
        if version >= device.vendor.since
        if (request := device.vendor.request(container, device.resources, version)) is not None
    ]
    words = list(dict.fromkeys(request.word for request in asked)) or [FIRST.names.word]
    first, *others = (read_constraints(pod, config.by_word[word].names) for word in words)
    return PodRequest(
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.metadata.uid,
        containers=tuple(asked),
        constraints=first,
        init_count=len(inits),
        others=tuple(zip(words[1:], others, strict=True)),
    )


def _named_in(container: Container, config: DeviceConfig) -> Iterable[Device]:
    resources = container.resources
    names = [name for amounts in (resources.limits, resources.requests) for name in amounts or ()] if resources else ()
    found = {device.word: device for name in names if (device := config.by_resource.get(name)) is not None}
    if len(found) < 2:
        return found.values()
    return config.in_order(found)


def pod_keys(names: Names) -> tuple[str, ...]:
    """The pod annotations that decide about a vendor's devices, except the policy: constraints and allocations."""
    narrowing = names.use_type, names.no_use_type, names.use_uuid, names.no_use_uuid, names.mode, names.numa_bind
    return tuple(filter(None, (*narrowing, *names.also_read, *names.allocated)))


def read_constraints(pod: Pod, names: Names) -> Constraints:
    """What the pod's annotations rule out for the devices of the vendor or chip with these names."""
    get = pod.metadata.annotation
    return Constraints(
        use_type=get(names.use_type),
        no_use_type=get(names.no_use_type),
        use_uuid=get(names.use_uuid),
        no_use_uuid=get(names.no_use_uuid),
        mode=get(names.mode),
        policy=get(POLICY_KEY),
        weights=get(WEIGHTS_KEY),
        numa_bind=get(FIRST.names.numa_bind) in GO_TRUE,
        more=tuple(map(get, names.also_read)),
    )


class UnknownPolicy(NamedTuple):
    """A policy in the pod's annotations that HAMi does not know; HAMi silently uses `instead`."""

    key: str
    value: str
    instead: str
    known: tuple[str, ...]


_SINCE = (("topology-aware", Version(2, 7)), ("mutex", Version(2, 10)), ("numa", Version(2, 10)))


def unknown_policies(pod: Pod, version: Version | None) -> Iterator[UnknownPolicy]:
    """The pod's policies that this version of HAMi does not know. From 2.10 on a GPU policy may be a list."""
    both = ("binpack", "spread")
    known = (*both, *(word for word, since in _SINCE if version is None or version >= since))
    for key, words, instead in ((POLICY_KEY, known, "spread"), (NODE_POLICY_KEY, both, "binpack")):
        value = pod.metadata.annotation(key) or ""
        parts = value.split(",") if key == POLICY_KEY and "mutex" in known else [value]
        if value and any(part.strip() not in words for part in parts):
            yield UnknownPolicy(key, value, instead, words)


def gpus_of(pod: Pod, config: DeviceConfig) -> int | None:
    """How many GPUs the pod asks HAMi for: all containers together, or one init container that asks for more.

    Memory or cores without a count mean 1, as HAMi's webhook writes. None for another vendor's devices or an unusable
    count.
    """
    names, apps = config.gpus.all, len(pod.spec.containers)
    vendors = {name.split("/")[0] for name in asked_resources(pod, config) if name not in names}
    counts: list[int] = []
    for container in (*pod.spec.containers, *(pod.spec.init_containers or ())):
        count = amount_of(container, config.gpus.count)
        if count is None:
            count = int(any(written(container, resource) is not None for resource in names))
        if not isinstance(count, int) or not 0 <= count <= INT32_MAX:
            return None
        counts.append(count)
    return None if vendors - {config.gpus.count.split("/")[0]} else max(sum(counts[:apps]), *counts[apps:], 0)


def asked_resources(pod: Pod, config: DeviceConfig) -> dict[str, str]:
    """The resources of HAMi's that the pod asks for, each with the first quantity as written."""
    return {name: value for name, value in extended_resources(pod).items() if config.manages(name)}


def device_asked(pod: Pod, config: DeviceConfig) -> Device:
    """The first device that the pod's resources name; the config's first device where they name none."""
    of = (config.by_resource.get(name) for name in extended_resources(pod))
    return next((device for device in of if device is not None), config.devices[0])


def extended_resources(pod: Pod) -> dict[str, str]:
    """The resources that are not Kubernetes' own and that the pod asks for, each with the first quantity as written."""
    asked: dict[str, str] = {}
    for container in [*(pod.spec.init_containers or ()), *pod.spec.containers]:
        resources = container.resources
        for amounts in (resources.limits, resources.requests) if resources else ():
            for name, value in (amounts or {}).items():
                if "/" in name and "kubernetes.io/" not in name and parse_quantity(value) != 0:
                    asked.setdefault(name, str(value))
    return asked
