"""The store: which work was claimed or done, what a thread is about, and all other parts of the bot's database.

A process renews all its claims (`Store.hold`); one that has not for `HOLDS_S` is dead: anybody may take its work.
"""

import contextlib
import math
import time
import uuid
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import ColumnElement, and_, case, delete, not_, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from bot.store.alerts import AlertRows
from bot.store.audit import Audit
from bot.store.changes import Approvals, ChangeRows
from bot.store.digests import DigestRows
from bot.store.engine import HOLDS_S, DatabaseClock, StoredRows, TaskLeases, insert_unless, open_engine
from bot.store.facts import Facts, MarkRows
from bot.store.incidents import IncidentRows
from bot.store.outbox_rows import OutboxRows
from bot.store.profiles import ProfileRows
from bot.store.tables import outbox, seen, threads
from bot.store.timeline import PageRows, Timeline

TRIES = 3
"""How many processes may die while they do only one piece of work, before nobody begins that work again."""
DROPPED = "/dropped"
"""Suffix of a key: the work with it is to tell that the work with the key before the suffix is given up."""
REMEMBERED = 3600.0
"""Seconds during which work that is done counts as a duplicate. Slack repeats an event for about six minutes."""
THREADS_KEPT = 90 * 86400.0


class Unfinished(NamedTuple):
    """Work that no process does now, and how many processes died while they did it."""

    key: str
    payload: str
    deaths: int = 0


