"""Who may change a cluster (`Guard`), and how a change is planned, captured and written (`ChangeMaker`)."""

import asyncio
import contextlib
import logging
import tempfile
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from bot.access import Action, why_denied
from bot.changes.decide import carries, how_it_ended
from bot.changes.deployments import place_of
from bot.changes.journal import KnownChange
from bot.changes.plan import Plan, annotation, basis_of
from bot.changes.record import Record, Refusal, UnreadableRecord, read_record
from bot.errors import BotError, NotAllowed, UsageError
from bot.settings.schema import AccessSettings
from bot.slack.message import File
from bot.slack.people import Groups
from bot.store import StoreError
from bot.store.audit import AuditLine
from bot.texts import Text, in_english
from handlers.changes.draft import AccessDenied, ChangeOver, NotNow, Person, Refused
from handlers.changes.leader_pass import WritableCluster, WritableClusters
from handlers.changes.report import planned_report
from handlers.changes.request import ChangeSnapshot, look, prepare
from handlers.changes.words import Raise
from handlers.deps import Deps
from playbooks.playbook import Sources

CHANGED = Text("error-change.deployment-has-changed-since")

Capture = Callable[[str, ChangeSnapshot, Path], Awaitable[str]]
"""Archives what a restart of a cluster's schedulers destroys; returns in words what was written, or raises BotError."""


class ChangeMaker:
    """Plans, makes and extends changes; `exact`: only if the Deployment was not edited where the plan rests on it."""

    def __init__(self, deps: Deps, clusters: WritableClusters, capture: Capture, *, exact: bool) -> None:
        self._deps = deps
        self._clusters = clusters
        self._capture = capture
        self._exact = exact

    async def writable(self, cluster: str) -> WritableCluster:
        """The cluster to write to. Raises NoSuchCluster, and BotError if it cannot be written to."""
        self._deps.check_cluster(cluster)
        return await self._clusters.of(cluster)

    async def writable_on_time(self, cluster: str) -> WritableCluster:
        """The cluster to write to, its clock just set by the API server's. Raises as `writable`, and SourceError."""
        writable = await self.writable(cluster)
        await writable.writer.ask_time()
        return writable

    async def on_time(self, writable: WritableCluster) -> None:
        """Asks the API server for its time. Raises NotNow if this bot's clock is too wrong to make changes."""
        if refusal := await writable.changer.wrong_clock():
            raise NotNow(refusal.why, hint=refusal.hint)

    async def planned(
        self,
        sources: Sources,
        writable: WritableCluster,
        who: Person,
        request: Raise,
        change_id: str = "",
        *,
        basis: str = "",
    ) -> tuple[ChangeSnapshot, Plan]:
        """Reads the cluster and plans the change. Raises Refused, or NotNow if the obstacle may pass by itself. Raises
        Refused also if a `basis` is given and the Deployment has another.
        """
        found = msgspec.structs.replace(
            (await look(sources, request, writable.writer)), skew_s=writable.changer.skew_s()
        )
        if basis and basis_of(found.deployment) != basis:
            raise Refused(CHANGED)
        outcome = prepare(found, request, change_id or uuid.uuid4().hex[:12], by=who.user, channel=who.channel)
        if isinstance(outcome, Plan):
            return found, outcome
        reason = self._deps.say.words(planned_report(found, request, outcome).findings[0].text)
        passes = isinstance(outcome, Refusal) and outcome.code == "rollout"
        in_the_way = outcome.record if isinstance(outcome, Refusal) else None
        raise NotNow(reason) if passes else Refused(reason, record=in_the_way)

    async def make(self, writable: WritableCluster, found: ChangeSnapshot, plan: Plan) -> None:
        """Makes the planned change, after a capture if pods restart. Raises ChangeFailed or Refused if it fails."""
        if plan.record.means == "patch":  # the pods end with it, and with them what only they hold
            with tempfile.TemporaryDirectory(prefix="hami-bot-") as folder:
                archive = Path(folder) / "before.tar.gz"
                try:
                    await self._capture(writable.cluster, found, archive)
                except BotError as error:
                    text = Text("error-change.restart-destroys-not-kept", why=error.message)
                    raise Refused(text, hint=error.hint) from error
                content = await asyncio.to_thread(archive.read_bytes)
            file = File("before.tar.gz", content, "what the restart destroyed, recorded before it")
            writable.journal.attach(plan.record.id, file)
        async with writable.busy:
            await writable.changer.raise_(plan, found.around.version, exact=self._exact)

    async def resume(self, writable: WritableCluster, change_id: str) -> str:
        """Completes a change that an earlier process began, and returns its state; empty if it was not begun.

        A change in the Deployment is begun again: its level may not be set in every running process yet. One that was
        planned and is not in the Deployment was never made: the store and its card say so. Raises ChangeFailed,
        SourceError.
        """
        rows = self._deps.store.changes(writable.cluster)
        known = await rows.known(change_id)
        if known is None or known.state != "planned":
            return known.state if known else ""
        record = known.record
        async with writable.busy:
            deployment = await writable.writer.deployment(*place_of(record))
            event = how_it_ended(deployment, KnownChange(record, "", "planned"))
            if event is None or carries(deployment, record):
                await writable.changer.begin(deployment, record)
                return "raised"
            await writable.journal.note(msgspec.structs.replace(event, at=writable.changer.time()))
        return event.kind

    async def open(
        self, writable: WritableCluster, target: str, change_id: str, *, or_copy: bool = False
    ) -> tuple[Record, str]:
        """The open change's record, and the basis of the Deployment (see `bot.changes.plan`).

        Raises ChangeOver if no change, or another one, is open; an empty `change_id` means any. If the record on the
        Deployment is damaged or gone, `or_copy` takes the store's copy; without it that raises Refused.
        """
        namespace, _, name = target.partition("/")
        deployment = await writable.writer.deployment(namespace, name)
        text = annotation(deployment)
        record = read_record(text) if text is not None else None
        say = self._deps.say
        if copy := await writable.changer.open_copy(deployment):
            record = copy.record
        if isinstance(record, UnreadableRecord):
            raise Refused(say("changing.unreadable", target=target, why=record.why))
        if record is None or change_id not in ("", record.id):
            raise ChangeOver(say("card.ended"), hint=Text("error-change.see-card-for-result"))
        if copy and not or_copy:
            raise Refused(say("card.not-longer"), hint=say("card.not-longer-do"))
        return record, basis_of(deployment)

    async def extend(self, writable: WritableCluster, record: Record, until: float, user: str) -> None:
        """Moves the deadline to `until` (unix seconds). Raises ChangeFailed or Refused if it cannot."""
        async with writable.busy:
            done = await writable.changer.extend(*place_of(record), until, by=user, change_id=record.id)
        if isinstance(done, Refusal):
            raise Refused(done.why, hint=done.hint)


