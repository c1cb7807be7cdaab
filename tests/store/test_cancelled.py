"""A question to SQLite that is cancelled leaves no lock behind."""

import asyncio
import contextlib
import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest

from bot.store.engine import open_engine
from tests.stores import new_store


async def test_a_transaction_that_was_cancelled_locks_nobody_out(tmp_path: Path) -> None:
    reached, goes_on = threading.Event(), threading.Event()

    def wait() -> int:
        reached.set()
        goes_on.wait()
        return 1

    async with open_engine(new_store(tmp_path / "a.db"), patience=5) as engine:

        async def work() -> None:
            async with engine.begin() as connection:
                raw: Any = await connection.get_raw_connection()
                await raw.driver_connection.create_function("wait", 0, wait)
                await connection.exec_driver_sql("CREATE TABLE kept (number)")
                await connection.exec_driver_sql("SELECT wait() UNION ALL SELECT 2")

        task = asyncio.create_task(work())
        await asyncio.to_thread(reached.wait)
        task.cancel()
        goes_on.set()
        with pytest.raises(asyncio.CancelledError) as held:
            await task
        assert held.tb is not None  # as long as the error is known, the statement is
        with contextlib.closing(sqlite3.connect(tmp_path / "a.db", timeout=0)) as other:
            other.execute("BEGIN IMMEDIATE")