class Store(StoredRows):
    """The bot's memory. Its methods raise only StoreError. `now` gives seconds since 1970; the processes that share the
    store agree on them. `alone`: no other process uses it, so whatever another one has claimed was left by a dead
    process.
    """

    def __init__(
        self, engine: AsyncEngine, now: Callable[[], float], audit_keys: Sequence[str] = (), *, alone: bool = False
    ) -> None:
        super().__init__(engine, now)
        self.now = now
        self._owner = uuid.uuid4().hex
        self._held_at = math.inf if alone else -math.inf
        self._judges_from = -math.inf
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

    async def claim(self, key: str, payload: str = "") -> bool:
        """Claims the work on `key`, which `payload` describes (see `unfinished`); False if it is done or claimed."""
        return key in await self.claim_all({key: payload})

    async def claim_all(self, wanted: Mapping[str, str]) -> set[str]:
        """Claims work as `claim` does, given as keys with payloads, in one transaction; gives the claimed keys."""
        now = self.now()
        rows = [
            {"key": key, "payload": payload, "deaths": 0, "tries": 0, **self._held(now)}
            for key, payload in sorted(wanted.items())  # in one order, or two processes wait for each other
        ]
        free = or_(_nobodys, and_(seen.c.state == "done", seen.c.expires_at <= now))
        again = insert_unless(self._engine, seen).on_conflict_do_update(
            index_elements=[seen.c.key], set_=self._held(now), where=free
        )
        async with self._writing("claiming deliveries") as connection:
            return set((await connection.scalars(again.returning(seen.c.key), rows)).all())

    def _held(self, now: float) -> dict[str, object]:
        return {"state": "running", "owner": self._owner, "expires_at": now + HOLDS_S}

    async def hold(self) -> None:
        """Renews all claims of this process, which shows that it lives. To be called every `BEAT_S`."""
        now = self.now()
        # Two that lock many rows wait for each other for ever; what is locked is noted as done.
        free = select(seen.c.key).where(self._mine).with_for_update(skip_locked=True)
        renewed = update(seen).where(seen.c.key.in_(free)).values(expires_at=now + HOLDS_S)
        async with self._writing("showing that this process lives") as connection:
            await connection.execute(renewed)
            await self.digests.hold(connection)
        if now - self._held_at > HOLDS_S:  # at the start too: nobody could before, perhaps; the others get as long
            self._judges_from = now + HOLDS_S
        self._held_at = now

    async def held_keys(self) -> set[str]:
        """The keys of this process's claims with a payload; without one no other process could do the work."""
        found = select(seen.c.key).where(self._mine, seen.c.payload != "")
        return set(await self._scalars("looking for unfinished work", found))

    async def end_all_claims(self) -> None:
        """Ends all claims: whatever is claimed was left by processes that died."""
        died = update(seen).where(_running).values(expires_at=0.0)
        await self._write("looking for unfinished work", died)

    async def let_go(self, keys: Collection[str]) -> None:
        """Gives up this process's claims of these keys, so that any process may do the work; no death is counted."""
        await self._write(
            "leaving work to others", update(seen).where(self._mine, seen.c.key.in_(keys)).values(owner="")
        )

    @property
    def _mine(self) -> ColumnElement[bool]:
        return and_(_running, seen.c.owner == self._owner)

    async def unfinished(self) -> list[Unfinished]:
        """Work that no process does, fewest deaths first; work given up appears as work to tell so (`DROPPED`)."""
        await self.hold()
        wanted = select(seen.c.key, seen.c.payload, seen.c.deaths).where(_nobodys, seen.c.payload != "")
        in_order = wanted.order_by(seen.c.deaths, seen.c.key)
        async with self._writing("looking for unfinished work") as connection:
            if self.now() >= self._judges_from:
                await self._take_from_the_dead(connection)
            await self._give_up(connection)
            return [Unfinished(*row) for row in await connection.execute(in_order)]

    async def unfinished_payloads(self) -> list[str]:
        """The payloads of all work that is not finished, whichever process does it."""
        found = select(seen.c.payload).where(_running, seen.c.payload != "")
        return list(await self._scalars("looking for work that is under way", found))

    async def _take_from_the_dead(self, connection: AsyncConnection) -> None:
        """Frees the work of dead processes; only work that a process did alone counts a try: it may be to blame."""
        living = select(seen.c.owner).where(_running, seen.c.expires_at > self.now())
        dead = and_(_running, seen.c.owner.not_in(("", self._owner)), seen.c.owner.not_in(living))
        found = select(seen.c.key, seen.c.owner).where(dead).order_by(seen.c.key).with_for_update()
        left = (await connection.execute(found)).all()
        together = Counter(row.owner for row in left)
        alone = [row.key for row in left if together[row.owner] == 1]
        tries = case((seen.c.key.in_(alone), seen.c.tries + 1), else_=seen.c.tries)
        these = seen.c.key.in_([row.key for row in left])
        if left:
            await connection.execute(update(seen).where(these).values(owner="", deaths=seen.c.deaths + 1, tries=tries))

    async def _give_up(self, connection: AsyncConnection) -> None:
        spent = and_(_nobodys, seen.c.payload != "", seen.c.tries >= TRIES, not_(seen.c.key.endswith(DROPPED)))
        wanted = select(seen.c.key, seen.c.payload).where(spent).with_for_update()
        now = self.now()
        fresh = {"state": "running", "owner": "", "expires_at": now, "deaths": 0, "tries": 0}
        if given_up := (await connection.execute(wanted)).all():
            notices = [{"key": row.key + DROPPED, "payload": row.payload, **fresh} for row in given_up]
            await connection.execute(insert_unless(self._engine, seen).on_conflict_do_nothing(), notices)
            these = seen.c.key.in_([row.key for row in given_up])
            await connection.execute(update(seen).where(these).values(**_done(now)))

    async def done(self, key: str) -> None:
        """Notes that the work on `key` need not be done again."""
        await self.done_all([key])

    async def done_all(self, keys: Collection[str]) -> None:
        """Notes that the work on these keys need not be done again."""
        await self._write(
            "noting deliveries as done", update(seen).where(seen.c.key.in_(keys)).values(**_done(self.now()))
        )

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


_running = seen.c.state == "running"
_nobodys = and_(_running, seen.c.owner == "")


def _done(now: float) -> dict[str, object]:
    return {"state": "done", "owner": "", "payload": "", "expires_at": now + REMEMBERED}


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
