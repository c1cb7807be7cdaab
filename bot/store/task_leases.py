"""Which of the processes that share the store does a periodic task."""

from collections.abc import Callable

from sqlalchemy import and_, insert, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from bot.store.engine import transaction
from bot.store.tables import duties


class TaskLeases:
    """Every method is one transaction and raises only StoreError."""

    def __init__(self, engine: AsyncEngine, now: Callable[[], float]) -> None:
        self._engine = engine
        self._now = now

    async def hold(self, name: str, owner: str, seconds: float) -> bool:
        """Whether that owner holds the lease of a task for so long from now.

        It saves work: nothing rests on its being one alone.
        """
        now = self._now()

        async def taken(connection: AsyncConnection) -> bool:
            here = and_(duties.c.name == name, or_(duties.c.owner == owner, duties.c.until <= now))
            renewed = update(duties).where(here).values(owner=owner, until=now + seconds)
            if (await connection.execute(renewed)).rowcount == 1:
                return True
            if await connection.scalar(select(duties.c.name).where(duties.c.name == name)) is not None:
                return False
            await connection.execute(insert(duties).values(name=name, owner=owner, until=now + seconds))
            return True

        return await transaction(self._engine, "taking a lease", taken)
