"""A report as a message in Slack, short enough for a phone at night: the verdict, its proof, what to do.

All text of a report stands in rich text and `plain_text`, where Slack parses nothing. Slack takes the message whatever
the report holds: each part has its share of the text, and important parts take theirs first. Parts that are not shown
are counted in the message and are in its files.
"""

import json
import re
from collections.abc import Callable, Sequence
from itertools import chain

import msgspec

from bot.pprof.findings import short_name, top_table
from bot.pprof.top import TopRow
from bot.render.overview import as_shown, brief, next_steps
from bot.render.words import (
    MARKS,
    SEVERITIES,
    about,
    changed,
    doubted,
    heading,
    moment,
    names_told,
    quoted,
    seen_at,
    step_label,
    telling,
    where,
)
from bot.report import Change, Evidence, Finding, Gap, Impact, NextAction, Report, one_line
from bot.slack.message import Block, File, Message
from bot.slack.render import blocks
from bot.slack.render.blocks import EVERYTHING, Room, action_button, closing_buttons, gist
from bot.slack.render.tables import show_tables, table_files, whole_answer
from bot.slack.render.text import (
    HEADER,
    TOTAL_BUDGET,
    Mrkdwn,
    MrkdwnText,
    Part,
    bullets,
    escape,
    length,
    line,
    lines,
    pieced,
    preformatted,
    quote,
    rich_text,
    span,
    told,
)
from bot.texts import Prose, Text, Texts, made, named, some_names, together

# The longest text of each kind that is shown as it is; commands longer than theirs are only in the file.
_VERDICT, _CLAIM, _NAME, _PLACE, _QUOTE, _COMMAND, _LABEL, _BRIEF = 1000, 600, 300, 300, 400, 700, 400, 300
_SOURCE, _TITLE = 60, 100
# What the parts may have of the 10,000 characters, in the order in which they take it. The frame is what stands around
# them: their headings, when it was seen, what was left out.
_FRAME = 1500
_EVIDENCE, _NEXT, _OTHERS, _CHANGE = 1500, 2500, 1500, 2500
_IMPACTS_SHOWN = 10
_QUOTES_SHOWN, _ACTIONS_SHOWN, _OTHERS_SHOWN, _GAPS_SHOWN, _NAMES_SHOWN = 2, 4, 3, 4, 8
_CLOSING = 100  # the number of the last button: above those of all actions
_ASKED_BY = re.compile(r'"by":\s*"([UW][A-Z0-9]+)"')
"""Who asked for a change, in a `bot.changes.record.Record` as it stands on its object."""

_EMPTY = Text("render.empty")
_TEXT_VERDICT, _TEXT_PART = 2000, 200
_TEXT_ACTIONS = 3
CANCEL = "profile-cancel"


def render_report(
    report: Report,
    say: Texts,
    *,
    channel_buttons: bool,
    words: str,
    everything: bool = False,
    direct: bool = False,
    names: bool = False,
    files: bool = True,
    watch: str = "",
) -> Message:
    """The report as a message within Slack's limits; what it does not show is behind [Show everything]. `words` is the
    question as typed after the command, for the buttons that ask it again; without it there are none. With
    `everything`, which [Show everything] asks for, the rest is in files, as it is without buttons. Without `files`
    there are none, and nothing says what is left out: for an answer that its verdict gives whole. `channel_buttons`,
    for an answer that only the asker sees, adds [Post to channel], unless it is `direct`, in a direct message. `names`:
    the verdict and its detail show times in the reader's own zone, and who asked for a change in Slack by name, which
    notifies them unless one person alone sees it. `watch` is a pod that waits: a button tells when it runs.
    """
    room = Room(TOTAL_BUDGET - _FRAME, say)
    closing = room.take(
        closing_buttons(
            words,
            report.cluster,
            _CLOSING,
            read=gist(report),
            private=channel_buttons,
            everything=everything,
            direct=direct,
            watch=watch,
        )
    )
    cause = report.findings[0] if report.findings else None
    overview = brief(report, say)
    quotes = (evidence.quote for finding in report.findings for evidence in finding.evidence)
    askers = set(chain.from_iterable(map(_ASKED_BY.findall, quotes)))

    def pieces_of(text: Prose, *styles: str) -> list[Part]:
        return told(text, *styles, ids=askers) if names else [span(text, *styles)]

    head = _head(report, None if overview else cause, room, pieces_of)
    proof = _evidence(cause.evidence if cause and not overview else (), report, room)
    change = _change(report.change, room) if report.change else []
    following = _next(next_steps(report), report, room)
    also = _others(overview.findings if overview else report.findings[1:], room)
    gaps = _gaps(report.gaps, room)
    seen = Text("slack.seen", moment=room.text(seen_at(report), _TITLE))
    by_button = any(button["action_id"] == EVERYTHING for button in closing)

    def whole(room: Room, *, newer: bool) -> tuple[tuple[Block, ...], tuple[File, ...]]:
        tables = show_tables(report, overview, room, newer=newer)
        buttons = [button for button in closing if room.overflowed or button["action_id"] != EVERYTHING]
        attached: list[File] = []
        if files and room.overflowed and not by_button:
            attached = [whole_answer(report, say), *table_files(tables.not_whole, say)]
        names = ", ".join(file.name for file in attached)
        notes = [Text("slack.rows-left", rows=tables.rows_left)] if tables.rows_left else []
        notes += [Text("slack.in-files", files=names)] if attached else []
        small_print = blocks.context(*notes, seen)
        asking = [blocks.actions(*buttons)] if buttons else []
        answer = (
            [*tables.blocks, *also, *following] if overview else [*change, *following, *proof, *also, *tables.blocks]
        )
        return (*head, *answer, *gaps, small_print, *asking), tuple(attached)

    newer, _ = whole(room.copy(), newer=True) if overview else ((), ())
    shown, attached = whole(room, newer=False)
    answer = blocks.Draft(_aloud(report, cause, say), shown, attached).in_words(say)
    newer = newer if any(block["type"] == "data_table" for block in newer) else ()
    return answer._replace(newer=blocks.in_words(newer, say))


