"""A process of the bot that is killed while it works, and started again on the same store."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp

from bot.store import Store, open_store
from sandbox.slack import SlackServer
from tests.oncall.bot import World

ROOT = Path(__file__).parents[2]
LATER_S = 400.0
"""So much later the next life begins: what the killed one had claimed has lapsed."""


@contextlib.contextmanager
def forked() -> Generator[subprocess.Popen[str]]:
    """What lives are forked from: what it imports takes longer than a life."""
    arguments, pipe = (sys.executable, "-m", "tests.oncall.killed_process"), subprocess.PIPE
    with subprocess.Popen(arguments, cwd=ROOT, stdin=pipe, stdout=pipe, text=True) as process:
        yield process


class Process:
    """The one that lives are forked from; one life at a time."""

    def __init__(self, process: subprocess.Popen[str], told: dict[str, Any]) -> None:
        self._process = process
        self._told = told
        self._starts_at = time.time()
        """The first life has Slack's time: were its clock minutes ahead, it would not find its own messages."""

    @contextlib.asynccontextmanager
    async def life(self, slack: SlackServer, session: aiohttp.ClientSession) -> AsyncGenerator["Life"]:
        began = time.time()
        life = await self.begin(slack, session, starts_at=self._starts_at)
        try:
            yield life
        except BaseException:
            await self.ended(life, signal.SIGKILL)  # else whoever forked it would wait for it
            raise
        self._starts_at += self._told["speed"] * (time.time() - began) + LATER_S

    async def begin(self, slack: SlackServer, session: aiohttp.ClientSession, **told: Any) -> "Life":
        """A life that whoever began it has to end."""
        assert self._process.stdin
        self._process.stdin.write(json.dumps(self._told | told) + "\n")
        self._process.stdin.flush()
        begun: dict[str, Any] = await self._line()
        assert isinstance(begun, dict), begun
        return Life(begun["pid"], World(slack, begun["url"], session))

    async def ended(self, life: "Life", how: signal.Signals) -> int:
        """Sends the signal; the exit status, negative for a signal."""
        os.kill(life.pid, how)
        return await self._line()

    async def _line(self) -> Any:
        assert self._process.stdout
        return json.loads(await asyncio.to_thread(self._process.stdout.readline))


class Life(NamedTuple):
    pid: int
    world: World


class Scene(NamedTuple):
    """Slack, the store of all lives, and the process that they are lives of."""

    slack: SlackServer
    store: Store
    process: Process
    session: aiohttp.ClientSession

    def life(self) -> contextlib.AbstractAsyncContextManager[Life]:
        return self.process.life(self.slack, self.session)


@contextlib.asynccontextmanager
async def lives(
    forking: subprocess.Popen[str], database: str, recording: Path, speed: float = 30.0
) -> AsyncGenerator[Scene]:
    """What a life is told; its time passes `speed` times as fast."""
    async with (
        asyncio.timeout(180),
        SlackServer(deadline_s=60) as slack,
        aiohttp.ClientSession() as session,
        open_store(database) as store,
    ):
        told = {"api_url": slack.api_url, "bot_token": slack.bot_token, "app_token": slack.app_token}
        process = Process(forking, told | {"store": database, "recording": str(recording), "speed": speed})
        yield Scene(slack, store, process, session)
