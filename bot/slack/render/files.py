"""The answer as files: whole as Markdown, each table as CSV. What a message has no room for is in them."""

import csv
import io
import re
from collections.abc import Sequence

from bot.render.markdown import markdown
from bot.render.words import heading, visible
from bot.report import Report, Table
from bot.slack.message import File
from bot.slack.render.text import inert
from bot.texts import Texts

WHOLE_ANSWER = "answer"

_TITLE = 200
_NAME = 60
_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")
_NUMBER = re.compile(r"-[\d.,]+%?")


def whole_answer(report: Report, say: Texts) -> File:
    """The report as Markdown."""
    return File(f"{WHOLE_ANSWER}.md", markdown(report, say).encode("utf-8"), say("slack.whole"))


def table_file(table: Table, number: int) -> File:
    """The table with all rows, for a spreadsheet; no cell can be taken for a formula there."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerows([_cell(cell) for cell in row] for row in (table.columns, *table.rows))
    name = _NOT_IN_NAMES.sub("-", table.title[:_NAME].lower()).strip("-") or "table"
    title = inert(heading(table.title), _TITLE).strip() or name
    return File(f"{name}-{number}.csv", text.getvalue().encode("utf-8-sig"), title)


def whole_answers(files: Sequence[File]) -> list[File]:
    """Those that hold all of the answer."""
    return [one for one in files if one.name.startswith(f"{WHOLE_ANSWER}.")]


def _cell(text: str) -> str:
    shown = visible(text)
    return f"'{shown}" if shown.startswith(("=", "+", "-", "@")) and not _NUMBER.fullmatch(shown) else shown
