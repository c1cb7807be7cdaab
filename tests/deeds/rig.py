"""A bot without listeners, clock and sender, that is killed at any of its writes; another one goes on.

A step is a write to the store, to the outbox, to Slack or to the cluster. What a process had read is gone with it, so
after one write is before the next.
"""

import asyncio
import contextlib
import inspect
import json
import sqlite3
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from slack_bolt.app.async_app import AsyncApp

from bot.changes.plan import annotation, unfinished_rollout
from bot.kube.client.connect import open_cluster, open_writer
from bot.kube.client.live import LiveCluster
from bot.kube.client.responses import ServerClock
from bot.settings.schema import AccessSettings, ProfileSettings, Settings
from bot.slack.calls import open_client
from bot.slack.gateway import Gateway
from bot.slack.outbox import Outbox
from bot.slack.question_tasks import Work
from bot.store import Store, open_store
from bot.texts import Texts
from bot.triage.state import IncidentTimes
from handlers import home, question_listeners
from handlers.changes import listeners as changes
from handlers.changes.service import ChangeService
from handlers.changes.setup import ChangeDeps, ChangeSupervisor
from handlers.deps import Deps
from handlers.gate import Gate, Home
from handlers.inbox import Inbox
from handlers.oncall import listeners as triage
from handlers.oncall.calling import OncallPlan
from handlers.oncall.digests import Digests
from handlers.oncall.keeper import Keeper
from handlers.oncall.service import TriageService
from handlers.parsing.question import Question
from handlers.profiles import service as profiling
from handlers.profiles.service import ProfileService
from handlers.unfinished_work import Leftovers
from handlers.user_actions import Deed
from playbooks.playbook import Sources
from sandbox.apiserver import ApiServer
from sandbox.slack import SlackServer
from sandbox.slack.content import strings_of
from tests.changes.rig import CountedWriter, Killed, When
from tests.slack.bot import RECORDING
from tests.slack.changing import ADA, LINUS, NAME, NAMESPACE, QUICK, ROOM
from tests.stores import new_store

BY_ONE = AccessSettings(operators=(ADA, LINUS), approvers=(LINUS,))
BY_TWO = BY_ONE.model_copy(update={"two_person": True})
KEY = "trigger-1"
"""Of the delivery whose deed is tried."""
UNDERWAY = 200.0
"""Seconds after which nobody is at a change any more that a killed process began."""
_PARTS = ("audit", "approvals", "facts", "digests", "incidents", "profiles")
_READS = {
    "get", "read", "opened", "known", "wanted", "left", "listed", "content", "last", "is_added", "asked_for", "thread",
    "unfinished", "find", "head", "members", "identity", "person", "fit", "deployment", "pods_of", "takes_verbosity",
    "stage", "shared", "heads", "settled", "of_thread", "look_into", "ask_time", "count_requests", "is_news",
    "to_look_after",
}  # fmt: skip


class Life:
    """Counts the writes of one process, and kills it before one of them or after: then it takes no other step."""

    def __init__(self, at: int | None = None, when: When = "before") -> None:
        self.names: list[str] = []
        self.dead = False
        self._at, self._when = at, when

    def of(self, thing: Any) -> Any:
        return _Stepped(thing, self)

    async def take(self, name: str, step: Callable[[], Awaitable[Any]]) -> Any:
        if self.dead:
            raise Killed
        if name in _READS:
            return await step()
        number = len(self.names)
        self.names.append(name)
        if number == self._at and self._when == "before":
            self._end()
        result = await step()
        if self.dead:  # meanwhile
            raise Killed
        if number == self._at:
            self._end()
        return result

    def _end(self) -> None:
        self.dead = True
        raise Killed


class _Stepped:
    def __init__(self, thing: Any, life: Life) -> None:
        self._thing, self._life = thing, life

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._thing, name)
        if name in _PARTS:
            return self._life.of(value)
        if name == "changes":
            return lambda cluster: self._life.of(value(cluster))
        if not inspect.iscoroutinefunction(value):
            return value
        return lambda *args, **kwargs: self._life.take(name, lambda: value(*args, **kwargs))


