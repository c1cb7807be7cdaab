"""The tables of `logs`: the filter runs by node and card, the lines themselves, and which logs were read."""

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import NamedTuple

from bot.hami.nodes.node_state import read_registrations
from bot.hami.nodes.registration import Registration
from bot.hami.scheduler_logs.filter_runs import ALLOCATING, CARD_TRIED, Cycle
from bot.hami.scheduler_logs.log_lines import LogLine, read_line
from bot.kube.models import Node, Pod
from bot.report import Gap, Sheet, Table
from playbooks.rules.waiting.panics import Logged, PodLog


class RunRow(NamedTuple):
    """What a filter run, or several alike, said of a node or a card."""

    run: str
    time: str
    node: str
    card: str
    reason: str
    figures: str
    container: str


class LineRow(NamedTuple):
    """A line of a log."""

    time: str
    log: str
    line: str


class LogRow(NamedTuple):
    """A log that was read, or not: then its lines are None."""

    log: str
    verbosity: int
    lines: int | None
    reaches_back_to: str


RUNS = Sheet("filter runs", RunRow)
LINES = Sheet("lines", LineRow)
LOGS = Sheet("logs read", LogRow)

MOST_ROWS, MOST_LINES = 300, 200
_LONGEST_LINE = 1000
ROUTINE = (CARD_TRIED, ALLOCATING)
"""Written for each card and each node, and say only that it is looked at: they would fill the table of lines."""
UNSAID = "?"

_Said = tuple[str, str, str, str, str]
"""Node, card, reason, figures, container."""


class _Alike(NamedTuple):
    """Runs in a row that ended alike, the first and the last by number, and when each of the two began."""

    first: int
    last: int
    since: datetime | None
    at: datetime | None
    rows: list[_Said]

    @property
    def numbers(self) -> str:
        return str(self.last) if self.first == self.last else f"{self.first}-{self.last}"

    @property
    def times(self) -> str:
        if self.first == self.last:
            return _clock(self.at)
        last = _clock(self.at)
        same_day = self.since and self.at and self.since.date() == self.at.date()
        return f"{_clock(self.since)} - {last.partition(' ')[2] if same_day else last}"


def tables_of(
    logged: Logged, nodes: Iterable[Node], pod: Pod | None, now: datetime
) -> tuple[tuple[Table, ...], list[tuple[str, int]]]:
    """Those that have rows, and by title how many rows are left out."""
    rows, rows_left = _run_rows(logged, _card_nodes(nodes), pod)
    lines, lines_left = _line_rows(logged)
    tables = (
        RUNS.table(rows),
        LINES.table(lines),
        LOGS.table(_log_row(log, now) for log in logged.logs),
    )
    return tuple(table for table in tables if table.rows), [(RUNS.title, rows_left), (LINES.title, lines_left)]


def _card_nodes(nodes: Iterable[Node]) -> dict[str, str]:
    """The node of each registered card; none for a UUID that several nodes register."""
    found: dict[str, str] = {}
    for node in nodes:
        for registration in read_registrations(node):
            for card in registration.cards if isinstance(registration, Registration) else ():
                found[card.uuid] = "" if found.get(card.uuid, node.name) != node.name else node.name
    return found


def _run_rows(logged: Logged, nodes: dict[str, str], pod: Pod | None) -> tuple[list[RunRow], int]:
    """The newest run first, those alike once, as far as the rows go; and how many rows are left out."""
    groups: list[_Alike] = []
    for number, run in reversed(list(enumerate(logged.runs, start=1))):
        container = _container(run.cycle, pod)
        rows = [(*row, container) for row in _rows_of(run.cycle, nodes)]
        if groups and groups[-1].rows == rows:
            groups[-1] = groups[-1]._replace(first=number, since=run.cycle.at)
        else:
            groups.append(_Alike(number, number, run.cycle.at, run.cycle.at, rows))
    listed = [RunRow(group.numbers, group.times, *row) for group in groups for row in group.rows]
    return listed[:MOST_ROWS], max(0, len(listed) - MOST_ROWS)


def _rows_of(cycle: Cycle, nodes: dict[str, str]) -> Iterator[tuple[str, str, str, str]]:
    """(node, card, reason, figures) by node. What was said several times alike is one row: `CardTypeMismatch x8`."""
    for verdict in sorted(
        cycle.nodes, key=lambda node_verdict: node_verdict.node
    ):  # HAMi judges and logs the nodes in no order
        yield verdict.node, "", "fits" if verdict.fits else verdict.reason or verdict.line.message, ""
    if not cycle.refused:
        for code, names in cycle.nodes_by_code().items():
            yield from ((name, "", code, "") for name in names)
    cards = Counter(
        (nodes.get(refusal.card) or UNSAID, refusal.card or UNSAID, refusal.code, refusal.figures)
        for refusal in cycle.cards
    )
    for (node, card, code, figures), count in sorted(cards.items()):
        yield node, card, code if count == 1 else f"{code} x{count}", figures
    if cycle.chosen:
        yield cycle.chosen, "", cycle.bind_error or ("bound" if cycle.bound else "chosen"), ""
    if cycle.none_fit and not (cycle.refused or cycle.cards):
        yield "", "", cycle.none_fit.values["message"], ""


def _container(cycle: Cycle, pod: Pod | None) -> str:
    """The container that asks for devices, where only one does; lines about cards do not name theirs."""
    asking = [position for position, asks in enumerate(cycle.requests) if asks]
    if len(asking) != 1:
        return ""
    containers = [*(pod.spec.init_containers or ()), *pod.spec.containers] if pod else []
    return containers[asking[0]].name if len(containers) == len(cycle.requests) else f"#{asking[0]}"


def _line_rows(logged: Logged) -> tuple[list[LineRow], int]:
    """The lines of all logs by their times, the newest first, and how many are left out."""
    lines: list[tuple[LogLine, str]] = []
    for log in logged.logs:
        found = (*log.lines, *(() if logged.others else log.bare))
        lines += [(line, log.log.label) for line in found if line.message not in ROUTINE]
    lines.sort(key=lambda line: line[0].at.timestamp() if line[0].at else 0.0)
    newest = reversed(lines[-MOST_LINES:])
    rows = [LineRow(_clock(line.at), label, line.raw[:_LONGEST_LINE]) for line, label in newest]
    return rows, max(0, len(lines) - MOST_LINES)


def _log_row(log: PodLog, now: datetime) -> LogRow:
    if isinstance(log.log.read, Gap):
        return LogRow(log.log.label, log.log.verbosity, None, UNSAID)
    first = read_line(log.log.read.first, now)
    return LogRow(log.log.label, log.log.verbosity, len(log.lines), _clock(first.at if first else None))


def _clock(at: datetime | None) -> str:
    """UTC to the millisecond: runs of one pod follow each other within a few."""
    return f"{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03d}" if at else UNSAID
