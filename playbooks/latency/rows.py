"""The tables of `latency`."""

from typing import NamedTuple

from bot.hami.scheduler_logs.scheduling_latency import Life, Stage
from bot.report import Sheet
from bot.rows import StageRow
from playbooks.gather.latency import Counts


class PodRow(NamedTuple):
    """A pod from its creation to its start. `filters`: how often HAMi's filter ran for it; None without a log."""

    pod: str
    node: str
    total_s: float
    slowest_stage: str
    slowest_s: float
    filters: int | None


class CountRow(NamedTuple):
    """How many objects the cluster has beside the figures."""

    objects: str
    number: int | None


LATENCY = Sheet(
    "latency",
    StageRow,
    brief={"stage": "stage", "n": "pods", "median_s": "median s", "p95_s": "p95 s", "max_s": "max s"},
)
PODS = Sheet(
    "slowest pods",
    PodRow,
    brief={
        "pod": "pod",
        "total_s": "total s",
        "slowest_stage": "slowest stage",
        "slowest_s": "of it s",
        "filters": "tries",
    },
)
COUNTS = Sheet("objects", CountRow, brief={"objects": "objects", "number": "number"})


def stage_rows(stages: list[Stage]) -> list[StageRow]:
    """In the order of the stages; a stage that no pod shows has no figures."""
    return [
        StageRow(
            stage.name,
            stage.n,
            stage.median_s,
            stage.p95_s,
            stage.max_s,
            ("log" if stage.exact else "object") if stage.n else "",
        )
        for stage in stages
    ]


def pod_rows(stages: list[Stage]) -> list[PodRow]:
    """The pods that run, the slowest first."""
    *parts, whole = stages
    slowest: dict[tuple[str, str], tuple[float, str]] = {}
    for stage in parts:
        for seconds, life in zip(stage.seconds, stage.lives, strict=True):
            key = (life.pod.namespace, life.pod.name)
            slowest[key] = max(slowest.get(key, (0.0, "")), (seconds, stage.name))
    return [_pod_row(life, total, slowest) for total, life in zip(whole.seconds, whole.lives, strict=True)]


def _pod_row(life: Life, total: float, slowest: dict[tuple[str, str], tuple[float, str]]) -> PodRow:
    pod = life.pod
    seconds, stage = slowest.get((pod.namespace, pod.name), (0.0, ""))
    return PodRow(
        f"{pod.namespace}/{pod.name}", pod.spec.node_name, total, stage, round(seconds, 2), life.filters or None
    )


def count_rows(counts: Counts, new: int, pending: int) -> list[CountRow]:
    """Those of the cluster, then the pods that the figures are of."""
    return [
        CountRow("nodes", counts.nodes),
        CountRow("pods", counts.pods),
        CountRow("pods that were given GPUs", counts.holders),
        CountRow("new GPU pods of HAMi's scheduler", new),
        CountRow("of the new ones pending", pending),
    ]
