"""What becomes of an incident: a state machine without a clock. Times are seconds since 1970.

    open -> acknowledged -> resolved -> open (its alerts came back in time), or ended
    open, acknowledged -> muted -> open; any -> closed by a person -> open (a new alert came, or the alerts were gone
    and came back in time), or ended

An incident that has ended is history: the same cause begins another.

While an incident is open, people are called one after the other (`next_call`). An acknowledgement that lapses, and a
cause that becomes worse than when somebody was last called or looked at it, open it again and call at once.

A mute ends at a time, with a node that is registered again, or with its cause (`MuteUntil`). Pagers are told when to
ring, that somebody looks after the incident, and that it is over (`pages`).
"""

from typing import Literal, NamedTuple

import msgspec

from bot.report import SEVERITIES, Severity
from bot.triage.hours import Hours, within

State = Literal["open", "acknowledged", "muted", "resolved", "closed"]
Deed = Literal["ack", "take", "handover", "mute", "unmute", "note", "close"]
Turn = Literal[
    "opened", "acknowledged", "taken", "handed-over", "muted", "unmuted", "noted", "closed", "resolved", "reopened",
    "renewed", "called", "last-resort", "lapsed", "worse", "paged", "unpaged", "unheard", "unwatched", "node-gone",
    "change-asked", "profile-taken",
]  # fmt: skip
CALLS: frozenset[Turn] = frozenset({"called", "last-resort"})
"""Turns of an incident by which somebody is called: the whole channel is to see their messages."""
PAGER = "pager"
"""Stands in place of a person in the order of calls, where there is no rota and only the pagers are called."""
WORSE = 10
"""The factor by which an incident's pods have to grow before somebody is called again."""

_NODE = "node "


class MuteUntil(msgspec.Struct, frozen=True):
    """When a mute ends: `at` (unix seconds), or when `node` registers again or is gone; else with its cause."""

    at: float = 0.0
    node: str = ""


WHILE_IT_LASTS = MuteUntil()
"""A mute that ends with its cause, which is new when it comes again."""


class Nodes(NamedTuple):
    """Nodes just read from the cluster: those that are registered, and those that no longer exist."""

    registered: frozenset[str] = frozenset()
    gone: frozenset[str] = frozenset()


NO_NODES = Nodes()


def write_until(until: MuteUntil) -> str:
    """The mute's end as text, for the detail of an event; `read_until` reads it."""
    return f"{until.at:.0f}" if until.at else f"{_NODE}{until.node}" if until.node else ""


def read_until(detail: str) -> MuteUntil:
    """The mute's end in a text that `write_until` wrote."""
    if detail.startswith(_NODE):
        return MuteUntil(node=detail.removeprefix(_NODE))
    return MuteUntil(float(detail)) if detail else WHILE_IT_LASTS


class Incident(msgspec.Struct, frozen=True):
    """The state of an incident. `since` is when the state began. `quiet_since`: since when nothing fires, 0 while
    something does. `muted_until` counts only while it is muted. `called` are those called in this round, the last at
    `called_at`; with `soon` the first call waits for nothing. `severity` and `pods` are what they were when somebody
    was last called or looked at it: empty until then, and right after. `page` counts the times that the pagers were
    called, and `paged` are those that may still ring.
    """

    state: State
    since: float
    owner: str = ""
    quiet_since: float = 0.0
    muted_until: MuteUntil = WHILE_IT_LASTS
    called: tuple[str, ...] = ()
    called_at: float = 0.0
    ended: bool = False
    soon: bool = False
    severity: Severity | Literal[""] = ""
    pods: int = 0
    page: int = 0
    paged: tuple[str, ...] = ()

    @property
    def is_open(self) -> bool:
        """Whether somebody may still have to do something about the incident."""
        return not self.ended and self.state not in ("resolved", "closed")


class Extent(NamedTuple):
    """How bad an incident is: the severest of finding and alerts, and how many pods, or else firing alerts, it has."""

    severity: Severity = "warning"
    pods: int = 0


ORDINARY = Extent()


class IncidentTimes(msgspec.Struct, frozen=True):
    """The settings of incidents, in seconds: how long a cause must be gone to count as resolved (`settled_s`), how long
    after that it is the same incident that comes back (`reopen_s`), how long an open one waits for somebody before the
    next of the rota is called (`call_s`, 0: nobody ever is), and how long Alertmanager may be silent about an alert
    that fires (`silent_s`, 0: without limit; it repeats what fires each `repeat_interval`, 4 h unless it is set).
    `last_resort` is called after the rota; `repeat_s` after that the round begins again, and `lapse_s` after an
    acknowledgement (0: never). Outside `hours` (None: always) only what is critical calls, with `critical_at_once`
    without waiting. What is info calls nobody. `pagers` are called with the first of each round.
    """

    settled_s: float = 300.0
    reopen_s: float = 3600.0
    call_s: float = 900.0
    rota: tuple[str, ...] = ()
    silent_s: float = 86400.0
    last_resort: str = ""
    repeat_s: float = 0.0
    lapse_s: float = 0.0
    hours: Hours | None = None
    critical_at_once: bool = False
    pagers: tuple[str, ...] = ()

    @property
    def order(self) -> tuple[str, ...]:
        """Who is called, in this order; nobody where escalation is turned off."""
        if self.call_s <= 0:
            return ()
        first = self.rota or ((PAGER,) if self.pagers else ())
        return tuple(dict.fromkeys(filter(None, (*first, self.last_resort))))


