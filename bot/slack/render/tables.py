"""The tables of an answer: one in the message, as far as a person reads on a phone, and whole ones as files."""

from collections.abc import Sequence
from typing import NamedTuple

from bot.render.brief import Brief, BriefTable
from bot.render.words import is_numeric, table_heading
from bot.report import Report, Table
from bot.slack.message import Block
from bot.slack.render import blocks, limits
from bot.slack.render.rich import line, rich_text, span
from bot.slack.render.room import Room
from bot.texts import Texts

_SHARE = 2500
_ROWS_SHOWN = 15
_COLUMNS_SHOWN = 6
"""More are no table on a phone."""
_TITLE, _CELL = 100, 200
_EMPTY_TABLES = 5
_FILES = 5
_ANSWERED_BY_TABLES = ("Deployment", "Pods")
"""Kinds of subjects in a namespace that are not one pod: which pods wait there, and for what, stands in a table."""
_SMALL = 15
"""Rows of a table that reads well in the whole answer and needs no file of its own."""


class RenderedTables(NamedTuple):
    """The blocks, and the tables that they do not show whole and that deserve a spreadsheet."""

    blocks: list[Block]
    not_whole: list[Table]


def show_tables(report: Report, overview: Brief | None, room: Room, say: Texts) -> RenderedTables:
    """The first table with rows, where a table is the answer: one about a pod has its verdict, and tables as proof."""
    if overview is None and report.subject.namespace and report.subject.kind not in _ANSWERED_BY_TABLES:
        room.left_out["tables"] += len(report.tables)
        return RenderedTables([], [table for table in report.tables if len(table.rows) > _SMALL][:_FILES])
    tables = overview.tables if overview else [BriefTable(table, table, 0) for table in report.tables]
    shown: list[Block] = []
    others = [
        table for table in report.tables if table.rows and not any(brief_table.whole is table for brief_table in tables)
    ]
    room.left_out["tables"] += len(others)
    not_whole: list[Table] = []
    has_rows = False
    for table, whole, left_out in tables:
        title = span(room.text(table_heading(table, say), _TITLE).strip() or say("render.empty"), "bold")
        if not table.columns or not table.rows:
            empty = rich_text(line(title, span(f"\n{say('words.none')}")))
            shown += room.fill(
                "tables", [empty], lambda _, block: block, share=_SHARE, most=max(0, _EMPTY_TABLES - len(shown))
            )
        elif has_rows:
            room.left_out["tables"] += 1
            not_whole.append(whole)
        else:
            columns = list(range(len(table.columns)))[:_COLUMNS_SHOWN] if overview else _columns_shown(table)
            rows = _rows(table, columns, room)
            has_rows = True
            room.left_out["rows"] += left_out
            room.left_out["columns"] += len(whole.columns) - len(table.columns)
            shown += [rich_text(line(title)), rows] if rows else []
            if not rows or len(rows["rows"]) <= len(whole.rows) or len(columns) < len(whole.columns):
                not_whole.append(whole)
    return RenderedTables(shown, [*not_whole, *others][:_FILES])


def _rows(table: Table, shown: Sequence[int], room: Room) -> Block | None:
    header, *rows = [[row[number] for number in shown] for row in (table.columns, *table.rows)]

    def show(_: int, row: Sequence[str]) -> list[blocks.Element]:
        return [blocks.cell(room.text(cell, _CELL)) for cell in row]

    filled = room.fill("rows", (header, *rows), show, share=_SHARE, most=1 + _ROWS_SHOWN)
    room.left_out["columns"] += len(table.columns) - len(shown)
    if len(filled) < 2:
        room.left_out["rows"] = len(table.rows)
        return None
    right = [is_numeric(column) for column in zip(*rows[: limits.TABLE_ROWS], strict=True)]
    return blocks.table(filled, right)


def _columns_shown(table: Table) -> list[int]:
    """The columns that tell the rows apart, the first ones if they are many; of a single row those that are filled."""
    several = len(table.rows) > 1
    telling = [
        number
        for number, cells in enumerate(zip(*table.rows, strict=True))
        if (len(set(cells)) > 1 if several else cells[0])
    ]
    return (telling or [0])[:_COLUMNS_SHOWN]
