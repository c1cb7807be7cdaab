"""The head of a triage thread, short enough for a phone at night: the verdict, facts, whom the bot calls, the first
next step, buttons. Facts that do not fit are in `details`, for the thread's evidence. The head of a thread that gathers
the alerts of many causes has a line for each alert name, with a menu that opens a thread for one.
"""

import hashlib
from collections.abc import Mapping, Sequence

import msgspec

from bot.render.words import MARKS, SEVERITIES, names_told, step_label
from bot.report import VERDICT_LIMIT, Severity
from bot.slack.message import Block
from bot.slack.render import blocks
from bot.slack.render.blocks import Pressed, value_of
from bot.slack.render.text import (
    Part,
    bullets,
    channel,
    escape,
    in_one_line,
    inert,
    line,
    lines,
    link,
    moment,
    pieced,
    rich_text,
    somebody,
    span,
    utc,
)
from bot.texts import Prose, Text, listed, stored_text, together
from bot.triage.cause import STORM, Cause, severest
from bot.triage.state import PAGER, Call, Deed, Incident, MuteUntil, State
from bot.triage.summary import Counts

ACT, OPEN, REMIND = "triage:", "triage-open-cause", "triage-remind"
BUTTONS: tuple[Deed, ...] = ("ack", "take", "note", "handover", "mute", "close")
_NAME, _PLACE, _STEP = 200, 60, 160
_OVER = "✅"
_NAMES_IN_HEAD, _NAMES_IN_DETAILS = 2, 10
_ALERTS_SHOWN, _OPTIONS, _ALERT_NAME, _OPTION = 15, 25, 60, 75
_WHOM = 50
_UNKNOWN = "?"
"""Stands for the person whom PagerDuty has on call, until that was asked."""
_LIST = 150
"""The longest list in the details, in characters: they stand below an answer that has most of a message's room."""
STATE: Mapping[State, Text] = {
    "open": Text("triage.state-open"),
    "acknowledged": Text("triage.did-acknowledged"),
    "muted": Text("triage.state-muted"),
    "resolved": Text("triage.state-resolved"),
    "closed": Text("triage.did-closed"),
}
LABELS: Mapping[Deed, Text] = {
    "ack": Text("triage.button-ack"),
    "take": Text("triage.button-take"),
    "handover": Text("triage.button-handover"),
    "mute": Text("triage.button-mute"),
    "unmute": Text("triage.button-unmute"),
    "note": Text("triage.did-noted"),
    "close": Text("triage.button-close"),
}
_LIKELY: dict[str, tuple[Deed, ...]] = {
    "open": BUTTONS,
    "acknowledged": ("note", "take", "handover", "mute", "close"),
    "muted": ("unmute", *BUTTONS[1:]),  # to lift a mute is to acknowledge
    "resolved": ("note", "close"),
    "closed": (),
}
"""What can be done in each state; what is likely to be done next comes first and is highlighted."""


class Head(msgspec.Struct, frozen=True):
    """What a head tells. `counts` are of its alerts, which count themselves where they name neither pods nor nodes.
    `call` is the call to come. In a list, `link` leads to the thread, and is empty where that is not known.
    """

    id: str
    cluster: str
    cause: Cause
    incident: Incident
    counts: Counts
    opened_at: float
    call: Call | None = None
    link: str = ""

    @property
    def severity(self) -> Severity:
        """The highest severity of the cause and the labels of its alerts."""
        return severest(self.cause.severity, self.counts.severities)


