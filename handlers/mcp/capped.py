"""A report that fits into a client's context: what is left out is said as a gap."""

from collections.abc import Iterator

from msgspec.structs import replace

from bot.report import Finding, Report, Table, as_json, gap, in_words
from bot.texts import Text, Texts, clauses

MOST_BYTES = 96 * 1024
"""Of a report's JSON. Clients give an answer some 25,000 tokens, of about four bytes each."""


def capped(report: Report, say: Texts, most: int = MOST_BYTES) -> Report:
    """The report itself if its JSON has at most so many bytes.

    Else a gap more says what was left out: the last rows of each table, then quotes, then
    the last findings and gaps.
    """
    if _size(report) <= most:
        return report
    cut = report
    for smaller in _smaller(report):
        left_out = gap(say("mcp.answer"), _left_out(report, smaller, most), Text("mcp.cut-hint", verb=report.playbook))
        cut = in_words(replace(smaller, gaps=(*smaller.gaps, left_out)), say)
        if _size(cut) <= most:
            break
    return cut


def _smaller(report: Report) -> Iterator[Report]:
    longest = max((len(table.rows) for table in report.tables), default=0)
    left = report
    while longest:
        longest //= 2
        left = replace(report, tables=tuple(_first_rows(table, longest) for table in report.tables))
        yield left
    left = replace(left, findings=tuple(map(_one_quote, left.findings)))
    yield left
    for count in range(len(left.findings) - 1, 0, -1):
        yield replace(left, findings=left.findings[:count], gaps=left.gaps[:count])


def _first_rows(table: Table, count: int) -> Table:
    return replace(table, rows=tuple(table.rows[:count]))


def _one_quote(finding: Finding) -> Finding:
    return replace(finding, evidence=finding.evidence[:1])


def _left_out(whole: Report, left: Report, most: int) -> Text:
    pairs = (
        (len(before.rows), len(after.rows), before.title)
        for before, after in zip(whole.tables, left.tables, strict=True)
    )
    parts = [Text("mcp.rows", kept=kept, count=count, table=table) for count, kept, table in pairs if kept < count]
    quotes, kept = (sum(len(finding.evidence) for finding in report.findings) for report in (whole, left))
    parts += [Text("mcp.quotes", kept=kept, count=quotes)] if kept < quotes else []
    count, kept = len(whole.findings), len(left.findings)
    parts += [Text("mcp.findings", kept=kept, count=count)] if kept < count else []
    count, kept = len(whole.gaps), len(left.gaps)
    parts += [Text("mcp.gaps", kept=kept, count=count)] if kept < count else []
    return Text("mcp.cut", size=most // 1024, parts=clauses(parts))


def _size(report: Report) -> int:
    return len(as_json(report).encode())
