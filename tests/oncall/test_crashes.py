"""Killed at every step of intake, thread creation, edit, resolving, ignoring: two others go on, to the same end.

Those of a call are in `test_calling`.

A step is a call of the store's incidents (one transaction each) or of the outbox that writes something; killed before
one of them is killed after the one before, whatever was only read between. What Alertmanager got no answer for it sends
again. What must hold at the end, whatever was killed:

- one thread, its head once, its evidence once, every reply once;
- every alert that was taken is counted.
"""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from bot.triage.routes import Ignored, read_route
from bot.triage.webhook import Alert
from handlers.oncall.keeper import Keeper
from tests.changes.rig import Killed, Steps, When, crash_points
from tests.oncall.rig import WRITES, Rig, a_rig, files, pending, text, with_rig
from tests.oncall.scenes import busy_cluster
from tests.sampling import Sample
from tests.stores import NewDatabase

FIRST = [pending(0), pending(3)]
MORE = [pending(6), pending(9, name="KubePodNotReady")]
OVER = [msgspec.structs.replace(alert, status="resolved") for alert in FIRST]
NOISY = [pending(6, name="Noise"), pending(9, name="Noise")]
NO_MORE_NOISE = [msgspec.structs.replace(alert, status="resolved") for alert in NOISY]
NOISE = (read_route(['alertname="Noise"'], ""),)
Act = Callable[[Rig, Keeper], Awaitable[None]]


async def _taken(rig: Rig, alerts: list[Alert], routes: tuple[Any, ...] = ()) -> None:
    keeper = rig.keeper("before", routes=routes)
    await keeper.take(alerts)
    await rig.passes(50, keeper, step_s=50)


async def _intake(rig: Rig, keeper: Keeper) -> None:
    del rig
    await keeper.take(FIRST)
    await keeper.take(MORE)


async def _thread(rig: Rig, keeper: Keeper) -> None:
    await rig.keeper("before").take(FIRST)
    await keeper.look()
    await rig.send()
    await keeper.look()


async def _edit(rig: Rig, keeper: Keeper) -> None:
    await _taken(rig, FIRST)
    await rig.keeper("before").take(MORE)
    await keeper.look()


async def _resolve(rig: Rig, keeper: Keeper) -> None:
    await _taken(rig, FIRST)
    await rig.keeper("before").take(OVER)
    await rig.passes(60, rig.keeper("before"), step_s=60)
    await rig.bot.clock.advance(300)
    await keeper.look()


async def _ignore(rig: Rig, keeper: Keeper) -> None:
    del rig
    await keeper.take(FIRST + NOISY)
    await keeper.look()


async def _ignored_end(rig: Rig, keeper: Keeper) -> None:
    await _taken(rig, FIRST + NOISY, NOISE)
    await keeper.take(NO_MORE_NOISE)
    await keeper.look()


async def _hear_again(rig: Rig, keeper: Keeper) -> None:
    await _taken(rig, FIRST + NOISY, NOISE)
    await keeper.look()


class Case(NamedTuple):
    """What is done, and what Alertmanager sends again; of so many alerts, each about another pod, the thread tells in
    the end, and says `told` in this order. `routes` are those from the act on, and `ignored` what they ignore.
    """

    act: Act
    sent_again: list[Alert]
    alerts: int = 2
    told: Sequence[str] = ("Evidence",)
    routes: tuple[Any, ...] = ()
    ignored: Ignored = Ignored(0, 0, ())

    async def done(self, rig: Rig, steps: Steps) -> list[str]:
        await self.act(rig, rig.keeper("killed", steps, routes=self.routes))
        return steps.names


CASES = {
    "intake": Case(_intake, FIRST + MORE, 4),
    "thread": Case(_thread, FIRST),
    "edit": Case(_edit, FIRST + MORE, 4),
    "resolve": Case(_resolve, OVER, told=("Evidence", "Resolved: the cause")),
    "ignored as they come": Case(_ignore, FIRST + NOISY, routes=NOISE, ignored=Ignored(2, 2, ("Noise",))),
    "ended while they are ignored": Case(_ignored_end, NO_MORE_NOISE, routes=NOISE, ignored=Ignored(0, 2, ())),
    "no longer ignored by the settings": Case(_hear_again, FIRST + NOISY, 4),
}


async def killed(rig: Rig, case: Case, at: int, when: When) -> None:
    with pytest.raises(Killed):
        await case.done(rig, Steps(at, when))
    one, two = rig.keeper("one", routes=case.routes), rig.keeper("two", routes=case.routes)
    await one.take(case.sent_again)
    await rig.passes(50, one, two, step_s=50)
    await rig.passes(0, two)
    place = (at, when)
    [head] = rig.heads()
    assert f"of {case.alerts} pods" in text(head), place
    assert f"{case.alerts} alerts" in text(head), place
    replies = rig.replies(head)
    assert len(replies) == len(case.told), (place, replies)
    assert all(want in reply for want, reply in zip(case.told, replies, strict=True)), (place, replies)
    assert await rig.store.alerts.unsorted(10) == [], place
    assert await rig.store.alerts.ignored() == case.ignored, place
    assert rig.bot.slack.unknown_methods == []


@pytest.mark.parametrize("name", CASES)
async def test_killed_at_any_step_nothing_is_lost_and_nothing_is_told_twice(
    name: str, new_database: NewDatabase, tmp_path: Path, record_property: Callable[[str, object], None], sample: Sample
) -> None:
    recording, case = busy_cluster(tmp_path / "cluster", 10), CASES[name]
    async with a_rig(new_database(), recording) as rig:
        names = await case.done(rig, Steps())
    points = sample(crash_points(names, WRITES), 1)
    for at, when in points:
        async with a_rig(new_database(), recording) as rig:
            await killed(rig, case, at, when)
    record_property("crash_points", len(points))


class _UntilProven(Steps):
    """Kills the process when the evidence is with the outbox, and before that is noted."""

    async def take(self, name: str, step: Callable[[], Awaitable[Any]]) -> Any:
        if name == "mark_proven":
            raise Killed
        return await step()


def test_evidence_that_was_given_before_the_kill_is_not_made_again_of_what_the_cluster_is_by_then(
    new_database: NewDatabase, tmp_path: Path
) -> None:
    then, later = busy_cluster(tmp_path / "then", 4), busy_cluster(tmp_path / "later", 5)

    async def scene(rig: Rig) -> None:
        with pytest.raises(Killed):
            await _thread(rig, rig.keeper("killed", _UntilProven()))
        await rig.send()
        rig.recording = later
        await rig.passes(100, rig.keeper("another"), step_s=50)
        [row] = await rig.store.incidents.opened()
        assert row.proven
        assert row.cause.step is not None
        assert "Request at most" in row.cause.step.label  # as the evidence has it
        names = [file["name"] for file in files(rig) if file["name"].endswith(".tar.gz")]
        assert names == [f"incident-{row.id}.tar.gz"]

    with_rig(new_database(), then, scene)
