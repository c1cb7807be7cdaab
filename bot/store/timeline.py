"""The events of incidents, and the pages for pagers, written in the transaction of whoever changes the incident.

Of one page only the newest state counts: a pager need not ring for what was acknowledged before.
"""

import json
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import and_, delete, exists, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.store.base import StoredRows
from bot.store.tables import incident_events, incidents, pages
from bot.triage.state import Action, News, Page
from bot.triage.summary import IncidentEvent

_TOLD_BY_ITSELF = frozenset({"profile-taken"})
"""Events that need no reply, because they show in the thread anyway."""
_UNTOLD = frozenset({"opened", "unmuted"})
"""Events that the head's edit tells well enough, unless they have a detail or a person."""


async def note(connection: AsyncConnection, incident_id: str, news: Sequence[News], at: float) -> None:
    """Adds events to the incident's timeline, in order. Lock the incident's row before: events are numbered."""
    last = select(func.max(incident_events.c.seq)).where(incident_events.c.incident == incident_id)
    seq = int(await connection.scalar(last) or 0)
    for number, step in enumerate(news, seq + 1):
        values = {"incident": incident_id, "seq": number, "at": at, "turn": step.turn, "by": step.by[:64]}
        told_by_head = step.turn in _UNTOLD and not step.detail and not step.by
        seen = int(told_by_head or step.turn in _TOLD_BY_ITSELF)
        await connection.execute(insert(incident_events).values(**values, detail=json.dumps(step.detail), told=seen))


class Timeline(StoredRows):
    """The events of incidents in the store."""

    async def of(self, incident_id: str) -> list[IncidentEvent]:
        """The events of the incident, in order."""
        query = select(incident_events).where(incident_events.c.incident == incident_id)
        async with self._reading("reading what happened to an incident") as connection:
            found = await connection.execute(query.order_by(incident_events.c.seq))
            return [event_of(row) for row in found]

    async def to_tell(self) -> dict[str, list[IncidentEvent]]:
        """The events that still need a reply in the thread, by incident and in order."""
        query = select(incident_events).where(incident_events.c.told == 0)
        found: defaultdict[str, list[IncidentEvent]] = defaultdict(list)
        for row in await self._read("reading what was not told yet", query.order_by(incident_events.c.seq)):
            found[row.incident].append(event_of(row))
        return found

    async def mark_told(self, incident_id: str, seq: int) -> None:
        """Notes that the reply about the incident's event `seq` was given to the outbox."""
        here = and_(incident_events.c.incident == incident_id, incident_events.c.seq == seq)
        await self._write("noting what was told", update(incident_events).where(here).values(told=1))


def event_of(row: Any) -> IncidentEvent:
    """The event that a row of `incident_events` is."""
    return IncidentEvent(row.at, News(row.turn, row.by, json.loads(row.detail)), row.seq)


KEPT_S = 7 * 86400.0
"""Seconds that a finished page is kept, for looking it up in the database."""


class PageRow(msgspec.Struct, frozen=True):
    """A page that waits to be sent to a pager. Times are seconds since 1970."""

    id: int
    incident: str
    service: str
    key: str
    action: Action
    by: str
    queued_at: float
    tries: int
    next_try_at: float
    told: bool


async def queue(connection: AsyncConnection, incident_id: str, given: Sequence[Page], at: float) -> None:
    """Queues pages for pagers, in the transaction of the event that they are about."""
    for page in given:
        values = {**page._asdict(), "by": page.by[:64], "incident": incident_id, "state": "new", "queued_at": at}
        await connection.execute(insert(pages).values(**values, tries=0, next_try_at=0.0, told=0))


class PageRows(StoredRows):
    """The pages that pagers are to get."""

    async def next(self, service: str) -> PageRow | None:
        """The oldest page that the pager did not get yet, due or not; pages replaced by a newer one are skipped."""
        newer = pages.alias()
        same = and_(newer.c.key == pages.c.key, newer.c.service == pages.c.service, newer.c.id > pages.c.id)
        waiting = and_(pages.c.state == "new", pages.c.service == service)
        async with self._writing("reading what pagers are to be told") as connection:
            query = select(pages).where(waiting, ~exists(select(newer.c.id).where(same))).order_by(pages.c.id)
            row = (await connection.execute(query.limit(1))).first()
            if row is None:
                return None
            older = and_(waiting, pages.c.key == row.key, pages.c.id < row.id)
            await connection.execute(update(pages).where(older).values(state="skipped"))
        return PageRow(**{name: getattr(row, name) for name in PageRow.__struct_fields__})

    async def done(self, page: PageRow) -> None:
        """Notes that the pager took the page."""
        await self._write(
            "noting what a pager was told", update(pages).where(pages.c.id == page.id).values(state="done")
        )

    async def later(self, page: PageRow, at: float, complaint: str = "") -> None:
        """Notes that the page is to be tried again at `at`; the complaint is told in the thread, once."""
        await self._failing(page, {"next_try_at": at, "tries": page.tries + 1}, complaint)

    async def fail(self, page: PageRow, complaint: str) -> None:
        """Gives the page up, and tells the thread why."""
        await self._failing(page, {"state": "failed"}, complaint)

    async def _failing(self, page: PageRow, values: dict[str, object], complaint: str) -> None:
        async with self._writing("noting what a pager was not told") as connection:
            here = incidents.c.id == page.incident
            await connection.execute(select(incidents.c.id).where(here).with_for_update())
            if complaint and not page.told:
                values |= {"told": 1}
                await note(connection, page.incident, (News("unpaged", detail=complaint),), self._now())
            await connection.execute(update(pages).where(pages.c.id == page.id).values(**values))

    async def sweep(self, now: float) -> None:
        """Forgets pages that were queued more than `KEPT_S` before `now` and do not wait."""
        old = and_(pages.c.state != "new", pages.c.queued_at <= now - KEPT_S)
        await self._write("sweeping what pagers were told", delete(pages).where(old))
