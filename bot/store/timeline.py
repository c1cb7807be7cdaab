"""Writes down what happened to an incident, inside a transaction of whoever changes it."""

import json
from collections.abc import Sequence

from sqlalchemy import func, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.store.tables import incident_events
from bot.triage.state import News

_TOLD_BY_ITSELF = frozenset({"profile-taken"})
"""What stands in the thread anyway."""
_UNTOLD = frozenset({"opened", "unmuted"})
"""What the head's edit tells well enough, unless there is more to say about it."""


async def note(connection: AsyncConnection, incident_id: str, news: Sequence[News], at: float) -> None:
    """Adds the news to the incident's, in order. Lock the incident's row before: events have numbers."""
    last = select(func.max(incident_events.c.seq)).where(incident_events.c.incident == incident_id)
    seq = int(await connection.scalar(last) or 0)
    for number, step in enumerate(news, seq + 1):
        values = {"incident": incident_id, "seq": number, "at": at, "turn": step.turn, "by": step.by[:64]}
        told_by_head = step.turn in _UNTOLD and not step.detail and not step.by
        seen = int(told_by_head or step.turn in _TOLD_BY_ITSELF)
        await connection.execute(insert(incident_events).values(**values, detail=json.dumps(step.detail), told=seen))
