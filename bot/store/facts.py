"""Facts by key: that a deed was carried out, what it was decided to do, which words a message has; and moments by name.

A fact that is written in the transaction of a deed's effect makes the deed idempotent: whoever carries it out again
after a crash finds the fact, and does nothing. A moment (`MarkRows`) says when something was last heard, or since when
something is wrong.
"""

from typing import NamedTuple

from sqlalchemy import and_, delete, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from bot.store.base import StoredRows, insert_unless
from bot.store.tables import facts, marks

KEPT_S = 8 * 86400.0
"""Seconds that a fact is kept: longer than Slack repeats a delivery, a deed is resumed, or the outbox keeps a post."""


class Fact(NamedTuple):
    """A fact in the store: the value that is known under a key."""

    key: str
    value: str


class Facts(StoredRows):
    """The facts in the store. Each method is one transaction and raises only StoreError."""

    async def get(self, key: str) -> str | None:
        """The value of the fact with this key, None where there is none."""
        return await self._scalar("reading what is known of a deed", select(facts.c.value).where(facts.c.key == key))

    async def first(self, key: str, value: str) -> str:
        """Keeps the value unless the key has one already, and gives the value that is kept."""
        row = {"key": key, "value": value, "at": self._now()}
        new = insert_unless(self._engine, facts).values(**row).on_conflict_do_nothing()
        async with self._writing("noting what is to be done") as connection:
            await connection.execute(new)
            return str(await connection.scalar(select(facts.c.value).where(facts.c.key == key)))

    async def put(self, key: str, value: str) -> None:
        """Keeps the value under the key, in place of any earlier one."""
        row = {"key": key, "value": value, "at": self._now()}
        new = insert_unless(self._engine, facts).values(**row)
        replacing = new.on_conflict_do_update(index_elements=[facts.c.key], set_={"value": value, "at": row["at"]})
        await self._write("noting what is known of a message", replacing)

    async def sweep(self, now: float) -> None:
        """Forgets facts that are older than `KEPT_S` seconds at `now`."""
        await self._write("sweeping facts", delete(facts).where(facts.c.at <= now - KEPT_S))


async def is_known(connection: AsyncConnection, key: str) -> bool:
    """Whether the store has a fact with this key; an empty key has none."""
    return bool(key) and await connection.scalar(select(facts.c.key).where(facts.c.key == key)) is not None


async def make_known(connection: AsyncConnection, key: str, at: float) -> None:
    """Adds a fact with this key and no value, which means that the deed is done; nothing for an empty key."""
    if key:
        await connection.execute(insert(facts).values(key=key, value="", at=at))


async def keep_fact(connection: AsyncConnection, fact: Fact, at: float) -> None:
    """Adds the fact unless its key has one already."""
    row = {**fact._asdict(), "at": at}
    await connection.execute(insert_unless(connection, facts).values(**row).on_conflict_do_nothing())


class Mark(NamedTuple):
    """A named moment in the store; `at` is in seconds since 1970."""

    name: str
    at: float
    text: str


class MarkRows(StoredRows):
    """The named moments in the store. Each method is one transaction and raises only StoreError."""

    async def set(self, name: str, text: str = "") -> None:
        """Notes the present moment under the name, in place of an earlier one."""
        values = {"at": self._now(), "text": text}
        new = insert_unless(self._engine, marks).values(name=name, **values)
        await self._write("noting a moment", new.on_conflict_do_update(index_elements=[marks.c.name], set_=values))

    async def all(self, prefix: str) -> list[Mark]:
        """The moments whose names begin with the prefix, the oldest first."""
        query = select(marks).where(marks.c.name.startswith(prefix, autoescape=True)).order_by(marks.c.at)
        return [Mark(row.name, row.at, row.text) for row in await self._read("reading moments", query)]

    async def drop(self, name: str, text: str | None = None) -> None:
        """Forgets the moment with this name, with `text` only while that is its text."""
        here = marks.c.name == name if text is None else and_(marks.c.name == name, marks.c.text == text)
        await self._write("forgetting a moment", delete(marks).where(here))
