"""How a database comes to the newest schema, from whatever it was before."""

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect, text

from bot.store import StoreError, migrations, open_store
from bot.store.engine import connect
from bot.store.migrations import NEWEST, migrate, upgrade
from bot.store.tables import metadata
from tests.stores import NewDatabase

T = TypeVar("T")

OF_SCHEMA_1 = {
    "seen": {"key": "Ev1", "state": "done", "expires_at": 4e9, "payload": "", "tries": 1},
    "threads": {"channel": "C1", "thread_ts": "1.0", "words": "gpus", "cluster": "lab", "at": 4e9},
    "outbox": dict.fromkeys(("thread_ts", "update_ts", "owner", "posted_channel", "posted_ts", "reason"), "")
    | dict.fromkeys(("severity", "version", "tried_version", "sent_version"), 1)
    | dict.fromkeys(("queued_at", "lease_until", "claimed_at", "sent_at"), 0.0)
    | {"id": 7, "channel": "C1", "key": "a", "content": '{"text": "kept"}', "state": "new"},
    "outbox_files": {"row_id": 7, "digest": "d", "position": 0, "about": "{}", "content": b"kept", "state": "new"}
    | {"file_id": "", "reason": ""},
}
"""A row of each table that the last program without revisions had."""


@pytest.fixture
def new_database(new_empty_database: NewDatabase) -> NewDatabase:
    return new_empty_database


def within(database: str, act: Callable[[Connection], T]) -> T:
    """What `act` gives on the database as it is, in a transaction."""

    async def main() -> T:
        async with connect(database, 0.1) as (engine, _), engine.begin() as connection:
            return await connection.run_sync(act)

    return asyncio.run(main())


def start(database: str) -> None:
    """What a bot does first."""

    async def main() -> None:
        async with open_store(database, patience=30) as store:
            await store.outbox.waiting()

    asyncio.run(main())


def schema_1(connection: Connection) -> None:
    """What the last program without revisions left, with something in every table."""
    upgrade(connection, "0001")
    connection.execute(text("DROP TABLE alembic_version"))
    connection.execute(text("CREATE TABLE schema_version (version INTEGER NOT NULL PRIMARY KEY)"))
    connection.execute(text("INSERT INTO schema_version VALUES (1)"))
    for name, row in OF_SCHEMA_1.items():
        columns, values = ", ".join(row), ", ".join(f":{cell}" for cell in row)
        connection.execute(text(f"INSERT INTO {name} ({columns}) VALUES ({values})"), row)


def differences(connection: Connection) -> list[Any]:
    return compare_metadata(MigrationContext.configure(connection), metadata)


def rows(connection: Connection) -> dict[str, list[dict[str, Any]]]:
    return {
        name: [dict(row) for row in connection.execute(text(f"SELECT * FROM {name}")).mappings()]
        for name in OF_SCHEMA_1
    }


def test_the_revisions_make_what_the_tables_say(database: str) -> None:
    within(database, upgrade)
    assert within(database, differences) == []


def test_a_new_database_is_as_the_revisions_would_make_it(new_database: NewDatabase) -> None:
    started, upgraded = new_database(), new_database()
    start(started)
    within(upgraded, upgrade)
    assert within(started, differences) == []
    assert within(started, schema) == within(upgraded, schema)


def schema(connection: Connection) -> Any:
    """Everything that an inspector tells, and what Alembic takes the revision to be."""
    inspector = inspect(connection)
    tables = {
        name: (
            [{key: str(value) for key, value in column.items()} for column in inspector.get_columns(name)],
            inspector.get_pk_constraint(name),
            inspector.get_foreign_keys(name),
            sorted(map(str, inspector.get_unique_constraints(name))),
            sorted(map(str, inspector.get_indexes(name))),
        )
        for name in inspector.get_table_names()
    }
    return tables, MigrationContext.configure(connection).get_current_revision()


def test_a_database_of_before_revisions_is_upgraded_without_loss(database: str) -> None:
    within(database, schema_1)
    start(database)
    assert within(database, rows) == {name: [row] for name, row in OF_SCHEMA_1.items()}
    assert within(database, differences) == []
    assert "schema_version" not in within(database, lambda connection: inspect(connection).get_table_names())


