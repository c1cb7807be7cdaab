"""What stands in the bot's store, read beside it."""

import asyncio
import contextlib
import time
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncEngine

from bot.digest.schedule import Schedule, occurrences
from bot.store.base import StoreError, store_errors
from bot.store.engine import open_engine
from bot.store.tables import alerts, audit, changes, digest_runs, digests, incident_events, incidents, outbox, seen

_LOOKS_S = 2.0
_LATE_S = 90.0
"""A digest is posted some seconds after it is due."""


class Event(NamedTuple):
    """What happened to an incident, by whom."""

    incident: str
    seq: int
    at: float
    turn: str
    detail: str


class Contents(NamedTuple):
    """All of it that the account needs, by who did it or by what it is about.

    `alerts`: incident and status of each row of a fingerprint. `audit`: action, outcome and when. `digests`: how
    many were made. `raises`: when each was. `runs` counts the postings of digests by how they ended; `missed` were due
    and are not among them. Times are seconds since 1970.
    """

    alerts: dict[str, list[tuple[str, str]]]
    events: dict[str, list[Event]]
    incidents: list[str]
    digests: Counter[str]
    raises: dict[str, list[float]]
    audit: dict[str, list[tuple[str, str, float]]]
    runs: Counter[str]
    missed: list[str]


class Reader:
    """Reads the store. Raises StoreError."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def unsettled(self) -> dict[str, int]:
        """How many of what is to come to an end have not."""
        waits = {
            "deeds and questions": select(func.count()).select_from(seen).where(seen.c.state == "running"),
            "messages": select(func.count()).select_from(outbox).where(outbox.c.state.in_(("new", "sending"))),
            "alerts": select(func.count()).select_from(alerts).where(alerts.c.incident == ""),
            "digests": select(func.count()).select_from(digest_runs).where(digest_runs.c.state == "claimed"),
            "news": select(func.count()).select_from(incident_events).where(incident_events.c.told == 0),
        }
        with store_errors("looking for what is under way"):
            counted = await self._counted(waits)
        return {name: count for name, count in counted.items() if count}

    async def _counted(self, queries: dict[str, Any]) -> dict[str, int]:
        async with self._engine.connect() as connection:
            return {name: int(await connection.scalar(query) or 0) for name, query in queries.items()}

    async def oldest_alert(self) -> float:
        """Since when, in seconds since 1970, an alert waits for its incident; 0 where none does."""
        query = select(func.min(alerts.c.received_at)).where(alerts.c.incident == "")
        with store_errors("looking for alerts"):
            async with self._engine.connect() as connection:
                return float(await connection.scalar(query) or 0.0)

    async def failed_messages(self) -> list[tuple[str, str]]:
        """Key and reason of the messages that were given up."""
        query = select(outbox.c.key, outbox.c.reason).where(outbox.c.state == "failed")
        async with self._engine.connect() as connection:
            return [(row.key, row.reason) for row in await connection.execute(query)]

    async def contents(self) -> Contents:
        """Everything."""
        found = Contents(
            *(defaultdict(list), defaultdict(list), [], Counter(), defaultdict(list), defaultdict(list)),
            *(Counter(), []),
        )
        for row in await self._rows(select(alerts.c.fingerprint, alerts.c.incident, alerts.c.status)):
            found.alerts[row.fingerprint].append((row.incident, row.status))
        for row in await self._rows(select(incident_events)):
            found.events[row.by].append(Event(row.incident, row.seq, row.at, row.turn, row.detail))
        found.incidents.extend(row.id for row in await self._rows(select(incidents.c.id)))
        for row in await self._rows(select(digests)):
            found.digests[row.by] += 1
            schedule = Schedule(*msgspec.json.decode(row.schedule))
            if not row.stopped:
                missed = occurrences(schedule, row.since, time.time() - _LATE_S)
                found.missed.extend(f"{row.id} of {one.wall}" for one in missed)
        for row in await self._rows(select(changes.c.record, changes.c.created_at)):
            found.raises[msgspec.json.decode(row.record)["by"]].append(row.created_at)
        for row in await self._rows(select(audit).order_by(audit.c.seq)):
            at = datetime.fromisoformat(row.at).timestamp()
            found.audit[row.actor].append((row.action, row.outcome, at))
        found.runs.update(row.state for row in await self._rows(select(digest_runs.c.state)))
        return found

    async def _rows(self, query: Any) -> list[Any]:
        async with self._engine.connect() as connection:
            return list(await connection.execute(query))


class OldestAlert:
    """How long, in seconds, an alert has waited for its incident at most."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.longest_s = 0.0

    async def run(self) -> None:
        """Looks until it is cancelled."""
        while True:
            await asyncio.sleep(_LOOKS_S)
            with contextlib.suppress(StoreError):  # the bot has not made it yet
                async with store_of(self._url) as reader:
                    await self._look(reader)

    async def _look(self, reader: Reader) -> None:
        while True:
            await asyncio.sleep(_LOOKS_S)
            if oldest := await reader.oldest_alert():
                self.longest_s = max(self.longest_s, time.time() - oldest)


@asynccontextmanager
async def store_of(url: str) -> AsyncGenerator[Reader]:
    """The store that a process of the bot has opened before."""
    async with open_engine(url, 10.0, make=False) as engine:
        yield Reader(engine)
