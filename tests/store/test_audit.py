"""The audit log keeps every row in order, from any number of processes, and notices what was done to it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from sqlalchemy import delete, select, text, update

from bot.digest.schedule import Schedule
from bot.store import Store, open_beside, open_store
from bot.store.audit import BEGINNING, AuditLine, Broken, Verified, _seal
from bot.store.tables import audit

Talk = Callable[[Store], Awaitable[Any]]
OLD, NEW = "an old key, 32 characters or more", "a new key, 32 characters or more"


def kept(database: str, talk: Talk, *keys: str) -> Any:
    """What `talk` gives, with three more rows in the log, signed with the first of the keys."""

    async def run() -> Any:
        async with open_store(database, now=lambda: 1_795_237_200.0, audit_keys=keys) as store:
            for number in range(3):
                await store.audit.append(AuditLine("U1", "raise", "a/b", "allowed", {"n": number, "why": "é\ud83d"}))
            return await talk(store)

    return asyncio.run(run())


def verified(database: str, *keys: str, kept: str = "") -> Broken | Verified:
    """What somebody beside the bot finds who has these keys, and kept that hash."""

    async def run() -> Broken | Verified:
        async with open_beside(database, audit_keys=keys) as store:
            return await store.audit.verify(kept)

    return asyncio.run(run())


def test_an_untouched_log_without_a_key_follows_from_itself_and_is_unsigned(database: str) -> None:
    found = kept(database, lambda store: store.audit.verify())
    assert (found.entries, found.signed_from) == (3, 0)


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


async def recompute(store: Store, seq: int, **changed: Any) -> None:
    """Does what whoever can write the store can: changes a row, and makes all hashes from it on anew."""
    async with store.audit._engine.begin() as connection:
        rows = [dict(row) for row in (await connection.execute(select(audit).order_by(audit.c.seq))).mappings()]
        rows[seq - 1] |= changed
        for row, before in zip(rows, [{"hash": BEGINNING}, *rows], strict=False):
            row["previous"] = before["hash"]
            row["hash"] = _seal(row)
            await connection.execute(update(audit).where(audit.c.seq == row["seq"]).values(**row))


UNSIGNED = {"key_id": "", "signature": ""}


@pytest.mark.parametrize("seq", [1, 2, 3])
def test_a_chain_that_somebody_recomputed_has_wrong_signatures(seq: int, database: str) -> None:
    kept(database, lambda store: recompute(store, seq, actor="U2"), NEW)
    found = verified(database, NEW)
    assert isinstance(found, Broken)
    assert found.seq == seq


def test_a_recomputed_chain_whose_signatures_were_taken_away_is_found_out(database: str) -> None:
    kept(database, lambda store: recompute(store, 3, actor="U2", **UNSIGNED), NEW)
    found = verified(database, NEW)
    assert isinstance(found, Broken)
    assert found.seq == 3


def test_a_recomputed_chain_signed_with_another_key_is_found_out(database: str) -> None:
    kept(database, lambda _: asyncio.sleep(0), OLD)
    found = verified(database, NEW)
    assert isinstance(found, Broken)
    assert found.seq == 1


def test_without_a_key_a_recomputed_chain_is_found_out_by_the_hash_that_the_reader_kept(database: str) -> None:
    newest = kept(database, lambda store: store.audit.verify()).newest
    assert verified(database, kept=newest) == Verified(3, 0, newest, kept_at=3)
    kept(database, lambda store: recompute(store, 2, actor="U2"))
    assert verified(database) == Verified(6, 0, verified(database).newest, kept_at=0)
    assert isinstance(verified(database, kept=newest), Broken)


def test_newest_rows_that_were_removed_are_found_out_by_the_hash_that_the_reader_kept(database: str) -> None:
    newest = kept(database, lambda store: store.audit.verify(), NEW).newest

    async def cut(store: Store) -> None:
        async with store.audit._engine.begin() as connection:
            await connection.execute(delete(audit).where(audit.c.seq >= 3))

    asyncio.run(talk_to(database, cut))
    assert isinstance(verified(database, NEW), Verified)
    assert isinstance(verified(database, NEW, kept=newest), Broken)


async def talk_to(database: str, talk: Talk) -> None:
    async with open_store(database) as store:
        await talk(store)


def test_a_changed_key_signs_from_then_on_and_the_old_one_still_verifies(database: str) -> None:
    kept(database, lambda _: asyncio.sleep(0), OLD)
    found = kept(database, lambda store: store.audit.verify(), NEW, OLD)
    assert (found.entries, found.signed_from) == (6, 1)
    beside = verified(database, NEW)
    assert isinstance(beside, Broken)
    assert beside.seq == 1


def test_rows_from_before_the_first_key_are_told_and_are_held_by_the_first_signature(database: str) -> None:
    kept(database, lambda _: asyncio.sleep(0))
    found = kept(database, lambda store: store.audit.verify(), NEW)
    assert (found.entries, found.signed_from) == (6, 4)
    asyncio.run(talk_to(database, lambda store: recompute(store, 2, actor="U2")))
    beside = verified(database, NEW)
    assert isinstance(beside, Broken)
    assert beside.seq == 4


def test_every_part_of_the_store_that_writes_to_the_log_signs(database: str) -> None:
    async def talk(store: Store) -> Any:
        line = AuditLine("U1", "digest", "C1", "done")
        made = await store.digests.add("C1", "", Schedule("0 9 * * *", "UTC"), "U1", noted=lambda _: line)
        await store.digests.stop(made.id, "C1", line)
        return await store.audit.verify()

    found = kept(database, talk, NEW)
    assert (found.entries, found.signed_from) == (5, 1)


def test_many_writers_at_once_make_one_chain(database: str) -> None:
    async def talk(store: Store) -> Any:
        async def add(number: int) -> None:
            await store.audit.append(AuditLine(f"U{number}", "revert", "a/b", "refused"))

        await asyncio.gather(*map(add, range(30)))
        return await store.audit.verify()

    found = kept(database, talk, NEW)
    assert (found.entries, found.signed_from) == (33, 1)
