"""Triage threads below their head: replies, the forms of acts, the list of open incidents, the Markdown timeline."""

from collections.abc import Sequence
from typing import cast

from bot.render.words import SEVERITIES
from bot.report import Severity, one_line
from bot.slack.message import File
from bot.slack.render import blocks
from bot.slack.render.blocks import Pressed, value_of
from bot.slack.render.summary import DID, summary_lines
from bot.slack.render.text import (
    MrkdwnText,
    Part,
    bullets,
    escape,
    in_one_line,
    inert,
    line,
    mention,
    pieced,
    rich_text,
    somebody,
    span,
    told_mrkdwn,
    utc,
)
from bot.slack.render.triage_head import LABELS, Head, callee, count_of, end_in_words, end_of, in_short
from bot.texts import Prose, Text, Texts, together
from bot.triage.routes import Ignored
from bot.triage.state import CALLS, WHILE_IT_LASTS, Deed, MuteUntil, News, read_until
from bot.triage.summary import IncidentEvent, Summary

FORM = "triage"
NOTE, PERSON, MUTE, TEXT = "note", "person", "mute", "text"
_NAME, _LONGEST = 200, 1500
_SHOWN_NAMES = 5
_SHOWN_OPEN = 15
_SHOWN_IGNORED, _IGNORED_NAME = 3, 30
_MUTES = ("1h", "4h", "24h")
_OPTION = 150
"""The longest value of an option, in characters."""


def render_open(heads: Sequence[Head], rota: Sequence[str], ignored: Ignored) -> blocks.Draft:
    """The open incidents, who is called, and what a route ignores; only the person who asked sees it."""
    said = [line(span(Text("triage.none-open")))] if not heads else []
    if shown := heads[:_SHOWN_OPEN]:
        said.append(bullets(*(line(*in_short(head)) for head in shown)))
    if more := len(heads) - len(shown):
        said.append(line(span(Text("triage.more-open", count=more))))
    people = [part for person in rota[:_SHOWN_OPEN] for part in (span(" "), somebody(inert(person, _NAME)))]
    said.append(line(span(Text("triage.rota")), *people) if rota else line(span(Text("triage.nobody-called"))))
    if ignored.alerts:
        told = Text("triage.ignored", firing=ignored.firing, count=ignored.alerts)
        names = [inert(one_line(name, _IGNORED_NAME), _IGNORED_NAME) for name in ignored.names[:_SHOWN_IGNORED]]
        said.append(line(span(pieced("{}: {}", told, ", ".join(names)) if names else told)))
    first = [pieced("{}: {}", head.id, in_one_line(head.cause.text, _NAME)) for head in heads[:_SHOWN_NAMES]]
    aloud = together(*first, by="; ") if first else Text("triage.none-open")
    return blocks.Draft(escape(aloud), (rich_text(*said),))


def render_news(news: News) -> blocks.Draft:
    """The reply that tells an event of an incident: what happened, by whom. Only calls are broadcast to the channel."""
    detail, did = news.detail, DID[news.turn]
    by = [span(" ("), somebody(news.by), span(")")] if news.by else []
    if news.turn == "muted":
        until = read_until(detail)
        pieces = [span(pieced("{} ", did)), end_of(until)]
        text = told_mrkdwn(escape(pieced("{} {}", did, end_in_words(until))))
        return blocks.Draft(text, (rich_text(line(*pieces, *by)),))
    headline, whom = did, ""
    pieces: list[Part] = []
    if news.turn in CALLS:
        called = Text("triage.last-resort") if news.turn == "last-resort" else Text("triage.called")
        pieces = [callee(detail), span(pieced(" {}", called))]
        whom = "" if detail.startswith(("C", "G")) else detail  # a channel is read, not called
    elif news.turn == "worse":
        headline = pieced("{}: {}", headline, _worse(detail))
    elif news.turn == "handed-over":
        pieces, whom = [span(pieced("{} ", headline)), somebody(detail)], detail
    elif news.turn == "unmuted" and detail:
        headline = pieced("{}: {}", headline, Text("triage.registered", node=inert(detail, _NAME)))
    elif detail:
        headline = pieced("{}: {}", headline, inert(detail, _LONGEST))
    pieces = pieces or [span(headline)]
    text = escape(headline)
    if whom:
        text = MrkdwnText(pieced("{} {}", text, mention(inert(whom, _NAME))))
    return blocks.Draft(text, (rich_text(line(*pieces, *by)),), broadcast=news.turn in CALLS)