# ----------------------------------------------------------------------------------------------------------- head


def _verdict(report: Report, say: Texts) -> tuple[str, str]:
    """The verdict, whole where it was cut within a sentence, and its sentences that a glance leaves out."""
    told = report.told_by.claim if report.told_by else one_line(say.words(report.text), _VERDICT)
    return (told, "") if report.verdict.endswith("…") else (report.verdict, told.removeprefix(report.verdict).strip())


def _head(report: Report, cause: Finding | None, room: Room, pieces_of: Callable[..., list[Part]]) -> list[Block]:
    """The verdict and what it is about. `pieces_of` gives text as pieces of rich text."""
    verdict, rest = _verdict(report, room.say)
    verdict = room.text(doubted(verdict, report), _VERDICT)
    level = report.verdict_severity
    title = room.say.words(
        Text("slack.verdict", mark=MARKS[level], severity=made(heading, SEVERITIES[level]), verdict=verdict)
    )
    facts = [(Text("render.about"), room.text(about(report), _NAME))]
    if detail := cause.claim if cause is not None and cause is not report.told_by else rest:
        facts.append((Text("render.detail"), room.text(detail, _CLAIM)))
    if cause is not None and not names_told(cause.text).issuperset(cause.scope.nodes):
        facts.append((Text("render.nodes"), room.text(some_names(cause.scope.nodes, _NAMES_SHOWN), _NAME)))
    pieces: list[Part] = []
    for number, (name, text) in enumerate(facts):
        label = Text("slack.fact", name=made(heading, name))
        pieces += [span(pieced("\n{} " if number else "{} ", label), "bold"), *pieces_of(text or _EMPTY)]
    bold = pieces_of(title, "bold")
    fits = length(title) + 4 * sum(map(title.count, "&<>")) <= HEADER and len(bold) == 1
    first = blocks.header(title) if fits else rich_text(line(*bold))
    return [room.take(first), room.take(rich_text(line(*pieces)))]


# ------------------------------------------------------------------------------------------------ the cause's parts


def _evidence(quotes: Sequence[Evidence], report: Report, room: Room) -> list[Block]:
    """Shows the quotes that tell most, bare values only where there is nothing else; the others are in the files."""

    def show(number: int, evidence: Evidence) -> list[Part]:
        place = together(where(evidence), moment(evidence.at, report.taken_at) if evidence.at else "", by=", ")
        # Two sections in a row may be shown as one line: the heading is in that of the first place.
        first = [span(pieced("{}\n", Text("render.evidence")), "bold")] if number == 1 else []
        return [
            line(*first, span(room.text(place, _PLACE).strip() or _EMPTY, "italic")),
            quote(room.text(quoted(evidence), _QUOTE).strip() or _EMPTY),
        ]

    shown = room.fill(telling(quotes), show, share=_EVIDENCE, most=_QUOTES_SHOWN)
    every = set(chain.from_iterable(finding.evidence for finding in report.findings))
    commands = any(evidence.command.strip() for evidence in every)
    room.overflowed = room.overflowed or commands or len(shown) < len(every)
    return [rich_text(*chain.from_iterable(shown))] if shown else []


