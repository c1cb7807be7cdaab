"""A report for pasting into an issue: GitHub's Markdown that reads well as plain text too.

Backslashes do not help against what GitHub finds in the finished page (mentions, issue numbers, bare links), code does:
of any text, each word that could mean something to a reader of Markdown stands as code, and the others as they are.
"""

import re
from collections.abc import Iterator, Sequence

from msgspec import UNSET

from bot.render.words import changed, seen_at, shell_command, some_names, subject_name, table_heading, visible, where
from bot.report import Change, Evidence, Finding, Gap, NextAction, Report, Table
from bot.texts import Texts

_NAMES_SHOWN = 8
_SHORT_QUOTE = 80

# Markup (also math and emoji names), mentions and mail addresses, references to issues and commits, links.
_MEANS_SOMETHING = re.compile(
    r"[\\`*_~<>\[\]&#@|$]|://|www\.|(?<!\d):[\w+-]+:|\bGH-\d|\b(?=\d*[a-f])[0-9a-f]{7,40}\b", re.IGNORECASE
)
_STARTS_A_BLOCK = re.compile(r"[-+=]+|\d+[.)]")
_BACKTICKS = re.compile("`+")


def markdown(report: Report, say: Texts) -> str:
    """The report under a heading; nothing in it can ping, link, or leave the place where it is quoted."""
    actions = [action for finding in report.findings for action in finding.next_actions]
    sections = [
        [f"## {_inert(subject_name(report))}: {_inert(report.verdict)}"],
        [_inert(_origin(report, say))],
        *_section(say("render.findings"), list(_findings(report.findings, say))),
        *(_section(say("render.change"), list(_change(report.change, say))) if report.change else []),
        *_section(say("render.next"), [line for action in actions for line in _action(action, say)]),
        *(part for table in report.tables for part in _section(_inert(table_heading(table, say)), _table(table, say))),
        *_section(say("render.gaps"), [line for gap in report.gaps for line in _gap(gap)]),
    ]
    return "\n\n".join("\n".join(section) for section in sections) + "\n"


def _origin(report: Report, say: Texts) -> str:
    cluster = say("render.in-cluster", cluster=report.cluster) if report.cluster else ""
    seen = report.taken_at if report.cache_age_s is UNSET else seen_at(report, say)
    return ", ".join(filter(None, (report.playbook, cluster, seen)))


def _section(title: str, lines: Sequence[str]) -> list[Sequence[str]]:
    return [[f"### {title}"], lines] if lines else []


def _findings(findings: Sequence[Finding], say: Texts) -> Iterator[str]:
    """Each claim with what it rests on; what several rest on is quoted once."""
    quoted = set[Evidence]()
    for finding in findings:
        words = f"{say(f'render.{finding.severity}')}, {say(f'render.{finding.confidence}')}"
        yield f"- {_code(finding.code)} ({words}): {_inert(finding.claim)}"
        if finding.scope.nodes:
            yield f"  {say('render.nodes')}: {_inert(some_names(finding.scope.nodes, say, _NAMES_SHOWN))}"
        for evidence in finding.evidence:
            yield from _evidence(evidence, say, again=evidence in quoted)
        quoted.update(finding.evidence)


def _evidence(evidence: Evidence, say: Texts, *, again: bool) -> Iterator[str]:
    quote = _code(evidence.quote) if evidence.quote else say("render.empty")
    if again and len(evidence.quote) > _SHORT_QUOTE:
        quote = say("render.above")
    yield f"  - {_inert(', '.join(filter(None, (where(evidence), evidence.at))))}: {quote}"
    if evidence.command and not again:
        yield f"    {say('render.again')}: {_code(evidence.command)}"


def _change(change: Change, say: Texts) -> Iterator[str]:
    yield f"- {_inert(changed(change, say))}"
    for impact in change.blast_radius:
        yield f"- {_code(impact.code)} ({say(f'render.{impact.severity}')}): {_inert(impact.text)}"


def _action(action: NextAction, say: Texts) -> Iterator[str]:
    label = _inert(action.label)
    yield f"- {say('render.changes', label=label) if action.changes_cluster else label}"
    if command := visible(shell_command(action)):
        fence = "`" * max(3, _longest_run(command) + 1)
        yield from (f"  {fence}sh", f"  {command}", f"  {fence}")


def _gap(gap: Gap) -> Iterator[str]:
    yield f"- {_inert(gap.source)}: {_inert(gap.why)}"
    if hint := _inert(gap.hint):
        yield f"  - {hint}"


def _table(table: Table, say: Texts) -> list[str]:
    if not table.columns or not table.rows:
        return [say("words.none")]
    header, *rows = ([_cell(cell) for cell in row] for row in (table.columns, *table.rows))
    return [f"| {' | '.join(row)} |" for row in (header, ["---"] * len(header), *rows)]


def _inert(text: str) -> str:
    """The text on one line, each word that means something to Markdown or GitHub as code."""
    words = visible(text).split()
    return " ".join(
        _word(word) if _MEANS_SOMETHING.search(word) or (not at and _STARTS_A_BLOCK.fullmatch(word)) else word
        for at, word in enumerate(words)
    )


def _word(text: str) -> str:
    """As code, but for what ends the sentence or its part."""
    bare = text.rstrip(".,;") or text
    return _code(bare) + text[len(bare) :]


def _cell(text: str) -> str:
    """The same for a table, where a bar divides cells even in code; readers differ on how to escape it there."""
    return "&#124;".join(map(_inert, text.split("|")))


def _code(text: str) -> str:
    """A code span that holds the text whatever backticks are in it."""
    shown = visible(text)
    ticks = "`" * (_longest_run(shown) + 1)
    pad = " " if not shown or shown[0] in " `" or shown[-1] in " `" else ""
    return f"{ticks}{pad}{shown}{pad}{ticks}"


def _longest_run(text: str) -> int:
    return max(map(len, _BACKTICKS.findall(text))) if "`" in text else 0
