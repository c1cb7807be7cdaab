"""What happened to incidents. It is written down in the transaction of whoever changes the incident."""

import json
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import and_, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from bot.store.engine import store_errors
from bot.store.tables import incident_events
from bot.triage.state import News

_TOLD_BY_ITSELF = frozenset({"profile-taken"})
"""What stands in the thread anyway."""
_UNTOLD = frozenset({"opened", "unmuted"})
"""What the head's edit tells well enough, unless there is more to say about it."""


class Event(NamedTuple):
    """Something that happened to an incident."""

    seq: int
    at: float
    news: News


async def note(connection: AsyncConnection, incident_id: str, news: Sequence[News], at: float) -> None:
    """Adds the news to the incident's, in order. Lock the incident's row before: events have numbers."""
    last = select(func.max(incident_events.c.seq)).where(incident_events.c.incident == incident_id)
    seq = int(await connection.scalar(last) or 0)
    for number, step in enumerate(news, seq + 1):
        values = {"incident": incident_id, "seq": number, "at": at, "turn": step.turn, "by": step.by[:64]}
        told_by_head = step.turn in _UNTOLD and not step.detail and not step.by
        seen = int(told_by_head or step.turn in _TOLD_BY_ITSELF)
        await connection.execute(insert(incident_events).values(**values, detail=json.dumps(step.detail), told=seen))


class Timeline:
    """Every method is one transaction and raises only StoreError."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def of(self, incident_id: str) -> list[Event]:
        """What happened to the incident, in order."""
        query = select(incident_events).where(incident_events.c.incident == incident_id)
        with store_errors("reading what happened to an incident"):
            async with self._engine.connect() as connection:
                found = await connection.execute(query.order_by(incident_events.c.seq))
                return [event_of(row) for row in found]

    async def untold(self) -> dict[str, list[Event]]:
        """What still needs a reply, by incident and in order."""
        query = select(incident_events).where(incident_events.c.told == 0)
        found: defaultdict[str, list[Event]] = defaultdict(list)
        with store_errors("reading what was not told yet"):
            async with self._engine.connect() as connection:
                for row in await connection.execute(query.order_by(incident_events.c.seq)):
                    found[row.incident].append(event_of(row))
        return found

    async def mark_told(self, incident_id: str, seq: int) -> None:
        """Notes that the reply was given to the outbox."""
        here = and_(incident_events.c.incident == incident_id, incident_events.c.seq == seq)
        with store_errors("noting what was told"):
            async with self._engine.begin() as connection:
                await connection.execute(update(incident_events).where(here).values(told=1))


def event_of(row: Any) -> Event:
    """The event that a row of `incident_events` is."""
    return Event(row.seq, row.at, News(row.turn, row.by, json.loads(row.detail)))
