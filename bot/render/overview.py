"""An overview for people: of each table the rows and columns that matter, with ages, and UUIDs as far as unique.

A terminal also gets the GPUs as bars of text (`picture` draws them): a node is a line with one character per GPU; of a
single node each GPU is a line with a long bar.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from heapq import nlargest
from operator import itemgetter
from typing import Any, NamedTuple, cast

from msgspec import structs

from bot.finding_codes import CODES, Proof
from bot.render.words import age, cells, instant, visible
from bot.report import Finding, NameList, NextAction, Report, Rows, Table, Uuid, more_than_info
from bot.rows import FREE, GpuRow, state_in_words
from bot.texts import Prose, Text, Texts, listed, some_names, together

_STEPS_SHOWN = 3
_OF_ADVICE: tuple[Proof, ...] = ("usage", "profile", "profiles")
"""Kinds of evidence of findings that are advice: each of their actions is worth doing by itself."""
_NAMES_SHOWN = 2
_SHORTEST = 12
"""The fewest characters of a UUID that are shown: `GPU-` and eight more."""
MOST_LINES = 60
_LEVELS = "▁▂▃▄▅▆▇█"
_GIVEN, _ROOM, _BARRED, _DOTTED = "█", "·", "x", "?"
_LONG = 16
"""The characters of a long bar, which with a UUID before and an amount behind fits 80 columns."""


class BriefTable(NamedTuple):
    """One table of an overview: `shown` is for people, `whole` has `left_out` rows more. The first `together` columns
    are never dropped. A chat shows a `listed` table as a list.
    """

    shown: Table
    whole: Table
    left_out: int
    together: int = 1
    listed: bool = False


class Brief(NamedTuple):
    """An overview of a report. `findings` are those that no table shows, without the verdict's."""

    tables: list[BriefTable]
    findings: list[Finding]
    steps: list[NextAction]


def brief(report: Report, say: Texts) -> Brief | None:
    """The report as an overview; None for one without a table that has a `brief`, such as a diagnosis of one pod."""
    typed = [table for table in report.tables if isinstance(table.rows, Rows)]
    parts = [(table, rows) for table in typed if (rows := cast("Rows[Any]", table.rows)).brief is not None]
    if not parts:
        return None
    now = instant(report.taken_at)
    tables: list[BriefTable] = []
    for whole, rows in parts:
        if rows.brief:
            columns, picked = _picked(rows, rows.brief, now)
            shown = Table(whole.title, columns, tuple(tuple(map(say.words, row)) for row in picked))
            left_out, sheet = len(whole.rows) - rows.of, rows.sheet
            tables.append(BriefTable(shown, whole, left_out, sheet.together, sheet.listed))
    tells = any(rows.sheet.tells_findings for _, rows in parts)
    told = report.told_by
    others = [] if tells else [finding for finding in more_than_info(report.findings) if finding is not told]
    return Brief(tables, others, next_steps(report))


def next_steps(report: Report) -> list[NextAction]:
    """The steps of an answer at a glance: an overview's, each command once, or the cause's. A head shows the first."""
    shown, cause = steps_shown(report), next(iter(report.findings), None)
    if not any(getattr(table.rows, "brief", None) for table in report.tables):
        return [action for action in shown if cause and action in cause.next_actions]
    steps: dict[Prose, NextAction] = {}
    for action in shown:
        steps.setdefault(action.command or action.text, action)
    return list(steps.values())


def first_step(report: Report) -> NextAction | None:
    """The step that a short answer to the report shows first, as an incident's head does; None if it has no step."""
    return next(iter(next_steps(report)), None)


def as_shown(actions: Sequence[NextAction], say: Texts) -> list[NextAction]:
    """Actions in words that are shown without the others: the first of several ways is called that beside another."""
    alone = not any(action.key == "words.or" for action in actions)
    first = ((action, alone and action.key == "words.either") for action in actions)
    return [structs.replace(one, label=say.words(one.alone)) if is_first else one for one, is_first in first]


def steps_shown(report: Report) -> list[NextAction]:
    """Next actions at a glance: up to three of the cause, then one of each other finding while there is room. Where
    several nodes have problems each gets one. A report that is all advice is shown whole.
    """
    first = CODES.get(report.findings[0].code) if report.findings else None
    if first is None or first.proof in _OF_ADVICE or report.findings[0].code == "own-finding":
        return list(dict.fromkeys(action for finding in report.findings for action in finding.next_actions))
    each_alike = report.subject.kind == "Nodes" and len(more_than_info(report.findings)) > 1
    shown = list[NextAction]()
    for finding in report.findings:
        most = 1 if shown or each_alike else _STEPS_SHOWN
        told = {action.label or action.text for action in shown}
        new = [action for action in finding.next_actions if (action.label or action.text) not in told]
        shown += new[: min(most, _STEPS_SHOWN - len(shown))]
    return shown


