"""Raises, extends and reverts, and the pass over the cluster that undoes what is due.

Safe to be killed between any two steps and to run in several processes at once: the record on the object decides, and
every patch is its own lock. What the journal knows only follows.
"""

import logging
import time
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

from bot.changes.decide import Forget, Restore, Wait, decide
from bot.changes.flags import containers, find_spot
from bot.changes.journal import Event, Journal, Open
from bot.changes.plan import (
    Enough,
    Plan,
    Refusal,
    Wanted,
    annotation,
    plan_extension,
    plan_forget,
    plan_raise,
    unfinished_rollout,
)
from bot.changes.record import KEY, Record, Unreadable, read_record
from bot.errors import BotError, NotFound, SourceError
from bot.hami.version import Version
from bot.kube.writer import Conflict, OutcomeUnknown, Writer

ATTEMPTS = 3
STUCK_S = 180.0
"""A rollout that is not through after this is told: the new pods do not become ready."""
UNDERWAY_S = 120.0
"""So long after it was planned a change may still be on its way; one that is not on the object later was never made."""
KLOG_DEFAULT = "0"
"""What -v is when nothing sets it (k8s.io/klog/v2, `InitFlags`)."""
FOREVER = float("inf")

Object = dict[str, Any]
Endings = Callable[[Record], Awaitable[str]]
"""Why a change should end before its deadline, in words; empty while it should not."""

log = logging.getLogger(__name__)


class ChangeFailed(BotError):  # noqa: N818  # what the person is told
    """A change could not be made, or not undone; the message says what state things are in."""

    exit_code = 5


async def _never(_: Record) -> str:
    return ""


