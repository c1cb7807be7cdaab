"""A pod's request as HAMi's filter sees it, and how HAMi reads quantities."""

from collections.abc import Hashable
from typing import Literal

import msgspec

from bot.kube.models import Container, Quantity
from bot.kube.quantities import parse_quantity

INT32_MAX = 2**31 - 1
WHOLE_CARD = 100
UNSET_PERCENTAGE = 101


class Resources(msgspec.Struct, frozen=True):
    """The names of a device's resources in a cluster, and the amounts for a container that leaves one out."""

    count: str
    memory: str = ""
    percentage: str = ""
    cores: str = ""
    default_count: int = 1
    default_memory_mib: int = 0
    default_cores: int = 0
    memory_factor: int = 1
    word: str = ""
    chip: Hashable = None
    """What else the device config says of the chip, in a form that its vendor chooses."""

    @property
    def all(self) -> tuple[str, ...]:
        return tuple(filter(None, (self.count, self.memory, self.percentage, self.cores)))


class ContainerRequest(msgspec.Struct, frozen=True):
    """What one container requests of one device, per GPU: `memory_mib` if above 0, else `percentage` of the GPU's
    memory.

    `percentage` is 101 if none is written: no memory at all, where the amount overflowed. GPUs whose type contains
    `word` serve the request. `vendor` is the vendor's word where a chip has its own.
    """

    word: str
    container: str
    count: int
    memory_mib: int
    percentage: int
    cores: int
    init: bool = False
    vendor: str = ""
    more: Hashable = None
    """What the vendor reads from the request besides the amounts, in a form that the vendor chooses."""

    @property
    def is_fixed(self) -> bool:
        """Whether the request means the same memory on every GPU: an amount, or none at all."""
        return self.memory_mib > 0 or self.percentage == UNSET_PERCENTAGE

    def memory_on(self, card_memory_mib: int) -> int:
        """The MiB that this request means on a GPU with `card_memory_mib` of registered memory."""
        if self.memory_mib > 0:
            return self.memory_mib
        return card_memory_mib * self.percentage // 100 if self.percentage != UNSET_PERCENTAGE else 0


class Constraints(msgspec.Struct, frozen=True):
    """The pod's annotations that restrict its GPUs, as raw texts that versions read differently; None if missing."""

    use_type: str | None = None
    no_use_type: str | None = None
    use_uuid: str | None = None
    no_use_uuid: str | None = None
    mode: str | None = None
    policy: str | None = None
    weights: str | None = None
    numa_bind: bool = False
    more: tuple[str | None, ...] = ()
    """The texts of the annotations in `Names.also_read`, in their order."""


class PodRequest(msgspec.Struct, frozen=True):
    """A pod as HAMi's filter sees it: the containers that request devices, init containers first.

    A container that requests several devices has an entry for each, one after the other.
    """

    namespace: str
    name: str
    uid: str
    containers: tuple[ContainerRequest, ...]
    constraints: Constraints
    init_count: int = 0
    others: tuple[tuple[str, Constraints], ...] = ()
    """The constraints for other devices than that of the first container, by the device's word."""

    def constraints_of(self, word: str) -> Constraints:
        """What the pod's annotations rule out for the device with this word."""
        return next((constraints for other, constraints in self.others if other == word), self.constraints)


def amount_of(container: Container, resource: str) -> int | Literal["unusable"] | None:
    """The container's limit, else request, as Quantity.AsInt64() reads it: only whole numbers. None without either."""
    value = written(container, resource)
    if value is None:
        return None
    number = parse_quantity(value)
    if number is None or number != number.to_integral_value() or abs(number) >= 2**63:
        return "unusable"
    return int(number)


def written(container: Container, resource: str) -> Quantity | None:
    """The container's limit of the resource, else its request, as written; None without either."""
    resources = container.resources
    for amounts in (resources.limits, resources.requests) if resources else ():
        if amounts and resource in amounts:
            return amounts[resource]
    return None


def to_int32(number: int) -> int:
    """The number after Go's conversion to 32 bits, which wraps around: before 2.10 `8Gi` of memory means 0 MiB."""
    return (number + INT32_MAX + 1) % (2 * INT32_MAX + 2) - INT32_MAX - 1
