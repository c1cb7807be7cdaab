"""Alerts from when they are taken until they are over. Those that were taken are sorted into incidents later."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Sequence
from typing import Any

from sqlalchemy import and_, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncEngine

from bot.store.alert_rows import Counts, alert_of, counted, keep, name_of, parts
from bot.store.engine import store_errors, transaction
from bot.store.tables import alerts, incidents
from bot.store.timeline import note
from bot.triage.outbreak import last_moment
from bot.triage.state import News, Turn
from bot.triage.webhook import Alert


class AlertRows:
    """Every method is one transaction (`take`: one for each few hundred alerts) and raises only StoreError."""

    def __init__(self, engine: AsyncEngine, now: Callable[[], float]) -> None:
        self._engine = engine
        self._now = now

    async def take(self, given: Sequence[Alert]) -> int:
        """Keeps the alerts; how often one began or ended by them. Sent again, or out of order, none does."""
        news = 0
        in_order = sorted(given, key=lambda alert: (name_of(alert), last_moment(alert), alert.status == "resolved"))
        for some in parts(in_order):
            news += await transaction(
                self._engine, "keeping alerts", lambda connection, some=some: keep(connection, some, self._now())
            )
        return news

    async def silence(self, source: str, before: float) -> None:
        """What fires by that source and was not heard of since then fires no more; its incidents tell so."""
        await self._silence(and_(alerts.c.source == source, alerts.c.heard_at <= before), "unheard")

    async def unwatch(self, source: str, watched: Collection[str]) -> None:
        """What fires by that source in other clusters than these fires no more; its incidents tell so."""
        await self._silence(and_(alerts.c.source == source, alerts.c.cluster.not_in(watched)), "unwatched")

    async def _silence(self, which: Any, turn: Turn) -> None:
        quiet = and_(which, alerts.c.status == "firing")
        ordered = select(alerts.c.incident).where(quiet).order_by(alerts.c.fingerprint, alerts.c.number)
        with store_errors("ending alerts that nobody repeats"):
            async with self._engine.begin() as connection:
                counted = Counter((await connection.scalars(ordered.with_for_update())).all())
                if not counted:
                    return
                values = {"status": "silent", "changed_at": self._now()}
                await connection.execute(update(alerts).where(quiet).values(**values))
                here = select(incidents.c.id).where(incidents.c.id.in_(counted)).order_by(incidents.c.id)
                for found in (await connection.scalars(here.with_for_update())).all():
                    await note(connection, found, (News(turn, detail=str(counted[found])),), self._now())

    async def unsorted_labels(self) -> set[str]:
        """The clusters' names, as alerts have them, of which there are alerts whose cause was not looked for yet."""
        query = select(alerts.c.cluster).where(alerts.c.incident == "").distinct()
        with store_errors("looking for new alerts"):
            async with self._engine.connect() as connection:
                return set((await connection.scalars(query)).all())

    async def unsorted(self, most: int, label: str = "", but: Collection[str] | None = None) -> list[Alert]:
        """The oldest alerts whose cause was not looked for yet: with that name of a cluster, or one that `but` lacks.

        Without `but` only those of that name; an empty one lacks every name.
        """
        named_so = alerts.c.cluster == label
        here = named_so if but is None else or_(named_so, alerts.c.cluster.not_in(but))
        query = select(alerts).where(alerts.c.incident == "", here).order_by(alerts.c.received_at).limit(most)
        with store_errors("reading new alerts"):
            async with self._engine.connect() as connection:
                return [alert_of(row) for row in (await connection.execute(query)).mappings()]

    async def firing_of(self, source: str, cluster: str) -> list[Alert]:
        """What fires now by that source in that cluster."""
        here = and_(alerts.c.source == source, alerts.c.cluster == cluster, alerts.c.status == "firing")
        with store_errors("reading alerts"):
            async with self._engine.connect() as connection:
                return [alert_of(row) for row in (await connection.execute(select(alerts).where(here))).mappings()]

    async def firing_in(self, incident_id: str, name: str) -> list[Alert]:
        """The alerts of that name that fire and are sorted into the incident."""
        here = and_(alerts.c.incident == incident_id, alerts.c.name == name, alerts.c.status == "firing")
        with store_errors("reading the alerts of an incident"):
            async with self._engine.connect() as connection:
                return [alert_of(row) for row in (await connection.execute(select(alerts).where(here))).mappings()]

    async def counts(self, incident_ids: Collection[str]) -> dict[str, Counts]:
        """How many alerts and pods these incidents have."""
        here = alerts.c.incident.in_(incident_ids)
        said = [
            alerts.c[name]
            for name in ("incident", "status", "name", "namespace", "pod", "node", "severity", "runbook", "cut")
        ]
        grouped = select(*said, func.count().label("n")).where(here).group_by(*said)
        with store_errors("counting alerts"):
            async with self._engine.connect() as connection:
                found = (await connection.execute(grouped)).all()
        by_incident: defaultdict[str, list[Any]] = defaultdict(list)
        for row in found:
            by_incident[row.incident].append(row)
        return {incident: counted(rows) for incident, rows in by_incident.items()}
