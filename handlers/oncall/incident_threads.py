"""The thread of an incident: its head, its replies and its evidence follow what stands in the store.

A thread gets its evidence once: what `why` answers about the first pod, its picture, and a recording that replays it.
At the end of an incident its thread gets a summary (`reply_of`), and the on-call report is made of all summaries.
"""

import asyncio
import hashlib
import logging
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import msgspec

from bot.errors import BotError, SourceError, begin_request, bugs_as_errors
from bot.hami.vendors import ANNOTATIONS
from bot.kube.cluster import seen
from bot.kube.models import EVENTS, PODS, Kind
from bot.kube.recording.record import record
from bot.render.overview import first_step
from bot.report import SEVERITIES, Gap, NextAction, Severity, in_words, one_line
from bot.slack.message import File, Message
from bot.slack.render import blocks
from bot.slack.render.blocks import Draft
from bot.slack.render.prose import in_words as told
from bot.slack.render.prose import progress, render_error
from bot.slack.render.report import render_report
from bot.slack.render.summary import summary_block
from bot.slack.render.triage import render_news
from bot.slack.render.triage_head import Head, details, render_head
from bot.store import Store
from bot.store.incidents import IncidentRow, evidence_key, head_key
from bot.texts import Text
from bot.triage.cause import severest
from bot.triage.state import CALLS, Incident, IncidentTimes, Nodes, Step, pass_time
from bot.triage.summary import ENDS, Case, Counts, IncidentEvent, OncallReport, Summary, gpu_time, report_on, summarize
from handlers.deps import Deps
from handlers.oncall.calling import Rota, call_to_come, extent_of, last_resort_message
from handlers.oncall.causes import answer, is_about_all
from playbooks.playbook import Sources

DEBOUNCE_S = 45.0
"""Seconds between two edits of an incident's first message (head) in which nothing but counts changed."""
NOT_POSTED_S = 120.0
"""Seconds after which a head is put into the outbox again: if it still waits there, nothing changes; if it was given up
because the bot was no member of the channel, it is tried again.
"""


class IncidentThreads:
    """Keeps the incidents' threads up to date; calls `wake` when one has something new to tell."""

    def __init__(self, deps: Deps, terms: IncidentTimes, rota: Rota, wake: Callable[[], None]) -> None:
        self._deps = deps
        self._rows = deps.store.incidents
        self._terms = terms
        self._rota = rota
        self._wake = wake

    async def keep(
        self, row: IncidentRow, terms: IncidentTimes, counts: Counts, seen: Nodes, untold: Sequence[IncidentEvent]
    ) -> None:
        """Does what is due for the incident, and updates its thread; `seen` nodes may end its mute. Raises BotError."""
        now = self._deps.now()
        incident = row.incident
        extent = extent_of(row, counts)

        def passed(incident: Incident, firing: bool) -> Step:  # noqa: FBT001  # as the store calls it
            return pass_time(incident, now, terms, firing=firing, nodes=seen, extent=extent)

        due = passed(incident, counts.firing > 0)
        if due.incident != incident or due.news:
            step = await self._rows.change(row.id, passed)
            if step is not None and not isinstance(step, str):
                incident = step.incident
                if step.news:
                    self._wake()  # it is told in the next pass
        await self._show(msgspec.structs.replace(row, incident=incident), counts)
        if row.thread_ts:
            await self._reply(row, counts, untold)

    async def _show(self, row: IncidentRow, counts: Counts) -> None:
        """Posts the head, or edits it: at once when its state or owner changed, else now and then."""
        head = head_of(row, counts)
        if row.thread_ts:  # an edit calls nobody, as the first post would
            head = msgspec.structs.replace(head, call=call_to_come(row, counts, self._terms, self._rota.expected()))
        message = render_head(head).in_words(self._deps.say)
        said = _digest([row.incident.state, row.incident.owner, row.incident.called, head.severity, row.cause.step])
        looks = _digest([message.text, message.blocks])
        waited = self._deps.now() - row.shown_at
        if row.shown.endswith(looks) and (row.thread_ts or waited < NOT_POSTED_S):
            return
        if waited < DEBOUNCE_S and row.shown.startswith(said):
            return
        shown = f"{said}:{looks}"
        put = self._deps.outbox.put
        await put(head_key(row.id), row.channel, message, severity=head.severity, update_ts=row.thread_ts)
        await self._rows.mark_shown(row.id, shown)

    async def prove(self, rows: Sequence[IncidentRow]) -> bool:
        """Posts these incidents' evidence, most severe first; returns whether threads have something new to tell."""
        counts = await self._deps.store.alerts.counts([row.id for row in rows])
        heads = [(row, head_of(row, counts[row.id])) for row in rows]
        heads.sort(key=lambda head: SEVERITIES.index(head[1].severity), reverse=True)
        return any(
            [await attempt(f"the incident {row.id}", partial(self._prove_one, row, head)) for row, head in heads]
        )

    async def _prove_one(self, row: IncidentRow, head: Head) -> bool:
        """Posts once what a person who asked about the first pod would be answered, and what the head has no room for.
        A recording that is made again is another file. What was given before this was interrupted stays as it is.
        """
        if not await self._rows.has_evidence(row):
            cause, more = row.cause, blocks.in_words(details(head), self._deps.say)
            message, step = progress(self._deps.say("triage.alerts-say")), cause.step
            if cause.verb or (cause.code and cause.subject):
                verb = cause.verb or ("why" if "/" in cause.subject else "nodes")
                asked = EvidenceRequest(verb, cause.subject, f"incident-{row.id}.tar.gz", head.severity)
                message, step = await evidence(self._deps, row.cluster, asked)
            row = msgspec.structs.replace(row, cause=msgspec.structs.replace(cause, step=step or cause.step))
            await self._rows.mark_cause(row.id, row.cause)
            if message.blocks or more:
                message = message._replace(blocks=(*message.blocks, *more), newer=())
                key, put = evidence_key(row.id), self._deps.outbox.put
                await put(key, row.channel, message, severity=head.severity, thread_ts=row.thread_ts)
        await self._rows.mark_proven(row.id)
        return row.cause.step != head.cause.step

    async def _reply(self, row: IncidentRow, counts: Counts, untold: Sequence[IncidentEvent]) -> None:
        for event in untold:
            severity: Severity = "critical" if event.news.turn in CALLS else "warning"
            reply = await reply_of(self._deps.store, head_of(row, counts), event)
            key = f"{head_key(row.id)}:{event.seq}"
            link, put = self._deps.permalink(row.channel, row.thread_ts), self._deps.outbox.put
            if elsewhere := last_resort_message(row, event.news, link):
                whom, call = elsewhere
                await put(key, whom, call.in_words(self._deps.say), severity=severity)
            answer = reply.in_words(self._deps.say)
            await put(key, row.channel, answer, severity=severity, thread_ts=row.thread_ts)
            await self._deps.store.timeline.mark_told(row.id, event.seq)


