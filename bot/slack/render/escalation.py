"""Who was called for an incident, who is next, and what a last resort is told."""

from collections.abc import Sequence

from bot.report import VERDICT_LIMIT
from bot.slack.render.blocks import Draft
from bot.slack.render.rich import Part, channel, line, link, moment, rich_text, somebody, span
from bot.slack.render.text import escape, in_one_line, inert, pieced
from bot.texts import Prose, Text
from bot.triage.state import PAGER, Call, Incident

_ID = 50
_UNKNOWN = "?"
"""Who PagerDuty has on call, while that was not asked yet."""


def callee(who: str) -> Part:
    """A person, user group or channel by id, which calls them where it is posted."""
    if who == _UNKNOWN:
        return span(Text("triage.on-call"))
    if who == PAGER:
        return span(Text("triage.pager"))
    shown = inert(who, _ID)
    return channel(shown) if who.startswith(("C", "G")) else somebody(shown)


def calling_nobody(parts: Sequence[Part]) -> list[Part]:
    """The same with people and user groups by their id alone, which calls nobody."""
    silent: list[Part] = []
    for part in parts:
        if part["type"] == "user":
            silent.append(span(part["user_id"]))
        elif part["type"] == "usergroup":
            silent.append(span(Text("triage.summary-group", id=part["usergroup_id"])))
        else:
            within = {"elements": calling_nobody(part["elements"])} if "elements" in part else {}
            silent.append({**part, **within})
    return silent


def call_facts(incident: Incident, call: Call | None) -> list[Part]:
    """One line of a head: who was called and who is next; nothing where there is neither."""
    parts: list[Part] = []
    if incident.called:
        parts.append(span(pieced("{} ", Text("triage.were-called"))))
        for number, who in enumerate(incident.called[-5:]):
            parts += [span(", ")] if number else []
            parts.append(callee(who))
    if call is not None:
        parts += [span(" · ")] if parts else []
        parts += next_part(call)
    return parts


def next_part(call: Call) -> list[Part]:
    """Who is called next and when, or that everybody was."""
    if not call.whom:
        return [span(Text("triage.all-called"))]
    return [span(pieced("{} ", Text("triage.next-call"))), callee(call.whom), span(" "), moment(call.at)]


def render_last_resort(incident_id: str, claim: Prose, url: str) -> Draft:
    """What the channel or the person of last resort reads outside the thread."""
    headline = Text("triage.last-resort-told", id=incident_id)
    verdict = in_one_line(claim, VERDICT_LIMIT)
    pieces = [span(pieced("{} {}", headline, inert(verdict, VERDICT_LIMIT)), "bold")]
    if url:
        pieces += [span(" "), link(url, Text("triage.to-thread"))]
    return Draft(escape(pieced("{} {}", headline, verdict)), (rich_text(line(*pieces)),))
