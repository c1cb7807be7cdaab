"""A report as a message in Slack: on a phone at night, the verdict, its proof and what to do come first.

All text of a report stands in rich text and `plain_text`, where Slack parses nothing. Whatever the report holds, the
message is one that Slack takes: each part has its share of the text that a message may have, the important parts take
theirs first, and an answer that is not all shown is attached as files.
"""

from collections.abc import Sequence

from bot.render.words import (
    heading,
    is_numeric,
    moment,
    notes,
    some_names,
    subject_name,
    where,
)
from bot.report import Evidence, Finding, Gap, NextAction, Report, Table
from bot.slack.message import Block, File, Message
from bot.slack.render import blocks, rules
from bot.slack.render.buttons import action_button, closing_buttons, is_ours
from bot.slack.render.files import table_file, whole_answer
from bot.slack.render.limits import TOTAL_BUDGET, length
from bot.slack.render.rich import Part, bullets, line, preformatted, quote, rich_text, span
from bot.slack.render.room import Room
from bot.slack.render.text import Mrkdwn, escape, lines
from bot.texts import Texts

# The longest text of each kind that is shown as it is; commands longer than theirs are only in the file.
_VERDICT, _CLAIM, _NAME, _PLACE, _QUOTE, _COMMAND, _LABEL, _WHY, _CELL = 1000, 600, 300, 300, 700, 700, 400, 300, 200
_TITLE = 100
# What the parts may have of the 10,000 characters, in the order in which they take it. The frame is what stands around
# them: their headings, when it was seen, what was left out.
_FRAME = 1500
_EVIDENCE, _NEXT, _OTHERS, _GAPS, _TABLE, _BACKGROUND = 3500, 2200, 2000, 1000, 2500, 1000
_NAMES_SHOWN = 8
_ACTIONS_SHOWN = 8
_ITEMS_SHOWN = 40
_TABLE_FILES = _EMPTY_TABLES = 5
_CLOSING = 100  # the number of the last button: above those of all actions

_TEXT_VERDICT, _TEXT_PART = 2000, 200
_TEXT_ACTIONS = 3


def render_report(report: Report, say: Texts, *, channel_buttons: bool, words: str) -> Message:
    """The report as a message within Slack's limits; what it has no room for is in the message's files.

    `words` is the question as typed after the command, for the buttons that ask it again; without it there are none.
    `channel_buttons` adds [Post to channel], for an answer that only the asker sees.
    """
    room = Room(TOTAL_BUDGET - _FRAME)
    closing = closing_buttons(words, report.cluster, _CLOSING, say, post=channel_buttons)
    closing = [blocks.actions(*map(room.take, closing))] if closing else []
    cause, *others = report.findings or (None,)
    loud = [one for one in others if one and one.severity != "info"]
    quiet = [one for one in others if one and one.severity == "info"]

    head = _head(report, cause, room, say)
    proof = _evidence(cause.evidence if cause else (), report.taken_at, room, say)
    following = _next(cause.next_actions if cause else (), report.cluster, room, say)
    also = _others(loud, room, say)
    gaps = _gaps(report.gaps, room, say)
    tables, files = _tables(report.tables, room, say)
    background = _background(quiet, room, say)

    left_out = _left_out(room, say)
    seen = blocks.context(say("slack.seen", moment=room.text(moment(report.taken_at, None, say), _TITLE)))
    shown = [*head, *proof, *following, *also, *background, *tables, *gaps, *left_out, seen, *closing]
    whole = [whole_answer(report, say)] if left_out else []
    return Message(_aloud(report, cause, say), tuple(shown), (*whole, *files))


# ----------------------------------------------------------------------------------------------------------- head


