"""The real bot with a pretended Slack before it and a pretended cluster behind it that rolls out and can be written to.

The time of day is the machine's and what is added to it, the cluster's too: nobody sleeps. The bot's clock may be wrong
by `skew_s`.
"""

import asyncio
import json
import time
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
from msgspec.structs import replace

from bot.changes.plan import KEY_PATH, unfinished_rollout
from bot.changes.record import KEY
from bot.kube.client.connect import open_cluster, open_writer
from bot.kube.client.responses import ServerClock
from bot.kube.client.writer import Writer
from bot.main import running
from bot.settings.oncall import OncallSettings
from bot.settings.schema import AccessSettings, HttpSettings
from bot.texts import Language
from handlers.changes.leader_pass import Pace
from handlers.changes.request import ChangeSnapshot
from handlers.changes.setup import ChangeDeps
from handlers.shell_commands import write_capture
from playbooks.playbook import Sources
from sandbox.apiserver import ApiServer, Timing
from sandbox.slack import SlackServer
from sandbox.slack.content import elements_of, strings_of
from tests.slack.bot import PATIENT, RECORDING, Mode, settings, staged
from tests.slack.deliveries import sent

ROOM = "gpu-oncall"
ADA, GRACE, LINUS, ONCALL = "U0ADA00001", "U0GRACE001", "U0LINUS001", "S0ONCALL01"
NAMESPACE, NAME = "hami-system", "hami-scheduler"
EXTENDER = "vgpu-scheduler-extender"
QUICK = Timing(ready_s=0.02, gone_s=0.01, lease_s=0.05)
ACCESS = AccessSettings(operators=(ADA,), approvers=(LINUS,))


