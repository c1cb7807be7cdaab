"""What is shown while a profile is taken, and how it is cancelled."""

import msgspec

from bot.pprof.quotes import short_name
from bot.report import Report, Table
from bot.slack.message import Message
from bot.slack.render import blocks
from bot.slack.render.text import escape

CANCEL = "profile-cancel"


def taking(text: str, key: str, cancel: str) -> Message:
    """One line and a button; `key` names the capture that it cancels."""
    button = blocks.button(cancel, CANCEL, key)
    return Message(escape(text), (blocks.plain_section(text), blocks.actions(button)))


def with_short_names(report: Report) -> Report:
    """The report with functions as a narrow table can show them; the files have them whole."""
    tables = tuple(_short_table(one) for one in report.tables)
    return msgspec.structs.replace(report, tables=tables)


def _short_table(table: Table) -> Table:
    if table.columns[-1] != "function":
        return table
    rows = tuple((*row[:-1], short_name(row[-1])) for row in table.rows)
    return msgspec.structs.replace(table, rows=rows)
