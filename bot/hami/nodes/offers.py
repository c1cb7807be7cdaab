"""What nodes offer of a resource, or register of its vendor."""

from collections.abc import Iterable

from bot.hami.vendors import vendor_of_register_key, vendor_of_resource
from bot.kube.models import Node
from bot.kube.quantities import parse_quantity


def listed(node: Node) -> set[str]:
    """The names of all that the node has, be it with nothing left."""
    return {*(node.status.allocatable or ()), *(node.status.capacity or ())}


def is_offered(resource: str, nodes: Iterable[Node]) -> bool:
    """Whether some node lists the resource."""
    amounts = (some or {} for node in nodes for some in (node.status.allocatable, node.status.capacity))
    return any(resource in some for some in amounts)


def is_left(resource: str, nodes: Iterable[Node]) -> bool:
    """Whether kubelet of some node offers at least one."""
    amounts = ((node.status.allocatable or {}).get(resource) for node in nodes)
    return any((parse_quantity(amount) or 0) > 0 for amount in amounts if amount is not None)


def has_vendor(resource: str, nodes: Iterable[Node]) -> bool:
    """Whether some node offers, or registers with HAMi, devices of the resource's vendor and chip.

    Of a resource that is not called as HAMi's chart calls it only the domain tells the vendor.
    """
    vendor = vendor_of_resource(resource)
    if vendor is None:
        domain = f"{resource.split('/', maxsplit=1)[0]}/"
        return any(name.startswith(domain) for node in nodes for name in listed(node))
    names, word = vendor
    usual = {name.replace("{word}", word) for name in (names.count, names.memory, names.cores, names.capacity) if name}
    return any(listed(node) & usual or vendor in _registered(node) for node in nodes)


def _registered(node: Node) -> list[object]:
    return [vendor_of_register_key(key) for key in node.metadata.annotations or ()]
