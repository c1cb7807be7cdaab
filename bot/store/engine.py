"""Opens the database, with SQLite's particulars; PostgreSQL's clock; who sends from the outbox of one database."""

import asyncio
import contextlib
import hashlib
import importlib.util
import logging
import socket
import sqlite3
import time
import uuid
from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import URL, event, make_url, text
from sqlalchemy.exc import ArgumentError, NoSuchModuleError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import AsyncAdaptedQueuePool

from bot.store.base import (
    NoStoreError,
    OlderStoreError,
    StoredRows,
    StoreError,
    begin_to_write,
    hint_for,
    store_errors,
)
from bot.store.migrations import NEWEST, OtherSchemaError, migrate, revision
from bot.texts import Text

_CONNECT_S, _COMMAND_S = 5, 30
_DRIVERS = {"sqlite": "sqlite+aiosqlite", "postgresql": "postgresql+asyncpg", "postgres": "postgresql+asyncpg"}


@contextlib.asynccontextmanager
async def open_engine(url: str, patience: float, *, make: bool = True) -> AsyncGenerator[AsyncEngine]:
    """The database with its tables, made and upgraded only with `make`; SQLite waits `patience` seconds for a lock."""
    async with connect(url, patience, make=make) as (engine, shown):
        with store_errors(f"opening the store {shown}"):
            async with engine.begin() if make else engine.connect() as connection:
                if make and engine.dialect.name == "sqlite":
                    problem = (await connection.exec_driver_sql("PRAGMA quick_check(1)")).scalar()
                    if problem != "ok":
                        damaged = Text("error-store.damaged", shown=shown, problem=problem)
                        raise StoreError(damaged, hint=hint_for("malformed"))
                try:
                    found = await connection.run_sync(migrate if make else revision)
                except OtherSchemaError as error:
                    other = Text("error-store.of-another", shown=shown, found=error.found, newest=NEWEST)
                    raise StoreError(other, hint=Text("error-store.run-that-version")) from error
        if not make and found != NEWEST:
            older = Text("error-store.of-older", shown=shown, found=found or "none", newest=NEWEST)
            raise OlderStoreError(older, hint=Text("error-store.serve-upgrades-it"))
        yield engine


@contextlib.asynccontextmanager
async def connect(url: str, patience: float, *, make: bool = True) -> AsyncGenerator[tuple[AsyncEngine, str]]:
    """The database as it is, and its address without password. Without `make`, a missing file raises NoStoreError."""
    address = _address(url)
    shown = address.set(query={}).render_as_string(hide_password=True)  # a driver takes a password there as well
    if not make and _is_file(address) and not await asyncio.to_thread(Path(str(address.database)).exists):
        raise NoStoreError(Text("error-store.no-store", shown=shown), hint=Text("error-store.serve-creates-it"))
    with store_errors(f"opening the store {shown}"):
        engine = await _engine(address, patience)
        if make and _is_file(address):
            await asyncio.to_thread(_keep_private, Path(str(address.database)))
    try:
        yield engine, shown
    finally:
        await engine.dispose()


def _address(url: str) -> URL:
    try:
        address = make_url(url)
        address = address.set(drivername=_DRIVERS.get(address.drivername, address.drivername))
        if "sslmode" in address.query:  # libpq's word, which managed databases hand out; asyncpg's is shorter
            address = address.difference_update_query(["sslmode"]).update_query_dict({"ssl": address.query["sslmode"]})
        driver = address.get_dialect().driver
    except (ArgumentError, NoSuchModuleError, ValueError):
        address, driver = None, ""
    if address is None or "@" in (address.host or ""):  # the rest of a password, which may stand anywhere in it
        example = Text("error-store.address-example")
        raise StoreError(Text("error-store.address-cannot-be-read"), hint=example)
    if importlib.util.find_spec(driver) is None:
        raise StoreError(Text("error-store.not-installed", driver=driver), hint=Text("error-store.install-postgres"))
    return address


