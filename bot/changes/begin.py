"""The first moments of a change: planned in the journal, then on the object, then in the running processes."""

from typing import NoReturn

from bot.changes.deployments import Object, Objects, place_of
from bot.changes.live_verbosity import set_running
from bot.changes.plan import annotation, plan_forget
from bot.changes.record import Record, read_record
from bot.changes.unnoticed_end import carries
from bot.errors import BotError, NotFound, SourceError
from bot.kube.client.writer import Conflict, OutcomeUnknown
from bot.texts import Text


class ChangeFailed(BotError):  # noqa: N818  # what the person is told
    """A change could not be made, or not undone; the message says what state things are in."""

    exit_code = 5


async def looked_at(objects: Objects, record: Record, unknown: OutcomeUnknown) -> Object:
    """The object, after a write of the record whose answer was lost. Raises ChangeFailed unless it is seen there."""
    target = record.target
    try:
        deployment = await objects.read(*place_of(record))
    except SourceError as error:
        text = Text("error-change.patch-got-no-answer", target=target, why=unknown.message)
        raise ChangeFailed(text, hint=Text("error-change.if-made-reverts-at", at=record.at)) from error
    found = read_record(annotation(deployment) or "")
    if not isinstance(found, Record) or (found.id, found.at) != (record.id, record.at):
        text = Text("error-change.not-changed-as-far-as-seen", target=target, why=unknown.message)
        raise ChangeFailed(text, hint=Text("error-change.if-change-arrives-late-bot", at=record.at)) from unknown
    return deployment


async def set_in_all(objects: Objects, deployment: Object, record: Record) -> None:
    """For `debug-flags`, whose record stands on the object: sets the running processes, all or none of them.

    Raises ChangeFailed with what state things are in.
    """
    if record.means != "debug-flags":
        return
    try:
        if not await set_running(objects.writer, deployment, record, record.new):
            raise NotFound(
                Text("error-change.no-running-kube-scheduler-accepts"), hint=Text("error-change.only-with-profiling")
            )
        if not carries(await objects.read(*place_of(record)), record):
            raise Conflict(Text("error-change.reverted-before-every-pod"))
    except SourceError as error:
        await _unset(objects, record, error)


async def _unset(objects: Objects, record: Record, error: SourceError) -> NoReturn:
    """Sets the running processes back and takes the record off."""
    try:
        deployment = await objects.read(*place_of(record))
        await set_running(objects.writer, deployment, record, record.old)
        if carries(deployment, record):
            await objects.writer.patch_deployment(*place_of(record), plan_forget(deployment))
    except SourceError as second:
        text = Text("error-change.some-pods-may-have-it", level=record.new, why=second.message)
        raise ChangeFailed(text, hint=Text("error-change.reverts-them-at", at=record.at)) from error
    raise ChangeFailed(Text("error-change.not-changed-because", why=error.message), hint=error.hint) from error


def open_record(deployment: Object) -> Record:
    """The record of the change that is open on the object. Raises ChangeFailed where none of its own is."""
    text = annotation(deployment)
    found = read_record(text) if text is not None else None
    meta = deployment["metadata"]
    here = f"{meta['namespace']}/{meta['name']}"
    if isinstance(found, Record) and found.target == here:
        return found
    if found is None:
        raise ChangeFailed(Text("error-change.no-record", target=here), hint=Text("error-change.nothing-to-revert"))
    text = (
        Text("error-change.record-is-a-copy", target=here, other=found.target)
        if isinstance(found, Record)
        else (Text("error-change.record-unreadable", target=here, why=found.why))
    )
    raise ChangeFailed(text, hint=Text("error-change.look-by-hand"))
