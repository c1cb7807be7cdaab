"""The bot as a process of its own, before the sandbox's Slack in this one, behind it a recorded cluster."""

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import takewhile
from pathlib import Path
from typing import Literal, NamedTuple

from benchmarks.processes import ENVIRONMENT, HAMI_BOT
from benchmarks.recorded_why import POD, RECORDING
from sandbox.slack import SlackServer

Mode = Literal["socket", "http"]

QUESTION = f"why {POD}"
_CHANNEL, _USER = "gpu-oncall", "ada"
_STALLED_S = 60.0


class Acks(NamedTuple):
    """How the commands were taken: one latency in ms for each that was acknowledged, and how many were answered."""

    sent: int
    latencies_ms: list[float]
    answered: int
    seconds: float


class Bot(NamedTuple):
    """The bot's process and the workspace it is connected to."""

    slack: SlackServer
    pid: int

    def rss_mb(self) -> float:
        """What it holds now. Linux only."""
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6

    def cpu_s(self) -> float:
        """What it has used so far, on all cores. Linux only."""
        spent = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        return sum(map(int, spent)) / os.sysconf("SC_CLK_TCK")

    async def commands(self, count: int, in_flight: int) -> Acks:
        """Asks `count` times, never with more than `in_flight` questions that wait for their answer."""
        free = asyncio.Semaphore(in_flight)
        answers = _Answers(self.slack, free)
        latencies: list[float] = []

        async def ask() -> None:
            ack = await self.slack.command(_USER, _CHANNEL, QUESTION)
            if ack.ok:
                latencies.append(ack.latency_ms)

        started = time.perf_counter()
        listening = asyncio.create_task(answers.all(count))
        async with asyncio.TaskGroup() as group:
            for _ in range(count):
                async with asyncio.timeout(_STALLED_S):
                    await free.acquire()
                group.create_task(ask())
        await listening
        return Acks(count, latencies, answers.seen, time.perf_counter() - started)


class _Answers:
    """Counts what comes back over response URLs, progress aside, and lets another question go for each."""

    def __init__(self, slack: SlackServer, free: asyncio.Semaphore) -> None:
        self._slack = slack
        self._free = free
        self._read_to = slack.journal.entries[-1].id if slack.journal.entries else 0
        self.seen = 0

    async def all(self, count: int) -> None:
        """Until so many came, or none for a minute."""
        while self.seen < count:
            before = self.seen
            try:
                await self._slack.wait_for(lambda: self._look() and self.seen >= count, seconds=_STALLED_S)
            except TimeoutError:
                if self.seen == before:
                    return

    def _look(self) -> bool:
        entries = self._slack.journal.entries
        new = list(takewhile(lambda entry: entry.id > self._read_to, reversed(entries)))
        for entry in new:
            if entry.kind == "response_url" and entry.ok and entry.request.get("blocks"):
                self.seen += 1
                self._free.release()
        self._read_to = entries[-1].id if entries else 0
        return True


@asynccontextmanager
async def a_bot(mode: Mode) -> AsyncGenerator[Bot]:
    """A connected bot. The workspace refuses nothing for being too much: no rate limits, no block rules."""
    with tempfile.TemporaryDirectory() as folder:
        async with SlackServer(strict=False, delivery=mode) as slack:
            process = await asyncio.create_subprocess_exec(
                *(*HAMI_BOT, "serve", "--recording", str(RECORDING)),
                env=ENVIRONMENT | _settings(slack, mode, Path(folder)),
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
            )
            assert process.stderr
            address = await _ready(process.stderr)
            unread = asyncio.create_task(_drain(process.stderr))
            try:
                slack.request_url = f"{address}/slack/events"
                yield Bot(slack, process.pid)
            finally:
                process.terminate()
                await process.wait()
                await unread


def _settings(slack: SlackServer, mode: Mode, folder: Path) -> dict[str, str]:
    given = {
        "SLACK__MODE": mode,
        "SLACK__BOT_TOKEN": slack.bot_token,
        "SLACK__APP_TOKEN": slack.app_token,
        "SLACK__SIGNING_SECRET": slack.signing_secret,
        "SLACK__API_URL": slack.api_url,
        "HTTP__BIND": "127.0.0.1:0",
        "STORE__URL": f"sqlite+aiosqlite:///{folder / 'bot.db'}",
    }
    return {f"HAMI_BOT_{name}": value for name, value in given.items()}


async def _ready(said: asyncio.StreamReader) -> str:
    lines: list[str] = []
    while line := (await said.readline()).decode():
        lines.append(line)
        if "ready at " in line:
            return line.rpartition("ready at ")[2].strip()
    sys.exit(f"the bot did not start:\n{''.join(lines)}")


async def _drain(said: asyncio.StreamReader) -> None:
    """What is not read fills the pipe, and the bot waits; what sounds wrong is worth a look."""
    while line := (await said.readline()).decode():
        if " ERROR " in line or " WARNING " in line:
            print(line, end="", file=sys.stderr)