def render_timeline(head: Head, happened: Sequence[IncidentEvent], summary: Summary, say: Texts) -> File:
    """The incident for a post-mortem, as Markdown: what was found, what happened when, in UTC, and its summary."""
    cause = head.cause
    rows = [
        f"# {_plain(one_line(say.words(cause.text), 300))}",
        "",
        f"- {say('triage.md-id')}: `{head.id}`",
        f"- {say('triage.cluster')}: {_plain(head.cluster) or '-'}",
        f"- {say('triage.md-cause')}: {_plain(cause.code) or '-'} ({cause.signature})",
        f"- {say('triage.md-scope')}: {_plain(say.words(count_of(head)))}",
        f"- {say('table.nodes')}: {_plain(', '.join(cause.nodes)) or '-'}",
        f"- {say('triage.alerts')}: {_plain(', '.join(head.counts.names)) or '-'}",
        f"- {say('triage.owner')}: {_plain(head.incident.owner) or '-'}",
        "",
        f"| {say('triage.md-time')} | {say('triage.md-what')} | {say('triage.md-who')} | {say('render.detail')} |",
        "|---|---|---|---|",
    ]
    for event in happened:
        what = say.words(DID[event.news.turn])
        detail: Prose = event.news.detail
        if event.news.turn == "worse":
            detail = _worse(event.news.detail)
        if event.news.turn == "muted":
            detail = end_in_words(read_until(event.news.detail))
        by = _plain(event.news.by) or "hami-bot"
        rows.append(f"| {utc(event.at)} | {_plain(what)} | {by} | {_plain(say.words(detail))} |")
    summed = blocks.in_words(summary_lines(head, summary), say)
    rows += [
        "",
        f"## {say('triage.summary')}",
        "",
        *("- " + "".join(map(_written, parts)) for parts in summed),
    ]
    text = "\n".join([*rows, ""])
    return File(f"incident-{head.id}.md", text.encode("utf-8"), say("triage.md-title", id=head.id))


# ----------------------------------------------------------------------------------------------------- buttons


class TriageForm(Pressed, frozen=True):
    """The values that the form of an act on an incident carries."""

    incident: str
    deed: Deed
    channel: str


def form(deed: Deed, incident_id: str, channel: str, nodes: Sequence[str] = ()) -> blocks.Element:
    """The modal for a note, a person to hand over to, or a mute's end, such as that one of `nodes` is registered."""
    if deed == "handover":
        asked = blocks.asking(Text("triage.to-whom"), {"type": "users_select", "action_id": TEXT}, PERSON)
    elif deed == "mute":
        fitting = [node for node in nodes if len(node) < _OPTION // 2][:_SHOWN_NAMES]
        ends = [(f"until node {node} registers", MuteUntil(node=node)) for node in fitting]
        ends.append(("until gone", WHILE_IT_LASTS))
        offered: list[tuple[str, Prose]] = [(mute, mute) for mute in _MUTES]
        offered += [(words, Text("triage.until", end=end_in_words(until))) for words, until in ends]
        options = [{"text": blocks.plain(text, _OPTION // 2), "value": words} for words, text in offered]
        menu = {"type": "radio_buttons", "action_id": TEXT, "options": options, "initial_option": options[0]}
        asked = blocks.asking(Text("triage.how-long"), menu, MUTE)
    else:
        asked = blocks.asking(Text("triage.did-noted"), blocks.text_input(TEXT, multiline=True), NOTE)
    return blocks.modal(
        LABELS[deed],
        [asked],
        submit=LABELS[deed],
        callback_id=FORM,
        private_metadata=value_of(TriageForm(incident_id, deed, channel)),
    )


def _worse(detail: str) -> Text:
    """What got worse: the severity that the incident has now, or its number of pods."""
    if word := SEVERITIES.get(cast("Severity", detail)):
        return Text("triage.worse-severity", severity=word)
    return Text("triage.worse-pods", pods=inert(detail, _NAME))


def _written(part: Part) -> str:
    """A part of rich text as Markdown: people and channels by id, times in UTC."""
    return _plain(next((part[key] for key in ("text", "user_id", "channel_id", "fallback") if part.get(key)), ""))


def _plain(text: str) -> str:
    """The text on one line of a table, without what Markdown or HTML would read."""
    shown = inert(text, _LONGEST)
    for acting in "\\`*_[]<>|#":
        shown = shown.replace(acting, f"\\{acting}")
    return shown