def test_one_that_an_unreleased_program_left_has_its_later_tables_already(database: str) -> None:
    def left(connection: Connection) -> None:
        schema_1(connection)
        metadata.create_all(connection)

    within(database, left)
    start(database)
    assert within(database, rows) == {name: [row] for name, row in OF_SCHEMA_1.items()}
    assert within(database, differences) == []


def test_starting_again_changes_nothing(database: str) -> None:
    start(database)
    before = within(database, schema)
    start(database)
    assert within(database, schema) == before


@pytest.mark.parametrize(
    ("made", "shown"),
    [
        ("CREATE TABLE alembic_version (version_num VARCHAR(32)); INSERT INTO alembic_version VALUES ('9001')", "9001"),
        ("CREATE TABLE schema_version (version INTEGER); INSERT INTO schema_version VALUES (7)", "7"),
    ],
)
def test_a_store_of_a_newer_program_is_refused_and_left_alone(database: str, made: str, shown: str) -> None:
    def newer(connection: Connection) -> None:
        for statement in made.split("; "):
            connection.execute(text(statement))

    within(database, newer)
    before = within(database, _tables)
    with pytest.raises(StoreError, match=rf"newer hami-bot \(schema {shown}, this one knows {NEWEST}\)"):
        start(database)
    assert within(database, _tables) == before


def test_when_alerts_fired_that_came_back_is_kept_by_day(database: str) -> None:
    def outbreaks(connection: Connection) -> None:
        upgrade(connection, "0012")
        texts = dict.fromkeys(("starts_at", "ends_at"), "") | {"incident": "i", "source": "s", "fingerprint": "f"}
        for number, (began, status, gpus) in enumerate([(100.0, "resolved", None), (300.0, "silent", 4)], 1):
            row = {**texts, "number": number, "status": status, "namespace": "ml", "pod": "p", "gpus": gpus}
            row |= {"received_at": began, "heard_at": began + 10, "changed_at": began + 50, "pod_created_at": 0.0}
            columns, values = ", ".join(row), ", ".join(f":{cell}" for cell in row)
            connection.execute(text(f"INSERT INTO outbreaks ({columns}) VALUES ({values})"), row)

    within(database, outbreaks)
    start(database)
    [row] = within(database, lambda connection: connection.execute(text("SELECT * FROM spells")).all())
    assert tuple(row) == ("i", "s", "f", 0, "ml", "p", 100.0, 310.0, 60.0, 4)


def _tables(connection: Connection) -> list[str]:
    return inspect(connection).get_table_names()


@pytest.mark.parametrize("old", [False, True], ids=["empty", "of before revisions"])
def test_of_several_that_start_together_none_fails(database: str, old: bool) -> None:
    async def main() -> None:
        async def one() -> None:
            async with open_store(database, patience=30) as store:
                await store.outbox.waiting()

        await asyncio.gather(*(one() for _ in range(5)))

    if old:
        within(database, schema_1)
    asyncio.run(main())
    assert within(database, differences) == []


def test_an_upgrade_that_fails_leaves_everything_as_it_was(database: str) -> None:
    def half(connection: Connection) -> None:
        migrate(connection)
        raise ZeroDivisionError

    within(database, schema_1)
    before = within(database, _tables)
    with pytest.raises(ZeroDivisionError):
        within(database, half)
    assert within(database, _tables) == before
    assert within(database, rows) == {name: [row] for name, row in OF_SCHEMA_1.items()}


def test_the_newest_revision_is_the_end_of_the_chain() -> None:
    scripts = ScriptDirectory(str(Path(migrations.__file__).parent))
    assert scripts.get_heads() == [NEWEST]
    assert [revision.revision for revision in scripts.walk_revisions()] == sorted(
        (revision.revision for revision in scripts.walk_revisions()), reverse=True
    )


def test_a_start_with_nothing_to_upgrade_does_without_alembic(tmp_path: Path) -> None:
    code = f"""
import asyncio, sys
from bot.store import open_store
async def main():
    async with open_store("sqlite:///{tmp_path}/state.db"): pass
asyncio.run(main())
asyncio.run(main())
print("alembic" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_a_question_in_a_shell_needs_neither_alembic_nor_a_database() -> None:
    parts = "{'alembic', 'sqlalchemy', 'asyncpg'}"
    code = f"import sys, handlers.shell, handlers.cluster_choice; print({parts} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
