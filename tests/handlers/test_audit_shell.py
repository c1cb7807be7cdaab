"""`hami-bot audit`, as a process beside the one that has the store open."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from sqlalchemy import update

from bot.store import Store, open_store
from bot.store.tables import audit
from tests.stores import NewDatabase

pytestmark = pytest.mark.few(3)

ROOT = Path(__file__).parents[2]


def asked(database: str, *words: str) -> subprocess.CompletedProcess[str]:
    """What the command gives."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HAMI_BOT_")}  # noqa: TID251
    command = [sys.executable, "-m", "bot", "audit", *words]
    environment |= {"HAMI_BOT_STORE__URL": database}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def beside(database: str, *words: str, after: Callable[[Store], Awaitable[object]] | None = None) -> tuple[str, int]:
    """The same while a bot has the store open and did three things; nothing is to be said on standard error."""

    async def main() -> subprocess.CompletedProcess[str]:
        async with open_store(database, now=lambda: 1_795_237_200.0) as store:
            assert await store.claim("Ev1", "at work")
            for number in range(3):
                await store.audit.append(
                    actor="U1", action="raise\x1b", target="a/b", outcome="allowed", detail={"n": number}
                )
            if after:
                await after(store)
            done = await asyncio.to_thread(asked, database, *words)
            assert await store.unfinished() == []  # it is still this process's work
            return done

    done = asyncio.run(main())
    assert done.stderr == ""
    return done.stdout, done.returncode


def test_the_newest_entries_are_shown_the_newest_last(database: str) -> None:
    shown, code = beside(database, "--limit", "2")
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


def test_a_whole_log_is_said_to_be_whole_with_the_seal_of_its_end(database: str) -> None:
    shown, code = beside(database, "--verify")
    assert code == 0
    assert shown.startswith("the audit log is whole: 3 entries; entry 3 is sealed with ")


async def _tamper(store: Store) -> None:
    async with store._engine.begin() as connection:
        await connection.execute(update(audit).where(audit.c.seq == 2).values(actor="U2"))


def test_the_first_bad_entry_of_a_log_that_was_changed_is_named(database: str) -> None:
    shown, code = beside(database, "--verify", after=_tamper)
    assert code == 5
    assert shown == "the audit log is not whole, entry 2: its content is not what was written\n"


def test_the_first_bad_entry_is_told_as_json(database: str) -> None:
    shown, code = beside(database, "--verify", "-o", "json", after=_tamper)
    assert code == 5
    assert json.loads(shown)["first_bad"]["seq"] == 2


def test_a_database_without_a_store_is_left_without_one(new_empty_database: NewDatabase) -> None:
    database = new_empty_database()
    done = asked(database)
    again = asked(database)
    assert (done.returncode, again.returncode) == (3, 3)
    assert "store" in done.stderr
    assert "hami-bot serve" in done.stderr
    assert done.stderr == again.stderr
