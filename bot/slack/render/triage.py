"""Triage threads below their head: the replies, the form of a note, the list of what is open, and the timeline as
Markdown.
"""

from collections.abc import Sequence

from bot.report import SEVERITIES, VERDICT_LIMIT, one_line
from bot.slack.message import File, Message
from bot.slack.render import blocks
from bot.slack.render.buttons import object_in, object_value
from bot.slack.render.escalation import callee, next_part
from bot.slack.render.rich import Part, bullets, line, link, mention, rich_text, somebody, span, told_mrkdwn, utc
from bot.slack.render.summary import summary_lines
from bot.slack.render.text import escape, inert
from bot.slack.render.triage_head import BUTTONS, Head, count_of, end_in_words, end_of
from bot.texts import Texts
from bot.triage.mute import WHILE_IT_LASTS, MuteUntil, read_until
from bot.triage.routes import Ignored
from bot.triage.state import CALLS, Deed, News
from bot.triage.summary import Summary, TimelineEntry

FORM = "triage"
NOTE, PERSON, MUTE, TEXT = "note", "person", "mute", "text"
_NAME, _LONGEST = 200, 1500
_SHOWN_NAMES = 5
_SHOWN_OPEN = 15
_SHOWN_IGNORED, _IGNORED_NAME = 3, 30
_MUTES = ("1h", "4h", "24h")
_OPTION = 150
"""Characters of an option's value."""
_VERSION = 1


def render_open(heads: Sequence[Head], rota: Sequence[str], ignored: Ignored, say: Texts) -> Message:
    """The incidents that are open, for the eyes of who asked, who is called, and what a route ignores."""
    said = [line(span(say("triage.none-open")))] if not heads else []
    if shown := heads[:_SHOWN_OPEN]:
        said.append(bullets(*(line(*in_short(head, say)) for head in shown)))
    if more := len(heads) - len(shown):
        said.append(line(span(say("triage.more-open", count=more))))
    people = [part for person in rota[:_SHOWN_OPEN] for part in (span(" "), somebody(inert(person, _NAME)))]
    said.append(line(span(say("triage.rota")), *people) if rota else line(span(say("triage.nobody-called"))))
    if ignored.alerts:
        said.append(line(span(_ignored_in_words(ignored, say))))
    first = "; ".join(f"{head.id}: {one_line(say.words(head.cause.text), _NAME)}" for head in heads[:_SHOWN_NAMES])
    return Message(escape(first or say("triage.none-open")), (rich_text(*said),))


def _ignored_in_words(ignored: Ignored, say: Texts) -> str:
    ignored_alerts = say("triage.ignored", firing=ignored.firing, count=ignored.alerts)
    names = [inert(one_line(name, _IGNORED_NAME), _IGNORED_NAME) for name in ignored.names[:_SHOWN_IGNORED]]
    return f"{ignored_alerts}: {', '.join(names)}" if names else ignored_alerts


def in_short(head: Head, say: Texts) -> list[Part]:
    """One line of a list, which begins with the incident's id."""
    state, owner = say(f"triage.state-{head.incident.state}"), inert(head.incident.owner, _NAME)
    cluster = f", {inert(head.cluster, _NAME // 4)}" if head.cluster else ""
    whose = [span(f", {say('triage.owner')} "), somebody(owner) if owner else span(say("triage.nobody"))]
    verdict = inert(one_line(say.words(head.cause.text), VERDICT_LIMIT), VERDICT_LIMIT)
    call = [span(", "), *next_part(head.call, say)] if head.call else []
    name = link(head.link, head.id) if head.link else span(head.id, "code")
    return [name, span(f" {state}{cluster}, {count_of(head, say)}"), *whose, *call, span(f": {verdict}")]


def render_news(news: News, say: Texts) -> Message:
    """A reply: what happened, by whom. Only calls are for the whole channel to see."""
    detail = news.detail
    by = [span(" ("), somebody(news.by), span(")")] if news.by else []
    if news.turn == "muted":
        until = read_until(detail)
        pieces = [span(f"{_who(news, say)} "), end_of(until, say)]
        text = told_mrkdwn(escape(f"{_who(news, say)} {end_in_words(until, say)}"))
        return Message(text, (rich_text(line(*pieces, *by)),))
    headline, whom = _who(news, say), ""
    if news.turn in CALLS:
        pieces = [callee(detail, say), span(f" {say(f'triage.{news.turn}')}")]
        whom = "" if detail.startswith(("C", "G")) else detail  # a channel is read, not called
    elif news.turn == "worse":
        headline += f": {_worse(detail, say)}"
        pieces = [span(headline)]
    elif news.turn == "unmuted" and detail:
        headline = f"{headline}: {say('triage.registered', node=inert(detail, _NAME))}"
        pieces = [span(headline)]
    elif news.turn == "handed-over":
        pieces, whom = [span(f"{headline} "), somebody(detail)], detail
    else:
        headline += f": {inert(detail, _LONGEST)}" if detail else ""
        pieces = [span(headline)]
    text = f"{escape(headline)} {mention(inert(whom, _NAME))}" if whom else escape(headline)
    return Message(text, (rich_text(line(*pieces, *by)),), broadcast=news.turn in CALLS)


