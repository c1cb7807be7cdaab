"""Alerts that a route of the settings ignores: in no incident, and counted."""

from collections.abc import Sequence

from sqlalchemy import and_, func, select, update
from sqlalchemy.ext.asyncio import AsyncEngine

from bot.store.alert_rows import IGNORED, count_once, name_of, named, parts
from bot.store.engine import store_errors
from bot.store.tables import alerts
from bot.triage.routes import Ignored
from bot.triage.webhook import Alert


class IgnoredRows:
    """Every method is one transaction and raises only StoreError. Rows are locked in the order of their keys."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def add(self, given: Sequence[Alert]) -> None:
        """Ignores these, as far as they are in no incident yet."""
        with store_errors("ignoring alerts"):
            async with self._engine.begin() as connection:
                for some in parts(sorted(given, key=name_of)):
                    for these in named(some):
                        fresh = and_(these, alerts.c.incident == "")
                        ordered = select(alerts.c.number).where(fresh).order_by(alerts.c.fingerprint, alerts.c.number)
                        await connection.execute(ordered.with_for_update())
                        await connection.execute(update(alerts).where(fresh).values(incident=IGNORED))
                        await count_once(connection, these, IGNORED)

    async def reconsider(self) -> None:
        """Those that still fire are to be sorted again: the routes may be others now."""
        firing = and_(alerts.c.incident == IGNORED, alerts.c.status == "firing")
        ordered = select(alerts.c.number).where(firing)
        ordered = ordered.order_by(alerts.c.source, alerts.c.fingerprint, alerts.c.number)
        with store_errors("looking at ignored alerts again"):
            async with self._engine.begin() as connection:
                await connection.execute(ordered.with_for_update())
                await connection.execute(update(alerts).where(firing).values(incident=""))

    async def count(self) -> Ignored:
        """Those that are ignored."""
        query = select(alerts.c.name, alerts.c.status, func.count().label("n")).where(alerts.c.incident == IGNORED)
        with store_errors("counting ignored alerts"):
            async with self._engine.connect() as connection:
                rows = (await connection.execute(query.group_by(alerts.c.name, alerts.c.status))).all()
        firing = [row for row in rows if row.status == "firing"]
        total = sum(row.n for row in rows)
        return Ignored(sum(row.n for row in firing), total, tuple(sorted(row.name for row in firing)))
