"""Lists answered from memory: the real client against the sandbox's API server, and what goes wrong between them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from bot.errors import NotFound, SourceError
from bot.kube.cache import CachedCluster, WatchCache
from bot.kube.connect import open_cluster
from bot.kube.follow import Follower, Pace
from bot.kube.live import Selection
from bot.kube.models import DAEMON_PODS, EVENTS, HOLDERS, NODES, PODS, SWEPT_NODES, Node
from sandbox.apiserver import ApiServer, Fault, Rule
from tests.kube.live_servers import node, pod, write_kubeconfig

QUICK = Pace(retry_s=0.01, longest_retry_s=0.05)
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
        return [one.name for one in await CachedCluster(self.cache).list(NODES)]

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
        await until(lambda: what([one.name for one in self.nodes.mirror.items()]))

    def requests(self, verb: str) -> int:
        """How many whole lists, or watches, of nodes were asked for."""
        asked = [one.query for one in self.server.requests if one.path == "/api/v1/nodes"]
        watches = sum("watch" in query for query in asked)
        probes = sum(query.get("limit") == "1" for query in asked)
        return watches if verb == "watch" else len(asked) - watches - probes


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not holds():  # noqa: ASYNC110  # what is waited for happens in code that tells nobody
            await asyncio.sleep(0.005)


@asynccontextmanager
async def lab(
    folder: Path, *faults: Fault, pace: Pace = QUICK, objects: Any = None, read_timeout_s: float = 30, **options: Any
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

# ------------------------------------------------------------------------------------------------- from memory or not


def test_the_first_answer_is_read_and_the_next_ones_are_remembered_with_their_age(tmp_path):
    async def read() -> None:
        async with lab(tmp_path) as here:
            first, second = CachedCluster(here.cache), CachedCluster(here.cache)
            assert [one.name for one in await first.list(NODES)] == THREE
            assert [one.name for one in await second.list(NODES)] == THREE
            assert here.requests("list") == 1
            assert first.cache_age_s is None
            assert second.cache_age_s in range(5)

    asyncio.run(read())


def test_what_others_do_is_seen(tmp_path):
    async def read() -> None:
        async with lab(tmp_path) as here:
            await here.begun()
            here.server.write("nodes", node(1, unschedulable=True))
            here.server.remove("nodes", "", "gpu-0002")
            await here.tells("another")
            found = await CachedCluster(here.cache).list(NODES)
            assert [(one.name, one.spec.unschedulable) for one in found] == [
                ("another", False),
                ("gpu-0000", False),
                ("gpu-0001", True),
            ]
            assert here.requests("list") == 1

    asyncio.run(read())


def test_a_list_by_selectors_follows_what_enters_and_leaves_it(tmp_path):
    held = pod("held") | {"status": {"phase": "Running"}}
    held["metadata"]["labels"] = {"hami.io/vgpu-node": "gpu-0001"}
    query = {"labels": "hami.io/vgpu-node", "fields": "status.phase!=Succeeded"}

    async def read() -> None:
        async with lab(tmp_path, objects={"pods": [held, pod("plain")]}) as here:

            async def names() -> list[str]:
                return [one.name for one in await CachedCluster(here.cache).list(HOLDERS, **query)]

            assert await names() == ["held"]
            follower = here.cache.follower(Selection(HOLDERS, *query.values()))
            assert follower
            here.server.write("pods", held | {"metadata": held["metadata"] | {"name": "new"}})
            await until(lambda: len(follower.mirror.items()) == 2)
            assert await names() == ["held", "new"]
            here.server.write("pods", held | {"status": {"phase": "Succeeded"}})
            await until(lambda: len(follower.mirror.items()) == 1)
            assert await names() == ["new"]

    asyncio.run(read())


def test_a_list_of_metadata_only_is_watched_as_such(tmp_path):
    async def read() -> None:
        async with lab(tmp_path) as here:
            assert len(await CachedCluster(here.cache).list(HOLDERS, metadata_only=True)) == 1
            follower = here.cache.follower(Selection(HOLDERS, metadata_only=True))
            assert follower
            here.server.write("pods", pod("second"))
            await until(lambda: len(follower.mirror.items()) == 2)
            assert {one.spec.scheduler_name for one in follower.mirror.items()} == {""}

    asyncio.run(read())


def test_those_who_want_a_part_of_each_node_are_answered_from_the_whole_ones(tmp_path):
    async def read() -> None:
        async with lab(tmp_path) as here:
            for remembered in (False, True):
                for kind, more in ((SWEPT_NODES, {}), (NODES, {"metadata_only": True})):
                    cluster = CachedCluster(here.cache)
                    assert [one.name for one in await cluster.list(kind, **more)] == THREE
                    assert (cluster.cache_age_s is not None) is remembered
                await here.names()
            assert here.requests("list") == 3
            assert len(here.cache.followed) == 1

    asyncio.run(read())


def test_a_pod_that_is_asked_about_and_what_is_said_of_it_are_always_read(tmp_path):
    async def read() -> int:
        async with lab(tmp_path) as here:
            for _ in range(2):
                cluster = CachedCluster(here.cache)
                await cluster.get(PODS, "trainer-0", "ml")
                await cluster.list(PODS, fields="metadata.name=trainer-0")
                await cluster.list(PODS, "ml")
                await cluster.list(HOLDERS, "ml")
                await cluster.list(EVENTS)
                assert cluster.cache_age_s is None
            return len(here.server.requests)

    assert asyncio.run(read()) == 10


def test_pods_that_wait_for_a_node_are_remembered_whole(tmp_path):
    async def read() -> None:
        waiting = pod("waiting") | {"status": {"phase": "Pending"}}
        async with lab(tmp_path, objects={"pods": [waiting, pod("other")]}) as here:
            for _ in range(2):
                (found,) = await CachedCluster(here.cache).list(PODS, fields="status.phase=Pending")
                assert found.spec.containers[0].name == "main"
            assert len([one for one in here.server.requests if "watch" not in one.query]) == 1

    asyncio.run(read())


def test_an_error_of_the_api_is_told_as_without_a_cache(tmp_path):
    async def read() -> None:
        async with lab(tmp_path, Fault(NODES_PATH, "status", status=403, verb="list")) as here:
            for _ in range(2):
                with pytest.raises(SourceError, match="HTTP 403"):
                    await here.names()
            with pytest.raises(NotFound):
                await CachedCluster(here.cache).get(NODES, "none")

    asyncio.run(read())


def test_answers_are_judged_as_of_the_moment_that_memory_vouches_for(tmp_path):
    async def read() -> float:
        async with lab(tmp_path) as here:
            await here.names()
            cluster = CachedCluster(here.cache)
            await cluster.list(NODES)
            return (cluster.now() - cluster.as_of([])).total_seconds()

    assert asyncio.run(read()) > 0.9


def test_an_object_that_cannot_be_read_is_told_until_it_is_repaired(tmp_path):
    async def read() -> None:
        async with lab(tmp_path) as here:
            await here.begun()
            here.server.write("nodes", {**node(1), "spec": {"unschedulable": "yes"}})
            await here.holds(lambda names: "gpu-0001" not in names)
            cluster = CachedCluster(here.cache)
            await cluster.list(NODES)
            assert [one.partition(":")[0] for one in cluster.undecodable] == ["nodes gpu-0001"]
            here.server.write("nodes", node(1))
            await here.holds(lambda names: "gpu-0001" in names)
            await cluster.list(NODES)
            assert list(cluster.undecodable) == []

    asyncio.run(read())


# ----------------------------------------------------------------------------------------------------- what goes wrong


def test_a_dropped_connection_loses_nothing_and_needs_no_new_list(tmp_path):
    async def read() -> None:
        async with lab(tmp_path, Fault(NODES_PATH, "drop", events=2, times=3)) as here:
            await here.names()
            for number in range(8):
                await here.tells(f"new-{number}")
            here.server.cut_connections()
            await here.tells("last")
            assert len(await here.names()) == 12
            assert here.requests("list") == 1

    asyncio.run(read())


def test_events_told_twice_count_once(tmp_path):
    async def read() -> None:
        async with lab(tmp_path, Fault(NODES_PATH, "repeat")) as here:
            await here.begun()
            await here.tells("new")
            assert await here.names() == [*THREE, "new"]

    asyncio.run(read())


def test_a_410_within_the_stream_leads_to_a_new_list(tmp_path):
    async def read() -> None:
        async with lab(tmp_path, Fault(NODES_PATH, "gone", events=1, times=2)) as here:
            await here.names()
            for name in ("one", "two", "three", "four"):
                await here.tells(name)
            assert here.requests("list") == 3

    asyncio.run(read())


def test_a_410_on_connecting_leads_to_a_new_list(tmp_path):
    async def read() -> None:
        async with lab(tmp_path) as here:
            await here.begun()
            here.server.write("pods", pod("moves-the-version"))
            here.server.forget()
            here.server.cut_connections()
            here.server.remove("nodes", "", "gpu-0000")
            await here.holds(lambda names: names == THREE[1:])
            assert here.requests("list") == 2

    asyncio.run(read())


def test_a_bookmark_saves_a_new_list(tmp_path):
    async def read() -> None:
        async with lab(tmp_path, bookmark_every_s=0.05) as here:
            await here.begun()
            at = here.nodes.mirror.version
            here.server.write("pods", pod("moves-the-version"))
            await until(lambda: here.nodes.mirror.version > at)
            here.server.forget()
            here.server.cut_connections()
            await here.tells("new")
            assert here.requests("list") == 1

    asyncio.run(read())


@pytest.mark.parametrize("kind", [NODES, HOLDERS, DAEMON_PODS], ids=lambda one: one.type.__name__)
@pytest.mark.parametrize("metadata_only", [False, True], ids=["whole", "metadata"])
def test_every_kind_that_is_followed_takes_bookmarks_and_changes(tmp_path, kind, metadata_only):
    async def read() -> None:
        async with lab(tmp_path, bookmark_every_s=0.05) as here:
            wanted = Selection(kind, metadata_only=metadata_only and kind is not NODES)
            follower = here.cache.follower(wanted)
            assert follower
            await follower.read()
            for number in (7, 8):
                at = follower.mirror.version
                here.server.write("nodes", node(number))
                here.server.write("pods", pod(f"new-{number}"))
                await until(lambda at=at: follower.mirror.version > at)
            await until(lambda: any(one.name in ("new-8", "gpu-0008") for one in follower.mirror.items()))
            asked = [one for one in here.server.requests if "watch" in one.query]
            assert len(asked) == 1

    asyncio.run(read())


def test_a_connection_that_hangs_is_cut_and_answers_are_read_meanwhile(tmp_path):
    silence = Fault(NODES_PATH, "silence", times=1)
    pace = QUICK._replace(silence_s=0.3)

    async def read() -> None:
        async with lab(tmp_path, silence, pace=pace) as here:
            await here.names()
            here.server.write("nodes", node(7))
            await until(lambda: here.nodes.age_s() is None)
            cluster = CachedCluster(here.cache)
            assert [one.name for one in await cluster.list(NODES)] == [*THREE, "gpu-0007"]
            assert cluster.cache_age_s is None
            await here.holds(lambda names: "gpu-0007" in names)
            await until(lambda: here.requests("watch") >= 2)

    asyncio.run(read())


def test_a_quiet_list_stays_fresh_by_its_bookmarks(tmp_path):
    async def read() -> None:
        async with lab(tmp_path, pace=QUICK._replace(silence_s=2), bookmark_every_s=0.05) as here:
            await here.names()
            began = asyncio.get_running_loop().time()
            await until(lambda: asyncio.get_running_loop().time() - began > 2.5)
            assert here.nodes.age_s() is not None
            assert here.requests("watch") == 1

    asyncio.run(read())


def test_a_refused_watch_leaves_direct_reads_and_is_not_asked_for_again_and_again(tmp_path):
    refused = Rule(resources=("nodes",), verbs=("watch",))

    async def read() -> None:
        async with lab(tmp_path, refused=[refused]) as here:
            assert await here.names() == THREE
            await until(lambda: here.requests("watch") == 1 and here.nodes.age_s() is None)
            for _ in range(3):
                cluster = CachedCluster(here.cache)
                assert len(await cluster.list(NODES)) == 3
                assert cluster.cache_age_s is None
            assert here.requests("list") == 4
            assert here.requests("watch") == 1

    asyncio.run(read())


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_list_that_fails_leaves_the_old_contents_until_it_is_complete(tmp_path, status):
    gone = Fault(NODES_PATH, "gone", events=1, times=1)
    failing = Fault(NODES_PATH, "status", status=status, verb="list", skip=1, times=4, retry_after=0)

    async def read() -> None:
        async with lab(tmp_path, gone, failing) as here:
            await here.names()
            here.server.write("nodes", node(7))
            here.server.write("nodes", node(8))
            await until(lambda: here.requests("list") >= 3)
            kept = [one.name for one in here.nodes.mirror.items()]
            assert kept[:3] == THREE
            await here.holds(lambda names: names == [*THREE, "gpu-0007", "gpu-0008"])

    asyncio.run(read())


def test_while_a_list_is_read_anew_the_old_contents_answer(tmp_path):
    gone = Fault(NODES_PATH, "gone", events=1, times=1)
    hanging = Fault(NODES_PATH, "hang", verb="list", skip=1, times=1)

    async def read() -> None:
        async with lab(tmp_path, gone, hanging, read_timeout_s=0.5) as here:
            await here.names()
            here.server.write("nodes", node(7))
            await until(lambda: here.requests("list") == 2)
            assert await here.names() == [*THREE, "gpu-0007"]
            assert here.requests("list") == 2
            here.server.write("nodes", node(8))
            await here.holds(lambda names: "gpu-0008" in names)

    asyncio.run(read())


def test_a_server_that_was_restored_from_a_backup_is_listed_anew(tmp_path):
    async def read() -> None:
        async with lab(tmp_path) as here:
            await here.begun()
            port = int(here.server.url.rpartition(":")[2])
            for number in range(5):
                await here.tells(f"new-{number}")
            await here.server.__aexit__(None, None, None)
            async with ApiServer({"nodes": [node(1)]}, port=port):
                await here.holds(lambda names: names == ["gpu-0001"])

    asyncio.run(read())


def test_a_login_page_instead_of_a_watch_is_no_change(tmp_path):
    async def read() -> None:
        async with lab(tmp_path, Fault(NODES_PATH, "garbage", verb="watch", times=2)) as here:
            await here.names()
            await until(lambda: here.requests("watch") >= 3)
            await here.tells("new")
            assert here.requests("list") == 1

    asyncio.run(read())


def test_nothing_runs_on_when_the_cache_is_closed(tmp_path):
    async def read() -> None:
        async with lab(tmp_path) as here:
            await here.begun()
            nodes = here.nodes
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert nodes.age_s() is None

    asyncio.run(read())


def test_questions_at_once_while_the_cache_is_cold_share_one_list(tmp_path):
    async def read() -> None:
        async with lab(tmp_path) as here:
            clusters = [CachedCluster(here.cache) for _ in range(5)]
            found = await asyncio.gather(*(one.list(NODES) for one in clusters))
            assert [[one.name for one in some] for some in found] == [THREE] * 5
            assert here.requests("list") == 1
            assert [one.cache_age_s is None for one in clusters] == [True, False, False, False, False]

    asyncio.run(read())


def test_questions_at_once_on_a_silent_watch_share_one_list_and_later_ones_are_answered_by_it(tmp_path):
    async def read() -> None:
        async with lab(tmp_path) as here:
            await here.begun()
            while here.nodes.age_s() is not None:  # the server has been silent for longer than is trusted
                here.nodes._told_at -= QUICK.silence_s
            found = await asyncio.gather(*(here.names() for _ in range(5)))
            assert [*found, await here.names()] == [THREE] * 6
            assert here.requests("list") == 2
            await here.tells("new")

    asyncio.run(read())


def test_a_list_that_fails_is_told_to_all_who_wait_for_it_and_read_anew_for_the_next(tmp_path):
    async def read() -> None:
        async with lab(tmp_path, Fault(NODES_PATH, "status", status=403, verb="list", times=1)) as here:
            found = await asyncio.gather(*(here.names() for _ in range(3)), return_exceptions=True)
            assert all(isinstance(one, SourceError) for one in found)
            assert await here.names() == THREE

    asyncio.run(read())


def test_a_question_that_is_given_up_takes_no_list_from_the_others(tmp_path):
    async def read() -> None:
        async with lab(tmp_path) as here:
            first = asyncio.create_task(here.names())
            others = [asyncio.create_task(here.names()) for _ in range(2)]
            await until(lambda: here.requests("list") == 1)
            first.cancel()
            assert await asyncio.gather(*others) == [THREE] * 2
            assert here.requests("list") == 1

    asyncio.run(read())


def test_an_object_that_cannot_be_read_is_told_to_those_who_asked_for_its_list_only(tmp_path):
    async def read() -> None:
        async with lab(tmp_path) as here:
            odd = pod("odd")
            odd["metadata"]["namespace"], odd["spec"] = "team-a", {"nodeName": 7}
            here.server.write("pods", odd)
            first = CachedCluster(here.cache)
            await first.list(PODS, "team-a")
            assert [one.partition(":")[0] for one in first.undecodable] == ["pods team-a/odd"]
            second = first.anew()
            await second.list(PODS, "ml")
            assert list(second.undecodable) == []

    asyncio.run(read())

    asyncio.run(read())
