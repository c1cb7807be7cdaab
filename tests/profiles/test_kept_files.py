"""Kept profiles in the place of files."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from bot.errors import UsageError
from bot.store import open_store
from bot.store.profiles import KeptProfile, ProfileRows
from handlers.profiles.answers_in_files import read_words
from handlers.profiles.kept import Content, answer_about, contents_of
from tests.pprof.cases import PROFILES

BUSY = (PROFILES / "hami.profile-load.pb.gz").read_bytes()
NOW = 1_795_237_200.0


def played(folder: Path, scene: Callable[[ProfileRows], Awaitable[None]]) -> None:
    async def play() -> None:
        async with open_store(f"sqlite:///{folder}/bot.db") as store:
            await scene(store.profiles)

    asyncio.run(play())


def test_no_more_are_read_for_one_question_than_fit_into_memory(tmp_path: Path) -> None:
    async def scene(rows: ProfileRows) -> None:
        ids = [f"cpu-0000000{number}" for number in range(5)]
        for number, one in enumerate(ids):
            about = KeptProfile(one, "lab", "", "cpu", "2.9.0", NOW + number, 30.0, 1)
            await rows.keep(about, b"x", most=50, days=30, most_bytes=1000)
        with pytest.raises(UsageError, match="5 kept profiles are too many: at most 4"):
            await contents_of(ids, rows, NOW)
        found = await contents_of(ids[1:], rows, NOW)
        assert [*found.values()] == [Content(id_, b"x", "2.9.0") for id_ in ids[1:]]

    played(tmp_path, scene)


def test_the_lines_of_hami_lead_to_the_version_that_was_profiled() -> None:
    def listed(version: str, *more: str) -> str:
        asked = read_words(["calcScoreWithOptions", "cpu-00000001", *more])
        return answer_about("list", asked, {"cpu-00000001": Content("cpu-00000001", BUSY, version)})

    assert "HAMi/blob/v2.9.0/" in listed("2.9.0")
    assert "HAMi/blob/v2.8.1/" in listed("2.9.0", "-versions=github.com/Project-HAMi/HAMi@v2.8.1")
    assert "HAMi/blob" not in listed("")
    assert "HAMi/blob" not in listed("latest")


def test_only_a_profile_s_name_is_replaced_by_its_file_and_no_value_of_an_option() -> None:
    asked = read_words(["-focus=cpu-00000001", "cpu-00000001"])
    table = answer_about("top", asked, {"cpu-00000001": Content("cpu-00000001", BUSY, "2.9.0")})
    assert "Active filters:" in table
    assert "   focus=cpu-00000001" in table
