"""What is shown while a profile is taken, and how it is cancelled."""

import msgspec

from bot.pprof.findings import short_name, top_table
from bot.pprof.top import TopRow
from bot.report import Report
from bot.slack.render import blocks
from bot.slack.render.text import escape
from bot.texts import Text

CANCEL = "profile-cancel"


def taking(text: Text, key: str) -> blocks.Draft:
    """One line and a button; `key` names the capture that it cancels."""
    button = blocks.button(Text("profile.cancel"), CANCEL, key)
    return blocks.Draft(escape(text), (blocks.plain_section(text), blocks.actions(button)))


def with_short_names(report: Report) -> Report:
    """The report with functions as a narrow table can show them; the files have them whole."""
    rows = [row._replace(function=short_name(row.function)) for row in report.typed(TopRow)]
    if not rows:
        return report
    first, *others = report.tables
    return msgspec.structs.replace(report, tables=(top_table(first.title, rows), *others))