def head_of(row: IncidentRow, counts: Counts) -> Head:
    """The content of the head, which is the first message of an incident's thread."""
    return Head(row.id, row.cluster, row.cause, row.incident, counts, row.created_at)


def _digest(content: object) -> str:
    return hashlib.sha256(msgspec.json.encode(content)).hexdigest()[:24]


DAYS = 7
"""How many days an on-call report covers; a scheduled one begins where the last one ended, even over a clock change."""


async def reply_of(store: Store, head: Head, event: IncidentEvent) -> Draft:
    """The reply that tells the thread about the event. Raises StoreError. For an event that ends the incident it also
    has the summary, so that this is posted once, however often it is tried.
    """
    message = render_news(event.news)
    if event.news.turn not in ENDS:
        return message
    until = [past for past in await store.timeline.of(head.id) if past.seq <= event.seq]
    summary = await summary_of(store, head.id, until, event.at)
    return message._replace(blocks=(*message.blocks, summary_block(head, summary)))


async def summary_of(store: Store, incident_id: str, happened: Sequence[IncidentEvent], now: float) -> Summary:
    """The summary of a timeline, or of its beginning, with GPU-hours up to its end or else `now`. Raises StoreError."""
    summary = summarize(happened)
    ended_at = now if summary.ended_s is None else happened[0].at + summary.ended_s
    spells = (await store.alerts.spells([incident_id])).get(incident_id, [])
    return msgspec.structs.replace(summary, affected=await asyncio.to_thread(gpu_time, spells, ended_at))


async def oncall_report(store: Store, since: float, until: float) -> OncallReport:
    """The on-call report on the time between two moments, in unix seconds. Raises StoreError."""
    found = await store.incidents.lately(since)
    ids = [row.id for row, _ in found]
    counts, spells = await store.alerts.counts(ids), await store.alerts.spells(ids)
    cases: list[Case] = []
    for row, events in found:
        some = counts[row.id]
        # Where no rule knows the cause, the alert with the most firing stands for it.
        name = row.cause.code or next((alert for alert, _, _ in some.by_name), "") or row.cause.claim
        of_cluster = [spell._replace(pod=(row.cluster, *spell.pod)) for spell in spells.get(row.id, ())]
        alerts = [(alert, total) for alert, _, total in some.by_name]
        cases.append(Case(name, severest(row.cause.severity, some.severities), events, alerts, of_cluster))
    return await asyncio.to_thread(report_on, cases, since, until)


