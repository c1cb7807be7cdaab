"""Temporary changes asked for in Slack: checks who may, offers, makes, extends and reverts them. Buttons and forms can
ask only for what their sender may type: each request is authorised and planned again.
"""

import contextlib
from typing import Any

import msgspec

from bot.changes.deadline import later, no_extension, time_text
from bot.changes.deployments import place_of
from bot.changes.journal import ENDS
from bot.changes.plan import Raise
from bot.changes.record import Record
from bot.errors import BotError
from bot.kube.times import format_duration
from bot.settings.schema import AccessSettings
from bot.slack.people import Groups
from bot.slack.render.change import ChangeOffer
from bot.store import StoreError
from bot.texts import Text
from bot.triage.state import News
from handlers.changes.approving import ROUNDED_S, Approving
from handlers.changes.draft import (
    FRESH_S,
    OTHER_CLOCK_S,
    ChangeDraft,
    Pending,
    Person,
    Refused,
    check_room,
    draft_of,
    draft_words,
    pending_of,
    seal,
    seal_longer,
)
from handlers.changes.execute import Capture, ChangeMaker, Guard
from handlers.changes.journal import audit_target
from handlers.changes.leader_pass import WritableClusters
from handlers.changes.request import ChangeSnapshot
from handlers.changes.words import words_of
from handlers.deps import Deps
from handlers.threads import note_done
from handlers.user_actions import AcceptedDeed, NotDone

LONGER_S = 600.0
"""Seconds that the card's button adds to the deadline, as `extend 10m` does."""


