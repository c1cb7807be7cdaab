"""What is told once an incident is over."""

from bot.slack.message import Message
from bot.slack.render.summary import summary_block
from bot.slack.render.triage import render_news
from bot.slack.render.triage_head import Head
from bot.store.incidents import Event, IncidentRows
from bot.texts import Texts
from bot.triage.summary import ENDS, Happened, summarize


async def reply_of(rows: IncidentRows, head: Head, event: Event, say: Texts) -> Message:
    """What the thread is told of the event. What ends the incident is told with its summary up to then: in one message,
    so that what holds for a reply (once, however often it is tried) holds for the summary. Raises StoreError.
    """
    message = render_news(event.news, say)
    if event.news.turn not in ENDS:
        return message
    until = [Happened(one.at, one.news) for one in await rows.timeline(head.id) if one.seq <= event.seq]
    return message._replace(blocks=(*message.blocks, summary_block(head, summarize(until), say)))
