"""Raises, extends and reverts, and the pass over the cluster that undoes what is due.

Safe to be killed between any two steps and to run in several processes at once: the record on the object decides, and
every patch is its own lock. What the journal knows only follows, and may be late, lost or out of reach.
"""

import asyncio
import logging
import time
import uuid
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from bot.changes.decide import Forget, Restore, Wait, decide
from bot.changes.ended import carries, how_it_ended, is_hidden
from bot.changes.journal import ENDS, Event, Journal, Open
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
from bot.changes.running import level_now, set_running
from bot.errors import BotError, NotFound, SourceError
from bot.hami.version import Version
from bot.kube.writer import Conflict, OutcomeUnknown, Writer

ATTEMPTS = 3
STUCK_S = 180.0
"""A rollout that is not through after this is told: the new pods do not become ready."""
UNDERWAY_S = 120.0
"""So long after it was planned a change may still be on its way; one that is not on the object later was never made."""
OVERDUE_S = 60.0
"""So long after its deadline a change that is still open is told as one that could not be undone."""
SKEW_S = 900.0
"""Replicas go by the API server's clock while it is no further than this from their own; else one of the two is no
clock, and their own counts."""
PATIENCE_S = 5.0
"""What is asked about an open change or told of it may not keep others waiting."""
FOREVER = float("inf")

Object = dict[str, Any]
Endings = Callable[[Record], Awaitable[str]]
"""Why a change should end before its deadline, in words; empty while it should not."""

log = logging.getLogger(__name__)


class ChangeFailed(BotError):  # noqa: N818  # what the person is told
    """A change could not be made, or not undone; the message says what state things are in."""

    exit_code = 5


class _Looked(NamedTuple):
    """What a look at one object gave: what happened to it, or that its change is not due."""

    event: Event | None = None
    waiting: tuple[Object, Record] | None = None


async def _never(_: Record) -> str:
    return ""


