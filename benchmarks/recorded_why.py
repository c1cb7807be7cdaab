"""`why` as a whole process on a recording of a cluster of 20 nodes."""

from pathlib import Path

from benchmarks.processes import HAMI_BOT, measure_runs
from benchmarks.rows import Row

RECORDING = Path(__file__).parents[1] / "tests" / "cases" / "hami-2.10" / "recording.tar.gz"
POD = "ml/s03-card-insufficient-memory"
RUNS = 10
BUDGET_S = 0.8


def rows() -> list[Row]:
    """Start-up counts most here."""
    runs = measure_runs([*HAMI_BOT, "why", POD, "--recording", str(RECORDING)], RUNS)
    return [Row("why, recording of 20 nodes", str(runs), f"< {BUDGET_S:g} s", runs.median_s < BUDGET_S, "none")]
