"""`python -m benchmarks.soak.hours [--hours 6] [--commands 20000] [--seed N]`: one process of the bot for many hours.

Nothing kills it. People ask in rounds while nodes change all the time, and Slack and the API server fail. Between two
rounds, when every question is answered, the bot's clocks move on, so that hours pass in minutes: all its timers run as
often as in those hours. Exit code 1 when a question was not answered, when it holds more memory than after it was warm,
or when its tasks or connections grow in number.
"""

import argparse
import asyncio
import json
import os
import sys
import time
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from statistics import mean, median
from typing import Any, NamedTuple

from benchmarks.processes import ENVIRONMENT
from benchmarks.soak import seen
from benchmarks.soak.ending import run_and_exit
from benchmarks.soak.faults import Faults
from benchmarks.soak.place import PODS, ROOM, Place, a_place, person

EVENTS_PER_S = 500
_PEOPLE = 50
"""So many questions are asked in a round, each by another person."""
_STEP_S = 10.0
"""How far the clocks move at once: less than what makes a connection look dead that answers at once."""
_STEP_LASTS_S = 0.03
_PATIENCE_S = 120.0
_FAULTS_IN = 0.5
"""In how many of the rounds something fails."""
_WARM, _PART = 0.2, 0.1
"""After this share of the rounds the bot is warm; so much of them at that time and at the end is compared."""
_MOST_GROWTH = 0.05
_MOST_MORE = 2
"""Tasks and connections that may be more at the end by chance, such as one that is being closed."""
_TURN_S = 0.02
_LOOKS, _SENDS_S = 10, 15.0
"""Before what it holds is taken: a message that is on its way holds a task and a connection."""
_SENDING = "Outbox._drain"
_WORDS = (
    *(3 * [f"why ml/{pod}" for pod in PODS]),
    *(2 * ["nodes", "quota", "status", "fit 2x16Gi", "fit 4 --type T4", "logs ml/s06-wrong-gputype", "help why"]),
    *("pending", "gpus", "digest now", "latency", "wyh trainer", "why no-such-pod", "verbosity"),
)
_BEGUN = ("Looking at the cluster", "This takes a few seconds")


class Sample(NamedTuple):
    """What the process holds at a moment when nothing is asked."""

    rss_mb: float
    tasks: int
    descriptors: int
    threads: int


class Bot:
    """The process. Linux only."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.tasks: Counter[str] = Counter()

    async def forward(self, by_s: float) -> None:
        """Its clocks move on."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(f"{by_s}\n".encode())
        self.tasks = Counter(json.loads(await self._process.stdout.readline())["tasks"])

    async def sample(self) -> Sample:
        await self.forward(0)
        own = Path(f"/proc/{self._process.pid}")
        pages = int((own / "statm").read_text().split()[1])
        kept = len(list((own / "fd").iterdir()))
        threads = len(list((own / "task").iterdir()))
        return Sample(pages * os.sysconf("SC_PAGE_SIZE") / 1e6, sum(self.tasks.values()), kept, threads)

    async def end(self) -> int:
        assert self._process.stdin
        if self._process.returncode is None:
            self._process.terminate()
            self._process.stdin.close()
        return await self._process.wait()


