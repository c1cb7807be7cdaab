"""How a change ended that nobody noted at the time: killed in between, or undone by somebody else. Pure."""

from bot.changes.flags import ArgumentList, Object, containers, find_spot, with_words
from bot.changes.journal import Event, Open
from bot.changes.merge import OurElement, is_back, stand_of
from bot.changes.plan import annotation
from bot.changes.record import Record, Unreadable, read_record
from bot.kube.recording.redact import masked_arguments


def carries(deployment: Object, record: Record) -> bool:
    """Whether the change of that record is still open on the object, with this deadline or another."""
    found = read_record(annotation(deployment) or "")
    return isinstance(found, Record) and found.id == record.id


def is_hidden(deployment: Object) -> bool:
    """Whether a record stands on the object that cannot be read: what was open then still is, as far as is known."""
    text = annotation(deployment)
    return text is not None and isinstance(read_record(text), Unreadable)


def how_it_ended(deployment: Object, change: Open) -> Event:
    """What became of a change whose record does not stand on the object any more, from how the object is now."""
    record = change.record
    spot = find_spot(deployment, record.container)
    stands = spot is not None and record.means == "patch" and isinstance(stand_of(record, spot), OurElement)
    if change.state == "planned" and not (stands and annotation(deployment) is None):
        return Event("never-raised", record.target, record, "it was planned and is not on the object")
    if change.uid and deployment["metadata"].get("uid") != change.uid:
        return Event("replaced", record.target, record, "the Deployment was created anew, without the change")
    if spot is None:
        names = [str(each.get("name")) for each in containers(deployment)]
        return Event("container-gone", record.target, record, f"containers are {names}")
    if is_back(record, spot) or is_back(record, _before_the_next(deployment, record, spot)):
        return Event("reverted", record.target, record, "found so")
    shown = masked_arguments(list(spot.words(record.field)))
    return Event("drifted", record.target, record, f"its record was taken off; {record.field} is {shown}")


def _before_the_next(deployment: Object, record: Record, spot: ArgumentList) -> ArgumentList:
    """The container as it was when the change that is open now began; as it is, if none of the same list is."""
    found = read_record(annotation(deployment) or "")
    if not isinstance(found, Record) or (found.container, found.field) != (record.container, record.field):
        return spot
    return with_words(spot, found.field, found.words_before)
