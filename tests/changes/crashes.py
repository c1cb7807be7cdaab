"""What people do to a change, ended at every point where a process can end, and done again."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from bot.changes.changer import Changer
from bot.changes.plan import Raise, annotation
from bot.changes.record import Record, read_record
from tests.changes.deployments import EDITS, EXTENDER, NOW
from tests.changes.rig import NAME, NAMESPACE, Killed, Rig, Steps, When, rig

SOON, LATER = (15, 150, 600, 615, 630), (1200, 1215, 1230)
"""When what was only planned is given up, and up to 30 s after the deadline; the same for one that was extended."""
Act = Callable[[Rig, Changer], Awaitable[object]]


async def _raise(here: Rig, bot: Changer) -> None:
    await here.raise_(bot)


async def _raise_several(here: Rig, bot: Changer) -> None:
    await here.raise_(bot, Raise((("kube-qps", "50"), ("kube-burst", "100")), EXTENDER, 600, "pods wait", by="U1"))


async def _extend(here: Rig, bot: Changer) -> None:
    await here.raise_(here.bot())
    await bot.extend(NAMESPACE, NAME, NOW + 1200, by="U2")


async def _revert_now(here: Rig, bot: Changer) -> None:
    await here.raise_(here.bot())
    await bot.revert(NAMESPACE, NAME, by="U2")


async def _pass_at_the_deadline(here: Rig, bot: Changer) -> None:
    await here.raise_(here.bot())
    here.now += 600
    await bot.passes.reconcile()


async def _pass_before_the_deadline(here: Rig, bot: Changer) -> None:
    await here.raise_(here.bot())
    await bot.passes.reconcile()


ACTS: dict[str, Act] = {
    "raise": _raise,
    "raise several flags": _raise_several,
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


async def killed(act: Act, folder: Path, at: int, when: When, *, edit: str, database: str = "") -> None:
    async with rig(folder, database=database) as here:
        with pytest.raises(Killed):
            await act(here, here.bot(Steps(at, when)))
        await undone_by_others(here, edit=edit)


def reworded(spec: dict[str, Any], edit: str) -> None:
    container = spec["template"]["spec"]["containers"][1]
    container["args"] = EDITS[edit](container["args"])


async def undone_by_others(here: Rig, *, edit: str) -> None:
    if edit:
        await here.edit(lambda spec: reworded(spec, edit))
        reworded(here.before, edit)
    bots = here.bot(), here.bot()
    await here.passes(*SOON, bots=bots)
    if text := annotation(await here.live()):
        left = read_record(text)
        assert isinstance(left, Record)
        assert left.deadline == NOW + 1200
        await here.passes(*LATER, bots=bots)
    assert await here.is_as_before()
    if not edit:
        assert here.writer.template_writes in (0, 2)
    assert await here.store.changes("lab").opened() == []