async def _engine(address: URL, patience: float) -> AsyncEngine:
    if address.get_backend_name() != "sqlite":
        hangs_no_longer = {"timeout": _CONNECT_S, "command_timeout": _COMMAND_S}
        return create_async_engine(address, pool_pre_ping=True, hide_parameters=True, connect_args=hangs_no_longer)
    if _is_file(address):
        folder = Path(str(address.database)).parent
        await asyncio.to_thread(folder.mkdir, mode=0o700, parents=True, exist_ok=True)
    # One connection: SQLite has one writer anyway, and so this process never waits for its own lock.
    pool = {"poolclass": AsyncAdaptedQueuePool, "pool_size": 1, "max_overflow": 0}
    engine = create_async_engine(address, hide_parameters=True, **pool)  # answers do not belong into the log

    event.listen(engine.sync_engine, "begin", begin_to_write)

    @event.listens_for(engine.sync_engine, "connect")
    def configure(connection: Any, _record: Any) -> None:  # pyright: ignore[reportUnusedFunction]  # the event calls it
        connection.isolation_level = None  # the driver begins no transactions of its own accord: `begin_to_write` does
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA busy_timeout = {int(patience * 1000)}")
        _write_ahead(cursor, time.monotonic() + patience)
        cursor.execute("PRAGMA synchronous = FULL")  # a message that was accepted survives a power cut
        cursor.execute("PRAGMA foreign_keys = ON")
        cursor.close()

    @event.listens_for(engine.sync_engine, "invalidate")
    def give_up(connection: Any, _record: Any, _error: Any) -> None:  # pyright: ignore[reportUnusedFunction]  # as above
        # SQLite closes a connection for good, and drops its lock, only when its last statement is gone. The error of a
        # task that was cancelled keeps its statement.
        if connection is not None:
            connection.rollback()

    return engine


def _keep_private(file: Path) -> None:
    """Lets only the owner read the file, from its first byte on; SQLite gives the files beside it the same mode."""
    with contextlib.suppress(OSError):  # SQLite says what is wrong with the place
        file.touch(mode=0o600)
        file.chmod(0o600)


def _write_ahead(cursor: Any, until: float) -> None:
    """Switches to WAL, which is refused at once while another process makes the file: a transaction waits for that."""
    while True:
        try:
            cursor.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > until:
                raise
            cursor.execute("BEGIN IMMEDIATE")
            cursor.execute("COMMIT")
        else:
            return


def _is_file(address: URL) -> bool:
    return address.get_backend_name() == "sqlite" and address.database not in (None, "", ":memory:")


_NOW = text("SELECT CAST(extract(epoch FROM clock_timestamp()) AS double precision)")


class DatabaseClock(StoredRows):
    """PostgreSQL's clock in seconds since 1970, counted on from the last `read`; this machine's may be hours off."""

    def __init__(self, engine: AsyncEngine) -> None:
        super().__init__(engine, self)
        self._ahead_s = 0.0  # of the monotonic clock, which nobody sets

    def __call__(self) -> float:
        return time.monotonic() + self._ahead_s

    async def read(self) -> None:
        """Reads the database's clock, by which the calls go from then on. Raises StoreError."""
        asked = time.monotonic()
        at = await self._scalar("reading the database's clock", _NOW)
        self._ahead_s = at - (asked + time.monotonic()) / 2


_LONGEST_NAME = 64  # of the outbox's owner

log = logging.getLogger(__name__)


class Sender(NamedTuple):
    """How a process sends from the outbox: `name` stands in its rows; `alone`: no other process here uses the store."""

    name: str
    alone: bool


@contextlib.contextmanager
def sender(store_url: str) -> Generator[Sender]:
    """The name by which this process sends from the outbox, and whether it is the only one here that uses the store.
    Alone it has this machine's name, so that after a crash its successor here goes on at once, and not when the lease
    has lapsed. Two living senders of one name would take a message out of each other's hands and post it twice, and two
    processes of one machine may overlap. So a process with the name holds a lock, which the kernel frees however the
    process ends. A process that finds the lock held, or cannot lock here, gets a name of its own and waits for leases
    like any other replica. The lock is an abstract socket, which needs no file: hosts that share a name share their
    network as well, or are separate pods with names of their own.
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
