"""What tests of several folders are given."""

import asyncio
import gc
import inspect
import os
import signal
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.stores import NewDatabase, PostgreSQL, new_store

pytest_plugins = ["tests.sampling"]

POSTGRES = os.environ.get("HAMI_BOT_TEST_POSTGRES", "")  # noqa: TID251  # no setting of the bot
"""The address of a database on a PostgreSQL server where databases may be made: `.ci/run` starts one."""
BACKENDS = ["sqlite", "postgresql"]

# The official client loads the machine's certificates for every connection, 40 ms of processor time each: no test goes
# where they are needed.
os.environ |= {"SSL_CERT_FILE": os.devnull, "SSL_CERT_DIR": os.devnull}  # noqa: TID251  # OpenSSL's


def _interrupted(number: int, frame: FrameType | None) -> None:
    signal.default_int_handler(number, frame)


# Where Ctrl-C has Python's own handler, asyncio.run of Python 3.11 describes the whole of what it returns, twice, only
# to put that handler back: a fifth of the time of asking a recording.
signal.signal(signal.SIGINT, _interrupted)

# What is imported and collected stays: it is looked through for garbage neither meanwhile nor ever after.
gc.disable()

# How long anything takes is the benchmarks' business: a busy machine must fail no test. The same commit gives the same
# answer: `--hypothesis-profile=hunting` draws other examples each time.
_QUIET: dict[str, Any] = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("hunting", **_QUIET)
settings.register_profile("steady", derandomize=True, **_QUIET)


@pytest.fixture(scope="session")
def postgresql() -> PostgreSQL:
    if not POSTGRES:
        pytest.skip("HAMI_BOT_TEST_POSTGRES names no PostgreSQL server; .ci/run starts one")
    return PostgreSQL(POSTGRES)


@pytest.fixture(scope="session")
def postgresql_stores(postgresql: PostgreSQL) -> Iterator[Callable[[], AbstractContextManager[NewDatabase]]]:
    with postgresql.stores() as lend:
        yield lend


@pytest.fixture(params=BACKENDS)
def new_database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[NewDatabase]:
    """Gives the address of a store of the test's own that nothing is in, another one at every call."""
    if request.param == "sqlite":
        yield lambda: new_store(tmp_path / f"{uuid.uuid4().hex}.db")
        return
    with request.getfixturevalue("postgresql_stores")() as take:
        yield take


@pytest.fixture(params=BACKENDS)
def new_empty_database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[NewDatabase]:
    """The same of a database that not even a table is in."""
    if request.param == "sqlite":
        yield lambda: f"sqlite:///{tmp_path}/{uuid.uuid4().hex}.db"
        return
    with request.getfixturevalue("postgresql").databases() as make:
        yield make


@pytest.fixture
def database(new_database: NewDatabase) -> str:
    """The address of a store of the test's own that nothing is in."""
    return new_database()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """A test that is a coroutine function runs in an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}))
    return True


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Two for each core: many tests wait for a server most of their time; but of a sample a fifth of the work is to
    collect it, and each does that.
    """
    cores = os.cpu_count() or 1
    return cores + 1 if config.getoption("enumerations") == "sample" else 2 * cores


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


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