def render_head(head: Head) -> blocks.Draft:
    """The head of an incident's thread, in its present state."""
    state, severity = STATE[head.incident.state], SEVERITIES[head.severity]
    mark = _OVER if head.incident.state in ("resolved", "closed") else MARKS[head.severity]
    verdict = in_one_line(head.cause.text, VERDICT_LIMIT)
    whom = head.counts.subjects or head.cause.nodes
    if whom and whom[0] not in names_told(head.cause.text):
        verdict = together(_some(whom, 1), verdict, by=": ")
    title = Text("triage.title", mark=mark, state=state, severity=severity, verdict=verdict)
    parts = [line(span(inert(title, 3 * _NAME), "bold")), *(line(*fact) for fact in _facts(head))]
    built: list[Block] = [
        rich_text(*parts),
        *(gathered(head.id, head.counts.by_name) if head.cause.code == STORM else ()),
    ]
    if buttons := _buttons(head):
        built.append(blocks.actions(*buttons))
    key = "triage.small-print-closed" if head.incident.state == "closed" else "triage.small-print"
    finding = f", {inert(head.cause.code, _PLACE)}" if head.cause.code else ""
    built.append(blocks.context(Text(key, id=head.id, finding=finding)))
    return blocks.Draft(lines([escape(title, 3 * _NAME), escape(count_of(head), _NAME)]), tuple(built))


def count_of(head: Head) -> Text:
    """How many pods, or else nodes, or else alerts an incident has, and how many of them are still affected."""
    counts = head.counts
    alerts = Text("triage.one-alert") if counts.alerts == 1 else Text("triage.some-alerts", count=counts.alerts)
    if counts.pods:
        key = "triage.count" if counts.pods_firing else "triage.count-gone"
        return Text(key, firing=counts.pods_firing, total=counts.pods, alerts=alerts)
    if counts.nodes:
        key = "triage.count-nodes" if counts.nodes_firing else "triage.count-nodes-gone"
        return Text(key, firing=counts.nodes_firing, total=counts.nodes, alerts=alerts)
    if head.cause.code:
        return alerts
    return Text("triage.count-alert") if counts.alerts == 1 else Text("triage.count-alerts", count=counts.alerts)


def details(head: Head) -> list[Block]:
    """Facts that the head has no room for, as they were when the evidence was found; empty if there are no more."""
    cause = head.cause
    rows: list[list[Part]] = []
    named = (
        (Text("triage.pods"), head.counts.subjects, 1),
        (Text("triage.namespaces"), head.counts.namespaces, _NAMES_IN_HEAD),
        (Text("table.nodes"), cause.nodes, _NAMES_IN_HEAD),
        (Text("triage.alerts"), head.counts.names, _NAMES_IN_HEAD),
        (Text("triage.labels"), cause.labels, 0),
    )
    for what, names, seen in named:
        if len(names) > seen:
            shown = inert(_some(names, _NAMES_IN_DETAILS), _LIST)
            rows.append([span(pieced("{} ", what)), span(shown, "code")])
    if cause.gpu:
        rows.append([span(inert(stored_text("triage.on-gpu", cause.gpu), _LIST))])
    if head.counts.severities:
        rows.append([span(pieced("{} {}", Text("triage.severity"), inert(listed(head.counts.severities), _PLACE)))])
    rows += [[span(pieced("{} ", Text("triage.runbook"))), link(url)] for url in head.counts.runbooks[1:2]]
    return [rich_text(bullets(*(line(*parts) for parts in rows)))] if rows else []


def in_short(head: Head) -> list[Part]:
    """The incident as one line of a list, which begins with its id."""
    state, owner = STATE[head.incident.state], inert(head.incident.owner, _NAME)
    cluster = f", {inert(head.cluster, _NAME // 4)}" if head.cluster else ""
    whose = [span(pieced(", {} ", Text("triage.owner"))), somebody(owner) if owner else span(Text("triage.nobody"))]
    verdict = inert(in_one_line(head.cause.text, VERDICT_LIMIT), VERDICT_LIMIT)
    call = [span(", "), *next_part(head.call)] if head.call else []
    name = link(head.link, head.id) if head.link else span(head.id, "code")
    return [
        name,
        span(pieced(" {}{}, {}", state, cluster, count_of(head))),
        *whose,
        *call,
        span(pieced(": {}", verdict)),
    ]


def end_of(until: MuteUntil) -> Part:
    """When a mute ends, as rich text; a time in the reader's own zone."""
    return moment(until.at) if until.at else span(end_in_words(until))


def end_in_words(until: MuteUntil) -> Prose:
    """When a mute ends, as text; a time in UTC."""
    if until.at:
        return utc(until.at)
    node = inert(until.node, _NAME)
    return Text("triage.until-registered", node=node) if node else Text("triage.while-it-lasts")


