"""The thread of an incident: its head, its replies and its evidence follow what stands in the store."""

import hashlib
from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from bot.report import SEVERITIES
from bot.slack.message import Message
from bot.slack.outbox import Severity
from bot.slack.render import blocks
from bot.slack.render.prose import progress
from bot.slack.render.triage_head import Head, details, render_head
from bot.store.alert_rows import Counts
from bot.store.incidents import Row, evidence_key, head_key
from bot.store.timeline import Event
from bot.triage.mute import Nodes
from bot.triage.state import CALLS, IncidentTimes, passed
from handlers.deps import Deps
from handlers.oncall.afterwards import reply_of
from handlers.oncall.attempt import attempt
from handlers.oncall.calling import call_to_come, extent_of, told_elsewhere
from handlers.oncall.evidence import EvidenceRequest, evidence
from handlers.oncall.on_call_now import Rota

DEBOUNCE_S = 45.0
"""Seconds between two edits of a head in which nothing but counts changed."""
NOT_POSTED_S = 120.0
"""So long after a head was given to the outbox it is given once more: what waits there stays as it is, and what was
given up, since the bot was no member of the channel, is tried again."""


class IncidentThreads:
    """Keeps threads up to date; `wake` is called when one has something new to tell."""

    def __init__(self, deps: Deps, terms: IncidentTimes, rota: Rota, wake: Callable[[], None]) -> None:
        self._deps = deps
        self._rows = deps.store.incidents
        self._terms = terms
        self._rota = rota
        self._wake = wake

    async def keep(self, row: Row, terms: IncidentTimes, counts: Counts, seen: Nodes, untold: Sequence[Event]) -> None:
        """Lets time pass for the incident, and its thread tell what came of it. `terms` are those of now, `seen` are
        nodes that may end its mute. Raises BotError.
        """
        now = self._deps.now()
        incident = row.incident
        extent = extent_of(row, counts)
        due = passed(incident, now, terms, firing=counts.firing > 0, nodes=seen, extent=extent)
        if due.incident != incident or due.news:
            step = await self._rows.change(
                row.id, lambda incident, firing: passed(incident, now, terms, firing=firing, nodes=seen, extent=extent)
            )
            if step is not None and not isinstance(step, str):
                incident = step.incident
                if step.news:
                    self._wake()  # it is told in the next pass
        await self._show(row._replace(incident=incident), counts)
        if row.thread_ts:
            await self._reply(row, counts, untold)

    async def _show(self, row: Row, counts: Counts) -> None:
        """Posts the head, or edits it: at once when its state or owner changed, else now and then."""
        head = head_of(row, counts)
        if row.thread_ts:  # an edit calls nobody, as the first post would
            head = head._replace(call=call_to_come(row, counts, self._terms, self._rota.expected()))
        message = render_head(head).in_words(self._deps.say)
        said = _digest([row.incident.state, row.incident.owner, row.incident.called, head.severity])
        looks = _digest([message.text, message.blocks])
        waited = self._deps.now() - row.shown_at
        if row.shown.endswith(looks) and (row.thread_ts or waited < NOT_POSTED_S):
            return
        if waited < DEBOUNCE_S and row.shown.startswith(said):
            return
        shown = f"{said}:{looks}"
        await self._put(row, head_key(row.id), message, severity=head.severity, update_ts=row.thread_ts)
        await self._rows.show(row.id, shown)

    async def prove(self, rows: Sequence[Row]) -> bool:
        """The evidence of these incidents, of one after the other, of the most severe first."""
        counts = await self._deps.store.alerts.counts([row.id for row in rows])
        heads = [(row, head_of(row, counts.get(row.id, Counts()))) for row in rows]
        heads.sort(key=lambda head: SEVERITIES.index(head[1].severity), reverse=True)
        return any(
            [await attempt(f"the incident {row.id}", partial(self._prove_one, row, head)) for row, head in heads]
        )

    async def _prove_one(self, row: Row, head: Head) -> bool:
        """The evidence, once: what a person who asked about the first pod would be answered, and what the head has no
        room for.

        A recording that is made again is another file. What was given before this was interrupted stays as it is.
        """
        if not await self._rows.has_evidence(row):
            message, more = await self._found(row, head), blocks.in_words(details(head), self._deps.say)
            if message.blocks or more:
                message = message._replace(blocks=(*message.blocks, *more), newer=())
                await self._put(row, evidence_key(row.id), message, severity=head.severity, thread_ts=row.thread_ts)
        await self._rows.proven(row.id)
        return False

    async def _found(self, row: Row, head: Head) -> Message:
        """What is known of the cause; without blocks where none was found."""
        if not (row.cause.code and row.cause.subject):
            return progress(self._deps.say("triage.alerts-say"))
        verb = "why" if "/" in row.cause.subject else "nodes"
        asked = EvidenceRequest(verb, row.cause.subject, f"incident-{row.id}.tar.gz", row.cause.nodes, head.severity)
        return await evidence(self._deps, row.cluster, asked)

    async def _reply(self, row: Row, counts: Counts, untold: Sequence[Event]) -> None:
        for event in untold:
            severity: Severity = "critical" if event.news.turn in CALLS else "warning"
            reply = await reply_of(self._deps.store, head_of(row, counts), event)
            key = f"{head_key(row.id)}:{event.seq}"
            link = self._deps.permalink(row.channel, row.thread_ts)
            if elsewhere := told_elsewhere(row, event.news, link):
                whom, call = elsewhere
                await self._deps.outbox.put(key, whom, call.in_words(self._deps.say), severity=severity)
            await self._put(row, key, reply.in_words(self._deps.say), severity=severity, thread_ts=row.thread_ts)
            await self._deps.store.timeline.mark_told(row.id, event.seq)

    async def _put(
        self,
        row: Row,
        key: str,
        message: Message,
        *,
        severity: Severity = "info",
        thread_ts: str = "",
        update_ts: str = "",
    ) -> None:
        put = self._deps.outbox.put
        await put(key, row.channel, message, severity=severity, thread_ts=thread_ts, update_ts=update_ts)


def head_of(row: Row, counts: Counts) -> Head:
    """What the incident's head tells."""
    return Head(
        row.id,
        row.cluster,
        row.cause,
        row.incident,
        counts.pods_firing,
        counts.pods,
        counts.alerts,
        counts.subjects,
        counts.names,
        row.created_at,
        counts.namespaces,
        counts.severities,
        counts.runbooks,
        nodes_firing=counts.nodes_firing,
        nodes=counts.nodes,
        cut=counts.cut,
        by_name=counts.by_name,
    )


def _digest(content: object) -> str:
    return hashlib.sha256(msgspec.json.encode(content)).hexdigest()[:24]
