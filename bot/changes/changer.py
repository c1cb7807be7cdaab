"""Makes, extends and reverts changes of one Deployment; `bot.changes.reconciler` does what is due by itself."""

import time
import uuid
from collections.abc import Callable

import msgspec

from bot.changes.deadline import wrong_clock
from bot.changes.decide import carries, decide, how_it_ended
from bot.changes.deployments import (
    FOREVER,
    ChangeFailed,
    Deployments,
    Object,
    open_record,
    place_of,
    read_after_unknown,
    set_in_all,
)
from bot.changes.flags import target_of
from bot.changes.journal import ChangeEvent, Journal, KnownChange
from bot.changes.plan import NothingToDo, Plan, Raise, annotation, plan_extension, plan_raise
from bot.changes.reconciler import Endings, PatientJournal, Reconciler, open_by_copy
from bot.changes.record import Record, Refusal, read_record
from bot.errors import SourceError
from bot.hami.version import Version
from bot.kube.client.writer import Conflict, OutcomeUnknown, Writer
from bot.texts import Text

ATTEMPTS = 3
PATIENCE_S = 5.0
"""Seconds that one read or note of an open change may take, so that it does not keep others waiting."""


class Changer:
    """Changes one cluster's schedulers; `passes` does what is due on all open changes, in one `namespace` or (empty) in
    all. `now` is this process's clock, in seconds since 1970: no change is made where it is too far off the API
    server's.
    """

    def __init__(
        self,
        writer: Writer,
        journal: Journal,
        *,
        namespace: str = "",
        now: Callable[[], float] = time.time,
        endings: Endings | None = None,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._writer = writer
        self._deployments = Deployments(writer, now)
        self._journal = PatientJournal(journal, patience_s)
        self.passes = Reconciler(
            self._deployments, self._journal, namespace=namespace, endings=endings, patience_s=patience_s
        )

    def time(self) -> float:
        """The present time by the API server's clock, in seconds since 1970."""
        return self._deployments.time()

    def skew_s(self) -> float:
        """How many seconds this process's clock is ahead of the API server's; negative: behind."""
        return self._deployments.skew_s()

    async def wrong_clock(self) -> Refusal | None:
        """Why this process's clock keeps it from making a change, or None; asks the API server. Raises SourceError."""
        await self._writer.ask_time()
        return wrong_clock(self.skew_s())

    async def plan(
        self, namespace: str, name: str, wanted: Raise, version: Version | None, change_id: str = ""
    ) -> Plan | NothingToDo | Refusal:
        """Plans the change on the Deployment, which is read anew; nothing is written. Raises SourceError."""
        deployment = await self._deployments.writer.deployment(namespace, name)
        known = change_id or uuid.uuid4().hex[:12]
        skew_s = self.skew_s()
        return plan_raise(deployment, wanted, now=self.time(), change_id=known, version=version, skew_s=skew_s)

    async def raise_(self, confirmed: Plan, version: Version | None, *, exact: bool = False) -> Record:
        """Makes the confirmed change; its time counts from now. Raises ChangeFailed when the object is not as
        confirmed, or the change failed. If another part of the object was edited meanwhile, the change is planned
        again, up to three times; with `exact` an edit of the spec raises. A change that is open already is not made
        again.
        """
        namespace, name = place_of(confirmed.record)
        for _ in range(ATTEMPTS):
            again = await self.plan(namespace, name, confirmed.wanted, version, confirmed.record.id)
            if isinstance(again, Refusal) and again.record is not None and again.record.id == confirmed.record.id:
                return await self.begin(await self._deployments.writer.deployment(namespace, name), again.record)
            if isinstance(again, Refusal):
                raise ChangeFailed(Text("error-change.not-changed-because", why=again.why), hint=again.hint)
            if not isinstance(again, Plan) or _written(again) != _written(confirmed):
                text = Text("error-change.not-changed-flags-differ")
                raise ChangeFailed(text, hint=Text("error-change.ask-again-what-would-be-done"))
            if exact and again.basis != confirmed.basis:
                raise ChangeFailed(
                    Text("error-change.not-changed-edited-since"), hint=Text("error-change.ask-for-it-again")
                )
            await self._journal.planned(again)
            try:
                done = await self._writer.patch_deployment(namespace, name, again.patch)
            except Conflict:
                continue
            except OutcomeUnknown as unknown:
                done = await read_after_unknown(self._deployments, again.record, unknown)
            return await self.begin(done, again.record)
        raise ChangeFailed(
            Text("error-change.somebody-edits-repeatedly", namespace=namespace, name=name),
            hint=Text("error-change.find-the-editor"),
        )

    async def extend(
        self, namespace: str, name: str, until: float, *, by: str, change_id: str = ""
    ) -> Record | Refusal:
        """Moves the deadline of the open change to `until`, in seconds since 1970; see `bot.changes.deadline.later`.
        With `change_id` only that change is extended: ChangeFailed where another one is open by now.
        """
        deployment = await self._deployments.writer.deployment(namespace, name)
        record = open_record(deployment)
        if change_id not in ("", record.id):
            raise ChangeFailed(
                Text("error-change.ended-and-another-is-open"), hint=Text("error-change.look-at-its-state")
            )
        planned = plan_extension(deployment, record, until, now=self.time())
        if isinstance(planned, Refusal):
            return planned
        longer, patch = planned
        try:
            await self._writer.patch_deployment(namespace, name, patch)
        except Conflict as conflict:
            raise ChangeFailed(
                Text("error-change.change-was-reverted-edited-meanwhile"), hint=Text("error-change.look-at-its-state")
            ) from conflict
        except OutcomeUnknown as unknown:
            await read_after_unknown(self._deployments, longer, unknown)
        await self._note(ChangeEvent("extended", longer.target, longer, by=by))
        return longer

    async def revert(self, namespace: str, name: str, *, by: str) -> ChangeEvent:
        """Reverts the open change now, as at its deadline; by the journal's copy if its record is damaged or gone."""
        wanted: KnownChange | None = None
        last: SourceError | None = None
        for _ in range(ATTEMPTS):
            deployment = await self._deployments.writer.deployment(namespace, name)
            try:
                if wanted is None and (wanted := await self.open_copy(deployment)) is None:
                    uid = str(deployment["metadata"].get("uid", ""))
                    wanted = KnownChange(open_record(deployment), uid, "effective")
                if carries(deployment, wanted.record):
                    event = await self._deployments.act(deployment, decide(deployment, FOREVER), by=by)
                else:  # its record is damaged or gone; or it ended by a write whose answer was lost, or by another
                    event = await self._deployments.act_by_copy(deployment, wanted, FOREVER, by=by)
            except (Conflict, OutcomeUnknown) as error:
                last = error
                continue
            if event is None:
                continue
            if event.kind in ("drifted", "container-gone") and event.source == "record":
                edited = open_by_copy(event, await self._journal.opened(namespace))
                if edited is not None:
                    wanted = edited
                    continue
            await self._note(event)
            if event.kind != "failed":
                return event
            raise ChangeFailed(
                Text("error-change.not-changed-because", why=event.detail),
                hint=Text("error-change.revert-by-hand", command=event.by_hand),
            )
        raise ChangeFailed(Text("error-change.could-not-be-reverted-now", namespace=namespace, name=name)) from last

    async def open_copy(self, deployment: Object) -> KnownChange | None:
        """The newest change that is open on the Deployment by the journal's copy alone; None where the Deployment
        carries a readable record, or no change is open on it. Raises ChangeFailed where the journal is out of reach.
        """
        here = target_of(deployment)
        found = read_record(annotation(deployment) or "")
        if isinstance(found, Record) and found.target == here:
            return None
        opened = await self._journal.opened(deployment["metadata"]["namespace"])
        if opened is None:
            text = Text("error-change.no-record-anywhere", target=here)
            raise ChangeFailed(text, hint=Text("error-change.not-changed-try-again"))
        here_open = [change for change in opened.values() if change.record.target == here]
        return next((change for change in reversed(here_open) if how_it_ended(deployment, change) is None), None)

    async def begin(self, deployment: Object, record: Record) -> Record:
        """Completes a change whose record stands on the object, and notes it as raised. Raises ChangeFailed."""
        await set_in_all(self._deployments, deployment, record)
        await self._note(ChangeEvent("raised", record.target, record, by=record.by))
        return record

    async def _note(self, event: ChangeEvent) -> None:
        await self._journal.note(msgspec.structs.replace(event, at=self.time()))


def _written(plan: Plan) -> tuple[object, ...]:
    return plan.uid, plan.record.words_before, plan.record.words_after
