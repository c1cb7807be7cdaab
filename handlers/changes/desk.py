"""Temporary changes asked for in Slack: who may, what would be done, and doing it. Every answer no is written down too.

Whatever a button or a form brings back asks only what its sender may type: it is authorised and planned again.
"""

import asyncio
import contextlib
import logging
import tempfile
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import msgspec

from bot.access import Access, Action, Denied, decide_access
from bot.changes.plan import Plan, Refusal, annotation
from bot.changes.record import Record, read_record
from bot.errors import BotError, UsageError, WhichCluster
from bot.kube.times import format_time
from bot.slack.failures import Problem, SlackFailure
from bot.slack.groups import Groups
from bot.slack.message import File
from bot.slack.render.change_offer import Offer
from bot.slack.render.text import inert
from bot.store import StoreError
from bot.store.approvals import Approval
from handlers.changes.draft import FRESH_S, OTHER_CLOCK_S, Draft, draft_of, seal
from handlers.changes.journal import ITSELF, about, key_of, place
from handlers.changes.report import planned_report
from handlers.changes.request import Asker, Planned, Seen, look, prepare, restarts
from handlers.changes.sites import Site, Sites
from handlers.changes.terms import NotAllowed, OpenChange, Pending, Person, Refused, pending_of, seal_longer
from handlers.changes.words import Raise
from handlers.desk import Lent
from playbooks._playbook import Sources

_TITLE = 200
LONGER_S = 600.0
"""What the card's button adds to the deadline."""
_HOUR_S = 3600.0
_CHANGED = "the Deployment has changed since this was asked for"

log = logging.getLogger(__name__)

Capture = Callable[[str, Seen, Path], Awaitable[str]]
"""Writes what a restart of the cluster's schedulers destroys to an archive; what was written, in words.

Raises BotError when it cannot be had: then nothing is changed.
"""