def _head(report: Report, cause: Finding | None, room: Room, say: Texts) -> list[Block]:
    """The verdict and what it is about."""
    verdict = room.text(report.verdict, _VERDICT)
    title = say("slack.verdict", severity=heading(say(f"render.{report.severity}")), verdict=verdict)
    facts = [("about", room.text(_about(report, say), _NAME))]
    if cause is not None:
        if " ".join(cause.claim.split()) != report.verdict:
            facts.append(("detail", room.text(cause.claim, _CLAIM)))
        finding = f"{cause.code}, {say(f'render.{cause.confidence}')}"
        facts.append(("finding", room.text(finding, _NAME)))
        if cause.scope.nodes:
            facts.append(("nodes", room.text(some_names(cause.scope.nodes, say, _NAMES_SHOWN), _NAME)))
    pieces: list[Part] = []
    for number, (key, text) in enumerate(facts):
        label = say("slack.fact", name=heading(say(f"render.{key}")))
        pieces += [span(f"\n{label} " if number else f"{label} ", "bold"), span(text or say("render.empty"))]
    fits = _escaped_length(title) <= rules.HEADER
    first = blocks.header(title) if fits else rich_text(line(span(title, "bold")))
    return [room.take(first), room.take(rich_text(line(*pieces)))]


def _about(report: Report, say: Texts) -> str:
    cluster = say("render.in-cluster", cluster=report.cluster) if report.cluster else ""
    return ", ".join(filter(None, (subject_name(report), cluster)))


def _escaped_length(text: str) -> int:
    return length(text) + 4 * sum(map(text.count, "&<>"))


# ------------------------------------------------------------------------------------------------ the cause's parts


def _evidence(evidence: Sequence[Evidence], taken_at: str, room: Room, say: Texts) -> list[Block]:
    def show(number: int, one: Evidence) -> list[Part]:
        place = ", ".join(filter(None, (where(one), moment(one.at, taken_at, say) if one.at else "")))
        # Two sections in a row may be shown as one line: the heading is in that of the first place.
        first = [span(f"{say('render.evidence')}\n", "bold")] if number == 1 else []
        parts = [
            line(*first, span(room.text(place, _PLACE).strip() or say("render.empty"), "italic")),
            quote(room.text(one.quote, _QUOTE).strip() or say("render.empty")),
        ]
        return parts + _copied(one.command, room)

    shown = room.fill("evidence", evidence, show, share=_EVIDENCE, most=_ITEMS_SHOWN)
    return [rich_text(*(part for one in shown for part in one))] if shown else []


def _next(actions: Sequence[NextAction], cluster: str, room: Room, say: Texts) -> list[Block]:
    def show(number: int, action: NextAction) -> Block:
        label = f"{number}. {_label(action, room, say)}"
        button = action_button(action, cluster, number, say) if is_ours(action) else None
        if button is not None:
            return blocks.plain_section(label, accessory=button)
        return rich_text(line(span(label)), *_copied(action.command, room))

    shown = room.fill("next", actions, show, share=_NEXT, most=_ACTIONS_SHOWN)
    return [rich_text(_title(say("render.next"))), *shown] if shown else []


# ------------------------------------------------------------------------------------------------- everything else


def _others(findings: Sequence[Finding], room: Room, say: Texts) -> list[Block]:
    """The claims with what to do about each."""

    def show(_: int, finding: Finding) -> Part:
        severity = say("slack.fact", name=heading(say(f"render.{finding.severity}")))
        pieces = [span(f"{severity} ", "bold"), span(_brief(finding, room, say))]
        for action in finding.next_actions:
            pieces.append(span(f"\n→ {_label(action, room, say)}"))
            if command := room.whole(action.command, _COMMAND).strip():
                pieces += [span("\n"), span(command, "code")]
        return line(*pieces)

    shown = room.fill("findings", findings, show, share=_OTHERS, most=_ITEMS_SHOWN)
    return [rich_text(_title(say("slack.others")), bullets(*shown))] if shown else []


def _background(findings: Sequence[Finding], room: Room, say: Texts) -> list[Block]:
    def show(_: int, finding: Finding) -> Part:
        return line(span(_brief(finding, room, say)))

    shown = room.fill("findings", findings, show, share=_BACKGROUND, most=_ITEMS_SHOWN)
    return [rich_text(_title(say("render.background")), bullets(*shown))] if shown else []


