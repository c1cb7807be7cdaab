"""The real bot in this process, the sandbox's Slack before it, a recorded cluster behind it."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import SecretStr

from bot.kube.recording import RecordedCluster
from bot.serve import running
from bot.settings.schema import HttpSettings, Settings, SlackSettings, StoreSettings
from playbooks._playbook import Sources
from sandbox.slack import SlackServer

RECORDING = Path(__file__).parents[1] / "cases" / "hami-2.10" / "recording.tar.gz"
POD = "s03-card-insufficient-memory"
VERDICT = "No usable card of gpu-node-09, gpu-node-10 has 20,000 MiB free"

Mode = Literal["socket", "http"]


class Here(NamedTuple):
    """The workspace, and the address of the bot's own port."""

    slack: SlackServer
    address: str


def settings(slack: SlackServer, folder: Path, mode: Mode = "socket", **over: str) -> Settings:
    """The bot's settings for that workspace; `over` replaces values of its Slack part."""
    words = {
        "mode": mode,
        "bot_token": slack.bot_token,
        "app_token": slack.app_token if mode == "socket" else "",
        "signing_secret": slack.signing_secret if mode == "http" else "",
        "api_url": slack.api_url,
    }
    return Settings(
        slack=SlackSettings(**{**words, **over}),
        http=HttpSettings(bind="127.0.0.1:0"),
        store=StoreSettings(url=SecretStr(f"sqlite+aiosqlite:///{folder / 'bot.db'}")),
    )


@asynccontextmanager
async def recorded(cluster: str) -> AsyncGenerator[Sources]:
    """The recorded cluster, whatever name is asked for."""
    del cluster
    yield Sources(RecordedCluster.open(RECORDING))


@asynccontextmanager
async def a_bot(folder: Path, mode: Mode = "socket", *, opener=recorded, slack: SlackServer | None = None):
    """A bot that is connected to a workspace, both gone at the end."""
    async with slack or SlackServer() as server:
        wanted = settings(server, folder, mode)
        async with running(wanted, wanted.slack, opener) as address:
            if mode == "http":
                server.delivery = "http"
                server.request_url = f"{address}/slack/events"
            yield Here(server, address)
