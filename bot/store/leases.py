"""What processes that share a store tell each other apart by: one clock, leases of periodic tasks, and a sender's name.

What a process has claimed is its own as long as it lives, which it shows every `BEAT_S` by renewing all its claims.
"""

import contextlib
import hashlib
import logging
import socket
import time
import uuid
from collections.abc import Generator
from typing import NamedTuple

from sqlalchemy import and_, insert, or_, select, text, update
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from bot.store.engine import Rows, transaction
from bot.store.tables import duties

BEAT_S = 2.0
"""Seconds between two signs of life."""
HOLDS_S = 8.0
"""Seconds without a sign of life after which a process is held dead, and others take over what it had claimed."""
_NOW = text("SELECT CAST(extract(epoch FROM clock_timestamp()) AS double precision)")


class DatabaseClock(Rows):
    """Gives seconds since 1970 by PostgreSQL's clock as it was at the last `read`: this machine's may be hours off."""

    def __init__(self, engine: AsyncEngine) -> None:
        super().__init__(engine, self)
        self._ahead_s = 0.0  # of the monotonic clock, which nobody sets

    def __call__(self) -> float:
        return time.monotonic() + self._ahead_s

    async def read(self) -> None:
        """Raises StoreError."""
        asked = time.monotonic()
        at = await self._scalar("reading the database's clock", _NOW)
        self._ahead_s = at - (asked + time.monotonic()) / 2


class TaskLeases(Rows):
    """Every method is one transaction and raises only StoreError."""

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


_LONGEST_NAME = 64  # of the outbox's owner

log = logging.getLogger(__name__)


class Sender(NamedTuple):
    """`name` stands in the outbox; `alone`: no other process here uses the store."""

    name: str
    alone: bool


@contextlib.contextmanager
def sender(store_url: str) -> Generator[Sender]:
    """What this process calls itself in the outbox, and whether it is the only one here that uses the store.

    Alone it has this machine's name, so that after a crash its successor here goes on at once with what was being done,
    and not when the lease has lapsed.

    That is right only while nobody else bears the name: two living senders would take a message out of each other's
    hands and post it twice. Pods are named apart, but two processes of one machine are not, as when the new one starts
    while the old one drains. So whoever bears the name holds a lock, which the kernel frees when a process ends,
    however it ends; who finds it held, or cannot lock here, gets a name of its own and waits for leases like any other
    replica. The lock is an abstract socket, which needs no file: hosts that share a name share their network as well,
    or are separate pods with names of their own.
    """
    name = socket.gethostname()[:_LONGEST_NAME]
    digest = hashlib.sha256(f"{name} {store_url}".encode()).hexdigest()
    with socket.socket(socket.AF_UNIX) as lock:
        try:
            lock.bind(f"\0hami-bot-{digest}")
        except OSError as error:
            log.info("another process sends as %s (%s): this one waits for leases", name, error.strerror)
            yield Sender(uuid.uuid4().hex, alone=False)
            return
        yield Sender(name, alone=True)
