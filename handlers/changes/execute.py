"""What is done to a cluster once it may be: planned on the Deployment as it is, captured, made, extended."""

import asyncio
import tempfile
import uuid
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

from bot.changes.approval_basis import basis_of
from bot.changes.deadline import no_extension
from bot.changes.deployments import place_of
from bot.changes.journal import Open
from bot.changes.plan import Plan, annotation
from bot.changes.record import Record, Unreadable, read_record
from bot.changes.refusal import Refusal
from bot.changes.unnoticed_end import carries, how_it_ended
from bot.errors import BotError
from bot.kube.times import format_time
from bot.slack.message import File
from bot.texts import Text
from handlers.changes.report import planned_report
from handlers.changes.request import ChangeSnapshot, PlannedChange, Requester, look, prepare, restarts
from handlers.changes.types import NotNow, OpenChange, Over, Person, Refused
from handlers.changes.words import Raise
from handlers.changes.writable_clusters import WritableCluster, WritableClusters
from handlers.deps import Deps
from playbooks.playbook import Sources

CHANGED = Text("error-change.deployment-has-changed-since")

Capture = Callable[[str, ChangeSnapshot, Path], Awaitable[str]]
"""Writes what a restart of the cluster's schedulers destroys to an archive; what was written, in words.

Raises BotError when it cannot be had: then nothing is changed.
"""


class ChangeMaker:
    """Plans, makes and extends changes.

    `exact`: a change is made only if nothing of the Deployment that it rests on was edited since it was planned.
    """

    def __init__(self, deps: Deps, clusters: WritableClusters, capture: Capture, *, exact: bool) -> None:
        self._deps = deps
        self._clusters = clusters
        self._capture = capture
        self._exact = exact

    async def writable(self, cluster: str) -> WritableCluster:
        """Raises NoSuchCluster, and BotError for one that cannot be written to."""
        self._deps.check_cluster(cluster)
        return await self._clusters.of(cluster)

    async def timed(self, cluster: str) -> WritableCluster:
        """The same, once its API server has told its time, which `time` is from then on. Raises SourceError too."""
        writable = await self.writable(cluster)
        await writable.writer.ask_time()
        return writable

    async def on_time(self, writable: WritableCluster) -> None:
        """Asks the API server for its time. Raises NotNow where this bot's clock is too wrong to raise anything."""
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
    ) -> tuple[ChangeSnapshot, PlannedChange, Plan]:
        """What would be done now. Raises Refused, NotNow where that may change by itself.

        With `basis` only on that of the Deployment: else it is Refused.
        """
        found = (await look(sources, request, writable.writer))._replace(skew_s=writable.changer.skew_s())
        if basis and basis_of(found.deployment) != basis:
            raise Refused(CHANGED)
        asker = Requester(who.user, who.channel)
        planned = prepare(found, request, asker, change_id or uuid.uuid4().hex[:12])
        if isinstance(planned.outcome, Plan):
            return found, planned, planned.outcome
        reason = self._deps.say.words(planned_report(found, request, planned).findings[0].text)
        passes = isinstance(planned.outcome, Refusal) and planned.outcome.code == "rollout"
        in_the_way = planned.outcome.record if isinstance(planned.outcome, Refusal) else None
        raise NotNow(reason) if passes else Refused(reason, record=in_the_way)

    async def make(self, writable: WritableCluster, found: ChangeSnapshot, planned: PlannedChange, plan: Plan) -> None:
        """Raises ChangeFailed or Refused when it is not done."""
        if restarts(plan):
            writable.journal.attach(plan.record.id, await self._captured(writable.cluster, found))
        async with writable.busy:
            await writable.changer.raise_(
                found.namespace, found.name, planned.wanted, found.version, plan, exact=self._exact
            )

    async def became(self, writable: WritableCluster, change_id: str) -> str:
        """The state of a change that an earlier process was asked for; empty where it was not begun.

        One that is on the object is begun again: its level may not be set in every running process yet. One that was
        planned and is not on the object was never made: that is noted, and its card says so, before anybody is told.
        Raises ChangeFailed and SourceError.
        """
        rows = self._deps.store.changes(writable.cluster)
        known = await rows.known(change_id)
        if known is None or known.state != "planned":
            return known.state if known else ""
        record = known.record
        async with writable.busy:
            deployment = await writable.writer.deployment(*place_of(record))
            event = how_it_ended(deployment, Open(record, "", "planned"))
            if event is None or carries(deployment, record):
                await writable.changer.begin(deployment, record)
                return "raised"
            await writable.journal.note(event._replace(at=writable.changer.time()))
        return event.kind

    async def _captured(self, cluster: str, found: ChangeSnapshot) -> File:
        with tempfile.TemporaryDirectory(prefix="hami-bot-") as folder:
            archive = Path(folder) / "before.tar.gz"
            try:
                await self._capture(cluster, found, archive)
            except BotError as error:
                text = Text("error-change.restart-destroys-not-kept", why=error.message)
                raise Refused(text, hint=error.hint) from error
            content = await asyncio.to_thread(archive.read_bytes)
        return File("before.tar.gz", content, "what the restart destroyed, recorded before it")

    async def open(
        self, writable: WritableCluster, target: str, change_id: str, *, or_copy: bool = False
    ) -> OpenChange:
        """Raises Over when no change, or not this one, is open. An empty `change_id` means whichever is.

        One whose record is damaged or gone is taken from the store's copy with `or_copy`, else Refused.
        """
        namespace, _, name = target.partition("/")
        deployment = await writable.writer.deployment(namespace, name)
        text = annotation(deployment)
        record = read_record(text) if text is not None else None
        say = self._deps.say
        if copy := await writable.changer.not_carried(deployment):
            record = copy.record
        if isinstance(record, Unreadable):
            raise Refused(say("changing.unreadable", target=target, why=record.why))
        if record is None or change_id not in ("", record.id):
            raise Over(say("card.ended"), hint=Text("error-change.see-card-for-result"))
        if copy and not or_copy:
            raise Refused(say("card.not-longer"), hint=say("card.not-longer-do"))
        return OpenChange(record, basis_of(deployment))

    async def longer(self, writable: WritableCluster, record: Record, until: float, user: str) -> None:
        """Moves the deadline to `until`, in seconds since 1970. Raises ChangeFailed or Refused when it is not done."""
        namespace, _, name = record.target.partition("/")
        async with writable.busy:
            done = await writable.changer.extend(namespace, name, until, by=user, change_id=record.id)
        if isinstance(done, Refusal):
            raise self._refused(done)

    def can_be_longer(self, writable: WritableCluster, record: Record, until: float) -> None:
        """Raises Refused where `longer` would, so that nobody is asked to approve that."""
        if refusal := no_extension(record, until, now=writable.changer.time()):
            raise self._refused(refusal)

    def _refused(self, refusal: Refusal) -> Refused:
        return Refused(refusal.why, hint=refusal.hint)


def time_of(seconds: float) -> str:
    """RFC 3339 of seconds since 1970."""
    return format_time(datetime.fromtimestamp(seconds, UTC))
