"""How the tables of a report are read."""

from bot.report import Report


def table(report: Report, title: str) -> list[dict[str, str]]:
    found = next(table for table in report.tables if table.title == title)
    return [dict(zip(found.columns, row, strict=True)) for row in found.rows]
