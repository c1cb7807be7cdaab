"""A bot that could run: a Slack workspace, an API server with HAMi, and a settings file that names both."""

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from bot.texts import Texts
from handlers.cluster_choice import ClusterChoice, open_sources
from handlers.doctor.checks import examine
from handlers.doctor.links import Link, in_words
from playbooks.playbook import Sources
from sandbox.apiserver import ApiServer
from sandbox.slack import Seed, SlackServer
from tests.cases_support import CASES
from tests.chart import BOT, NAMESPACE, PROXYING, granted, manifests
from tests.slack.bot import staged

RECORDING = CASES / "hami-2.10" / "recording.tar.gz"


class World(NamedTuple):
    """The servers; `settings` may be changed before asking."""

    slack: SlackServer
    server: ApiServer
    folder: Path
    settings: dict[str, Any]

    async def doctor(self) -> list[Link]:
        """Every link."""
        config = self.folder / "hami-bot.yaml"
        config.write_text(yaml.safe_dump(self.settings, sort_keys=False))
        return in_words(await examine(ClusterChoice(config=config)), Texts("en"))

    def sources(self) -> AbstractAsyncContextManager[Sources]:
        """The cluster, as `lab` of the settings."""
        return open_sources(ClusterChoice(kubeconfig=self.folder / "kubeconfig"))

    async def link(self, name: str) -> Link:
        """The only link of that name."""
        (found,) = [link for link in await self.doctor() if link.name == name]
        return found


@asynccontextmanager
async def a_world(
    tmp_path: Path, seed: Seed | None = None, recording: Path = RECORDING, **server: Any
) -> AsyncGenerator[World]:
    """Everything is as it should be; the API server grants what the chart does for a bot that may change something."""
    rights = granted(manifests(PROXYING), BOT)
    async with (
        SlackServer(seed=seed or Seed()) as slack,
        ApiServer.from_recording(recording, granted=rights, **server) as api,
    ):
        (tmp_path / "kubeconfig").write_text(api.kubeconfig())
        settings: dict[str, Any] = {
            "clusters": {"lab": {"kubeconfig": str(tmp_path / "kubeconfig"), "lease_namespace": NAMESPACE}},
            "slack": {"api_url": slack.api_url, "bot_token": slack.bot_token, "app_token": slack.app_token},
            "access": {"operators": ["U0123ABCD"]},
            "http": {"bind": "127.0.0.1:1"},
            "store": {"url": f"sqlite+aiosqlite:///{tmp_path}/state.db"},
        }
        yield World(slack, api, tmp_path, settings)


in_a_world = staged(a_world)
