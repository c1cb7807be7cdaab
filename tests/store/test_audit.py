"""The audit log keeps every row in order, from any number of processes, and notices what was done to it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from sqlalchemy import delete, text, update

from bot.store import Store, open_store
from bot.store.audit import Broken
from bot.store.tables import audit

Talk = Callable[[Store], Awaitable[Any]]


def kept(database: str, talk: Talk) -> Any:
    """What `talk` gives, with three rows in the log."""

    async def run() -> Any:
        async with open_store(database, now=lambda: 1_795_237_200.0) as store:
            for number in range(3):
                await store.audit.append(
                    actor="U1", action="raise", target="a/b", outcome="allowed", detail={"n": number, "why": "é\ud83d"}
                )
            return await talk(store)

    return asyncio.run(run())


def test_an_untouched_log_is_whole(database: str) -> None:
    assert kept(database, lambda store: store.audit.verify()) == 3


def test_it_is_read_newest_first(database: str) -> None:
    entries = kept(database, lambda store: store.audit.read(2))
    assert [(entry.seq, entry.detail["n"]) for entry in entries] == [(3, 2), (2, 1)]
    assert entries[0].at == "2026-11-21T05:00:00.000000+00:00"


TAMPERED = {
    "an edited row": (update(audit).where(audit.c.seq == 2).values(actor="U2"), 2),
    "an edited detail": (update(audit).where(audit.c.seq == 2).values(detail="{}"), 2),
    "a removed row": (delete(audit).where(audit.c.seq == 2), 2),
    "a removed first row": (delete(audit).where(audit.c.seq == 1), 1),
    "another order": (text("UPDATE audit SET seq = CASE seq WHEN 1 THEN -1 ELSE seq END WHERE seq = 1"), 1),
    "a new seal": (update(audit).where(audit.c.seq == 1).values(hash="0" * 64), 1),
}


@pytest.mark.parametrize(("statement", "bad"), TAMPERED.values(), ids=TAMPERED)
def test_the_first_bad_row_is_named(statement: Any, bad: int, database: str) -> None:
    async def talk(store: Store) -> Any:
        async with store.audit._engine.begin() as connection:
            await connection.execute(statement)
        return await store.audit.verify()

    found = kept(database, talk)
    assert isinstance(found, Broken)
    assert found.seq == bad


def test_many_writers_at_once_make_one_chain(database: str) -> None:
    async def talk(store: Store) -> Any:
        async def add(number: int) -> None:
            await store.audit.append(actor=f"U{number}", action="revert", target="a/b", outcome="refused")

        await asyncio.gather(*map(add, range(30)))
        return await store.audit.verify()

    assert kept(database, talk) == 33
