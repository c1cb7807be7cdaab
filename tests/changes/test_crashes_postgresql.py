"""The crash points of `test_crashes.py`, with the journal in PostgreSQL."""

from pathlib import Path

import pytest

from tests.changes.crashes import ACTS, crash_points, killed, steps_of
from tests.sampling import Sample
from tests.stores import NewDatabase


@pytest.mark.parametrize("new_database", ["postgresql"], indirect=True)
@pytest.mark.parametrize("name", ACTS)
async def test_killed_at_any_step_the_original_is_back_with_the_journal_in_postgresql(
    name: str, tmp_path: Path, new_database: NewDatabase, sample: Sample
) -> None:
    whole = tmp_path / "whole"
    whole.mkdir()
    for at, when in sample(crash_points(await steps_of(ACTS[name], whole)), 2):
        folder = tmp_path / f"{at}-{when}"
        folder.mkdir()
        await killed(ACTS[name], folder, at, when, edit="", database=new_database())