class Changer:
    """Changes one cluster's schedulers. `namespace` limits the pass to one namespace; empty: all.

    `now` is this process's clock, in seconds since 1970; times are judged by the API server's where it tells one.
    """

    def __init__(
        self,
        writer: Writer,
        journal: Journal,
        *,
        namespace: str = "",
        now: Callable[[], float] = time.time,
        endings: Endings = _never,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._writer = writer
        self._journal = journal
        self._namespace = namespace
        self._now = now
        self._endings = endings
        self._patience_s = patience_s
        self._served: object = None
        self._ahead_s = 0.0

    # ------------------------------------------------------------------------------------------------- on request

    async def plan(
        self, namespace: str, name: str, wanted: Wanted, version: Version | None, change_id: str = ""
    ) -> Plan | Enough | Refusal:
        """What would be done now, on the Deployment read fresh."""
        deployment = await self._read(namespace, name)
        known = change_id or uuid.uuid4().hex[:12]
        return plan_raise(deployment, wanted, now=self.time(), change_id=known, version=version)

    async def raise_(
        self,
        namespace: str,
        name: str,
        wanted: Wanted,
        version: Version | None,
        confirmed: Plan,
        *,
        exact: bool = False,
    ) -> Record:
        """Makes the confirmed change; its time counts from now. Raises ChangeFailed when the object is not what was
        confirmed, or it failed.

        An edit elsewhere in the object in the meantime is none that matters: it is planned again, up to three times;
        with `exact` any edit is. Asked again while that very change is open it is not made again.
        """
        for _ in range(ATTEMPTS):
            again = await self.plan(namespace, name, wanted, version, confirmed.record.id)
            if isinstance(again, Refusal) and again.record is not None and again.record.id == confirmed.record.id:
                return await self._begun(await self._read(namespace, name), again.record)
            if not isinstance(again, Plan) or _differs(again, confirmed):
                raise _changed_meanwhile(again)
            if exact and again.resource_version != confirmed.resource_version:
                raise ChangeFailed("nothing was changed: the Deployment was edited since", hint="ask for it again")
            await self._planned(again)
            try:
                done = await self._writer.patch_deployment(namespace, name, again.patch)
            except Conflict:
                continue
            except OutcomeUnknown as unknown:
                done = await self._look(namespace, name, again.record, unknown)
            return await self._begun(done, again.record)
        raise ChangeFailed(f"{namespace}/{name} is edited all the time; nothing was changed", hint="try again")

    async def _planned(self, plan: Plan) -> None:
        try:
            async with asyncio.timeout(self._patience_s):
                await self._journal.planned(plan.record, plan.uid)
        except TimeoutError as error:
            text = f"nothing was changed: it could not be noted in {self._patience_s:g} s"
            raise ChangeFailed(text, hint="the store does not answer; what is not noted is not done") from error

    async def extend(self, namespace: str, name: str, seconds: float, *, by: str) -> Record | Refusal:
        """Moves the deadline of the open change to `seconds` from now."""
        deployment = await self._read(namespace, name)
        record = _open_record(deployment)
        planned = plan_extension(deployment, record, seconds, now=self.time())
        if isinstance(planned, Refusal):
            return planned
        longer, patch = planned
        try:
            await self._writer.patch_deployment(namespace, name, patch)
        except Conflict as conflict:
            raise ChangeFailed("the change was reverted or edited meanwhile", hint="look at its state") from conflict
        except OutcomeUnknown as unknown:
            await self._look(namespace, name, longer, unknown)
        await self._told(Event("extended", longer.target, longer, by=by))
        return longer

    async def revert(self, namespace: str, name: str, *, by: str) -> Event:
        """Undoes the open change now, as at its deadline."""
        wanted: Open | None = None
        last: SourceError | None = None
        for _ in range(ATTEMPTS):
            deployment = await self._read(namespace, name)
            if wanted and not carries(deployment, wanted.record):  # by a write whose answer was lost, or by another
                event = how_it_ended(deployment, wanted)._replace(by=by)
            else:
                wanted = Open(_open_record(deployment), str(deployment["metadata"].get("uid", "")), "effective")
                try:
                    event = await self._act(deployment, FOREVER, by=by)
                except (Conflict, OutcomeUnknown) as error:
                    last = error
                    continue
            if event is not None:
                await self._told(event)
                return event
        raise ChangeFailed(f"{namespace}/{name} could not be reverted now; it stays due and is tried again") from last

    # ------------------------------------------------------------------------------------------------------ the pass

    async def reconcile(self) -> list[Event]:
        """One pass: everything that is due is undone, and what was found is noted; what happened.

        What is due comes first, and needs no journal. Failures with one object do not keep the others waiting; all are
        tried again in the next pass.
        """
        try:
            carriers = await self._writer.annotated(KEY, self._namespace)
        except SourceError as error:
            log.warning("the Deployments cannot be listed: %s", error)
            carriers = None
        looked = [await self._pass(*where) for where in carriers or ()]
        known = await self._known()
        if carriers is None:
            looked = [await self._pass(*where) for where in sorted({_where(one) for one in (known or {}).values()})]
        events = [self._attributed(one.event, known) for one in looked if one.event]
        for deployment, record in [one.waiting for one in looked if one.waiting]:
            events += await self._waiting(deployment, record, known)
        # An object that could not be read now, and on which nothing is due yet, is no revert that failed.
        events = [one for one in events if not self._early_failure(one)]
        ended = {event.record.id for event in events if event.record and event.kind in ENDS}
        events += await self._ended_unseen([one for one in (known or {}).values() if one.record.id not in ended])
        for event in events:
            await self._told(event)
        return events

    def _early_failure(self, event: Event) -> bool:
        return event.kind == "failed" and event.record is not None and self.time() < event.record.deadline

    async def _known(self) -> dict[str, Open] | None:
        """By id; None while the journal is out of reach: what is due is undone all the same."""
        try:
            async with asyncio.timeout(self._patience_s):
                opened = await self._journal.opened()
        except (BotError, TimeoutError) as error:
            log.warning("the journal of changes cannot be read: %s", error)
            return None
        return {one.record.id: one for one in opened if self._namespace in ("", _where(one)[0])}

    async def _pass(self, namespace: str, name: str, *, early: str = "") -> _Looked:
        """Undoes what is due on one object; with `early`, the reason, also what is not due yet."""
        record: Record | None = None
        try:
            deployment = await self._read(namespace, name)
            now = FOREVER if early else self.time()
            due = decide(deployment, now)
            record = None if due is None or isinstance(due, Unreadable) else due.record
            if isinstance(due, Wait):
                return _Looked(waiting=(deployment, due.record))
            return _Looked(await self._act(deployment, now, detail=early))
        except NotFound:
            return _Looked()
        except SourceError as error:
            log.warning("%s/%s: %s", namespace, name, error)
            passing = isinstance(error, Conflict | OutcomeUnknown)
            if passing and (record is None or self.time() < record.deadline + OVERDUE_S):
                return _Looked()  # the next pass looks and decides anew
            return _Looked(Event("failed", f"{namespace}/{name}", record, f"{error.message}; it is tried again"))

    def _attributed(self, event: Event, known: dict[str, Open] | None) -> Event:
        """With the change that it is about, where the object could not be read for it."""
        if event.record is not None or known is None:
            return event
        record = next((one.record for one in known.values() if one.record.target == event.target), None)
        return event._replace(record=record)

    async def _waiting(self, deployment: Object, record: Record, known: dict[str, Open] | None) -> list[Event]:
        if reason := await self._ending(record):
            looked = await self._pass(deployment["metadata"]["namespace"], deployment["metadata"]["name"], early=reason)
            return [looked.event] if looked.event else []
        if known is None:
            return []
        opened = known.get(record.id)
        events: list[Event] = []
        if opened is None or opened.state == "planned":
            uid = str(deployment["metadata"].get("uid", ""))
            events.append(Event("raised", record.target, record, "found on the object", record.by, uid))
        elif record.extended > opened.record.extended:
            events.append(Event("extended", record.target, record, "found on the object"))
        if opened is None or opened.state != "effective":
            events += self._effect(deployment, record)
        return events

    async def _ending(self, record: Record) -> str:
        try:
            async with asyncio.timeout(self._patience_s):
                return await self._endings(record)
        except (BotError, TimeoutError) as error:
            log.warning("whether %s should end early is not known: %s", record.target, error)
            return ""

    def _effect(self, deployment: Object, record: Record) -> list[Event]:
        waits = unfinished_rollout(deployment) if record.means == "patch" else ""
        if not waits:
            return [Event("effective", record.target, record)]
        if self.time() - record.since > STUCK_S:
            return [Event("stuck", record.target, record, waits)]
        return []

    async def _ended_unseen(self, opened: list[Open]) -> list[Event]:
        """Changes that ended without anybody here noting it: killed in between, or the object was replaced."""
        events: list[Event] = []
        for one in opened:
            record = one.record
            try:
                deployment = await self._read(*_where(one))
            except NotFound:
                events.append(Event("replaced", record.target, record, "the Deployment is gone"))
                continue
            except SourceError as error:
                log.warning("%s: %s", record.target, error)
                continue
            underway = one.state == "planned" and self.time() - record.since < UNDERWAY_S
            if not carries(deployment, record) and not is_hidden(deployment) and not underway:
                events.append(how_it_ended(deployment, one))
        return events

    async def _told(self, event: Event) -> None:
        try:
            async with asyncio.timeout(self._patience_s):
                await self._journal.note(event)
        except (BotError, TimeoutError) as error:  # what was done stays done; the next pass finds it again
            log.warning("%s of %s could not be noted: %s", event.kind, event.target, error)

    # ------------------------------------------------------------------------------------------------------- writing

    async def _read(self, namespace: str, name: str) -> Object:
        deployment = await self._writer.deployment(namespace, name)
        served = self._writer.server_time
        if served is not None and served != self._served:
            self._served, ahead_s = served, served.timestamp() - self._now()
            self._ahead_s = ahead_s if abs(ahead_s) <= SKEW_S else 0.0
        return deployment

    def time(self) -> float:
        """Now, by the API server's clock as of the last look at it."""
        return self._now() + self._ahead_s

    async def _act(self, deployment: Object, now: float, *, by: str = "", detail: str = "") -> Event | None:
        """Does what is due at `now`. Raises Conflict if the object changed, OutcomeUnknown, SourceError."""
        meta = deployment["metadata"]
        target = f"{meta['namespace']}/{meta['name']}"
        match decide(deployment, now):
            case Restore(record, patch):
                await set_running(self._writer, deployment, record, record.old)
                await self._writer.patch_deployment(meta["namespace"], meta["name"], patch)
                return Event("reverted", target, record, detail, by)
            case Forget(record, patch, how, diff):
                if how == "drifted":  # pods of the words before may still run
                    await set_running(self._writer, deployment, record, level_now(deployment, record))
                await self._writer.patch_deployment(meta["namespace"], meta["name"], patch)
                return Event(how, target, record, diff, by)
            case Unreadable(_, why):
                return Event("unreadable", target, None, why)
            case _:
                return None

    async def _begun(self, deployment: Object, record: Record) -> Record:
        """The record stands on the object: what follows from that. For `debug-flags` the running processes are set
        now, all or none of them.
        """
        if record.means == "debug-flags":
            try:
                if not await set_running(self._writer, deployment, record, record.new):
                    raise NotFound("no running kube-scheduler takes a level", hint="it does with --profiling only")
                if not carries(await self._read(*_place(record)), record):
                    raise Conflict("it was reverted before every pod had it")
            except SourceError as error:
                await self._unset(record, error)
        await self._told(Event("raised", record.target, record, by=record.by))
        return record

    async def _unset(self, record: Record, error: SourceError) -> None:
        """Sets the running processes back and takes the record off; raises ChangeFailed with what state that left."""
        try:
            deployment = await self._read(*_place(record))
            await set_running(self._writer, deployment, record, record.old)
            if carries(deployment, record):
                await self._writer.patch_deployment(*_place(record), plan_forget(deployment))
        except SourceError as second:
            text = f"some of the pods may have -v={record.new}: {second.message}"
            raise ChangeFailed(text, hint=f"they are set back at {record.at}") from error
        raise ChangeFailed(f"nothing was changed: {error.message}", hint=error.hint) from error

    async def _look(self, namespace: str, name: str, record: Record, unknown: OutcomeUnknown) -> Object:
        """The object, after a write whose answer was lost. Raises ChangeFailed when it is not seen to be done."""
        try:
            deployment = await self._read(namespace, name)
        except SourceError as error:
            text = f"whether {namespace}/{name} was changed is not known: {unknown.message}"
            raise ChangeFailed(text, hint=f"if it was, it is undone at {record.at} all the same") from error
        found = read_record(annotation(deployment) or "")
        if not isinstance(found, Record) or (found.id, found.at) != (record.id, record.at):
            text = f"{namespace}/{name} is not changed, as far as can be seen: {unknown.message}"
            raise ChangeFailed(text, hint=f"should it come through late, it is undone at {record.at}") from unknown
        return deployment


def _open_record(deployment: Object) -> Record:
    text = annotation(deployment)
    found = read_record(text) if text is not None else None
    meta = deployment["metadata"]
    here = f"{meta['namespace']}/{meta['name']}"
    if isinstance(found, Record) and found.target == here:
        return found
    why = f"cannot be read: {found.why}" if isinstance(found, Unreadable) else "is not there"
    why = f"is a copy of that of {found.target}" if isinstance(found, Record) else why
    text = f"{here}: the record of an open change {why}"
    raise ChangeFailed(text, hint="there is nothing that could be undone" if found is None else "look at it by hand")


def _place(record: Record) -> tuple[str, str]:
    namespace, _, name = record.target.partition("/")
    return namespace, name


def _where(one: Open) -> tuple[str, str]:
    return _place(one.record)


def _differs(again: Plan, confirmed: Plan) -> bool:
    """Whether what would be written is not what was confirmed."""
    one, other = again.record, confirmed.record
    return (again.uid, one.words_before, one.words_after) != (confirmed.uid, other.words_before, other.words_after)


def _changed_meanwhile(again: Plan | Enough | Refusal) -> ChangeFailed:
    why = again.why if isinstance(again, Refusal) else "the container's flags are not what was confirmed"
    return ChangeFailed(f"nothing was changed: {why}", hint="ask again to see what would be done now")
