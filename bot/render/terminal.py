"""A report as a person reads it in a shell at night: the verdict, its proof, what to do; then the rest, gaps last.

One layout serves both modes, colour only paints it. Any text of a report may come from an event, a log line or an
annotation, so every one becomes `visible` on its way to a line. Quotes stand behind a bar and commands never do: a
quote that looks like a command cannot be taken for one.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bot.render.bars import bars
from bot.render.overview_tables import Brief, BriefTable, brief
from bot.render.words import (
    about,
    cells,
    changed,
    is_numeric,
    moment,
    notes,
    seen_at,
    shell_command,
    some_names,
    table_heading,
    visible,
    where,
)
from bot.report import Change, Evidence, Finding, Gap, NextAction, Report, Severity, Table
from bot.texts import Texts

_WIDEST_PROSE = 120
_NARROWEST = 40
_ROWS_SHOWN = 60
_NAMES_SHOWN_OF_CAUSE = 8
_LONGEST_NAME = 40
_COLUMN_GAP = 2
_GAPS_EXPLAINED = 3
_PROBLEMS_SHOWN = 4

# Parameters of ANSI's SGR. The sixteen colours of the reader's own theme: we cannot know what stands out on their
# background.
_HEADING, _LABEL, _COMMAND = "1", "2", "36"
_SEVERITY_STYLES: dict[Severity, str] = {"info": "1;32", "warning": "1;33", "critical": "1;31"}

_MARK = re.compile(r"(?<=[,;/])")
_NOT_AT_LINE_START = frozenset(",.;:!?)]}%，。；：！？）】》」』、…’”\ufe0f")
_NOT_AT_LINE_END = frozenset("（【《「『‘“")


class Line(NamedTuple):
    """One line of output: fixed words of ours, then text; the styles are SGR parameters."""

    lead: str = ""
    text: str = ""
    lead_style: str = ""
    style: str = ""


def terminal(report: Report, say: Texts, *, width: int = 80, colour: bool) -> str:
    """The report as lines of at most `width` cells (40 at least), commands excepted: they are never broken.

    Only tables use more than 120.

    Without colour there is no escape sequence in it, whatever the report holds; with colour only our own.
    """
    wide = max(width, _NARROWEST)
    width = min(wide, _WIDEST_PROSE)
    overview = brief(report, say)
    sections = _overview(report, overview, say, width, wide) if overview else _diagnosis(report, say, width, wide)
    show = _painted if colour else _plain
    return "\n\n".join("\n".join(map(show, section)) for section in sections if section) + "\n"


def _diagnosis(report: Report, say: Texts, width: int, wide: int) -> list[list[Line]]:
    cause, *others = report.findings or (None,)
    return [
        _head(report, cause, say, width),
        _evidence(cause.evidence if cause else (), report.taken_at, say, width),
        _change(report.change, say, width) if report.change else [],
        _next(cause.next_actions if cause else (), say, width),
        _others([finding for finding in others if finding and finding.severity != "info"], say, width),
        _background([finding for finding in others if finding and finding.severity == "info"], say, width),
        _bars(report, say, wide),
        *(_table(table, say, wide) for table in report.tables),
        _gaps(report.gaps, say, width),
    ]


def _overview(report: Report, overview: Brief, say: Texts, width: int, wide: int) -> list[list[Line]]:
    """The verdict, the tables, what no table tells, what to do."""
    seen = say("render.overview", about=about(report, say), moment=seen_at(report, say))
    problems = overview.problems[:_PROBLEMS_SHOWN]
    more = len(overview.problems) - len(problems)
    return [
        [*_verdict(report, say, width), *_prose(seen, width, "  ", style=_LABEL)],
        *(_brief_table(table, say, wide) for table in overview.tables),
        _bars(report, say, wide),
        _problems(problems, more, say, width),
        _next(overview.steps, say, width),
        _gaps(report.gaps, say, width, _GAPS_EXPLAINED),
    ]


# ----------------------------------------------------------------------------------------------------- sections


def _head(report: Report, cause: Finding | None, say: Texts, width: int) -> list[Line]:
    lines = _verdict(report, say, width)
    facts = [("about", about(report, say))]
    if cause is not None:
        if " ".join(cause.claim.split()) != report.verdict:
            facts.append(("detail", cause.claim))
        facts.append(("finding", f"{cause.code}, {say(f'render.{cause.confidence}')}"))
        if cause.scope.nodes:
            facts.append(("nodes", some_names(cause.scope.nodes, say, _NAMES_SHOWN_OF_CAUSE)))
    facts.append(("seen", seen_at(report, say)))
    labels = {key: say(f"render.{key}") for key, _ in facts}
    wide = max(map(cells, labels.values()))
    lines.append(Line())
    for key, text in facts:
        label = labels[key]
        lines += _prose(text, width, f"  {label}{' ' * (wide - cells(label))}  ", lead_style=_LABEL)
    return lines


def _verdict(report: Report, say: Texts, width: int) -> list[Line]:
    lead = say(f"render.{report.severity}").upper() + "  "
    return _prose(report.verdict, width, lead, lead_style=_SEVERITY_STYLES[report.severity], style=_HEADING)


def _evidence(evidence: Sequence[Evidence], taken_at: str, say: Texts, width: int) -> list[Line]:
    lines: list[Line] = []
    for proof in evidence:
        lines.append(Line() if lines else Line(say("render.evidence"), lead_style=_HEADING))
        place = filter(None, (where(proof), moment(proof.at, taken_at, say) if proof.at else ""))
        lines += _prose(", ".join(place), width, "  ", rest="    ", style=_LABEL)
        lines += _prose(proof.quote or say("render.empty"), width, "    | ", rest="    | ", lead_style=_LABEL)
        lines += _command(proof.command, "    ")
    return lines


def _change(change: Change, say: Texts, width: int) -> list[Line]:
    lines = [Line(say("render.change"), lead_style=_HEADING), *_prose(changed(change, say), width, "  ")]
    words = {impact.severity: say(f"render.{impact.severity}") for impact in change.blast_radius}
    wide = max(map(cells, words.values()), default=0)
    for impact in change.blast_radius:
        word = words[impact.severity]
        lead = f"  {word}{' ' * (wide - cells(word))}  "
        lines += _prose(impact.text, width, lead, lead_style=_SEVERITY_STYLES[impact.severity])
    return lines


def _next(actions: Sequence[NextAction], say: Texts, width: int) -> list[Line]:
    lines = [Line(say("render.next"), lead_style=_HEADING)] if actions else []
    for number, action in enumerate(actions, 1):
        lines += _action(action, f"  {number}. ", say, width)
    return lines


def _problems(findings: Sequence[Finding], more: int, say: Texts, width: int) -> list[Line]:
    lines = [Line(say("render.problems"), lead_style=_HEADING)] if findings else []
    for finding in findings:
        lines += _prose(f"{finding.claim} [{notes(finding, say)}]", width, "  - ")
    return [*lines, Line("  ", say("render.more-findings", count=more), style=_LABEL)] if more else lines


def _others(findings: Sequence[Finding], say: Texts, width: int) -> list[Line]:
    lines = [Line(say("render.others"), lead_style=_HEADING)] if findings else []
    words = {finding.severity: say(f"render.{finding.severity}") for finding in findings}
    wide = max(map(cells, words.values()), default=0)
    for finding in findings:
        word = words[finding.severity]
        lead = f"  {word}{' ' * (wide - cells(word))}  "
        lines += _brief(finding, lead, _SEVERITY_STYLES[finding.severity], say, width)
    return lines


def _background(findings: Sequence[Finding], say: Texts, width: int) -> list[Line]:
    lines = [Line(say("render.background"), lead_style=_HEADING)] if findings else []
    for finding in findings:
        lines += _brief(finding, "  - ", "", say, width)
    return lines


def _brief(finding: Finding, lead: str, lead_style: str, say: Texts, width: int) -> list[Line]:
    """The claim with its notes; its actions below."""
    lines = _prose(f"{finding.claim} [{notes(finding, say)}]", width, lead, lead_style=lead_style)
    for action in finding.next_actions:
        lines += _action(action, " " * cells(lead) + "-> ", say, width)
    return lines


def _action(action: NextAction, lead: str, say: Texts, width: int) -> list[Line]:
    label = say("render.changes", label=action.label) if action.changes_cluster else action.label
    return [*_prose(label, width, lead), *_command(shell_command(action), " " * cells(lead))]


def _gaps(gaps: Sequence[Gap], say: Texts, width: int, most: int | None = None) -> list[Line]:
    """Several of one kind, as logs, stand together with the first one's reason; of more than `most` only the names."""
    lines = [Line(say("render.gaps"), lead_style=_HEADING)] if gaps else []
    alike: dict[tuple[str, str], list[Gap]] = defaultdict(list)
    for gap in gaps:
        kind, of, _ = gap.source.removeprefix("previous ").partition(" of ")
        alike[kind if of else gap.source, gap.hint].append(gap)
    named = [
        say("words.and-more", names=some[0].source, more=len(some) - 1) if len(some) > 1 else some[0].source
        for some in alike.values()
    ]
    if most is not None and len(named) > most:
        return [*lines, *_prose(say("render.gaps-named", names=", ".join(named)), width, "  ")]
    for (_, hint), sources, some in zip(alike, named, alike.values(), strict=True):
        lines += _prose(f"{sources}: {some[0].why}", width, "  - ")
        if hint:
            lines += _prose(hint, width, "    -> ")
    return lines


