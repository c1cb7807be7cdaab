"""Killed at every step of carrying out a deed: carried out again under the same key, it is there once.

What was not done yet is the same for all deeds; what was done, each is to find again.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bot.triage.state import Turn
from handlers.changes.draft import Person
from handlers.oncall.service import IncidentDeed, TriageService
from handlers.parsing.question import Question
from handlers.user_actions import NOTHING, AcceptedDeed, Nothing
from tests.changes.crashes import crash_points
from tests.changes.rig import Killed, Steps
from tests.oncall.rig import Rig, a_rig, pending
from tests.oncall.scenes import busy_cluster
from tests.sampling import Sample
from tests.slack.outbox_support import ONCALL

ADA = Person("U0ADA00001", ONCALL)
DEEDS: dict[str, tuple[IncidentDeed, Turn]] = {
    "note": (IncidentDeed("note", "rebooted gpu-7"), "noted"),
    "ack": (IncidentDeed("ack"), "acknowledged"),
    "take": (IncidentDeed("take"), "taken"),
    "handover": (IncidentDeed("handover", to="U0GRACE001"), "handed-over"),
    "mute": (IncidentDeed("mute", seconds=7200.0), "muted"),
    "close": (IncidentDeed("close"), "closed"),
}


class _Stepped:
    """The store, of which every call about incidents and their timelines is a step."""

    def __init__(self, store: Any, steps: Steps) -> None:
        self._store = store
        self.alerts = steps.of(store.alerts)
        self.incidents = steps.of(store.incidents)
        self.timeline = steps.of(store.timeline)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


async def _act(rig: Rig, wanted: IncidentDeed, taken: AcceptedDeed[Nothing], steps: Steps) -> None:
    service = TriageService(rig.deps(_Stepped(rig.store, steps)), rig.keeper(), ())
    [row] = [row for row in await rig.store.incidents.opened() if row.incident.is_open]
    found = await service.find(ADA, row.id)
    await service.act(ADA, found, wanted, taken)


@pytest.mark.parametrize("deed", DEEDS)
async def test_killed_at_any_step_a_deed_is_done_once(
    deed: str,
    new_database: Callable[[], str],
    tmp_path: Path,
    record_property: Callable[[str, object], None],
    sample: Sample,
) -> None:
    wanted, turn = DEEDS[deed]
    recording = busy_cluster(tmp_path / "cluster", 4)
    every = crash_points(["get", "change"])
    points = sample(every if deed == "note" else every[-1:], 1)
    for at, when in points:
        async with asyncio.timeout(180), a_rig(new_database(), recording) as rig:
            await rig.keeper().take([pending(0)])
            await rig.passes(5)
            [row] = await rig.store.incidents.opened()
            asked = Question(words="", user=ADA.user, channel=ADA.channel, asked_at=rig.now)
            taken = AcceptedDeed("trigger", asked, NOTHING)
            with pytest.raises(Killed):
                await _act(rig, wanted, taken, Steps(at, when))
            await rig.bot.clock.advance(200)
            steps = Steps()
            service = TriageService(rig.deps(_Stepped(rig.store, steps)), rig.keeper(), ())
            await service.act(ADA, row, wanted, taken._replace(resumed=True))
            turns = Counter(event.news.turn for event in await rig.store.timeline.of(row.id))
            assert turns[turn] == 1, (at, when, turns)
            done = [line for line in await rig.store.audit.read(9) if line.outcome == "done"]
            assert [entry.action for entry in done] == [f"triage-{deed}"]
    record_property("crash_points", len(points))
