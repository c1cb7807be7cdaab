"""What of the bot follows a cluster and answers from it, as a process: `python -m benchmarks.watching_bot KUBECONFIG`.

Every line on stdin is one thing to do, every line on stdout what it took, as JSON.
"""

import asyncio
import gc
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import quantiles

import bot.main  # noqa: F401  # as large as the bot is
from bot.gc_tuning import COLLECT_EVERY
from bot.kube.client.connect import open_cluster
from bot.kube.watch.cache import CachedCluster, WatchCache
from bot.texts import Texts
from playbooks.own.discovery import find
from playbooks.playbook import Sources

_WORDS = {"why": ("ml/pending-0",)}
_TOGETHER = ("why", "nodes", "gpus", "pending", "status")


async def _run(kubeconfig: Path) -> None:
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT_EVERY)
    async with await open_cluster(kubeconfig=kubeconfig) as live, WatchCache(live) as cache:
        while line := await asyncio.to_thread(sys.stdin.readline):
            word, _, amount = line.strip().partition(" ")
            match word:
                case "idle":
                    did = await _idle(cache, float(amount))
                case "together":
                    did = await _together(cache, int(amount))
                case _:
                    did = await _questions(cache, word, int(amount))
            print(json.dumps(did | {"rss_mb": _rss_mb(), "peak_mb": _peak_mb()}), flush=True)


async def _questions(cache: WatchCache, verb: str, count: int) -> dict[str, float]:
    """Ask that often, one after the other: wall time and CPU of each. `p99` of few is their worst."""
    walls, cpus = list[float](), list[float]()
    from_memory = 0
    for _ in range(count):
        started, before = time.perf_counter(), time.process_time()
        cluster = await _ask(cache, verb)
        walls.append(time.perf_counter() - started)
        cpus.append(time.process_time() - before)
        from_memory += cluster.cache_age_s is not None
    return {
        "p50_ms": _part(walls, 50) * 1e3,
        "p99_ms": _part(walls, 99) * 1e3,
        "cpu_ms": _part(cpus, 50) * 1e3,
        "worst_cpu_ms": _part(cpus, 99) * 1e3,
        "from_memory": from_memory,
    }


async def _together(cache: WatchCache, count: int) -> dict[str, float]:
    """Ask as many questions of all verbs at once: the wall time until the last answer."""
    started = time.perf_counter()
    async with asyncio.TaskGroup() as questions:
        for number in range(count):
            questions.create_task(_ask(cache, _TOGETHER[number % len(_TOGETHER)]))
    return {"wall_s": time.perf_counter() - started}


async def _ask(cache: WatchCache, verb: str) -> CachedCluster:
    playbook, cluster = find(verb), CachedCluster(cache)
    snapshot = await playbook.gather(playbook.request(*_WORDS.get(verb, ())), Sources(cluster))
    report = await asyncio.to_thread(playbook.report, snapshot, Texts("en"))
    assert report.findings
    return cluster


async def _idle(cache: WatchCache, for_s: float) -> dict[str, float]:
    """Only follow, for so long."""
    nodes = next(follower for wanted, follower in cache.followed.items() if wanted.kind.plural == "nodes")
    version, cpu_s, started = nodes.mirror.version, time.process_time(), time.perf_counter()
    await asyncio.sleep(for_s)
    wall_s = time.perf_counter() - started
    return {"cpu": (time.process_time() - cpu_s) / wall_s, "events_per_s": (nodes.mirror.version - version) / wall_s}


def _part(walls: Sequence[float], percent: int) -> float:
    return quantiles(walls, n=100, method="inclusive")[percent - 1] if len(walls) > 1 else walls[0]


def _rss_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def _peak_mb() -> float:
    """The most that it ever held. Linux only, as the other."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) * 1024 / 1e6


if __name__ == "__main__":
    asyncio.run(_run(Path(sys.argv[1])))