def _picked(
    rows: Rows[Any], shown: Sequence[Any], now: datetime | None
) -> tuple[tuple[str, ...], list[tuple[Prose, ...]]]:
    """The headings and the rows of those columns that tell something."""
    fields = list(rows.sheet.brief)
    values = [[getattr(row, field) for field in fields] for row in shown]
    uuids = {field for row in values for field, value in zip(fields, row, strict=True) if isinstance(value, Uuid)}
    short = shortest_uuid(getattr(row, field) for field in uuids for row in rows.typed)
    columns = [
        [str(value[:short]) if isinstance(value, Uuid) else _cell(value, now) for value in column]
        for column in zip(*values, strict=True)
    ]
    # A column has to tell the rows apart; an age tells something by itself.
    picked = [
        number
        for number, cells in enumerate(columns)
        if number < rows.sheet.together
        or (any(cells) and (len(set(cells)) > 1 or len(cells) == 1 or isinstance(values[0][number], datetime)))
    ]
    headings = tuple(rows.sheet.brief.values())
    cells = list(zip(*(columns[number] for number in picked), strict=True))
    return tuple(headings[number] for number in picked), cells


def _cell(value: Any, now: datetime | None) -> Prose:
    match value:
        case None:
            return "?"
        case datetime():
            return age(int((now - value).total_seconds())) if now else "?"
        case NameList():
            return some_names(value, _NAMES_SHOWN)
        case tuple():
            return listed(cast("Iterable[str]", value))
        case int():
            return f"{value:,}"
        case Text():
            return value
        case _:
            return str(value)


def shortest_uuid(uuids: Iterable[str]) -> int | None:
    """The fewest characters that keep the UUIDs distinct; None for all of them."""
    distinct = set(uuids)
    sizes = range(_SHORTEST, max(map(len, distinct), default=0))
    return next((size for size in sizes if len(set(map(itemgetter(slice(size)), distinct))) == len(distinct)), None)


# ---------------------------------------------------------------------------------------------------------- bars


class Bars(NamedTuple):
    """Lines of bars of equal width, and how many nodes are left out: those with the least free memory."""

    lines: list[Text]
    left_out: int


GpusByNode = Mapping[str, Sequence[GpuRow]]


def gpus_by_node(report: Report) -> GpusByNode:
    """The report's GPUs in its order, by the name of their node as shown."""
    found: dict[str, list[GpuRow]] = {}
    for gpu in report.typed(GpuRow):
        found.setdefault(visible(gpu.node), []).append(gpu)
    return found


def most_room(by_node: GpusByNode, most: int = MOST_LINES) -> GpusByNode:
    """At most `most` of the nodes: where there are more, those with the most free memory, the most first."""
    if len(by_node) <= most:
        return by_node
    names = nlargest(most, by_node, key=lambda node: sum(gpu.room for gpu in by_node[node]))
    return {name: by_node[name] for name in names}


def bars(by_node: GpusByNode, most: int = MOST_LINES, of: int | None = None) -> Bars | None:
    """The GPUs of these nodes as bars in at most `most` lines; None without any. `of` is the number of all nodes."""
    if not by_node:
        return None
    if of in (None, 1) and len(by_node) == 1:
        gpus = [row for some in by_node.values() for row in some]
        short = shortest_uuid(str(row.card) for row in gpus)
        rows, total = [(visible(str(row.card)[:short]), _bar(row, _LONG), [row]) for row in gpus], len(gpus)
        shown = rows[:most]
    else:
        shown = [(node, "".join(map(_bar, gpus)), gpus) for node, gpus in most_room(by_node, most).items()]
        total = of or len(by_node)
    label, wide = max(cells(name) for name, _, _ in shown), max(len(bar) for _, bar, _ in shown)
    lines = [
        together(f"{name}{' ' * (label - cells(name))}  {bar}{' ' * (wide - len(bar))}  ", _says(some))
        for name, bar, some in shown
    ]
    return Bars(lines, total - len(shown))


def _bar(gpu: GpuRow, wide: int = 1) -> str:
    """A bar of `wide` characters. It shows that some is given, or free, however little that is."""
    if not gpu.is_known:
        return _DOTTED * wide
    given, total = gpu.given
    if given >= total:
        return _GIVEN * wide
    if wide == 1 and given and gpu.state == FREE:
        return _LEVELS[min(len(_LEVELS) * given // total, len(_LEVELS) - 2)]
    filled = min(max(wide * given // total, 1), wide - 1) if given else 0
    return _GIVEN * filled + (_ROOM if gpu.state == FREE else _BARRED) * (wide - filled)


def _says(gpus: Sequence[GpuRow]) -> Text:
    if not any(gpu.is_known for gpu in gpus):
        return Text("bars.unknown")
    room = sum(gpu.room for gpu in gpus)
    if room:
        return Text("bars.free", memory=f"{room:,} MiB")
    free = sum(gpu.state == FREE for gpu in gpus if not gpu.divided)
    if free or not (left := unusable(gpus)):
        return Text("bars.free", memory=free) if free else Text("picture.none-free")
    why = [*map(state_in_words, dict.fromkeys(gpu.state for gpu in left))]
    memory = sum(gpu.memory_total - (gpu.memory_used or 0) for gpu in left)
    return Text("bars.unusable", memory=f"{memory:,} MiB", why=why)


def unusable(gpus: Sequence[GpuRow]) -> list[GpuRow]:
    """The GPUs with free memory that no pod can get."""
    taken = (gpu for gpu in gpus if gpu.is_known and gpu.divided and gpu.state != FREE)
    return [gpu for gpu in taken if gpu.memory_total > (gpu.memory_used or 0)]
