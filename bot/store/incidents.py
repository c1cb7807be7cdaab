"""Incidents in the store, and which alerts are sorted into them.

Keys make sure that a thing is there once: an outbreak by its alert and number, an open incident by its cluster and
cause. Rows are locked in one order: alerts by their keys, then incidents, then the audit log.
"""

import hashlib
import uuid
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import and_, delete, func, insert, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.report import SEVERITIES, Severity
from bot.store.alerts import IGNORED, OVER, conditions_of, count_once, name_of, note_needs, parts
from bot.store.audit import AuditedRows, AuditLine
from bot.store.base import transaction
from bot.store.facts import is_known, make_known
from bot.store.tables import alerts, incident_events, incidents, outbox
from bot.store.timeline import event_of, note, queue
from bot.triage.cause import STORM, Cause, severest
from bot.triage.state import Incident, News, Step, join_alert, new_incident, pages
from bot.triage.summary import GpuRequest, IncidentEvent
from bot.triage.webhook import Alert

Decide = Callable[[Incident, bool], Step | str]
Noted = Callable[[Step | str], AuditLine]

KEPT_S = 90 * 86400.0
"""Seconds that an ended incident can be looked up and exported."""
BEFORE = "before"
"""The result of a deed that was carried out before, and is not repeated."""
_SEEN = tuple(alerts.c[name] for name in ("received_at", "status", "name", "namespace", "pod", "node"))

MINUTE_S = 60.0


class ThreadLimit(NamedTuple):
    """A channel opens at most `most` threads a minute; alerts of further causes join the incident of `gathered`."""

    most: int
    gathered: Cause


async def is_crowded(
    connection: AsyncConnection, channel: str, severity: Severity, limit: ThreadLimit, now: float
) -> bool:
    """Whether the channel opened `limit.most` threads in the last minute, counting only those at least as severe."""
    recent = and_(incidents.c.channel == channel, incidents.c.created_at > now - MINUTE_S)
    texts = (await connection.scalars(select(incidents.c.cause).where(recent))).all()
    causes = [msgspec.json.decode(text, type=Cause) for text in texts]
    least = SEVERITIES.index(severity)
    opened = [cause for cause in causes if cause.code != STORM and SEVERITIES.index(cause.severity) >= least]
    return len(opened) >= limit.most


class IncidentRow(msgspec.Struct, frozen=True):
    """One incident in the store, with what is known of its thread in Slack."""

    id: str
    cluster: str
    cause: Cause
    incident: Incident
    channel: str
    thread_ts: str
    proven: bool
    shown: str
    shown_at: float
    created_at: float


