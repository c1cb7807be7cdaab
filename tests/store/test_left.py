"""A store that any earlier commit of main left is upgraded, and says what it said."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, inspect, text

from bot.digest.schedule import Schedule
from bot.store import Store, open_store
from bot.store.migrations import NEWEST, upgrade
from bot.triage.mute import WHILE_IT_LASTS
from tests.store.fill_left import NOW, RECORD
from tests.store.test_migrations import schema, start, within
from tests.stores import NewDatabase

LEFT = Path(__file__).parent / "left"
STORES = sorted(path.stem for path in LEFT.glob("*.sql"))
NEVER_THE_NEWEST = {"0001", "0004", "0005"}
"""Several revisions came with one commit."""
GONE = {"alembic_version", "outbreaks"}
CONVERTED = {("incidents", "machine"), ("digests", "schedule")}
IN_POSTGRESQL = {
    r"\bDOUBLE\b": "DOUBLE PRECISION",
    r"\bBLOB\b": "BYTEA",
    r"\tid INTEGER NOT NULL": "\tid SERIAL NOT NULL",
    r"X'([0-9A-F]*)'": r"'\\x\1'",
}


def statements(name: str, dialect: str) -> Iterator[str]:
    """Those of a dump of SQLite; what they make in PostgreSQL is what the same tables of SQLAlchemy make there."""
    dump = (LEFT / f"{name}.sql").read_text()
    if dialect == "postgresql":
        for pattern, replacement in IN_POSTGRESQL.items():
            dump = re.sub(pattern, replacement, dump)
    for statement in dump.split(";\n"):
        if statement.strip() not in ("BEGIN TRANSACTION", "COMMIT", ""):
            yield statement


def leave(name: str, database: str) -> None:
    """Makes the database what that commit left."""

    def act(connection: Connection) -> None:
        for statement in statements(name, connection.dialect.name):
            connection.exec_driver_sql(statement)

    within(database, act)


def rows(connection: Connection) -> dict[str, list[dict[str, Any]]]:
    tables = set(inspect(connection).get_table_names()) - GONE
    return {
        table: [dict(row) for row in connection.execute(text(f"SELECT * FROM {table}")).mappings()] for table in tables
    }


@pytest.mark.parametrize("name", STORES)
def test_the_store_of_every_earlier_commit_is_upgraded_without_loss(name: str, new_empty_database: NewDatabase) -> None:
    database, fresh = new_empty_database(), new_empty_database()
    leave(name, database)
    before = within(database, rows)
    start(database)
    within(fresh, upgrade)
    assert within(database, schema) == within(fresh, schema)
    after = within(database, rows)
    for table, old in before.items():
        same = [row for row in old[0] if row in after[table][0] and (table, row) not in CONVERTED]
        assert _of(after[table], same)[: len(old)] == _of(old, same), table


def _of(found: list[dict[str, Any]], columns: list[str]) -> list[str]:
    return sorted(repr([row[column] for column in columns]) for row in found)


@pytest.mark.parametrize("name", STORES)
def test_what_an_earlier_commit_wrote_is_read_as_it_was_meant(name: str, new_empty_database: NewDatabase) -> None:
    database = new_empty_database()
    leave(name, database)
    tables = within(database, rows).keys()

    async def main() -> None:
        async with open_store(database, now=lambda: NOW, patience=30) as store:
            assert await store.audit.verify() == 1
            assert [change.record for change in await store.changes("lab").opened()] == [RECORD]
            if "approvals" in tables:
                approval = await store.approvals.get("a1")
                assert approval is not None
                assert approval.state == "pending"
            if "incidents" in tables:
                await told_on_call(store)

    asyncio.run(main())


async def told_on_call(store: Store) -> None:
    [opened] = await store.incidents.opened()
    assert (opened.id, opened.incident.state, opened.incident.muted_until) == ("i1", "muted", WHILE_IT_LASTS)
    over = await store.incidents.get("i2")
    assert over is not None
    assert over.incident.ended
    counts = await store.alerts.counts(["i1"])
    assert (counts["i1"].firing, counts["i1"].pods) == (1, 1)
    assert [alert.starts_at for alert in await store.alerts.firing_of("alertmanager", "lab")] == [
        "2026-11-21T04:00:00Z"
    ]

    digests = [row.schedule for row in await store.digests.wanted("C1")]
    assert digests == [Schedule(f"5 9 * * {days}", "Asia/Shanghai") for days in ("mon,tue,wed,thu,fri", "*")]
    assert [run.figures for run in await store.digests.last("C1", "lab", 5)] == [{"pending": "3"}]

    await store.sweep(NOW + 86400)
    assert [profile.id for profile in await store.profiles.listed()] == ["p1"]
    assert await store.profiles.content("p1") == b"\x1f\x8b'"
    assert await store.incidents.get("i2") is not None


def test_of_every_revision_but_the_newest_a_store_is_kept() -> None:
    """Add it by `python -m tests.store.update_left`."""
    earlier = {f"{number:04}" for number in range(1, int(NEWEST))}
    assert earlier - {name.split("-")[0] for name in STORES} == NEVER_THE_NEWEST
