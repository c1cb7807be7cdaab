"""The journal of temporary changes: their rows in the store, the audit log, and one card per change in Slack."""

import hashlib
import logging
from collections.abc import Callable, Sequence

import msgspec

from bot.changes.journal import ENDS, ChangeEvent, KnownChange, NotYet
from bot.changes.merge import in_an_editor
from bot.changes.record import BY_SHELL, Record
from bot.settings.schema import AccessSettings
from bot.slack.message import File, Message
from bot.slack.people import People
from bot.slack.render.change import ChangeCard, State, render_card, render_late, render_unreadable
from bot.store.audit import AuditLine
from bot.store.changes import Approval, ChangeRows
from handlers.deps import Deps

ITSELF = "hami-bot"
LATE_MINUTES = (2, 10)
"""Minutes after a deadline when the bot reports a failed revert; then hourly. From the second on it calls approvers."""
_MOVES = frozenset({"extended", "retimed"})
_BEGINS = frozenset({"raised", "effective", "stuck", "never-raised"})

log = logging.getLogger(__name__)


class ChangeJournal:
    """The journal of one cluster's changes (`bot.changes.journal.Journal`), told in Slack and kept in the store.

    A change that names no channel is told in the first channel of the settings. `deps` raises NotYet until the
    dependencies are ready. A message is in the outbox before it is noted as told: killed in between, the bot sends the
    same message again. An end that cannot be told yet is kept in memory: with a new store, nothing else knows of that
    change.
    """

    def __init__(self, cluster: str, deps: Callable[[], Deps], access: AccessSettings) -> None:
        self._cluster = cluster
        self._deps = deps
        self._access = access
        self._channel = next(iter(access.channels), "")
        self._files: dict[str, File] = {}
        self._ended: dict[str, ChangeEvent] = {}

    @property
    def _rows(self) -> ChangeRows:
        return self._deps().store.changes(self._cluster)

    def attach(self, change_id: str, file: File) -> None:
        """Attaches a file to a change: it goes into the thread of the change's card."""
        self._files[change_id] = file

    async def planned(self, record: Record, uid: str) -> None:
        await self._rows.planned(record, uid, self._line("raise", "planned", record.by, record))

    async def note(self, event: ChangeEvent) -> None:
        record = event.record
        if record is None:
            await self._alarm(event)
            return
        try:
            rows = self._rows
        except NotYet:
            if event.kind in ENDS:
                self._ended[record.id] = event
            raise
        if event.kind == "failed":
            await self._call_for_help(event, record)
        if not await rows.is_news(event):
            return
        by_copy = self._deps().say("card.by-copy") if event.source == "copy" and event.kind in ENDS else ""
        detail = "\n".join(filter(None, (by_copy, event.detail)))
        card = ChangeCard(event.kind, record, self._cluster, detail, event.by, at=event.at)
        await self.show(card, elsewhere=await rows.known(record.id) is None)
        action = "extend" if event.kind in _MOVES else "raise" if event.kind in _BEGINS else "revert"
        if event.kind in ENDS and not event.by:
            await self._tell_raiser(card)
        line = self._line(action, event.kind, event.by or ITSELF, record, event.detail)
        if event.source == "copy":
            line = line._replace(detail={**line.detail, "record": "the store's copy"})
        await rows.note(event, line)
        if event.kind in ENDS:
            self._files.pop(record.id, None)

    async def opened(self) -> Sequence[KnownChange]:
        rows = self._rows
        for change_id, event in list(self._ended.items()):
            await self.note(event)
            del self._ended[change_id]
        return await rows.opened()

    async def show(self, card: ChangeCard, *, elsewhere: bool = False) -> None:
        """Posts the card of a change, or edits it; `elsewhere`: looks in Slack for a card that another store posted."""
        record = card.record
        if not (channel := record.channel or self._channel):
            return
        approved = None if card.approval or card.longer else await self._deps().store.approvals.get(record.id)
        if approved is not None and approved.decision == "approved":
            card = msgspec.structs.replace(card, approved_by=approved.decided_by)
            if card.state == "never-raised":
                card = msgspec.structs.replace(card, detail=approved.reason or card.detail)
        message = render_card(card).in_words(self._deps().say)
        if file := self._files.get(record.id):
            message = message._replace(files=(file,))
        since = record.since if elsewhere else 0.0
        key = key_of(card.approval or record.id)
        await self._deps().outbox.put(key, channel, message, severity="warning", sought_since=since)

    async def show_waiting(self, approval: Approval, record: Record, state: State, *, by: str = "") -> None:
        """Posts or edits the card of a change that waits for its approval, or of how that approval ended."""
        card = ChangeCard(
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

    async def _tell_raiser(self, card: ChangeCard) -> None:
        """Tells whoever raised it in a shell that the bot ended it, if the settings name somebody of that login."""
        login, at_a_shell, _ = card.record.by.partition(BY_SHELL)
        for person in self._where("") if at_a_shell else ():
            known = await People(self._deps().gateway).person(person)
            if known is not None and known.name == login:
                message = render_card(card).in_words(self._deps().say)
                await self._deps().outbox.put(f"{key_of(card.record.id)}:ended", person, message, severity="warning")

    async def _call_for_help(self, event: ChangeEvent, record: Record) -> None:
        """Posts a message of its own, which the channel notices, unlike an edited card.

        Its key is the same for every replica, before and after a restart, so that it comes once. Where there is no
        channel, as for a change made from a shell, everybody whom the settings name gets it.
        """
        if not (reached := _reached(event.at - record.deadline)):
            return
        level = len(reached) - 1
        channel = record.channel or self._channel
        called = self._access.approvers if level and channel else ()
        card = ChangeCard("failed", record, self._cluster, event.detail)
        message = render_late(card, reached[-1], called, event.by_hand).in_words(self._deps().say)
        await self._put(f"{key_of(record.id)}:late:{level}", channel, message)

    async def _alarm(self, event: ChangeEvent) -> None:
        """Reports a record that nobody can read and of which the store has no copy: no bot will revert that change. It
        reports at once, and then as often as for a late change, counted from now: the deadline is not known.
        """
        log.error("%s: %s", event.target, event.detail)
        if event.kind != "unreadable":
            return
        store, where = self._deps().store, audit_target(self._cluster, event.target)
        key = f"{key_of(hashlib.sha256(f'{where} {event.detail}'.encode()).hexdigest()[:16])}:unreadable"
        if await store.facts.get(key) is None:
            await store.audit.append(AuditLine(ITSELF, "revert", where, "unreadable", {"detail": event.detail}))
        since = float(await store.facts.first(key, str(event.at)))
        level = len(_reached(event.at - since))
        called = self._access.approvers if level > 1 and self._channel else ()
        line = in_an_editor(event.target)
        message = render_unreadable(event.target, event.detail, called, line).in_words(self._deps().say)
        await self._put(f"{key}:{level}", self._channel, message)

    def told_in(self, record: Record) -> list[str]:
        """The channels where the change is told; where it has none, as from a shell, the operators and approvers."""
        return self._where(record.channel or self._channel)

    def _where(self, channel: str) -> list[str]:
        people = dict.fromkeys((*self._access.approvers, *self._access.operators))
        return [channel] if channel else [person for person in people if person.startswith(("U", "W"))]

    async def _put(self, key: str, channel: str, message: Message) -> None:
        for where in self._where(channel):
            await self._deps().outbox.put(key, where, message, severity="critical")

    def _line(self, action: str, outcome: str, actor: str, record: Record, detail: str = "") -> AuditLine:
        details = audit_details(record) | ({"detail": detail} if detail else {})
        return AuditLine(actor, action, audit_target(self._cluster, record.target), outcome, details)


def _reached(late_s: float) -> list[int]:
    minutes = int(late_s) // 60
    return [*(late for late in LATE_MINUTES if minutes >= late), *range(60, minutes + 1, 60)]


def audit_details(record: Record) -> dict[str, str]:
    """The details of a change that the audit log keeps."""
    return {
        "id": record.id,
        "container": record.container,
        "flag": ", ".join(each.flag for each in record.flags),
        "old": ", ".join(each.old for each in record.flags),
        "new": ", ".join(each.new for each in record.flags),
        "until": record.at,
        "because": record.because,
        "channel": record.channel,
    }


def key_of(change_id: str) -> str:
    """The key of a change's card in the outbox."""
    return f"change:{change_id}"


def audit_target(cluster: str, target: str) -> str:
    """The name of a Deployment in the audit log: `cluster:namespace/name`, without the cluster if it has no name."""
    return f"{cluster}:{target}" if cluster else target
