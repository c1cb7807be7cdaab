"""A profile counts more than the note of how it ended: the one before it has been written."""

import asyncio
import contextlib
import sqlite3
from pathlib import Path

import pytest

from bot.errors import SourceError
from bot.store import StoreError, open_store
from handlers.parsing.question import Question
from handlers.profiles.captures import audited
from playbooks.profile.request import Request, read_target

ASKED = Question("profile cpu 5s", "U0ADA00001", "C0GPUONC01", 0.0)
HEAP = Request("heap", 0, read_target("ml/api-0:6060"))


def taken(folder: Path, *, lost_from: str, error: Exception | None = None) -> list[str]:
    """What was done where the store loses its table `before` or `while` the profile is taken, which may fail."""
    done = list[str]()

    def lose() -> None:
        with contextlib.closing(sqlite3.connect(folder / "bot.db")) as database:
            database.execute("DROP TABLE audit")

    async def take() -> None:
        async with open_store(f"sqlite:///{folder / 'bot.db'}") as store:
            if lost_from == "before":
                lose()
            async with audited(store.audit, ASKED, "prod", HEAP):
                done.append("begun")
                lose()
                if error:
                    raise error
            done.append("answered")

    asyncio.run(take())
    return done


def test_one_that_was_taken_is_answered_though_the_log_is_lost_meanwhile(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert taken(tmp_path, lost_from="while") == ["begun", "answered"]
    assert "U0ADA00001's heap profile of prod:http://ml/api-0:6060 was taken" in caplog.text


def test_why_none_could_be_taken_is_told_though_the_log_is_lost_meanwhile(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="the pod is gone"):
        taken(tmp_path, lost_from="while", error=SourceError("the pod is gone"))


def test_none_is_taken_that_cannot_be_written_down_before(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="writing the audit log"):
        taken(tmp_path, lost_from="before")
