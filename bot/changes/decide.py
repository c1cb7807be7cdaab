"""What is due on a Deployment on which a change is open: pure, the same for every replica that looks.

What somebody else made of the object is never overwritten. Among their edits our own element alone goes back
(`bot.changes.merge`); where it has another value the record is dropped instead, and that is told. The record on the
object is the truth; the journal's copy counts where that record is damaged or gone, and on the same object alone. Then
nothing tells our value from the same one that somebody set for good after the record went: it goes back.
"""

import difflib
from typing import Literal, NamedTuple

from bot.changes.flags import ArgumentList, Object, containers, find_spot, target_of, with_words
from bot.changes.journal import ChangeEvent, EventKind, Open
from bot.changes.kinds import LONGEST_S
from bot.changes.merge import OurElement, Stand, stand_of
from bot.changes.plan import Patch, annotation, plan_forget, plan_retime, plan_revert
from bot.changes.record import Record, UnreadableRecord, id_in, read_record, same_way_back
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


class Ended(NamedTuple):
    """Nothing of ours is left but, where there is a patch, what remains of the record: the patch removes that."""

    event: ChangeEvent
    patch: Patch = ()


def decide(deployment: Object, now: float) -> Wait | Retime | Restore | Forget | Blocked | UnreadableRecord | None:
    """What is due at `now` (seconds since 1970, by the API server's clock); None for an object without a record."""
    text = annotation(deployment)
    if text is None:
        return None
    record = read_record(text)
    if isinstance(record, UnreadableRecord):
        return record
    if (here := target_of(deployment)) != record.target:
        return UnreadableRecord(f"it was copied here: it is about {record.target}, this is {here}")
    spot = find_spot(deployment, record.container)
    if spot is None:
        return Forget(record, plan_forget(deployment), "container-gone")
    stand = stand_of(record, spot)
    if stand == "back":
        return Forget(record, plan_forget(deployment), "reverted-by-another")
    if now >= record.deadline:
        return _back(deployment, record, spot, stand)
    if not _is_from_the_future(record, now):
        return Wait(record)
    again, patch = plan_retime(deployment, record, now=now)
    noted = f"it was noted as raised at {record.raised_at} until {record.at}"
    return Retime(again, patch, f"{noted}; the API server's clock said {again.raised_at}")


def decide_by_copy(deployment: Object, change: Open, now: float) -> Wait | Restore | Forget | Blocked | Ended | None:
    """What is due at `now` of a change that the object does not carry, by the journal's copy of its record.

    None while another change of the same flag is open on the object.
    """
    record = change.record
    if ended := how_it_ended(deployment, change):
        is_left = id_in(annotation(deployment) or "") == record.id
        return Ended(ended._replace(source="copy"), plan_forget(deployment)) if is_left else Ended(ended)
    if is_under(deployment, record):
        return None
    # Whether a running process has its old level again cannot be read; to set it once more does no harm.
    is_due = now >= record.deadline or _is_from_the_future(record, now)
    if not is_due and (record.means == "patch" or annotation(deployment) is not None):
        return Wait(record)
    here = target_of(deployment)
    if not change.uid or is_replaced(deployment, change):
        why = f"{here} is not known to be the Deployment that was changed, and has {record.shown} as that had"
        return Blocked(record, why)
    if is_of_another(deployment, record) and record_of_another(deployment, record) is None:
        return Blocked(record, f"{here} carries a record of another change that cannot be read")
    spot = find_spot(deployment, record.container)
    assert spot, "without its container a change has ended"
    return _back(deployment, record, spot, stand_of(record, spot), takes_off=not is_of_another(deployment, record))


