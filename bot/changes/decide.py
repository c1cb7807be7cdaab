"""What is due on a Deployment that carries a record of an open change: pure, the same for every replica that looks.

What somebody else made of the object is never overwritten. Among their edits our own element alone goes back
(`bot.changes.merge`); where it has another value the record is dropped instead, and that is told.
"""

import difflib
from typing import Literal, NamedTuple

from bot.changes.flags import Object, find_spot
from bot.changes.merge import OurElement, stand_of
from bot.changes.plan import Patch, annotation, plan_forget, plan_retime, plan_revert
from bot.changes.record import Record, Unreadable, read_record
from bot.kube.recording.redact import masked_arguments

AHEAD_S = 5
"""Seconds: a record that was raised later than this from now was written with a wrong clock. The API servers of one
cluster may be a little apart.
"""

How = Literal["reverted-by-another", "drifted", "container-gone"]


class Wait(NamedTuple):
    """It is not due before `record.deadline`."""

    record: Record


class Retime(NamedTuple):
    """It was raised with a clock that is ahead: `record` lasts as long as it was to last, but from now on."""

    record: Record
    patch: Patch
    detail: str


class Restore(NamedTuple):
    """Due: the patch reverts our element and drops the record. `kept`: what somebody else edited in the same list.

    A record of `debug-flags` changed no words: the running processes are set back first, then the patch drops it.
    """

    record: Record
    patch: Patch
    kept: str = ""


class Blocked(NamedTuple):
    """Due, but which element is ours cannot be told: the record stays until a person acts."""

    record: Record
    why: str


class Forget(NamedTuple):
    """There is nothing of ours to undo: the patch drops the record alone. `diff`: our words (-) and those found (+)."""

    record: Record
    patch: Patch
    how: How
    diff: str = ""


def decide(deployment: Object, now: float) -> Wait | Retime | Restore | Forget | Blocked | Unreadable | None:
    """What is due at `now` (seconds since 1970, by the API server's clock); None for an object without a record."""
    text = annotation(deployment)
    if text is None:
        return None
    record = read_record(text)
    if isinstance(record, Unreadable):
        return record
    if (here := _name(deployment)) != record.target:
        return Unreadable(text, f"it was copied here: it is about {record.target}, this is {here}")
    spot = find_spot(deployment, record.container)
    if spot is None:
        return Forget(record, plan_forget(deployment), "container-gone")
    stand = stand_of(record, spot)
    if stand == "back":
        return Forget(record, plan_forget(deployment), "reverted-by-another")
    if now < record.deadline:
        from_the_future = record.since > now + AHEAD_S or record.deadline > now + record.kind.longest_s + AHEAD_S
        return _retimed(deployment, record, now) if from_the_future else Wait(record)
    diff = _diff(record.words_after, spot.words(record.field))
    if isinstance(stand, OurElement):
        return Restore(record, plan_revert(deployment, record, stand.words), diff)
    if stand == "unclear":
        where = f"container {record.container} of {here}"
        return Blocked(record, f"{record.kind.flag.shown} is {record.new} in several places of {where}")
    return Forget(record, plan_forget(deployment), "drifted", diff)


def _retimed(deployment: Object, record: Record, now: float) -> Retime:
    again, patch = plan_retime(deployment, record, now=now)
    detail = (
        f"it was noted as raised at {record.raised_at} until {record.at}; the API server's clock said {again.raised_at}"
    )
    return Retime(again, patch, detail)


def _name(deployment: Object) -> str:
    meta = deployment["metadata"]
    return f"{meta.get('namespace', '')}/{meta.get('name', '')}"


def _diff(ours: tuple[str, ...], found: tuple[str, ...]) -> str:
    """One word a line, as they are in neither order nor number the same; empty where both are the same. Secrets are
    masked: everybody may read it.
    """
    if ours == found:
        return ""
    lines = difflib.ndiff(masked_arguments(list(ours)), masked_arguments(list(found)))
    return "\n".join(line.rstrip("\n") for line in lines if line[0] in "+-")
