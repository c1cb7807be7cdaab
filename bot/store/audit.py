"""The audit log: who asked for what, and what came of it. Rows are only ever added, each sealed with the one before it.

Whoever changes, removes or reorders rows breaks the chain of hashes, and `verify` names the first bad one. What it
cannot see is that the newest rows were cut off: for that keep the hash of the newest row elsewhere (it is logged).
"""

import hashlib
import json
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Row, RowMapping, insert, select, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from bot.store.engine import store_errors
from bot.store.tables import audit

PAGE = 500
BEGINNING = "0" * 64

Write = Callable[["Line"], Awaitable[int]]
"""Adds a row to the log; its number."""

log = logging.getLogger(__name__)


class Entry(NamedTuple):
    """One row. `detail` is free, of JSON's types; `at` is RFC 3339 in UTC."""

    seq: int
    at: str
    actor: str
    action: str
    target: str
    outcome: str
    detail: dict[str, Any]
    hash: str


class Line(NamedTuple):
    """What is to be written down. `detail` is free, of JSON's types."""

    actor: str
    action: str
    target: str
    outcome: str
    detail: Mapping[str, Any] = {}


class Broken(NamedTuple):
    """The first row that is not as it was written, and what is wrong with it."""

    seq: int
    why: str


class Audit:
    """Every method raises only StoreError."""

    def __init__(self, engine: AsyncEngine, now: Callable[[], float]) -> None:
        self._engine = engine
        self._now = now

    async def append(
        self, *, actor: str, action: str, target: str, outcome: str, detail: Mapping[str, Any] | None = None
    ) -> int:
        """Adds a row; its number. What may not be lost is appended before it is done, and what came of it after."""
        with store_errors("writing the audit log"):
            async with audited(self._engine, self._now) as (_, write):
                return await write(Line(actor, action, target, outcome, detail or {}))

    async def read(self, limit: int, *, before: int = 2**31 - 1) -> list[Entry]:
        """The newest rows below the number `before`, newest first."""
        wanted = select(audit).where(audit.c.seq < before).order_by(audit.c.seq.desc()).limit(limit)
        with store_errors("reading the audit log"):
            async with self._engine.connect() as connection:
                return [_entry(row) for row in await connection.execute(wanted)]

    async def verify(self) -> Broken | int:
        """How many rows there are, all as they were written; or the first that is not."""
        number, previous = 0, BEGINNING
        while page := await self._after(number):
            for row in page:
                number += 1
                if why := _flaw(row, number, previous):
                    return Broken(number, why)
                previous = row["hash"]
        return number

    async def _after(self, number: int) -> Sequence[RowMapping]:
        """The rows that follow; before the first also those that should not be there."""
        wanted = select(audit).where(audit.c.seq > (number or -(2**31))).order_by(audit.c.seq).limit(PAGE)
        with store_errors("reading the audit log"):
            async with self._engine.connect() as connection:
                return (await connection.execute(wanted)).mappings().all()


@asynccontextmanager
async def audited(engine: AsyncEngine, now: Callable[[], float]) -> AsyncGenerator[tuple[AsyncConnection, Write]]:
    """A transaction, and how to write down what is done in it: both are there afterwards, or neither.

    Lock rows of other tables before that: what is written down locks the log until the end.
    """
    written: list[dict[str, Any]] = []
    async with engine.begin() as connection:

        async def write(line: Line) -> int:
            at = datetime.fromtimestamp(now(), UTC).isoformat(timespec="microseconds")
            row = {"at": at, **line._asdict(), "detail": _ascii(dict(line.detail))}
            written.append(await _append(connection, row))
            return written[-1]["seq"]

        yield connection, write
    for row in written:
        log.info("audit %d %s: %s %s %s by %s", row["seq"], row["hash"], *(row[column] for column in _SHOWN))


async def _append(connection: AsyncConnection, row: dict[str, Any]) -> dict[str, Any]:
    if connection.dialect.name == "postgresql":  # SQLite has one writer anyway: the next one waits for this row
        await connection.execute(text(f"LOCK TABLE {audit.name} IN EXCLUSIVE MODE"))
    newest = select(audit.c.seq, audit.c.hash).order_by(audit.c.seq.desc()).limit(1)
    last = (await connection.execute(newest)).first()
    seq, previous = (last.seq + 1, last.hash) if last else (1, BEGINNING)
    sealed = {"seq": seq, **row, "previous": previous}
    sealed["hash"] = _seal(sealed)
    await connection.execute(insert(audit).values(**sealed))
    return sealed


def _flaw(row: RowMapping, number: int, previous: str) -> str:
    if row["seq"] != number:
        return f"it is missing: the next row there is {row['seq']}"
    if row["previous"] != previous:
        return "it does not follow from the row before it"
    return "" if row["hash"] == _seal(row) else "its content is not what was written"


_SHOWN = ("action", "target", "outcome", "actor")
_SEALED = ("seq", "at", "actor", "action", "target", "outcome", "detail", "previous")


def _seal(row: Mapping[Any, Any]) -> str:
    """SHA-256 of the row's columns as a JSON array, in this order."""
    return hashlib.sha256(msgspec.json.encode([row[name] for name in _SEALED])).hexdigest()


def _ascii(detail: dict[str, Any]) -> str:
    """JSON in ASCII with sorted keys: no database minds it, and the same detail is the same text."""
    return json.dumps(detail, sort_keys=True, ensure_ascii=True)


def _entry(row: Row[Any]) -> Entry:
    detail = json.loads(row.detail)
    return Entry(row.seq, row.at, row.actor, row.action, row.target, row.outcome, detail, row.hash)
