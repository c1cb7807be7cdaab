"""A server and what is followed of it, with the real client between them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from bot.kube.client.connect import open_cluster
from bot.kube.client.live import Selection
from bot.kube.models import NODES, Node
from bot.kube.watch.cache import CachedCluster, WatchCache
from bot.kube.watch.follow import Follower, FollowPace
from sandbox.apiserver import ApiServer, Fault
from tests.kube.live_servers import node, pod, write_kubeconfig

QUICK = FollowPace(retry_s=0.01, longest_retry_s=0.05)
NODES_PATH = "/api/v1/nodes$"
PATIENCE_S = 120


class Lab(NamedTuple):
    """A server and what is followed of it."""

    server: ApiServer
    cache: WatchCache

    @property
    def nodes(self) -> Follower[Node]:
        follower = self.cache.follower(Selection(NODES))
        assert follower
        return follower

    async def names(self) -> list[str]:
        return [node.name for node in await CachedCluster(self.cache).list(NODES)]

    async def begun(self) -> "Lab":
        """When the nodes have been listed and their watch has told something."""
        await self.names()
        await self.tells("probe")
        self.server.remove("nodes", "", "probe")
        await self.holds(lambda names: "probe" not in names)
        return self

    async def tells(self, name: str) -> None:
        """Another client makes a node, and the mirror has it."""
        self.server.write("nodes", {"kind": "Node", "apiVersion": "v1", "metadata": {"name": name}})
        await self.holds(lambda names: name in names)

    async def holds(self, what: Callable[[list[str]], bool]) -> None:
        await until(lambda: what([node.name for node in self.nodes.mirror.items()]))

    def requests(self, verb: str) -> int:
        """How many whole lists, or watches, of nodes were asked for."""
        asked = [request.query for request in self.server.requests if request.path == "/api/v1/nodes"]
        watches = sum("watch" in query for query in asked)
        probes = sum(query.get("limit") == "1" for query in asked)
        return watches if verb == "watch" else len(asked) - watches - probes


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not holds():  # noqa: ASYNC110  # what is waited for happens in code that tells nobody
            await asyncio.sleep(0.005)


@asynccontextmanager
async def lab(
    folder: Path,
    *faults: Fault,
    pace: FollowPace = QUICK,
    objects: Any = None,
    read_timeout_s: float = 30,
    **options: Any,
) -> AsyncIterator[Lab]:
    seed = objects or {"nodes": [node(number) for number in range(3)], "pods": [pod("trainer-0")]}
    async with ApiServer(seed, faults=faults, **options) as server:
        file = write_kubeconfig(folder, server.url)
        async with (
            await open_cluster(kubeconfig=file, read_timeout_s=read_timeout_s) as live,
            WatchCache(live, pace) as cache,
        ):
            yield Lab(server, cache)


THREE = ["gpu-0000", "gpu-0001", "gpu-0002"]
