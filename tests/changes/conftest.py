"""What the code under test survives is still a bug: no test here passes with one in the log, unless it asks for it."""

import logging
from collections.abc import Iterator

import pytest


class _Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.bugs: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.bugs.append(record)


@pytest.fixture(name="bugs")
def _bugs() -> list[logging.LogRecord]:
    """For a test of what bugs do: they are here, in the order of the log."""
    return []


@pytest.fixture(autouse=True)
def _no_bugs(request: pytest.FixtureRequest) -> Iterator[None]:
    log, kept = logging.getLogger("bot.errors"), _Kept()
    if "bugs" in request.fixturenames:
        kept.bugs = request.getfixturevalue("bugs")
    before = log.level
    log.addHandler(kept)
    log.setLevel(logging.INFO)
    yield
    log.removeHandler(kept)
    log.setLevel(before)
    told = [str(bug.exc_info[1]) for bug in kept.bugs if bug.exc_info]
    assert not told or "bugs" in request.fixturenames, told
