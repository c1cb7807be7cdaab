"""How a database gets its tables."""

import asyncio
import subprocess
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from sqlalchemy import Connection, inspect, text

from bot.store import NoStoreError, StoreError, open_beside, open_store
from bot.store.engine import connect
from bot.store.tables import SCHEMA, metadata
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


def schema(connection: Connection) -> Any:
    inspector = inspect(connection)
    columns = {name: list(map(str, inspector.get_columns(name))) for name in inspector.get_table_names()}
    return columns, connection.execute(text("SELECT version_num FROM alembic_version")).all()


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
    with pytest.raises(StoreError, match=rf"another version of hami-bot \(schema {found}, this one knows {SCHEMA}\)"):
        start(database)
    assert within(database, _tables) == before


def test_an_empty_database_is_no_store_to_read_beside_a_bot(database: str) -> None:
    async def main() -> None:
        async with open_beside(database):
            pass

    within(database, _tables)
    with pytest.raises(NoStoreError):
        asyncio.run(main())
    assert within(database, _tables) == []


def _tables(connection: Connection) -> list[str]:
    return inspect(connection).get_table_names()


def test_of_several_that_start_together_none_fails(database: str) -> None:
    async def main() -> None:
        async def one() -> None:
            async with open_store(database, patience=30) as store:
                await store.outbox.waiting()

        await asyncio.gather(*(one() for _ in range(5)))

    asyncio.run(main())
    assert set(within(database, _tables)) == {*metadata.tables, "alembic_version"}


@pytest.mark.process
def test_a_question_in_a_shell_needs_no_database() -> None:
    parts = "{'sqlalchemy', 'asyncpg'}"
    code = f"import sys, handlers.shell, handlers.cluster_choice; print({parts} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
