"""Carries out what people do about incidents: who may, what comes of it, and what they are told."""

import asyncio
import re
from collections.abc import Collection
from datetime import datetime, time, timedelta
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from msgspec.structs import replace

from bot.access import WhyDenied
from bot.errors import BotError
from bot.slack.message import Message
from bot.slack.people import Groups
from bot.slack.render.prose import progress
from bot.slack.render.summary import post_oncall_report, render_oncall_report
from bot.slack.render.triage import render_open, render_timeline
from bot.slack.render.triage_head import Head
from bot.store.audit import AuditLine
from bot.store.incidents import BEFORE, IncidentRow
from bot.texts import Text, in_english
from bot.triage.state import Act, Deed, Incident, MuteUntil, Step, act
from handlers.changes.draft import AccessDenied, Person, Refused
from handlers.deps import Deps
from handlers.oncall.calling import PATIENCE_S, call_to_come
from handlers.oncall.causes import registration_state
from handlers.oncall.incident_threads import DAYS, head_of, oncall_report, summary_of
from handlers.oncall.keeper import REMINDERS, Keeper
from handlers.user_actions import AcceptedDeed, NotDone

_PERSON = re.compile(r"[UWS][A-Z0-9]{2,63}")
_NOT_SO = {
    "unmuted": "triage.is-unmuted",
    "resolved": "triage.is-resolved",
    "closed": "triage.is-closed",
    "ended": "triage.is-ended",
}
"""The text that tells why a deed has no effect, by the answer of `act`."""


class IncidentDeed(NamedTuple):
    """A deed about an incident with its details; see `handlers.oncall.words.IncidentRequest`."""

    deed: Deed
    text: str = ""
    to: str = ""
    seconds: float = 0.0
    node: str = ""