def _change(change: Change, room: Room) -> list[Block]:
    def show(_: int, impact: Impact) -> Part:
        severity = span(pieced("{}: ", SEVERITIES[impact.severity]), "bold")
        return line(severity, span(room.text(impact.text, _BRIEF).strip() or _EMPTY))

    title = line(span(pieced("{}\n", Text("render.change")), "bold"), span(room.text(changed(change), _CLAIM)))
    shown = room.fill(change.blast_radius, show, share=_CHANGE, most=_IMPACTS_SHOWN)
    return [room.take(rich_text(title, *([bullets(*shown)] if shown else [])))]


def _next(actions: Sequence[NextAction], report: Report, room: Room) -> list[Block]:
    """What to do; a command that several steps share stands below the last of them."""

    def show(number: int, action: NextAction) -> Block:
        again = number < min(len(actions), _ACTIONS_SHOWN) and actions[number].command == action.command
        button = action_button(action, report.cluster, number) if action.is_ours else None
        command = "" if again or button is not None else room.whole(action.command, _COMMAND).strip()
        shown_as = step_label(action, room.text(action.label, _LABEL), shown=bool(command))
        label = pieced("{}. {}", str(number), shown_as)
        if button is not None:
            return blocks.plain_section(label, accessory=button)
        return rich_text(line(span(label)), *([preformatted(command)] if command else []))

    shown = room.fill(as_shown(actions, room.say), show, share=_NEXT, most=_ACTIONS_SHOWN)
    every = {action for finding in report.findings for action in finding.next_actions}
    room.overflowed = room.overflowed or not every.issubset(actions)
    return [rich_text(line(span(Text("render.next"), "bold"))), *shown] if shown else []


# ------------------------------------------------------------------------------------------------- everything else


def _others(findings: Sequence[Finding], room: Room) -> list[Block]:
    """A line for each of the first claims, those that are no background first, and how many more there are."""

    def show(_: int, finding: Finding) -> Part:
        return line(span(room.text(finding.claim, _BRIEF).strip() or _EMPTY))

    loud_first = sorted(findings, key=lambda finding: finding.severity == "info")
    shown = room.fill(loud_first, show, share=_OTHERS, most=_OTHERS_SHOWN)
    more = len(findings) - len(shown)
    if not shown:
        return []
    rest = [line(span(Text("slack.and-more", count=more)))] if more else []
    return [rich_text(line(span(Text("slack.others"), "bold")), bullets(*shown, *rest))]


def _gaps(gaps: Sequence[Gap], room: Room) -> list[Block]:
    """One line that names what could not be read; why, and what would help, is for the files."""
    if not gaps:
        return []
    empty = room.say.words(_EMPTY)
    sources = list(dict.fromkeys(room.text(named(gap.source, "sources"), _SOURCE).strip() or empty for gap in gaps))
    told = span(some_names(sources, _GAPS_SHOWN))
    room.overflowed = True
    label = Text("slack.fact", name=Text("render.gaps"))
    return [room.take(rich_text(line(span(pieced("{} ", label), "bold"), told)))]


def _aloud(report: Report, cause: Finding | None, say: Texts) -> Mrkdwn | MrkdwnText:
    """What a notification shows and a screen reader says: the verdict, how bad and about what, what to do."""
    whom = together(made(heading, SEVERITIES[report.verdict_severity]), about(report), by=", ")
    verdict = doubted(_verdict(report, say)[0], report)
    parts: list[tuple[Prose, int]] = [(verdict, _TEXT_VERDICT), (whom, _TEXT_PART)]
    for number, action in enumerate(as_shown(cause.next_actions[:_TEXT_ACTIONS], say) if cause else (), 1):
        parts.append((f"{number}. {action.label}", _TEXT_PART))
    return lines([escape(text, most) for text, most in parts if isinstance(text, Text) or text.strip()])


def slack_json(report: Report, say: Texts) -> str:
    """The report's message as JSON, `{"text": …, "blocks": […]}` with one key per line, ending in a newline."""
    subject = "/".join(filter(None, (report.subject.namespace, report.subject.name)))
    question = " ".join(filter(None, (report.playbook, subject)))
    message = render_report(report, say, channel_buttons=False, words=question)
    shown = {"text": message.text, "blocks": message.blocks}
    return json.dumps(shown, ensure_ascii=False, indent=2) + "\n"


# ------------------------------------------------------------------------------------------------------------- profiles


def taking(text: Text, key: str) -> blocks.Draft:
    """A message that a profile is being taken: one line and a button; `key` names the capture that it cancels."""
    button = blocks.button(Text("desk.cancel"), CANCEL, key)
    return blocks.Draft(escape(text), (blocks.plain_section(text), blocks.actions(button)))


def with_short_names(report: Report) -> Report:
    """The report with function names short enough for a narrow table; the files have them whole."""
    rows = [row._replace(function=short_name(row.function)) for row in report.typed(TopRow)]
    if not rows:
        return report
    first, *others = report.tables
    return msgspec.structs.replace(report, tables=(top_table(first.title, rows), *others))
