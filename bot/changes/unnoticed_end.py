"""What became of a change whose record is not on the object: it has ended, or the record alone is gone. Pure."""

from bot.changes.flags import ArgumentList, Object, containers, find_spot, with_words
from bot.changes.journal import Event, EventKind, Open
from bot.changes.merge import OurElement, Stand, stand_of
from bot.changes.plan import annotation
from bot.changes.record import Record, Unreadable, id_in, read_record, same_way_back
from bot.kube.recording.redact import masked_arguments


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
    return other is not None and (other.container, other.flag) == (record.container, record.flag)


def is_replaced(deployment: Object, change: Open) -> bool:
    """Whether the Deployment is another object than the change was made on, as far as that is known."""
    return bool(change.uid) and deployment["metadata"].get("uid") != change.uid


def why_not_carried(deployment: Object, record: Record) -> str:
    """What became of the record of a change that the object does not carry, for people."""
    text = annotation(deployment)
    if text is None or is_of_another(deployment, record):
        return "its record was removed from the Deployment"
    found = read_record(text)
    if isinstance(found, Unreadable):
        return f"its record on the Deployment cannot be read: {found.why}"
    return "its record on the Deployment was edited"


def how_it_ended(deployment: Object, change: Open) -> Event | None:
    """What became of a change that the object does not carry, from how the object is now.

    None where it has not ended as far as can be told: our value is set, and the record alone is damaged or gone.
    """
    record = change.record
    spot = find_spot(deployment, record.container)
    in_words = record.means == "patch"
    stand = _stand(deployment, record, spot) if spot and in_words else None
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


def _stand(deployment: Object, record: Record, spot: ArgumentList) -> Stand:
    """As it was when the change of the same flag that is open now began, if one is."""
    other = record_of_another(deployment, record)
    if other is not None and is_under(deployment, record):
        spot = with_words(spot, other.field, other.words_before)
    return stand_of(record, spot)


def _found(kind: EventKind, record: Record, detail: str) -> Event:
    return Event(kind, record.target, record, detail, source="found")
