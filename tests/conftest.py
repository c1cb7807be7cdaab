"""What tests of several folders are given."""

import asyncio
import os
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from sqlalchemy import make_url
from sqlalchemy.ext.asyncio import create_async_engine

POSTGRES = os.environ.get("HAMI_BOT_TEST_POSTGRES", "")  # noqa: TID251  # no setting of the bot
"""The address of a database on a PostgreSQL server where databases may be made: `.ci/run` starts one."""
BACKENDS = ["sqlite", "postgresql"]

# The official client loads the machine's certificates for every connection, 40 ms of processor time each: no test goes
# where they are needed.
os.environ |= {"SSL_CERT_FILE": os.devnull, "SSL_CERT_DIR": os.devnull}  # noqa: TID251  # OpenSSL's

# How long anything takes is the benchmarks' business: a busy machine must fail no test. The same commit gives the same
# answer: `--hypothesis-profile=hunting` draws other examples each time.
_QUIET: dict[str, Any] = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("hunting", **_QUIET)
settings.register_profile("steady", derandomize=True, **_QUIET)
settings.load_profile("steady")

NewDatabase = Callable[[], str]


@pytest.fixture(params=BACKENDS)
def new_database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[NewDatabase]:
    """Gives the address of an empty database of the test's own, another one at every call."""
    if request.param == "sqlite":
        yield lambda: f"sqlite:///{tmp_path}/{uuid.uuid4().hex}.db"
        return
    if not POSTGRES:
        pytest.skip("HAMI_BOT_TEST_POSTGRES names no PostgreSQL server; .ci/run starts one")
    made: list[str] = []

    def make() -> str:
        made.append(f"test_{uuid.uuid4().hex}")
        _administer(f"CREATE DATABASE {made[-1]}")
        return make_url(POSTGRES).set(database=made[-1]).render_as_string(hide_password=False)

    yield make
    for name in made:
        _administer(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def database(new_database: NewDatabase) -> str:
    """The address of an empty database of the test's own."""
    return new_database()


def _administer(statement: str) -> None:
    """In a thread of its own: whoever asks may be in an event loop."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, _execute(statement)).result()


async def _execute(statement: str) -> None:
    address = make_url(POSTGRES).set(drivername="postgresql+asyncpg")
    engine = create_async_engine(address, isolation_level="AUTOCOMMIT")
    try:
        async with engine.connect() as connection:
            await connection.exec_driver_sql(statement)
    finally:
        await engine.dispose()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """A line for each kind: crash points, lost answers, cases with several replicas."""
    counted: Counter[str] = Counter()
    tests: Counter[str] = Counter()
    for report in terminalreporter.stats.get("passed", ()):
        for name, value in report.user_properties:
            counted[name] += value
            tests[name] += 1
    for name, value in sorted(counted.items()):
        terminalreporter.write_line(f"{name.replace('_', ' ')}: {value}, in {tests[name]} tests, all as they must be")