def _brief(finding: Finding, room: Room, say: Texts) -> str:
    return f"{room.text(finding.claim, _WHY)} [{room.text(notes(finding, say), _WHY)}]"


def _gaps(gaps: Sequence[Gap], room: Room, say: Texts) -> list[Block]:
    def show(_: int, gap: Gap) -> Part:
        pieces = [span(room.text(f"{gap.source}: {gap.why}", _WHY))]
        if hint := room.text(gap.hint, _WHY).strip():
            pieces.append(span(f"\n→ {hint}"))
        return line(*pieces)

    shown = room.fill("gaps", gaps, show, share=_GAPS, most=_ITEMS_SHOWN)
    return [rich_text(_title(say("render.gaps")), bullets(*shown))] if shown else []


def _tables(tables: Sequence[Table], room: Room, say: Texts) -> tuple[list[Block], list[File]]:
    """The first table with rows as far as it fits; the first of those that are not shown, or not whole, are files."""
    shown: list[Block] = []
    files: list[File] = []
    for number, table in enumerate(tables, 1):
        title = span(room.text(heading(table.title), _TITLE).strip() or say("render.empty"), "bold")
        if not table.columns or not table.rows:
            empty = rich_text(line(title, span(f"\n{say('words.none')}")))
            shown += room.fill(
                "tables", [empty], lambda _, block: block, share=_TABLE, most=max(0, _EMPTY_TABLES - len(shown))
            )
        elif files or any(block["type"] == "table" for block in shown):
            room.left_out["tables"] += 1
            files += [table_file(table, number)] if len(files) < _TABLE_FILES else []
        else:
            rows = _rows(table, room)
            shown += [rich_text(line(title)), rows] if rows else []
            if not rows or len(rows["rows"]) <= len(table.rows) or len(table.columns) > rules.TABLE_COLUMNS:
                files.append(table_file(table, number))
    return shown, files


def _rows(table: Table, room: Room) -> Block | None:
    def show(_: int, row: Sequence[str]) -> list[blocks.Element]:
        return [blocks.cell(room.text(cell, _CELL)) for cell in row[: rules.TABLE_COLUMNS]]

    shown = room.fill("rows", (table.columns, *table.rows), show, share=_TABLE, most=rules.TABLE_ROWS)
    room.left_out["columns"] += max(0, len(table.columns) - rules.TABLE_COLUMNS)
    if len(shown) < 2:
        room.left_out["rows"] = len(table.rows)
        return None
    right = [is_numeric(column) for column in zip(*table.rows[: rules.TABLE_ROWS], strict=True)]
    return blocks.table(shown, right)


# ---------------------------------------------------------------------------------------------------------- frame


def _title(text: str) -> Part:
    return line(span(text, "bold"))


def _label(action: NextAction, room: Room, say: Texts) -> str:
    label = room.text(action.label, _LABEL)
    return say("render.changes", label=label) if action.changes_cluster else label


def _copied(command: str, room: Room) -> list[Part]:
    shown = room.whole(command, _COMMAND).strip()
    return [preformatted(shown)] if shown else []


def _left_out(room: Room, say: Texts) -> list[Block]:
    """One line that says what is not shown, if anything is not."""
    kinds = [
        say("slack.kind", name=say(f"slack.kind-{kind}"), count=count) for kind, count in room.left_out.items() if count
    ]
    if kinds:
        return [blocks.context(say("slack.left-out", what=", ".join(kinds)))]
    return [blocks.context(say("slack.cut"))] if room.cut else []


def _aloud(report: Report, cause: Finding | None, say: Texts) -> Mrkdwn:
    """What a notification shows and a screen reader says: the verdict, how bad and about what, what to do."""
    about = ", ".join(filter(None, (heading(say(f"render.{report.severity}")), _about(report, say))))
    told = [(report.verdict, _TEXT_VERDICT), (about, _TEXT_PART)]
    for number, action in enumerate(cause.next_actions[:_TEXT_ACTIONS] if cause else (), 1):
        told.append((f"{number}. {action.label}", _TEXT_PART))
    return lines([escape(text, most) for text, most in told if text.strip()])
