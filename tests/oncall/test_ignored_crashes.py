"""Killed at every step of ignoring alerts, or of ending that: two others go on, and it comes to the same."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from bot.triage.routes import Ignored, read_route
from bot.triage.webhook import Alert
from handlers.oncall.keeper import Keeper
from tests.changes.rig import Killed, Steps, When, crash_points
from tests.oncall.rig import WRITES, Rig, a_rig, pending, text
from tests.oncall.scenes import busy_cluster
from tests.sampling import Sample
from tests.stores import NewDatabase

pytestmark = pytest.mark.few(2)

NOISE = (read_route(['alertname="Noise"'], ""),)
HEARD = [pending(0), pending(3)]
NOISY = [pending(6, name="Noise"), pending(9, name="Noise")]
OVER = [msgspec.structs.replace(alert, status="resolved") for alert in NOISY]


class Case(NamedTuple):
    """`before` is done by a process that lives, `act` by the one that is killed; `routes` are those from then on.

    Then `sent_again` is what Alertmanager sends again, `ignored` what is, and `pods` how many the thread has.
    """

    before: list[Alert]
    act: Callable[[Keeper], Awaitable[None]]
    routes: tuple[Any, ...]
    sent_again: list[Alert]
    ignored: Ignored
    pods: int


async def _all_come(keeper: Keeper) -> None:
    await keeper.take([*HEARD, *NOISY])
    await keeper.look()


async def _noise_ends(keeper: Keeper) -> None:
    await keeper.take(OVER)
    await keeper.look()


async def _looks(keeper: Keeper) -> None:
    await keeper.look()


ALL = [*HEARD, *NOISY]
CASES: dict[str, Case] = {
    "ignored as they come": Case([], _all_come, NOISE, ALL, Ignored(2, 2, ("Noise",)), 2),
    "ended while they are ignored": Case(ALL, _noise_ends, NOISE, OVER, Ignored(0, 2, ()), 2),
    "no longer ignored by the settings": Case(ALL, _looks, (), ALL, Ignored(0, 0, ()), 4),
}


async def _acted(rig: Rig, case: Case, steps: Steps) -> None:
    if case.before:
        before = rig.keeper("before", routes=NOISE)
        await before.take(case.before)
        await rig.passes(50, before, step_s=50)
    await case.act(rig.keeper("killed", steps, routes=case.routes))


async def _killed(rig: Rig, case: Case, place: tuple[int, When]) -> None:
    with pytest.raises(Killed):
        await _acted(rig, case, Steps(*place))
    one, two = rig.keeper("one", routes=case.routes), rig.keeper("two", routes=case.routes)
    await one.take(case.sent_again)
    await rig.passes(100, one, two, step_s=50)
    assert await rig.store.alerts.ignored() == case.ignored, place
    assert await rig.store.alerts.unsorted(10) == [], place
    [head] = rig.heads()
    assert f"{case.pods} pods" in text(head), place
    assert len([reply for reply in rig.replies(head) if "Evidence" in reply]) == 1, place


@pytest.mark.parametrize("name", CASES)
async def test_killed_at_any_step_an_alert_is_ignored_once_or_told_once(
    name: str, new_database: NewDatabase, tmp_path: Path, record_property: Callable[[str, object], None], sample: Sample
) -> None:
    recording, case = busy_cluster(tmp_path / "cluster", 10), CASES[name]
    async with asyncio.timeout(180), a_rig(new_database(), recording) as rig:
        steps = Steps()
        await _acted(rig, case, steps)
    points = sample(crash_points(steps.names, WRITES), 1)
    for place in points:
        async with asyncio.timeout(180), a_rig(new_database(), recording) as rig:
            await _killed(rig, case, place)
    record_property("crash_points", len(points))
