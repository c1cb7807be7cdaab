"""What goes wrong between the cache's lists and watches and the sandbox's API server."""

import asyncio
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from bot.gc_tuning import give_back
from bot.kube.client.live import Selection
from bot.kube.models import DAEMON_PODS, HOLDERS, NODES
from bot.kube.watch.cache import CachedCluster
from sandbox.apiserver import Fault, Rule
from tests.kube.cache_lab import NODES_PATH, PATIENCE_S, QUICK, THREE, lab, until
from tests.kube.live_servers import node, pod


async def test_a_dropped_connection_loses_nothing_and_needs_no_new_list(tmp_path):
    async with lab(tmp_path, Fault(NODES_PATH, "drop", events=2, times=3)) as here:
        await here.names()
        for number in range(8):
            await here.tells(f"new-{number}")
        here.server.cut_connections()
        await here.tells("last")
        assert len(await here.names()) == 12
        assert here.requests("list") == 1


async def test_a_watch_that_always_breaks_off_after_two_events_gets_on(tmp_path):
    """Without a bookmark in between: begun at the list again and again it would tell the same two for ever."""
    async with lab(tmp_path, Fault(NODES_PATH, "drop", events=2)) as here:
        await here.names()
        for number in range(10, 18):
            here.server.write("nodes", node(number))
        await here.holds(lambda names: len(names) == 11)
        assert here.requests("list") == 1


async def test_a_410_within_the_stream_leads_to_a_new_list(tmp_path):
    async with lab(tmp_path, Fault(NODES_PATH, "gone", events=1, times=2)) as here:
        await here.names()
        for name in ("one", "two", "three", "four"):
            await here.tells(name)
        assert here.requests("list") == 3


async def test_a_410_on_connecting_leads_to_a_new_list(tmp_path):
    async with lab(tmp_path) as here:
        await here.begun()
        here.server.write("pods", pod("moves-the-version"))
        here.server.forget()
        here.server.cut_connections()
        here.server.remove("nodes", "", "gpu-0000")
        await here.holds(lambda names: names == THREE[1:])
        assert here.requests("list") == 2


async def test_a_bookmark_saves_a_new_list(tmp_path):
    async with lab(tmp_path, bookmark_every_s=0.05) as here:
        await here.begun()
        at = here.nodes.mirror.version
        here.server.write("pods", pod("moves-the-version"))
        await until(lambda: here.nodes.mirror.version > at)
        here.server.forget()
        here.server.cut_connections()
        await here.tells("new")
        assert here.requests("list") == 1


@pytest.mark.parametrize("kind", [NODES, HOLDERS, DAEMON_PODS], ids=lambda kind: kind.type.__name__)
@pytest.mark.parametrize("metadata_only", [False, True], ids=["whole", "metadata"])
async def test_every_kind_that_is_followed_takes_bookmarks_and_changes(tmp_path, kind, metadata_only):
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
        await until(lambda: any(item.name in ("new-8", "gpu-0008") for item in follower.mirror.items()))
        asked = [request for request in here.server.requests if "watch" in request.query]
        assert len(asked) == 1


async def test_a_connection_that_hangs_is_cut_and_answers_are_read_meanwhile(tmp_path):
    silence = Fault(NODES_PATH, "silence", times=1)
    pace = QUICK._replace(silence_s=0.3)
    async with lab(tmp_path, silence, pace=pace) as here:
        await here.names()
        here.server.write("nodes", node(7))
        await until(lambda: here.nodes.age_s() is None)
        cluster = CachedCluster(here.cache)
        assert [node.name for node in await cluster.list(NODES)] == [*THREE, "gpu-0007"]
        assert cluster.cache_age_s is None
        await here.holds(lambda names: "gpu-0007" in names)
        await until(lambda: here.requests("watch") >= 2)


async def test_a_quiet_list_stays_fresh_by_its_bookmarks(tmp_path):
    async with lab(tmp_path, pace=QUICK._replace(silence_s=2), bookmark_every_s=0.05) as here:
        await here.names()
        began = asyncio.get_running_loop().time()
        await until(lambda: asyncio.get_running_loop().time() - began > 2.5)
        assert here.nodes.age_s() is not None
        assert here.requests("watch") == 1


async def test_a_refused_watch_leaves_direct_reads_and_is_not_asked_for_again_and_again(tmp_path):
    refused = Rule(resources=("nodes",), verbs=("watch",))
    async with lab(tmp_path, refused=[refused]) as here:
        assert await here.names() == THREE
        await until(lambda: here.requests("watch") == 1 and here.nodes.age_s() is None)
        for _ in range(3):
            cluster = CachedCluster(here.cache)
            assert len(await cluster.list(NODES)) == 3
            assert cluster.cache_age_s is None
        assert here.requests("list") == 4
        assert here.requests("watch") == 1


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_a_list_that_fails_leaves_the_old_contents_until_it_is_complete(tmp_path, status):
    gone = Fault(NODES_PATH, "gone", events=1, times=1)
    failing = Fault(NODES_PATH, "status", status=status, verb="list", skip=1, times=4, retry_after=0)
    async with lab(tmp_path, gone, failing) as here:
        await here.names()
        here.server.write("nodes", node(7))
        here.server.write("nodes", node(8))
        await until(lambda: here.requests("list") >= 3)
        kept = [node.name for node in here.nodes.mirror.items()]
        assert kept[:3] == THREE
        await here.holds(lambda names: names == [*THREE, "gpu-0007", "gpu-0008"])


async def test_while_a_list_is_read_anew_the_old_contents_answer(tmp_path):
    gone = Fault(NODES_PATH, "gone", events=1, times=1)
    hanging = Fault(NODES_PATH, "hang", verb="list", skip=1, times=1)
    async with lab(tmp_path, gone, hanging, read_timeout_s=3) as here:
        await here.names()
        here.server.write("nodes", node(7))
        await until(lambda: here.requests("list") == 2)
        assert await here.names() == [*THREE, "gpu-0007"]
        assert here.requests("list") == 2
        here.server.write("nodes", node(8))
        await here.holds(lambda names: "gpu-0008" in names)


async def test_a_login_page_instead_of_a_watch_is_no_change(tmp_path):
    async with lab(tmp_path, Fault(NODES_PATH, "garbage", verb="watch", times=2)) as here:
        await here.names()
        await until(lambda: here.requests("watch") >= 3)
        await here.tells("new")
        assert here.requests("list") == 1


class Held(ThreadPoolExecutor):
    """Leaves what a list does last undone, until the test ends it."""

    last: "Future[None] | None" = None

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        if give_back not in getattr(fn, "args", ()):
            return super().submit(fn, *args, **kwargs)
        self.last = Future()
        return self.last


async def test_a_follower_that_is_closed_as_its_new_list_ends_stays_closed(tmp_path):
    """The list is cancelled before the follower that waits for it is woken: that is no failure to go on from."""
    threads = Held()
    async with lab(tmp_path) as here:
        await here.begun()
        asyncio.get_running_loop().set_default_executor(threads)
        here.server.write("pods", pod("moves-the-version"))
        here.server.forget()
        here.server.cut_connections()
        await until(lambda: threads.last is not None)
        threads.last.set_result(None)  # now the list is to be woken, and then the follower that waits for it
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.create_task(here.nodes.close())
