"""What becomes of temporary changes, kept and told: rows, the audit log, and one card for each in its channel."""

import logging
from collections.abc import Callable, Sequence

from bot.changes.journal import ENDS, Event, Open
from bot.changes.record import Record
from bot.slack.message import File
from bot.slack.outbox import Outbox
from bot.slack.render.change import Card, State, render_card, render_late
from bot.store import Store
from bot.store.approvals import Approval
from bot.texts import Texts

ITSELF = "hami-bot"
LATE_MINUTES = (2, 10, 60)
"""So long after its deadline a change that cannot be undone is told; from the second time on it calls approvers."""
_BEGINS = frozenset({"raised", "effective", "stuck", "never-raised"})

log = logging.getLogger(__name__)


class ChangeJournal:
    """Of one cluster; see `bot.changes.journal.Journal`. `channel` is where changes are told that name none.

    What is told is safe in the outbox before it is noted as told: killed in between, it is told again, the same.
    """

    def __init__(
        self,
        cluster: str,
        store: Store,
        outbox: Outbox,
        say: Texts,
        *,
        channel: str,
        approvers: Sequence[str],
        now: Callable[[], float],
    ) -> None:
        self._cluster = cluster
        self._store = store
        self._rows = store.changes(cluster)
        self._outbox = outbox
        self._say = say
        self._channel = channel
        self._approvers = approvers
        self._now = now
        self._files: dict[str, File] = {}

    def attach(self, change_id: str, file: File) -> None:
        """A file that goes into the thread of the change's card."""
        self._files[change_id] = file

    async def planned(self, record: Record, uid: str) -> None:
        await self._audit("raise", "planned", record.by, record)
        await self._rows.planned(record, uid)

    async def note(self, event: Event) -> None:
        record = event.record
        if record is None:
            log.error("%s: %s", event.target, event.detail)
            return
        if event.kind == "failed":
            await self._call_for_help(event, record)
        if not await self._rows.is_news(event):
            return
        await self.show(Card(event.kind, record, self._cluster, event.detail, event.by))
        action = "extend" if event.kind == "extended" else "raise" if event.kind in _BEGINS else "revert"
        await self._audit(action, event.kind, event.by or ITSELF, record, event.detail)
        await self._rows.note(event)
        if event.kind in ENDS:
            self._files.pop(record.id, None)

    async def opened(self) -> Sequence[Open]:
        return await self._rows.opened()

    async def show(self, card: Card) -> None:
        """Posts the card, or edits what was posted."""
        record = card.record
        if not (channel := record.channel or self._channel):
            return
        approved = None if card.approval or card.longer else await self._store.approvals.get(record.id)
        if approved is not None and approved.state == "approved":
            card = card._replace(approved_by=approved.decided_by)
        message = render_card(card, self._say)
        if file := self._files.get(record.id):
            message = message._replace(files=(file,))
        await self._outbox.put(key_of(card.approval or record.id), channel, message, severity="warning")

    async def show_waiting(self, approval: Approval, record: Record, state: State, *, by: str = "") -> None:
        """The card of a change that waits for its approval, or got none."""
        card = Card(
            state,
            record,
            self._cluster,
            approval.reason,
            by,
            approval=approval.id,
            digest=approval.digest,
            expires_at=approval.expires_at,
            longer=approval.id != record.id,
        )
        await self.show(card)

    async def _call_for_help(self, event: Event, record: Record) -> None:
        """Once for each level: a message of its own, which the channel notices, unlike an edited card."""
        minutes = (self._now() - record.deadline) / 60
        channel = record.channel or self._channel
        reached = [level for level, least in enumerate(LATE_MINUTES) if minutes >= least]
        if not reached or not channel:
            return
        level = reached[-1]
        called = self._approvers if level else ()
        card = Card("failed", record, self._cluster, event.detail)
        message = render_late(card, LATE_MINUTES[level], called, self._say)
        await self._outbox.put(f"{key_of(record.id)}:late:{level}", channel, message, severity="critical")

    async def _audit(self, action: str, outcome: str, actor: str, record: Record, detail: str = "") -> None:
        told = about(record) | ({"detail": detail} if detail else {})
        target = place(self._cluster, record.target)
        await self._store.audit.append(actor=actor, action=action, target=target, outcome=outcome, detail=told)


def about(record: Record) -> dict[str, str]:
    """What the audit log keeps of a change."""
    return {
        "id": record.id,
        "container": record.container,
        "flag": record.flag,
        "old": record.old,
        "new": record.new,
        "until": record.at,
        "because": record.because,
        "channel": record.channel,
    }


def key_of(change_id: str) -> str:
    """The card's name in the outbox."""
    return f"change:{change_id}"


def place(cluster: str, target: str) -> str:
    """What the audit log calls a Deployment."""
    return f"{cluster}:{target}" if cluster else target