ANSWERED_S = 60.0
RECORDED_S = 60.0


class Bounds(NamedTuple):
    """The largest recording, in `largest` bytes, that is attached: the store has it until Slack does.

    A recording has all pods, since a node's free GPUs depend on every one, and all events: with more than `most_pods`
    or `most_events` none is made.
    """

    most_pods: int = 10_000
    most_events: int = 20_000
    largest: int = 8 * 1024 * 1024


_BOUNDS = Bounds()


class EvidenceRequest(NamedTuple):
    """A request for an incident's evidence: the question, the name for its recording, and its head's severity."""

    verb: str
    subject: str
    recording: str
    severity: Severity = "warning"


Proof = tuple[Message, NextAction | None]
"""An incident's evidence, and the first step that it shows, if any: the head shows it too."""


async def evidence(deps: Deps, cluster: str, asked: EvidenceRequest, bounds: Bounds = _BOUNDS) -> Proof:
    """The answer to the question in `asked`, with its files. Raises nothing: the message says what is missing."""
    say = deps.say
    try:
        async with asyncio.timeout(ANSWERED_S), deps.open_sources(cluster) as sources:
            found = await answer(sources, asked.verb, asked.subject)
    except TimeoutError:
        values = {"verb": asked.verb, "subject": asked.subject, "seconds": f"{ANSWERED_S:g}"}
        return render_error(BotError(Text("error-oncall.call-no-answer-within", **values))).in_words(say), None
    except BotError as error:
        return render_error(error).in_words(say), None
    report = await asyncio.to_thread(in_words, msgspec.structs.replace(found, severity=asked.severity), say)
    words = asked.verb if is_about_all(asked.verb, asked.subject) else f"{asked.verb} {asked.subject}"
    message = render_report(report, say, channel_buttons=False, words=words)
    step = first_step(report)
    try:
        async with asyncio.timeout(RECORDED_S), deps.open_sources(cluster) as sources:
            content, unread = await _recording(sources, asked, bounds)
    except TimeoutError:
        why = Text("error-kube.not-finished-within", seconds=f"{RECORDED_S:g}")
        return _noted(message, say("triage.no-recording", why=why)), step
    except BotError as error:
        return _noted(message, say("triage.no-recording", why=told(error, say)[0])), step
    recorded = File(asked.recording, content, say("triage.recording-title", subject=asked.subject))
    notes = [say("triage.recording", words=f"{words} --recording {recorded.name}")]
    if unread:
        notes.append(say("triage.recording-lacks", what=one_line(", ".join(unread), 300)))
    return _noted(message, *notes, files=[recorded]), step


def _noted(message: Message, *texts: str, files: Sequence[File] = ()) -> Message:
    return message._replace(blocks=(*message.blocks, blocks.context(*texts)), files=(*message.files, *files), newer=())


async def _recording(sources: Sources, asked: EvidenceRequest, bounds: Bounds) -> tuple[bytes, list[str]]:
    counted: list[tuple[Kind[Any], int]] = [(PODS, bounds.most_pods), (EVENTS, bounds.most_events)]
    for kind, most in counted:  # by their metadata, which is enough; of what cannot be read `record` tells
        found = await seen(kind.plural, sources.cluster.list(kind, metadata_only=True))
        if not isinstance(found, Gap) and len(found) > most:
            raise SourceError(Text("error-oncall.cluster-has", count=f"{len(found):,}", plural=kind.plural))
    namespace, _, pod = asked.subject.partition("/") if asked.verb == "why" else ("", "", "")
    with tempfile.TemporaryDirectory(prefix="hami-bot-") as folder:
        out = Path(folder) / asked.recording
        of = (namespace, pod) if pod and "/" not in pod else None
        summary = await record(
            sources.cluster, out, pod=of, server_version="", annotations=ANNOTATIONS, ports=sources.ports
        )
        content = await asyncio.to_thread(out.read_bytes)
    if len(content) > bounds.largest:
        raise SourceError(Text("error-oncall.it-has-bytes", count=f"{len(content):,}"))
    return content, [gap.source for gap in summary.gaps]


log = logging.getLogger(__name__)


async def attempt(what: str, work: Callable[[], Awaitable[bool]]) -> bool:
    """Runs `work` and returns its result: whether threads have something new to tell. Errors are logged, and another
    pass tries again. Its log lines and calls to the cluster get an id of their own, so it needs a task of its own.
    """
    begin_request(uuid4().hex)
    try:
        with bugs_as_errors():
            return await work()
    except BotError as error:
        log.warning("%s: %s", what, error)
        return False
