"""The audit log: who asked for what, and what came of it. Rows are only ever added, each sealed with the one before it.

Whoever changes, removes or reorders rows breaks the chain of hashes, and `verify` names the first bad one. Whoever also
computes all later hashes again needs a key for it where the rows are signed. `verify` cannot detect that the newest
rows were removed, except by a hash that its caller kept: each hash is logged when its row is written.
"""

import hashlib
import hmac
import json
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import insert, select, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from bot.store.base import StoredRows, columns
from bot.store.tables import audit

PAGE = 500
BEGINNING = "0" * 64

Write = Callable[["AuditLine"], Awaitable[int]]
"""Adds a line to the audit log and gives the number of its row."""

log = logging.getLogger(__name__)


class AuditEntry(msgspec.Struct, frozen=True):
    """One row of the audit log. `detail` is free, of JSON's types; `at` is RFC 3339 in UTC."""

    seq: int
    at: str
    actor: str
    action: str
    target: str
    outcome: str
    detail: dict[str, Any]
    hash: str


class AuditLine(NamedTuple):
    """A line to be written to the audit log. `detail` is free, of JSON's types."""

    actor: str
    action: str
    target: str
    outcome: str
    detail: Mapping[str, Any] = {}


class Broken(NamedTuple):
    """The first row of the audit log that is not as it was written, and why; 0 where no row can be named."""

    seq: int
    why: str


class Verified(NamedTuple):
    """An audit log whose rows are all as their hashes say: how many there are, and the newest hash. `signed_from` is
    the first signed row, whose signature holds for the rows before it too, as they were then; 0 where no signature was
    checked. `kept_at` is the row with the hash that the caller kept, 0 without one.
    """

    entries: int
    signed_from: int
    newest: str
    kept_at: int = 0


class Audit(StoredRows):
    """The audit log in the store. The first of the keys signs new rows, all of them verify."""

    def __init__(self, engine: AsyncEngine, now: Callable[[], float], keys: Sequence[str] = ()) -> None:
        super().__init__(engine, now)
        # By a name that does not tell the key.
        named = ((hashlib.sha256(b"hami-bot audit key " + key.encode()), key.encode()) for key in keys)
        self._keys = {digest.hexdigest()[:16]: key for digest, key in named}

    async def append(self, line: AuditLine) -> int:
        """Adds a row to the log; gives its number. An action is appended before it is done, its outcome after."""
        async with self.transaction("writing the audit log") as (_, write):
            return await write(line)

    async def read(self, limit: int) -> list[AuditEntry]:
        """The newest rows of the audit log, at most `limit`, newest first."""
        wanted = select(audit).order_by(audit.c.seq.desc()).limit(limit)
        rows = await self._read("reading the audit log", wanted)
        named = ({name: getattr(row, name) for name in AuditEntry.__struct_fields__} for row in rows)
        return [AuditEntry(**row | {"detail": json.loads(row["detail"])}) for row in named]

    async def verify(self, kept: str = "") -> Broken | Verified:
        """Gives the first row that is not as it was written, if any. `kept` is the hash of a row that must be there."""
        number, previous, signed_from, kept_at = 0, BEGINNING, 0, 0
        in_order = select(audit).order_by(audit.c.seq).limit(PAGE)
        # Before the first also those that should not be there.
        while page := await self._read("reading the audit log", in_order.where(audit.c.seq > (number or -(2**31)))):
            for row in map(columns, page):
                number += 1
                if why := self._flaw(row, number, previous, is_signed=signed_from > 0):
                    return Broken(number, why)
                previous = row["hash"]
                if self._keys and row["signature"] and not signed_from:
                    signed_from = number
                if previous == kept:
                    kept_at = number
        if kept and not kept_at:
            return Broken(
                0, "no entry has the hash that you kept: newest entries were removed, or all were written anew"
            )
        return Verified(number, signed_from, previous if number else "", kept_at)

    def _flaw(self, row: Mapping[str, Any], number: int, previous: str, *, is_signed: bool) -> str:
        if row["seq"] != number:
            return f"it is missing: the next row there is {row['seq']}"
        if row["previous"] != previous:
            return "it does not follow from the row before it"
        if row["hash"] != _seal(row):
            return "its content is not what was written"
        if not self._keys:
            return ""
        if not row["signature"]:
            return "it is not signed, and the entry before it is" if is_signed else ""
        key = self._keys.get(row["key_id"])
        if key is None:
            return f"it is signed with the key {row['key_id']}, which store.audit_key does not have"
        return "" if hmac.compare_digest(row["signature"], _sign(key, row["hash"])) else "its signature is wrong"

    @asynccontextmanager
    async def transaction(self, what: str) -> AsyncGenerator[tuple[AsyncConnection, Write]]:
        """A transaction, and a function that writes audit lines in it: both take effect, or neither. Lock rows of other
        tables before writing a line, because a line locks the audit log until the end.
        """
        written: list[dict[str, Any]] = []
        async with self._writing(what) as connection:

            async def write(line: AuditLine) -> int:
                at = datetime.fromtimestamp(self._now(), UTC).isoformat(timespec="microseconds")
                # In ASCII, which no database minds; in one order, or the same detail would be another text.
                detail = json.dumps(dict(line.detail), sort_keys=True)
                if connection.dialect.name == "postgresql":  # SQLite has one writer: the next one waits for this row
                    await connection.execute(text(f"LOCK TABLE {audit.name} IN EXCLUSIVE MODE"))
                newest = select(audit.c.seq, audit.c.hash).order_by(audit.c.seq.desc()).limit(1)
                last = (await connection.execute(newest)).first()
                seq, previous = (last.seq + 1, last.hash) if last else (1, BEGINNING)
                row: dict[str, Any] = {"seq": seq, "at": at, **line._asdict(), "detail": detail, "previous": previous}
                row |= {"key_id": "", "signature": "", "hash": _seal(row)}
                for key_id, key in [*self._keys.items()][:1]:
                    row |= {"key_id": key_id, "signature": _sign(key, row["hash"])}
                await connection.execute(insert(audit).values(**row))
                written.append(row)
                return seq

            yield connection, write
        for row in written:
            log.info("audit %d %s: %s %s %s by %s", row["seq"], row["hash"], *(row[column] for column in _SHOWN))


class AuditedRows(StoredRows):
    """A part of the store whose changes are written to the audit log, too."""

    def __init__(self, engine: AsyncEngine, now: Callable[[], float], audit_log: Audit) -> None:
        super().__init__(engine, now)
        self._audit = audit_log


_SHOWN = ("action", "target", "outcome", "actor")
_SEALED = ("seq", "at", "actor", "action", "target", "outcome", "detail", "previous")


def _seal(row: Mapping[Any, Any]) -> str:
    """SHA-256 of the row's columns as a JSON array, in this order."""
    return hashlib.sha256(msgspec.json.encode([row[name] for name in _SEALED])).hexdigest()


def _sign(key: bytes, seal: str) -> str:
    return hmac.new(key, seal.encode(), hashlib.sha256).hexdigest()
