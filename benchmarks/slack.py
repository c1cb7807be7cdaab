"""The bot under load from Slack: how soon it acknowledges, what it holds after many commands, what it takes idle."""

import asyncio
import os
import sys
from statistics import median, quantiles

from benchmarks.bot_process import QUESTION, Acks, Mode, a_bot
from benchmarks.rows import Row

COMMANDS, IN_FLIGHT, RUNS = 500, 50, 3
ACK_MS = 100.0
EARLY, LATE = 1_000, 10_000
GROWTH_MB = 10.0
IDLE_S = 20.0
IDLE_MB, IDLE_CORE = 120.0, 0.01
_SETTLING_S = 2.0


def rows() -> list[Row]:
    """Each mode with a bot of its own, which is cold in the first run; then one that is idle and answers thousands."""
    return [asyncio.run(_acks("socket")), asyncio.run(_acks("http")), *asyncio.run(_idle_and_many())]


async def _acks(mode: Mode) -> Row:
    async with a_bot(mode) as bot:
        runs = [await bot.commands(COMMANDS, IN_FLIGHT) for _ in range(RUNS)]
    p50s, p99s = zip(*(_p50_p99(run) for run in runs), strict=True)
    every = all(run.answered == run.sent == len(run.latencies_ms) for run in runs)
    answered = f"{sum(run.answered for run in runs):,} of {sum(run.sent for run in runs):,} answered"
    longest = max((latency for run in runs for latency in run.latencies_ms), default=float("inf"))
    ours = (
        f"p50 {median(p50s):.0f} ms, p99 {median(p99s):.0f} ms (p99 of each run: {_each(p99s)}), max {longest:.0f} ms, "
        f"{answered}, load {os.getloadavg()[0]:.1f}"
    )
    what = f"Slack ack, {mode} mode, {COMMANDS} x {QUESTION.split()[0]}, {IN_FLIGHT} in flight, median of {RUNS} runs"
    return Row(what, ours, f"p99 < {ACK_MS:g} ms, all answered", median(p99s) < ACK_MS and every, "Slack's limit: 3 s")


async def _idle_and_many() -> list[Row]:
    async with a_bot("socket") as bot:
        if sys.platform != "linux":
            return [Row("bot's memory and CPU", "not measured: no /proc here", "", met=False, peer="")]
        await asyncio.sleep(_SETTLING_S)
        idle_mb, used_s = bot.rss_mb(), bot.cpu_s()
        await asyncio.sleep(IDLE_S)
        core = (bot.cpu_s() - used_s) / IDLE_S
        first = await bot.commands(EARLY, IN_FLIGHT)
        early_mb = bot.rss_mb()
        rest = await bot.commands(LATE - EARLY, IN_FLIGHT)
        late_mb = bot.rss_mb()
    answered = first.answered + rest.answered
    grown = f"{early_mb:.0f} MB after {EARLY:,}, {late_mb:.0f} MB after {LATE:,}: {late_mb - early_mb:+.1f} MB"
    return [
        Row(
            f"idle bot, {IDLE_S:g} s",
            f"{idle_mb:.0f} MB, {core:.2%} of a core",
            f"< {IDLE_MB:g} MB, < {IDLE_CORE:.0%} of a core",
            idle_mb < IDLE_MB and core < IDLE_CORE,
            "none",
        ),
        Row(
            f"bot's memory over {LATE:,} commands",
            f"{grown}; {answered:,} answered in {first.seconds + rest.seconds:.0f} s",
            f"grows < {GROWTH_MB:g} MB, all answered",
            late_mb - early_mb < GROWTH_MB and answered == LATE,
            "none",
        ),
    ]


def _p50_p99(acks: Acks) -> tuple[float, float]:
    if len(acks.latencies_ms) < 2:
        return float("inf"), float("inf")
    cuts = quantiles(acks.latencies_ms, n=100)
    return cuts[49], cuts[98]


def _each(values: tuple[float, ...]) -> str:
    return ", ".join(f"{value:.0f}" for value in values)
