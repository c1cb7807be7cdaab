"""The bot cannot hear or tell: /readyz says so, and whoever is left is told once, and when it is over."""

import asyncio
import contextlib
import sqlite3
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
from msgspec.structs import replace

from bot.errors import SourceError
from bot.health import HealthFacts, judge
from bot.kube.watch.cache import CachedCluster
from bot.main import running
from bot.settings.oncall import OncallSettings
from bot.settings.schema import AccessSettings
from bot.slack.message import Message
from bot.texts import Texts
from handlers.health_monitor import HealthMonitor, Watched
from playbooks.playbook import Sources
from sandbox.apiserver import Rule
from sandbox.slack import Fault, Seed, SlackServer
from tests.cases_support import CASES
from tests.kube.cache_lab import QUICK, lab
from tests.oncall.bot import BEARER, CHANNEL, GIVEN, ROOM, webhook
from tests.oncall.rig import Rig, on_rig, with_rig
from tests.scenes import as_test
from tests.slack.bot import PATIENT, Gated, recorded, settings
from tests.slack.outbox_support import ADA, BUDGET, GENERAL, seed, texts

ELSEWHERE = AccessSettings(channels=(GENERAL,))
ROTA = GIVEN.model_copy(update={"rota": (ADA,)})


@dataclass
class World:
    """A workspace, and the folder of the bot's store. `ahead_s` is how much later than here it is for the bot."""

    slack: SlackServer
    folder: Path
    ahead_s: float = 0.0
    address: str = ""
    session: aiohttp.ClientSession = field(init=False)

    @asynccontextmanager
    async def bot(self, oncall: OncallSettings = GIVEN, access: AccessSettings = ELSEWHERE) -> AsyncGenerator[None]:
        wanted = settings(self.slack, self.folder).model_copy(update={"oncall": oncall, "access": access})
        limits = replace(
            PATIENT,
            oncall=0.05,
            look_s=0.02,
            now=lambda: time.time() + self.ahead_s,
            clock=lambda: time.monotonic() + self.ahead_s,
        )
        async with (
            running(wanted, wanted.slack, recorded, limits) as self.address,
            aiohttp.ClientSession() as self.session,
        ):
            yield

    async def says(self, status: int, containing: str) -> None:
        """Waits until /readyz answers so."""
        while True:
            async with self.session.get(f"{self.address}/readyz") as answer:
                if answer.status == status and containing in await answer.text():
                    return

    async def is_well(self) -> None:
        while True:
            async with self.session.get(f"{self.address}/readyz") as answer:
                if (answer.status, await answer.text()) == (200, "ok\n"):
                    return

    async def post(self, body: Any) -> int:
        async with self.session.post(f"{self.address}/alerts/alertmanager", json=body, headers=BEARER) as answer:
            return answer.status

    def sql(self, *statements: str) -> None:
        with contextlib.closing(sqlite3.connect(self.folder / "bot.db", timeout=60)) as store, store:
            for statement in statements:
                store.execute(statement)

    def told(self, channel: str, containing: str) -> int:
        return len([message for message in self.slack.messages(channel, "ada") if containing in message["text"]])

    def leaves(self, room: str = ROOM) -> None:
        workspace = self.slack.workspace
        workspace.channels[workspace.channel_id(room)].members.remove(workspace.app.bot_user_id)

    def comes_back(self) -> None:
        workspace = self.slack.workspace
        workspace.channels[CHANNEL].members.append(workspace.app.bot_user_id)


def played(folder: Path, scene: Callable[[World], Awaitable[None]], begin: Seed | None = None) -> None:
    async def play() -> None:
        async with asyncio.timeout(180), SlackServer(seed=begin or seed(), deadline_s=60) as slack:
            await scene(World(slack, folder))

    asyncio.run(play())


# --------------------------------------------------------------------------------------------------------- channels


@as_test(played, "tmp_path")
async def test_a_channel_that_the_bot_is_no_member_of_is_told_of_in_another_and_so_is_its_end(world: World) -> None:
    world.leaves()
    async with world.bot():
        await world.slack.wait_for(channel="general", containing=f"the bot cannot post to <#{CHANNEL}>")
        await world.says(200, f"the bot cannot post to {CHANNEL}: conversations.history: Slack answered not_in_channel")
        world.comes_back()
        await world.slack.wait_for(channel="general", containing="hami-bot: resolved")
        await world.is_well()
        assert world.told("general", "the bot cannot post") == 2  # and in the message of its end


