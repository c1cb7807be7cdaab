"""HAMi on dynamic resource allocation (HAMi-DRA): kube-scheduler gives out devices, without HAMi's scheduler.

HAMi-DRA's webhook turns a pod's HAMi resources into a ResourceClaim; a driver publishes each node's devices as
ResourceSlices [HAMi-DRA pkg/webhook/dra/mutating.go, pkg/constants, charts/hami-dra; HAMi's chart 2.8 and 2.9:
`dra.enabled`].
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from bot.kube.models import MutatingWebhookConfiguration, Pod, ResourceClaim, ResourceSlice

WEBHOOK = "mutate.hami.io"
"""The name of HAMi-DRA's webhook; its MutatingWebhookConfiguration is named after the Helm release."""
POD_LABEL = "hami.io/dra"
"""The label of every pod whose resources HAMi-DRA's webhook turned into claims."""

_DRIVER_OF: Mapping[str, str] = {
    "hami-core-gpu.project-hami.io": "hami-core-gpu.project-hami.io",
    "hami-vnpu-core.project-hami.io": "ascend.project-hami.io",
    "dra.hygon.com": "dra.hygon.com",
    "fake-gpu.project-hami.io": "fake.dra.hami.io",
}
"""The driver behind each DeviceClass that HAMi-DRA's webhook names in claims."""


class Offer(NamedTuple):
    """What one DRA driver publishes. `free`: devices without a claim; a device that a claim shares does not count."""

    driver: str
    first: ResourceSlice
    devices: int
    nodes: tuple[str, ...]
    free: int


def of_hami(slices: Iterable[ResourceSlice]) -> list[ResourceSlice]:
    """The slices, out of those given, of the drivers that HAMi-DRA's webhook makes claims for."""
    return [slice_ for slice_ in slices if slice_.spec.driver in _DRIVER_OF.values()]


def driver_of(claim: ResourceClaim) -> str:
    """The driver that the claim's devices come from; empty where the claim's DeviceClass does not tell."""
    given = [device.driver for device in claim.devices]
    return next(iter([*given, *(_DRIVER_OF[name] for name in claim.classes if name in _DRIVER_OF)]), "")


def hook_of(configs: Iterable[MutatingWebhookConfiguration]) -> MutatingWebhookConfiguration | None:
    """The webhook configuration that has HAMi-DRA's webhook; None without one."""
    return next((config for config in configs if any(hook.name == WEBHOOK for hook in config.webhooks or ())), None)


def has_hami_claims(pod: Pod) -> bool:
    """Whether HAMi-DRA's webhook turned the pod's resources into claims."""
    return pod.metadata.label(POD_LABEL) == "true"


def current(slices: Iterable[ResourceSlice]) -> list[ResourceSlice]:
    """The slices of each pool's newest generation, which replaces older ones [resource/v1 ResourcePool]."""
    listed = list(slices)
    newest: dict[tuple[str, str], int] = {}
    for slice_ in listed:
        pool = slice_.spec.driver, slice_.spec.pool.name
        newest[pool] = max(newest.get(pool, 0), slice_.spec.pool.generation)
    pools = [(slice_, slice_.spec.driver, slice_.spec.pool) for slice_ in listed]
    return [slice_ for slice_, driver, pool in pools if pool.generation == newest[driver, pool.name]]


def offers(slices: Iterable[ResourceSlice], claims: Iterable[ResourceClaim] = ()) -> list[Offer]:
    """What each DRA driver publishes now, sorted by driver."""
    held = {(device.driver, device.pool, device.device) for claim in claims for device in claim.devices}
    of_driver: dict[str, list[ResourceSlice]] = {}
    for slice_ in current(slices):
        of_driver.setdefault(slice_.spec.driver, []).append(slice_)
    found: list[Offer] = []
    for driver, published in sorted(of_driver.items()):
        specs = [slice_.spec for slice_ in published]
        devices = [(driver, spec.pool.name, device.name) for spec in specs for device in spec.devices or ()]
        nodes = tuple(sorted({spec.node_name for spec in specs if spec.node_name}))
        found.append(Offer(driver, published[0], len(devices), nodes, sum(device not in held for device in devices)))
    return found
