"""Whether the scheduler takes in the cards of a vendor whose plugin writes them on the node and shakes hands.

Rules: HAMi pkg/scheduler/scheduler.go register loop and pkg/device/*/device.go GetNodeDevices, CheckHealth.
"""

from datetime import datetime

from bot.hami.names import Names
from bot.hami.nodes.handshake import Handshake, judge_other_vendor, parse_handshake
from bot.hami.nodes.registration import Registration, Unreadable, Unregistered, kubelet_offers, read_registration
from bot.hami.pods.pod_request import Resources
from bot.hami.version import Version
from bot.kube.models import Node


class Annotated:
    """The rules of such nodes, by the names of their vendor."""

    def __init__(self, names: Names) -> None:
        self._names = names

    def registration(
        self, node: Node, version: Version, now: datetime, resources: Resources
    ) -> Registration | Unregistered:
        """The node's cards as this version's scheduler would take them in at that moment."""
        names = self._names.of(resources.word)
        text = node.metadata.annotation(names.register)
        if text is None:
            return Unregistered("absent")
        read = read_registration(self._names, resources.word, text)
        if isinstance(read, Unreadable):
            return Unregistered("unreadable", names.register, text[:200] or read.why)
        handshake, offered = self._handshake(node, resources), kubelet_offers(node, resources.count)
        judgement = judge_other_vendor(handshake, version, offered, now)
        if judgement in ("alive", "unknown"):
            return read
        quote = node.metadata.annotation(names.handshake) or ""
        return Unregistered("deleted" if judgement == "deleted" else "stale", names.handshake, quote, read)

    def is_taken_in_for_good(self, node: Node, version: Version, resources: Resources) -> bool:
        """Whether what is registered counts at any time: kubelet offers some of it."""
        return version >= (2, 9) and kubelet_offers(node, resources.count) > 0

    def is_held_by_turns(self, node: Node, version: Version, now: datetime, resources: Resources) -> bool:
        """Whether the scheduler takes the cards in and drops them again every minute: kubelet offers none of them."""
        offered = kubelet_offers(node, resources.count)
        judged = judge_other_vendor(self._handshake(node, resources), version, offered, now)
        return offered == 0 and judged == "unknown"

    def _handshake(self, node: Node, resources: Resources) -> Handshake | None:
        text = node.metadata.annotation(self._names.of(resources.word).handshake)
        return None if text is None else parse_handshake(text)
