"""What is due on a Deployment on which a change is open: pure, the same for every replica that looks.

An edit that somebody else made of the object is never overwritten. Among their edits our own element alone is reverted
(`bot.changes.merge`); where it has another value the record is dropped instead, and that is reported. The record on the
object is the truth; the journal's copy counts where that record is damaged or gone, and on the same object alone. Our
value is then reverted even if somebody set the same value for good meanwhile: nothing tells the two apart.
"""

import difflib
from typing import NamedTuple

import msgspec

from bot.changes.deadline import LONGEST_S
from bot.changes.flags import ArgumentList, Object, containers, find_spot, last_set, target_of, with_words
from bot.changes.journal import ChangeEvent, EventKind, KnownChange
from bot.changes.merge import OurElement, Stand, by_hand, stand_of
from bot.changes.plan import Patch, annotation, plan_forget, plan_retime, plan_revert
from bot.changes.record import Record, UnreadableRecord, id_in, read_record, same_way_back
from bot.kube.recording.redact import masked_arguments

AHEAD_S = 5
"""Seconds that a record's start may lie after now, as API servers differ a little; more means a wrong clock."""


class Wait(NamedTuple):
    """A decision: the change is not due before `record.deadline`."""

    record: Record


class DueChange(NamedTuple):
    """A decision: what happens to a change now, as the event that tells it; the patch, where there is one, does it. A
    `debug-flags` change altered no arguments: the running processes are set to `level` (None: left as they are) first.
    """

    event: ChangeEvent
    patch: Patch = ()
    level: str | None = None


def decide(deployment: Object, now: float) -> Wait | DueChange | None:
    """What is due on the Deployment at `now` (seconds since 1970, by the API server's clock); None without a record."""
    text = annotation(deployment)
    if text is None:
        return None
    here, record = target_of(deployment), read_record(text)
    if isinstance(record, UnreadableRecord):
        return DueChange(ChangeEvent("unreadable", here, None, record.why))
    if here != record.target:
        why = f"it was copied here: it is about {record.target}, this is {here}"
        return DueChange(ChangeEvent("unreadable", here, None, why))
    spot = find_spot(deployment, record.container)
    if spot is None:
        return DueChange(ChangeEvent("container-gone", here, record), plan_forget(deployment))
    stand = stand_of(record, spot)
    if stand == "back":
        return DueChange(ChangeEvent("reverted-by-another", here, record), plan_forget(deployment))
    if now >= record.deadline:
        return _back(deployment, record, spot, stand)
    if not _is_from_the_future(record, now):
        return Wait(record)
    again, patch = plan_retime(deployment, record, now=now)
    noted = f"it was noted as raised at {record.raised_at} until {record.at}"
    detail = f"{noted}; the API server's clock said {again.raised_at}"
    return DueChange(ChangeEvent("retimed", here, again, detail), patch)


def decide_by_copy(deployment: Object, change: KnownChange, now: float) -> Wait | DueChange | None:
    """What is due at `now` on a change whose record is not on the object, by the journal's copy of the record. None
    while another change of the same flag is open on the object.
    """
    record = change.record
    if ended := how_it_ended(deployment, change):
        text = annotation(deployment)
        if id_in(text or "") == record.id:
            return DueChange(msgspec.structs.replace(ended, source="copy"), plan_forget(deployment))
        # Of a plan that was carried out a level may be left: by whoever was killed then, and wrote no more.
        is_left = ended.kind == "never-raised" and text is None
        return DueChange(ended, level=_level_now(deployment, record) if is_left else None)
    if is_under(deployment, record):
        return None
    # Whether a running process has its old level again cannot be read; to set it once more does no harm.
    is_due = now >= record.deadline or _is_from_the_future(record, now)
    if not is_due and (record.means == "patch" or annotation(deployment) is not None):
        return Wait(record)
    here = target_of(deployment)
    if not change.uid or is_replaced(deployment, change):
        why = f"{here} is not known to be the Deployment that was changed, and has {record.shown} as that had"
        return _blocked(deployment, record, why)
    if is_of_another(deployment, record) and record_of_another(deployment, record) is None:
        return _blocked(deployment, record, f"{here} carries a record of another change that cannot be read")
    spot = find_spot(deployment, record.container)
    assert spot, "without its container a change has ended"
    return _back(deployment, record, spot, stand_of(record, spot), takes_off=not is_of_another(deployment, record))


