"""Now is the API server's now: what a machine's own clock says counts only where no answer had a Date."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bot.errors import NotFound
from bot.kube.client.connect import open_cluster, open_writer
from bot.kube.client.live import LiveCluster
from bot.kube.client.responses import ServerClock
from bot.kube.cluster import PodGet
from bot.kube.models import NODES
from bot.kube.watch.cache import CachedCluster, WatchCache
from sandbox.apiserver import ApiServer
from tests.kube.live_servers import node, write_kubeconfig

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
POD = PodGet("ml", "trainer-0", "http", 6060, "debug/pprof/", (), 5.0, 1000)


@asynccontextmanager
async def server(folder: Path, date: datetime = NOON) -> AsyncGenerator[Path]:
    """A server whose clock stands still."""
    async with ApiServer({"nodes": [node(1)]}, clock=lambda: date) as serving:
        yield write_kubeconfig(folder, serving.url)


@asynccontextmanager
async def read(folder: Path, here: float) -> AsyncGenerator[tuple[LiveCluster, list[float]]]:
    """A cluster that a machine reads whose clock stands at `here`, and that machine's monotonic clock."""
    steady = [100.0]
    async with server(folder) as file, await open_cluster(kubeconfig=file) as cluster:
        cluster.clock = ServerClock(lambda: steady[0], lambda: here)
        yield cluster, steady


@pytest.mark.parametrize("skew_s", [0, 10_800, -10_800])
async def test_a_clusters_now_is_the_date_of_its_answers_and_the_time_since(skew_s: float, tmp_path: Path) -> None:
    async with read(tmp_path, NOON.timestamp() + skew_s) as (cluster, steady):
        assert cluster.now().timestamp() == NOON.timestamp() + skew_s
        await cluster.list(NODES)
        steady[0] += 90
        assert (cluster.now() - NOON).total_seconds() == 90


async def test_a_question_answered_from_memory_has_the_clusters_now(tmp_path: Path) -> None:
    async with read(tmp_path, NOON.timestamp() + 10_800) as (live, _), WatchCache(live) as cache:
        await CachedCluster(cache).list(NODES)
        later = CachedCluster(cache)
        await later.list(NODES)
        assert later.cache_age_s is not None
        assert later.now() == NOON


async def test_both_clocks_are_told_as_they_were_when_the_answer_came(tmp_path: Path) -> None:
    async with read(tmp_path, NOON.timestamp() + 10_800.5) as (cluster, _):
        assert cluster.clocks is None
        await cluster.list(NODES)
        told = cluster.clocks
        assert told is not None
        assert (told.date, told.skew_s) == ("Sat, 21 Nov 2026 12:00:00 GMT", 10_800.5)


async def test_the_date_of_a_pod_is_not_the_api_servers(tmp_path: Path) -> None:
    """The API server hands on the headers of a pod that it passes a request on to."""
    async with ApiServer({"nodes": [node(1)]}, clock=lambda: NOON) as serving:
        file = write_kubeconfig(tmp_path, serving.url)
        async with await open_cluster(kubeconfig=file) as cluster, await open_writer(kubeconfig=file) as writer:
            with pytest.raises(NotFound):
                await cluster.pod_get(POD)
            await writer.takes_verbosity("ml", "trainer-0")
            assert (cluster.clocks, writer.clock.time()) == (None, None)


async def test_a_writer_can_ask_for_the_time_alone(tmp_path: Path) -> None:
    async with server(tmp_path) as file, await open_writer(kubeconfig=file) as writer:
        writer.clock = ServerClock(lambda: 0.0)
        await writer.ask_time()
        assert writer.clock.time() == NOON.timestamp()
