"""The store: which work was claimed or done, what a thread is about, and all other parts of the bot's database."""

import contextlib
import time
from collections.abc import AsyncGenerator, Callable, Sequence

from sqlalchemy import and_, delete, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from bot.store.alerts import AlertRows
from bot.store.audit import Audit
from bot.store.base import REMEMBERED, Claims, TaskLeases, insert_unless
from bot.store.changes import Approvals, ChangeRows
from bot.store.digests import DigestRows
from bot.store.engine import DatabaseClock, open_engine
from bot.store.facts import Facts, MarkRows
from bot.store.incidents import IncidentRows
from bot.store.outbox_rows import OutboxRows
from bot.store.profiles import ProfileRows
from bot.store.tables import outbox, seen, threads
from bot.store.timeline import PageRows, Timeline

THREADS_KEPT = 90 * 86400.0


class Store(Claims):
    """The bot's memory. Its methods raise only StoreError. `now` gives seconds since 1970; the processes that share the
    store agree on them. `alone`: see `Claims`.
    """

    def __init__(
        self, engine: AsyncEngine, now: Callable[[], float], audit_keys: Sequence[str] = (), *, alone: bool = False
    ) -> None:
        super().__init__(engine, now, alone=alone)
        self.outbox = OutboxRows(engine, now)
        self.audit = Audit(engine, now, audit_keys)
        self.approvals = Approvals(engine, now, self.audit)
        self.profiles = ProfileRows(engine, now)
        self.alerts = AlertRows(engine, now)
        self.incidents = IncidentRows(engine, now, self.audit)
        self.timeline = Timeline(engine, now)
        self.task_leases = TaskLeases(engine, now)
        self.digests = DigestRows(engine, now, self.audit, self._owner)
        self.facts = Facts(engine, now)
        self.pages = PageRows(engine, now)
        self.marks = MarkRows(engine, now)

    async def read_clock(self) -> None:
        """Reads the database's clock again where `now` goes by that. Raises StoreError. To be called now and then."""
        if isinstance(self.now, DatabaseClock):
            await self.now.read()

    def changes(self, cluster: str) -> ChangeRows:
        """The rows of the temporary changes of one cluster."""
        return ChangeRows(self._engine, self.now, self.audit, cluster)

    async def _renew(self, connection: AsyncConnection, now: float) -> None:
        await super()._renew(connection, now)
        await self.digests.hold(connection)

    async def remember_thread(self, channel: str, thread_ts: str, words: str, cluster: str) -> None:
        """Keeps the thread's question, as typed; a later one replaces it. `thread_ts` may be its key in the outbox."""
        # A database takes neither half a surrogate pair nor, if it is PostgreSQL, a NUL.
        storable = words.encode(errors="replace").decode().replace("\0", "")
        values = {"words": storable, "cluster": cluster, "at": self.now()}
        named = {"channel": channel, "thread_ts": thread_ts}
        new = insert_unless(self._engine, threads).values(**named, **values)
        again = new.on_conflict_do_update(index_elements=list(named), set_=values)
        await self._write("remembering a thread", again)

    async def thread(self, channel: str, thread_ts: str) -> tuple[str, str] | None:
        """The question and the cluster that the thread is about, also where its head is an answer from the outbox."""
        here = and_(threads.c.channel == channel, threads.c.thread_ts == thread_ts)
        heads = select(outbox.c.key).where(outbox.c.posted_channel == channel, outbox.c.posted_ts == thread_ts)
        known = select(threads.c.words, threads.c.cluster).where(or_(here, threads.c.thread_ts.in_(heads)))
        row = await self._first("looking up a thread", known.order_by(threads.c.at.desc()))
        return (row.words, row.cluster) if row else None

    async def sweep(self, now: float) -> None:
        """Forgets rows of all parts of the store that are older than each part keeps them; call it now and then."""
        async with self._writing("sweeping the store") as connection:
            over = and_(seen.c.expires_at <= now - REMEMBERED, or_(seen.c.state == "done", seen.c.payload == ""))
            await connection.execute(delete(seen).where(over))
            await connection.execute(delete(threads).where(threads.c.at <= now - THREADS_KEPT))
        await self.outbox.sweep(now)
        await self.profiles.sweep(now)
        await self.incidents.sweep(now)
        await self.digests.sweep(now)
        await self.facts.sweep(now)
        await self.pages.sweep(now)


@contextlib.asynccontextmanager
async def open_store(
    url: str,
    *,
    alone: bool = False,
    now: Callable[[], float] | None = None,
    patience: float = 5.0,
    audit_keys: Sequence[str] = (),
) -> AsyncGenerator[Store]:
    """Opens the store, e.g. `sqlite:////var/lib/hami-bot/state.db`; makes its folder and tables if they do not exist.
    `alone`: no other process has it open; of an SQLite file all that is still claimed is then `unfinished` at once,
    otherwise claims hold until they lapse. `now` gives seconds since 1970; without it, PostgreSQL's clock does, or this
    machine's. The first of `audit_keys` signs the audit log. Raises StoreError if the store cannot be used, or was
    written by a newer version.
    """
    async with open_engine(url, patience) as engine:
        alone = alone and engine.dialect.name == "sqlite"
        shared = DatabaseClock(engine) if engine.dialect.name == "postgresql" else time.time
        store = Store(engine, now or shared, audit_keys, alone=alone)
        if alone:
            await store.end_all_claims()
        await store.read_clock()
        yield store


@contextlib.asynccontextmanager
async def open_beside(url: str, *, audit_keys: Sequence[str] = ()) -> AsyncGenerator[Store]:
    """Opens the store as it is, to read it beside the bot that has it open. Raises StoreError as `open_store` does."""
    async with open_engine(url, 5.0, make=False) as engine:
        yield Store(engine, time.time, audit_keys)
