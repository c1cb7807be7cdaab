"""Carries out on a Deployment what is due there by the API server's clock, and completes changes that begin.

A change of arguments is one patch. A log level of kube-scheduler is set in the running processes, which need no restart
for it (their PUT /debug/flags/v); the record on the Deployment comes first, so that any later process sets them back.
"""

import contextlib
from collections.abc import Callable

import msgspec

from bot.changes.decide import DueChange, Wait, carries, decide_by_copy, why_not_carried
from bot.changes.flags import Object, target_of
from bot.changes.journal import ChangeEvent, KnownChange
from bot.changes.plan import annotation, plan_forget
from bot.changes.record import Record, read_record
from bot.errors import BotError, NotFound, SourceError
from bot.kube.client.writer import Conflict, OutcomeUnknown, Writer
from bot.texts import Text

FOREVER = float("inf")


class Deployments:
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

    async def act_by_copy(
        self, deployment: Object, change: KnownChange, now: float, *, by: str = "", early: str = ""
    ) -> ChangeEvent | None:
        """Does what is due on a change by the journal's copy alone; gives an `unreadable` event before it is due."""
        due, why = decide_by_copy(deployment, change, now), why_not_carried(deployment, change.record)
        if isinstance(due, Wait):
            return ChangeEvent("unreadable", change.record.target, change.record, why, source="copy")
        event = await self.act(deployment, due, by=by, early=early)
        if event is None or event.source != "record":  # it had ended
            return event
        return msgspec.structs.replace(event, detail="\n".join(filter(None, (why, event.detail))), source="copy")

    async def act(
        self, deployment: Object, due: DueChange | Wait | None, *, by: str = "", early: str = ""
    ) -> ChangeEvent | None:
        """Does what is due; `early` says why before the deadline. Raises Conflict, OutcomeUnknown or SourceError."""
        if not isinstance(due, DueChange):
            return None
        event = due.event
        if due.level is not None and event.record:
            with contextlib.suppress(*([SourceError] if event.kind == "never-raised" else [])):
                await set_running(self.writer, deployment, event.record, due.level)
        if due.patch:
            meta = deployment["metadata"]
            await self.writer.patch_deployment(meta["namespace"], meta["name"], due.patch)
        if early and (event.kind, event.source) == ("reverted", "record"):
            event = msgspec.structs.replace(event, detail="\n".join(filter(None, (early, event.detail))))
        return msgspec.structs.replace(event, by=by)


def place_of(record: Record) -> tuple[str, str]:
    """The namespace and the name of the Deployment that the record is about."""
    namespace, _, name = record.target.partition("/")
    return namespace, name


async def set_running(writer: Writer, deployment: Object, record: Record, level: str) -> int:
    """Sets the level in every running kube-scheduler of the Deployment, for a `debug-flags` change only; gives how
    many. A pod that is gone is passed over; an empty `level` is the one that holds without a flag. One that cannot be
    set does not stop the others: the first SourceError is raised at the end.
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


class ChangeFailed(BotError):  # noqa: N818  # what the person is told
    """A change could not be made or reverted; the message says what state things are in."""

    exit_code = 5


async def read_after_unknown(deployments: Deployments, record: Record, unknown: OutcomeUnknown) -> Object:
    """The Deployment, read after a write of the record got no answer. Raises ChangeFailed if it lacks the record."""
    target = record.target
    try:
        deployment = await deployments.writer.deployment(*place_of(record))
    except SourceError as error:
        text = Text("error-change.patch-got-no-answer", target=target, why=unknown.message)
        raise ChangeFailed(text, hint=Text("error-change.if-made-reverts-at", at=record.at)) from error
    found = read_record(annotation(deployment) or "")
    if not isinstance(found, Record) or (found.id, found.at) != (record.id, record.at):
        text = Text("error-change.not-changed-as-far-as-seen", target=target, why=unknown.message)
        raise ChangeFailed(text, hint=Text("error-change.if-change-arrives-late-bot", at=record.at)) from unknown
    return deployment


async def set_in_all(deployments: Deployments, deployment: Object, record: Record) -> None:
    """Sets the new level in all running processes of a `debug-flags` change, or in none. Raises ChangeFailed."""
    if record.means != "debug-flags":
        return
    try:
        if not await set_running(deployments.writer, deployment, record, record.new):
            raise NotFound(
                Text("error-change.no-running-kube-scheduler-accepts"), hint=Text("error-change.only-with-profiling")
            )
        if not carries(await deployments.writer.deployment(*place_of(record)), record):
            raise Conflict(Text("error-change.reverted-before-every-pod"))
    except SourceError as error:
        try:
            deployment = await deployments.writer.deployment(*place_of(record))
            await set_running(deployments.writer, deployment, record, record.old)
            if carries(deployment, record):
                await deployments.writer.patch_deployment(*place_of(record), plan_forget(deployment))
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
