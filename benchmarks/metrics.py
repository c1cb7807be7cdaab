"""A scrape of /metrics on a cluster with 50,000 pods, many of them pending."""

import asyncio
import statistics
import time

from benchmarks.rows import Row
from bot.finding_codes import CODES
from bot.metrics import ClusterFigures, Exposition, Figures, PendingPod, count_pending, gaps_by_source

PODS, NAMESPACES, CAUSES = 50_000, 400, 20
BUDGET_MS = 50.0
RUNS = 20
PEER = "kube-state-metrics writes several series for each of the pods"
_ACCEPT = "application/openmetrics-text; version=1.0.0"


def rows() -> list[Row]:
    """The worst that can be scraped: every pod waits, in as many namespaces as are told apart and more."""
    return [asyncio.run(_scraped())]


async def _scraped() -> Row:
    codes = list(CODES)[:CAUSES]
    pending = [PendingPod(f"team-{n % NAMESPACES}", codes[n // NAMESPACES % CAUSES], float(n)) for n in range(PODS)]
    exposition = Exposition(Figures(lambda: True))
    exposition.figures.clusters = {
        "lab": ClusterFigures(count_pending(pending), {"free": 1}, {"A100": 7}, gaps_by_source(["nodes"]))
    }
    took_ms: list[float] = []
    text = b""
    for _ in range(RUNS):
        began = time.perf_counter()
        text, _ = await exposition.text(_ACCEPT)
        took_ms.append((time.perf_counter() - began) * 1000)
    median = statistics.median(took_ms)
    what = f"text of a scrape of /metrics, {PODS:,} pods pending, {text.count(b'hami_bot_pending_pods{'):,} series"
    ours = f"{median:.1f} ms (slowest {max(took_ms):.1f} ms)"
    return Row(what, ours, f"< {BUDGET_MS:g} ms", median < BUDGET_MS, PEER)