@dataclass
class World:
    """What a scene needs: the workspace, the cluster, the bot's clock and its database."""

    slack: SlackServer
    cluster: ApiServer
    writer: Writer
    folder: Path
    ahead_s: float = 0.0
    skew_s: float = 0.0

    def now(self) -> float:
        return time.time() + self.ahead_s + self.skew_s

    async def deployment(self) -> dict[str, Any]:
        return await self.writer.deployment(NAMESPACE, NAME)

    async def words(self) -> list[str]:
        """The extender's words as they are."""
        containers = (await self.deployment())["spec"]["template"]["spec"]["containers"]
        return next(container["command"] for container in containers if container["name"] == EXTENDER)

    async def is_open(self) -> bool:
        return KEY in (await self.deployment())["metadata"].get("annotations", {})

    async def is_closed(self) -> bool:
        return not await self.is_open()

    async def record(self) -> dict[str, Any]:
        """The open change as it stands on the object."""
        return json.loads((await self.deployment())["metadata"]["annotations"][KEY])

    async def rewritten(self, record: dict[str, Any]) -> None:
        """Somebody writes another record."""
        value = json.dumps(record)
        await self.writer.patch_deployment(NAMESPACE, NAME, ({"op": "add", "path": KEY_PATH, "value": value},))

    async def until(self, holds: Callable[[], Awaitable[bool]]) -> None:
        """Asks the cluster until it is so: nothing in the workspace tells."""
        async with asyncio.timeout(180):
            while not await holds():  # noqa: ASYNC110
                await asyncio.sleep(0.02)

    async def passes(self) -> None:
        """Some passes are made."""
        begun = len(self.cluster.requests)

        async def made() -> bool:
            return sum(request.path == "/apis/apps/v1/deployments" for request in self.cluster.requests[begun:]) > 3

        await self.until(made)

    def cards(self, containing: str = "", user: str = "grace") -> list[dict[str, Any]]:
        """The messages of the channel, which everybody sees, that say so."""
        seen = self.slack.messages(ROOM, user)
        return [
            message
            for message in seen
            if containing in text_of(message) and not message.get("ephemeral") and message.get("bot_id")
        ]

    async def card(self, containing: str) -> dict[str, Any]:
        return (await self.slack.wait_for(lambda: self.cards(containing), seconds=180))[-1]

    async def told(self, user: str, containing: str, times: int = 1) -> dict[str, Any]:
        """What one person alone was told in the channel, so many times; the last one."""
        return (await self.slack.wait_for(lambda: self._told(user, containing)[times - 1 :], seconds=180))[-1]

    def _told(self, user: str, containing: str) -> list[dict[str, Any]]:
        seen = self.slack.messages(ROOM, user)
        return [message for message in seen if message.get("ephemeral") and containing in text_of(message)]

    async def audit(self) -> list[tuple[str, str, str]]:
        """(actor, action, outcome), the oldest first."""
        return [(row["actor"], row["action"], row["outcome"]) for row in await self.audit_rows()]

    async def audit_rows(self) -> list[dict[str, Any]]:
        return await asyncio.to_thread(self._rows, "select * from audit order by seq")

    async def sql(self, statement: str) -> None:
        await self.rows(statement)

    async def rows(self, statement: str) -> list[dict[str, Any]]:
        """What the bot's database answers."""
        return await asyncio.to_thread(self._rows, statement)

    def _rows(self, statement: str) -> list[dict[str, Any]]:
        import sqlite3

        connection = sqlite3.connect(self.folder / "bot.db", timeout=60)
        connection.row_factory = sqlite3.Row
        try:
            rows = [dict(row) for row in connection.execute(statement).fetchall()]
            connection.commit()
        finally:
            connection.close()
        return rows

    # ---------------------------------------------------------------------------------------------- people

    async def offered(self, words: str, user: str = "ada") -> dict[str, Any]:
        """The form that a command opens, once it shows what would be done: during a rollout it would refuse."""
        async with asyncio.timeout(180):
            while unfinished_rollout(await self.deployment()) is not None:  # noqa: ASYNC110  # only the Deployment can tell
                await asyncio.sleep(0.02)
        await self.slack.command(user, ROOM, words)

        def forms() -> list[dict[str, Any]]:
            return [view for view in self.slack.views(user) if view["callback_id"] == "change"]

        return (await self.slack.wait_for(forms, seconds=180))[-1]

    async def asked(self, words: str = "verbosity 5 for 30m", because: str = "trainer-0 hangs") -> None:
        """Ada asks for a change and confirms it."""
        await self.offered(words)
        await self.submit("ada", because)

    async def command(self, user: str, words: str, told: str, times: int = 1) -> dict[str, Any]:
        """What the person alone is shown for the command."""
        await self.slack.command(user, ROOM, words)
        return await self.told(user, told, times)

    async def mention(self, user: str, words: str, told: str, times: int = 1) -> dict[str, Any]:
        await self.slack.mention(user, ROOM, words)
        return await self.told(user, told, times)

    async def raised(self, words: str = "verbosity 5 for 30m", because: str = "trainer-0 hangs") -> dict[str, Any]:
        """The card of a change that ada asked for and confirmed."""
        await self.asked(words, because)
        return await self.card("In effect")

    async def submit(self, user: str, because: str) -> None:
        await self.slack.submit(user, {"because": {"text": {"type": "plain_text_input", "value": because}}})

    async def click(self, user: str, card: dict[str, Any], action: str, told: str = "", times: int = 1) -> Any:
        """What the person alone is shown then, where that is named."""
        await self.slack.click(user, action, channel=ROOM, message_ts=card["ts"])
        return await self.told(user, told, times) if told else None

    async def pressed(  # noqa: PLR0917  # a click and what it is told
        self, user: str, card: dict[str, Any], action: str, value: str, told: str, times: int = 1
    ) -> None:
        """What the person is told of a click as a client could make it up: of a button that stands there or not."""
        who = {"id": self.slack.workspace.user_id(user)}
        pressed = {"type": "button", "block_id": "b", "action_id": action, "value": value, "action_ts": "1"}
        room = self.slack.workspace.channel_id(ROOM)
        container = {"type": "message", "message_ts": card["ts"], "channel_id": room, "is_ephemeral": False}
        where = {"container": container, "channel": {"id": room}}
        await sent(self.slack, "block_actions", user=who, actions=[pressed], trigger_id=uuid.uuid4().hex, **where)
        await self.told(user, told, times)

    async def sent(self, user: str, kind: str, **given: Any) -> None:
        """Anything that Slack could deliver for that user."""
        await sent(self.slack, kind, user={"id": self.slack.workspace.user_id(user)}, **given)

    async def scheduler_is(self, *, ready: bool) -> None:
        """The scheduler's pods become ready, or are no longer, and the Deployment's status says so."""
        for name in await self.writer.pods_of(await self.deployment()):
            pod = self.cluster.object("pods", NAMESPACE, name)
            assert pod
            conditions = [condition for condition in pod["status"]["conditions"] if condition["type"] != "Ready"]
            pod["status"]["conditions"] = [*conditions, {"type": "Ready", "status": str(ready)}]
            self.cluster.write("pods", pod)

        async def is_told() -> bool:
            return (unfinished_rollout(await self.deployment()) is None) == ready

        await self.until(is_told)

    async def edited(self) -> None:
        """Somebody else adds a word to the extender's."""
        await self.reworded(lambda words: [*words, "--foreign=1"])

    async def reworded(self, change: Callable[[list[str]], list[str]]) -> None:
        """Somebody else edits the extender's words."""
        containers = (await self.deployment())["spec"]["template"]["spec"]["containers"]
        place = next(number for number, container in enumerate(containers) if container["name"] == EXTENDER)
        path, words = f"/spec/template/spec/containers/{place}/command", change(containers[place]["command"])
        await self.writer.patch_deployment(NAMESPACE, NAME, ({"op": "replace", "path": path, "value": words},))