_HOUR_S = 3600.0

log = logging.getLogger(__name__)


class Guard:
    """Decides by the settings' `access` who may do what, and writes refusals to the audit log."""

    def __init__(self, deps: Deps, access: AccessSettings, groups: Groups) -> None:
        self.access = access
        self._deps = deps
        self._groups = groups

    async def allowed(self, who: Person, action: Action, *, requester: str = "") -> None:
        """Raises AccessDenied, or BotError while Slack does not tell which user groups the person is in."""
        groups, unread = await self._groups.memberships(who.user)
        denied = why_denied(self.access, who.user, groups, who.channel, action, requester=requester)
        if denied is None:
            return
        if unread:
            text = Text("error-change.permissions-could-not-be-checked", why=unread.message)
            raise BotError(text, hint=Text("error-change.not-changed-try-again")) from unread
        raise AccessDenied(denied)

    async def denied(self, who: Person, action: Action, cluster: str) -> AccessDenied | None:
        """Why the person may not do the action at all, or None: for callers that must know before showing anything."""
        try:
            async with self.refusals(who, action, cluster, {}):
                await self.allowed(who, action)
        except AccessDenied as error:
            return error
        return None

    async def count(self, who: Person, action: str, cluster: str, change_id: str) -> None:
        """Counts a request against the person's hourly limit. Raises Refused above it. The request is in the audit log
        before it is counted, so that two at once cannot both pass.
        """
        store, most = self._deps.store, self.access.changes_per_hour
        line = AuditLine(who.user, action, cluster, "requested", {"id": change_id})
        await store.audit.append(line)
        since = datetime.fromtimestamp(self._deps.now() - _HOUR_S, UTC).isoformat(timespec="microseconds")
        if await store.approvals.count_requests(who.user, since) > most:
            await store.audit.append(line._replace(outcome="over-limit"))
            raise Refused(
                Text("error-change.too-many-within-an-hour", count=most),
                hint=Text("error-change.wait-or-ask-somebody-else"),
            )

    @contextlib.asynccontextmanager
    async def refusals(self, who: Person, action: str, target: str, detail: dict[str, str]) -> AsyncGenerator[None]:
        """Writes any BotError raised in the block to the audit log, as denied or failed, and raises it on."""
        try:
            yield
        except BotError as error:
            outcome = "denied" if isinstance(error, NotAllowed | Refused | UsageError) else "failed"
            why = {"why": in_english(error.message)}
            await self.note_refusal(who, action, target, detail | why, outcome=outcome)
            raise

    async def note_refusal(
        self, who: Person, action: str, target: str, detail: dict[str, str], *, outcome: str = "denied"
    ) -> None:
        """Writes a refusal to the audit log; if that fails, logs it."""
        noted = detail | {"channel": who.channel}
        try:
            await self._deps.store.audit.append(AuditLine(who.user, action, target, outcome, noted))
        except StoreError as error:
            log.warning("a refusal could not be written down: %s; %s %s %s", error, who.user, action, noted)