class IncidentRows(AuditedRows):
    """The incidents in the store. Each method raises only StoreError."""

    async def sort(  # what an incident is made of
        self,
        cluster: str,
        cause: Cause,
        given: Sequence[Alert],
        channel: str,
        *,
        limit: ThreadLimit | None = None,
        out_of: str = "",
        needs: Mapping[tuple[str, str], GpuRequest] | None = None,
    ) -> str:
        """Puts the alerts into the cluster's open incident with that cause, or into a new one, or beyond `limit` into
        that of `limit.gathered`. Gives its id, empty where another replica has sorted all the alerts already. With
        `out_of`, the id of an incident, they are taken out of that one. `needs` is how many GPUs their pods ask for, by
        namespace and name.
        """
        in_order, severity = sorted(given, key=name_of), severest(cause.severity, [alert.severity for alert in given])

        async def sorted_in(connection: AsyncConnection) -> str:
            unsorted = [and_(these, alerts.c.incident == out_of) for these in conditions_of(in_order)]
            left: list[Any] = []
            for these in unsorted:
                locked = select(*_SEEN).where(these).order_by(alerts.c.fingerprint, alerts.c.number)
                left += (await connection.execute(locked.with_for_update())).all()
            if not left:
                return ""
            about = msgspec.structs.replace(cause, severity=severity)
            found = await connection.scalar(_open_one(_key(cluster, about)))
            if found is None and limit and await is_crowded(connection, channel, severity, limit, self._now()):
                about = limit.gathered
                found = await connection.scalar(_open_one(_key(cluster, about)))
            if found is None:
                found = await self._begin(connection, cluster, about, channel)
            elif fresh := [row for row in left if row.status == "firing"]:
                newest = max(fresh, key=lambda row: row.received_at)
                subject = f"{newest.namespace}/{newest.pod}" if newest.pod else newest.node
                at, alert = newest.received_at, f"{newest.name} {subject}".strip()
                await self._change(connection, found, lambda incident, _: join_alert(incident, at, alert))
            await note_needs(connection, in_order, out_of, needs or {})
            for these in unsorted:
                await connection.execute(update(alerts).where(these).values(incident=found))
            for these in conditions_of(in_order):
                await count_once(connection, these, found)
            return found

        return await transaction(self._engine, "sorting alerts", sorted_in)

    async def _begin(self, connection: AsyncConnection, cluster: str, cause: Cause, channel: str) -> str:
        now, found = self._now(), uuid.uuid4().hex[:8]
        machine = msgspec.json.encode(new_incident(now)).decode()
        values = {"id": found, "open_key": _key(cluster, cause), "cluster": cluster, "machine": machine}
        values |= {"cause": msgspec.json.encode(cause).decode(), "channel": channel, "created_at": now}
        values |= {"ended_at": 0.0, "thread_ts": "", "proven": 0, "shown": "", "shown_at": 0.0}
        await connection.execute(insert(incidents).values(**values))
        await note(connection, found, (News("opened"),), now)
        return found

    async def opened(self) -> list[IncidentRow]:
        """The incidents that have not ended, or of which an event is still to be told, the oldest first."""
        untold = select(incident_events.c.incident).where(incident_events.c.told == 0)
        here = or_(incidents.c.ended_at == 0.0, incidents.c.id.in_(untold))
        query = select(incidents).where(here).order_by(incidents.c.created_at, incidents.c.id)
        return [_row(row) for row in await self._read("reading the open incidents", query)]

    async def open_signatures(self, cluster: str, causes: Sequence[Cause]) -> set[str]:
        """The signatures of `causes` for which an incident is open in the cluster."""
        keys = {_key(cluster, cause): cause.signature for cause in causes}
        found: list[str | None] = []
        for some in parts(list(keys)):
            query = select(incidents.c.open_key).where(incidents.c.open_key.in_(some))
            found += await self._scalars("looking for open incidents", query)
        return {keys[key] for key in found if key}

    async def get(self, incident_id: str) -> IncidentRow | None:
        """The incident with this id, ended or not; None without one."""
        return await self._one(incidents.c.id == incident_id)

    async def of_thread(self, channel: str, thread_ts: str) -> IncidentRow | None:
        """The incident that has this thread, also where its head was posted only just now; None for no such thread."""
        posted = and_(outbox.c.posted_channel == channel, outbox.c.posted_ts == thread_ts)
        heads = select(func.substr(outbox.c.key, len(HEAD) + 1)).where(posted, outbox.c.key.startswith(HEAD))
        here = and_(incidents.c.channel == channel, incidents.c.thread_ts == thread_ts)
        return await self._one(or_(here, incidents.c.id.in_(heads)))

    async def _one(self, where: Any) -> IncidentRow | None:
        found = await self._first("looking up an incident", select(incidents).where(where))
        return _row(found) if found else None

    async def change(
        self, incident_id: str, decide: Decide, noted: Noted | None = None, once: str = "", *, knows: str = ""
    ) -> Step | str | None:
        """Changes an incident by the pure function `decide`, which gets the incident and whether any of its alerts
        fires, and keeps the events of its result. Gives that result, None without such an incident. The audit line that
        `noted` makes of it is written in the same transaction. `once` is the key of a deed: one that changed something
        before changes nothing more, and gives `BEFORE`. All pagers but `knows` are queued to be told.
        """
        async with self._audit.transaction("changing an incident") as (connection, write):
            if await is_known(connection, once):
                return BEFORE
            step = await self._change(connection, incident_id, decide, knows)
            if isinstance(step, Step):
                await make_known(connection, once, self._now())
            if step is not None and noted is not None:
                await write(noted(step))
            return step

    async def note_in_thread(self, channel: str, thread_ts: str, news: News, once: str) -> None:
        """Notes the event in the incident that has this thread, if one has; once for each key of a deed."""
        row = await self.of_thread(channel, thread_ts) if thread_ts else None
        if row is not None:
            await self.change(row.id, lambda incident, _: Step(incident, (news,)), once=once)

    async def _change(
        self, connection: AsyncConnection, incident_id: str, decide: Decide, knows: str = ""
    ) -> Step | str | None:
        here = incidents.c.id == incident_id
        text = await connection.scalar(select(incidents.c.machine).where(here).with_for_update())
        if text is None:
            return None
        before = msgspec.json.decode(text, type=Incident)
        fires = and_(alerts.c.incident == incident_id, alerts.c.status == "firing")
        firing = await connection.scalar(select(func.count()).select_from(alerts).where(fires))
        step = decide(before, bool(firing))
        if isinstance(step, str):
            return step
        if step.incident != before:
            values: dict[str, Any] = {"machine": msgspec.json.encode(step.incident).decode()}
            values |= {"ended_at": self._now(), "open_key": None} if step.incident.ended else {}
            await connection.execute(update(incidents).where(here).values(**values))
        await note(connection, incident_id, step.news, self._now())
        await queue(connection, incident_id, pages(incident_id, before, step, knows), self._now())
        return step

    async def mark_shown(self, incident_id: str, shown: str) -> None:
        """Notes what the incident's head was last given to say (`shown` is its digest), and when."""
        await self._set(incident_id, {"shown": shown, "shown_at": self._now()})

    async def has_evidence(self, row: IncidentRow) -> bool:
        """Whether the outbox has the incident's evidence, which it forgets a week after posting it."""
        here = and_(outbox.c.channel == row.channel, outbox.c.key == evidence_key(row.id))
        return await self._scalar("looking for an incident's evidence", select(outbox.c.id).where(here)) is not None

    async def mark_cause(self, incident_id: str, cause: Cause) -> None:
        """Notes the incident's cause with the step that its evidence shows, before the evidence is in the outbox."""
        await self._set(incident_id, {"cause": msgspec.json.encode(cause).decode()})

    async def mark_proven(self, incident_id: str) -> None:
        """Notes that the incident's evidence was given to the outbox."""
        await self._set(incident_id, {"proven": 1})

    async def find_threads(self) -> None:
        """Notes in the incidents where their heads were posted, which the outbox forgets after a week."""
        async with self._writing("looking for the threads of incidents") as connection:
            waiting = select(incidents.c.id, incidents.c.channel).where(incidents.c.thread_ts == "")
            for row in (await connection.execute(waiting)).all():
                head = and_(outbox.c.channel == row.channel, outbox.c.key == head_key(row.id))
                if posted := await connection.scalar(select(outbox.c.posted_ts).where(head)):
                    here = incidents.c.id == row.id
                    await connection.execute(update(incidents).where(here).values(thread_ts=posted))

    async def _set(self, incident_id: str, values: dict[str, Any]) -> None:
        await self._write(
            "noting how far an incident has come",
            update(incidents).where(incidents.c.id == incident_id).values(**values),
        )

    async def lately(self, since: float) -> list[tuple[IncidentRow, list[IncidentEvent]]]:
        """The incidents that had not ended before `since` (unix seconds), the oldest first, with their events."""
        here = or_(incidents.c.ended_at == 0.0, incidents.c.ended_at > since)
        ours = select(incidents.c.id).where(here)
        query = select(incident_events).where(incident_events.c.incident.in_(ours)).order_by(incident_events.c.seq)
        happened: defaultdict[str, list[IncidentEvent]] = defaultdict(list)
        async with self._reading("reading the incidents of a period") as connection:
            ordered = select(incidents).where(here).order_by(incidents.c.created_at, incidents.c.id)
            found = [_row(row) for row in (await connection.execute(ordered))]
            for row in await connection.execute(query):
                happened[row.incident].append(event_of(row))
        return [(row, happened[row.id]) for row in found]

    async def sweep(self, now: float) -> None:
        """Forgets incidents that ended more than `KEPT_S` ago with their alerts, and such old alerts of no incident."""
        old = and_(incidents.c.ended_at > 0.0, incidents.c.ended_at <= now - KEPT_S)
        async with self._writing("sweeping incidents") as connection:
            gone = select(incidents.c.id).where(old)
            await connection.execute(delete(incident_events).where(incident_events.c.incident.in_(gone)))
            unneeded = and_(alerts.c.incident.in_((OVER, IGNORED)), alerts.c.changed_at <= now - KEPT_S)
            await connection.execute(delete(alerts).where(or_(alerts.c.incident.in_(gone), unneeded)))
            await connection.execute(delete(incidents).where(old))


HEAD = "triage:"


def head_key(incident_id: str) -> str:
    """The key of the incident's head message in the outbox."""
    return f"{HEAD}{incident_id}"


def evidence_key(incident_id: str) -> str:
    """The key of the incident's evidence message in the outbox."""
    return f"{head_key(incident_id)}:why"


def _key(cluster: str, cause: Cause) -> str:
    return hashlib.sha256(f"{cluster}\0{cause.signature}".encode()).hexdigest()


def _open_one(open_key: str) -> Any:
    """Selects and locks the open incident, or it could end before its alerts are in it."""
    return select(incidents.c.id).where(incidents.c.open_key == open_key).with_for_update()


def _row(row: Any) -> IncidentRow:
    known: dict[str, Any] = {name: getattr(row, name) for name in IncidentRow.__struct_fields__ if name != "incident"}
    known["cause"] = msgspec.json.decode(row.cause, type=Cause)
    known["incident"] = msgspec.json.decode(row.machine, type=Incident)
    return IncidentRow(**known)