def _back(
    deployment: Object, record: Record, spot: ArgumentList, stand: Stand, *, takes_off: bool = True
) -> Restore | Forget | Blocked:
    """Of what is due: our element goes back, if it can be told, and what stands under our key goes with `takes_off`."""
    # One word a line, as they are in neither order nor number the same. Secrets are masked: everybody may read it.
    ours, found = (masked_arguments(list(words)) for words in (record.words_after, spot.words(record.field)))
    diff = "\n".join(line.rstrip("\n") for line in difflib.ndiff(ours, found) if line[0] in "+-")
    if isinstance(stand, OurElement):
        return Restore(record, plan_revert(deployment, record, stand.words, takes_off=takes_off), diff)
    if stand == "unclear":
        where = f"container {record.container} of {target_of(deployment)}"
        return Blocked(record, f"{record.shown} stands in several places of {where}")
    return Forget(record, plan_forget(deployment) if takes_off else (), "drifted", diff)


def _is_from_the_future(record: Record, now: float) -> bool:
    return record.since > now + AHEAD_S or record.deadline > now + LONGEST_S + AHEAD_S


def carries(deployment: Object, record: Record) -> bool:
    """Whether the change of that record is still open on the object, with this deadline or another."""
    found = read_record(annotation(deployment) or "")
    return isinstance(found, Record) and same_way_back(found, record)


def record_of_another(deployment: Object, record: Record) -> Record | None:
    """The record of another change that is open on the object."""
    found = read_record(annotation(deployment) or "")
    return found if isinstance(found, Record) and found.id != record.id else None


def is_of_another(deployment: Object, record: Record) -> bool:
    """Whether what stands under our key, readable or not, names another change."""
    return id_in(annotation(deployment) or "") not in ("", record.id)


def is_under(deployment: Object, record: Record) -> bool:
    """Whether another change of the same flag is open on the object: its revert comes first."""
    other = record_of_another(deployment, record)
    return other is not None and not places_of(other).isdisjoint(places_of(record))


def places_of(record: Record) -> set[tuple[str, str, str]]:
    """Which flags of which container of which Deployment it sets."""
    return {(record.target, record.container, each.flag) for each in record.flags}


def is_replaced(deployment: Object, change: Open) -> bool:
    """Whether the Deployment is another object than the change was made on, as far as that is known."""
    return bool(change.uid) and deployment["metadata"].get("uid") != change.uid


def why_not_carried(deployment: Object, record: Record) -> str:
    """What became of the record of a change that the object does not carry, for people."""
    text = annotation(deployment)
    if text is None or is_of_another(deployment, record):
        return "its record was removed from the Deployment"
    found = read_record(text)
    if isinstance(found, UnreadableRecord):
        return f"its record on the Deployment cannot be read: {found.why}"
    return "its record on the Deployment was edited"


def how_it_ended(deployment: Object, change: Open) -> ChangeEvent | None:
    """What became of a change that the object does not carry, from how the object is now.

    None where it has not ended as far as can be told: our value is set, and the record alone is damaged or gone.
    """
    record = change.record
    spot = find_spot(deployment, record.container)
    in_words = record.means == "patch"
    stand = None
    if spot and in_words:  # as it was when the change of the same flag that is open now began, if one is
        other = record_of_another(deployment, record) if is_under(deployment, record) else None
        stand = stand_of(record, with_words(spot, other.field, other.words_before) if other else spot)
    text = annotation(deployment)
    # What a plan became shows in our value, or in what is left of a record; a level in a process cannot be read.
    is_left = text is not None and id_in(text) in ((record.id,) if in_words else ("", record.id))
    if change.state == "planned" and not isinstance(stand, OurElement) and not is_left:
        return _found("never-raised", record, "it was planned and is not on the object")
    if isinstance(stand, OurElement) or stand == "unclear":
        return None
    if is_replaced(deployment, change):
        return _found("replaced", record, "the Deployment was created anew, without the change")
    if spot is None:
        names = [str(each.get("name")) for each in containers(deployment)]
        return _found("container-gone", record, f"containers are {names}")
    if not in_words and record_of_another(deployment, record) is None:
        return None
    if not in_words or stand == "back":
        return _found("reverted", record, "found so")
    shown = masked_arguments(list(spot.words(record.field)))
    return _found("drifted", record, f"its record was taken off; {record.field} is {shown}")


def _found(kind: EventKind, record: Record, detail: str) -> ChangeEvent:
    return ChangeEvent(kind, record.target, record, detail, source="found")
