"""Every number of a piece of advice is worked out again, from the quotes that it shows."""

import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from bot.report import Finding, Report
from playbooks.tune.advice import AdviceRow
from tests.playbooks.world import card, gpu_node, running, scheduler
from tests.tune.lab import GIB, HOURS, USED, FakePrometheus, tune, use
from tests.tune.support import Case, cases, rows_of

_MIB = 2**20
_NUMBER = re.compile(r"(?<![\w.-])\d[\d,]*(?:\.\d+)?(?![\w-])")
_GIVEN = re.compile(r"(?<=,)NVIDIA,(\d+),\d+")
_CHANGES = ("raise", "lower", "refuse")
_NOT_QUOTED = ("monitor-gap",)
"""It is about figures that are not there: nothing can be quoted."""


class Shown(NamedTuple):
    """One piece of advice as it is told."""

    row: AdviceRow
    finding: Finding

    def quotes(self, source: str) -> list[str]:
        return [proof.quote for proof in self.finding.evidence if proof.source == source]

    def samples(self, name: str = "") -> list[float]:
        return [float(quote.rpartition(" ")[2]) for quote in self.quotes("metrics") if quote.startswith(name)]

    def given_mib(self) -> list[int]:
        """The memory of every share that the quoted pods were given."""
        texts = {quote for quote in self.quotes("pod") if ",NVIDIA," in quote}
        pods = [proof.quote for proof in self.finding.evidence if proof.quote in texts]
        return [int(amount) for text in pods for amount in _GIVEN.findall(text)]

    def count(self, source: str) -> int:
        """What a counting command printed."""
        (count,) = (quote for quote in self.quotes(source) if quote.isdecimal())
        return int(count)


def _rate(one: Shown) -> list[str]:
    waits = [quote for quote in one.quotes("scheduler log") if not quote.isdecimal()]
    if not waits:
        return [one.row.recommended, str(one.count("nodes"))]
    delays = [float(found[1]) for wait in waits if (found := re.search(r'delay="(\d+\.\d+)s"', wait))]
    return [str(one.count("scheduler log")), f"{max(delays):.2f}"]


def _limit(one: Shown) -> list[str]:
    used, limit = one.samples()
    if one.row.direction == "raise":
        assert one.row.recommended == f"{math.ceil(round(used / _MIB) / 0.9):,} MiB"
    bound = "30" if one.row.direction == "lower" else "90"
    return [f"{round(used / _MIB):,}", f"{round(limit / _MIB):,}", f"{used / limit:.0%}".rstrip("%"), bound]


def _idle(one: Shown) -> list[str]:
    return [f"{one.samples()[0] / 3600:.1f}"]


def _scaling(one: Shown) -> list[str]:
    if "full" in one.row.why:
        (registered,) = (quote for quote in one.quotes("node") if "devmem" in quote)
        found = re.search(r'"devmem": ?(\d+)', registered)
        assert found
        physical = int(found[1]) / float(one.row.current)
        full = one.samples("hami_host_gpu")
        return [str(len(full)), f"{round(full[0] / _MIB):,}", f"{round(physical):,}"]
    requested, peak = sum(one.given_mib()), round(sum(one.samples()) / _MIB)
    safe = f"{requested / peak * 0.9:.2f}"
    each = [f"{requested:,}", f"{peak:,}"]
    return [str(len(one.samples())), *each, *each, "0.9", safe]


def _split(one: Shown) -> list[str]:
    smallest = f"{min(one.given_mib()):,}"
    waiting = one.quotes("condition")
    return [str(len(waiting)), smallest] if waiting else [str(one.count("nodes")), one.row.recommended, smallest]


def _resources(one: Shown) -> list[str]:
    restarts = [proof.quote for proof in one.finding.evidence if "restartCount" in proof.command]
    return [*restarts, str(one.count("nodes"))]


WORKED_OUT: dict[str, Callable[[Shown], list[str]]] = {
    "kube-qps": _rate,
    "kube-burst": _rate,
    "memory-limit-low-use": _limit,
    "memory-limit-high-use": _limit,
    "idle-holder": _idle,
    "memory-scaling": _scaling,
    "split-count": _split,
    "scheduler-resources": _resources,
}


def shown(report: Report) -> Iterator[Shown]:
    for row in rows_of(report):
        if row.direction in _CHANGES and row.topic not in _NOT_QUOTED:
            pod = row.object if row.topic.startswith(("memory-limit", "idle")) else ""
            named = [finding for finding in report.findings if row.why in finding.claim and pod in finding.claim]
            directed = [finding for finding in named if row.recommended in finding.claim] or named
            yield Shown(row, directed[0])


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_the_numbers_of_advice_follow_from_its_quotes(case: Case) -> None:
    for row in shown(case.ask()):
        assert _NUMBER.findall(row.row.why) == WORKED_OUT[row.row.topic](row), row.row


def test_a_safe_ratio_follows_from_the_peaks_and_the_requests(tmp_path: Path) -> None:
    pods = [running(name, "gpu-1", (f"GPU-{name}", amount, 0)) for name, amount in (("a", 8192), ("b", 12288))]
    objects = [*scheduler(), gpu_node("gpu-1", card("GPU-a"), card("GPU-b")), *pods]
    peaks = use(USED, "a", "GPU-a", 3 * GIB) + use(USED, "b", "GPU-b", 5 * GIB + 12345678)
    week = use(USED, "a", "GPU-a", HOURS) + use(USED, "b", "GPU-b", HOURS)
    report = tune(tmp_path, objects, prometheus=FakePrometheus(peaks=peaks, hours=week))
    (one,) = (row for row in shown(report) if row.row.topic == "memory-scaling")
    assert one.row.direction == "raise"
    assert _NUMBER.findall(one.row.why) == _scaling(one)
