"""The seam for vendors: everything that HAMi's scheduler does differently for one vendor's devices.

A vendor is one value of `Vendor` in a folder of its own and a line in `bot.hami.vendors`. The frame around it is the
same for all: `bot.hami.requests` asks each vendor for a pod's requests, `bot.hami.nodestate` for a node's GPUs, and
`bot.hami.filter` for the verdict on one container.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple

from bot.hami.asked import ContainerRequest, Resources
from bot.hami.cards import CardState
from bot.hami.fit import Run, Taken, Verdict
from bot.hami.names import Names
from bot.hami.registration import Registration, Unregistered
from bot.hami.version import Version
from bot.kube.models import Container, Node


class Vendor(NamedTuple):
    """One vendor. Every function is pure; `count` is the name of its count resource in the cluster."""

    names: Names

    plugin_labels: str
    """The selector of its device plugin's pods."""

    node_label: tuple[str, str]
    """The label that an operator puts on nodes where the device plugin shall run."""

    gpu_label: Callable[[Node], str]
    """(node): the label by which it is known to have this vendor's GPUs, empty when none says so."""

    node_keys: tuple[str, ...]
    """The node annotations that bear on its GPUs, beside their registration and the handshake."""

    read_resources: Callable[[object], Resources]
    """(device config as YAML has it): its section. Raises ValueError where the section has another shape."""

    request: Callable[[Container, Resources, Version], ContainerRequest | None]
    """(container, resources, version): what the container asks for; None where that is nothing."""

    registration: Callable[[Node, Version, datetime, str], Registration | Unregistered]
    """(node, version, now, count): the GPUs as that version's scheduler takes them in at that moment."""

    is_taken_in_for_good: Callable[[Node, Version, str], bool]
    """(node, version, count): whether what is registered counts at any time, whatever the handshake says."""

    is_held_by_turns: Callable[[Node, Version, datetime, str], bool]
    """(node, version, now, count): whether the scheduler takes the GPUs in and drops them again every minute."""

    node_facts: Callable[[Node], Any]
    """What `scan` needs to know of a node beside its cards; None for nothing."""

    may_split: Callable[[Run, list[CardState]], bool]
    """(run, cards in play): whether one GPU may serve a container that asks for several."""

    scan: Callable[[Run, list[CardState], ContainerRequest], Verdict | list[Taken]]
    """(run, cards in play, container): what the container takes, or why it does not fit.

    Called once for each container and node; the cards are in the order of the policy where that can matter.
    """
