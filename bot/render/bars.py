"""The GPUs of a report as bars of text: what `picture` draws, for a terminal.

A node is a line with one character per GPU; where there is only one node, a GPU is a line with a long bar. What a
character means shows without colour.
"""

from collections.abc import Sequence
from typing import NamedTuple

from bot.render.overview_tables import short_uuids
from bot.render.words import cells, visible
from bot.report import Report
from bot.rows import FREE, GpuRow
from bot.texts import Text, together

MOST_LINES = 60
_LEVELS = "▁▂▃▄▅▆▇█"
_GIVEN, _ROOM, _BARRED, _DOTTED = "█", "·", "x", "?"
_LONG = 16
"""With a UUID before it and an amount behind it, it fits 80 columns."""


class Bars(NamedTuple):
    """Lines of equal shape, and how many nodes are left out: those with the least room."""

    lines: list[Text]
    left_out: int


def bars(report: Report) -> Bars | None:
    """The GPUs of a report; None for a report that has none."""
    by_node: dict[str, list[GpuRow]] = {}
    for gpu in report.typed(GpuRow):
        by_node.setdefault(visible(gpu.node), []).append(gpu)
    if not by_node:
        return None
    if len(by_node) == 1:
        gpus = [row for some in by_node.values() for row in some]
        short = short_uuids(row.card for row in gpus)
        rows = [(visible(short[row.card]), _long(row), [row]) for row in gpus]
    else:
        rows = [(node, "".join(map(_short, gpus)), gpus) for node, gpus in by_node.items()]
        if len(rows) > MOST_LINES:
            rows.sort(key=lambda row: -sum(gpu.room for gpu in row[2]))
    shown = rows[:MOST_LINES]
    label, wide = max(cells(name) for name, _, _ in shown), max(len(bar) for _, bar, _ in shown)
    lines = [
        together(f"{name}{' ' * (label - cells(name))}  {bar}{' ' * (wide - len(bar))}  ", _says(some))
        for name, bar, some in shown
    ]
    return Bars(lines, len(rows) - len(shown))


def _short(gpu: GpuRow) -> str:
    """One character. That some is given shows however little it is, and so does that some is not."""
    if not gpu.is_known:
        return _DOTTED
    given, total = gpu.given
    if given >= total:
        return _GIVEN
    if gpu.state != FREE:
        return _BARRED
    return _LEVELS[min(len(_LEVELS) * given // total, len(_LEVELS) - 2)] if given else _ROOM


def _long(gpu: GpuRow) -> str:
    if not gpu.is_known:
        return _DOTTED * _LONG
    given, total = gpu.given
    if given >= total:
        return _GIVEN * _LONG
    filled = min(max(_LONG * given // total, 1), _LONG - 1) if given else 0
    return _GIVEN * filled + (_ROOM if gpu.state == FREE else _BARRED) * (_LONG - filled)


def _says(gpus: Sequence[GpuRow]) -> Text:
    if not any(gpu.is_known for gpu in gpus):
        return Text("bars.unknown")
    room = sum(gpu.room for gpu in gpus)
    if room:
        return Text("bars.free", memory=f"{room:,} MiB")
    free = sum(gpu.state == FREE for gpu in gpus if not gpu.divided)
    return Text("bars.some-free", count=free) if free else Text("bars.none")
