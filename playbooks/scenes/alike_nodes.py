"""Which nodes are alike by their annotations, so that what is wrong with one is told of all of them."""

from collections.abc import Hashable, Mapping, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

from bot.hami.names import Names
from bot.hami.nodes.node_state import NODE_KEYS
from bot.hami.nodes.registration import JSON_SINCE, digest, kubelet_offers
from bot.hami.vendors import BESIDE, FIRST, LOCK_KEYS, vendor_of_register_key
from bot.hami.version import Version
from bot.kube.models import Condition, Node, Quantity

_PREFIXES = ("hami.io/", *(prefix for names in BESIDE for prefix in names.annotations))


class Said(NamedTuple):
    """What a node's annotations say of its devices apart from UUIDs, and the UUIDs of the first vendor's devices."""

    texts: tuple[Hashable, ...]
    uuids: Sequence[str]


def said_by(node: Node, version: Version | None, resource: str) -> Said | None:
    """What a node's annotations say that bears on its faults; None if no other node can be alike. `resource` is the
    first vendor's, by which kubelet counts its devices.
    """
    texts = node.metadata.annotations or {}
    own, handshake = texts.get(FIRST.names.register), texts.get(FIRST.names.handshake, "")
    # From 2.8 on the handshake is asked only where kubelet offers nothing; unix seconds are the guides' matter.
    if version is None or version < JSON_SINCE or handshake[:1].isdigit():
        return None
    if own is not None and not kubelet_offers(node, resource):
        return None
    said, uuids = list[Hashable](), ()
    for key, bearing in _bearings(tuple(texts)):
        if bearing == "alone":
            return None
        if isinstance(bearing, Names):
            cards = digest(bearing, texts[key])
            if cards is None:
                return None
            said.append((key, cards.encoding, cards.cards))
            uuids = cards.uuids if bearing is FIRST.names else uuids
        elif own is None or key != FIRST.names.handshake:
            said.append((key, texts[key]))
    return Said(tuple(said), uuids)


@lru_cache(maxsize=1024)
def _bearings(keys: tuple[str, ...]) -> list[tuple[str, Names | Literal["text", "alone"]]]:
    """Annotations that bear on faults: by a vendor's cards, by their text, or so that the node is looked at alone."""
    found = list[tuple[str, Names | Literal["text", "alone"]]]()
    for key in keys:
        if key in (*LOCK_KEYS, *NODE_KEYS):
            found.append((key, "alone"))
        elif (vendor := vendor_of_register_key(key)) is not None:
            found.append((key, vendor[0]))
        elif key.startswith(_PREFIXES):
            found.append((key, "text"))
    return found


def condition_of(condition: Condition) -> Hashable:
    """The part of a node's condition that bears on its faults."""
    state = (condition.type, condition.status)
    return state if condition.type == "Ready" else (*state, condition.reason, condition.message)


def devices_of(amounts: Mapping[str, Quantity] | None) -> tuple[tuple[str, Quantity], ...]:
    """The amounts of devices in a node's capacity or allocatable."""
    return tuple([item for item in (amounts or {}).items() if "/" in item[0]])
