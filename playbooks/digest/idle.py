"""How many GPU-hours of the last day were held without use, by namespace.

A share of a GPU counts by its part of the GPU's memory. It is without use since its last kernel, and before the first
since the process started: at most a day, and no longer than the pod is there. What is not measured counts nothing.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from bot.hami.fit.allocated_totals import build_ledger
from bot.hami.fit.version_differences import NEWEST_READ
from bot.hami.metrics.gpu_usage import MeasuredHolding, held_by
from bot.hami.nodes.node_state import read_registrations
from bot.hami.nodes.registration import Registration
from bot.hami.version import Version
from bot.kube.models import Holder, Node
from bot.kube.times import parse_time
from bot.report import Gap
from playbooks.gather.scheduling import Capacity
from playbooks.gather.usage import UsageSeen

AREA = "idle-GPU-hours"
_DAY_S, _HOUR_S = 24 * 3600.0, 3600.0


class _Idle(NamedTuple):
    hours: Mapping[str, float]
    unmeasured: frozenset[str]
    """Namespaces with pods of which something is not known."""


def idle_figures(capacity: Capacity, usage: UsageSeen, version: Version | None, taken_at: datetime) -> dict[str, str]:
    """The digest's figures: whole hours, and where pods were not measured."""
    if isinstance(capacity.nodes, Gap) or isinstance(capacity.pods, Gap):
        return {}
    idle = _idle(capacity.nodes, capacity.pods, usage, version or NEWEST_READ, taken_at)
    figures = {f"{AREA}/{name}": f"{hours:.0f}" for name, hours in idle.hours.items() if round(hours)}
    if idle.unmeasured:
        figures[f"gaps/{AREA}"] = f"pods that are not measured: {', '.join(sorted(idle.unmeasured))}"[:200]
    return figures


def _idle(
    nodes: Sequence[Node], pods: Sequence[Holder], usage: UsageSeen, version: Version, taken_at: datetime
) -> _Idle:
    ledger = build_ledger(pods, version)
    held = held_by(ledger.all(), usage.usage)
    memory = _memory(nodes) if usage.usage.containers else {}
    hours, unmeasured = defaultdict[str, float](float), set[str]()
    for holding in held:
        found = _hours(holding, memory, taken_at)
        if found is None:
            unmeasured.add(holding.holding.namespace)
        else:
            hours[holding.holding.namespace] += found
    most = sorted(hours, key=lambda name: (-hours[name], name))
    return _Idle({name: hours[name] for name in most}, frozenset(unmeasured))


def _hours(held: MeasuredHolding, memory: Mapping[str, int], taken_at: datetime) -> float | None:
    """None where a figure, the pod's age or a GPU's size is missing."""
    created = parse_time(held.holding.created)
    shares = held.shares
    if held.unmeasured or created is None or any(not memory.get(uuid) for uuid in shares):
        return None
    since = dict.fromkeys(shares, min(_DAY_S, (taken_at - created).total_seconds()))
    for use in held.uses:
        if use.last_kernel is None:
            return None
        since[use.uuid] = max(0.0, min(since[use.uuid], use.last_kernel.value))
    return sum(since[uuid] / _HOUR_S * min(1.0, share.memory_mib / memory[uuid]) for uuid, share in shares.items())


def _memory(nodes: Sequence[Node]) -> dict[str, int]:
    """What each GPU is registered with, in MiB."""
    return {
        card.uuid: card.memory_mib
        for node in nodes
        for found in read_registrations(node)
        if isinstance(found, Registration)
        for card in found.cards
    }
