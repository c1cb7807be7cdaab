"""Who was called for an incident, who is next, and what a last resort is told."""

from collections.abc import Sequence

from bot.report import VERDICT_LIMIT, one_line
from bot.slack.message import Message
from bot.slack.render.rich import Part, channel, line, link, moment, rich_text, somebody, span
from bot.slack.render.text import escape, inert
from bot.texts import Texts
from bot.triage.state import PAGER, Call, Incident

_ID = 50
_UNKNOWN = "?"
"""Who PagerDuty has on call, while that was not asked yet."""


def callee(who: str, say: Texts) -> Part:
    """A person, user group or channel by id, which calls them where it is posted."""
    if who == _UNKNOWN:
        return span(say("triage.on-call"))
    if who == PAGER:
        return span(say("triage.pager"))
    shown = inert(who, _ID)
    return channel(shown) if who.startswith(("C", "G")) else somebody(shown)


def calling_nobody(parts: Sequence[Part], say: Texts) -> list[Part]:
    """The same with people and user groups by their id alone, which calls nobody."""
    silent: list[Part] = []
    for part in parts:
        if part["type"] == "user":
            silent.append(span(part["user_id"]))
        elif part["type"] == "usergroup":
            silent.append(span(say("triage.summary-group", id=part["usergroup_id"])))
        else:
            within = {"elements": calling_nobody(part["elements"], say)} if "elements" in part else {}
            silent.append({**part, **within})
    return silent


def call_facts(incident: Incident, call: Call | None, say: Texts) -> list[Part]:
    """One line of a head: who was called and who is next; nothing where there is neither."""
    parts: list[Part] = []
    if incident.called:
        parts.append(span(f"{say('triage.were-called')} "))
        for number, who in enumerate(incident.called[-5:]):
            parts += [span(", ")] if number else []
            parts.append(callee(who, say))
    if call is not None:
        parts += [span(" · ")] if parts else []
        parts += next_part(call, say)
    return parts


def next_part(call: Call, say: Texts) -> list[Part]:
    """Who is called next and when, or that everybody was."""
    if not call.whom:
        return [span(say("triage.all-called"))]
    return [span(f"{say('triage.next-call')} "), callee(call.whom, say), span(" "), moment(call.at)]


def render_last_resort(incident_id: str, claim: str, url: str, say: Texts) -> Message:
    """What the channel or the person of last resort reads outside the thread."""
    headline = say("triage.last-resort-told", id=incident_id)
    verdict = inert(one_line(claim, VERDICT_LIMIT), VERDICT_LIMIT)
    pieces = [span(f"{headline} {verdict}", "bold")]
    if url:
        pieces += [span(" "), link(url, say("triage.to-thread"))]
    return Message(escape(f"{headline} {one_line(claim, VERDICT_LIMIT)}"), (rich_text(line(*pieces)),))
