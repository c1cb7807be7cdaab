"""Moments to remember by name: when something was last heard, since when something is wrong."""

from collections.abc import Callable
from typing import Any, NamedTuple

from sqlalchemy import delete, select
from sqlalchemy.ext.asyncio import AsyncEngine

from bot.store.engine import store_errors
from bot.store.tables import marks


class Mark(NamedTuple):
    """`at` is in seconds since 1970."""

    name: str
    at: float
    text: str


class MarkRows:
    """Each method is one transaction and raises only StoreError."""

    def __init__(self, engine: AsyncEngine, now: Callable[[], float], insert: Callable[..., Any]) -> None:
        """`insert` is that of the database's dialect."""
        self._engine = engine
        self._insert = insert
        self._now = now

    async def set(self, name: str, text: str = "") -> None:
        """Marks this moment; it replaces an earlier one."""
        values = {"at": self._now(), "text": text}
        new = self._insert(marks).values(name=name, **values)
        with store_errors("noting a moment"):
            async with self._engine.begin() as connection:
                await connection.execute(new.on_conflict_do_update(index_elements=[marks.c.name], set_=values))

    async def all(self, prefix: str) -> list[Mark]:
        """Those whose names begin so, the oldest first."""
        with store_errors("reading moments"):
            async with self._engine.connect() as connection:
                query = select(marks).where(marks.c.name.startswith(prefix, autoescape=True)).order_by(marks.c.at)
                return [Mark(row.name, row.at, row.text) for row in await connection.execute(query)]

    async def drop(self, name: str) -> None:
        """Forgets one."""
        with store_errors("forgetting a moment"):
            async with self._engine.begin() as connection:
                await connection.execute(delete(marks).where(marks.c.name == name))
