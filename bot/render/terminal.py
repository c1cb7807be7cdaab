"""Shows a report in a shell: the verdict, what to do, its evidence; then the rest, gaps last.

At a glance it is a page of `_TALLEST` lines; whole it is all that the report holds. Colour only paints the same layout.
Any text may come from an event, a log line or an annotation, so all text becomes `visible` on its way to a line. Quotes
stand behind a bar and commands never do, so no quote can be taken for a command.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec import structs

from bot.render.layout import parted, row_lines, side_by_side, wrap
from bot.render.overview import Brief, GpusByNode, as_shown, bars, brief, gpus_by_node, most_room
from bot.render.words import (
    CONFIDENCES,
    SEVERITIES,
    about,
    around,
    cells,
    changed,
    doubted,
    for_people,
    instant,
    is_numeric,
    moment,
    notes,
    quoted,
    seen_at,
    shell_command,
    step_label,
    table_heading,
    telling,
    timed,
    visible,
    where,
    words_told,
)
from bot.report import SEVERITIES as RANKS
from bot.report import Change, Evidence, Finding, Gap, NextAction, Report, Severity, Table
from bot.texts import Prose, Text, Texts, longest, named, some_names, together

_WIDEST_PROSE = 120
_NARROWEST = 40
_ROWS_SHOWN = 60
_NAMES_SHOWN_OF_CAUSE = 8
_FEWEST_ROWS = 4
_PROBLEMS_SHOWN = 4
_TALLEST = 25
"""The most lines of a diagnosis at a glance, on 100 columns: it stays on the screen with the prompt that follows."""
_OVERVIEW_LINES: Mapping[str, int] = {"pending": 45, "nodes": 35, "gpus": 60, "status": 45, "digest": 45, "quota": 35}
"""The most lines of an overview, by verb, on 110 columns; for any other verb the largest number."""

# Parameters of ANSI's SGR. The sixteen colours of the reader's own theme: we cannot know what stands out on their
# background.
_HEADING, _LABEL, _COMMAND = "1", "2", "36"
_SEVERITY_STYLES: dict[Severity, str] = {"info": "1;32", "warning": "1;33", "critical": "1;31"}


class _Line(NamedTuple):
    """One line of output: the bot's own words, then text; the styles are parameters of ANSI's SGR."""

    lead: str = ""
    text: str = ""
    lead_style: str = ""
    style: str = ""


_ROOMS = (
    *((3, 2, 3, 3, 2), (3, 2, 3, 2, 2), (3, 2, 3, 1, 2), (3, 2, 2, 1, 2), (3, 2, 3, 1, 1), (3, 2, 2, 1, 1)),
    *((3, 2, 1, 2, 1), (3, 2, 1, 1, 1), (3, 2, 1, 0, 1), (2, 2, 1, 1, 1), (2, 1, 1, 1, 1), (1, 1, 1, 1, 1)),
)
"""How much of a diagnosis is shown: steps, quotes, lines of a quote, other findings, and lines of one. The first that
fits is taken.
"""


def terminal(report: Report, say: Texts, *, width: int = 80, colour: bool, whole: bool = True) -> str:
    """The report as lines of at most `width` cells (40 at least); commands are never broken, and only tables exceed
    120.

    Without `whole`, a diagnosis has what a person acts on: two quotes, next actions, a line for each other finding.
    With `colour` the only escape sequences are our own, whatever the report holds.
    """
    wide = max(width, _NARROWEST)
    page = _TerminalPage(say, min(wide, _WIDEST_PROSE), wide, report.taken_at)
    overview = brief(report, say)
    if overview:
        sections = page.overview(report, overview)
    else:
        sections = page.whole(report) if whole else page.at_a_glance(report)

    def show(line: _Line) -> str:
        if not colour:
            return (line.lead + line.text).rstrip(" ")
        parts = ((line.lead, line.lead_style), (line.text, line.style))
        return "".join(f"\x1b[{style}m{text}\x1b[0m" if style and text else text for text, style in parts)

    return "\n\n".join("\n".join(map(show, section)) for section in sections if section) + "\n"


class _TerminalPage(NamedTuple):
    say: Texts
    width: int
    wide: int
    taken_at: str

    def whole(self, report: Report) -> list[list[_Line]]:
        cause, *others = report.findings or (None,)
        return [
            self._head(report, cause),
            self._change(report.change) if report.change else [],
            self._next(cause.next_actions if cause else ()),
            self._evidence(cause.evidence if cause else ()),
            self._others(others, Text("render.others"), background=False),
            self._others(others, Text("render.background"), background=True),
            self._bars(gpus_by_node(report)),
            *(self._table(table) for table in report.tables),
            self._gaps(report.gaps),
        ]

    def at_a_glance(self, report: Report) -> list[list[_Line]]:
        """The verdict, what to do, two quotes, a line for each other finding, and what could not be read."""
        sections, used = list[list[_Line]](), 0
        cause, *others = report.findings or (None,)
        seen = Text("render.glance", about=about(report), moment=seen_at(report))
        steps = cause.next_actions if cause else ()
        for most_steps, quotes, lines, most_others, lines_each in _ROOMS:
            left = len(steps) - most_steps
            shown = (
                [*self._verdict(report, cause, whole=False), *self._prose(seen, "  ", style=_LABEL)],
                self._change(report.change) if report.change else [],
                [*self._next(steps[:most_steps]), *self._more(left, Text("render.more-steps", count=left))],
                self._evidence(telling(cause.evidence)[:quotes], lines, words_told(cause)) if cause else [],
                self._also([finding for finding in others if finding], most_others, lines_each),
                self._not_read(report.gaps),
            )
            sections = [section for section in shown if section]
            if (used := sum(map(len, sections)) + len(sections)) <= _TALLEST + 1:
                break
        *told, unread = sections if report.gaps else (*sections, [])
        for table in report.tables:
            told.append(self._table_within(table, _TALLEST - used))
            used += len(told[-1]) + 1
        return [*told, unread]

    def overview(self, report: Report, overview: Brief) -> list[list[_Line]]:
        """The verdict, the tables, what no table tells, what to do; of each table as many rows as fit the screen."""
        most = _OVERVIEW_LINES.get(report.playbook, max(_OVERVIEW_LINES.values()))
        sections, by_node = list[list[_Line]](), gpus_by_node(report)
        roomy = most_room(by_node, _ROWS_SHOWN)
        seen = Text("render.overview", about=about(report), moment=seen_at(report))
        good_news = report.verdict_severity != report.severity
        problems = self._problems(overview.findings, loud=good_news)
        whole = structs.replace(report, verdict=self.say.words(longest(report.text) or report.verdict))
        head = self._verdict(whole, next(iter(report.findings), None), whole=False)
        head += [*(problems if good_news else []), *self._prose(seen, "  ", style=_LABEL)]
        rest = [] if good_news else problems, self._next(overview.steps), self._not_read(report.gaps)
        for rows in range(_ROWS_SHOWN, _FEWEST_ROWS - 1, -1):
            parts = (self._part(table.shown, rows, table.left_out, table.together) for table in overview.tables)
            shown = (head, *parts, self._bars(roomy, rows, len(by_node)), *rest)
            sections = [section for section in shown if section]
            if sum(map(len, sections)) + len(sections) <= most + 1:
                break
        return sections

    # ------------------------------------------------------------------------------------------------- sections

    def _head(self, report: Report, cause: Finding | None) -> list[_Line]:
        facts: list[tuple[Text, Prose]] = [(Text("render.about"), about(report))]
        if cause is not None:
            facts.append((Text("render.finding"), together(cause.code, CONFIDENCES[cause.confidence], by=", ")))
            if cause.scope.nodes:
                facts.append((Text("render.nodes"), some_names(cause.scope.nodes, _NAMES_SHOWN_OF_CAUSE)))
        facts.append((Text("render.seen"), seen_at(report)))
        leads = self._leads([label for label, _ in facts])
        lines = [*self._verdict(report, cause), _Line()]
        for lead, (_, text) in zip(leads, facts, strict=True):
            lines += self._prose(text, lead, lead_style=_LABEL)
        return lines

    def _verdict(self, report: Report, cause: Finding | None, *, whole: bool = True) -> list[_Line]:
        """The verdict, and with `whole` the cause's claim below it, where that is another sentence."""
        severity = report.verdict_severity
        lead = self._severity(severity)
        verdict = report.told_by.claim if report.told_by else report.verdict
        lines = self._prose(doubted(verdict, report), lead, lead_style=_SEVERITY_STYLES[severity], style=_HEADING)
        if whole and cause is not None and cause is not report.told_by:
            lines += self._prose(cause.claim, " " * cells(lead))
        return lines

    def _also(self, findings: Sequence[Finding], most: int, lines_each: int) -> list[_Line]:
        findings = sorted(findings, key=lambda finding: -RANKS.index(finding.severity))
        lines = self._title(Text("render.also")) if findings[:most] else []
        for finding in findings[:most]:
            lines += self._cut(self._prose(finding.claim, "  - ", rest="    "), lines_each)
        left = len(findings) - most
        return [*lines, *self._more(left, Text("render.more-findings", count=left))]

    def _more(self, count: int, text: Text) -> list[_Line]:
        return [_Line("  ", self.say.words(text), style=_LABEL)] if count > 0 else []

    def _cut(self, lines: list[_Line], most: int) -> list[_Line]:
        if len(lines) <= most:
            return lines
        *kept, last = lines[:most]
        text = last.text
        while cells(last.lead + text) >= self.width:
            text = text[:-1]
        return [*kept, last._replace(text=text.rstrip(" ,;:") + "…")]

    def _evidence(self, evidence: Sequence[Evidence], most: int | None = None, told: Iterable[str] = ()) -> list[_Line]:
        """Each quote with its place: in at most so many lines, cut around the words `told`; else whole and with the
        command that shows it again.
        """
        lines = self._title(Text("render.evidence")) if evidence else []
        for number, proof in enumerate(evidence):
            place = together(where(proof), moment(proof.at, self.taken_at) if proof.at else "", by=", ")
            placed = self._prose(place, "  ", rest="    ", style=_LABEL, verbatim=True)
            quote = self._quote(proof)
            if most is None:
                lines += [*([_Line()] if number else []), *placed, *quote, *_command(proof.command, "    ")]
                continue
            room = most * self.width
            while len(quote) > most and room > self.width // 2:
                room -= self.width // 8
                quote = self._quote(structs.replace(proof, quote=around(proof.quote, room, told)))
            lines += [*self._cut(placed, 1), *self._cut(quote, most)]
        return lines

    def _quote(self, proof: Evidence) -> list[_Line]:
        return self._prose(quoted(proof), "    | ", rest="    | ", lead_style=_LABEL, verbatim=True)

    def _change(self, change: Change) -> list[_Line]:
        lines = [*self._title(Text("render.change")), *self._prose(changed(change), "  ")]
        leads = self._leads([SEVERITIES[impact.severity] for impact in change.blast_radius])
        for lead, impact in zip(leads, change.blast_radius, strict=True):
            lines += self._prose(impact.text, lead, lead_style=_SEVERITY_STYLES[impact.severity])
        return lines

    def _next(self, actions: Sequence[NextAction]) -> list[_Line]:
        lines = self._title(Text("render.next")) if actions else []
        for number, action in enumerate(as_shown(actions, self.say), 1):
            lines += self._action(action, f"  {number}. ")
        return lines

    def _severity(self, severity: Severity) -> str:
        return self.say.words(SEVERITIES[severity]).upper() + "  "

    def _problems(self, findings: Sequence[Finding], *, loud: bool) -> list[_Line]:
        """A line for each finding; `loud` ones stand below the verdict, in the colour of their severity."""
        lines = self._title(Text("render.problems")) if findings and not loud else []
        more = len(findings) - _PROBLEMS_SHOWN
        for finding in findings[:_PROBLEMS_SHOWN]:
            lead = self._severity(finding.severity) if loud else "  - "
            lines += self._prose(_noted(finding), lead, lead_style=_SEVERITY_STYLES[finding.severity] if loud else "")
        return [*lines, *self._more(more, Text("render.more-findings", count=more))]

    def _others(self, others: Sequence[Finding | None], title: Text, *, background: bool) -> list[_Line]:
        findings = [finding for finding in others if finding and (finding.severity == "info") == background]
        lines = self._title(title) if findings else []
        leads = self._leads([SEVERITIES[finding.severity] for finding in findings])
        for severity, finding in zip(leads, findings, strict=True):
            lead, style = ("  - ", "") if background else (severity, _SEVERITY_STYLES[finding.severity])
            lines += self._prose(_noted(finding), lead, lead_style=style)
            for action in finding.next_actions:
                lines += self._action(action, " " * cells(lead) + "-> ")
        return lines

    def _action(self, action: NextAction, lead: str) -> list[_Line]:
        command = shell_command(action)
        return [
            *self._prose(step_label(action, action.label, shown=bool(command)), lead),
            *_command(command, " " * cells(lead)),
        ]

    def _not_read(self, gaps: Sequence[Gap]) -> list[_Line]:
        sources = list(dict.fromkeys(self.say.name(gap.source, "sources") for gap in gaps))
        unread = Text("render.not-read", names=some_names(sources, _PROBLEMS_SHOWN))
        lines = self._prose(unread, "  ", style=_LABEL) if sources else []
        if len(lines) < 2:
            return lines
        kinds = Counter(source.partition(" of ")[0] for source in dict.fromkeys(gap.source for gap in gaps))
        counted = [
            self.say.name(kind, "sources") + (f" ({count})" if count > 1 else "") for kind, count in kinds.items()
        ]
        unread = Text("render.kinds-not-read", kinds=some_names(counted, _PROBLEMS_SHOWN))
        return self._cut(self._prose(unread, "  ", style=_LABEL), 1)

    def _gaps(self, gaps: Sequence[Gap]) -> list[_Line]:
        """Gaps of one kind, such as logs, stand together with the first one's reason."""
        lines = self._title(Text("render.gaps")) if gaps else []
        alike: dict[tuple[str, str], list[Gap]] = defaultdict(list)
        for gap in gaps:
            kind, of, _ = gap.source.removeprefix("previous ").partition(" of ")
            alike[kind if of else gap.source, gap.hint].append(gap)
        for (_, hint), some in alike.items():
            first = named(some[0].source, "sources")
            sources = Text("words.and-more", names=first, more=len(some) - 1) if len(some) > 1 else first
            lines += self._prose(together(sources, some[0].why, by=": "), "  - ")
            if hint:
                lines += self._prose(hint, "    -> ")
        return lines

    def _bars(self, by_node: GpusByNode, most: int = _ROWS_SHOWN, of: int | None = None) -> list[_Line]:
        """The GPUs as bars, in at most `most` lines, where they are the answer."""
        found = bars(by_node, most, of)
        if found is None:
            return []
        lines = self._title(Text("bars.title"))
        for line in found.lines:
            lines += [_Line("  ", text) for text in wrap(self.say.words(line), self.wide - 2)]
        lines += self._more(found.left_out, Text("picture.left-out", count=found.left_out))
        legend = wrap(self.say("bars.legend"), self.wide - 2)
        return [*lines, *(_Line("  ", text, style=_LABEL) for text in legend)]

    # --------------------------------------------------------------------------------------------------- tables

    def _table(self, table: Table, fewest: int | None = None) -> list[_Line]:
        """Aligned columns whose cells wrap; empty columns are left out.

        If they do not fit side by side, the last columns go, down to `fewest`; then names are shortened in the middle,
        then more columns go. What went is named below. None: the other columns stand in a part below.
        """
        lines = self._prose(table_heading(table), "", style=_HEADING)
        if not table.columns or not table.rows:
            return [*lines, _Line("  ", self.say("words.none"))]
        shown = for_people(Table(table.title, table.columns, table.rows[:_ROWS_SHOWN]), self.say)
        rows = [
            [visible(timed(cell, self.taken_at) if instant(cell) else cell) for cell in row]
            for row in (shown.columns, *shown.rows)
        ]
        used = [number for number, column in enumerate(zip(*rows[1:], strict=True)) if any(column)] or [0]
        rows = [[row[number] for number in used] for row in rows]
        left = len(table.rows) - len(rows) + 1
        parts = parted(rows, self.wide - 2) if fewest is None else [side_by_side(rows, self.wide - 2, fewest)]
        for number, ((header, *body), widths) in enumerate(parts):
            right = [is_numeric(column) for column in zip(*body, strict=True)]
            lines += [_Line()] if number else []
            lines += [_Line("  ", text, style=_LABEL) for text in row_lines(header, widths, right)]
            lines += [_Line("  ", text) for row in body for text in row_lines(row, widths, right)]
        whole, first = {cell for row in rows for cell in row}, parts[0][0][0]
        if fewest is not None and (missing := rows[0][len(first) :]):
            lines += self._prose(Text("render.all-columns", columns=missing), "  ", style=_LABEL)
        elif any(not whole.issuperset(row) for some, _ in parts for row in some):
            lines += self._prose(Text("render.names-cut"), "  ", style=_LABEL)
        return [*lines, *self._more(left, Text("render.more-rows", rows=left))]

    def _table_within(self, table: Table, room: int) -> list[_Line]:
        for count in range(min(len(table.rows), room), 0, -1):
            if len(lines := self._part(table, count)) <= room:
                return lines
        return []

    def _part(self, table: Table, most: int, left_out: int = 0, fewest: int | None = None) -> list[_Line]:
        """`most` rows of the table, and how many more there are: `left_out` of them are not in the table."""
        left = left_out + max(len(table.rows) - most, 0)
        part = self._table(Table(table.title, table.columns, table.rows[:most]), fewest)
        return [*part, *self._more(left, Text("render.all-rows", rows=left))]

    # ---------------------------------------------------------------------------------------------------- words

    def _title(self, title: Text) -> list[_Line]:
        return [_Line(self.say.words(title), lead_style=_HEADING)]

    def _leads(self, labels: Sequence[Text]) -> list[str]:
        words = [self.say.words(label) for label in labels]
        wide = max(map(cells, words), default=0)
        return [f"  {word}{' ' * (wide - cells(word))}  " for word in words]

    def _prose(
        self, prose: Prose, lead: str, *, rest: str = "", lead_style: str = "", style: str = "", verbatim: bool = False
    ) -> list[_Line]:
        """Words behind their lead, wrapped; further lines begin with `rest`, or are indented to where they began."""
        rest = rest or " " * cells(lead)
        text = visible(self.say.words(prose))
        text = text if verbatim else timed(text, self.taken_at)
        first, *others = wrap(text, self.width - cells(lead), self.width - cells(rest))
        return [_Line(lead, first, lead_style, style), *(_Line(rest, other, lead_style, style) for other in others)]


def _noted(finding: Finding) -> Text:
    return together(finding.claim, together("[", notes(finding), "]"), by=" ")


# -------------------------------------------------------------------------------------------------------- lines


def _command(command: str, lead: str) -> list[_Line]:
    return [_Line(lead, visible(command), style=_COMMAND)] if command else []
