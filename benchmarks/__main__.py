"""Measures every budget and prints it beside the peer's figure: `python -m benchmarks`."""

from rich.console import Console
from rich.table import Table

from benchmarks import cold_why, fit_verdict, recorded_why

_WIDTH = 150


def main() -> None:
    """The processes come first: this one must still be small when it starts them (see `processes.Usage`)."""
    table = Table("what", "ours", "budget", "", "peer", show_lines=True)
    for benchmark in (cold_why, recorded_why, fit_verdict):
        for row in benchmark.rows():
            table.add_row(row.what, row.ours, row.budget, "met" if row.met else "MISSED", row.peer)
    Console(width=_WIDTH).print(table)


if __name__ == "__main__":
    main()
