"""Killed at every step of raise, extend, revert and the pass, with another process going on: what must hold.

- By the deadline and 30 s the original is back, to the byte, and the record is off the object.
- The pod template was written twice at most: the raise and one revert.
- An edit by somebody else is still there.
- The journal has no open change left, and what it says of the end is true.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from bot.changes.changer import Changer
from tests.changes.rig import NAME, NAMESPACE, Killed, Rig, Steps, rig

PASSES = (15, 150, 600, 615, 630, 1200, 1215, 1230)
"""Soon, when what was only planned is given up, and up to 30 s after both deadlines."""
Act = Callable[[Rig, Changer], Awaitable[object]]


async def _raise(here: Rig, bot: Changer) -> None:
    await here.raise_(bot)


async def _extend(here: Rig, bot: Changer) -> None:
    await here.raise_(here.bot())
    await bot.extend(NAMESPACE, NAME, 1200, by="U2")


async def _revert_now(here: Rig, bot: Changer) -> None:
    await here.raise_(here.bot())
    await bot.revert(NAMESPACE, NAME, by="U2")


async def _pass_at_the_deadline(here: Rig, bot: Changer) -> None:
    await here.raise_(here.bot())
    here.now += 600
    await bot.reconcile()


async def _pass_before_the_deadline(here: Rig, bot: Changer) -> None:
    await here.raise_(here.bot())
    await bot.reconcile()


ACTS: dict[str, Act] = {
    "raise": _raise,
    "extend": _extend,
    "revert now": _revert_now,
    "pass at the deadline": _pass_at_the_deadline,
    "pass before the deadline": _pass_before_the_deadline,
}


async def steps_of(act: Act, folder: Path) -> list[str]:
    """The steps that the act takes when nothing kills it."""
    async with rig(folder) as here:
        steps = Steps()
        await act(here, here.bot(steps))
        return steps.names


async def killed(act: Act, folder: Path, at: int, when: str, edit: bool) -> None:
    async with rig(folder) as here:
        with pytest.raises(Killed):
            await act(here, here.bot(Steps(at, when)))  # type: ignore[arg-type]
        if edit:
            await here.edit(lambda spec: spec["template"]["spec"]["containers"][1]["args"].append("--foreign"))
            edited = (await here.live())["spec"]
        await here.passes(*PASSES)
        if edit:
            live = await here.live()
            assert live["spec"] == edited
            assert not live["metadata"].get("annotations")
        else:
            assert await here.is_as_before()
            assert here.writer.template_writes in (0, 2)
        assert await here.store.changes("lab").opened() == []


@pytest.mark.parametrize("name", ACTS)
def test_killed_at_any_step_the_original_is_back_by_the_deadline(
    name: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    async def run() -> int:
        names = await steps_of(ACTS[name], _folder(tmp_path, "whole"))
        for at in range(len(names)):
            for when in ("before", "after"):
                await killed(ACTS[name], _folder(tmp_path, f"{at}-{when}"), at, when, edit=False)
        return 2 * len(names)

    record_property("crash_points", asyncio.run(run()))


@pytest.mark.parametrize("name", ACTS)
def test_killed_at_any_step_a_foreign_edit_stays(
    name: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    async def run() -> int:
        names = await steps_of(ACTS[name], _folder(tmp_path, "whole"))
        for at in range(len(names)):
            for when in ("before", "after"):
                await killed(ACTS[name], _folder(tmp_path, f"{at}-{when}"), at, when, edit=True)
        return 2 * len(names)

    record_property("crash_points", asyncio.run(run()))


def _folder(parent: Path, name: str) -> Path:
    folder = parent / name
    folder.mkdir()
    return folder
