"""What is told afterwards: how an incident went once it is over, and how a week went."""

import asyncio
from collections.abc import Sequence

from bot.slack.render.blocks import Draft
from bot.slack.render.summary import summary_block
from bot.slack.render.triage import render_news
from bot.slack.render.triage_head import Head
from bot.store import Store
from bot.store.alert_rows import Counts
from bot.store.incidents import Row
from bot.store.timeline import Event
from bot.triage.cause import severest
from bot.triage.gputime import FiringSpan, gpu_time
from bot.triage.oncall_report import Case, OncallReport, report_on
from bot.triage.summary import ENDS, Summary, TimelineEntry, summarize

DAYS = 7
"""What a report covers; a scheduled one begins where the last one ended, also where a clock change lies between."""


async def reply_of(store: Store, head: Head, event: Event) -> Draft:
    """What the thread is told of the event. What ends the incident is told with its summary up to then: in one message,
    so that what holds for a reply (once, however often it is tried) holds for the summary. Raises StoreError.
    """
    message = render_news(event.news)
    if event.news.turn not in ENDS:
        return message
    until = [TimelineEntry(step.at, step.news) for step in await store.timeline.of(head.id) if step.seq <= event.seq]
    summary = await summary_of(store, head.id, until, event.at)
    return message._replace(blocks=(*message.blocks, summary_block(head, summary)))


async def summary_of(store: Store, incident_id: str, happened: Sequence[TimelineEntry], now: float) -> Summary:
    """The summary of the incident's timeline, or of its beginning; its GPU-hours up to its end, or else up to now.
    Raises StoreError.
    """
    summary = summarize(happened)
    ended_at = now if summary.ended_s is None else happened[0].at + summary.ended_s
    spells = (await store.spells.of([incident_id])).get(incident_id, [])
    return summary._replace(affected=await asyncio.to_thread(gpu_time, spells, ended_at))


async def oncall_report(store: Store, since: float, until: float) -> OncallReport:
    """How the time between two moments went, in seconds since 1970. Raises StoreError."""
    found = await store.incidents.lately(since)
    ids = [row.id for row, _ in found]
    counts, spells = await store.alerts.counts(ids), await store.spells.of(ids)
    cases = [_case(row, counts.get(row.id, Counts()), events, spells.get(row.id, ())) for row, events in found]
    return await asyncio.to_thread(report_on, cases, since, until)


def _case(row: Row, counts: Counts, events: Sequence[Event], spells: Sequence[FiringSpan]) -> Case:
    """Where no rule knows the cause, the alert with the most firing stands for it."""
    name = row.cause.code or next((alert for alert, _, _ in counts.by_name), "") or row.cause.claim
    alerts = [(alert, total) for alert, _, total in counts.by_name]
    happened = [TimelineEntry(event.at, event.news) for event in events]
    of_cluster = [spell._replace(pod=(row.cluster, *spell.pod)) for spell in spells]
    return Case(name, severest(row.cause.severity, counts.severities), happened, alerts, of_cluster)
