"""Stores that nothing is in: copies, because making the tables takes longer than most of what a test does with them."""

import asyncio
import uuid
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import asyncpg
from sqlalchemy import make_url, text
from sqlalchemy.ext.asyncio import AsyncEngine

from bot.store import open_store
from bot.store.migrations import NEWEST
from bot.store.outbox_rows import OutboxRows, QueuedMessage, StoredFile
from bot.store.tables import metadata

NewDatabase = Callable[[], str]

_BLOCKED = text("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'")


_OTHERS_END = (
    "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
)
T = TypeVar("T")


async def blocked(engine: AsyncEngine, work: "asyncio.Future[object]") -> None:
    """Until it waits in PostgreSQL for a lock that somebody else has. SQLite has it wait before it reads anything."""
    if engine.dialect.name == "sqlite":
        return
    async with asyncio.timeout(60), engine.connect() as looking:
        while not await looking.scalar(_BLOCKED):
            assert not work.done()
            await looking.rollback()


def new_store(path: Path) -> str:
    """The address of a store in that SQLite file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(_sqlite())
    return f"sqlite:///{path}"


@cache
def _sqlite() -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "store.db"
        _apart(_make_tables, f"sqlite:///{path}")
        return path.read_bytes()


class PostgreSQL:
    """A server on which databases may be made; `address` is of one that is there."""

    def __init__(self, address: str) -> None:
        self._address = address

    @contextmanager
    def databases(self, template: str = "template0") -> Iterator[NewDatabase]:
        """Gives the address of another database at every call; at the end they are dropped."""
        made: list[str] = []

        def make() -> str:
            made.append(f"test_{uuid.uuid4().hex}")
            self._execute(f"CREATE DATABASE {made[-1]} TEMPLATE {template}")
            return make_url(self._address).set(database=made[-1]).render_as_string(hide_password=False)

        try:
            yield make
        finally:
            for name in made:
                self._execute(f"DROP DATABASE {name} WITH (FORCE)")

    @contextmanager
    def stores(self) -> Iterator[Callable[[], AbstractContextManager[NewDatabase]]]:
        """Lends databases with the store's tables. One that was given back is emptied before it is lent again: making
        one takes fifty times as long.
        """
        with self.databases() as make:
            template = make()
            _apart(_make_tables, template)
            with self.databases(str(make_url(template).database)) as make_store:
                free: list[str] = []

                @contextmanager
                def lend() -> Iterator[NewDatabase]:
                    lent: list[str] = []

                    def take() -> str:
                        while free:
                            if _apart(_emptied, address := free.pop()):
                                break
                        else:
                            address = make_store()
                        lent.append(address)
                        return address

                    try:
                        yield take
                    finally:
                        free.extend(lent)

                yield lend

    def _execute(self, statement: str) -> None:
        _apart(_execute, self._address, statement)


def _apart(work: Callable[..., Coroutine[Any, Any, T]], *given: str) -> T:
    """In a thread of its own: whoever asks may be in an event loop."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(work(*given))).result()


async def _make_tables(address: str) -> None:
    async with open_store(address):
        pass


async def _execute(address: str, statement: str) -> None:
    connection = await asyncpg.connect(address)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


async def _emptied(address: str) -> bool:
    """Whether nobody uses it any more and it is as it was made: false where a test changed its tables."""
    connection = await asyncpg.connect(address)
    try:
        await connection.execute(_OTHERS_END)
        tables = await connection.fetchval("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'")
        if tables != len(metadata.tables) + 1:
            return False
        await connection.execute(";".join(f"DELETE FROM {table.name}" for table in reversed(metadata.sorted_tables)))
        return await connection.fetchval("SELECT version_num FROM alembic_version") == NEWEST
    finally:
        await connection.close()


async def queued(rows: OutboxRows, key: str, now: float, *files: StoredFile, text: str = "") -> None:
    """A message waits for the channel C1."""
    content = {"text": text, "blocks": []}
    await rows.put("C1", key, content, files, thread_ts="", severity=0, update_ts="", now=now)


async def shown(rows: OutboxRows, now: float, row: QueuedMessage | None = None) -> QueuedMessage:
    """The row, or else the next of the channel: Slack has shown its content, and nothing more is noted yet."""
    row = row or await rows.claim("C1", "me", now, 120)
    assert row
    trying = await rows.trying(row, now, 120)
    assert trying
    sent = await rows.sent(trying, "C1", f"{row.id}.0")
    assert sent
    return sent
