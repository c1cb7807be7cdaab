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
from bot.store.migrations import NEWEST, upgrade
from bot.store.tables import metadata
from tests.stores import NewDatabase

T = TypeVar("T")


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


def differences(connection: Connection) -> list[Any]:
    return compare_metadata(MigrationContext.configure(connection), metadata)


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


def test_starting_again_changes_nothing(database: str) -> None:
    start(database)
    before = within(database, schema)
    start(database)
    assert within(database, schema) == before


@pytest.mark.parametrize("found", ["9001", "0014"])
def test_a_store_of_another_program_is_refused_and_left_alone(database: str, found: str) -> None:
    def noted(connection: Connection) -> None:
        connection.execute(text("CREATE TABLE alembic_version (version_num VARCHAR(32))"))
        connection.execute(text(f"INSERT INTO alembic_version VALUES ('{found}')"))

    within(database, noted)
    before = within(database, _tables)
    with pytest.raises(StoreError, match=rf"another version of hami-bot \(schema {found}, this one knows {NEWEST}\)"):
        start(database)
    assert within(database, _tables) == before


def _tables(connection: Connection) -> list[str]:
    return inspect(connection).get_table_names()


def test_of_several_that_start_together_none_fails(database: str) -> None:
    async def main() -> None:
        async def one() -> None:
            async with open_store(database, patience=30) as store:
                await store.outbox.waiting()

        await asyncio.gather(*(one() for _ in range(5)))

    asyncio.run(main())
    assert within(database, differences) == []


def test_the_newest_revision_is_the_end_of_the_chain() -> None:
    scripts = ScriptDirectory(str(Path(migrations.__file__).parent))
    assert scripts.get_heads() == [NEWEST]
    assert [revision.revision for revision in scripts.walk_revisions()] == sorted(
        (revision.revision for revision in scripts.walk_revisions()), reverse=True
    )


@pytest.mark.process
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


@pytest.mark.process
def test_a_question_in_a_shell_needs_neither_alembic_nor_a_database() -> None:
    parts = "{'alembic', 'sqlalchemy', 'asyncpg'}"
    code = f"import sys, handlers.shell, handlers.cluster_choice; print({parts} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