class ChangeService:
    """Carries out requests for changes. Every method raises BotError with the text for the person, and audits refusals.
    `guard` knows who may; `approving` is for changes that somebody else has to approve.
    """

    def __init__(
        self, deps: Deps, access: AccessSettings, groups: Groups, clusters: WritableClusters, capture: Capture
    ) -> None:
        self.deps = deps
        self.access = access
        self.guard = Guard(deps, access, groups)
        self._maker = ChangeMaker(deps, clusters, capture, exact=access.two_person)
        self.approving = Approving(deps, self.guard, self._maker)

    # ------------------------------------------------------------------------------------------------- raising

    async def offer(self, who: Person, cluster: str, request: Raise) -> tuple[ChangeOffer, ChangeDraft]:
        """Plans the change to be shown; nothing is changed, but the API server has accepted it in a dry run."""
        async with self.guard.refusals(who, "raise", cluster, {"asked": words_of(request)}):
            await self.guard.allowed(who, "raise")
            writable = await self._maker.writable(cluster)
            await self._maker.on_time(writable)
            if not who.channel.startswith(("U", "W")):  # a change is a public record: its card has to stand there
                hint = Text("error-change.invite-me-channel-ask-again")
                await check_room(self.deps.gateway, who.channel, Text("error-change.card-could-not-be-posted"), hint)
            async with self.deps.open_sources(cluster) as sources:
                found, plan = await self._maker.planned(sources, writable, who, request)
            await writable.writer.patch_deployment(found.namespace, found.name, plan.patch, dry_run=True)
        offer = ChangeOffer(plan.record, plan.impacts, cluster, self.access.two_person)
        return offer, draft_of(plan, cluster, writable.changer.time(), who.thread_ts)

    async def confirm(self, who: Person, draft: ChangeDraft, *, again: bool = False) -> str:
        """Makes the offered change or asks for its approval, once per draft; returns the text for the person.

        `again`: an earlier process got the same request and may have begun. The incident in whose thread the change was
        asked for notes it.
        """
        answer = await self._confirm(who, draft, again=again)
        news = News("change-asked", who.user, draft_words(draft))
        await note_done(self.deps, draft.request.channel, draft.thread_ts, news, draft.id)
        return answer

    async def _confirm(self, who: Person, draft: ChangeDraft, *, again: bool) -> str:
        deps, say = self.deps, self.deps.say
        if again and (answer := await self._begun_before(draft)):
            return answer
        async with self.guard.refusals(who, "raise", draft.cluster, {"id": draft.id, "because": draft.request.because}):
            await self.guard.allowed(who, "raise")
            writable = await self._maker.writable(draft.cluster)
            await self._maker.on_time(writable)
            if not -OTHER_CLOCK_S <= writable.changer.time() - draft.offered_at <= FRESH_S:
                raise Refused(
                    Text("error-change.plan-is-too-old"), hint=Text("error-change.send-command-again-see-current")
                )
            if await deps.store.claim(key := f"draft:{draft.id}"):  # from now on it was confirmed, whatever comes of it
                await deps.store.done(key)
            elif not again:
                raise Refused(Text("error-change.you-confirmed-before"), hint=Text("error-change.card-is-in-channel"))
            await self.guard.count(who, "raise", draft.cluster, draft.id)
            async with deps.open_sources(draft.cluster) as sources:
                found, plan = await self._maker.planned(sources, writable, who, draft.request, draft.id)
                if seal(plan) != draft.shown:
                    raise Refused(
                        Text("error-change.deployment-changed-since-plan"), hint=Text("error-command.ask-again")
                    )
                if self.access.two_person:
                    asked = Pending(plan.record, draft, basis=plan.basis)
                    await self.approving.ask(who, writable, asked, seal(plan, basis=plan.basis))
                    return say("card.asked")
                await self._maker.make(writable, found, plan)
        return say("card.made")

    async def _begun_before(self, draft: ChangeDraft) -> str:
        """What to tell if the store has the change or its approval. Raises NotDone if it was planned and not made."""
        if asked := await self.deps.store.approvals.get(draft.id):
            writable = await self._maker.writable_on_time(asked.cluster)
            approval = asked.as_of(writable.changer.time())
            if approval.state != "pending":
                return self.deps.say("card.asked-decided", state=approval.decision)
            await writable.journal.show_waiting(approval, pending_of(approval).record, "pending")
            return self.deps.say("card.asked")
        match await self._maker.resume(await self._maker.writable(draft.cluster), draft.id):
            case "":
                return ""
            case "never-raised":
                raise NotDone("unmade")
            case ended if ended in ENDS:
                return self.deps.say("card.ended-since")
            case _:
                return self.deps.say("card.made")

    async def decided_before(self, who: Person, key: str) -> str:
        """The text for a person who has already decided about the approval `key`; empty if they have not."""
        approval = await self.deps.store.approvals.get(key)
        decided = approval is not None and approval.decided_by == who.user
        return self.deps.say("card.decided-by-you", state=approval.decision) if approval and decided else ""

    async def extend(self, who: Person, cluster: str, target: str, change_id: str, seconds: float, *, key: str) -> str:
        """Adds `seconds` to the deadline; returns the text for the person. An empty `change_id` means the open change.
        `key` identifies the deed: done again after a crash, it moves the deadline only once.
        """
        deps = self.deps
        async with self.guard.refusals(who, "extend", audit_target(cluster, target), {"id": change_id}):
            await self.guard.allowed(who, "extend")
            writable = await self._maker.writable(cluster)
            record, basis = await self._maker.open(writable, target, change_id)
            first = later(record, seconds, now=writable.changer.time())
            until = float(await deps.store.facts.first(f"{key}/until", str(first)))
            answer = deps.say("card.extended-now", time=format_duration(seconds), until=time_text(until))
            if record.deadline >= until:
                return answer
            if refusal := no_extension(record, until, now=writable.changer.time()):  # nobody is asked to approve that
                raise Refused(refusal.why, hint=refusal.hint)
            await self.guard.count(who, "extend", cluster, record.id)
            if self.access.two_person:
                longer = msgspec.structs.replace(record, at=time_text(until), by=who.user, channel=who.channel)
                asked = Pending(longer, until=until, basis=basis)
                await self.approving.ask(who, writable, asked, seal_longer(record, basis, until, who.user), key=key)
                return deps.say("card.asked")
            await self._maker.extend(writable, record, until, who.user)
        return answer

    async def revert(self, who: Person, cluster: str, target: str, change_id: str, *, again: bool = False) -> str:
        """Reverts the open change now; returns the text for the person. This needs neither a leader nor the store.
        `again`: an earlier process got the same request and may have reverted it.
        """
        if again:
            try:
                await self._maker.open(await self._maker.writable(cluster), target, change_id, or_copy=True)
            except Refused:
                return self.deps.say("card.ended-since")
        async with self.guard.refusals(who, "revert", audit_target(cluster, target), {"id": change_id}):
            writable = await self._maker.writable(cluster)
            record, _ = await self._maker.open(writable, target, change_id, or_copy=True)
            await self.guard.allowed(who, "revert", requester=record.by)
            async with writable.busy:
                event = await writable.changer.revert(*place_of(record), by=who.user)
            await self.approving.look_after_in(writable.cluster)
        return self.deps.say("card.reverted-now", kind=event.kind)

    async def is_meant(self, taken: AcceptedDeed[Any], cluster: str, record: Record) -> bool:
        """Whether the open change is the one that a deed without a change's id is about.

        A resumed deed is about the change whose id the first run kept. Without one a change that is younger than the
        deed is another: both ages are differences of one clock each, so a wrong clock does not matter.
        """
        facts, key = self.deps.store.facts, f"{taken.key}/change"
        if not taken.resumed:
            with contextlib.suppress(StoreError):  # a revert needs no store
                await facts.first(key, record.id)
            return True
        if (kept := await facts.get(key)) is not None:
            return kept == record.id
        writable = await self._maker.writable_on_time(cluster)
        age_s = writable.changer.time() - record.since
        return age_s >= self.deps.now() - taken.asked.asked_at - ROUNDED_S

    async def with_copy(self, cluster: str, found: ChangeSnapshot) -> ChangeSnapshot:
        """The snapshot with the store's copy of the open change, if the Deployment has no record of it."""
        with contextlib.suppress(BotError):  # a bot that may not write has made no change
            copy = await (await self._maker.writable(cluster)).changer.open_copy(found.deployment)
            return msgspec.structs.replace(found, copy=copy.record if copy else None)
        return found
