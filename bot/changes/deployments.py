"""Carries out on a Deployment what is due there by the API server's clock, and completes changes that begin.

A change by words is one patch. A log level of kube-scheduler is set in the running processes, which need no restart for
it (their PUT /debug/flags/v); the record on the Deployment comes first, so that any later process sets them back.
"""

import contextlib
from collections.abc import Callable

import msgspec

from bot.changes.decide import (
    Blocked,
    Ended,
    Forget,
    Restore,
    Retime,
    Wait,
    carries,
    decide,
    decide_by_copy,
    why_not_carried,
)
from bot.changes.flags import Object, find_spot, last_set, target_of
from bot.changes.journal import ChangeEvent, Open
from bot.changes.merge import by_hand
from bot.changes.plan import Patch, annotation, plan_forget
from bot.changes.record import Record, UnreadableRecord, read_record
from bot.errors import BotError, NotFound, SourceError
from bot.kube.client.writer import Conflict, OutcomeUnknown, Writer
from bot.texts import Text

FOREVER = float("inf")

Due = Wait | Restore | Retime | Forget | Blocked | Ended | UnreadableRecord | None


class Objects:
    """The Deployments of one cluster. `now` is this process's clock, in seconds since 1970."""

    def __init__(self, writer: Writer, now: Callable[[], float]) -> None:
        self.writer = writer
        self._now = now

    def time(self) -> float:
        """The present time by the API server's clock; by this process's own before the server's first answer."""
        served = self.writer.clock.time()
        return self._now() if served is None else served

    def skew_s(self) -> float:
        """How many seconds this process's clock is ahead of the API server's; negative: behind."""
        return self._now() - self.time()

    async def read(self, namespace: str, name: str) -> Object:
        """The Deployment, read anew from the API server. Raises SourceError."""
        return await self.writer.deployment(namespace, name)

    async def act(self, deployment: Object, now: float, *, by: str = "", detail: str = "") -> ChangeEvent | None:
        """Does what is due on the Deployment at `now`. Raises Conflict if it changed, OutcomeUnknown, SourceError."""
        return await self._carried_out(deployment, decide(deployment, now), by, detail)

    async def act_by_copy(
        self, deployment: Object, change: Open, now: float, *, by: str = "", detail: str = ""
    ) -> ChangeEvent | None:
        """Does what is due on a change that the object does not carry, by the journal's copy; `unreadable` before it is
        due.
        """
        due, why = decide_by_copy(deployment, change, now), why_not_carried(deployment, change.record)
        if isinstance(due, Wait):
            return ChangeEvent("unreadable", change.record.target, change.record, why, source="copy")
        event = await self._carried_out(deployment, due, by, detail)
        if event is None or isinstance(due, Ended):
            return event
        return msgspec.structs.replace(event, detail="\n".join(filter(None, (why, event.detail))), source="copy")

    async def _carried_out(self, deployment: Object, due: Due, by: str, detail: str) -> ChangeEvent | None:
        target = target_of(deployment)
        match due:
            case Restore(record, patch, kept):
                await set_running(self.writer, deployment, record, record.old)
                await self._patch(deployment, patch)
                return ChangeEvent("reverted", target, record, "\n".join(filter(None, (detail, kept))), by)
            case Retime(record, patch, detail):
                await self._patch(deployment, patch)
                return ChangeEvent("retimed", target, record, detail, by)
            case Forget(record, patch, how, diff):
                if how == "drifted":  # pods of the words before may still run
                    await set_running(self.writer, deployment, record, level_now(deployment, record))
                await self._patch(deployment, patch)
                return ChangeEvent(how, target, record, diff, by)
            case Ended(event, patch):
                if event.kind == "never-raised" and event.record and annotation(deployment) is None:
                    # Of a plan that was carried out a level may be left: by whoever was killed then, and wrote no more.
                    with contextlib.suppress(SourceError):
                        await set_running(self.writer, deployment, event.record, level_now(deployment, event.record))
                await self._patch(deployment, patch)
                return msgspec.structs.replace(event, by=by)
            case Blocked(record, why):
                return ChangeEvent("failed", target, record, why, by, by_hand=by_hand(deployment, record))
            case UnreadableRecord(why):
                return ChangeEvent("unreadable", target, None, why)
            case _:
                return None

    async def _patch(self, deployment: Object, patch: Patch) -> None:
        if patch:
            meta = deployment["metadata"]
            await self.writer.patch_deployment(meta["namespace"], meta["name"], patch)


def place_of(record: Record) -> tuple[str, str]:
    """The namespace and the name of the Deployment that the record is about."""
    namespace, _, name = record.target.partition("/")
    return namespace, name


async def set_running(writer: Writer, deployment: Object, record: Record, level: str) -> int:
    """Sets the level in every running kube-scheduler of the Deployment, for a `debug-flags` change only; gives how
    many.

    A process that ended has the level of its words; an empty `level` is the one without a flag. One that cannot be set
    does not stop the others. Raises the SourceError of the first of those.
    """
    if record.means != "debug-flags":
        return 0
    namespace, _ = place_of(record)
    unset: list[SourceError] = []
    count = 0
    for pod in await writer.pods_of(deployment):
        try:
            await writer.set_verbosity(namespace, pod, level or record.kind.values.default)
            count += 1
        except NotFound:
            continue
        except SourceError as error:
            unset.append(error)
    if unset:
        raise unset[0]
    return count


def level_now(deployment: Object, record: Record) -> str:
    """The log level that the container's words set now; empty if they set none."""
    spot = find_spot(deployment, record.container)
    found = last_set(spot, record.kind.flag) if spot else None
    return found.value if found and record.kind.values.is_value(found.value) else ""


class ChangeFailed(BotError):  # noqa: N818  # what the person is told
    """A change could not be made or reverted; the message says what state things are in."""

    exit_code = 5


async def looked_at(objects: Objects, record: Record, unknown: OutcomeUnknown) -> Object:
    """The Deployment, read after a write of the record got no answer. Raises ChangeFailed if it lacks the record."""
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
    """For a `debug-flags` change whose record is on the object: sets all its running processes, or none.

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
    """The record of the change that is open on the object. Raises ChangeFailed where it has no record of its own."""
    text = annotation(deployment)
    found = read_record(text) if text is not None else None
    here = target_of(deployment)
    if isinstance(found, Record) and found.target == here:
        return found
    if found is None:
        raise ChangeFailed(Text("error-change.no-record", target=here), hint=Text("error-change.nothing-to-revert"))
    if isinstance(found, Record):
        text = Text("error-change.record-is-a-copy", target=here, other=found.target)
    else:
        text = Text("error-change.record-unreadable", target=here, why=found.why)
    raise ChangeFailed(text, hint=Text("error-change.look-by-hand"))
