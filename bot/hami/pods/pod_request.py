"""What a pod asks of one vendor, as HAMi's filter sees it, and how HAMi reads the quantities."""

from collections.abc import Hashable
from typing import Literal, NamedTuple

import msgspec

from bot.kube.models import Container, Quantity
from bot.kube.quantities import parse_quantity

INT32_MAX = 2**31 - 1
WHOLE_CARD = 100
UNSET_PERCENTAGE = 101


class Resources(msgspec.Struct, frozen=True):
    """What a device's resources are called in a cluster, and what a container gets that leaves an amount out.

    `word` is the device's: a chip's name where a vendor has several.
    """

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
    """What else the device config says of the chip, as its vendor reads it."""

    @property
    def all(self) -> tuple[str, ...]:
        """Count, memory, percentage, cores: those that the vendor has."""
        return tuple(filter(None, (self.count, self.memory, self.percentage, self.cores)))


class ContainerRequest(msgspec.Struct, frozen=True):
    """What one container asks for, per card. An amount of memory above 0 decides; without one the percentage does.

    `percentage` is 101 when none was asked for, which is no memory at all where the amount overflowed to 0 or less.
    `word` is the device's: those cards are in play whose type contains it. `vendor` is its vendor's, where that is
    another: a chip has a word of its own.
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
    """What else its vendor makes of the request."""

    @property
    def is_fixed(self) -> bool:
        """Whether it means the same memory on every card: an amount, or none at all."""
        return self.memory_mib > 0 or self.percentage == UNSET_PERCENTAGE

    def memory_on(self, card_memory_mib: int) -> int:
        """The MiB that this request means on a card of that registered memory."""
        if self.memory_mib > 0:
            return self.memory_mib
        return card_memory_mib * self.percentage // 100 if self.percentage != UNSET_PERCENTAGE else 0


class Constraints(NamedTuple):
    """What the pod's annotations rule out. Raw texts: versions read them differently. None = absent."""

    use_type: str | None = None
    no_use_type: str | None = None
    use_uuid: str | None = None
    no_use_uuid: str | None = None
    mode: str | None = None
    policy: str | None = None
    weights: str | None = None
    numa_bind: bool = False
    more: tuple[str | None, ...] = ()
    """Of the annotations in `Names.also_read`, in their order."""


class PodRequest(NamedTuple):
    """A pod as HAMi's filter sees it: only the containers that yield a request, init containers first.

    A container that asks for several devices stands there once for each, one after the other.
    """

    namespace: str
    name: str
    uid: str
    containers: tuple[ContainerRequest, ...]
    constraints: Constraints
    init_count: int = 0
    others: tuple[tuple[str, Constraints], ...] = ()
    """What the annotations of other devices say that it asks for beside that of its first container, by their words."""

    def constraints_of(self, word: str) -> Constraints:
        """What the annotations say of one of the devices that it asks for."""
        return next((constraints for other, constraints in self.others if other == word), self.constraints)


def amount_of(container: Container, resource: str) -> int | Literal["unusable"] | None:
    """The limit, else the request, as Quantity.AsInt64() reads it: exact whole numbers only. None when absent."""
    value = written(container, resource)
    if value is None:
        return None
    number = parse_quantity(value)
    if number is None or number != number.to_integral_value() or abs(number) >= 2**63:
        return "unusable"
    return int(number)


def written(container: Container, resource: str) -> Quantity | None:
    """The limit, else the request."""
    resources = container.resources
    for amounts in (resources.limits, resources.requests) if resources else ():
        if amounts and resource in amounts:
            return amounts[resource]
    return None


def to_int32(number: int) -> int:
    """Go's conversion, which wraps around: before 2.10 `8Gi` of memory means 0 MiB."""
    return (number + INT32_MAX + 1) % (2 * INT32_MAX + 2) - INT32_MAX - 1
