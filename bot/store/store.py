"""What was seen, what a thread is about, and the rows of the outbox."""

import contextlib
import time
from collections.abc import AsyncGenerator, Callable, Collection, Mapping
from typing import NamedTuple

from sqlalchemy import and_, delete, insert, not_, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncEngine

from bot.store.alerts import AlertRows
from bot.store.approvals import Approvals
from bot.store.audit import Audit
from bot.store.changes import ChangeRows
from bot.store.clock import DatabaseClock
from bot.store.digests import DigestRows
from bot.store.engine import open_engine, open_engine_as_it_is, store_errors
from bot.store.facts import Facts
from bot.store.firing_periods import SpellRows
from bot.store.ignored import IgnoredRows
from bot.store.incidents import IncidentRows
from bot.store.outbox_rows import OutboxRows
from bot.store.page_rows import PageRows
from bot.store.profiles import ProfileRows
from bot.store.tables import outbox, seen, threads
from bot.store.task_leases import TaskLeases
from bot.store.timeline import Timeline
from bot.store.timestamps import MarkRows

RUNNING = 150.0
"""Seconds that a claim holds without a `done`: more than most work may take, and a dead process never says."""
TRIES = 3
"""Work that ended its process so many times is not begun again."""
DROPPED = "/dropped"
"""Ends the key of the work to tell that what has the key before it is not tried any more."""
REMEMBERED = 3600.0
"""Seconds that something done is a duplicate. Slack repeats an event for about six minutes."""
THREADS_KEPT = 90 * 86400.0
_INSERT = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}


class Claim(NamedTuple):
    """What another process needs to do the work should this one die, and the seconds after which it is held dead."""

    payload: str = ""
    holds_s: float = RUNNING


class Store:
    """The bot's memory. Every method is one transaction and raises only StoreError.

    `now` gives the seconds since 1970 with which its times are compared; the processes that share it agree on them.
    """

    def __init__(self, engine: AsyncEngine, now: Callable[[], float]) -> None:
        self._engine = engine
        self.now = now
        self._insert = _INSERT[engine.dialect.name]
        self.outbox = OutboxRows(engine)
        self.audit = Audit(engine, now)
        self.approvals = Approvals(engine, now)
        self.profiles = ProfileRows(engine)
        self.alerts = AlertRows(engine, now)
        self.incidents = IncidentRows(engine, now)
        self.timeline = Timeline(engine)
        self.task_leases = TaskLeases(engine, now)
        self.spells = SpellRows(engine)
        self.ignored = IgnoredRows(engine)
        self.digests = DigestRows(engine, now)
        self.facts = Facts(engine, now)
        self.pages = PageRows(engine, now)
        self.marks = MarkRows(engine, now, self._insert)

    async def read_clock(self) -> None:
        """Goes by the database's clock as it is now, where it goes by that; call it now and then."""
        if isinstance(self.now, DatabaseClock):
            await self.now.read()

    def changes(self, cluster: str) -> ChangeRows:
        """The rows of the temporary changes of one cluster."""
        return ChangeRows(self._engine, cluster, self.now)

    async def claim(self, key: str, payload: str = "") -> bool:
        """Whether the work on `key` is the caller's: False if it was done, or somebody is at it.

        `payload` is what another process needs to do it, should this one die (`unfinished`).
        """
        return key in await self.claim_all({key: Claim(payload)})

    async def claim_all(self, wanted: Mapping[str, Claim]) -> set[str]:
        """The keys of which the work is the caller's, as by `claim`, in one transaction."""
        now = self.now()
        rows = [
            {"key": key, "state": "running", "expires_at": now + claim.holds_s, "payload": claim.payload, "tries": 1}
            for key, claim in sorted(wanted.items())  # in one order, or two processes wait for each other
        ]
        new = self._insert(seen)
        again = new.on_conflict_do_update(
            index_elements=[seen.c.key],
            set_={"state": "running", "expires_at": new.excluded.expires_at, "tries": seen.c.tries + 1},
            where=and_(seen.c.expires_at <= now, seen.c.tries < TRIES),
        )
        with store_errors("claiming deliveries"):
            async with self._engine.begin() as connection:
                return set((await connection.scalars(again.returning(seen.c.key), rows)).all())

    async def unfinished(self) -> list[tuple[str, str]]:
        """The key and payload of work that was claimed and not done, by nobody who is still at it."""
        lapsed = and_(seen.c.state == "running", seen.c.expires_at <= self.now(), seen.c.tries < TRIES)
        wanted = select(seen.c.key, seen.c.payload).where(lapsed, seen.c.payload != "")
        with store_errors("looking for unfinished work"):
            async with self._engine.connect() as connection:
                return [(row.key, row.payload) for row in await connection.execute(wanted)]

    async def give_up(self) -> None:
        """Work that ended its process `TRIES` times is not begun again: to tell so is `unfinished` work, `DROPPED`."""
        now = self.now()
        spent = and_(seen.c.state == "running", seen.c.expires_at <= now, seen.c.tries >= TRIES)
        is_told = not_(seen.c.key.endswith(DROPPED))
        wanted = select(seen.c.key, seen.c.payload).where(spent, seen.c.payload != "", is_told)
        with store_errors("giving work up"):
            async with self._engine.begin() as connection:
                rows = [
                    {"key": key + DROPPED, "state": "running", "expires_at": now, "payload": payload, "tries": 0}
                    for key, payload in await connection.execute(wanted.with_for_update())
                ]
                if rows:
                    await connection.execute(self._insert(seen).on_conflict_do_nothing(), rows)
                values = {"state": "done", "payload": "", "expires_at": now + REMEMBERED}
                await connection.execute(update(seen).where(spent).values(**values))

    async def done(self, key: str) -> None:
        """The work on `key` need not be done again."""
        await self.done_all([key])

    async def done_all(self, keys: Collection[str]) -> None:
        """The work on these keys need not be done again."""
        with store_errors("noting deliveries as done"):
            async with self._engine.begin() as connection:
                values = {"state": "done", "payload": "", "expires_at": self.now() + REMEMBERED}
                await connection.execute(update(seen).where(seen.c.key.in_(keys)).values(**values))

    async def remember_thread(self, channel: str, thread_ts: str, words: str, cluster: str) -> None:
        """The question (`words`, as typed) that the thread is about; a later one replaces it.

        For an answer that is not posted yet, `thread_ts` is its key in the outbox.
        """
        here = and_(threads.c.channel == channel, threads.c.thread_ts == thread_ts)
        # A database takes neither half a surrogate pair nor, if it is PostgreSQL, a NUL.
        storable = words.encode(errors="replace").decode().replace("\0", "")
        values = {"words": storable, "cluster": cluster, "at": self.now()}
        with store_errors("remembering a thread"):
            with contextlib.suppress(IntegrityError):
                async with self._engine.begin() as connection:
                    if (await connection.execute(update(threads).where(here).values(**values))).rowcount == 0:
                        await connection.execute(insert(threads).values(channel=channel, thread_ts=thread_ts, **values))
                return
            async with self._engine.begin() as connection:  # another process was first
                await connection.execute(update(threads).where(here).values(**values))

    async def thread(self, channel: str, thread_ts: str) -> tuple[str, str] | None:
        """(words, cluster) of the thread's question, also where an answer out of the outbox is the thread's head."""
        here = and_(threads.c.channel == channel, threads.c.thread_ts == thread_ts)
        heads = select(outbox.c.key).where(outbox.c.posted_channel == channel, outbox.c.posted_ts == thread_ts)
        known = select(threads.c.words, threads.c.cluster).where(or_(here, threads.c.thread_ts.in_(heads)))
        with store_errors("looking up a thread"):
            async with self._engine.connect() as connection:
                row = (await connection.execute(known.order_by(threads.c.at.desc()))).first()
        return (row.words, row.cluster) if row else None

    async def sweep(self, now: float) -> None:
        """Forgets what is of no use any more; call it now and then."""
        with store_errors("sweeping the store"):
            async with self._engine.begin() as connection:
                await connection.execute(delete(seen).where(seen.c.expires_at <= now - REMEMBERED))
                await connection.execute(delete(threads).where(threads.c.at <= now - THREADS_KEPT))
        await self.outbox.sweep(now)
        await self.profiles.sweep(now)
        await self.incidents.sweep(now)
        await self.digests.sweep(now)
        await self.facts.sweep(now)
        await self.pages.sweep(now)


