"""What all parts of the store stand on: rows read and written, leases, and claims of work.

A process owns what it has claimed while it lives, which it shows every `BEAT_S` by renewing all its claims
(`Claims.hold`); one that has not for `HOLDS_S` is dead: anybody may take its work.
"""

import contextlib
import math
import uuid
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Generator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import ColumnElement, Executable, Row, Table, UpdateBase, and_, case, insert, not_, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import IntegrityError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from bot.errors import BotError
from bot.store.tables import duties, seen
from bot.texts import Text

T = TypeVar("T")

_TRIES = 4
BEAT_S = 2.0
"""Seconds between two renewals by which a process shows that it lives."""
HOLDS_S = 8.0
"""Seconds without a renewal after which a process counts as dead, and others take over its claims."""
TRIES = 3
"""How many processes may die while they do only one piece of work, before nobody begins that work again."""
DROPPED = "/dropped"
"""Suffix of a key: the work with it is to tell that the work with the key before the suffix is given up."""
REMEMBERED = 3600.0
"""Seconds during which work that is done counts as a duplicate. Slack repeats an event for about six minutes."""


class StoreError(BotError):
    """The store could not be read or written."""

    exit_code = 3


class NoStoreError(StoreError):
    """The store does not exist yet."""


class TakenError(StoreError):
    """Another process was first to write a row with the same key."""


class OlderStoreError(StoreError):
    """The store was written by an older hami-bot; the next start of the bot upgrades it."""


class OvertakenError(SQLAlchemyError):
    """Rows that a transaction read are no longer the newest: the transaction has to begin again."""


@contextlib.contextmanager
def store_errors(what: str) -> Generator[None]:
    """Raises StoreError for any error of the database in the block; `what` names the block's work in the message."""
    try:
        yield
    except SQLAlchemyError as error:
        reason = getattr(error, "orig", None) or error
        kind = TakenError if isinstance(error, IntegrityError) else StoreError
        raise kind(f"{what}: {reason}", hint=hint_for(str(reason))) from error
    except OSError as error:
        raise StoreError(f"{what}: {error}", hint=Text("error-store.check-database")) from error


_INSERT = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}


def insert_unless(database: AsyncEngine | AsyncConnection, table: Table) -> Any:
    """An insert that can do nothing, or update the row, where the key exists already (`ON CONFLICT`)."""
    return _INSERT[database.dialect.name](table)


def columns(row: Row[Any]) -> dict[str, Any]:
    """The values of a row, by the names of its columns."""
    return row._asdict()  # pyright: ignore[reportPrivateUsage]  # public, in spite of its name


class StoredRows:
    """A part of the store. Its methods raise only StoreError, and nearly all of them are a single transaction."""

    def __init__(self, engine: AsyncEngine, now: Callable[[], float]) -> None:
        self._engine = engine
        self._now = now

    @contextlib.asynccontextmanager
    async def _reading(self, what: str) -> AsyncGenerator[AsyncConnection]:
        with store_errors(what):
            async with self._engine.connect() as connection:
                yield connection

    @contextlib.asynccontextmanager
    async def _writing(self, what: str) -> AsyncGenerator[AsyncConnection]:
        with store_errors(what):
            async with self._engine.begin() as connection:
                yield connection

    async def _read(self, what: str, query: Executable) -> Sequence[Row[Any]]:
        async with self._reading(what) as connection:
            return (await connection.execute(query)).all()

    async def _first(self, what: str, query: Executable) -> Row[Any] | None:
        async with self._reading(what) as connection:
            return (await connection.execute(query)).first()

    async def _scalars(self, what: str, query: Executable) -> Sequence[Any]:
        return [row[0] for row in await self._read(what, query)]

    async def _scalar(self, what: str, query: Executable) -> Any:
        row = await self._first(what, query)
        return row[0] if row else None

    async def _write(self, what: str, statement: UpdateBase) -> int:
        """Executes the statement, and gives how many rows it changed."""
        async with self._writing(what) as connection:
            return (await connection.execute(statement)).rowcount


def begin_to_write(connection: Any) -> None:
    """Begins each transaction of an SQLite database as one that writes: one that reads first and writes later would be
    refused, not kept waiting, if another wrote meanwhile.
    """
    connection.exec_driver_sql("BEGIN IMMEDIATE")


async def transaction(engine: AsyncEngine, what: str, work: Callable[[AsyncConnection], Awaitable[T]]) -> T:
    """The result of `work` in a transaction, tried four times at most against other replicas. Raises StoreError."""
    with store_errors(what):
        for _ in range(_TRIES - 1):
            with contextlib.suppress(IntegrityError, OvertakenError):
                async with engine.begin() as connection:
                    return await work(connection)
        async with engine.begin() as connection:
            return await work(connection)


def hint_for(reason: str) -> Text:
    """What to do about an error of the database, by its words."""
    if "locked" in reason:
        return Text("error-store.another-process-holds-it")
    if "not a database" in reason or "malformed" in reason:
        return Text("error-store.damaged-or-something-else")
    if "full" in reason:
        return Text("error-store.make-room-on-disk")
    return Text("error-store.check-address")


class TaskLeases(StoredRows):
    """The leases of periodic tasks in the store."""

    async def hold(self, name: str, owner: str, seconds: float) -> bool:
        """Takes or renews a task's lease for `seconds`; True if `owner` has it. Nothing relies on a sole owner."""
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


class Unfinished(NamedTuple):
    """Work that no process does now, and how many processes died while they did it."""

    key: str
    payload: str
    deaths: int = 0


_running = seen.c.state == "running"
_nobodys = and_(_running, seen.c.owner == "")


class Claims(StoredRows):
    """The work that this process and others have claimed, each with its payload. `alone`: no other process uses the
    store, so whatever another one has claimed was left by a dead process.
    """

    def __init__(self, engine: AsyncEngine, now: Callable[[], float], *, alone: bool) -> None:
        super().__init__(engine, now)
        self.now = now
        self._owner = uuid.uuid4().hex
        self._held_at = math.inf if alone else -math.inf
        self._judges_from = -math.inf

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
        async with self._writing("showing that this process lives") as connection:
            await self._renew(connection, now)
        if now - self._held_at > HOLDS_S:  # at the start too: nobody could before, perhaps; the others get as long
            self._judges_from = now + HOLDS_S
        self._held_at = now

    async def _renew(self, connection: AsyncConnection, now: float) -> None:
        # Two that lock many rows wait for each other for ever; what is locked is noted as done.
        free = select(seen.c.key).where(self._mine).with_for_update(skip_locked=True)
        await connection.execute(update(seen).where(seen.c.key.in_(free)).values(expires_at=now + HOLDS_S))

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


def _done(now: float) -> dict[str, object]:
    return {"state": "done", "owner": "", "payload": "", "expires_at": now + REMEMBERED}
