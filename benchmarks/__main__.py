"""Measures the budgets and prints each beside the peer's figure: `python -m benchmarks`, `… slack render` for some."""

import importlib
import os
import sys
from subprocess import SubprocessError

from rich.console import Console
from rich.table import Table

from benchmarks.processes import GaveUpError

_WIDTH = 150
BENCHMARKS = (
    *("cold_why", "nodes_sweep", "pending", "fit_cold", "recorded_why", "logs_100mb", "pprof_top"),
    *("tune", "cache", "slack", "render", "fit_verdict", "metrics", "storm", "mixed"),
)
"""Modules of this package with `rows() -> list[Row]`, each imported when it is due.

Those that measure whole processes come first: this one must still be small when it starts them (`processes.Usage`).
"""


def main() -> None:
    """Every benchmark, or those that are named, in that order. Other work on the machine shows in every figure."""
    named = [name.replace("-", "_") for name in sys.argv[1:]] or list(BENCHMARKS)
    if unknown := [name for name in named if name not in BENCHMARKS]:
        sys.exit(f"no such benchmark: {', '.join(unknown)}; there are: {', '.join(BENCHMARKS)}")
    before, console, failed = _load(), Console(width=_WIDTH), list[str]()
    for name in named:
        table = Table("what", "ours", "budget", "", "peer", show_lines=True)
        try:
            for row in importlib.import_module(f"benchmarks.{name}").rows():
                table.add_row(row.what, row.ours, row.budget, "met" if row.met else "MISSED", row.peer)
        except (SubprocessError, GaveUpError) as error:  # the others are measured all the same
            failed.append(name)
            table.add_row(name, str(error), "", "FAILED", "")
        console.print(table)
    console.print(
        f"Budgets are judged on the median of several runs. {os.cpu_count()} cores, load average {before} before, "
        f"{_load()} after (1 min, what was measured included)."
    )
    if failed:
        sys.exit(f"not measured: {', '.join(failed)}")


def _load() -> str:
    return f"{os.getloadavg()[0]:.1f}"


if __name__ == "__main__":
    main()
