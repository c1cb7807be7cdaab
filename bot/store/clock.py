"""The time of day that all processes of one store share: claims and leases are compared with it.

What a process has claimed is its own as long as it lives, which it shows every `BEAT_S` by renewing all its claims.
"""

import time

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from bot.store.engine import store_errors

BEAT_S = 2.0
"""Seconds between two signs of life."""
HOLDS_S = 8.0
"""Seconds without a sign of life after which a process is held dead, and others take over what it had claimed."""
_NOW = text("SELECT CAST(extract(epoch FROM clock_timestamp()) AS double precision)")


class DatabaseClock:
    """Gives seconds since 1970 by PostgreSQL's clock as it was at the last `read`: this machine's may be hours off."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._ahead_s = 0.0  # of the monotonic clock, which nobody sets

    def __call__(self) -> float:
        return time.monotonic() + self._ahead_s

    async def read(self) -> None:
        """Raises StoreError."""
        with store_errors("reading the database's clock"):
            async with self._engine.connect() as connection:
                asked = time.monotonic()
                at = (await connection.execute(_NOW)).scalar_one()
        self._ahead_s = at - (asked + time.monotonic()) / 2
