"""Incidents with a real store, a real outbox, the sandbox's Slack and a recorded cluster, in virtual time."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field
from inspect import signature
from pathlib import Path
from typing import Any

from bot.errors import SourceError
from bot.kube.recording.recorded_cluster import RecordedCluster
from bot.settings.oncall import PagerDutySettings
from bot.slack.outbox import Outbox
from bot.slack.question_tasks import Work
from bot.store import Store, open_store
from bot.store.alerts import AlertRows
from bot.store.incidents import IncidentRow, IncidentRows
from bot.store.timeline import Timeline
from bot.texts import Texts
from bot.triage.routes import Route
from bot.triage.state import Act, Deed, IncidentTimes, act
from bot.triage.webhook import Alert
from handlers.deps import Deps
from handlers.oncall.calling import OncallPlan
from handlers.oncall.keeper import Keeper
from playbooks.playbook import Sources
from sandbox.slack import SlackServer, VirtualClock
from sandbox.slack.content import strings_of
from tests.changes.rig import Steps
from tests.oncall.scenes import busy_cluster
from tests.scenes import Scene, as_test
from tests.slack.outbox_support import ADA, ONCALL, START, Bot, a_bot, drain, outbox_of, seed

TERMS = IncidentTimes(rota=("U0ADA00001", "S0ONCALL01"))
PASS_S = 5.0


@dataclass
class Rig:
    """`down` is what reading the cluster raises."""

    bot: Bot
    store: Store
    recording: Path
    down: SourceError | None = None
    read: int = 0
    outbox: Outbox = field(init=False)

    def __post_init__(self) -> None:
        self.outbox = outbox_of(self.bot, self.store, owner="test")

    @property
    def now(self) -> float:
        return self.bot.clock.now()

    @contextlib.asynccontextmanager
    async def sources(self, cluster: str) -> AsyncGenerator[Sources]:
        del cluster
        self.read += 1
        if self.down:
            raise self.down
        yield Sources(RecordedCluster.open(self.recording))

    def deps(self, store: Any = None, outbox: Any = None) -> Deps:
        return Deps(
            gateway=self.bot.gateway,
            outbox=outbox or self.outbox,
            store=store or self.store,
            work=Work(self.store),
            open_sources=self.sources,
            clusters=(),
            channels={},
            say=Texts("en"),
            bot_user="U0BOT",
            now=self.bot.clock.now,
        )

    def keeper(
        self,
        owner: str = "one",
        steps: Steps | None = None,
        terms: IncidentTimes = TERMS,
        pagerduty: PagerDutySettings | None = None,
        *,
        threads_per_minute: int = 0,
        routes: tuple[Route, ...] = (),
    ) -> Keeper:
        """A process; with `steps` one that may be killed at any call of its store or outbox."""
        plan = OncallPlan(
            ONCALL,
            terms,
            (),
            "",
            owner,
            clock=self.bot.clock.now,
            pagerduty=pagerduty,
            threads_per_minute=threads_per_minute,
            routes=routes,
        )
        if steps is None:
            return Keeper(self.deps(), plan)
        return Keeper(self.stepped(steps), plan)

    def stepped(self, steps: Steps) -> Deps:
        """Of a process that may be killed at any call of its store or outbox."""
        return self.deps(_Store(self.store, steps), steps.of(self.outbox))

    async def send(self) -> None:
        """Lets the outbox say what it has, as slowly as Slack wants it."""
        await drain(self.store, self.bot.clock, self.outbox)

    async def passes(self, seconds: float, *keepers: Keeper, step_s: float = PASS_S) -> None:
        """Passes, and what they put is sent, for so long."""
        keepers = keepers or (self.keeper(),)
        end = self.now + seconds
        while True:
            await asyncio.gather(*(keeper.look() for keeper in keepers))
            await self.send()
            if self.now >= end:
                return
            await self.bot.clock.advance(min(step_s, max(end - self.now, 0.1)))

    async def opens(self, keeper: Keeper, *alerts: Alert, seconds: float = 5) -> IncidentRow:
        """The one incident that is open when the alerts were taken, and so much time passed."""
        await keeper.take(list(alerts))
        await self.passes(seconds, keeper, step_s=max(seconds / 2, PASS_S))
        [row] = await self.store.incidents.opened()
        return row

    async def acts(self, row: IncidentRow, deed: Deed, text: str = "", **more: Any) -> None:
        """Ada does that to the incident."""
        done = Act(deed, ADA, self.now, text, **more)
        await self.store.incidents.change(row.id, lambda incident, _: act(incident, done))

    def heads(self, channel: str = ONCALL) -> list[dict[str, Any]]:
        return [message for message in self._said(channel) if message.get("thread_ts") in (None, "", message["ts"])]

    def replies(self, head: dict[str, Any], channel: str = ONCALL) -> list[str]:
        return [
            text(message)
            for message in self._said(channel)
            if message.get("thread_ts") == head["ts"] and message["ts"] != head["ts"]
        ]

    def _said(self, channel: str = ONCALL) -> list[dict[str, Any]]:
        everything = self.bot.slack.workspace.everything(channel)
        return [
            message
            for only_for, message in everything
            if not only_for and message.get("bot_id") and "files" not in message
        ]


class _Store:
    """The store, of which every call about alerts, incidents and their timelines is a step."""

    def __init__(self, store: Store, steps: Steps) -> None:
        self._store = store
        self.alerts = steps.of(store.alerts)
        self.incidents = steps.of(store.incidents)
        self.timeline = steps.of(store.timeline)
        self.task_leases = steps.of(store.task_leases)
        self.digests = steps.of(store.digests)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def text(message: dict[str, Any]) -> str:
    return "\n".join(strings_of(message))


def pending(number: int = 0, pod: str = "", name: str = "GPUPodPending", status: str = "firing", **over: Any) -> Alert:
    """An alert about a pod of the cluster."""
    pod = pod or f"trainer-{number}"
    labels = {"alertname": name, "namespace": "ml", "pod": pod}
    given: dict[str, Any] = {
        "fingerprint": f"{name[:8]}{pod}".replace("-", ""),
        "starts_at": "2027-01-15T08:00:00Z",
        "status": status,
        "name": name,
        "level": "warning",
        "cluster": "",
        "namespace": "ml",
        "pod": pod,
        "node": "",
        "labels": labels,
        "annotations": {"summary": f"{pod} waits"},
    }
    return Alert(**{**given, **over})


@contextlib.asynccontextmanager
async def a_rig(database: str, recording: Path) -> AsyncGenerator[Rig]:
    async with (
        asyncio.timeout(180),
        SlackServer(clock=VirtualClock(START), seed=seed()) as slack,
        a_bot(slack) as bot,
        open_store(database, now=bot.clock.now) as store,
    ):
        yield Rig(bot, store, recording)


def with_rig(database: str, recording: Path, scene: Callable[[Rig], Awaitable[None]]) -> None:
    async def play() -> None:
        async with a_rig(database, recording) as rig:
            await scene(rig)

    asyncio.run(play())


def on_rig(cluster: int | Callable[[Path], Path], *, new: bool = False) -> Callable[[Scene], Callable[..., None]]:
    """The test is a scene at a rig, perhaps with a keeper, on whose cluster so many pods wait, or whose recording is
    made in the folder; with `new` its database is its own.
    """

    def run(database: Any, folder: Path, scene: Scene) -> None:
        async def play(rig: Rig) -> None:
            await scene(rig, *([rig.keeper()] if "keeper" in signature(scene).parameters else ()))

        recording = busy_cluster(folder, cluster) if isinstance(cluster, int) else cluster(folder)
        with_rig(database() if new else database, recording, play)

    return as_test(run, "new_database" if new else "database", "tmp_path")


_ALERTS = (AlertRows.take, AlertRows.silence, AlertRows.ignore, AlertRows.reconsider)
_INCIDENTS = (IncidentRows.sort, IncidentRows.change, IncidentRows.find_threads)
_MARKS = (IncidentRows.mark_shown, IncidentRows.mark_cause, IncidentRows.mark_proven, Timeline.mark_told, Outbox.put)
WRITES = frozenset(write.__name__ for write in (*_ALERTS, *_INCIDENTS, *_MARKS))
"""The steps before which a killed process leaves something else behind."""


def files(rig: Rig) -> list[dict[str, Any]]:
    everything = rig.bot.slack.workspace.everything(ONCALL)
    return [file for only_for, message in everything if not only_for for file in message.get("files", [])]
