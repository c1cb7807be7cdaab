"""The cards of a report as bars of text: what `picture` draws, for a terminal.

A node is a line with one character per card; where there is only one node, a card is a line with a long bar. What a
character means shows without colour.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bot.render.words import cells, visible
from bot.report import Report
from bot.texts import Texts

MOST_LINES = 60
_CARDS_TABLE = "cards"
_FREE, _UNKNOWN, _LOST = "free", "unknown", "unregistered"
_LEVELS = "▁▂▃▄▅▆▇█"
_GIVEN, _ROOM, _BARRED, _DOTTED = "█", "·", "x", "?"
_LONG = 16
"""With a UUID before it and an amount behind it, it fits 80 columns."""


class Bars(NamedTuple):
    """Lines of equal shape, what their characters mean, and how many nodes are left out: those with the least room."""

    lines: list[str]
    legend: str
    left_out: int


class _Card(NamedTuple):
    """Memory in MiB; `used` is None where it is not known."""

    node: str
    name: str
    used: int | None
    total: int
    state: str

    @property
    def room(self) -> int:
        """What a pod could get."""
        return max(self.total - (self.used or 0), 0) if self.state == _FREE else 0


def bars(report: Report, say: Texts) -> Bars | None:
    """The cards of `gpus`; None for a report that has none."""
    by_node: dict[str, list[_Card]] = {}
    for card in _cards(report):
        by_node.setdefault(card.node, []).append(card)
    if not by_node:
        return None
    if len(by_node) == 1:
        rows = [(one.name, _long(one), [one]) for cards in by_node.values() for one in cards]
    else:
        rows = [(node, "".join(map(_short, cards)), cards) for node, cards in by_node.items()]
        if len(rows) > MOST_LINES:
            rows.sort(key=lambda row: -sum(card.room for card in row[2]))
    shown = rows[:MOST_LINES]
    label, wide = max(cells(name) for name, _, _ in shown), max(len(bar) for _, bar, _ in shown)
    lines = [
        f"{name}{' ' * (label - cells(name))}  {bar}{' ' * (wide - len(bar))}  {_says(some, say)}"
        for name, bar, some in shown
    ]
    return Bars(lines, say("bars.legend"), len(rows) - len(shown))


def _cards(report: Report) -> Iterator[_Card]:
    for table in report.tables if report.playbook == "gpus" else ():
        for row in table.rows if table.title == _CARDS_TABLE else ():
            one = dict(zip(table.columns, map(visible, row), strict=True))
            used, total = one["memory used"], one["memory total"]
            yield _Card(
                one["node"],
                one["card"],
                int(used) if used.isdecimal() else None,
                int(total) if total.isdecimal() else 0,
                one["state"],
            )


def _short(card: _Card) -> str:
    """One character. That some is given shows however little it is, and so does that some is not."""
    if card.used is None or card.state in (_UNKNOWN, _LOST):
        return _DOTTED
    if card.used >= card.total:
        return _GIVEN
    if card.state != _FREE:
        return _BARRED
    return _LEVELS[min(len(_LEVELS) * card.used // card.total, len(_LEVELS) - 2)] if card.used else _ROOM


def _long(card: _Card) -> str:
    if card.used is None or card.state in (_UNKNOWN, _LOST):
        return _DOTTED * _LONG
    if card.used >= card.total:
        return _GIVEN * _LONG
    given = min(max(_LONG * card.used // card.total, 1), _LONG - 1) if card.used else 0
    return _GIVEN * given + (_ROOM if card.state == _FREE else _BARRED) * (_LONG - given)


def _says(cards: Sequence[_Card], say: Texts) -> str:
    if all(card.used is None or card.state in (_UNKNOWN, _LOST) for card in cards):
        return say("bars.unknown")
    room = sum(card.room for card in cards)
    return say("bars.free", memory=f"{room:,} MiB") if room else say("bars.none")