def render_timeline(head: Head, happened: Sequence[TimelineEntry], summary: Summary, say: Texts) -> File:
    """The incident for a post-mortem, as Markdown: what was found, what happened when, in UTC, and its summary."""
    cause = head.cause
    rows = [
        f"# {_plain(one_line(say.words(cause.text), 300))}",
        "",
        f"- {say('triage.md-id')}: `{head.id}`",
        f"- {say('triage.cluster')}: {_plain(head.cluster) or '-'}",
        f"- {say('triage.md-cause')}: {_plain(cause.code) or '-'} ({cause.signature})",
        f"- {say('triage.md-scope')}: {_plain(count_of(head, say))}",
        f"- {say('triage.md-nodes')}: {_plain(', '.join(cause.nodes)) or '-'}",
        f"- {say('triage.md-alerts')}: {_plain(', '.join(head.names)) or '-'}",
        f"- {say('triage.md-owner')}: {_plain(head.incident.owner) or '-'}",
        "",
        f"| {say('triage.md-time')} | {say('triage.md-what')} | {say('triage.md-who')} | {say('triage.md-detail')} |",
        "|---|---|---|---|",
    ]
    for event in happened:
        what = say(f"triage.did-{event.news.turn}")
        detail = _plain(event.news.detail)
        if event.news.turn == "worse":
            detail = _plain(_worse(event.news.detail, say))
        if event.news.turn == "muted":
            detail = _plain(end_in_words(read_until(event.news.detail), say))
        rows.append(f"| {utc(event.at)} | {_plain(what)} | {_plain(event.news.by) or 'hami-bot'} | {detail} |")
    summed = summary_lines(head, summary, say)
    rows += ["", f"## {say('triage.summary')}", "", *("- " + "".join(map(_written, parts)) for parts in summed)]
    text = "\n".join([*rows, ""])
    return File(f"incident-{head.id}.md", text.encode("utf-8"), say("triage.md-title", id=head.id))


# ----------------------------------------------------------------------------------------------------- buttons


def read_button(text: str) -> str:
    """The incident that the button is of; empty if it is none of ours."""
    given = object_in(text) or {}
    found = given.get("incident")
    return found if given.get("v") == _VERSION and len(given) == 2 and isinstance(found, str) else ""


def form(deed: Deed, incident_id: str, channel: str, say: Texts, nodes: Sequence[str] = ()) -> blocks.Element:
    """The modal that asks for a note, to whom it is handed over, or until when it is muted: until one of `nodes` is
    registered, too. What is chosen there are words, as they would be typed.
    """
    if deed == "handover":
        asked = blocks.asking(say("triage.to-whom"), {"type": "users_select", "action_id": TEXT}, PERSON)
    elif deed == "mute":
        asked = blocks.asking(say("triage.how-long"), _mutes(nodes, say), MUTE)
    else:
        asked = blocks.asking(say("triage.note"), blocks.text_input(TEXT, multiline=True), NOTE)
    metadata = object_value({"v": _VERSION, "incident": incident_id, "deed": deed, "channel": channel})
    return blocks.modal(
        say(f"triage.button-{deed}"),
        [asked],
        close=say("desk.cancel"),
        submit=say(f"triage.button-{deed}"),
        callback_id=FORM,
        private_metadata=metadata,
    )


def _mutes(nodes: Sequence[str], say: Texts) -> blocks.Element:
    fitting = [node for node in nodes if len(node) < _OPTION // 2][:_SHOWN_NAMES]
    ends = [(f"until node {node} registers", MuteUntil(node=node)) for node in fitting]
    ends.append(("until gone", WHILE_IT_LASTS))
    offered = [(mute, mute) for mute in _MUTES]
    offered += [(words, say("triage.until", end=end_in_words(until, say))) for words, until in ends]
    options = [{"text": blocks.plain(text, _OPTION // 2), "value": words} for words, text in offered]
    return {"type": "radio_buttons", "action_id": TEXT, "options": options, "initial_option": options[0]}


def read_form(metadata: str) -> tuple[str, Deed, str] | None:
    """The incident, the deed and the channel of a form that was submitted; None if it is none of ours."""
    given = object_in(metadata) or {}
    names = [given.get(name) for name in ("incident", "deed", "channel")]
    if given.get("v") != _VERSION or not all(isinstance(name, str) for name in names) or names[1] not in BUTTONS:
        return None
    return str(names[0]), names[1], str(names[2])


def _worse(detail: str, say: Texts) -> str:
    """The severity that it has now, or the number of pods."""
    if detail in SEVERITIES:
        return say("triage.worse-severity", severity=say(f"render.{detail}"))
    return say("triage.worse-pods", pods=inert(detail, _NAME))


def _who(news: News, say: Texts) -> str:
    return say(f"triage.did-{news.turn}")


def _written(part: Part) -> str:
    """A part of rich text as Markdown: people and channels by id, times in UTC."""
    return _plain(next((part[key] for key in ("text", "user_id", "channel_id", "fallback") if part.get(key)), ""))


def _plain(text: str) -> str:
    """On one line of a table, without what Markdown or HTML would read."""
    shown = inert(text, _LONGEST)
    for acting in "\\`*_[]<>|#":
        shown = shown.replace(acting, f"\\{acting}")
    return shown