# ------------------------------------------------------------------------------------------------------- facts


def _facts(head: Head) -> list[list[Part]]:
    """The head's facts: count and place, alert, owner and since when, who was and is called, cluster, first step."""
    facts = [_where(head), _alert(head), _whose(head)]
    calls: list[Part] = []
    if head.incident.called:
        calls.append(span(pieced("{} ", Text("triage.were-called"))))
        for number, who in enumerate(head.incident.called[-5:]):
            calls += [*([span(", ")] if number else []), callee(who)]
    if head.call is not None:
        calls += [*([span(" · ")] if calls else []), *next_part(head.call)]
    facts += [calls] if calls else []
    if head.cluster:
        facts.append([span(pieced("{} {}", Text("triage.cluster"), inert(head.cluster, _PLACE)))])
    return [*facts, *_step(head.cause)]


def _where(head: Head) -> list[Part]:
    parts = [span(inert(count_of(head), _NAME))]
    pods = head.counts.subjects if len(head.counts.subjects) == 1 else head.counts.namespaces
    for joint, names in ((Text("triage.in"), pods), (Text("triage.on"), head.cause.nodes)):
        if names:
            shown = inert(_some(names, _NAMES_IN_HEAD), _PLACE)
            parts += [span(pieced(" {} ", joint)), span(shown, "code")]
    return parts