class Changer:
    """Changes one cluster's schedulers. `namespace` limits the pass to one namespace; empty: all.

    `now` is in seconds since 1970.
    """

    def __init__(
        self,
        writer: Writer,
        journal: Journal,
        *,
        namespace: str = "",
        now: Callable[[], float] = time.time,
        endings: Endings = _never,
    ) -> None:
        self._writer = writer
        self._journal = journal
        self._namespace = namespace
        self._now = now
        self._endings = endings

    # ------------------------------------------------------------------------------------------------- on request

    async def plan(
        self, namespace: str, name: str, wanted: Wanted, version: Version | None, change_id: str = ""
    ) -> Plan | Enough | Refusal:
        """What would be done now, on the Deployment read fresh."""
        deployment = await self._writer.deployment(namespace, name)
        known = change_id or uuid.uuid4().hex[:12]
        return plan_raise(deployment, wanted, now=self._now(), change_id=known, version=version)

    async def raise_(
        self, namespace: str, name: str, wanted: Wanted, version: Version | None, confirmed: Plan
    ) -> Record:
        """Makes the confirmed change. Raises ChangeFailed when the object is not what was confirmed, or it failed.

        An edit elsewhere in the object in the meantime is none that matters: it is planned again, up to three times.
        """
        plan = confirmed
        for _ in range(ATTEMPTS):
            await self._journal.planned(plan.record, plan.uid)
            try:
                done = await self._writer.patch_deployment(namespace, name, plan.patch)
            except Conflict as conflict:
                again = await self.plan(namespace, name, wanted, version, plan.record.id)
                if _is_ours(again, plan.record.id):  # an attempt whose outcome nobody was told
                    break
                if not isinstance(again, Plan) or _differs(again, confirmed):
                    raise _changed_meanwhile(again) from conflict
                plan = again
            except OutcomeUnknown as unknown:
                await self._look(namespace, name, plan.record, unknown)
                break
            else:
                await self._begin(done, plan.record)
                break
        else:
            raise ChangeFailed(f"{namespace}/{name} is edited all the time; nothing was changed", hint="try again")
        await self._journal.note(Event("raised", plan.record.target, plan.record, by=plan.record.by))
        return plan.record

    async def extend(self, namespace: str, name: str, seconds: float, *, by: str) -> Record | Refusal:
        """Moves the deadline of the open change to `seconds` from now."""
        deployment = await self._writer.deployment(namespace, name)
        record = _open_record(deployment)
        planned = plan_extension(deployment, record, seconds, now=self._now())
        if isinstance(planned, Refusal):
            return planned
        longer, patch = planned
        try:
            await self._writer.patch_deployment(namespace, name, patch)
        except Conflict as conflict:
            raise ChangeFailed("the change was reverted or edited meanwhile", hint="look at its state") from conflict
        except OutcomeUnknown as unknown:
            await self._look(namespace, name, longer, unknown)
        await self._journal.note(Event("extended", longer.target, longer, by=by))
        return longer

    async def revert(self, namespace: str, name: str, *, by: str) -> Event:
        """Undoes the open change now, as at its deadline."""
        last: SourceError | None = None
        for _ in range(ATTEMPTS):
            deployment = await self._writer.deployment(namespace, name)
            _open_record(deployment)
            try:
                event = await self._act(deployment, FOREVER, by=by)
            except (Conflict, OutcomeUnknown) as error:
                last = error
                continue
            if event is not None:
                await self._journal.note(event)
                return event
        raise ChangeFailed(f"{namespace}/{name} could not be reverted now; it stays due and is tried again") from last

    # ------------------------------------------------------------------------------------------------------ the pass

    async def reconcile(self) -> list[Event]:
        """One pass: everything that is due is undone, and what was found is noted; what happened.

        Failures with one object do not keep the others waiting; all are tried again in the next pass.
        """
        known = await self._known()
        try:
            carriers = await self._writer.annotated(KEY, self._namespace)
        except SourceError as error:
            overdue = [one.record for one in (known or {}).values() if one.record.deadline < self._now()]
            events = [Event("failed", one.target, one, f"{error.message}; it is tried again") for one in overdue]
        else:
            events = [event for one in carriers for event in await self._pass(*one, known)]
            events += await self._ended_unseen(known or {})
        for event in events:
            await self._told(event)
        return events

    async def _known(self) -> dict[str, Open] | None:
        """By id; None while the journal is out of reach: what is due is undone all the same."""
        try:
            return {one.record.id: one for one in await self._journal.opened()}
        except BotError as error:
            log.warning("the journal of changes cannot be read: %s", error)
            return None

    async def _pass(self, namespace: str, name: str, known: dict[str, Open] | None) -> list[Event]:
        record: Record | None = None
        try:
            deployment = await self._writer.deployment(namespace, name)
            due = decide(deployment, self._now())
            record = None if due is None or isinstance(due, Unreadable) else due.record
            if isinstance(due, Wait):
                return await self._waiting(deployment, due.record, known)
            return await self._due(deployment, self._now())
        except (Conflict, OutcomeUnknown) as error:
            log.warning("%s/%s: %s", namespace, name, error)
            return []  # the next pass looks and decides anew
        except SourceError as error:
            return [Event("failed", f"{namespace}/{name}", record, f"{error.message}; it is tried again")]

    async def _waiting(self, deployment: Object, record: Record, known: dict[str, Open] | None) -> list[Event]:
        if reason := await self._endings(record):
            return await self._due(deployment, FOREVER, detail=reason)
        if known is None:
            return []
        opened = known.get(record.id)
        if opened and opened.state == "effective":
            return []
        seen = opened and opened.state == "raised"
        adopted = [] if seen else [Event("raised", record.target, record, "found on the object", record.by)]
        return adopted + self._effect(deployment, record)

    async def _due(self, deployment: Object, now: float, *, detail: str = "") -> list[Event]:
        event = await self._act(deployment, now, detail=detail)
        return [event] if event else []

    def _effect(self, deployment: Object, record: Record) -> list[Event]:
        waits = unfinished_rollout(deployment) if record.means == "patch" else ""
        if not waits:
            return [Event("effective", record.target, record)]
        if self._now() - record.since > STUCK_S:
            return [Event("stuck", record.target, record, waits)]
        return []

    async def _ended_unseen(self, known: dict[str, Open]) -> list[Event]:
        """Changes that ended without anybody here noting it: killed in between, or the object was replaced."""
        events: list[Event] = []
        for one in known.values():
            namespace, _, name = one.record.target.partition("/")
            if self._namespace not in ("", namespace):
                continue
            try:
                deployment = await self._writer.deployment(namespace, name)
            except NotFound:
                events.append(Event("replaced", one.record.target, one.record, "the Deployment is gone"))
                continue
            except SourceError as error:
                log.warning("%s: %s", one.record.target, error)
                continue
            found = read_record(annotation(deployment) or "")
            still_open = isinstance(found, Record) and found.id == one.record.id
            underway = one.state == "planned" and self._now() - one.record.since < UNDERWAY_S
            if not still_open and not underway:
                events.append(_how_it_ended(deployment, one))
        return events

    async def _told(self, event: Event) -> None:
        try:
            await self._journal.note(event)
        except BotError as error:  # what was done stays done; the next pass finds it again
            log.warning("%s of %s could not be noted: %s", event.kind, event.target, error)

    # ------------------------------------------------------------------------------------------------------- writing

    async def _act(self, deployment: Object, now: float, *, by: str = "", detail: str = "") -> Event | None:
        """Does what is due at `now`. Raises Conflict if the object changed, OutcomeUnknown, SourceError."""
        meta = deployment["metadata"]
        target = f"{meta['namespace']}/{meta['name']}"
        match decide(deployment, now):
            case Restore(record, patch):
                await self._set_running(deployment, record, record.old or KLOG_DEFAULT)
                await self._writer.patch_deployment(meta["namespace"], meta["name"], patch)
                return Event("reverted", target, record, detail, by)
            case Forget(record, patch, how, diff):
                await self._writer.patch_deployment(meta["namespace"], meta["name"], patch)
                return Event(how, target, record, diff, by)
            case Unreadable(_, why):
                return Event("unreadable", target, None, why)
            case _:
                return None

    async def _set_running(self, deployment: Object, record: Record, level: str) -> None:
        """For `debug-flags`: sets every running kube-scheduler of the Deployment; one that ended has its old level."""
        if record.means != "debug-flags":
            return
        namespace, _, _ = record.target.partition("/")
        for pod in await self._writer.pods_of(deployment):
            try:
                await self._writer.set_verbosity(namespace, pod, level)
            except NotFound:
                continue

    async def _begin(self, deployment: Object, record: Record) -> None:
        """For `debug-flags`: after the record stands on the object, the running processes; all or none of them."""
        try:
            await self._set_running(deployment, record, record.new)
        except SourceError as error:
            namespace, _, name = record.target.partition("/")
            try:
                await self._set_running(deployment, record, record.old or KLOG_DEFAULT)
                await self._writer.patch_deployment(namespace, name, plan_forget(deployment))
            except SourceError as second:
                text = f"some of the pods may have -v={record.new}: {second.message}"
                raise ChangeFailed(text, hint=f"they are set back at {record.at}") from error
            raise ChangeFailed(f"nothing was changed: {error.message}", hint=error.hint) from error

    async def _look(self, namespace: str, name: str, record: Record, unknown: OutcomeUnknown) -> None:
        """Whether a write whose answer was lost was done. Raises ChangeFailed when it is not seen."""
        try:
            deployment = await self._writer.deployment(namespace, name)
        except SourceError as error:
            text = f"whether {namespace}/{name} was changed is not known: {unknown.message}"
            raise ChangeFailed(text, hint=f"if it was, it is undone at {record.at} all the same") from error
        found = read_record(annotation(deployment) or "")
        if not isinstance(found, Record) or (found.id, found.at) != (record.id, record.at):
            text = f"{namespace}/{name} is not changed, as far as can be seen: {unknown.message}"
            raise ChangeFailed(text, hint=f"should it come through late, it is undone at {record.at}") from unknown
        await self._begin(deployment, record)


