"""Killed at every step of raise, extend, revert and the pass, or the answer of any write lost, done and not done.

Two other processes go on, at the same time. What must hold:

- By the deadline and 30 s the original is back, to the byte, and the record is off the object.
- The pod template was written twice at most: the raise and one revert.
- What somebody else edited in the same list is still there, and our own element alone is back.
- The journal has no open change left, and what it says of the end is true.
"""

import contextlib
import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from bot.changes.deployments import ChangeFailed
from bot.kube.client.writer import OutcomeUnknown
from tests.changes.crashes import ACTS, Act, killed, steps_of, undone_by_others
from tests.changes.rig import Steps, When, crash_points, rig
from tests.sampling import Sample
from tests.stores import NewDatabase


async def unanswered(act: Act, folder: Path, at: int, when: When, *, edit: str) -> None:
    """`when` the connection broke: before the write was done, or after."""

    async def lost() -> None:
        raise OutcomeUnknown("the connection was closed")

    async with rig(folder) as here:
        with contextlib.suppress(ChangeFailed):
            await act(here, here.bot(Steps(at, when, lost)))
        await undone_by_others(here, edit=edit)


@pytest.mark.parametrize("edit", ["", "appends", "removes", "edits"])
@pytest.mark.parametrize("name", ACTS)
async def test_killed_at_any_step_our_element_is_back_by_the_deadline_among_foreign_edits(
    name: str, edit: str, tmp_path: Path, record_property: Callable[[str, object], None], sample: Sample
) -> None:
    points = sample(crash_points(await steps_of(ACTS[name], tmp_path / "whole")), 2)
    for at, when in points:
        await killed(ACTS[name], tmp_path / f"{at}-{when}", at, when, edit=edit)
    record_property("crash_points", len(points))


@pytest.mark.parametrize("new_database", ["postgresql"], indirect=True)
@pytest.mark.parametrize("name", ACTS)
async def test_killed_at_any_step_the_original_is_back_with_the_journal_in_postgresql(
    name: str, tmp_path: Path, new_database: NewDatabase, sample: Sample
) -> None:
    for at, when in sample(crash_points(await steps_of(ACTS[name], tmp_path / "whole")), 2):
        await killed(ACTS[name], tmp_path / f"{at}-{when}", at, when, edit="", database=new_database())


@pytest.mark.parametrize("edit", ["", "appends", "removes", "edits"])
@pytest.mark.parametrize("name", ACTS)
async def test_where_the_answer_of_a_write_is_lost_the_same_holds(
    name: str, edit: str, tmp_path: Path, record_property: Callable[[str, object], None], sample: Sample
) -> None:
    names = await steps_of(ACTS[name], tmp_path / "whole")
    writes = [at for at, step in enumerate(names) if step == "patch_deployment"]
    whens: tuple[When, ...] = ("before", "after")
    cases = sample(list(itertools.product(writes, whens)), 2)
    for at, when in cases:
        await unanswered(ACTS[name], tmp_path / f"{at}-{when}", at, when, edit=edit)
    record_property("lost_answers", len(cases))
