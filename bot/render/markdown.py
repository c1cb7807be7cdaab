"""Writes a report in GitHub's Markdown to paste into an issue; it reads well as plain text too.

Backslashes do not stop what GitHub finds in the finished page (mentions, issue numbers, bare links), but code does:
each word that could mean something to Markdown is written as code.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec import UNSET

from bot.render.overview import steps_shown
from bot.render.words import (
    CONFIDENCES,
    SEVERITIES,
    changed,
    for_people,
    quoted,
    seen_at,
    shell_command,
    step_label,
    subject_name,
    table_heading,
    visible,
    where,
)
from bot.report import Change, Evidence, Finding, Gap, NextAction, Report, Table
from bot.texts import Prose, Text, Texts, named, some_names, together

_NAMES_SHOWN = 8
_SHORT_QUOTE = 80

# Markup (also math and emoji names), mentions and mail addresses, references to issues and commits, links.
_MEANS_SOMETHING = re.compile(
    r"[\\`*_~<>\[\]&#@|$]|://|www\.|(?<!\d):[\w+-]+:|\bGH-\d|\b(?=\d*[a-f])[0-9a-f]{7,40}\b", re.IGNORECASE
)
_STARTS_A_BLOCK = re.compile(r"[-+=]+|\d+[.)]")
_BACKTICKS = re.compile("`+")


def markdown(report: Report, say: Texts) -> str:
    """The report as Markdown under a heading; nothing in it can ping, link, or break out of a quotation."""
    return "\n\n".join("\n".join(section) for section in _MarkdownPage(say).sections(report)) + "\n"


class _MarkdownPage(NamedTuple):
    say: Texts

    def sections(self, report: Report) -> list[Sequence[str]]:
        actions = steps_shown(report)
        cluster = Text("render.in-cluster", cluster=report.cluster) if report.cluster else ""
        seen = report.taken_at if report.cache_age_s is UNSET else seen_at(report)
        return [
            [f"## {_inert(subject_name(report))}: {_inert(report.verdict)}"],
            [self._inert(together(report.playbook, cluster, seen, by=", "))],
            *self._section(Text("render.findings"), list(self._findings(report.findings))),
            *self._section(Text("render.change"), list(self._change(report.change)) if report.change else []),
            *self._section(Text("render.next"), [line for action in actions for line in self._action(action)]),
            *(part for table in report.tables for part in self._section(table_heading(table), self._table(table))),
            *self._section(Text("render.gaps"), [line for gap in report.gaps for line in self._gap(gap)]),
        ]

    def _section(self, title: Prose, lines: Sequence[str]) -> list[Sequence[str]]:
        return [[f"### {self._inert(title)}"], lines] if lines else []

    def _findings(self, findings: Sequence[Finding]) -> Iterator[str]:
        """Each claim with its evidence; evidence of several claims is quoted once."""
        quoted = set[Evidence]()
        for finding in findings:
            words = self.say.words(together(SEVERITIES[finding.severity], CONFIDENCES[finding.confidence], by=", "))
            yield f"- {_code(finding.code)} ({words}): {_inert(finding.claim)}"
            if finding.scope.nodes:
                yield f"  {self.say('render.nodes')}: {self._inert(some_names(finding.scope.nodes, _NAMES_SHOWN))}"
            for evidence in finding.evidence:
                yield from self._evidence(evidence, again=evidence in quoted)
            quoted.update(finding.evidence)

    def _evidence(self, evidence: Evidence, *, again: bool) -> Iterator[str]:
        words = quoted(evidence)
        quote = _code(words) if isinstance(words, str) else self.say.words(words)
        if again and len(evidence.quote) > _SHORT_QUOTE:
            quote = self.say("render.above")
        yield f"  - {self._inert(together(where(evidence), evidence.at or '', by=', '))}: {quote}"
        if evidence.command and not again:
            yield f"    {self.say('render.again')}: {_code(evidence.command)}"

    def _change(self, change: Change) -> Iterator[str]:
        yield f"- {self._inert(changed(change))}"
        for impact in change.blast_radius:
            yield f"- {_code(impact.code)} ({self.say.words(SEVERITIES[impact.severity])}): {_inert(impact.text)}"

    def _action(self, action: NextAction) -> Iterator[str]:
        command = visible(shell_command(action))
        yield f"- {self.say.words(step_label(action, _inert(action.label), shown=bool(command)))}"
        if command:
            fence = "`" * max(3, _longest_run(command) + 1)
            yield from (f"  {fence}sh", f"  {command}", f"  {fence}")

    def _gap(self, gap: Gap) -> Iterator[str]:
        yield f"- {self._inert(named(gap.source, 'sources'))}: {_inert(gap.why)}"
        if hint := _inert(gap.hint):
            yield f"  - {hint}"

    def _table(self, table: Table) -> list[str]:
        if not table.columns or not table.rows:
            return [self.say("words.none")]
        table = for_people(table, self.say)
        header, *rows = ([_cell(cell) for cell in row] for row in (table.columns, *table.rows))
        return [f"| {' | '.join(row)} |" for row in (header, ["---"] * len(header), *rows)]

    def _inert(self, prose: Prose) -> str:
        return _inert(self.say.words(prose))


def _inert(text: str) -> str:
    """The text on one line, each word that means something to Markdown or GitHub as code."""
    words = visible(text).split()
    return " ".join(
        _word(word) if _MEANS_SOMETHING.search(word) or (not at and _STARTS_A_BLOCK.fullmatch(word)) else word
        for at, word in enumerate(words)
    )


def _word(text: str) -> str:
    """The word as code, without the punctuation that ends it."""
    bare = text.rstrip(".,;") or text
    return _code(bare) + text[len(bare) :]


def _cell(text: str) -> str:
    """The text of a cell, with a bar as `&#124;`: a bar divides cells even in code."""
    return "&#124;".join(map(_inert, text.split("|")))


def _code(text: str) -> str:
    """A code span that holds the text whatever backticks are in it."""
    shown = visible(text)
    ticks = "`" * (_longest_run(shown) + 1)
    pad = " " if not shown or shown[0] in " `" or shown[-1] in " `" else ""
    return f"{ticks}{pad}{shown}{pad}{ticks}"


def _longest_run(text: str) -> int:
    return max(map(len, _BACKTICKS.findall(text))) if "`" in text else 0
