"""`gpus --idle`: who holds GPUs and has launched no kernel on them for hours. Figures are of each container. A GPU
without figures is not taken as idle: HAMi-core gives them only after a process has touched the GPU.
"""

from collections.abc import Sequence
from datetime import datetime
from functools import cached_property

import msgspec

from bot.errors import SourceError, UsageError
from bot.hami.fit.allocated_totals import build_ledger
from bot.hami.metrics.gpu_usage import IDLE_S, MeasuredHolding, held_by
from bot.hami.version import NEWEST_READ
from bot.kube.cluster import seen
from bot.kube.models import NODES, Holder
from bot.kube.times import read_duration, roughly
from bot.report import Finding, Gap, Sheet, Table, step
from bot.texts import Prose, Text, sentences
from playbooks.gather.scheduling import gather_holders, gather_install
from playbooks.gather.usage import UsageSeen, gather_usage
from playbooks.playbook import Sources
from playbooks.rules.common.findings import finding
from playbooks.rules.common.holders import Owner, of_use, owner_of
from playbooks.rules.common.prose import mib, see_all_nodes
from playbooks.scenes.cluster import OfInstall

EXAMPLE = "gpus --idle for 2h"
_MOST_PROVEN = 10


class HolderRow(msgspec.Struct, frozen=True):
    """A row for a pod that holds GPUs: `uuids` are separated by commas, `idle` is the time since its last kernel."""

    pod: str
    node: str
    gpus: int
    uuids: str
    memory_mib: int
    idle: str | None
    owner: str
    why: Prose


HOLDERS = Sheet(
    "holders without use",
    HolderRow,
    brief="pod memory_mib=MiB gpus=GPUs idle=no_kernel_for owner node why=remark",
)


class IdleScene(OfInstall, frozen=True, dict=True, eq=False):
    """The pods that hold GPUs, and what was measured of them. Pods without a kernel for `idle_s` seconds are idle.
    `node`: the one that was asked about, which exists if `is_there`; empty for all.
    """

    node: str
    idle_s: float
    taken_at: datetime
    holders: list[Holder]
    usage: UsageSeen
    is_there: bool

    @cached_property
    def held(self) -> list[MeasuredHolding]:
        """The holders on the node that was asked about, with their figures."""
        ledger = build_ledger(self.holders, self.version or NEWEST_READ)
        named = [some for node, some in ledger.by_node.items() if self.node in ("", node)]
        return held_by((holding for some in named for holding in some), self.usage.usage)

    @cached_property
    def idle(self) -> list[MeasuredHolding]:
        """The holders without a kernel for as long as was asked, those that hold most first."""
        found = [held for held in self.held if held.idle_s is not None and held.idle_s >= self.idle_s]
        return sorted(found, key=lambda held: (-held.holding.amounts[0], -(held.idle_s or 0), held.name))

    @cached_property
    def unknown(self) -> list[MeasuredHolding]:
        """The holders without figures, which may be idle or not."""
        return [held for held in self.held if held.idle_s is None]

    @property
    def busy(self) -> list[MeasuredHolding]:
        return [held for held in self.held if held.idle_s is not None and held.idle_s < self.idle_s]


def read_for(words: Sequence[str]) -> float:
    """The seconds that `for 2h` means; six hours if nothing was typed. Raises UsageError."""
    if not words:
        return IDLE_S
    seconds = read_duration(words[1]) if len(words) == 2 and words[0] == "for" else None
    if seconds is None:
        raise UsageError(Text("error-gpus.idle-does-not-understand", words=repr(" ".join(words))), example=EXAMPLE)
    return seconds


async def gather_idle(node: str, idle_s: float, sources: Sources) -> IdleScene:
    """Reads who holds GPUs and what is measured of them. Raises SourceError if the pods cannot be read."""
    cluster = sources.cluster
    is_there = True
    if node:  # where that cannot be read, it is not what was asked
        named = cluster.list(NODES, fields=f"metadata.name={node}", metadata_only=True)
        is_there = await seen("nodes", named) != []
    install = await gather_install(sources)
    holders = await seen("pods", gather_holders(cluster, install.install.scheduler_name))
    if isinstance(holders, Gap):
        raise SourceError(holders.text, hint=holders.advice)
    usage = await gather_usage(sources, frozenset(holder.spec.node_name for holder in holders))
    return IdleScene(install, node, idle_s, cluster.now(), holders=holders, usage=usage, is_there=is_there)


def idle_tables(scene: IdleScene) -> tuple[Table, ...]:
    """The table of idle holders, those that hold most first, then those without figures, then those that work. An
    overview shows only the idle ones, so that nobody else is taken for one.
    """
    owners = {(pod.namespace, pod.name): owner_of(pod) for pod in scene.holders}
    rows = [_row(holding, owners) for holding in (*scene.idle, *scene.unknown, *scene.busy)]
    return (HOLDERS.table(rows, brief=rows[: len(scene.idle)]),) if rows else ()


def idle_findings(scene: IdleScene) -> list[Finding]:
    """The finding of who is idle, or that nobody is, or that there is no such node."""
    if not scene.is_there:
        claim = Text("gpus.no-node", node=scene.node)
        return [finding("not-found", claim, "confirmed", (), (), severity="warning", actions=see_all_nodes())]
    idle, unknown = scene.idle, scene.unknown
    values = {
        "count": len(idle),
        "memory": mib(sum(holding.holding.amounts[0] for holding in idle)),
        "time": roughly(scene.idle_s),
        "unknown": len(unknown),
    }
    if unknown and len(unknown) == len(scene.held):
        claim = Text("idle.untold", **values)
    else:
        left = Text("idle.unknown", **values) if unknown else ""
        claim = sentences(Text("idle.claim" if idle else "idle.none", **values), left)
    if not idle:
        sure = not unknown and not scene.usage.gaps
        return [finding("idle-holder", claim, "confirmed" if sure else "suspected", (), (), severity="info")]
    actions = [step(Text("idle.ask", pod=holding.name), "") for holding in idle[:1]]
    proofs = [
        of_use(holding.last, holding.last.last_kernel, holding.holding.node, scene)
        for holding in idle[:_MOST_PROVEN]
        if holding.last is not None and holding.last.last_kernel is not None
    ]
    return [finding("idle-holder", claim, "confirmed", (), proofs, severity="warning", actions=actions)]


def _row(holding: MeasuredHolding, owners: dict[tuple[str, str], Owner]) -> HolderRow:
    memory, _ = holding.holding.amounts
    owner = owners.get((holding.holding.namespace, holding.holding.name))
    why = ""
    if holding.idle_s is None:
        why = Text("idle.unmeasured", count=len(holding.unmeasured) or len(holding.shares))
    elif holding.has_no_process:
        why = Text("idle.no-process")
    idle = None if holding.idle_s is None else roughly(holding.idle_s)
    return HolderRow(
        holding.name,
        holding.holding.node,
        len(holding.shares),
        ", ".join(holding.shares),
        memory_mib=memory,
        idle=idle,
        owner=owner.asked if owner else "",
        why=why,
    )
