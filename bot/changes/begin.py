"""The first moments of a change: planned in the journal, then on the object, then in the running processes."""

from typing import NoReturn

from bot.changes.deployments import Object, Objects, place_of
from bot.changes.live_verbosity import set_running
from bot.changes.plan import annotation, plan_forget
from bot.changes.record import Record, Unreadable, read_record
from bot.changes.unnoticed_end import carries
from bot.errors import BotError, NotFound, SourceError
from bot.kube.client.writer import Conflict, OutcomeUnknown


class ChangeFailed(BotError):  # noqa: N818  # what the person is told
    """A change could not be made, or not undone; the message says what state things are in."""

    exit_code = 5


async def looked_at(objects: Objects, record: Record, unknown: OutcomeUnknown) -> Object:
    """The object, after a write of the record whose answer was lost. Raises ChangeFailed unless it is seen there."""
    target = record.target
    try:
        deployment = await objects.read(*place_of(record))
    except SourceError as error:
        text = f"the patch got no answer, and {target} could not be read afterwards: {unknown.message}"
        raise ChangeFailed(text, hint=f"if the change was made, the bot reverts it at {record.at}") from error
    found = read_record(annotation(deployment) or "")
    if not isinstance(found, Record) or (found.id, found.at) != (record.id, record.at):
        text = f"{target} is not changed, as far as can be seen: {unknown.message}"
        raise ChangeFailed(text, hint=f"if the change arrives late, the bot reverts it at {record.at}") from unknown
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
                "no running kube-scheduler accepts a level", hint="kube-scheduler accepts one only with --profiling"
            )
        if not carries(await objects.read(*place_of(record)), record):
            raise Conflict("it was reverted before every pod had it")
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
        text = f"some of the pods may have -v={record.new}: {second.message}"
        raise ChangeFailed(text, hint=f"the bot reverts them at {record.at}") from error
    raise ChangeFailed(f"nothing was changed: {error.message}", hint=error.hint) from error


def open_record(deployment: Object) -> Record:
    """The record of the change that is open on the object. Raises ChangeFailed where none of its own is."""
    text = annotation(deployment)
    found = read_record(text) if text is not None else None
    meta = deployment["metadata"]
    here = f"{meta['namespace']}/{meta['name']}"
    if isinstance(found, Record) and found.target == here:
        return found
    why = f"cannot be read: {found.why}" if isinstance(found, Unreadable) else "is not there"
    why = f"is a copy of that of {found.target}" if isinstance(found, Record) else why
    text = f"{here}: the record of an open change {why}"
    raise ChangeFailed(text, hint="there is nothing to revert" if found is None else "look at it by hand")