@as_test(played, "tmp_path")
async def test_a_channel_that_is_lost_while_the_bot_runs_is_told_of_when_something_is_posted_there(
    world: World,
) -> None:
    async with world.bot():
        await world.is_well()
        world.leaves()
        assert await world.post(webhook("s03-card-insufficient-memory", severity="critical")) == 200
        await world.slack.wait_for(channel="general", containing=f"the bot cannot post to <#{CHANNEL}>")


@as_test(played, "tmp_path")
async def test_where_no_channel_is_left_those_on_call_are_told_directly(world: World) -> None:
    world.leaves()
    async with world.bot(ROTA, AccessSettings()):
        room = world.slack.workspace.open_dm(ADA).id
        await world.slack.wait_for(channel=room, containing=f"the bot cannot post to <#{CHANNEL}>")


def test_a_public_channel_is_joined_if_the_scope_is_there(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        world.leaves()
        async with world.bot():
            bot = world.slack.workspace.app.bot_user_id
            await world.slack.wait_for(lambda: bot in world.slack.workspace.channels[CHANNEL].members)
            await world.is_well()
        assert world.told("general", "the bot cannot post") == 0

    played(tmp_path, scene, seed(scopes=(*seed().app.scopes, "channels:join")))


@as_test(played, "tmp_path")
async def test_a_trouble_that_lasts_is_not_told_again_after_a_restart(world: World) -> None:
    world.leaves()
    async with world.bot():
        await world.slack.wait_for(channel="general", containing="the bot cannot post")
    async with world.bot():
        await world.says(200, "the bot cannot post")
        looks = len(world.slack.journal.of("api", "auth.test"))
        await world.slack.wait_for(lambda: len(world.slack.journal.of("api", "auth.test")) > looks + 3)
    assert world.told("general", "the bot cannot post") == 1


# ------------------------------------------------------------------------------------------------ token, store, outbox


@as_test(played, "tmp_path")
async def test_a_token_that_is_refused_is_noticed_before_anything_is_to_be_said(world: World) -> None:
    async with world.bot():
        await world.is_well()
        revoked = world.slack.faults.append(Fault("revoked"))
        await world.says(503, "Slack refuses the bot token")
        world.slack.faults.remove(revoked)
        await world.is_well()


@as_test(played, "tmp_path")
async def test_a_store_that_refuses_writes_is_told_of_without_it(world: World) -> None:
    async with world.bot():
        await world.is_well()
        full = "BEGIN SELECT RAISE(FAIL, 'database or disk is full'); END"
        for table in ("marks", "outbox", "alerts", "seen"):
            for event in ("INSERT", "UPDATE"):
                name = f"full_{table}_{event}"
                await asyncio.to_thread(world.sql, f"CREATE TRIGGER {name} BEFORE {event} ON {table} {full}")
        await world.says(503, "database or disk is full")
        await world.slack.wait_for(channel=ROOM, containing="the store refuses writes")
        assert await world.post(webhook("trainer-0")) == 503
        for table in ("marks", "outbox", "alerts", "seen"):
            for event in ("INSERT", "UPDATE"):
                await asyncio.to_thread(world.sql, f"DROP TRIGGER full_{table}_{event}")
        over = await world.slack.wait_for(channel=ROOM, containing="hami-bot: the store takes writes again")
        assert over["text"] == ":white_check_mark: hami-bot: the store takes writes again."
        await world.is_well()
        assert world.told(ROOM, "the store refuses writes") == 1


def test_a_message_that_waits_for_long_is_told_of_elsewhere(tmp_path: Path) -> None:
    row = dict.fromkeys(("severity", "tried_version", "sent_version", "claimed_at", "sent_at"), "0")
    row |= dict.fromkeys(("thread_ts", "update_ts", "posted_channel", "posted_ts", "reason"), "''")
    row |= {"key": "'a'", "channel": f"'{BUDGET}'", "content": """'{"text": "x", "blocks": []}'""", "version": "1"}

    async def scene(world: World) -> None:
        async with world.bot():
            await world.is_well()
            others = {
                "state": "'sending'",
                "owner": "'another'",
                "lease_until": "9e9",
                "queued_at": str(time.time()),
            }
            waiting = row | others
            names, values = ", ".join(waiting), ", ".join(waiting.values())
            await asyncio.to_thread(world.sql, f"INSERT INTO outbox ({names}) VALUES ({values})")
            world.ahead_s = 400.0
            await world.slack.wait_for(
                channel=ROOM, containing=f"the oldest message that waits for <#{BUDGET}> is 7 min"
            )
            await world.says(200, f"the oldest message that waits for {BUDGET}")

    played(tmp_path, scene)


# --------------------------------------------------------------------------------------------------------- watchdog


def watchdog() -> dict[str, Any]:
    sent = webhook("none")
    sent["alerts"][0]["labels"] = {"alertname": "Watchdog", "severity": "none"}
    return sent


@as_test(played, "tmp_path")
async def test_alertmanager_that_is_not_heard_is_told_of_and_heard_again(world: World) -> None:
    async with world.bot(GIVEN.model_copy(update={"watchdog_minutes": 5})):
        assert await world.post(watchdog()) == 200
        await world.is_well()
        world.ahead_s = 400.0
        await world.slack.wait_for(channel=ROOM, containing="no Watchdog alert from Alertmanager for 7 min")
        await world.says(200, "no Watchdog alert")
        assert await world.post(watchdog()) == 200
        await world.slack.wait_for(channel=ROOM, containing="hami-bot: resolved")
        await world.is_well()


@as_test(played, "tmp_path")
async def test_watchdog_opens_no_incident_and_keeps_no_other_alert_from_it(world: World) -> None:
    async with world.bot(GIVEN.model_copy(update={"watchdog_minutes": 5})):
        both = webhook("s03-card-insufficient-memory")
        both["alerts"] += watchdog()["alerts"]
        assert await world.post(both) == 200
        await world.slack.wait_for(channel=ROOM, containing="s03-card-insufficient-memory")
        assert world.told(ROOM, "Watchdog") == 0


# ------------------------------------------------------------------------------------------- looks in virtual time

RECORDING = CASES / "hami-2.10" / "recording.tar.gz"
REFUSED = SourceError("GET /api/v1/pods: connection refused")
LOOK_S = 60.0
BLIND = "the bot is blind on the cluster (default): GET /api/v1/pods: connection refused"


@dataclass
class Looks:
    """What looks, at a bot whose cluster is down where the rig's is. `jumped_s`: how far its wall clock has jumped."""

    rig: Rig
    watched: Watched = Watched((GENERAL,))  # noqa: RUF009  # it is a constant
    jumped_s: float = 0.0

    def __post_init__(self) -> None:
        self.begin()

    def begin(self, sources: Callable[[str], Any] | None = None, patience_s: float = 60.0) -> None:
        """The process begins, for the first time or again."""
        deps = self.rig.deps()
        deps = replace(deps, open_sources=sources or deps.open_sources, now=lambda: self.rig.now + self.jumped_s)
        self.monitor = HealthMonitor(
            deps, self.watched, HealthFacts, "one", clock=self.rig.bot.clock.now, patience_s=patience_s
        )

    async def go_on(self, seconds: float, *, sends: bool = True) -> None:
        """Looks every minute for so long; what there is to say is said, unless nothing is to be sent."""
        for _ in range(int(seconds / LOOK_S)):
            await self.rig.bot.clock.advance(LOOK_S)
            await self.monitor.look()
            if sends:
                await self.rig.send()

    @property
    def told(self) -> list[str]:
        return texts(self.rig.bot, GENERAL)


def looked(folder: Path, scene: Callable[[Looks], Awaitable[None]], watched: Watched | None = None) -> None:
    async def play(rig: Rig) -> None:
        looks = Looks(rig, watched) if watched else Looks(rig)
        await looks.monitor.look()
        await scene(looks)

    with_rig(f"sqlite:///{folder / 'bot.db'}", RECORDING, play)


@as_test(looked, "tmp_path")
async def test_a_cluster_that_cannot_be_read_is_said_within_two_minutes_and_told_after_five_once(looks: Looks) -> None:
    looks.rig.down = REFUSED
    await looks.go_on(120)
    assert looks.monitor.notes() == f"{BLIND}\n"
    assert looks.monitor.why_not_ready() == ""
    await looks.go_on(120)
    assert looks.told == []
    await looks.go_on(1800)
    [blind] = looks.told
    assert BLIND in blind
    looks.rig.down = None
    await looks.go_on(600)
    assert looks.monitor.notes() == ""
    assert looks.told == [blind, f":white_check_mark: hami-bot: resolved: {BLIND}."]


@as_test(looked, "tmp_path")
async def test_a_cluster_that_is_away_for_less_than_five_minutes_is_told_nobody(looks: Looks) -> None:
    for _ in range(3):
        looks.rig.down = REFUSED
        await looks.go_on(240)
        looks.rig.down = None
        await looks.go_on(60)
    assert looks.told == []


@as_test(looked, "tmp_path")
async def test_a_process_that_is_started_while_it_is_blind_neither_repeats_nor_resolves_it(looks: Looks) -> None:
    looks.rig.down = REFUSED
    await looks.go_on(480)
    looks.begin()
    await looks.monitor.look()
    await looks.go_on(600)
    assert len(looks.told) == 1
    looks.begin()
    looks.rig.down = None
    await looks.go_on(60)
    await looks.go_on(60)
    assert len(looks.told) == 2


@as_test(looked, "tmp_path")
async def test_an_api_server_that_does_not_answer_is_as_good_as_none(looks: Looks) -> None:
    looks.begin(Gated().opener, patience_s=0.01)
    await looks.go_on(120)
    assert "no answer within" in looks.monitor.notes()


@on_rig(lambda _: RECORDING, new=True)
async def test_a_list_whose_watch_is_silent_is_read_and_one_that_cannot_be_read_is_told(
    rig: Rig, *, tmp_path: Path
) -> None:
    async with lab(tmp_path, pace=QUICK._replace(silence_s=0.001)) as here:

        @contextlib.asynccontextmanager
        async def watched_cluster(_: str) -> AsyncGenerator[Sources]:
            yield Sources(CachedCluster(here.cache))

        looks = Looks(rig)
        looks.begin(watched_cluster)
        await looks.go_on(120)
        assert looks.monitor.notes() == ""
        here.server.access.refused.append(Rule(["list"], ["nodes"]))
        await looks.go_on(60)
        assert "GET /api/v1/nodes?limit=500: HTTP 403" in looks.monitor.notes()


def test_a_wall_clock_that_jumps_makes_no_message_old_and_no_alertmanager_silent(tmp_path: Path) -> None:
    async def scene(looks: Looks) -> None:
        await looks.rig.outbox.put("waits", BUDGET, Message("waits"))
        await looks.go_on(60, sends=False)
        for hours in (3, -2, 5):
            looks.jumped_s += hours * 3600
            await looks.go_on(60, sends=False)
            assert looks.monitor.notes() == ""
        await looks.go_on(120, sends=False)
        assert "waits for C0BUDGET01 is 6 min old" in looks.monitor.notes()

    looked(tmp_path, scene, Watched((GENERAL,), watchdog_s=900.0))


# ---------------------------------------------------------------------------------------------------------- judgement


def test_only_what_could_neither_be_kept_nor_told_makes_the_bot_unready() -> None:
    facts = HealthFacts(
        stopped=True,
        token=True,
        deaf_s=31,
        store="full",
        closed={CHANNEL: "is_archived"},
        oldest_s=301,
        oldest_for=BUDGET,
        unheard_s=601,
        watchdog_s=600,
    )
    assert [(trouble.kind, trouble.is_unready) for trouble in judge(facts)] == [
        *(("stopped", True), ("token", True), ("deaf", True), ("store", True)),
        *(("channel", False), ("outbox", False), ("watchdog", False)),
    ]
    assert all(Texts("en").words(trouble.text) for trouble in judge(facts))


def test_nothing_is_wrong_at_the_limits() -> None:
    assert judge(HealthFacts(deaf_s=30, oldest_s=300, unheard_s=600, watchdog_s=600)) == []
    assert judge(HealthFacts(unheard_s=1e9)) == []
