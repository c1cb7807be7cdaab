"""An answer's tables, one in the message and whole ones as CSV files; and the whole answer as a Markdown file."""

import csv
import io
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from bot.render.markdown import markdown
from bot.render.overview import Brief, BriefTable
from bot.render.words import for_people, is_numeric, table_heading, visible
from bot.report import Report, Table
from bot.slack.message import Block, File
from bot.slack.render import blocks
from bot.slack.render.blocks import Room
from bot.slack.render.text import TABLE_COLUMNS, TABLE_ROWS, Part, bullets, inert, line, pieced, rich_text, span
from bot.texts import Text, Texts

_SHARE, _PAGES_SHARE = 2500, 6000
_ROWS_SHOWN, _ITEMS_SHOWN = 15, 10
_COLUMNS_SHOWN = 6
"""How many columns are shown: with more it is no table on a phone."""
_TITLE, _CELL = 100, 200
_BARE = 2
"""How many cells at the start of a row in a list need no heading."""
_EMPTY_TABLES = 5
_FILES = 5
_ANSWERED_BY_TABLES = ("Deployment", "Pods")
"""Kinds of subjects in a namespace that are not one pod: a table tells which pods wait there, and for what."""
_SMALL = 15
"""The most rows of a table that reads well in the whole answer and needs no file of its own."""
WHOLE_ANSWER = "answer"

_FILE_TITLE = 200
_YAML = ".yaml"
_STEM = 60
_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")
_NUMBER = re.compile(r"-[\d.,]+%?")
_FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠")
"""Signs that begin a formula in a spreadsheet; East Asian ones take the wide forms as well."""


class RenderedTables(NamedTuple):
    """A report's tables as blocks. `not_whole` are those worth a spreadsheet; `rows_left` counts rows not shown."""

    blocks: list[Block]
    not_whole: list[Table]
    rows_left: int = 0


def show_tables(report: Report, overview: Brief | None, room: Room, *, newer: bool = False) -> RenderedTables:
    """The report's first table with rows, as blocks; none for an answer about one pod, whose tables are only its proof.
    `newer`: as a table that can be sorted, which has pages and so more rows and all columns.
    """
    if overview is None and report.subject.namespace and report.subject.kind not in _ANSWERED_BY_TABLES:
        room.overflowed = room.overflowed or bool(report.tables)
        return RenderedTables([], [table for table in report.tables if len(table.rows) > _SMALL][:_FILES])
    tables = overview.tables if overview else [BriefTable(table, table, 0) for table in report.tables]
    shown: list[Block] = []
    others = [
        table for table in report.tables if table.rows and not any(brief_table.whole is table for brief_table in tables)
    ]
    not_whole: list[Table] = []
    has_rows, rows_left = False, 0
    for table, whole, left_out, _, listed in tables:
        heading = room.text(table_heading(table), _TITLE).strip()
        title = span(heading or Text("render.empty"), "bold")
        if not table.columns or not table.rows:
            empty = rich_text(line(title, span(pieced("\n{}", Text("words.none")))))
            shown += room.fill([empty], lambda _, block: block, share=_SHARE, most=max(0, _EMPTY_TABLES - len(shown)))
        elif has_rows:
            not_whole.append(whole)
        else:
            most = TABLE_COLUMNS if newer else _COLUMNS_SHOWN
            columns = list(range(len(table.columns)))[:most] if overview else _columns_shown(table)
            told = for_people(table, room.say)
            filled = _filled(told, columns, room, newer=newer, listed=listed)
            has_rows = True
            rows_left = left_out + len(table.rows) - (len(filled) - (not listed) if filled else 0)
            if listed:
                shown += [rich_text(line(title), bullets(*filled))] if filled else []
            elif newer:
                shown += [blocks.data_table(title["text"], filled, _ROWS_SHOWN)] if filled else []
            else:
                cells = [[row[number] for number in columns] for row in told.rows[:TABLE_ROWS]]
                right = [is_numeric(column) for column in zip(*cells, strict=True)]
                shown += [rich_text(line(title)), blocks.table(filled, right)] if filled else []
            if not filled or rows_left or len(columns) < len(whole.columns):
                not_whole.append(whole)
    not_whole += others
    room.overflowed = room.overflowed or bool(not_whole)
    return RenderedTables(shown, not_whole[:_FILES], rows_left)