def _bars(report: Report, say: Texts, width: int) -> list[Line]:
    """The cards as bars, where they are the answer."""
    found = bars(report, say)
    if found is None:
        return []
    lines = [Line(say("bars.title"), lead_style=_HEADING)]
    for line in found.lines:
        lines += [Line("  ", text) for text in wrap(line, width - 2)]
    if found.left_out:
        lines.append(Line("  ", say("bars.left-out", count=found.left_out), style=_LABEL))
    return [*lines, *(Line("  ", text, style=_LABEL) for text in wrap(found.legend, width - 2))]


# ------------------------------------------------------------------------------------------------------- tables


def _table(table: Table, say: Texts, width: int) -> list[Line]:
    """Aligned columns whose cells wrap; a paragraph for each row where the columns do not fit side by side.

    What is empty is left out: a whole column, or a cell of a paragraph.
    """
    prose = min(width, _WIDEST_PROSE)
    lines = _prose(table_heading(table, say), prose, "", style=_HEADING)
    if not table.columns or not table.rows:
        return [*lines, Line("  ", say("words.none"))]
    header, *rows = [[visible(cell) for cell in row] for row in (table.columns, *table.rows[:_ROWS_SHOWN])]
    used = [number for number in range(len(header)) if any(row[number] for row in rows)] or [0]
    header, *rows = [[row[number] for number in used] for row in (header, *rows)]
    left = len(table.rows) - len(rows)
    rest = [Line("  ", say("render.more-rows", rows=left), style=_LABEL)] if left else []
    widths = _column_widths([header, *rows], width - 2)
    if widths is None:
        for row in rows:
            cells = [f"{column}: {cell}" for column, cell in zip(header, row, strict=True) if cell]
            lines += _prose("; ".join(cells), prose, "  - ", rest="    ")
        return lines + rest
    right = [is_numeric(column) for column in zip(*rows, strict=True)]
    lines += [Line("  ", text, style=_LABEL) for text in _row(header, widths, right)]
    return lines + [Line("  ", text) for row in rows for text in _row(row, widths, right)] + rest


