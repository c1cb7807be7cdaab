"""The bot's process, which is ended again and again and begins again at once."""

import asyncio
import contextlib
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random

from benchmarks.processes import ENVIRONMENT
from benchmarks.soak.place import Place

_LONGEST_LIFE_S = 120.0
"""Slack lets an app open few connections a minute: of a bot that began more often most deeds would find none."""
_ENDS_S = 60.0
"""More than the bot takes to end when it is told to."""
_CONNECTS_S = 120.0


class Lives:
    """Every process of the bot, one after the other. `ends` counts how they ended, `longest_end_s` is after SIGTERM."""

    def __init__(self, place: Place, random: Random) -> None:
        self._place = place
        self._random = random
        self._process: asyncio.subprocess.Process | None = None
        self._environment = {key: value for key, value in ENVIRONMENT.items() if not key.startswith("HAMI_BOT_")}
        self.started = 0
        self.ends: Counter[str] = Counter()
        self.peak_mb = 0.0
        self.longest_end_s = 0.0

    async def run(self, until: float) -> None:
        """Until that time.monotonic(); then the bot is left alone, and runs."""
        watching = asyncio.create_task(self._watch_memory())
        try:
            while time.monotonic() < until:
                await self._life(until)
        finally:
            watching.cancel()
        await self._begin()

    async def connected(self) -> None:
        """Waits until the bot is, in this life. Raises TimeoutError."""
        slack = self._place.slack
        await slack.wait_for(lambda: slack.connected, seconds=_CONNECTS_S)

    async def end(self) -> int:
        """Ends the last life as an orderly stop does; its exit code."""
        process = self._process
        if process is None:
            return 0
        if process.returncode is None:
            self._measure(process.pid)
            await self._told_to_stop(process)
        return process.returncode or 0

    async def kill(self) -> None:
        """Whatever happened, nothing of ours stays."""
        if self._process and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    async def _begin(self) -> asyncio.subprocess.Process:
        with self._place.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "bot", "serve", "--config", str(self._place.settings)),
                env=self._environment,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for us
            )
        self.started += 1
        return self._process

    async def _life(self, until: float) -> None:
        lasts_s = min(self._random.uniform(1, _LONGEST_LIFE_S), max(0.0, until - time.monotonic()))
        is_kill = self._random.random() < 2 / 3
        process = await self._begin()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), lasts_s)
            self.ends[f"by itself, exit code {process.returncode}"] += 1
            await asyncio.sleep(1)
            return
        self._measure(process.pid)
        if is_kill:
            process.kill()
            await process.wait()
            self.ends["SIGKILL"] += 1
        else:
            await self._told_to_stop(process)

    async def _told_to_stop(self, process: asyncio.subprocess.Process) -> None:
        began = time.monotonic()
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(process.wait(), _ENDS_S)
        except TimeoutError:
            process.kill()
            await process.wait()
            self.ends["SIGTERM, and it did not end"] += 1
            return
        self.longest_end_s = max(self.longest_end_s, time.monotonic() - began)
        self.ends["SIGTERM" if process.returncode == 0 else f"SIGTERM, exit code {process.returncode}"] += 1

    async def _watch_memory(self) -> None:
        while True:
            if self._process and self._process.returncode is None:
                self._measure(self._process.pid)
            await asyncio.sleep(1)

    def _measure(self, pid: int) -> None:
        """Linux only."""
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/status").read_text().splitlines():
                if line.startswith("VmHWM:"):
                    self.peak_mb = max(self.peak_mb, int(line.split()[1]) * 1024 / 1e6)