def _back(deployment: Object, record: Record, spot: ArgumentList, stand: Stand, *, takes_off: bool = True) -> DueChange:
    """Reverts our element, if it can be told apart; `takes_off` removes what stands under our annotation key."""
    # One word a line, as they are in neither order nor number the same. Secrets are masked: everybody may read it.
    ours, found = (masked_arguments(list(words)) for words in (record.words_after, spot.words(record.field)))
    diff = "\n".join(line.rstrip("\n") for line in difflib.ndiff(ours, found) if line[0] in "+-")
    here = target_of(deployment)
    if isinstance(stand, OurElement):
        patch = plan_revert(deployment, record, stand.words, takes_off=takes_off)
        return DueChange(ChangeEvent("reverted", here, record, diff), patch, record.old)
    if stand == "unclear":
        why = f"{record.shown} stands in several places of container {record.container} of {here}"
        return _blocked(deployment, record, why)
    patch = plan_forget(deployment) if takes_off else ()
    # Pods of the words before may still run.
    return DueChange(ChangeEvent("drifted", here, record, diff), patch, _level_now(deployment, record))


def _blocked(deployment: Object, record: Record, why: str) -> DueChange:
    """Reports a change that is due and cannot be told apart: its record stays until a person acts."""
    return DueChange(ChangeEvent("failed", target_of(deployment), record, why, by_hand=by_hand(deployment, record)))


def _level_now(deployment: Object, record: Record) -> str:
    """The log level that the container's words set now; empty if they set none."""
    spot = find_spot(deployment, record.container)
    found = last_set(spot, record.kind.flag) if spot else None
    return found.value if found and record.kind.values.is_value(found.value) else ""


def _is_from_the_future(record: Record, now: float) -> bool:
    return record.since > now + AHEAD_S or record.deadline > now + LONGEST_S + AHEAD_S


def carries(deployment: Object, record: Record) -> bool:
    """Whether the record's change is still open on the object, with this deadline or another."""
    found = read_record(annotation(deployment) or "")
    return isinstance(found, Record) and same_way_back(found, record)


def record_of_another(deployment: Object, record: Record) -> Record | None:
    """The record of another change that is open on the object, None where none is."""
    found = read_record(annotation(deployment) or "")
    return found if isinstance(found, Record) and found.id != record.id else None


def is_of_another(deployment: Object, record: Record) -> bool:
    """Whether the annotation of the bot on the object, readable or not, names another change than the record's."""
    return id_in(annotation(deployment) or "") not in ("", record.id)


def is_under(deployment: Object, record: Record) -> bool:
    """Whether another change of the same flag is open on the object: the other change is reverted first."""
    other = record_of_another(deployment, record)
    return other is not None and not places_of(other).isdisjoint(places_of(record))


def places_of(record: Record) -> set[tuple[str, str, str]]:
    """Which flags the record's change sets, each as Deployment, container and flag."""
    return {(record.target, record.container, each.flag) for each in record.flags}


def is_replaced(deployment: Object, change: KnownChange) -> bool:
    """Whether the Deployment is another object than the changed one; False where the change's uid is not known."""
    return bool(change.uid) and deployment["metadata"].get("uid") != change.uid


def why_not_carried(deployment: Object, record: Record) -> str:
    """Tells people why the record of a change is not on the object."""
    text = annotation(deployment)
    if text is None or is_of_another(deployment, record):
        return "its record was removed from the Deployment"
    found = read_record(text)
    if isinstance(found, UnreadableRecord):
        return f"its record on the Deployment cannot be read: {found.why}"
    return "its record on the Deployment was edited"


def how_it_ended(deployment: Object, change: KnownChange) -> ChangeEvent | None:
    """How a change ended whose record is not on the object, judged by the object as it is now. None where it has not
    ended as far as can be told: its value is set, and only the record is damaged or gone.
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
