"""Changes that need a second person's approval: asks for it, decides once, makes the change, reports what came of it.
If the process is killed between the approval and the change, the next look at the store completes and reports it.
"""

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from functools import partial

import msgspec

from bot.changes.journal import ENDS
from bot.errors import BotError, NotAllowed, bugs_as_errors
from bot.slack.question_tasks import LONGEST_S
from bot.store.audit import AuditLine
from bot.store.changes import Approval
from bot.texts import Text, in_english
from handlers.changes.draft import ChangeOver, NotNow, Pending, Person, Refused, pending_of, seal, seal_longer
from handlers.changes.execute import CHANGED, ChangeMaker, Guard
from handlers.changes.journal import ITSELF, audit_details, audit_target
from handlers.changes.leader_pass import WritableCluster
from handlers.deps import Deps
from playbooks.playbook import Sources

_CUT_S = LONGEST_S + 30.0
"""Seconds after its approval from which no process can still be working on a change."""
ROUNDED_S = 2.0
"""Seconds of tolerance between two deadlines: the Deployment's annotation has whole seconds only."""
_CUT = "the bot was stopped before it could begin"

log = logging.getLogger(__name__)

Make = Callable[[], Awaitable[None]]


class Approving:
    """Asks for approvals and makes the changes that were approved. Every method raises BotError with the text for the
    person; the audit log has the refusal by then.
    """

    def __init__(self, deps: Deps, guard: Guard, maker: ChangeMaker) -> None:
        self._deps = deps
        self._guard = guard
        self._maker = maker
        self._bugs: set[str] = set()
        self._failed: dict[str, str] = {}
        self._told_again: set[str] = set()

    async def ask(
        self, who: Person, writable: WritableCluster, pending: Pending, digest: str, *, key: str = ""
    ) -> None:
        """Posts the card that waits for approval; `digest` is the seal (SHA-256) of exactly what is to be approved.
        `key` identifies the deed that asks for an extension: done again after a crash, it asks for approval only once.
        """
        record = pending.record
        change_id = pending.draft.id if pending.draft else f"{record.id}-{hashlib.sha256(key.encode()).hexdigest()[:6]}"
        if asked := await self._deps.store.approvals.get(change_id):
            await writable.journal.show_waiting(asked, record, asked.as_of(writable.changer.time()).state)
            return
        asked = Approval(
            change_id,
            writable.cluster,
            record.target,
            digest,
            requester=who.user,
            channel=who.channel,
            request=msgspec.json.encode(pending).decode(),
        )
        approval = await self._deps.store.approvals.ask(asked, writable.changer.time())
        await writable.journal.show_waiting(approval, record, "pending")

    async def approve(self, who: Person, key: str, digest: str) -> str:
        """Approves a change and makes it, if nothing has changed since then; returns the text for the person."""
        async with self._guard.refusals(who, "approve", "", {"id": key}):
            approval, pending = await self._waiting(key, digest)
            await self._guard.allowed(who, "approve", requester=approval.requester)
            writable = await self._maker.writable_on_time(approval.cluster)
            await self._still_pending(writable, approval)
            async with self._deps.open_sources(approval.cluster) as sources:
                make = await self._unless_void(sources, writable, approval, pending)
                line = _line(who.user, approval, "approved")
                now = writable.changer.time()
                if not await self._deps.store.approvals.decide(key, "approved", now=now, by=who.user, line=line):
                    raise await self._decided(writable, key)
                approval = msgspec.structs.replace(approval, decided_by=who.user)
                await self._told(writable.journal.show_waiting(approval, pending.record, "approved", by=who.user))
                try:
                    await make()
                except BotError as error:
                    why = self._deps.say.words(error.message)
                    await self._told(self._not_done(writable, approval, pending, why))
                    raise
                await self._told(self._done(writable, approval, pending))
        return self._deps.say("card.made")

    async def refuse(self, who: Person, key: str, digest: str) -> str:
        """Refuses a pending change; whoever asked for it may do so, too. Returns the text for the person."""
        async with self._guard.refusals(who, "refuse", "", {"id": key}):
            approval, _ = await self._waiting(key, digest)
            await self._guard.allowed(who, "refuse", requester=approval.requester)
            writable = await self._maker.writable_on_time(approval.cluster)
            await self._still_pending(writable, approval)
            line, now = _line(who.user, approval, "refused-by-approver"), writable.changer.time()
            if not await self._deps.store.approvals.decide(key, "refused", now=now, by=who.user, line=line):
                raise await self._decided(writable, key)
            await self._tell_no(writable, msgspec.structs.replace(approval, state="refused", decided_by=who.user))
        return self._deps.say("card.cancelled")

    async def look_after(self) -> None:
        """Expires approvals that nobody gave in time, voids extensions of changes that have ended, and reports
        decisions that a killed process did not report. A cluster or an approval that fails does not hold up the others.
        """
        here = self._deps.clusters or ("",)
        found = [cluster for cluster in await self._deps.store.approvals.clusters() if cluster in here]
        await asyncio.gather(*(self.look_after_in(cluster) for cluster in found))

    async def look_after_in(self, cluster: str) -> None:
        """Does for one cluster what `look_after` does for all."""
        with self._found_again(cluster, f"approvals in {cluster or 'this cluster'}"):
            writable = await self._maker.writable_on_time(cluster)
            rows, now = self._deps.store.approvals, writable.changer.time()
            for approval in await rows.to_look_after(cluster, _CUT_S, now=now):
                if approval.id not in self._told_again:
                    with self._found_again(approval.id, f"the approval {approval.id} of {approval.target}"):
                        await self._look_after(writable, approval)

    @contextmanager
    def _found_again(self, key: str, what: str) -> Generator[None]:
        try:
            with bugs_as_errors(self._bugs):
                yield
        except BotError as error:
            why = in_english(error.message)
            if self._failed.get(key) != why:
                log.warning("%s: %s", what, error)
            self._failed[key] = why

    async def _look_after(self, writable: WritableCluster, approval: Approval) -> None:
        match approval.state:
            case "pending":  # an extension of a change that has ended can neither be made nor approved
                pending, rows = pending_of(approval), self._deps.store.changes(writable.cluster)
                known = await rows.known(pending.record.id) if pending.draft is None else None
                if known is not None and known.state in ENDS:
                    await self._void(writable, approval, self._deps.say("card.ended"))
            case "expired":
                await self._expire(writable, approval)
            case "approved":
                pending = pending_of(approval)
                if await self._was_begun(writable, pending):
                    await self._done(writable, approval, pending)
                else:
                    await self._not_done(writable, approval, pending, _CUT, audited=True)
            case _:
                await self._tell_no(writable, approval)
                self._told_again.add(approval.id)

    async def _tell_no(self, writable: WritableCluster, approval: Approval) -> None:
        """Tells that it was refused or is void; told again it is the same."""
        record, by = pending_of(approval).record, approval.decided_by
        await writable.journal.show_waiting(approval, record, approval.state, by="" if by == ITSELF else by)

    async def _void(self, writable: WritableCluster, approval: Approval, why: str) -> None:
        voided = msgspec.structs.replace(approval, state="void", decided_by=ITSELF, reason=why)
        line, now = _line(ITSELF, voided, "void"), writable.changer.time()
        if await self._deps.store.approvals.decide(approval.id, "void", now=now, by=ITSELF, reason=why, line=line):
            await self._tell_no(writable, voided)

    # What is shown can be shown twice; a row that has moved on is never found again. Hence the card first.

    async def _expire(self, writable: WritableCluster, approval: Approval) -> None:
        await writable.journal.show_waiting(approval, pending_of(approval).record, "expired")
        line, now = _line(ITSELF, approval, "expired"), writable.changer.time()
        await self._deps.store.approvals.expire(approval.id, line, now=now)

    async def _was_begun(self, writable: WritableCluster, pending: Pending) -> bool:
        """Looks at the change's own row, which is written before anything in the cluster; an extension has none."""
        if pending.draft is not None:
            return bool(await self._maker.resume(writable, pending.record.id))
        known = await self._deps.store.changes(writable.cluster).known(pending.record.id)
        if known is None:
            return False
        try:
            record, _ = await self._maker.open(writable, pending.record.target, pending.record.id)
        except Refused:  # it has ended since: then its row says until when it would have lasted
            record = known.record
        return record.deadline > pending.until - ROUNDED_S

    # ------------------------------------------------------------------------------------------------------ making

    async def _told(self, telling: Awaitable[None]) -> None:
        """Lets what was done stand where it cannot be told now: `look_after` tells it later."""
        try:
            await telling
        except BotError as error:
            log.warning("the result of an approved change could not be posted: %s", error)

    async def _done(self, writable: WritableCluster, approval: Approval, pending: Pending) -> None:
        """Closes the approval; a raise has the change's own card, an extension is told on the approval's."""
        if pending.draft is None:
            await writable.journal.show_waiting(approval, pending.record, "done", by=approval.decided_by)
        await self._deps.store.approvals.finish(approval.id, "done")

    async def _not_done(
        self, writable: WritableCluster, approval: Approval, pending: Pending, why: str, *, audited: bool = False
    ) -> None:
        """Closes the approval as not done, unless a pass has seen by now that the change was made after all."""
        shown = msgspec.structs.replace(approval, state="not-done", reason=why)
        line = _line(ITSELF, shown, "not-done") if audited else None
        async with writable.busy:
            known = await self._deps.store.changes(writable.cluster).known(pending.record.id)
            if pending.draft is not None and known is not None and known.state != "planned":
                await self._deps.store.approvals.finish(approval.id, "done")
                return
            await writable.journal.show_waiting(shown, pending.record, "not-done", by=approval.decided_by)
            await self._deps.store.approvals.finish(approval.id, "not-done", reason=why, line=line)

    # ---------------------------------------------------------------------------------------------------- deciding

    async def _waiting(self, key: str, digest: str) -> tuple[Approval, Pending]:
        approval = await self._deps.store.approvals.get(key)
        unknown = Text("error-change.nothing-waits-for-approval")
        if approval is None:
            raise ChangeOver(unknown, hint=Text("error-change.ask-for-change-again"))
        if approval.digest != digest:
            raise Refused(unknown, hint=Text("error-change.button-of-another-bot"))
        return approval, pending_of(approval)

    async def _still_pending(self, writable: WritableCluster, approval: Approval) -> None:
        state = approval.as_of(writable.changer.time()).state
        if state == "expired":
            await self._expire(writable, approval)
        if state != "pending":
            raise await self._decided(writable, approval.id)

    async def _decided(self, writable: WritableCluster, key: str) -> Refused:
        approval = await self._deps.store.approvals.get(key)
        state = approval.as_of(writable.changer.time()).decision if approval else "gone"
        return Refused(self._deps.say("card.decided", state=state), hint=Text("error-change.make-new-request"))

    async def _unless_void(
        self, sources: Sources, writable: WritableCluster, approval: Approval, pending: Pending
    ) -> Make:
        """What is to be done; the approval is void if that is not exactly what was asked for, or may not be asked."""
        asker = Person(approval.requester, approval.channel)
        try:
            await self._guard.allowed(asker, "extend" if pending.draft is None else "raise")
            return await self._as_asked(sources, writable, approval, pending)
        except NotNow as error:
            raise NotNow(
                Text("error-change.not-changed-because", why=error.message), hint=self._deps.say("card.still-waits")
            ) from error
        except (NotAllowed, Refused) as error:
            await self._void(writable, approval, self._deps.say.words(error.message))
            raise Refused(
                Text("error-change.not-changed-because", why=error.message),
                hint=Text("error-change.ask-for-change-again"),
            ) from error

    async def _as_asked(
        self, sources: Sources, writable: WritableCluster, approval: Approval, pending: Pending
    ) -> Make:
        asker, draft = Person(approval.requester, approval.channel), pending.draft
        if draft is None:
            record, basis = await self._maker.open(writable, pending.record.target, pending.record.id)
            if seal_longer(record, basis, pending.until, asker.user) != approval.digest:
                raise Refused(CHANGED)
            return partial(self._maker.extend, writable, record, pending.until, asker.user)
        await self._maker.on_time(writable)
        found, plan = await self._maker.planned(sources, writable, asker, draft.request, draft.id, basis=pending.basis)
        if pending.record.means == "debug-flags" != plan.record.means:
            raise NotNow(self._deps.say("card.no-process"))
        if seal(plan, basis=plan.basis) != approval.digest:
            raise Refused(CHANGED)
        return partial(self._maker.make, writable, found, plan)


def _line(actor: str, approval: Approval, outcome: str) -> AuditLine:
    detail = audit_details(pending_of(approval).record) | {"digest": approval.digest, "requester": approval.requester}
    why = {"why": approval.reason} if approval.reason else {}
    return AuditLine(actor, "approve", audit_target(approval.cluster, approval.target), outcome, detail | why)
