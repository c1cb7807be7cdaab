"""`hami-bot audit`, beside the process that has the store open: in one of its own, or here."""

import asyncio
import json
import subprocess
from collections.abc import Awaitable, Callable

import pytest
from sqlalchemy import update

from bot.store import Store, open_store
from bot.store.audit import Audit, AuditLine
from bot.store.tables import audit
from tests.shell import hami_bot, process
from tests.stores import NewDatabase

pytestmark = pytest.mark.process

Way = Callable[..., subprocess.CompletedProcess[str]]
KEY = "0123456789abcdef0123456789abcdef"


def asked(database: str, *words: str, key: str = "", way: Way = hami_bot) -> subprocess.CompletedProcess[str]:
    """What the command gives."""
    return way("audit", *words, env={"HAMI_BOT_STORE__URL": database, "HAMI_BOT_STORE__AUDIT_KEY": key})


def beside(
    database: str,
    *words: str,
    after: Callable[[Store], Awaitable[object]] | None = None,
    key: str = "",
    way: Way = hami_bot,
) -> tuple[str, int]:
    """The same while a bot has the store open and did three things; nothing is to be said on standard error."""

    async def main() -> subprocess.CompletedProcess[str]:
        async with open_store(database, now=lambda: 1_795_237_200.0, audit_keys=key.split()) as store:
            assert await store.claim("Ev1", "at work")
            for number in range(3):
                await store.audit.append(AuditLine("U1", "raise\x1b", "a/b", "allowed", {"n": number}))
            if after:
                await after(store)
            done = await asyncio.to_thread(asked, database, *words, key=key, way=way)
            assert await store.unfinished() == []  # it is still this process's work
            return done

    done = asyncio.run(main())
    assert done.stderr == ""
    return done.stdout, done.returncode


def test_the_newest_entries_are_shown_the_newest_last(database: str) -> None:
    shown, code = beside(database, "--limit", "2", way=process)
    assert code == 0
    assert shown == (
        '2  2026-11-21T05:00:00.000000+00:00  U1  raise\\x1b  a/b  allowed  {"n":1}\n'
        '3  2026-11-21T05:00:00.000000+00:00  U1  raise\\x1b  a/b  allowed  {"n":2}\n'
    )


def test_they_are_shown_as_json(database: str) -> None:
    shown, code = beside(database, "-o", "json")
    assert code == 0
    assert [(entry["seq"], entry["action"], entry["detail"]["n"]) for entry in json.loads(shown)["entries"]] == [
        (1, "raise\x1b", 0),
        (2, "raise\x1b", 1),
        (3, "raise\x1b", 2),
    ]


def test_without_a_key_the_log_is_unsigned_and_what_is_not_found_out_is_said(database: str) -> None:
    shown, code = beside(database, "--verify")
    assert code == 0
    assert "whole" not in shown
    assert shown.startswith("the audit log is unsigned (store.audit_key is not set): 3 entries")
    assert "cannot detect that somebody who can write the store changed an entry" in shown


def test_a_signed_log_is_whole_and_the_hash_that_it_says_to_keep_is_taken(database: str) -> None:
    shown, code = beside(database, "--verify", key=KEY)
    assert code == 0
    assert shown.startswith("the audit log is whole: 3 entries, all signed\n")
    newest = shown.split()[-1]
    again = asked(database, "--verify", "--last-hash", newest, key=KEY)
    assert again.returncode == 0
    assert "The hash that you kept is of entry 3: entries 1 to 3 are as they were" in again.stdout


def test_a_log_without_the_hash_that_the_reader_kept_is_not_whole(database: str) -> None:
    shown, code = beside(database, "--last-hash", "ab" * 32, key=KEY)
    assert code == 5
    assert shown.startswith("the audit log is not whole: no entry has the hash that you kept")


def test_a_log_without_any_signature_is_no_success_where_a_key_is_set(database: str) -> None:
    beside(database, "--verify")
    done = asked(database, "--verify", "-o", "json", key=KEY)
    assert done.returncode == 5
    assert json.loads(done.stdout)["verdict"] == "unsigned"


async def _sign(store: Store) -> None:
    with_key = Audit(store._engine, store.now, [KEY])
    await with_key.append(AuditLine("U1", "raise", "a/b", "allowed"))


def test_a_log_that_is_signed_in_part_is_not_called_whole(database: str) -> None:
    beside(database, after=_sign)
    done = asked(database, "--verify", key=KEY)
    assert done.returncode == 0
    assert "whole" not in done.stdout
    assert done.stdout.startswith("the audit log is signed from entry 4 of 4 on")
    assert "cannot detect that entries 1 to 3 were changed before" in done.stdout


def test_a_short_key_is_refused_and_not_shown(database: str) -> None:
    done = asked(database, "--verify", key="hunter2")
    assert done.returncode == 2
    assert "32 characters" in done.stderr
    assert "hunter2" not in done.stderr


async def _tamper(store: Store) -> None:
    async with store._engine.begin() as connection:
        await connection.execute(update(audit).where(audit.c.seq == 2).values(actor="U2"))


def test_the_first_bad_entry_of_a_log_that_was_changed_is_named(database: str) -> None:
    shown, code = beside(database, "--verify", after=_tamper)
    assert code == 5
    assert shown == "the audit log is not whole, entry 2: its content is not what was written\n"
    again = asked(database, "--verify", "-o", "json")
    assert (again.returncode, json.loads(again.stdout)["first_bad"]["seq"]) == (5, 2)


def test_a_database_without_a_store_is_left_without_one(new_empty_database: NewDatabase) -> None:
    database = new_empty_database()
    done = asked(database)
    again = asked(database)
    assert (done.returncode, again.returncode) == (3, 3)
    assert "store" in done.stderr
    assert "hami-bot serve" in done.stderr
    assert done.stderr == again.stderr
