"""The answer as files: whole as Markdown, each table as CSV. What a message has no room for is in them."""

import csv
import io
import re
from collections import Counter
from collections.abc import Sequence

from bot.render.markdown import markdown
from bot.render.words import table_heading, visible
from bot.report import Report, Table
from bot.slack.message import File
from bot.slack.render.text import inert
from bot.texts import Texts

WHOLE_ANSWER = "answer"

_TITLE = 200
_YAML = ".yaml"
_NAME = 60
_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")
_NUMBER = re.compile(r"-[\d.,]+%?")
_FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠")
"""East Asian spreadsheets take the wide forms as well."""


def whole_answer(report: Report, say: Texts) -> File:
    """The report as Markdown."""
    return File(f"{WHOLE_ANSWER}.md", markdown(report, say).encode("utf-8"), say("slack.whole"))


def table_files(tables: Sequence[Table], say: Texts) -> list[File]:
    """Each table with all its rows, for a spreadsheet (RFC 4180, UTF-8); no cell can be taken for a formula there.

    Tables that are a YAML file are left out: see `yaml_files`.
    """
    tables = [table for table in tables if not table.title.endswith(_YAML)]
    stems = [_NOT_IN_NAMES.sub("-", table.title[:_NAME].lower()).strip("-") or "table" for table in tables]
    again = Counter[str]()
    files: list[File] = []
    for table, stem in zip(tables, stems, strict=True):
        again[stem] += 1
        name = stem if again[stem] == 1 else f"{stem}-{again[stem]}"
        text = io.StringIO()
        csv.writer(text).writerows([_cell(cell) for cell in row] for row in (table.columns, *table.rows))
        title = inert(say.words(table_heading(table)), _TITLE).strip() or name
        files.append(File(f"{name}.csv", text.getvalue().encode("utf-8-sig"), title))
    return files


def yaml_files(report: Report) -> list[File]:
    """Each table that is the lines of a YAML file, as that file."""
    tables = [table for table in report.tables if table.title.endswith(_YAML) and table.rows]
    return [
        File(table.title, "".join(f"{row[0]}\n" for row in table.rows).encode("utf-8"), table.title) for table in tables
    ]


def whole_answers(files: Sequence[File]) -> list[File]:
    """Those that hold all of the answer."""
    return [file for file in files if file.name.startswith(f"{WHOLE_ANSWER}.")]


def _cell(text: str) -> str:
    """A tab or a line's end never begins one: what acts is written out. A negative number stays a number."""
    shown = visible(text)
    return f"'{shown}" if shown.startswith(_FORMULA) and not _NUMBER.fullmatch(shown) else shown