class ChangeDesk:
    """Every method raises BotError with what to tell; it is in the audit log by then."""

    def __init__(self, lent: Lent, access: Access, groups: Groups, sites: Sites, capture: Capture) -> None:
        self.lent = lent
        self.access = access
        self._groups = groups
        self._sites = sites
        self._capture = capture

    def cluster_of(self, named: str, channel: str) -> str:
        """The cluster that is meant. Raises WhichCluster."""
        clusters = self.lent.clusters
        if found := named or self.lent.channels.get(channel, ""):
            return found
        if len(clusters) > 1:
            raise WhichCluster(sorted(clusters))
        return clusters[0] if clusters else ""

    # ------------------------------------------------------------------------------------------------- raising

    async def offer(self, who: Person, cluster: str, request: Raise) -> tuple[Offer, Draft]:
        """What would be done now, to be shown; nothing is changed, and the API server has said that it could be."""
        async with self._refusals(who, "raise", cluster, {"asked": f"{request.verb} {request.value}"}):
            await self._allowed(who, "raise")
            await self._can_be_told(who)
            async with self.lent.open_sources(cluster) as sources:
                found, planned, plan = await self._planned(sources, cluster, who, request, uuid.uuid4().hex[:12])
            site = await self._sites.of(cluster)
            await site.writer.patch_deployment(found.namespace, found.name, plan.patch, dry_run=True)
        offer = Offer(plan.record, planned.impacts, cluster, self.access.two_person)
        return offer, draft_of(request, plan, cluster, self.lent.now())

    async def confirm(self, who: Person, draft: Draft) -> str:
        """Does what was shown, or asks for its approval; what to tell. The same draft is done once."""
        lent, say = self.lent, self.lent.say
        async with self._refusals(who, "raise", draft.cluster, {"id": draft.id, "because": draft.because}):
            await self._allowed(who, "raise")
            if not -OTHER_CLOCK_S <= lent.now() - draft.offered_at <= FRESH_S:
                raise Refused("what you confirm was shown too long ago", hint="ask again to see what would be done now")
            if not await self._first(draft.id):
                raise Refused("you confirmed this before", hint="its card is in the channel")
            site = await self._sites.of(draft.cluster)
            await self._count(who, "raise", draft.cluster, draft.id)
            async with lent.open_sources(draft.cluster) as sources:
                found, planned, plan = await self._planned(sources, draft.cluster, who, draft.request, draft.id)
                if seal(plan) != draft.shown:
                    raise Refused("the Deployment is not what was shown any more", hint="ask again")
                if self.access.two_person:
                    digest = seal(plan, version=plan.resource_version)
                    await self._ask_for_approval(who, site, Pending(plan.record, draft), digest)
                    return say("card.asked")
                await self._make(site, found, planned, plan)
        return say("card.made")

    async def _first(self, draft_id: str) -> bool:
        """Whether nobody confirmed the draft before; from now on somebody did, whatever comes of it."""
        store, key = self.lent.store, f"draft:{draft_id}"
        if not await store.claim(key):
            return False
        await store.done(key)
        return True

    async def _planned(
        self, sources: Sources, cluster: str, who: Person, request: Raise, change_id: str
    ) -> tuple[Seen, Planned, Plan]:
        site = await self._sites.of(cluster)
        found = await look(sources, request, site.writer)
        planned = prepare(found, request, Asker(who.user, who.channel), change_id, self.lent.say)
        if not isinstance(planned.outcome, Plan):
            raise Refused(planned_report(found, request, planned, self.lent.say).findings[0].claim)
        return found, planned, planned.outcome

    async def _make(self, site: Site, found: Seen, planned: Planned, plan: Plan) -> None:
        if restarts(plan):
            site.journal.attach(plan.record.id, await self._captured(site.cluster, found))
        async with site.busy:
            await site.changer.raise_(
                found.namespace, found.name, planned.wanted, found.version, plan, exact=self.access.two_person
            )

    async def _captured(self, cluster: str, found: Seen) -> File:
        with tempfile.TemporaryDirectory(prefix="hami-bot-") as folder:
            archive = Path(folder) / "before.tar.gz"
            try:
                told = await self._capture(cluster, found, archive)
            except BotError as error:
                text = f"what a restart destroys could not be kept: {error.message}"
                raise Refused(text, hint=error.hint) from error
            content = await asyncio.to_thread(archive.read_bytes)
        return File("before.tar.gz", content, inert(told.splitlines()[0], _TITLE))

    async def _can_be_told(self, who: Person) -> None:
        """A change is a public record: where its card cannot stand, none is begun."""
        if who.channel.startswith(("U", "W")):
            return
        try:
            await self.lent.gateway.find(who.channel, key_of(""), oldest=self.lent.now())
        except SlackFailure as failure:
            if failure.problem in {Problem.FORBIDDEN, Problem.GONE}:
                hint = "/invite me to this channel, and ask again"
                raise Refused("the change's card could not be posted here: I am no member", hint=hint) from failure

    # ------------------------------------------------------------------------------------------------ approving

    async def _ask_for_approval(self, who: Person, site: Site, pending: Pending, digest: str) -> None:
        record = pending.record
        approval = await self.lent.store.approvals.ask(
            change_id=pending.draft.id if pending.draft else f"{record.id}-{uuid.uuid4().hex[:6]}",
            cluster=site.cluster,
            target=record.target,
            digest=digest,
            requester=who.user,
            channel=who.channel,
            request=msgspec.json.encode(pending).decode(),
        )
        await site.journal.show_waiting(approval, record, "pending")

    async def approve(self, who: Person, key: str, digest: str) -> str:
        """Makes the change that was asked for, if nothing has changed since."""
        lent = self.lent
        async with self._refusals(who, "approve", "", {"id": key}):
            approval, pending = await self._waiting(key, digest)
            await self._allowed(who, "approve", requester=approval.requester)
            await self._still_pending(approval)
            site = await self._sites.of(approval.cluster)
            async with lent.open_sources(approval.cluster) as sources:
                make = await self._unless_void(sources, site, approval, pending)
                if not await lent.store.approvals.decide(key, "approved", by=who.user):
                    raise await self._decided(key)
                await self._audit(who.user, "approve", approval, "approved")
                await site.journal.show_waiting(approval, pending.record, "approved", by=who.user)
                await make()
        return lent.say("card.made")

    async def refuse(self, who: Person, key: str, digest: str) -> str:
        """Ends the waiting; also the one who asked may."""
        async with self._refusals(who, "refuse", "", {"id": key}):
            approval, pending = await self._waiting(key, digest)
            await self._allowed(who, "refuse", requester=approval.requester)
            await self._still_pending(approval)
            if not await self.lent.store.approvals.decide(key, "refused", by=who.user):
                raise await self._decided(key)
            await self._audit(who.user, "refuse", approval, "refused-by-approver")
            site = await self._sites.of(approval.cluster)
            await site.journal.show_waiting(approval, pending.record, "refused", by=who.user)
        return self.lent.say("card.cancelled")

    async def expire(self) -> None:
        """Ends what nobody approved in time."""
        for approval in await self.lent.store.approvals.expire():
            await self._audit(ITSELF, "approve", approval, "expired")
            site = await self._sites.of(approval.cluster)
            await site.journal.show_waiting(approval, pending_of(approval).record, "expired")

    async def _waiting(self, key: str, digest: str) -> tuple[Approval, Pending]:
        approval = await self.lent.store.approvals.get(key)
        if approval is None or approval.digest != digest:
            raise Refused("nothing of that kind waits for approval", hint="the button is not one of this bot's")
        return approval, pending_of(approval)

    async def _still_pending(self, approval: Approval) -> None:
        if approval.state == "expired":
            await self.expire()
        if approval.state != "pending":
            raise await self._decided(approval.id)

    async def _decided(self, key: str) -> Refused:
        approval = await self.lent.store.approvals.get(key)
        state = approval.state if approval else "gone"
        return Refused(self.lent.say("card.decided", state=state), hint="ask anew for what you need")

    async def _unless_void(
        self, sources: Sources, site: Site, approval: Approval, pending: Pending
    ) -> Callable[[], Awaitable[None]]:
        """What is to be done; the approval is void if that is not exactly what was asked for, or may not be asked."""
        asker = Person(approval.requester, approval.channel)
        try:
            await self._allowed(asker, "extend" if pending.draft is None else "raise")
            return await self._as_asked(sources, site, approval, pending)
        except (NotAllowed, Refused) as error:
            if await self.lent.store.approvals.decide(approval.id, "void", by=ITSELF, reason=error.message):
                voided = approval._replace(state="void", reason=error.message)
                await site.journal.show_waiting(voided, pending.record, "void")
            raise Refused(f"nothing was changed: {error.message}", hint="it has to be asked for anew") from error

    async def _as_asked(
        self, sources: Sources, site: Site, approval: Approval, pending: Pending
    ) -> Callable[[], Awaitable[None]]:
        asker, draft = Person(approval.requester, approval.channel), pending.draft
        if draft is None:
            now = await self._open(site, pending.record.target, pending.record.id)
            if seal_longer(now, pending.until, asker.user) != approval.digest:
                raise Refused(_CHANGED)
            return partial(self._longer, site, now.record, pending.until, asker.user)
        found, planned, plan = await self._planned(sources, site.cluster, asker, draft.request, draft.id)
        if seal(plan, version=plan.resource_version) != approval.digest:
            raise Refused(_CHANGED)
        return partial(self._make, site, found, planned, plan)

    # ------------------------------------------------------------------------------------- extending, reverting

    async def extend(self, who: Person, cluster: str, target: str, change_id: str, seconds: float | None) -> str:
        """Moves the deadline to `seconds` from now, or by `LONGER_S`. An empty `change_id` means the open change."""
        lent = self.lent
        async with self._refusals(who, "extend", place(cluster, target), {"id": change_id}):
            await self._allowed(who, "extend")
            site = await self._site(cluster)
            now = await self._open(site, target, change_id)
            until = now.record.deadline + LONGER_S if seconds is None else site.changer.time() + seconds
            await self._count(who, "extend", cluster, now.record.id)
            if self.access.two_person:
                longer = msgspec.structs.replace(now.record, at=_time(until), by=who.user, channel=who.channel)
                await self._ask_for_approval(who, site, Pending(longer, until=until), seal_longer(now, until, who.user))
                return lent.say("card.asked")
            await self._longer(site, now.record, until, who.user)
        return lent.say("card.extended-now", until=_time(until))

    async def revert(self, who: Person, cluster: str, target: str, change_id: str) -> str:
        """Undoes the open change now. This needs neither a leader nor the store."""
        async with self._refusals(who, "revert", place(cluster, target), {"id": change_id}):
            site = await self._site(cluster)
            record = (await self._open(site, target, change_id)).record
            await self._allowed(who, "revert", requester=record.by)
            namespace, _, name = record.target.partition("/")
            async with site.busy:
                event = await site.changer.revert(namespace, name, by=who.user)
        return self.lent.say("card.reverted-now", kind=event.kind)

    async def _open(self, site: Site, target: str, change_id: str) -> OpenChange:
        """Raises Refused when no change, or not this one, is open."""
        namespace, _, name = target.partition("/")
        deployment = await site.writer.deployment(namespace, name)
        text = annotation(deployment)
        record = read_record(text) if text is not None else None
        if not isinstance(record, Record) or change_id not in ("", record.id):
            raise Refused(self.lent.say("card.ended"), hint="its card says what became of it")
        meta = deployment["metadata"]
        return OpenChange(record, f"{meta.get('uid', '')}:{meta.get('resourceVersion', '')}")

    async def _longer(self, site: Site, record: Record, until: float, user: str) -> None:
        namespace, _, name = record.target.partition("/")
        async with site.busy:
            done = await site.changer.extend(namespace, name, until - site.changer.time(), by=user)
        if isinstance(done, Refusal):
            raise Refused(done.why, hint=done.hint)

    async def _site(self, cluster: str) -> Site:
        if cluster not in self.lent.clusters and (cluster or self.lent.clusters):
            raise UsageError(f"there is no cluster {cluster!r}")
        return await self._sites.of(cluster)

    # ------------------------------------------------------------------------------------------------- deciding

    async def denied(self, who: Person, action: Action, cluster: str) -> NotAllowed | None:
        """Why the person may not do that at all, for those who have to know before anything is shown."""
        try:
            async with self._refusals(who, action, cluster, {}):
                await self._allowed(who, action)
        except NotAllowed as error:
            return error
        return None

    async def _allowed(self, who: Person, action: Action, *, requester: str = "") -> None:
        groups = await self._groups.of(who.user)
        decision = decide_access(self.access, who.user, groups, who.channel, action, requester=requester)
        if isinstance(decision, Denied):
            raise NotAllowed(decision)

    async def _count(self, who: Person, action: str, cluster: str, change_id: str) -> None:
        """Written down before it is counted, so that no two at once pass the limit together."""
        store, most = self.lent.store, self.access.changes_per_hour
        told = {"id": change_id}
        await store.audit.append(actor=who.user, action=action, target=cluster, outcome="requested", detail=told)
        since = datetime.fromtimestamp(self.lent.now() - _HOUR_S, UTC).isoformat(timespec="microseconds")
        if await store.approvals.asked_for(who.user, since) > most:
            await store.audit.append(actor=who.user, action=action, target=cluster, outcome="over-limit", detail=told)
            raise Refused(f"you asked for {most} changes within an hour", hint="wait, or ask somebody else")

    @contextlib.asynccontextmanager
    async def _refusals(self, who: Person, action: str, target: str, detail: dict[str, str]) -> AsyncGenerator[None]:
        """Writes down whatever is answered with no."""
        try:
            yield
        except BotError as error:
            said_no = isinstance(error, NotAllowed | Refused | UsageError)
            await self.note_refusal(
                who, action, target, detail | {"why": error.message}, outcome="denied" if said_no else "failed"
            )
            raise

    async def note_refusal(
        self, who: Person, action: str, target: str, detail: dict[str, str], *, outcome: str = "denied"
    ) -> None:
        """A no stays one even where it cannot be written down."""
        told = detail | {"channel": who.channel}
        try:
            await self.lent.store.audit.append(
                actor=who.user, action=action, target=target, outcome=outcome, detail=told
            )
        except StoreError as error:
            log.warning("a refusal could not be written down: %s; %s %s %s", error, who.user, action, told)

    async def _audit(self, actor: str, action: str, approval: Approval, outcome: str) -> None:
        await self.lent.store.audit.append(
            actor=actor,
            action=action,
            target=place(approval.cluster, approval.target),
            outcome=outcome,
            detail=about(pending_of(approval).record) | {"digest": approval.digest, "requester": approval.requester},
        )


def _time(seconds: float) -> str:
    return format_time(datetime.fromtimestamp(seconds, UTC))
