"""What a pod asks of HAMi: the resources that the device config names, and every container's requests."""

import re
from typing import cast

import msgspec

from bot.hami.asked import INT32_MAX, Constraints, PodRequest, Resources, amount_of, written
from bot.hami.names import Names
from bot.hami.vendors import BY_WORD, FIRST, NAMES, VENDORS
from bot.hami.vendors.others import OTHERS
from bot.hami.version import Version
from bot.kube.models import Container, Pod
from bot.kube.quantities import parse_quantity
from bot.safe_yaml import parse_documents

DEVICE_CONFIG_FILE = "device-config.yaml"
POLICY_KEY = "hami.io/gpu-scheduler-policy"
WEIGHTS_KEY = "hami.io/device-scoring-weights"

_RESOURCE_KEY = re.compile(r"resource\w*Name\w*")
_VENDOR_DOMAINS = frozenset(names.domain for names in NAMES if not names.shares_domain)
_EXACT_NAMES = frozenset(
    name for names in NAMES for name in (names.count, names.memory, names.cores, names.percentage) if "/" in name
)
_FIXED = frozenset(
    name for names in OTHERS for name in (names.count, names.memory, names.cores) if "/" in name
) | frozenset(name for names in NAMES for name in names.passed_over)
"""Names that a device config may leave out: some vendors' are set in HAMi's code."""
_MAX_DEPTH = 6
_GO_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})


class DeviceConfig(msgspec.Struct, frozen=True):
    """The part of HAMi's device config that decides requests; without one, what the chart sets."""

    by_vendor: tuple[Resources, ...] = tuple(vendor.read_resources(None) for vendor in VENDORS)
    """In the order of VENDORS."""
    other_resources: frozenset[str] = frozenset()

    @property
    def gpus(self) -> Resources:
        """The resources that a question means which names no vendor."""
        return self.by_vendor[0]

    def of(self, word: str) -> Resources:
        """One vendor's resources."""
        return self.by_vendor[list(BY_WORD).index(word)]

    @property
    def names_all(self) -> bool:
        """Whether a device config was read that names its resources: one that it leaves out is none of HAMi's."""
        return bool(self.other_resources)

    def names(self, resource: str) -> bool:
        """Whether HAMi has this resource: by the device config, or by a name that no config changes."""
        if not self.names_all:
            return self.manages(resource)
        return resource in self.other_resources | _FIXED or any(resource in one.all for one in self.by_vendor)

    def manages(self, resource: str) -> bool:
        """Whether HAMi hands out this resource, of whatever vendor."""
        if resource in self.other_resources or resource in _EXACT_NAMES:
            return True
        return resource.split("/", maxsplit=1)[0] in _VENDOR_DOMAINS or any(
            resource in one.all for one in self.by_vendor
        )


def read_device_config(text: str) -> DeviceConfig | str:
    """The config in a `device-config.yaml`, or why it cannot be read, in a few words."""
    try:
        document: object = next(iter(parse_documents(text)), None)
        resources = tuple(vendor.read_resources(document) for vendor in VENDORS)
    except (ValueError, RecursionError) as error:
        return " ".join(str(error).split())[:160]
    return DeviceConfig(resources, frozenset(_resource_names(document)))


def _resource_names(document: object, depth: int = 0) -> list[str]:
    """Every value under a key like `resourceCountName`, wherever a vendor's section has it."""
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
    """The request as this version computes it. Init containers are judged from 2.9 on."""
    inits = pod.spec.init_containers or ()
    asked = [
        msgspec.structs.replace(request, init=True) if init else request
        for containers, init in ((inits if version >= (2, 9) else (), True), (pod.spec.containers, False))
        for container in containers
        for vendor, resources in zip(VENDORS, config.by_vendor, strict=True)
        if (request := vendor.request(container, resources, version)) is not None
    ]
    names = BY_WORD[asked[0].word].names if asked else FIRST.names
    return PodRequest(
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.metadata.uid,
        containers=tuple(asked),
        constraints=read_constraints(pod, names),
        init_count=len(inits),
    )


def read_constraints(pod: Pod, names: Names) -> Constraints:
    """The annotations that narrow the choice of cards."""
    get = pod.metadata.annotation
    return Constraints(
        use_type=get(names.use_type),
        no_use_type=get(names.no_use_type),
        use_uuid=get(names.use_uuid),
        no_use_uuid=get(names.no_use_uuid),
        mode=get(names.mode),
        policy=get(POLICY_KEY),
        weights=get(WEIGHTS_KEY),
        numa_bind=get(names.numa_bind) in _GO_TRUE,
    )


def gpus_of(pod: Pod, config: DeviceConfig) -> int | None:
    """How many GPUs the pod asks HAMi for at once: all its containers together, or one init container if that
    asks for more.

    A container that asks for memory or cores and names no count means 1, as HAMi's webhook writes it. None for a pod
    that asks for another vendor's devices, or for a number of GPUs that is none.
    """
    vendors = {name.split("/")[0] for name in asked_resources(pod, config) if name not in config.gpus.all}
    apps = [_gpus_in(container, config) for container in pod.spec.containers]
    inits = [_gpus_in(container, config) for container in pod.spec.init_containers or ()]
    counts = [one for one in (*apps, *inits) if one is not None]
    if vendors - {config.gpus.count.split("/")[0]} or len(counts) < len(apps) + len(inits):
        return None
    return max(sum(counts[: len(apps)]), *counts[len(apps) :], 0)


def _gpus_in(container: Container, config: DeviceConfig) -> int | None:
    count = amount_of(container, config.gpus.count)
    if count is None:
        return int(any(written(container, one) is not None for one in config.gpus.all))
    return count if isinstance(count, int) and 0 <= count <= INT32_MAX else None


def asked_resources(pod: Pod, config: DeviceConfig) -> dict[str, str]:
    """Every HAMi-managed resource that some container asks for, with the quantity as written (the first one met)."""
    return {name: value for name, value in extended_resources(pod).items() if config.manages(name)}


def extended_resources(pod: Pod) -> dict[str, str]:
    """Every resource that is not Kubernetes' own and that some container asks for, with the first quantity met."""
    asked: dict[str, str] = {}
    for container in [*(pod.spec.init_containers or ()), *pod.spec.containers]:
        resources = container.resources
        for amounts in (resources.limits, resources.requests) if resources else ():
            for name, value in (amounts or {}).items():
                if "/" in name and "kubernetes.io/" not in name and parse_quantity(value) != 0:
                    asked.setdefault(name, str(value))
    return asked