def _alert(head: Head) -> list[Part]:
    parts = [
        span(
            pieced("{} {}", Text("triage.alert"), inert(_some(head.counts.names or ("-",), _NAMES_IN_HEAD), _NAME // 2))
        )
    ]
    runbook = next(iter(head.counts.runbooks), "")
    for what, url in ((Text("triage.graph"), head.cause.graph), (Text("triage.runbook"), runbook)):
        if url:
            parts += [span(" · "), link(url, what)]
    if head.counts.cut:
        parts.append(span(pieced(" · {}", Text("triage.cut", count=head.counts.cut))))
    return parts


def _whose(head: Head) -> list[Part]:
    owner = inert(head.incident.owner, _PLACE)
    parts = [span(pieced("{} ", Text("triage.owner"))), somebody(owner) if owner else span(Text("triage.nobody"))]
    parts += [span(pieced(" · {} ", Text("triage.since"))), moment(head.opened_at)]
    if head.incident.state == "muted":
        parts += [span(pieced(" · {} ", Text("triage.muted"))), end_of(head.incident.muted_until)]
    return parts


def _step(cause: Cause) -> list[list[Part]]:
    """The first next step. A command for a shell is in the evidence, where it can be copied."""
    if cause.why_not:
        return [[span(Text("triage.why-not", why=inert(cause.why_not, _NAME)))]]
    if cause.step is None or not (cause.step.key or cause.step.label.strip()):
        return []
    label = step_label(cause.step, inert(cause.step.alone, _STEP), shown=False)
    parts = [span(pieced("{} ", Text("triage.next")), "bold"), span(label)]
    if cause.step.is_ours and len(cause.step.command) <= _STEP:
        parts += [span(": "), span(inert(cause.step.command, _STEP), "code")]
    return [parts]


def _some(names: Sequence[str], most: int) -> Text:
    return listed([*names[:most], *([f"+{len(names) - most}"] if len(names) > most else [])])


# ----------------------------------------------------------------------------------------------------- buttons


class ReminderChoice(Pressed, frozen=True):
    """The values of the menu *Remind me*: the incident, and the words for when."""

    incident: str
    when: str


_REMINDERS: Mapping[str, Text] = {
    "30m": Text("triage.remind-soon"),
    "1h": Text("triage.remind-hour"),
    "tomorrow": Text("triage.remind-morning"),
}


def render_reminder(user: str, state: State) -> blocks.Draft:
    """The reminder that a person gets in the thread when the time has come."""
    told = Text("triage.reminder", state=STATE[state])
    return blocks.Draft(escape(told), (rich_text(line(somebody(user), span(pieced(" {}", told)))),))


class IncidentButton(Pressed, frozen=True):
    """The values of a head's button: enough to act, whatever the bot forgot meanwhile."""

    incident: str


def _buttons(head: Head) -> list[blocks.Element]:
    value, question = value_of(IncidentButton(head.id)), Text("triage.sure-close")
    if not head.incident.quiet_since:
        question = Text("triage.sure-close-firing", count=inert(count_of(head), _NAME))
    sure = blocks.confirm(Text("triage.close-this"), question, LABELS["close"])
    choices = [(label, ReminderChoice(head.id, when)) for when, label in _REMINDERS.items()]
    menu = _menu(REMIND, Text("triage.remind"), choices)
    buttons = [
        blocks.button(
            LABELS[deed],
            f"{ACT}{deed}",
            value,
            style="primary" if number == 0 else "",
            confirm=sure if deed == "close" else None,
        )
        for number, deed in enumerate(_LIKELY[head.incident.state])
    ]
    return [*buttons, menu] if head.incident.is_open else buttons


# --------------------------------------------------------------------------------------------------- who is called


def callee(who: str) -> Part:
    """The person, user group or channel that is called, as rich text that notifies them where it is posted."""
    if who == _UNKNOWN:
        return span(Text("triage.on-call"))
    if who == PAGER:
        return span(Text("triage.pager"))
    shown = inert(who, _WHOM)
    return channel(shown) if who.startswith(("C", "G")) else somebody(shown)


def next_part(call: Call) -> list[Part]:
    """Who is called next and when, or that everybody was called."""
    if not call.whom:
        return [span(Text("triage.all-called"))]
    return [span(pieced("{} ", Text("triage.next-call"))), callee(call.whom), span(" "), moment(call.at)]


def render_last_resort(incident_id: str, claim: Prose, url: str) -> blocks.Draft:
    """The message outside the thread to the channel or the person of last resort."""
    headline = Text("triage.last-resort-told", id=incident_id)
    verdict = in_one_line(claim, VERDICT_LIMIT)
    pieces = [span(pieced("{} {}", headline, inert(verdict, VERDICT_LIMIT)), "bold")]
    if url:
        pieces += [span(" "), link(url, Text("triage.to-thread"))]
    return blocks.Draft(escape(pieced("{} {}", headline, verdict)), (rich_text(line(*pieces)),))


# ---------------------------------------------------------------------------------------------- alerts of many causes


class CauseChoice(Pressed, frozen=True):
    """The values of the menu that opens a thread for one alert name: the incident, and the name's `digest_of`."""

    incident: str
    name: str


def gathered(incident_id: str, by_name: Sequence[tuple[str, int, int]]) -> list[Block]:
    """A line for each alert name, those of which most fire first, and the menu with the names that fire."""
    shown = [
        line(span(Text("triage.storm-row", name=inert(name, _ALERT_NAME) or "-", firing=firing, total=total)))
        for name, firing, total in by_name[:_ALERTS_SHOWN]
    ]
    if more := len(by_name) - _ALERTS_SHOWN:
        shown += [line(span(Text("triage.storm-more", count=more)))] if more > 0 else []
    firing = [alert for alert in by_name if alert[1]][:_OPTIONS]
    built = [rich_text(bullets(*shown))] if shown else []
    if firing:
        choices = [(name, CauseChoice(incident_id, digest_of(name))) for name, _, _ in firing]
        built.append(blocks.actions(_menu(OPEN, Text("triage.storm-open"), choices)))
    return built


def _menu(action_id: str, title: Text, choices: Sequence[tuple[Prose, Pressed]]) -> blocks.Element:
    options = [{"text": blocks.plain(label, _OPTION), "value": value_of(choice)} for label, choice in choices]
    placeholder = blocks.plain(title, _OPTION)
    return {"type": "static_select", "action_id": action_id, "options": options, "placeholder": placeholder}


def digest_of(name: str) -> str:
    """The short digest that stands for an alert's name in the menu, which has no room for a long one."""
    return hashlib.sha256(name.encode(errors="replace")).hexdigest()[:16]
