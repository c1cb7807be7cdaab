"""The pass over a cluster that reverts what is due and notes what became of each change.

Safe to be killed between any two steps and to run in several processes at once: the record on the object decides, and
every patch is its own lock. The journal only follows, and may be late, incomplete or out of reach.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager

import msgspec

from bot.changes.decide import Wait, carries, decide, places_of
from bot.changes.deployments import FOREVER, ChangeFailed, Deployments, Object, place_of, set_in_all
from bot.changes.journal import ENDS, ChangeEvent, Journal, KnownChange, NotYet
from bot.changes.merge import by_hand
from bot.changes.plan import Plan, unfinished_rollout
from bot.changes.record import KEY, Record, same_way_back
from bot.errors import BotError, Bug, NotFound, SourceError, about_request, bugs_as_errors
from bot.kube.client.writer import Conflict, OutcomeUnknown
from bot.texts import Text, in_english

STUCK_S = 180.0
"""Seconds after which an unfinished rollout is reported: the new pods do not become ready."""
UNDERWAY_S = 120.0
"""Seconds that a planned change may be on its way; if it is not on the object after them, it was never made."""
OVERDUE_S = 60.0
"""Seconds after a change's deadline until the bot reports that it could not revert it."""

Endings = Callable[[Record], Awaitable[str]]
"""A function that tells why a change should end before its deadline; empty while it should not."""

Known = dict[str, KnownChange]
"""Changes as the journal knows them, by their ids."""

log = logging.getLogger(__name__)


def open_by_copy(event: ChangeEvent, known: Known | None) -> KnownChange | None:
    """The change as the journal has it, where the event ended it by a record that somebody had edited; else None."""
    opened = known.get(event.record.id) if known and event.record and event.kind in ENDS else None
    return None if not opened or not event.record or same_way_back(opened.record, event.record) else opened


class PatientJournal:
    """Reads and notes changes in the journal; each call may take `patience_s` seconds."""

    def __init__(self, journal: Journal, patience_s: float) -> None:
        self._journal = journal
        self._patience_s = patience_s
        self._bugs: set[str] = set()
        self._unread: str | None = None

    async def planned(self, plan: Plan) -> None:
        """Notes a plan in the journal before anything is written. Raises ChangeFailed where it cannot."""
        try:
            async with asyncio.timeout(self._patience_s):
                await self._journal.planned(plan.record, plan.uid)
        except TimeoutError as error:
            text = Text("error-change.not-changed-not-noted", seconds=f"{self._patience_s:g}")
            raise ChangeFailed(text, hint=Text("error-change.store-does-not-answer")) from error

    async def note(self, event: ChangeEvent) -> None:
        """Notes an event in the journal. If that fails it is only logged: the next pass finds the event again."""
        try:
            async with asyncio.timeout(self._patience_s):
                with bugs_as_errors(self._bugs):
                    await self._journal.note(event)
        except (BotError, TimeoutError) as error:
            log.warning("%s of %s could not be noted: %s", event.kind, event.target, error)

    async def opened(self, namespace: str) -> Known | None:
        """The journal's open changes by id; None while it is out of reach. An empty namespace means all."""
        try:
            async with asyncio.timeout(self._patience_s):
                with bugs_as_errors(self._bugs):
                    opened = await self._journal.opened()
        except (BotError, TimeoutError) as error:
            if (reason := str(error)) != self._unread:
                level = logging.INFO if isinstance(error, NotYet) else logging.WARNING
                log.log(level, "the journal of changes: %s", reason or f"no answer in {self._patience_s:g} s")
            self._unread = reason
            return None
        self._unread = None
        return {
            change.record.id: change for change in opened if namespace in ("", change.record.target.partition("/")[0])
        }


_Looked = ChangeEvent | tuple[Object, Record] | None
"""What a look at one object gave: what happened to it, or the Deployment with the record of a change not due yet."""


