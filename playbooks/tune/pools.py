"""Nodes that are set up alike: advice about scaling and splitting is given for each such pool."""

import re
from bisect import bisect
from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import cached_property, lru_cache
from typing import NamedTuple

import msgspec

from bot.hami.fit.filter_state import take_stock
from bot.hami.fit.version_differences import NEWEST_READ, rules_of
from bot.hami.metrics.holder_usage import MeasuredHolding
from bot.hami.nodes.cards import Card, CardState
from bot.hami.nodes.node_state import read_registrations
from bot.hami.nodes.registration import Registration
from bot.hami.nodes.scaling import memory_factor, read_memory_scaling
from bot.hami.vendors import FIRST
from bot.kube.models import Node
from bot.report import Sheet
from bot.rows import PoolRow
from playbooks.gather.scheduling import InstallSeen

_POOL_LABEL = re.compile(r"(?:[^/]+/)?(?:(?:gke|gpu|agent|node)[-_]?)*(?:pool|node[-_]?group)(?:[-_]?name)?")
"""Such as karpenter.sh/nodepool, cloud.google.com/gke-nodepool, eks.amazonaws.com/nodegroup, pool."""
_MOST_NAMED = 20
_SIZES_MIB = (2 * 1024, 8 * 1024, 16 * 1024)
"""Where the guide's table of split counts has its bounds."""


class _Key(NamedTuple):
    label: str
    scaling: float | None
    splits: int


class Pool(msgspec.Struct, frozen=True, dict=True):
    """Nodes with the same label or GPU model, memory scaling and split count; `scaling` is None where it is not known.

    `by_node` are the GPUs of each node, in the nodes' order; `held` the pods that hold some of them.
    """

    label: str
    scaling: float | None
    splits: int
    nodes: tuple[Node, ...]
    by_node: tuple[tuple[CardState, ...], ...]
    held: tuple[MeasuredHolding, ...]

    @cached_property
    def gpus(self) -> tuple[CardState, ...]:
        """Of all its nodes."""
        return tuple(state for states in self.by_node for state in states)

    @property
    def object(self) -> str:
        """As the table names it: what the nodes share, and which they are."""
        names = [node.name for node in self.nodes]
        more = f" +{len(names) - _MOST_NAMED}" if len(names) > _MOST_NAMED else ""
        return f"{self.label} {','.join(names[:_MOST_NAMED])}{more}"

    @cached_property
    def smallest_mib(self) -> int:
        """The least memory that a pod was given of one GPU; 0 where none was given any."""
        given = (share.memory_mib for held in self.held for share in held.shares.values())
        return min((amount for amount in given if amount), default=0)

    def physical_mib(self, gpu: Card) -> float:
        """The memory that the GPU really has."""
        return gpu.memory_mib / (self.scaling or 1)


POOLS = Sheet("pools", PoolRow)


def pool_row(pool: Pool) -> PoolRow:
    """What the pool has, what was given of it and what is used; used is not known unless of every share."""
    shares = [share.memory_mib for held in pool.held for share in held.shares.values()]
    measured = all(not held.unmeasured and all(use.used for use in held.uses) for held in pool.held)
    used = sum(use.used.value for held in pool.held for use in held.uses if use.used)
    sizes = Counter(min(bisect(_SIZES_MIB, amount), len(_SIZES_MIB)) for amount in shares)
    return PoolRow(
        pool.label,
        len(pool.nodes),
        len(pool.gpus),
        pool.splits,
        sum(state.card.memory_mib for state in pool.gpus),
        sum(shares),
        round(used / 2**20) if measured else None,
        *(sizes[number] for number in range(len(_SIZES_MIB) + 1)),
    )


def pools_of(nodes: Iterable[Node], everyone: Iterable[MeasuredHolding], seen: InstallSeen) -> list[Pool]:
    """The pools in which GPUs are registered, the largest first; `everyone` are the pods that hold some."""
    settings = read_memory_scaling(seen.config_maps)
    version = seen.install.version
    rules = rules_of(version.version if version else NEWEST_READ)
    by_node: dict[str, list[MeasuredHolding]] = defaultdict(list)
    for held in everyone:
        by_node[held.holding.node].append(held)
    grouped: dict[_Key, list[tuple[Node, list[CardState]]]] = defaultdict(list)
    for node in nodes:
        cards = [
            card
            for read in read_registrations(node, (FIRST.names,))
            if isinstance(read, Registration)
            for card in read.cards
        ]
        if cards:
            key = _Key(_label(node, cards[0]), memory_factor(cards[0], node.name, settings), cards[0].slots)
            states = take_stock(cards, (held.holding for held in by_node[node.name]), rules)
            grouped[key].append((node, states))
    return sorted(
        (
            Pool(
                *key,
                tuple(node for node, _ in found),
                tuple(tuple(states) for _, states in found),
                tuple(held for node, _ in found for held in by_node[node.name]),
            )
            for key, found in grouped.items()
        ),
        key=lambda pool: -len(pool.gpus),
    )


def _label(node: Node, gpu: Card) -> str:
    keys = [key for key in node.metadata.labels or {} if _names_pool(key) and node.metadata.label(key)]
    key = min(keys, key=lambda key: ("/" not in key, key), default="")
    return f"{key}={node.metadata.label(key)}" if key else gpu.type


@lru_cache(maxsize=4096)
def _names_pool(key: str) -> bool:
    return _POOL_LABEL.fullmatch(key) is not None