def text_of(message: Any) -> str:
    return "\n".join(strings_of(message))


def actions(message: dict[str, Any]) -> dict[str, str]:
    """The values of the message's buttons by their action ids."""
    found = [
        element
        for block in message.get("blocks", [])
        for element in elements_of(block)
        if element.get("type") == "button"
    ]
    return {element["action_id"]: element.get("value", "") for element in found}


@staged
@asynccontextmanager
async def played(
    tmp_path: Path,
    *,
    mode: Mode = "socket",
    access: AccessSettings = ACCESS,
    timing: Timing = QUICK,
    usual: str = "",
    language: Language = "en",
) -> AsyncGenerator[World]:
    async with (
        asyncio.timeout(180),
        a_place(tmp_path, timing) as world,
        a_bot(world, mode, access, usual=usual, language=language),
    ):
        yield world
        assert world.slack.unknown_methods == []


@asynccontextmanager
async def a_place(folder: Path, timing: Timing = QUICK) -> AsyncGenerator[World]:
    """The workspace and the cluster, without a bot."""
    now = datetime.now(UTC)  # noqa: TID251  # a pretended cluster of today
    worlds: list[World] = []

    def clock() -> datetime:
        ahead_s = worlds[0].ahead_s if worlds else 0.0
        return datetime.now(UTC) + timedelta(seconds=ahead_s)  # noqa: TID251

    cluster_of = partial(ApiServer.from_recording, RECORDING, shift_to=now, timing=timing)
    async with SlackServer(deadline_s=60) as slack, cluster_of(clock=clock) as cluster:
        config = folder / "kubeconfig"
        config.write_text(cluster.kubeconfig())
        async with await open_writer(kubeconfig=config) as writer:
            worlds.append(World(slack, cluster, writer, folder))
            yield worlds[0]


@asynccontextmanager
async def a_bot(
    world: World,
    mode: Mode = "socket",
    access: AccessSettings = ACCESS,
    bind: str = "127.0.0.1:0",
    oncall: OncallSettings | None = None,
    *,
    usual: str = "",
    language: Language = "en",
) -> AsyncGenerator[None]:
    config = world.folder / "kubeconfig"

    @asynccontextmanager
    async def sources(cluster: str) -> AsyncGenerator[Sources]:
        async with await open_cluster(name=cluster, kubeconfig=config) as opened:
            yield Sources(opened)

    @asynccontextmanager
    async def writer(cluster: str) -> AsyncGenerator[Writer]:
        del cluster
        async with await open_writer(kubeconfig=config) as opened:
            opened.clock = ServerClock(lambda: time.monotonic() + world.ahead_s)
            yield opened

    async def capture(cluster: str, found: ChangeSnapshot, out: Path) -> str:
        async with sources(cluster) as opened:
            return await write_capture(opened, found, out)

    wanted = settings(world.slack, world.folder, mode).model_copy(
        update={"access": access, "http": HttpSettings(bind=bind), "oncall": oncall, "language": language}
    )
    limits = replace(PATIENT, now=world.now, pace=Pace(pass_s=0.5, again_s=0.2))
    async with running(
        wanted, wanted.slack, sources, limits, ChangeDeps(writer, capture, 180.0), usual=usual
    ) as address:
        if mode == "http":
            world.slack.delivery, world.slack.request_url = "http", f"{address}/slack/events"
        yield


TWO = AccessSettings(operators=(ADA,), approvers=(LINUS, GRACE), two_person=True)


async def readyz(bind: str) -> str:
    async with aiohttp.ClientSession() as session, session.get(f"http://{bind}/readyz") as answer:
        return await answer.text()