class _Unannounced:
    """The outbox, which posts no announcement: that comes once an answer takes a second, so on a busy machine only, and
    every life is to write the same.
    """

    def __init__(self, outbox: Any) -> None:
        self._outbox = outbox

    def __getattr__(self, name: str) -> Any:
        return getattr(self._outbox, name)

    async def put(self, *given: Any, **more: Any) -> None:
        if more.get("fact", given) is not None:  # `ChannelReply` says of each message which fact is kept with it
            await self._outbox.put(*given, **more)


class Bot(NamedTuple):
    """One process."""

    inbox: Inbox
    leftovers: Leftovers
    change: ChangeService
    here: ChangeSupervisor
    deps: Deps
    life: Life

    async def does(self, kind: str, asked: Question, details: Any = None, *, key: str = KEY) -> None:
        """What Slack delivered is taken and carried out, as far as this process gets."""
        known = self.inbox.kinds.read(key, Deed(kind, asked, msgspec.Raw(msgspec.json.encode(details or {}))))
        assert known is not None
        await self.inbox.do(key, known[0], asked, known[1].details)
        await self.ended()

    async def ended(self) -> None:
        for _ in range(2):  # what ends may have asked something
            assert (await self.deps.work.drain(60)).lost == 0 or self.life.dead

    async def resumes(self) -> None:
        await self.leftovers.resume()
        await self.ended()


