"""What HAMi's scheduler counts of each GPU, by its metrics, compared with what live pods hold of it."""

from collections import Counter
from collections.abc import Collection, Mapping
from typing import NamedTuple

from bot.hami.fit.allocated_totals import Ledger
from bot.hami.metrics.exposition import SchedulerCounts
from bot.report import NameList, Sheet, Table
from playbooks.gather.scheduler_process import SchedulerProcess

Gpu = tuple[str, str]
"""The key of a GPU: node and UUID."""


class LedgerRow(NamedTuple):
    """A row for a node on whose GPUs the scheduler counts another amount of memory than live pods hold, in MiB."""

    node: str
    gpus: int
    hami_counts: int
    pods_hold: int
    difference: int
    only_counted: NameList


LEDGER = Sheet(
    "scheduler's count",
    LedgerRow,
    names={"gpus": "GPUs", "hami_counts": "HAMi counts"},
    brief={
        "node": "node",
        "gpus": "GPUs",
        "hami_counts": "HAMi counts",
        "pods_hold": "pods hold",
        "difference": "difference",
        "only_counted": "only HAMi counts",
    },
)


def differing(process: SchedulerProcess, ledger: Ledger | None) -> Mapping[Gpu, tuple[int, int]]:
    """By GPU the MiB that the scheduler counts and that pods hold, where they differ; empty where either is unread."""
    if not isinstance(process.counted, SchedulerCounts) or ledger is None:
        return {}
    hold = Counter[Gpu]()
    for holding in ledger.all():
        hold.update({(holding.node, uuid): share.memory_mib for uuid, share in holding.shares.items()})
    gpus = process.counted.gpus
    both = {key: (gpus.get(key, 0), hold[key]) for key in {*gpus, *hold}}
    return {key: amounts for key, amounts in both.items() if amounts[0] != amounts[1]}


def ledger_table(process: SchedulerProcess, ledger: Ledger | None, nodes: Collection[str]) -> tuple[Table, ...]:
    """The table with a row for each of these nodes whose counts and holdings differ; none where all agree."""
    by_node: dict[str, list[tuple[int, int]]] = {}
    for (node, _), amounts in differing(process, ledger).items():
        if node in nodes:
            by_node.setdefault(node, []).append(amounts)
    ghosts = {(taken.node, f"{taken.namespace}/{taken.pod}") for ghost in process.ghosts for taken in ghost.taken}
    rows = [_row(node, by_node[node], sorted(pod for at, pod in ghosts if at == node)) for node in sorted(by_node)]
    return (LEDGER.table(rows, brief=rows),) if rows else ()


def _row(node: str, amounts: Collection[tuple[int, int]], only_counted: Collection[str]) -> LedgerRow:
    counts, holds = sum(count for count, _ in amounts), sum(held for _, held in amounts)
    return LedgerRow(node, len(amounts), counts, holds, counts - holds, NameList(only_counted))
