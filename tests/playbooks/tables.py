"""How the tables and the findings of a report are read."""

from bot.report import Finding, Report


def table(report: Report, title: str) -> list[dict[str, str]]:
    """The rows of the tables with this title; none where the report has no such table."""
    found = [table for table in report.tables if table.title == title]
    return [dict(zip(table.columns, row, strict=True)) for table in found for row in table.rows]


def only(report: Report, code: str) -> Finding:
    """The finding of this code, of which there is one."""
    (found,) = [finding for finding in report.findings if finding.code == code]
    return found