@contextlib.asynccontextmanager
async def open_store(
    url: str, *, alone: bool = False, now: Callable[[], float] | None = None, patience: float = 5.0
) -> AsyncGenerator[Store]:
    """Opens the store, e.g. `sqlite:////var/lib/hami-bot/state.db`; makes its folder and tables if there are none.

    `alone`: no other process has it open. In an SQLite file, which one machine has, all that is still claimed was left
    by a process that died, and is `unfinished` at once; otherwise claims hold until they lapse.
    `now` gives seconds since 1970; without it, PostgreSQL's clock does, or this machine's. Raises StoreError if it
    cannot be used, or was written by a newer version.
    """
    async with open_engine(url, patience) as engine:
        if alone and engine.dialect.name == "sqlite":
            with store_errors("looking for unfinished work"):
                async with engine.begin() as connection:
                    died = update(seen).where(seen.c.state == "running").values(expires_at=0.0)
                    await connection.execute(died)
        shared = DatabaseClock(engine) if engine.dialect.name == "postgresql" else time.time
        store = Store(engine, now or shared)
        await store.read_clock()
        yield store


@contextlib.asynccontextmanager
async def open_audit(url: str, *, patience: float = 5.0) -> AsyncGenerator[Audit]:
    """The audit log of a store, for reading beside the bot that has it open. Raises StoreError as `open_store` does."""
    async with open_engine_as_it_is(url, patience) as engine:
        yield Audit(engine, time.time)


@contextlib.asynccontextmanager
async def open_changes(url: str, cluster: str, *, patience: float = 5.0) -> AsyncGenerator[ChangeRows]:
    """A cluster's changes in a store, for reading beside the bot that has it open. Raises StoreError as `open_store`
    does.
    """
    async with open_engine_as_it_is(url, patience) as engine:
        yield ChangeRows(engine, cluster, time.time)


@contextlib.asynccontextmanager
async def open_profiles(url: str, *, patience: float = 5.0) -> AsyncGenerator[ProfileRows]:
    """The kept profiles of a store, for reading beside the bot that has it open. Raises StoreError as `open_store`."""
    async with open_engine_as_it_is(url, patience) as engine:
        yield ProfileRows(engine)


@contextlib.asynccontextmanager
async def open_marks(url: str, *, patience: float = 5.0) -> AsyncGenerator[MarkRows]:
    """The marks of a store, for reading beside the bot that has it open. Raises StoreError as `open_store`."""
    async with open_engine_as_it_is(url, patience) as engine:
        yield MarkRows(engine, time.time, _INSERT[engine.dialect.name])