class Reconciler:
    """Reverts what is due in a cluster, or in its `namespace` alone; `trouble` tells what the last pass failed at."""

    def __init__(
        self,
        deployments: Deployments,
        journal: PatientJournal,
        *,
        namespace: str,
        endings: Endings | None,
        patience_s: float,
    ) -> None:
        self._deployments = deployments
        self._journal = journal
        self._namespace = namespace
        self._endings = endings
        self._patience_s = patience_s
        self._bugs: set[str] = set()
        self.trouble = ""

    async def reconcile(self) -> list[ChangeEvent]:
        """Makes one pass: reverts everything that is due, notes what was found, and gives the events. What is due comes
        first, and needs no journal. Failures with one object, bugs among them, do not keep the others waiting; all are
        tried again in the next pass.
        """
        try:
            carriers = await self._deployments.writer.annotated(KEY, self._namespace)
            trouble = ""
        except SourceError as error:
            trouble = f"the Deployments cannot be listed: {in_english(error.message)}"
            log.warning("the Deployments cannot be listed: %s", error)
            carriers = None
        looked = [await self._pass(*where) for where in carriers or ()]
        known = await self._journal.opened(self._namespace)
        if carriers is None:
            places = sorted({place_of(change.record) for change in (known or {}).values()})
            looked = [await self._pass(*where) for where in places]
        events = [self._attributed(look, known) for look in looked if isinstance(look, ChangeEvent)]
        events = [event for event in events if not open_by_copy(event, known)]
        waiting = [look for look in looked if isinstance(look, tuple)]
        for deployment, record in waiting:
            try:  # this reverts nothing: neither its failure nor a bug in it keeps anything else waiting
                with bugs_as_errors(self._bugs):
                    events += await self._waiting(deployment, record, known)
            except BotError as error:
                log.warning("%s: %s", record.target, error)
        # An object that could not be read now, and on which nothing is due yet, is no revert that failed.
        events = [event for event in events if not self._early_failure(event)]
        looked_after = [record for _, record in waiting]
        looked_after += [event.record for event in events if event.record and event.kind in (*ENDS, "failed")]
        events += await self._not_carried(list((known or {}).values()), looked_after)
        events = [event for event in events if event.record or not _is_known(event, events, known)]
        for event in events:
            with _traced(event.record, event.target):
                await self._journal.note(msgspec.structs.replace(event, at=self._deployments.time()))
        failed = [
            f"{event.target} cannot be reverted: {event.detail}"
            for event in events
            if event.kind == "failed" or (event.kind == "unreadable" and event.record is None)
        ]
        self.trouble = "; ".join([*([trouble] if trouble else []), *failed])
        return events

    def _early_failure(self, event: ChangeEvent) -> bool:
        return event.kind == "failed" and event.record is not None and self._deployments.time() < event.record.deadline

    async def _pass(self, namespace: str, name: str, *, early: str = "", change: KnownChange | None = None) -> _Looked:
        """Reverts what is due on one object, with `early`, the reason, also what is not; with `change`, that alone."""
        record = change.record if change else None
        deployment: Object | None = None
        try:
            with bugs_as_errors(self._bugs):
                deployment = await self._deployments.writer.deployment(namespace, name)
                now = FOREVER if early else self._deployments.time()
                if change:
                    underway = change.state == "planned" and self._deployments.time() - change.record.since < UNDERWAY_S
                    if underway or carries(deployment, change.record):
                        return None
                    with _traced(record, f"{namespace}/{name}"):
                        return await self._deployments.act_by_copy(deployment, change, now, early=early)
                due = decide(deployment, now)
                if isinstance(due, Wait):
                    return deployment, due.record
                record = due.event.record if due else None
                with _traced(record, f"{namespace}/{name}"):
                    return await self._deployments.act(deployment, due, early=early)
        except NotFound:
            gone = ChangeEvent("replaced", f"{namespace}/{name}", record, "the Deployment is gone", source="found")
            return gone if change else None
        except (SourceError, Bug) as error:
            with _traced(record, f"{namespace}/{name}"):
                log.warning("%s/%s: %s", namespace, name, error)
            passing = isinstance(error, Conflict | OutcomeUnknown)
            if passing and (record is None or self._deployments.time() < record.deadline + OVERDUE_S):
                return None  # the next pass looks and decides anew
            complaint = f"{in_english(error.message)}; it is tried again"
            line = by_hand(deployment, record) if record else ""
            return ChangeEvent("failed", f"{namespace}/{name}", record, complaint, by_hand=line)

    def _attributed(self, event: ChangeEvent, known: Known | None) -> ChangeEvent:
        """The event with the change that it is about, where the object could not be read for it."""
        if event.kind != "failed" or event.record is not None or known is None:
            return event
        record = next((change.record for change in known.values() if change.record.target == event.target), None)
        return msgspec.structs.replace(event, record=record, by_hand=by_hand(None, record) if record else "")

    async def _waiting(self, deployment: Object, record: Record, known: Known | None) -> list[ChangeEvent]:
        if reason := await self._ending(record):
            looked = await self._pass(deployment["metadata"]["namespace"], deployment["metadata"]["name"], early=reason)
            return [looked] if isinstance(looked, ChangeEvent) else []
        if known is None:
            return []
        opened = known.get(record.id)
        if opened and not same_way_back(record, opened.record):
            return []
        events: list[ChangeEvent] = []
        if opened is None or opened.state == "planned":
            # Whoever raised it may have been killed before every running process had its level.
            await set_in_all(self._deployments, deployment, record)
            uid = str(deployment["metadata"].get("uid", ""))
            events.append(ChangeEvent("raised", record.target, record, "found on the object", record.by, uid))
        elif record.extended > opened.record.extended:
            events.append(ChangeEvent("extended", record.target, record, "found on the object"))
        elif record.since < opened.record.since:
            events.append(ChangeEvent("retimed", record.target, record, "found on the object"))
        if opened is None or opened.state != "effective":
            waits = unfinished_rollout(deployment) if record.means == "patch" else None
            if waits is None:
                events.append(ChangeEvent("effective", record.target, record))
            elif self._deployments.time() - record.since > STUCK_S:
                events.append(ChangeEvent("stuck", record.target, record, in_english(waits)))
        return events

    async def _ending(self, record: Record) -> str:
        if self._endings is None:
            return ""
        try:
            async with asyncio.timeout(self._patience_s):
                with bugs_as_errors(self._bugs):
                    return await self._endings(record)
        except (BotError, TimeoutError) as error:
            log.warning("cannot tell whether %s should end early: %s", record.target, error)
            return ""

    async def _not_carried(self, opened: list[KnownChange], looked_after: list[Record]) -> list[ChangeEvent]:
        """The events of changes that their objects do not carry: what ended unnoted, and what is open all the same.
        Changes with the records in `looked_after` are left out. Of several changes of one flag the newest goes back
        first, as it was made on top of the others.
        """
        events: list[ChangeEvent] = []
        above: set[tuple[str, str, str]] = set()
        for change in reversed(opened):
            record = change.record
            places = places_of(record)
            if not places.isdisjoint(above) or any(same_way_back(record, done) for done in looked_after):
                continue
            event = await self._pass(*place_of(record), change=change)
            is_open = isinstance(event, ChangeEvent) and event.kind == "unreadable"
            if is_open and (reason := await self._ending(record)):
                event = await self._pass(*place_of(record), early=reason, change=change)
            if isinstance(event, ChangeEvent) and not self._early_failure(event):
                events.append(event)
            if not isinstance(event, ChangeEvent) or event.kind not in ENDS:
                above |= places
        return events


def _traced(record: Record | None, target: str) -> AbstractContextManager[None]:
    """Gives the log's lines about one change one id, whichever replica tries, and however often."""
    return about_request(record.id if record else target)


def _is_known(unread: ChangeEvent, events: list[ChangeEvent], known: Known | None) -> bool:
    """Whether the journal has what an object's damaged record is about: that change goes back by its copy."""
    ended = {event.record.id: event for event in events if event.record and event.kind in ENDS}
    here = [change.record.id for change in (known or {}).values() if change.record.target == unread.target]
    return any(change_id not in ended or ended[change_id].source == "copy" for change_id in here)
