"""Triage threads: the head that is edited, the replies, the form of a note, and the timeline as Markdown."""

import json
from collections.abc import Sequence
from typing import NamedTuple

from bot.report import VERDICT_LIMIT, one_line
from bot.slack.message import Block, File, Message
from bot.slack.render import blocks
from bot.slack.render.buttons import object_in
from bot.slack.render.rich import Part, bullets, line, moment, rich_text, somebody, span, utc
from bot.slack.render.text import escape, inert, lines
from bot.texts import Texts
from bot.triage.cause import Cause
from bot.triage.state import Deed, Incident, News

ACT = "triage:"
FORM = "triage"
NOTE, PERSON, TEXT = "note", "person", "text"
MUTE_S = 3600.0
_NAME, _LONGEST = 200, 1500
_SHOWN_NAMES = 5
_VERSION = 1
_BUTTONS: tuple[Deed, ...] = ("ack", "take", "note", "handover", "mute", "close")


class Head(NamedTuple):
    """What a head tells. `firing` of `pods` pods still fire; of alerts that name no pod, the alerts count."""

    id: str
    cluster: str
    cause: Cause
    incident: Incident
    firing: int
    total: int
    alerts: int
    subjects: tuple[str, ...]
    names: tuple[str, ...]
    opened_at: float


class Happened(NamedTuple):
    """One line of a timeline."""

    at: float
    news: News


def render_head(head: Head, say: Texts) -> Message:
    """The head as it is now: verdict, scope, count, owner, state."""
    state = say(f"triage.state-{head.incident.state}")
    severity = say(f"render.{head.cause.severity}")
    title = say("triage.title", state=state, severity=severity, verdict=one_line(head.cause.claim, VERDICT_LIMIT))
    count = _count(head, say)
    parts = [line(span(inert(title, 3 * _NAME), "bold")), bullets(*(line(*one) for one in _facts(head, count, say)))]
    built: list[Block] = [rich_text(*parts)]
    if buttons := _buttons(head, say):
        built.append(blocks.actions(*buttons))
    small_print = "triage.small-print-closed" if head.incident.state == "closed" else "triage.small-print"
    built.append(blocks.context(say(small_print, id=head.id)))
    return Message(lines([escape(title, 3 * _NAME), escape(count, _NAME)]), tuple(built))


def render_news(news: News, say: Texts) -> Message:
    """A reply: what happened, by whom. Only a call is for the whole channel to see."""
    detail = news.detail
    by = [span(" ("), somebody(news.by), span(")")] if news.by else []
    if news.turn == "muted":
        ends = utc(float(detail)) if detail else say("triage.while-it-lasts")
        pieces = [span(f"{_who(news, say)} "), moment(float(detail)) if detail else span(ends)]
        return Message(escape(f"{_who(news, say)} {ends}"), (rich_text(line(*pieces, *by)),))
    if news.turn == "called":
        pieces = [somebody(detail), span(f" {say('triage.called')}")]
    elif news.turn == "handed-over":
        pieces = [span(f"{_who(news, say)} "), somebody(detail)]
    else:
        text = f": {inert(detail, _LONGEST)}" if detail else ""
        pieces = [span(f"{_who(news, say)}{text}")]
    return Message(escape(_who(news, say)), (rich_text(line(*pieces, *by)),), broadcast=news.turn == "called")


def render_timeline(head: Head, happened: Sequence[Happened], say: Texts) -> File:
    """The incident for a post-mortem, as Markdown: what was found, and what happened when, in UTC."""
    cause = head.cause
    rows = [
        f"# {_plain(one_line(cause.claim, 300))}",
        "",
        f"- {say('triage.md-id')}: `{head.id}`",
        f"- {say('triage.md-cause')}: {_plain(cause.code) or '-'} ({cause.signature})",
        f"- {say('triage.md-scope')}: {_plain(_count(head, say))}",
        f"- {say('triage.md-nodes')}: {_plain(', '.join(cause.nodes)) or '-'}",
        f"- {say('triage.md-alerts')}: {_plain(', '.join(head.names)) or '-'}",
        f"- {say('triage.md-owner')}: {_plain(head.incident.owner) or '-'}",
        "",
        f"| {say('triage.md-time')} | {say('triage.md-what')} | {say('triage.md-who')} | {say('triage.md-detail')} |",
        "|---|---|---|---|",
    ]
    for one in happened:
        what = say(f"triage.did-{one.news.turn}")
        detail = _plain(one.news.detail)
        if one.news.turn == "muted" and detail:
            detail = utc(float(detail))
        rows.append(f"| {utc(one.at)} | {_plain(what)} | {_plain(one.news.by) or 'hami-bot'} | {detail} |")
    text = "\n".join([*rows, ""])
    return File(f"incident-{head.id}.md", text.encode("utf-8"), say("triage.md-title", id=head.id))