def _brief_table(brief_table: BriefTable, say: Texts, width: int) -> list[Line]:
    """As many of its columns as fit side by side, from the first on; a paragraph for each row where too few fit."""
    table = brief_table.shown
    fewest = min(brief_table.together, len(table.columns))
    while _column_widths([table.columns, *table.rows[:_ROWS_SHOWN]], width - 2) is None:
        if len(table.columns) <= fewest:
            table = brief_table.shown
            break
        table = Table(table.title, table.columns[:-1], tuple(row[:-1] for row in table.rows))
    lines = _table(table, say, width)
    if missing := brief_table.shown.columns[len(table.columns) :]:
        text = say("render.all-columns", columns=", ".join(missing))
        lines += _prose(text, min(width, _WIDEST_PROSE), "  ", style=_LABEL)
    if brief_table.left_out:
        lines.append(Line("  ", say("render.all-rows", rows=brief_table.left_out), style=_LABEL))
    return lines


def _column_widths(rows: Sequence[Sequence[str]], room: int) -> list[int] | None:
    """The widest columns give way until all fit; None where that would break words, which are names to copy."""
    columns = list(zip(*rows, strict=True))
    widths = [max(map(cells, column)) for column in columns]
    words = [min(max(map(_longest_word, column)), _LONGEST_NAME) for column in columns]
    room -= _COLUMN_GAP * (len(columns) - 1)
    if sum(words) > room:
        return None
    widths = [min(wide, room) for wide in widths]
    while sum(widths) > room:
        widest = max((at for at in range(len(widths)) if widths[at] > words[at]), key=widths.__getitem__)
        widths[widest] -= 1
    return widths


