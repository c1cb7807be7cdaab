"""What becomes of an incident: a state machine without a clock. Times are seconds since 1970.

    open -> acknowledged -> resolved -> open (it came back in time), or ended
    open, acknowledged -> muted -> open; any -> closed by a person -> open (a new alert of it came, or it was gone and
    came back in time), or ended

One that has ended is history: the same cause begins another.
"""

from typing import Literal, NamedTuple

import msgspec

from bot.triage.mute import UNSEEN, WHILE_IT_LASTS, Nodes, Until, is_over, written

State = Literal["open", "acknowledged", "muted", "resolved", "closed"]
Deed = Literal["ack", "take", "handover", "mute", "unmute", "note", "close"]
Turn = Literal[
    "opened", "acknowledged", "taken", "handed-over", "muted", "unmuted", "noted", "closed", "resolved", "reopened",
    "renewed", "called", "unheard", "unwatched", "node-gone",
]  # fmt: skip


class Incident(msgspec.Struct, frozen=True):
    """`since` is when the state began. `quiet_since`: since when nothing fires, 0 while something does.

    `muted_until` is meant while it is muted. `called` are those who were since it was opened, the last at `called_at`.
    """

    state: State
    since: float
    owner: str = ""
    quiet_since: float = 0.0
    muted_until: Until = WHILE_IT_LASTS
    called: tuple[str, ...] = ()
    called_at: float = 0.0
    ended: bool = False

    @property
    def is_open(self) -> bool:
        """Whether somebody may still have to do something about it."""
        return not self.ended and self.state not in ("resolved", "closed")


class Terms(NamedTuple):
    """In seconds: how long a cause must be gone to count as resolved, how long after that it is the same incident that
    comes back, how long an open one waits for somebody before the next of the rota is called (0: nobody ever is), and
    how long Alertmanager may be silent about an alert that fires (0: for ever). It repeats what fires each
    `repeat_interval`, which is 4 h unless somebody set it, and 12 h in kube-prometheus-stack.
    """

    settled_s: float = 300.0
    reopen_s: float = 3600.0
    call_s: float = 900.0
    rota: tuple[str, ...] = ()
    silent_s: float = 86400.0


class Act(NamedTuple):
    """What a person does. `text` is a note's, `to` to whom it is handed, `until` of a mute."""

    deed: Deed
    by: str
    at: float
    text: str = ""
    to: str = ""
    until: Until = WHILE_IT_LASTS


class News(NamedTuple):
    """Something to tell: what happened, who did it (empty: it happened by itself), and a detail."""

    turn: Turn
    by: str = ""
    detail: str = ""


class Step(NamedTuple):
    """The incident after it, and what is to be told; nothing where nothing happened."""

    incident: Incident
    news: tuple[News, ...] = ()


def opened(at: float) -> Incident:
    """One that begins."""
    return Incident("open", at)


def act(incident: Incident, done: Act) -> Step | str:
    """What follows from what a person does, or why nothing does: `ended`, `resolved`, `closed`, `unmuted` or `same`."""
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
    return _worked_on(incident, done)


def _worked_on(incident: Incident, done: Act) -> Step | str:
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
            return Step(after, (News("muted", done.by, written(done.until)),))


def joined(incident: Incident, at: float, alert: str) -> Step:
    """What follows from another alert of its cause, named so, that was first heard of at that time and fires.

    Closing it was about the alerts that were there: one that comes after it is for somebody to look at.
    """
    if incident.state != "closed" or incident.ended or at <= incident.since:
        return Step(incident)
    return Step(msgspec.structs.replace(_anew(incident, at), quiet_since=0.0), (News("renewed", detail=alert),))


def passed(incident: Incident, at: float, terms: Terms, *, firing: bool, nodes: Nodes = UNSEEN) -> Step:
    """What follows from time, from whether anything fires now, and from what was just seen of nodes.

    Done again at the same time it is nothing.
    """
    if incident.ended:
        return Step(incident)
    return _firing(incident, at, terms, nodes) if firing else _quiet(incident, at, terms)


class Call(NamedTuple):
    """Whom of the rota is called next, empty where everybody was, and when at the earliest."""

    whom: str
    at: float


def next_call(incident: Incident, terms: Terms, *, firing: bool) -> Call | None:
    """The call that is to come while nothing changes; None where there is none to come."""
    if not (firing and incident.state == "open" and terms.call_s > 0 and terms.rota):
        return None
    whom = next((one for one in terms.rota if one not in incident.called), "")
    return Call(whom, max(incident.since, incident.called_at) + terms.call_s)


def wants_call(incident: Incident, at: float, terms: Terms, *, firing: bool) -> bool:
    """Whether the next of the rota is due to be called."""
    waited = at - max(incident.since, incident.called_at)
    return firing and incident.state == "open" and terms.call_s > 0 and waited >= terms.call_s


def _firing(incident: Incident, at: float, terms: Terms, nodes: Nodes) -> Step:
    was_gone = incident.quiet_since > 0
    now = msgspec.structs.replace(incident, quiet_since=0.0)
    if now.state == "resolved" or (now.state == "closed" and was_gone):
        return Step(_anew(now, at), (News("reopened"),))
    if now.state == "muted" and is_over(now.muted_until, at, nodes):
        node = now.muted_until.node
        return Step(_anew(now, at), (News("node-gone" if node in nodes.gone else "unmuted", detail=node),))
    due = next_call(now, terms, firing=True)
    if due and due.whom and at >= due.at:
        called = msgspec.structs.replace(now, called=(*now.called, due.whom), called_at=at)
        return Step(called, (News("called", detail=due.whom),))
    return Step(now)


def _quiet(incident: Incident, at: float, terms: Terms) -> Step:
    now = msgspec.structs.replace(incident, quiet_since=incident.quiet_since or at)
    if now.state not in ("resolved", "closed"):
        gone = at - now.quiet_since >= terms.settled_s
        return Step(_into(now, "resolved", at), (News("resolved"),)) if gone else Step(now)
    over = at - max(now.since, now.quiet_since) >= terms.reopen_s
    return Step(msgspec.structs.replace(now, ended=over))


def _into(incident: Incident, state: State, at: float, *, owner: str | None = None) -> Incident:
    kept = incident.owner if owner is None else owner
    return msgspec.structs.replace(incident, state=state, since=at, owner=kept, muted_until=WHILE_IT_LASTS)


def _anew(incident: Incident, at: float) -> Incident:
    """Open again: whoever owned it still does, but nobody has said that they saw it."""
    return msgspec.structs.replace(_into(incident, "open", at), called=(), called_at=0.0)