# ----------------------------------------------------------------------------------------------------- buttons


def button_value(incident_id: str) -> str:
    """The value of a head's button: enough to act, whatever the bot forgot meanwhile."""
    return json.dumps({"v": _VERSION, "incident": incident_id}, separators=(",", ":"))


def read_button(text: str) -> str:
    """The incident that the button is of; empty if it is none of ours."""
    given = object_in(text) or {}
    found = given.get("incident")
    return found if given.get("v") == _VERSION and len(given) == 2 and isinstance(found, str) else ""


def form(deed: Deed, incident_id: str, channel: str, say: Texts) -> blocks.Element:
    """The modal that asks for a note, or to whom it is handed over."""
    if deed == "handover":
        asked = blocks.asking(say("triage.to-whom"), {"type": "users_select", "action_id": TEXT}, PERSON)
    else:
        asked = blocks.asking(say("triage.note"), blocks.text_input(TEXT, multiline=True), NOTE)
    metadata = json.dumps({"v": _VERSION, "incident": incident_id, "deed": deed, "channel": channel})
    return blocks.modal(
        say(f"triage.button-{deed}"),
        [asked],
        close=say("slack.no"),
        submit=say(f"triage.button-{deed}"),
        callback_id=FORM,
        private_metadata=metadata,
    )


def read_form(metadata: str) -> tuple[str, Deed, str] | None:
    """The incident, the deed and the channel of a form that was submitted; None if it is none of ours."""
    given = object_in(metadata) or {}
    names = [given.get(name) for name in ("incident", "deed", "channel")]
    if given.get("v") != _VERSION or not all(isinstance(one, str) for one in names) or names[1] not in _BUTTONS:
        return None
    return str(names[0]), names[1], str(names[2])


def _buttons(head: Head, say: Texts) -> list[blocks.Element]:
    match head.incident.state:
        case "closed":
            return []
        case "resolved":
            shown: tuple[Deed, ...] = ("note", "close")
        case "acknowledged":
            shown = ("take", "note", "handover", "mute", "close")
        case _:
            shown = _BUTTONS
    value = button_value(head.id)
    return [
        blocks.button(
            say(f"triage.button-{deed}"), f"{ACT}{deed}", value, style="primary" if number == 0 else "", confirm=None
        )
        for number, deed in enumerate(shown)
    ]


# ------------------------------------------------------------------------------------------------------- facts


def _count(head: Head, say: Texts) -> str:
    if not head.total:
        return say("triage.count-alerts", alerts=head.alerts)
    key = "triage.count-gone" if not head.firing else "triage.count"
    return say(key, firing=head.firing, total=head.total, alerts=head.alerts)


def _facts(head: Head, count: str, say: Texts) -> list[list[Part]]:
    incident, cause = head.incident, head.cause
    facts: list[list[Part]] = [[span(inert(count, _NAME))]]
    if head.subjects:
        more = len(head.subjects) > _SHOWN_NAMES
        shown = ", ".join(head.subjects[:_SHOWN_NAMES]) + (", …" if more else "")
        facts.append([span(f"{say('triage.pods')} "), span(inert(shown, 2 * _NAME), "code")])
    if cause.nodes:
        shown = ", ".join(cause.nodes[:_SHOWN_NAMES]) + (", …" if len(cause.nodes) > _SHOWN_NAMES else "")
        facts.append([span(f"{say('triage.nodes')} "), span(inert(shown, 2 * _NAME), "code")])
    facts.append([span(f"{say('triage.alerts')} {inert(', '.join(head.names) or '-', _NAME)}")])
    if cause.code:
        facts.append([span(f"{say('triage.finding')} "), span(inert(cause.code, _NAME), "code")])
    if cause.why_not:
        facts.append([span(say("triage.why-not", why=inert(cause.why_not, _NAME)))])
    owner = inert(incident.owner, _NAME)
    facts.append([span(f"{say('triage.owner')} "), somebody(owner) if owner else span(say("triage.nobody"))])
    facts.append([span(f"{say('triage.since')} "), moment(head.opened_at)])
    if incident.state == "muted":
        until = incident.muted_until
        end = span(say("triage.while-it-lasts")) if until is None else moment(until)
        facts.append([span(f"{say('triage.muted-until')} "), end])
    if head.cluster:
        facts.append([span(f"{say('triage.cluster')} {inert(head.cluster, _NAME)}")])
    return facts


def _who(news: News, say: Texts) -> str:
    return say(f"triage.did-{news.turn}")


def _plain(text: str) -> str:
    """On one line of a table, without what Markdown or HTML would read."""
    shown = inert(text, _LONGEST)
    for acting in "\\`*_[]<>|#":
        shown = shown.replace(acting, f"\\{acting}")
    return shown