@dataclass(kw_only=True)
class Place:
    """A workspace beside a cluster, and a clock; each case begins with a database of its own, and the Deployment as it
    was. The bot's clock is ahead of the API server's by `skew_s`.
    """

    slack: SlackServer
    cluster: LiveCluster
    writer: CountedWriter
    gateway: Gateway
    folder: Path
    before: Any = None
    ahead_s: float = 0.0
    skew_s: float = 0.0
    number: int = 0
    database: Path = field(default_factory=Path)
    shown: int = 0

    @property
    def room(self) -> str:
        return self.slack.workspace.channel_id(ROOM)

    def now(self) -> float:
        return time.time() + self.ahead_s + self.skew_s

    def asked(self, words: str = "", user: str = ADA, **more: Any) -> Question:
        about = {"channel": self.room, "asked_at": self.now(), "beside": True, **more}
        return Question(words, user, **about)

    @asynccontextmanager
    async def bot(
        self,
        access: AccessSettings = BY_ONE,
        life: Life | None = None,
        store_of: Callable[[Store], Any] = lambda store: store,
        deed_s: float = 60,
    ) -> AsyncGenerator[Bot]:
        """All but its listeners, its clock and what sends; with a `life` that ends it may be killed."""
        life = life or Life()

        @asynccontextmanager
        async def sources(_: str) -> AsyncGenerator[Sources]:
            yield Sources(self.cluster, ports=self.cluster)

        @asynccontextmanager
        async def writing(_: str) -> AsyncGenerator[Any]:
            yield life.of(self.writer)

        async def capture(_cluster: str, _found: object, out: Path) -> str:
            async def write() -> str:
                out.write_bytes(b"kept")  # noqa: ASYNC240  # a few bytes
                return "captured"

            return await life.take("capture", write)

        settings = Settings(access=access)
        async with open_store(f"sqlite:///{self.database}", alone=True, now=self.now) as opened:
            store = store_of(life.of(opened))
            deps = Deps(
                gateway=life.of(self.gateway),
                outbox=_Unannounced(life.of(Outbox(opened, self.gateway))),
                store=store,
                work=Work(store, deed_s=deed_s),
                open_sources=sources,
                clusters=(),
                channels={},
                say=Texts("en"),
                bot_user="",
                now=self.now,
            )
            here = ChangeSupervisor(settings, (), sources, ChangeDeps(writing, capture), self.now)
            change, inbox = here.begin(deps), Inbox(deps)
            digests, listening = Digests(deps), AsyncApp(name="test", token="xoxb-test")
            profiling.register(listening, inbox, ProfileService(inbox, ProfileSettings()))
            changes.register(listening, inbox, change)
            keeper = Keeper(deps, OncallPlan(self.room, IncidentTimes(), (), "", "test"))
            triage.register(listening, inbox, TriageService(deps, keeper, ()), digests)
            question_listeners.register(listening, inbox, ())
            home.register(listening, inbox, change.access, None)
            gate = Gate(deps, Home(frozenset({self.slack.workspace.seed.team_id})))
            yield Bot(inbox, Leftovers(inbox, gate), change, here, deps, life)

    async def new_case(self) -> None:
        self.number += 1
        self.database = self.folder / f"{self.number}.db"
        new_store(self.database)
        self.ahead_s = self.skew_s = 0.0
        self.before = self.before or (await self.live())["spec"]
        await self.rolled_out()
        self.writer.template_writes = 0
        self.shown = len(self.said())

    async def rolled_out(self) -> None:
        async with asyncio.timeout(180):
            while unfinished_rollout(await self.live()):  # noqa: ASYNC110  # only the cluster can tell
                await asyncio.sleep(0.005)

    async def live(self) -> dict[str, Any]:
        return await self.writer.deployment(NAMESPACE, NAME)

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        with contextlib.closing(sqlite3.connect(self.database)) as connection:
            return connection.execute(statement).fetchall()

    async def record(self) -> dict[str, Any] | None:
        return json.loads(annotation(await self.live()) or "null")

    async def goes_on(self, *at: float) -> None:
        """Another process makes its passes so many seconds after the beginning."""
        async with self.bot(BY_TWO) as bot:
            writable = await bot.here.writable("")
            for moment in at:
                self.ahead_s = moment
                await writable.changer.passes.reconcile()
                await bot.change.approving.look_after()

    def change(self, statement: str) -> None:
        with contextlib.closing(sqlite3.connect(self.database)) as connection, connection:
            connection.execute(statement)

    def is_kept(self) -> bool:
        """Whether the store has the deed: only then was Slack told that it was taken."""
        return bool(self.rows(f"select 1 from seen where key = '{KEY}'"))

    def audited(self) -> Counter[tuple[str, str]]:
        return Counter(self.rows("select action, outcome from audit where outcome != 'requested'"))

    def told(self, user: str = ADA) -> list[str]:
        """What that person alone was told since the case began."""
        return ["\n".join(strings_of(one)) for only, one in self.said()[self.shown :] if only == user]

    def answers(self) -> dict[str, str]:
        """What waits to be sent, by its key."""
        return {
            key: "\n".join(strings_of(json.loads(one))) for key, one in self.rows("select key, content from outbox")
        }

    def said(self) -> list[tuple[str, dict[str, Any]]]:
        return list(self.slack.workspace.everything(self.room))


@asynccontextmanager
async def a_place(folder: Path) -> AsyncGenerator[Place]:
    now = datetime.now(UTC)  # noqa: TID251  # a pretended cluster of today
    places: list[Place] = []

    def ahead_s() -> float:
        return places[0].ahead_s if places else 0.0

    def clock() -> datetime:
        return datetime.now(UTC) + timedelta(seconds=ahead_s())  # noqa: TID251  # as above

    async with AsyncExitStack() as stack:
        slack = await stack.enter_async_context(SlackServer(deadline_s=60))
        of_today = ApiServer.from_recording(RECORDING, shift_to=now, timing=QUICK, clock=clock)
        server = await stack.enter_async_context(of_today)
        config = folder / "kubeconfig"
        config.write_text(server.kubeconfig())
        cluster = await stack.enter_async_context(await open_cluster(kubeconfig=config))
        writer = await stack.enter_async_context(await open_writer(kubeconfig=config))
        gateway = Gateway(*await stack.enter_async_context(open_client(slack.api_url, slack.bot_token)))
        writer.clock = ServerClock(lambda: time.monotonic() + ahead_s())
        counted = CountedWriter(writer)
        places.append(Place(cluster=cluster, writer=counted, gateway=gateway, slack=slack, folder=folder))
        yield places[0]