class Act(NamedTuple):
    """What a person does to an incident. `text` is a note's, `to` the person it is handed to, `until` a mute's end."""

    deed: Deed
    by: str
    at: float
    text: str = ""
    to: str = ""
    until: MuteUntil = WHILE_IT_LASTS


class News(NamedTuple):
    """An event of an incident: what happened, who did it (empty: it happened by itself), and a detail."""

    turn: Turn
    by: str = ""
    detail: str = ""


class Step(NamedTuple):
    """A step of an incident: the incident after it, and the events to tell; none where nothing happened."""

    incident: Incident
    news: tuple[News, ...] = ()


def new_incident(at: float) -> Incident:
    """A new incident, which opens at `at`."""
    return Incident("open", at)


def act(incident: Incident, done: Act) -> Step | str:
    """The step that a person's act makes, or why there is none: `ended`, `resolved`, `closed`, `unmuted` or `same`."""
    if done.deed == "note":
        return Step(incident, (News("noted", done.by, done.text),))
    if incident.ended:
        return "ended"
    if incident.state == "closed":
        return "closed"
    if done.deed == "close":
        return Step(_into(incident, "closed", done.at), (News("closed", done.by, done.text),))
    if incident.state == "resolved":
        return "resolved"
    owner = incident.owner or done.by
    match done.deed:
        case "ack" if incident.state == "acknowledged":
            return "same"
        case "ack":
            return Step(_into(incident, "acknowledged", done.at, owner=owner), (News("acknowledged", done.by),))
        case "unmute" if incident.state != "muted":
            return "unmuted"
        case "unmute":
            return Step(_into(incident, "acknowledged", done.at, owner=owner), (News("unmuted", done.by),))
        case "take" if incident.owner == done.by and incident.state == "acknowledged":
            return "same"
        case "take":
            return Step(_into(incident, "acknowledged", done.at, owner=done.by), (News("taken", done.by),))
        case "handover":
            after = _into(incident, "acknowledged", done.at, owner=done.to)
            return Step(after, (News("handed-over", done.by, done.to),))
        case _:
            after = msgspec.structs.replace(_into(incident, "muted", done.at, owner=owner), muted_until=done.until)
            return Step(after, (News("muted", done.by, write_until(done.until)),))


def join_alert(incident: Incident, at: float, alert: str) -> Step:
    """The step when another `alert` of the cause fires, first heard of at `at`: it opens a closed incident again."""
    if incident.state != "closed" or incident.ended or at <= incident.since:
        return Step(incident)
    return Step(msgspec.structs.replace(_anew(incident, at), quiet_since=0.0), (News("renewed", detail=alert),))


def pass_time(
    incident: Incident,
    at: float,
    terms: IncidentTimes,
    *,
    firing: bool,
    nodes: Nodes = NO_NODES,
    extent: Extent = ORDINARY,
) -> Step:
    """The step that time makes, given whether anything fires, how bad it is, and `nodes`; twice at `at` is as once."""
    if incident.ended:
        return Step(incident)
    if not firing:
        now = msgspec.structs.replace(incident, quiet_since=incident.quiet_since or at)
        if now.state not in ("resolved", "closed"):
            gone = at - now.quiet_since >= terms.settled_s
            return Step(_into(now, "resolved", at), (News("resolved"),)) if gone else Step(now)
        over = at - max(now.since, now.quiet_since) >= terms.reopen_s
        return Step(msgspec.structs.replace(now, ended=over))
    return _call(_firing(incident, at, terms, nodes, extent), at, terms, extent)


class Call(NamedTuple):
    """The next call: who is called, empty where everybody was, and when at the earliest."""

    whom: str
    at: float


def next_call(incident: Incident, terms: IncidentTimes, *, firing: bool, extent: Extent = ORDINARY) -> Call | None:
    """The call that comes next if nothing changes; None where no call will come."""
    order = terms.order
    if not firing or incident.ended or extent.severity == "info" or not order:
        return None
    match incident.state:
        case "open":
            due = _next_of_round(incident, terms, extent)
        case "acknowledged" if terms.lapse_s > 0:
            due = Call(order[0], incident.since + terms.lapse_s)
        case _:
            return None
    return due if extent.severity == "critical" else due._replace(at=within(terms.hours, due.at))


def _next_of_round(incident: Incident, terms: IncidentTimes, extent: Extent) -> Call:
    waits = max(incident.since, incident.called_at) + terms.call_s
    whom = next((person for person in terms.order if person not in incident.called), "")
    if not incident.called:
        at_once = incident.soon or (extent.severity == "critical" and terms.critical_at_once)
        return Call(whom, incident.since if at_once else waits)
    if not whom and terms.repeat_s > 0:
        return Call(terms.order[0], max(waits, incident.called_at + terms.repeat_s))
    return Call(whom, waits)