class Run:
    """All rounds, and what came of them."""

    def __init__(self, place: Place, bot: Bot, random: Random) -> None:
        self._place = place
        self._bot = bot
        self._random = random
        self.faults = Faults(place, Random(random.random()))
        self.asked = self.answered = self.events = 0
        self.not_taken: Counter[str] = Counter()
        self.longest_s = 0.0
        self.unanswered: list[str] = []
        self.samples: list[Sample] = []

    async def rounds(self, commands: int, hours: float) -> None:
        count = -(-commands // _PEOPLE)
        for number in range(count):
            await self._round(min(_PEOPLE, commands - self.asked))
            self.faults.end()
            await self._pass(hours * 3600 / count)
            self.samples.append(await self._sample())
            if number % 20 == 0:
                last = self.samples[-1]
                summary = (
                    f"{self.answered:,} answered, {last.rss_mb:.0f} MB, {last.tasks} tasks, {last.descriptors} files"
                )
                print(f"{number / count:4.0%}: {summary}, {self.events:,} node events", flush=True)

    async def change_nodes(self) -> None:
        """One node after the other reports to be alive, until it is cancelled."""
        cluster = self._place.cluster
        names = [name for number in range(1, 21) if cluster.object("nodes", "", name := f"gpu-node-{number:02}")]
        began = time.monotonic()
        while True:
            due = int((time.monotonic() - began) * EVENTS_PER_S)
            for at in range(self.events, min(due, self.events + EVENTS_PER_S // 10)):
                node: Any = cluster.object("nodes", "", names[at % len(names)])
                for condition in node["status"]["conditions"]:
                    condition["lastHeartbeatTime"] = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"  # noqa: TID251
                cluster.write("nodes", node)
                self.events += 1
            await asyncio.sleep(_TURN_S)

    async def _round(self, count: int) -> None:
        wanted: dict[str, str] = {person(number): self._random.choice(_WORDS) for number in range(count)}
        asking = asyncio.gather(*(self._ask(who, words) for who, words in wanted.items()))
        if self._random.random() < _FAULTS_IN:
            await self.faults.one()
        await asking
        self.asked += count
        self.faults.end()
        waits: dict[str, str] = wanted
        until = time.monotonic() + _PATIENCE_S
        while waits and time.monotonic() < until:
            waits = {who: words for who, words in waits.items() if not self._is_answered(who)}
            await asyncio.sleep(_TURN_S)
        self.answered += count - len(waits)
        self.unanswered += waits.values()
        for room in self._place.slack.workspace.channels.values():
            room.ephemerals.clear()
            if room.id.startswith("D"):
                room.messages.clear()

    async def _ask(self, who: str, words: str) -> None:
        """A person sees that Slack says it was not taken, and asks again."""
        began = time.monotonic()
        while not (ack := await self._place.slack.command(who, ROOM, words)).ok:
            self.not_taken[ack.error] += 1
            await asyncio.sleep(0.5)
        self.longest_s = max(self.longest_s, time.monotonic() - began)

    async def _sample(self) -> Sample:
        until = time.monotonic() + _SENDS_S
        while self._bot.tasks[_SENDING] and time.monotonic() < until:
            await asyncio.sleep(_STEP_LASTS_S)
            await self._bot.forward(0)
        looks: list[Sample] = []
        for _ in range(_LOOKS):
            looks.append(await self._bot.sample())
            await asyncio.sleep(_STEP_LASTS_S)
        return Sample(*map(min, zip(*looks, strict=True)))

    def _is_answered(self, who: str) -> bool:
        said = [str(message["text"]).lstrip("_ ") for message in seen.told(self._place.slack, who)]
        return any(not text.startswith(_BEGUN) for text in said)

    async def _pass(self, seconds: float) -> None:
        while seconds > 0:
            await self._bot.forward(min(_STEP_S, seconds))
            await asyncio.sleep(_STEP_LASTS_S)
            seconds -= _STEP_S


def judged(samples: Sequence[Sample]) -> tuple[list[str], list[str]]:
    """What is told of them, and what is wrong with them: the end beside the time after warm-up."""
    part = max(1, int(len(samples) * _PART))
    start = int(len(samples) * _WARM)
    warm, end = samples[start : start + part], samples[-part:]
    before, after = mean(sample.rss_mb for sample in warm), mean(sample.rss_mb for sample in end)
    growth = after / before - 1
    lines = [f"memory {before:.1f} MB when warm, {after:.1f} MB at the end: {growth:+.1%}"]
    wrong = [f"memory grew by {growth:.1%}, more than {_MOST_GROWTH:.0%}"] if growth >= _MOST_GROWTH else []
    for name in ("tasks", "descriptors", "threads"):
        few, many = (median(getattr(sample, name) for sample in some) for some in (warm, end))
        lines.append(f"{name} {few:g} when warm, {many:g} at the end")
        wrong += [f"{name} grew from {few:g} to {many:g}"] if many > few + _MOST_MORE else []
    return lines, wrong


@asynccontextmanager
async def _a_bot(place: Place) -> AsyncGenerator[Bot]:
    environment = {key: value for key, value in ENVIRONMENT.items() if not key.startswith("HAMI_BOT_")}
    with place.log.open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "benchmarks.soak.forward", str(place.settings)),
            env=environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
        )
    bot = Bot(process)
    try:
        await place.slack.wait_for(lambda: place.slack.connected, seconds=60)
        yield bot
    finally:
        await bot.end()


async def soak(folder: Path, hours: float, commands: int, seed: int) -> bool:
    """Whether nothing is wrong; what it was is printed."""
    random, began = Random(seed), time.monotonic()
    async with a_place(folder, _PEOPLE) as place, _a_bot(place) as bot:
        run = Run(place, bot, random)
        changing = asyncio.create_task(run.change_nodes())
        try:
            await run.rounds(commands, hours)
        finally:
            changing.cancel()
        tasks = bot.tasks
    took_s = time.monotonic() - began
    lines, wrong = judged(run.samples)
    wrong += [f"not answered: {words}" for words in run.unanswered]
    print(f"{hours:g} virtual hours in {took_s / 60:.1f} min: {run.answered:,} of {run.asked:,} questions answered")
    why = ", ".join(f"{error} {times:,}" for error, times in run.not_taken.most_common()) or "no time"
    print(f"Not taken by Slack and asked again: {why}; at most {run.longest_s:.0f} s until one was taken")
    print(f"{run.events:,} node events")
    print("Faults: " + ", ".join(f"{name} {count}" for name, count in sorted(run.faults.made.items())))
    print("\n".join(lines))
    print("Tasks at the end: " + ", ".join(f"{name} {count}" for name, count in tasks.most_common(8)))
    print("\n".join([*(f"WRONG: {problem}" for problem in wrong), "FAILED" if wrong else "Nothing is wrong."]))
    return not wrong


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak.hours", description=__doc__)
    parser.add_argument("--hours", type=float, default=6.0)
    parser.add_argument("--commands", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=17)
    given = parser.parse_args()
    run_and_exit("hours", lambda folder: soak(folder, given.hours, given.commands, given.seed))


if __name__ == "__main__":
    main()
