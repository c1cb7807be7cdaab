"""What people do to an incident, killed at every write of carrying it out: done once, and the person is told.

What was not done yet is the same for all deeds; what was done, each is to find again.
"""

from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from slack_bolt.app.async_app import AsyncApp

from bot.slack.question_tasks import Work
from bot.store import Store, open_store
from bot.store.base import HOLDS_S
from bot.triage.state import Turn
from handlers.gate import Gate, Home
from handlers.inbox import Inbox
from handlers.oncall.calling import PRESSED, SUBMITTED
from handlers.oncall.digests import Digests
from handlers.oncall.listeners import register
from handlers.oncall.service import TriageService
from handlers.parsing.question import Question
from handlers.unfinished_work import Leftovers
from handlers.user_actions import Deed
from tests.changes.rig import When, crash_points
from tests.deeds.rig import KEY, Life
from tests.oncall.rig import Rig, a_rig, pending
from tests.oncall.scenes import busy_cluster
from tests.sampling import Sample
from tests.slack.outbox_support import ONCALL
from tests.stores import NewDatabase

pytestmark = pytest.mark.few(2)

ADA = "U0ADA00001"
DEEDS: dict[str, tuple[str, dict[str, str], Turn]] = {
    "note": (SUBMITTED, {"text": "isn't up: rebooted gpu-7"}, "noted"),
    "handover": (SUBMITTED, {"to": "U0GRACE001"}, "handed-over"),
    "mute": (SUBMITTED, {"mute": "2h"}, "muted"),
    "close": (SUBMITTED, {}, "closed"),
    "ack": (PRESSED, {}, "acknowledged"),
    "take": (PRESSED, {}, "taken"),
}


@asynccontextmanager
async def _a_desk(rig: Rig, life: Life, own: Store | None = None) -> AsyncGenerator[Inbox]:
    """One process, of which every write is a step. `own`: what it has of the store, else the rig's."""
    store = life.of(own or rig.store)
    deps = rig.deps(store, life.of(rig.outbox))
    deps = replace(deps, gateway=life.of(rig.bot.gateway), work=Work(store, deed_s=60))
    inbox = Inbox(deps)
    register(AsyncApp(name="test", token="xoxb-test"), inbox, TriageService(deps, rig.keeper(), ()), Digests(deps))
    yield inbox
    assert (await deps.work.drain(60)).lost == 0 or life.dead


async def _acted(rig: Rig, deed: str, life: Life, own: Store | None = None) -> str:
    """The incident whose form or button a process took."""
    row = await rig.opens(rig.keeper(), pending(0))
    kind, typed, _ = DEEDS[deed]
    details: Any = {"deed": deed, "incident": row.id, **typed}
    asked = Question("", ADA, ONCALL, rig.now, beside=True)
    async with _a_desk(rig, life, own) as inbox:
        known = inbox.kinds.read(KEY, Deed(kind, asked, msgspec.Raw(msgspec.json.encode(details))))
        assert known
        await inbox.do(KEY, known[0], asked, known[1].details)
    return row.id


def _told(rig: Rig) -> int:
    return sum(only_for == ADA for only_for, _ in rig.bot.slack.workspace.everything(ONCALL))


async def _killed(rig: Rig, database: str, deed: str, at: int, when: When) -> None:
    life = Life(at, when)
    async with open_store(database, now=rig.bot.clock.now) as own:  # who dies is another than who takes it over
        incident = await _acted(rig, deed, life, own)
    assert life.dead
    await rig.bot.clock.advance(200)
    await rig.store.hold()  # a process judges the silence of others from its first beat on
    await rig.bot.clock.advance(HOLDS_S)
    kept = bool(await rig.store.unfinished())
    async with _a_desk(rig, Life()) as inbox:
        home = Home(frozenset({rig.bot.slack.workspace.seed.team_id}))
        await Leftovers(inbox, Gate(inbox.deps, home)).resume()
    place, was_told = (deed, at, when), "ephemeral" in life.names[: at + (when == "after")]
    turns = Counter(event.news.turn for event in await rig.store.timeline.of(incident))
    audited = Counter((line.action, line.outcome) for line in await rig.store.audit.read(9))
    is_done = at > 0 or when == "after"
    assert turns[DEEDS[deed][2]] == is_done, place
    assert audited[f"triage-{deed}", "done"] == is_done, place
    assert is_done <= _told(rig) <= is_done + was_told, place
    assert kept or not is_done or life.names[at] == "done_all", place
    assert await rig.store.unfinished() == [], place


@pytest.mark.parametrize("deed", DEEDS)
async def test_killed_at_any_write_a_deed_is_done_once_and_told(
    deed: str, new_database: NewDatabase, tmp_path: Path, record_property: Callable[[str, object], None], sample: Sample
) -> None:
    recording = busy_cluster(tmp_path / "cluster", 4)
    life = Life()
    async with a_rig(new_database(), recording) as rig:
        await _acted(rig, deed, life)
        assert _told(rig) == 1
    every, done = crash_points(life.names), life.names.index("change")
    points = sample(every if deed == "note" else every[done : done + 2], 1)
    for at, when in points:
        database = new_database()
        async with a_rig(database, recording) as rig:
            await _killed(rig, database, deed, at, when)
    record_property("crash_points", len(points))