def _firing(incident: Incident, at: float, terms: IncidentTimes, nodes: Nodes, extent: Extent) -> Step:
    was_gone = incident.quiet_since > 0
    now = msgspec.structs.replace(incident, quiet_since=0.0)
    if now.state == "resolved" or (now.state == "closed" and was_gone):
        return Step(_anew(now, at), (News("reopened"),))
    until, node = now.muted_until.at, now.muted_until.node
    if now.state == "muted" and ((until and at >= until) or node in nodes.registered | nodes.gone):
        return Step(_anew(now, at), (News("node-gone" if node in nodes.gone else "unmuted", detail=node),))
    if worse := _worse(now, terms, extent):
        return Step(msgspec.structs.replace(_anew(now, at), soon=True), (News("worse", detail=worse),))
    due = next_call(now, terms, firing=True, extent=extent)
    if now.state == "acknowledged" and due and at >= due.at:
        return Step(msgspec.structs.replace(_anew(now, at), soon=True), (News("lapsed"),))
    if _is_looked_at(now) and not now.severity:
        return Step(msgspec.structs.replace(now, severity=extent.severity, pods=extent.pods))
    return Step(now)


def _is_looked_at(incident: Incident) -> bool:
    return incident.state in ("acknowledged", "muted") or (incident.state == "open" and bool(incident.called))


def _worse(incident: Incident, terms: IncidentTimes, extent: Extent) -> str:
    """The severity or the number of pods by which it became worse, where that calls somebody; else empty."""
    if not incident.severity or not _is_looked_at(incident) or extent.severity == "info" or not terms.order:
        return ""
    if SEVERITIES.index(extent.severity) > SEVERITIES.index(incident.severity):
        return extent.severity
    return str(extent.pods) if extent.pods >= WORSE * max(incident.pods, 1) else ""


def _call(step: Step, at: float, terms: IncidentTimes, extent: Extent) -> Step:
    now = step.incident
    due = next_call(now, terms, firing=True, extent=extent) if now.state == "open" else None
    if due is None or not due.whom or at < due.at:
        return step
    before = () if due.whom in now.called else now.called  # else a round begins again
    called = msgspec.structs.replace(
        now, called=(*before, due.whom), called_at=at, soon=False, severity=extent.severity, pods=extent.pods
    )
    news = list(step.news)
    if terms.pagers and not before:
        called = msgspec.structs.replace(called, page=now.page + 1, paged=terms.pagers)
        news.append(News("paged", detail=", ".join(terms.pagers)))
    if due.whom != PAGER:
        news.append(News("called" if due.whom in terms.rota else "last-resort", detail=due.whom))
    return Step(called, tuple(news))


def _into(incident: Incident, state: State, at: float, *, owner: str | None = None) -> Incident:
    kept = incident.owner if owner is None else owner
    paged = () if state in ("resolved", "closed") else incident.paged
    return msgspec.structs.replace(
        incident,
        state=state,
        since=at,
        owner=kept,
        muted_until=WHILE_IT_LASTS,
        soon=False,
        severity="",
        pods=0,
        paged=paged,
    )


def _anew(incident: Incident, at: float) -> Incident:
    """The incident open again: whoever owned it still does, but nobody has said that they saw it."""
    return msgspec.structs.replace(_into(incident, "open", at), called=(), called_at=0.0)


Action = Literal["trigger", "acknowledge", "resolve"]
_ACTIONS: dict[Turn, Action] = {
    "paged": "trigger",
    "acknowledged": "acknowledge",
    "taken": "acknowledge",
    "handed-over": "acknowledge",
    "muted": "acknowledge",
    "resolved": "resolve",
    "closed": "resolve",
}


class Page(NamedTuple):
    """What one pager is to be told, by the key that names the page there (`key_of`), and who did it, or empty."""

    service: str
    key: str
    action: Action
    by: str = ""


def key_of(incident_id: str, page: int) -> str:
    """The deduplication key of an incident's page, another for each page: an acknowledged one does not ring again."""
    return incident_id if page <= 1 else f"{incident_id}.{page}"


def incident_of(key: str) -> str:
    """The id of the incident whose page has this key."""
    return key.partition(".")[0]


def pages(incident_id: str, before: Incident, step: Step, knows: str = "") -> list[Page]:
    """The pages that the step makes, in order; no ack or end for the pager `knows`, which reported the step itself."""
    found: list[Page] = []
    for news in step.news:
        action = _ACTIONS.get(news.turn)
        if action == "trigger":
            earlier = key_of(incident_id, before.page)
            found += [Page(service, earlier, "resolve") for service in before.paged]
            key = key_of(incident_id, step.incident.page)
            found += [Page(service, key, action) for service in step.incident.paged]
        elif action:
            key = key_of(incident_id, before.page)
            found += [Page(service, key, action, news.by) for service in before.paged if service != knows]
    return found