def _longest_word(text: str) -> int:
    return max((cells(unit.rstrip(" ")) for unit in _units(text, len(text) * 2)), default=0)


def _row(row: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> Iterator[str]:
    """The lines of one row."""
    columns = [wrap(cell, wide) for cell, wide in zip(row, widths, strict=True)]
    for number in range(max(map(len, columns))):
        shown = [column[number] if number < len(column) else "" for column in columns]
        padded = (
            " " * (wide - cells(text)) + text if numeric else text + " " * (wide - cells(text))
            for text, wide, numeric in zip(shown, widths, right, strict=True)
        )
        yield (" " * _COLUMN_GAP).join(padded).rstrip(" ")


# -------------------------------------------------------------------------------------------------------- lines


def _prose(text: str, width: int, lead: str, *, rest: str = "", lead_style: str = "", style: str = "") -> list[Line]:
    """Text behind its lead, wrapped; further lines begin with `rest`, or are indented to where the text began."""
    rest = rest or " " * cells(lead)
    first, *others = wrap(visible(text), width - cells(lead), width - cells(rest))
    return [Line(lead, first, lead_style, style), *(Line(rest, other, lead_style, style) for other in others)]


def _command(command: str, lead: str) -> list[Line]:
    return [Line(lead, visible(command), style=_COMMAND)] if command else []


def _plain(line: Line) -> str:
    return (line.lead + line.text).rstrip(" ")


def _painted(line: Line) -> str:
    parts = ((line.lead, line.lead_style), (line.text, line.style))
    return "".join(f"\x1b[{style}m{text}\x1b[0m" if style and text else text for text, style in parts)


# --------------------------------------------------------------------------------------------------------- text


def wrap(text: str, room: int, later: int | None = None) -> list[str]:
    """Visible text as one line or more: the first of at most `room` cells, further ones of at most `later` (or `room`).

    Broken at spaces and between wide characters; inside a word only where it alone is longer than a line. A line has
    room for one wide character at least.
    """
    later = later or room
    lines, line = list[str](), ""
    for unit in _units(text, later):
        if line.strip(" ") and cells((line + unit).rstrip(" ")) > room:
            lines.append(line.rstrip(" "))
            line, room = "", later
        line += unit
        while cells(line.rstrip(" ")) > room:
            edge = _edge(line, room)
            lines.append(line[:edge])
            line, room = line[edge:], later
    return [*lines, line.rstrip(" ")] if line.strip(" ") or not lines else lines


def _units(text: str, room: int) -> Iterator[str]:
    """The pieces that stay together, each with the spaces after it; a word too long for a line is a piece per comma."""
    start = 0
    for at in range(1, len(text) + 1):
        if at == len(text) or _may_break(text[at - 1], text[at]):
            unit = text[start:at]
            yield from [unit] if cells(unit) <= room else _MARK.split(unit)
            start = at


def _may_break(before: str, after: str) -> bool:
    if after == " " or before == " ":
        return after != " "
    if before in _NOT_AT_LINE_END or after in _NOT_AT_LINE_START or not cells(after):
        return False
    return 2 in (cells(before), cells(after))


def _edge(word: str, room: int) -> int:
    """How many characters of a word that is wider than `room` cells fit into them."""
    edge = used = 0
    while (used := used + cells(word[edge])) <= room:
        edge += 1
    return edge