class TriageService:
    """Carries out deeds about incidents. Every method is safe with forged values, and raises only BotError."""

    def __init__(self, deps: Deps, keeper: Keeper, responders: Collection[str]) -> None:
        self._deps = deps
        self._rows = deps.store.incidents
        self._keeper = keeper
        self._responders = frozenset(responders)
        self._groups = Groups(
            deps.gateway, tuple(sorted(responder for responder in responders if responder.startswith("S")))
        )

    async def find(self, who: Person, incident_id: str, thread_ts: str = "") -> IncidentRow:
        """The incident with this id, or without an id the one that has this thread. Raises Refused if there is none."""
        row = await self._rows.get(incident_id) if incident_id else None
        if thread_ts and not incident_id:
            row = await self._rows.of_thread(who.channel, thread_ts)
        if row is None:
            say = self._deps.say
            raise Refused(say("triage.unknown" if incident_id else "triage.which"), hint=say("triage.which-hint"))
        return row

    async def act(
        self, who: Person, row: IncidentRow, wanted: IncidentDeed, taken: AcceptedDeed[Any] | None = None
    ) -> str:
        """Carries out the deed, once however often `taken` is repeated; returns the text for the person alone."""
        key, asked_at = (taken.key, taken.asked.asked_at) if taken else ("", self._deps.now())
        await self._check(who, row, wanted.deed)
        self._check_complete(wanted)
        if wanted.node:
            await self._check_lost(row, wanted.node)
        until = MuteUntil(asked_at + wanted.seconds if wanted.seconds else 0.0, wanted.node)
        done = Act(wanted.deed, who.user, self._deps.now(), wanted.text, wanted.to, until)

        def decide(incident: Incident, _: bool) -> Step | str:  # noqa: FBT001  # as the rows call it
            # It came into another state since the person saw it, or the time is over that they wanted. A note is about
            # the incident in any state.
            has_moved = done.deed != "note" and (incident.since > asked_at or 0.0 < done.until.at <= done.at)
            return _MOVED if taken and taken.resumed and has_moved else act(incident, done)

        step = await self._rows.change(
            row.id,
            decide,
            lambda step: _line(who, row, wanted.deed, step if isinstance(step, str) else "done"),
            key,
        )
        if step is None:
            raise Refused(self._deps.say("triage.unknown"))
        if step == _MOVED:
            raise NotDone("moved")
        if step == BEFORE:
            return self._deps.say("triage.done")
        if isinstance(step, str):
            if step == "same":
                return self._deps.say("triage.same")
            raise Refused(self._deps.say(_NOT_SO[step]))
        self._keeper.soon()
        if wanted.deed == "close" and not step.incident.quiet_since:
            return self._deps.say("triage.done-firing")
        return self._deps.say("triage.done")

    async def remind(self, who: Person, row: IncidentRow, seconds: float, at: float, zone: str) -> str:
        """Stores a reminder of the incident for the person; returns the text for them.

        It is due `seconds` after `at` (unix time), or with 0 at 9:00 of the next day in `zone` (empty: UTC). Raises
        Refused for an incident that is over, AccessDenied outside its channel.
        """
        if who.channel != row.channel:
            raise self._elsewhere(row)
        if not row.incident.is_open:
            raise Refused(self._deps.say(_NOT_SO["ended" if row.incident.ended else "closed"]))
        here = ZoneInfo(zone or "UTC")
        morning = datetime.combine(datetime.fromtimestamp(at, here).date() + timedelta(days=1), time(9), here)
        due = datetime.fromtimestamp(at + seconds, here) if seconds else morning
        await self._deps.store.marks.set(f"{REMINDERS}{row.id}:{who.user}", f"{due.timestamp():.0f}")
        return self._deps.say("triage.reminding", time=f"{due:%Y-%m-%d %H:%M} ({zone or 'UTC'})")

    async def open_cause(self, who: Person, row: IncidentRow, named: str, *, is_again: bool = False) -> str:
        """Opens a thread for alerts that another one gathers (`AlertSorter.open_cause`); returns the person's text."""
        await self._check(who, row, "open")
        if not await self._keeper.sorter.open_cause(row, named) and not is_again:
            raise Refused(self._deps.say("triage.storm-gone"))
        await self._deps.store.audit.append(_line(who, row, "open", "done"))
        return self._deps.say("triage.storm-opened")

    async def head(self, row: IncidentRow) -> Head:
        """The content of the incident's head now."""
        counts = await self._deps.store.alerts.counts([row.id])
        return head_of(row, counts[row.id])

    async def export(self, who: Person, row: IncidentRow) -> Message:
        """The timeline as a file, for the incident's channel. Raises AccessDenied for a person in another channel."""
        if who.channel != row.channel:
            raise self._elsewhere(row)
        happened = await self._deps.store.timeline.of(row.id)
        summary = await summary_of(self._deps.store, row.id, happened, self._deps.now())
        file = render_timeline(await self.head(row), happened, summary, self._deps.say)
        return progress(file.title)._replace(files=(file,))

    async def listed(self) -> Message:
        """A message with the open incidents, who is called, and how many alerts are ignored."""
        rota = await self._keeper.rota.now()
        ignored = await self._deps.store.alerts.ignored()
        return render_open(await self.heads(rota), rota, ignored).in_words(self._deps.say)

    async def report(self) -> Message:
        """The on-call report of the last 7 days, which only the asker may see. Raises StoreError."""
        now = self._deps.now()
        found = await oncall_report(self._deps.store, now - DAYS * 86400.0, now)
        return render_oncall_report(found, DAYS, await self.heads()).in_words(self._deps.say)

    async def posted_report(self, since: float, until: float, late: str) -> Message:
        """The on-call report between two moments (unix seconds) for a channel, where it calls nobody. `late`: the time
        it was due, if that is past. Raises StoreError.
        """
        found = await oncall_report(self._deps.store, since, until)
        return post_oncall_report(found, DAYS, await self.heads(), late).in_words(self._deps.say)

    async def heads(self, rota: tuple[str, ...] | None = None) -> list[Head]:
        """The heads of the open incidents; without `rota` the last known one is shown. Raises StoreError."""
        rota = self._keeper.rota.expected() if rota is None else rota
        rows = [row for row in await self._rows.opened() if row.incident.is_open]
        counts = await self._deps.store.alerts.counts([row.id for row in rows])
        shown: list[Head] = []
        for row in rows:
            some = counts[row.id]
            link = self._deps.permalink(row.channel, row.thread_ts)
            call = call_to_come(row, some, self._keeper.terms, rota)
            shown.append(replace(head_of(row, some), call=call, link=link))
        return shown

    async def refuse_forged(self, who: Person, name: str) -> BotError:
        """Writes a forged button or form to the audit log, and returns the error to tell the person."""
        error = Refused(
            Text("error-change.bot-does-not-recognise-button"),
            hint=Text("error-oncall.write-in-thread"),
        )
        why = {"why": in_english(error.message)}
        await self._deps.store.audit.append(AuditLine(who.user, f"triage-{name[:20]}", "", "refused", why))
        return error

    async def _check(self, who: Person, row: IncidentRow, deed: str) -> None:
        append = self._deps.store.audit.append
        if who.channel != row.channel:
            await append(_line(who, row, deed, "refused"))
            raise self._elsewhere(row)
        if self._responders and not {who.user, *await self._groups.of(who.user)} & self._responders:
            await append(_line(who, row, deed, "refused"))
            raise AccessDenied(WhyDenied(Text("error-oncall.you-may-not-act"), tuple(sorted(self._responders))))

    def _elsewhere(self, row: IncidentRow) -> AccessDenied:
        return AccessDenied(WhyDenied(self._deps.say("triage.elsewhere"), where=(row.channel,)))

    def _check_complete(self, wanted: IncidentDeed) -> None:
        """What a client sent need not be what its form asks for."""
        if wanted.deed == "handover" and not _PERSON.fullmatch(wanted.to):
            raise Refused(Text("error-oncall.handover-to-person-or-group"), example="@hami-bot triage handover @ada")
        if wanted.to == self._deps.bot_user:
            raise Refused(self._deps.say("triage.not-me"), example="@hami-bot triage handover @ada")
        if wanted.deed == "note" and not wanted.text.strip():
            raise Refused(
                Text("error-oncall.note-needs-text"),
                hint=Text("error-oncall.mention-me-thread"),
                example="@hami-bot triage note rebooted gpu-7",
            )

    async def _check_lost(self, row: IncidentRow, node: str) -> None:
        """Raises BotError unless the node's registration is lost, so that there is something to wait for."""
        try:
            async with asyncio.timeout(PATIENCE_S), self._deps.open_sources(row.cluster) as sources:
                state = await registration_state(sources, node)
        except TimeoutError as error:
            raise Refused(
                Text("error-oncall.node-no-answer-within-s", node=node, seconds=f"{PATIENCE_S:g}"),
                hint=Text("error-oncall.mute-for-a-time"),
            ) from error
        if state == "unknown":
            raise Refused(self._deps.say("triage.no-node", node=node), hint=Text("error-oncall.nodes-all-shows-names"))
        if state == "registered":
            raise Refused(self._deps.say("triage.is-registered", node=node), hint=Text("error-oncall.mute-for-a-time"))


_MOVED = "moved"


def _line(who: Person, row: IncidentRow, deed: str, outcome: str) -> AuditLine:
    about = {"channel": who.channel, "cluster": row.cluster}
    return AuditLine(who.user, f"triage-{deed}", f"incident:{row.id}", outcome, about)
