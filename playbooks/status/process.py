"""The scheduler's process as `status` asks about it: does it count what live pods hold, and did it panic?"""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from bot.hami.fit.allocated_totals import build_ledger
from bot.hami.fit.version_differences import NEWEST_READ
from bot.hami.metrics.scheduler_metrics import SchedulerCounts
from bot.kube.cluster import seen
from bot.kube.models import Holder
from bot.report import Finding, Gap, Table
from playbooks.gather.scheduler_logs import ExtenderLines
from playbooks.gather.scheduler_process import (
    SchedulerProcess,
    earlier_panics,
    gather_memory,
    panics_in,
    unread,
    with_ghosts,
)
from playbooks.gather.scheduler_runs import gather_runs
from playbooks.gather.scheduling import InstallSeen, gather_holders
from playbooks.playbook import Sources
from playbooks.rules.common.hami_objects import Parts
from playbooks.rules.installation.scheduler_totals import ledger_table
from playbooks.rules.waiting.panics import panics_told
from playbooks.rules.waiting.stale_scheduler import ghosts_told


class ProcessSeen(NamedTuple):
    """The process, and the pods that hold GPUs where its count was read."""

    process: SchedulerProcess
    held: Sequence[Holder] | Gap

    @property
    def gaps(self) -> list[Gap]:
        """What could not be read."""
        return [*unread(self.process), *([self.held] if isinstance(self.held, Gap) else [])]


async def gather_process(sources: Sources, found: InstallSeen, log: ExtenderLines) -> ProcessSeen:
    """Its metrics, the panics in its log, and the pods to hold against the metrics. Never raises."""
    cluster, install = sources.cluster, found.install
    memory, (earlier, gaps), runs = await asyncio.gather(
        gather_memory(sources, install), earlier_panics(cluster, install), gather_runs(cluster, found)
    )
    held: Sequence[Holder] | Gap = ()
    if isinstance(memory.counted, SchedulerCounts):
        held = await seen("pods", gather_holders(cluster, install.scheduler_name))
    memory = memory._replace(panics=(*panics_in(log), *earlier), runs=runs.logs, gaps=(*gaps, *runs.gaps))
    process = await with_ghosts(sources, memory, held)
    return ProcessSeen(process, held)


def process_told(process: ProcessSeen, parts: Parts, now: datetime) -> list[Finding]:
    """Panics, and what it counts that no live pod holds."""
    ghosts = ghosts_told(process.process, parts.install, _nodes(parts))
    return [*panics_told(parts.install, process.process.panics, now), *ghosts]


def process_table(process: ProcessSeen, parts: Parts, *, brief: bool) -> tuple[Table, ...]:
    """The nodes of whose GPUs it counts another amount than live pods hold. `brief`: it is part of an overview."""
    if isinstance(process.held, Gap):
        return ()
    ledger = build_ledger(process.held, parts.version or NEWEST_READ)
    return ledger_table(process.process, ledger, _nodes(parts), brief=brief)


def _nodes(parts: Parts) -> set[str]:
    """Those that are there: what is counted on another keeps nobody out."""
    nodes = parts.components.nodes
    return set() if isinstance(nodes, Gap) else {node.name for node in nodes}
