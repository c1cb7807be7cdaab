"""The real bot with on-call: Slack before it, a recorded cluster behind it, alerts from the side."""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from msgspec.structs import replace
from pydantic import SecretStr

from bot.kube.recording.recorded_cluster import RecordedCluster
from bot.main import running
from bot.settings.oncall import OncallSettings
from bot.settings.schema import ClusterSettings
from playbooks.playbook import Sources
from sandbox.slack import SlackServer
from tests.oncall.rig import text
from tests.oncall.scenes import CAUSES, busy_cluster
from tests.scenes import Scene, as_test
from tests.slack.bot import PATIENT, settings
from tests.slack.changing import sent

CHANNEL, ROOM = "C0GPUONC01", "gpu-oncall"
TOKEN = "alert-token-7f3a"
GIVEN = OncallSettings(channel=CHANNEL, token=SecretStr(TOKEN))
BEARER = {"Authorization": f"Bearer {TOKEN}"}


@dataclass
class World:
    slack: SlackServer
    url: str
    session: aiohttp.ClientSession

    async def post(self, body: Any, headers: dict[str, str] | None = None) -> tuple[int, str]:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        async with self.session.post(
            f"{self.url}/alerts/alertmanager", data=data, headers=BEARER if headers is None else headers
        ) as answer:
            return answer.status, await answer.text()

    async def alert(self, *pods: str, status: str = "firing") -> None:
        assert await self.post(webhook(*pods, status=status)) == (200, "ok\n")

    async def head(self, containing: str) -> dict[str, Any]:
        return await self.slack.wait_for(lambda: next(iter(self._heads(containing)), None))

    def _heads(self, containing: str) -> list[dict[str, Any]]:
        return [
            message
            for message in self.slack.messages(ROOM, "ada")
            if message.get("bot_id") and containing in text(message)
        ]

    async def reply(self, head: dict[str, Any], containing: str) -> dict[str, Any]:
        return await self.slack.wait_for(channel=ROOM, containing=containing, thread_ts=head["ts"])

    async def told(self, user: str, containing: str) -> dict[str, Any]:
        """What one person alone is shown."""

        def look() -> dict[str, Any] | None:
            everything = self.slack.workspace.everything(self.slack.workspace.channel_id(ROOM))
            only = self.slack.workspace.user_id(user)
            return next((message for who, message in everything if who == only and containing in text(message)), None)

        return await self.slack.wait_for(look)

    async def thread_of(self, *pods: str) -> dict[str, Any]:
        """The head of the thread that an alert about these pods opens."""
        await self.alert(*pods)
        return await self.head(CAUSES[0])

    async def command(self, user: str, words: str, told: str) -> dict[str, Any]:
        """What the person alone is shown for the command."""
        await self.slack.command(user, ROOM, words)
        return await self.told(user, told)

    async def mention(self, user: str, words: str, told: str, head: dict[str, Any]) -> dict[str, Any]:
        """What the person alone is shown for words in the thread."""
        await self.slack.mention(user, ROOM, words, thread_ts=head["ts"])
        return await self.told(user, told)

    async def form(self, user: str, head: dict[str, Any], action: str) -> dict[str, Any]:
        """The form that a click opens."""
        await self.click(user, head, action)
        return (await self.slack.wait_for(lambda: self.slack.views(user) or None))[-1]

    async def click(self, user: str, head: dict[str, Any], action: str, **given: Any) -> None:
        await self.slack.click(user, f"triage:{action}", channel=ROOM, message_ts=head["ts"], **given)

    async def forged(
        self, user: str, head: dict[str, Any], action: str, value: str, room: str = ROOM, *, trigger: str = ""
    ) -> None:
        """A click that no button of the message makes; the same again is another one with another trigger."""
        who = {"id": self.slack.workspace.user_id(user)}
        pressed = {"type": "button", "block_id": "b", "action_id": action, "value": value, "action_ts": "1"}
        place = self.slack.workspace.channel_id(room)
        container = {"type": "message", "message_ts": head["ts"], "channel_id": place, "is_ephemeral": False}
        where = {"container": container, "channel": {"id": place}}
        await sent(
            self.slack, "block_actions", user=who, actions=[pressed], trigger_id=f"t{value}{action}{trigger}", **where
        )


def webhook(*pods: str, status: str = "firing", **labels: str) -> dict[str, Any]:
    alerts = [
        {
            "status": status,
            "labels": {"alertname": "GPUPodPending", "severity": "warning", "namespace": "ml", "pod": pod, **labels},
            "annotations": {"summary": f"{pod} waits"},
            "startsAt": "2026-11-21T05:00:00Z",
            "endsAt": "0001-01-01T00:00:00Z",
            "fingerprint": pod.encode().hex().rjust(16, "0")[-16:],
        }
        for pod in pods
    ]
    return {"version": "4", "groupKey": "{}", "status": status, "receiver": "hami-bot", "alerts": alerts}


def played(
    folder: Path,
    recording: Path,
    scene: Callable[[World], Awaitable[None]],
    given: OncallSettings | None = GIVEN,
    clusters: Mapping[str, ClusterSettings] = {},
) -> None:
    async def play() -> None:
        async with asyncio.timeout(180), a_world(folder, recording, given, clusters) as world:
            await scene(world)
            assert world.slack.unknown_methods == []

    asyncio.run(play())


def on_bot(pods: int, given: OncallSettings | None = GIVEN) -> Callable[[Scene], Callable[..., None]]:
    """The test is a scene with a started bot on whose cluster so many pods wait."""

    def run(folder: Path, scene: Scene) -> None:
        played(folder, busy_cluster(folder / "cluster", pods), scene, given)

    return as_test(run, "tmp_path")


@asynccontextmanager
async def a_world(
    folder: Path, recording: Path, given: OncallSettings | None, clusters: Mapping[str, ClusterSettings] = {}
) -> AsyncGenerator[World]:
    @asynccontextmanager
    async def recorded(cluster: str) -> AsyncGenerator[Sources]:
        del cluster
        yield Sources(RecordedCluster.open(recording))

    async with SlackServer(deadline_s=60) as slack, aiohttp.ClientSession() as session:
        wanted = settings(slack, folder).model_copy(update={"oncall": given, "clusters": dict(clusters)})
        limits = replace(PATIENT, oncall=0.05)
        async with running(wanted, wanted.slack, recorded, limits) as url:
            yield World(slack, url, session)
