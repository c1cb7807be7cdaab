"""One container as HAMi's webhook shows it to a vendor, and what the vendor answers."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from bot.hami.version import Version
from bot.kube.models import Quantity
from bot.kube.quantities import parse_quantity, whole

Amounts = Mapping[str, Quantity]


class AnnotatedContainer(NamedTuple):
    """A container with its pod's annotations. The API has given each limit without a request an equal one already."""

    container: str
    limits: Amounts
    requests: Amounts
    annotations: Mapping[str, str]
    version: Version

    def limit(self, resource: str) -> int | None:
        """The limit rounded up, as Quantity.Value() does; None where there is none."""
        return whole(self.limits.get(resource)) if resource else None

    def asked(self, resource: str) -> int | None:
        """The limit, else the request, rounded up."""
        return whole(self.limits.get(resource, self.requests.get(resource))) if resource else None

    def exactly(self, resource: str) -> int | None:
        """The limit, else the request, as Quantity.AsInt64() reads it; None where that is no whole number."""
        number = parse_quantity(self.limits.get(resource, self.requests.get(resource, "")))
        return int(number) if number is not None and number == number.to_integral_value() else None


class Mutation(NamedTuple):
    """What the vendor writes into a container of its own, and into its pod's annotations; often nothing."""

    limits: Amounts = MappingProxyType({})
    requests: Amounts = MappingProxyType({})
    annotations: Mapping[str, str] = MappingProxyType({})


class Denied(NamedTuple):
    """The vendor refuses the pod, in these words."""

    words: str


Answer = Mutation | Denied | None
"""None: the container asks for none of the vendor's devices."""
