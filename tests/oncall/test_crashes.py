"""Killed at every step of intake, thread creation, edit, resolving: two others go on, and it comes to the same.

Those of a call are in `test_calling`.

A step is a call of the store's incidents (one transaction each) or of the outbox that writes something; killed before
one of them is killed after the one before, whatever was only read between. What Alertmanager got no answer for it sends
again. What must hold at the end, whatever was killed:

- one thread, its head once, its evidence once, every reply once;
- every alert that was taken is counted.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bot.triage.webhook import Alert
from handlers.oncall.keeper import Keeper
from tests.changes.rig import Killed, Steps, When, crash_points
from tests.oncall.rig import WRITES, Rig, a_rig, files, pending, text, with_rig
from tests.oncall.scenes import busy_cluster
from tests.sampling import Sample
from tests.stores import NewDatabase

FIRST = [pending(0), pending(3)]
MORE = [pending(6), pending(9, name="KubePodNotReady")]
Act = Callable[[Rig, Keeper], Awaitable[None]]


async def _taken(rig: Rig, alerts: list[Alert], *, then_s: float) -> None:
    keeper = rig.keeper("before")
    await keeper.take(alerts)
    await rig.passes(then_s, keeper, step_s=then_s)


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
    await _taken(rig, FIRST, then_s=50)
    await rig.keeper("before").take(MORE)
    await keeper.look()


async def _resolve(rig: Rig, keeper: Keeper) -> None:
    await _taken(rig, FIRST, then_s=50)
    await rig.keeper("before").take([msgspec.structs.replace(alert, status="resolved") for alert in FIRST])
    await rig.passes(60, rig.keeper("before"), step_s=60)
    await rig.bot.clock.advance(300)
    await keeper.look()


ACTS: dict[str, tuple[Act, list[Alert], list[str]]] = {
    "intake": (_intake, FIRST + MORE, ["Evidence"]),
    "thread": (_thread, FIRST, ["Evidence"]),
    "edit": (_edit, FIRST + MORE, ["Evidence"]),
    "resolve": (
        _resolve,
        [msgspec.structs.replace(alert, status="resolved") for alert in FIRST],
        ["Evidence", "Resolved: the cause"],
    ),
}
"""What is done, what Alertmanager sends again, and what the thread must say in the end, in order."""


async def steps_of(act: Act, database: str, recording: Path) -> list[str]:
    async with a_rig(database, recording) as rig:
        steps = Steps()
        await act(rig, rig.keeper("killed", steps))
        return steps.names


async def killed(name: str, database: str, recording: Path, at: int, when: When) -> None:
    act, sent_again, told = ACTS[name]
    async with a_rig(database, recording) as rig:
        with pytest.raises(Killed):
            await act(rig, rig.keeper("killed", Steps(at, when)))
        one, two = rig.keeper("one"), rig.keeper("two")
        await one.take(sent_again)
        await rig.passes(50, one, two, step_s=50)
        await rig.passes(0, two)
        place = (name, at, when)
        [head] = rig.heads()
        pods = len({alert.pod for alert in sent_again})
        count = f"of {pods} pods"
        assert count in text(head), place
        assert f"{len(sent_again)} alerts" in text(head), place
        replies = rig.replies(head)
        assert len(replies) == len(told), (place, replies)
        assert all(want in reply for want, reply in zip(told, replies, strict=True)), (place, replies)
        assert await rig.store.alerts.unsorted(10) == []
        assert rig.bot.slack.unknown_methods == []


@pytest.mark.parametrize("name", ACTS)
async def test_killed_at_any_step_nothing_is_lost_and_nothing_is_told_twice(
    name: str, new_database: NewDatabase, tmp_path: Path, record_property: Callable[[str, object], None], sample: Sample
) -> None:
    recording = busy_cluster(tmp_path / "cluster", 10)
    names = await steps_of(ACTS[name][0], new_database(), recording)
    points = sample(crash_points(names, WRITES), 1)
    for at, when in points:
        await killed(name, new_database(), recording, at, when)
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
        names = [file["name"] for file in files(rig) if file["name"].endswith(".tar.gz")]
        assert names == [f"incident-{row.id}.tar.gz"]

    with_rig(new_database(), then, scene)
