"""How long pods take from their creation until they run: counted as a watch tells it, and once."""

import asyncio
from pathlib import Path
from typing import Any

from bot import process_counters
from bot.kube.client.connect import open_cluster
from bot.kube.models import HOLDERS
from bot.kube.watch.cache import CachedCluster, WatchCache
from sandbox.apiserver import ApiServer
from tests.kube.cache_lab import until
from tests.kube.live_servers import pod, write_kubeconfig

GPU = {"labels": "hami.io/vgpu-node", "fields": "status.phase!=Succeeded"}
CREATED = "2026-01-01T00:00:00Z"


def gpu_pod(name: str, phase: str, uid: str = "1", **more: Any) -> dict[str, Any]:
    made = pod(name) | {"status": {"phase": phase}}
    labels = {"hami.io/vgpu-node": "gpu-0001", **more}
    made["metadata"] |= {"uid": uid, "creationTimestamp": CREATED, "labels": labels}
    return made


def starts(cluster: str) -> tuple[int, float]:
    """How many were counted, and the sum of their seconds."""
    found = [
        (counts[-1], total) for labels, counts, total in process_counters.POD_STARTS.cumulated() if labels == (cluster,)
    ]
    return found[0] if found else (0, 0.0)


def counted(folder: Path, before: list[Any], *then: Any, name: str) -> tuple[int, float]:
    """What is counted of what happens after the first list, all of which was told."""

    async def main() -> None:
        async with ApiServer({"pods": before}) as server:
            file = write_kubeconfig(folder, server.url)
            async with await open_cluster(name=name, kubeconfig=file) as live, WatchCache(live) as cache:
                await CachedCluster(cache).list(HOLDERS, **GPU)
                for item in (*then, gpu_pod("the-last", "Pending")):
                    if isinstance(item, str):
                        server.remove("pods", "ml", item)
                    else:
                        server.write("pods", item)
                (follower,) = cache.followed.values()
                await until(lambda: "the-last" in [item.name for item in follower.mirror.items()])

    asyncio.run(main())
    return starts(name)


def test_a_pod_that_begins_to_run_is_counted_with_its_time_since_creation(tmp_path: Path) -> None:
    count, total = counted(tmp_path, [gpu_pod("a", "Pending")], gpu_pod("a", "Running"), name="begins")
    assert count == 1
    assert total > 24 * 3600


def test_what_ran_before_the_bot_began_and_what_runs_on_is_not_counted(tmp_path: Path) -> None:
    ran = gpu_pod("a", "Running")
    assert counted(tmp_path, [ran], gpu_pod("a", "Running", restarted="yes"), name="ran") == (0, 0.0)
    again = gpu_pod("a", "Running", restarted="twice")
    assert counted(tmp_path, [gpu_pod("a", "Pending")], ran, again, name="once")[0] == 1
    assert counted(tmp_path, [ran], again, name="once")[0] == 1  # after a restart of the bot


def test_a_pod_that_is_made_anew_under_its_name_is_another_one(tmp_path: Path) -> None:
    anew = [gpu_pod("a", "Running"), "a", gpu_pod("a", "Pending", "2"), gpu_pod("a", "Running", "2")]
    assert counted(tmp_path, [gpu_pod("a", "Pending")], *anew, name="anew")[0] == 2


def test_a_pod_that_ends_without_having_run_is_not_counted(tmp_path: Path) -> None:
    assert counted(tmp_path, [gpu_pod("a", "Pending")], gpu_pod("a", "Failed"), "a", name="failed")[0] == 0
