"""How the tables of a report are read."""

from bot.report import Report


def table(report: Report, title: str) -> list[dict[str, str]]:
    found = next(one for one in report.tables if one.title == title)
    return [dict(zip(found.columns, row, strict=True)) for row in found.rows]