def _open_record(deployment: Object) -> Record:
    text = annotation(deployment)
    found = read_record(text) if text is not None else None
    if isinstance(found, Record):
        return found
    meta = deployment["metadata"]
    why = f"cannot be read: {found.why}" if found else "is not there"
    text = f"{meta['namespace']}/{meta['name']}: the record of an open change {why}"
    raise ChangeFailed(text, hint="there is nothing that could be undone" if found is None else "look at it by hand")


def _is_ours(planned: Plan | Enough | Refusal, change_id: str) -> bool:
    return isinstance(planned, Refusal) and planned.record is not None and planned.record.id == change_id


def _differs(again: Plan, confirmed: Plan) -> bool:
    """Whether what would be written is not what was confirmed."""
    one, other = again.record, confirmed.record
    return (again.uid, one.words_before, one.words_after) != (confirmed.uid, other.words_before, other.words_after)


def _changed_meanwhile(again: Plan | Enough | Refusal) -> ChangeFailed:
    why = again.why if isinstance(again, Refusal) else "the container's flags are not what was confirmed"
    return ChangeFailed(f"nothing was changed: {why}", hint="ask again to see what would be done now")


def _how_it_ended(deployment: Object, one: Open) -> Event:
    record = one.record
    if one.state == "planned":
        return Event("never-raised", record.target, record, "it was planned and never reached the object")
    if deployment["metadata"].get("uid") != one.uid:
        return Event("replaced", record.target, record, "the Deployment was created anew, without the change")
    spot = find_spot(deployment, record.container)
    words = spot.words(record.field) if spot else ()
    if words == record.words_before or annotation(deployment):
        return Event("reverted", record.target, record, "found so")
    names = [str(each.get("name")) for each in containers(deployment)]
    detail = f"its record was taken off; {record.field} is {list(words)}" if spot else f"containers are {names}"
    return Event("drifted", record.target, record, detail)
