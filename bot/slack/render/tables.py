"""The tables of an answer: one in the message, as far as a person reads on a phone, and whole ones as files."""

from collections.abc import Sequence
from typing import NamedTuple

from bot.render.overview_tables import Brief, BriefTable
from bot.render.words import is_numeric, table_heading
from bot.report import Report, Table
from bot.slack.message import Block
from bot.slack.render import blocks, limits
from bot.slack.render.rich import line, rich_text, span
from bot.slack.render.text import pieced
from bot.slack.render.text_budget import Room
from bot.texts import Prose, Text

_SHARE, _PAGES_SHARE = 2500, 6000
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


def show_tables(report: Report, overview: Brief | None, room: Room, *, newer: bool = False) -> RenderedTables:
    """The first table with rows, where a table is the answer: one about a pod has its verdict, and tables as proof.

    `newer`: as a table that can be sorted, which has pages and so more rows and all columns.
    """
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
    for table, whole, left_out, _ in tables:
        heading = room.text(table_heading(table), _TITLE).strip()
        title = span(heading or Text("render.empty"), "bold")
        if not table.columns or not table.rows:
            empty = rich_text(line(title, span(pieced("\n{}", Text("words.none")))))
            shown += room.fill(
                "tables", [empty], lambda _, block: block, share=_SHARE, most=max(0, _EMPTY_TABLES - len(shown))
            )
        elif has_rows:
            room.left_out["tables"] += 1
            not_whole.append(whole)
        else:
            most = limits.TABLE_COLUMNS if newer else _COLUMNS_SHOWN
            columns = list(range(len(table.columns)))[:most] if overview else _columns_shown(table)
            rows = _pages(table, columns, room, title["text"]) if newer else _rows(table, columns, room)
            has_rows = True
            room.left_out["rows"] += left_out
            room.left_out["columns"] += len(whole.columns) - len(table.columns)
            shown += ([rows] if newer else [rich_text(line(title)), rows]) if rows else []
            if not rows or len(rows["rows"]) <= len(whole.rows) or len(columns) < len(whole.columns):
                not_whole.append(whole)
    return RenderedTables(shown, [*not_whole, *others][:_FILES])


def _rows(table: Table, shown: Sequence[int], room: Room) -> Block | None:
    filled = _filled(table, shown, room, _SHARE, _ROWS_SHOWN)
    rows = [[row[number] for number in shown] for row in table.rows[: limits.TABLE_ROWS]]
    right = [is_numeric(column) for column in zip(*rows, strict=True)]
    return blocks.table(filled, right) if filled else None


def _pages(table: Table, shown: Sequence[int], room: Room, caption: Prose) -> Block | None:
    filled = _filled(table, shown, room, _PAGES_SHARE, limits.TABLE_ROWS)
    return blocks.data_table(caption, filled, _ROWS_SHOWN) if filled else None


def _filled(table: Table, shown: Sequence[int], room: Room, share: int, most: int) -> list[list[blocks.Element]]:
    """The cells, the heading first; none without room for a row."""

    def show(_: int, row: Sequence[str]) -> list[blocks.Element]:
        return [blocks.cell(room.text(cell, _CELL)) for cell in row]

    rows = [[row[number] for number in shown] for row in (table.columns, *table.rows)]
    filled = room.fill("rows", rows, show, share=share, most=1 + most)
    room.left_out["columns"] += len(table.columns) - len(shown)
    if len(filled) < 2:
        room.left_out["rows"] = len(table.rows)
        return []
    return filled


def _columns_shown(table: Table) -> list[int]:
    """The columns that tell the rows apart, the first ones if they are many; of a single row those that are filled."""
    several = len(table.rows) > 1
    telling = [
        number
        for number, cells in enumerate(zip(*table.rows, strict=True))
        if (len(set(cells)) > 1 if several else cells[0])
    ]
    return (telling or [0])[:_COLUMNS_SHOWN]