def _filled(table: Table, shown: Sequence[int], room: Room, *, newer: bool, listed: bool) -> list[Any]:
    """The cells, the heading first, or an item of a list for each row; none without room for a row."""

    def show(_: int, row: Sequence[str]) -> list[blocks.Element]:
        return [blocks.cell(room.text(cell, _CELL)) for cell in row]

    def item(_: int, row: Sequence[str]) -> Part:
        """A row as a list item, `platform · HAMi has no usable registration · pods 2`: two cells need no heading."""
        first, *others = (
            room.text(cell.rstrip(".。") if place < _BARE else f"{heading} {cell}", _CELL)
            for place, (heading, cell) in enumerate(zip(headings, row, strict=True))
            if cell
        )
        return line(span(first, "bold"), *(span(pieced(" · {}", other)) for other in others))

    headings, *rows = ([row[number] for number in shown] for row in (table.columns, *table.rows))
    if listed:
        return room.fill(rows, item, share=_SHARE, most=_ITEMS_SHOWN)
    share, most = (_PAGES_SHARE, TABLE_ROWS) if newer else (_SHARE, _ROWS_SHOWN)
    filled = room.fill([headings, *rows], show, share=share, most=1 + most)
    return filled if len(filled) > 1 else []


def _columns_shown(table: Table) -> list[int]:
    """The columns that tell the rows apart, the first ones if they are many; of a single row those that are filled."""
    several = len(table.rows) > 1
    telling = [
        number
        for number, cells in enumerate(zip(*table.rows, strict=True))
        if (len(set(cells)) > 1 if several else cells[0])
    ]
    return (telling or [0])[:_COLUMNS_SHOWN]


# ---------------------------------------------------------------------------------------------------------------- files


def whole_answer(report: Report, say: Texts) -> File:
    """The report as a Markdown file."""
    return File(f"{WHOLE_ANSWER}.md", markdown(report, say).encode("utf-8"), say("slack.whole"))


def table_files(tables: Sequence[Table], say: Texts) -> list[File]:
    """Each table with all its rows as a CSV file (RFC 4180, UTF-8) without formulas; `yaml_files` has YAML tables."""
    tables = [table for table in tables if not table.title.endswith(_YAML)]
    stems = [_NOT_IN_NAMES.sub("-", table.title[:_STEM].lower()).strip("-") or "table" for table in tables]
    again = Counter[str]()
    files: list[File] = []
    for table, stem in zip(tables, stems, strict=True):
        again[stem] += 1
        name = stem if again[stem] == 1 else f"{stem}-{again[stem]}"
        text = io.StringIO()
        csv.writer(text).writerows(map(_spreadsheet_cell, row) for row in (table.columns, *table.rows))
        title = inert(say.words(table_heading(table)), _FILE_TITLE).strip() or name
        files.append(File(f"{name}.csv", text.getvalue().encode("utf-8-sig"), title))
    return files


def yaml_files(report: Report) -> list[File]:
    """Each table whose rows are the lines of a YAML file, as that file."""
    tables = [table for table in report.tables if table.title.endswith(_YAML) and table.rows]
    return [
        File(table.title, "".join(f"{row[0]}\n" for row in table.rows).encode("utf-8"), table.title) for table in tables
    ]


def whole_answers(files: Sequence[File]) -> list[File]:
    """Those of the files that hold the whole answer."""
    return [file for file in files if file.name.startswith(f"{WHOLE_ANSWER}.")]


def _spreadsheet_cell(text: str) -> str:
    """The cell's text, written so that no spreadsheet takes it for a formula; a negative number stays a number."""
    shown = visible(text)
    return f"'{shown}" if shown.startswith(_FORMULA) and not _NUMBER.fullmatch(shown) else shown
