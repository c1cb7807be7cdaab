"""What is heard of one alert: outbreaks, one after the other, of which only the newest may be firing.

Alertmanager names an alert by its fingerprint alone. Its `startsAt` says little: while an alert fires it moves to the
earliest that any Prometheus saw, and an alert that ended because Alertmanager heard nothing (`resolve_timeout`) comes
back with the start it had.
"""

from typing import Literal, NamedTuple

from bot.triage.webhook import Alert

REPEATED_S = 120.0
"""So long after an end the same start is a late repetition: the other Alertmanager of a pair waits
`--cluster.peer-timeout` (15 s) for each before it, and a lost answer is tried again. After it, the alert is back."""
NOTED_S = 300.0
"""That it was heard of once more is news only so often."""


class Outbreak(NamedTuple):
    """`number` counts an alert's outbreaks from 1. Starts and ends are RFC 3339 in UTC or empty, the others seconds
    since 1970: `heard_at` when it was last said to fire, `changed_at` when its status became what it is. `silent`: it
    ended because nothing was heard of it.
    """

    number: int
    status: Literal["firing", "resolved", "silent"]
    starts_at: str
    ends_at: str
    heard_at: float
    changed_at: float


def hear(known: Outbreak | None, said: Alert, at: float) -> Outbreak | None:
    """The newest outbreak, now that this was said at that time; None where it is what it was."""
    if said.status == "resolved":
        return _over(known, said, at)
    if known is None or known.status == "silent":
        return _new(known, said, at)
    if known.status == "firing":
        return _again(known, said, at)
    since_the_end = bool(known.ends_at) and said.starts_at > known.ends_at
    return _new(known, said, at) if since_the_end or at - known.changed_at > REPEATED_S else None


def last_moment(said: Alert) -> str:
    """When what is said was so; RFC 3339 in UTC or empty. An end before the start is none."""
    return max(said.starts_at, said.ends_at) if said.status == "resolved" else said.starts_at


def _new(known: Outbreak | None, said: Alert, at: float) -> Outbreak:
    ends_at = last_moment(said) if said.status == "resolved" else ""
    return Outbreak(known.number + 1 if known else 1, said.status, said.starts_at, ends_at, at, at)


def _again(known: Outbreak, said: Alert, at: float) -> Outbreak | None:
    starts_at = min(said.starts_at or known.starts_at, known.starts_at or said.starts_at)
    if starts_at == known.starts_at and at - known.heard_at < NOTED_S:
        return None
    return known._replace(starts_at=starts_at, heard_at=at)


def _over(known: Outbreak | None, said: Alert, at: float) -> Outbreak | None:
    if known is None:
        return _new(known, said, at)
    ended = last_moment(said)
    if known.status != "firing" or (ended and ended < known.starts_at):
        return None  # over already, or the end of an outbreak before this one
    return known._replace(status="resolved", ends_at=ended, changed_at=at)
