"""Lists answered from memory: the real client against the sandbox's API server."""

import asyncio

import pytest

from bot.errors import NotFound, SourceError
from bot.hami.nodes.node_state import SWEPT_NODES
from bot.kube.client.live import Selection
from bot.kube.models import EVENTS, HOLDERS, NODES, PODS
from bot.kube.watch.cache import CachedCluster
from sandbox.apiserver import Fault
from tests.kube.cache_lab import NODES_PATH, THREE, lab, until
from tests.kube.live_servers import pod


async def test_the_first_answer_is_read_and_the_next_ones_are_remembered_with_their_age(tmp_path):
    async with lab(tmp_path) as here:
        first, second = CachedCluster(here.cache), CachedCluster(here.cache)
        assert [node.name for node in await first.list(NODES)] == THREE
        assert [node.name for node in await second.list(NODES)] == THREE
        assert here.requests("list") == 1
        assert first.cache_age_s is None
        assert second.cache_age_s in range(5)


async def test_a_list_by_selectors_follows_what_enters_and_leaves_it(tmp_path):
    held = pod("held") | {"status": {"phase": "Running"}}
    held["metadata"]["labels"] = {"hami.io/vgpu-node": "gpu-0001"}
    query = {"labels": "hami.io/vgpu-node", "fields": "status.phase!=Succeeded"}
    async with lab(tmp_path, objects={"pods": [held, pod("plain")]}) as here:

        async def names() -> list[str]:
            return [pod.name for pod in await CachedCluster(here.cache).list(HOLDERS, **query)]

        assert await names() == ["held"]
        follower = here.cache.follower(Selection(HOLDERS, *query.values()))
        assert follower
        here.server.write("pods", held | {"metadata": held["metadata"] | {"name": "new"}})
        await until(lambda: len(follower.mirror.items()) == 2)
        assert await names() == ["held", "new"]
        here.server.write("pods", held | {"status": {"phase": "Succeeded"}})
        await until(lambda: len(follower.mirror.items()) == 1)
        assert await names() == ["new"]


async def test_a_list_of_metadata_only_is_watched_as_such(tmp_path):
    async with lab(tmp_path) as here:
        assert len(await CachedCluster(here.cache).list(HOLDERS, metadata_only=True)) == 1
        follower = here.cache.follower(Selection(HOLDERS, metadata_only=True))
        assert follower
        here.server.write("pods", pod("second"))
        await until(lambda: len(follower.mirror.items()) == 2)
        assert {item.spec.scheduler_name for item in follower.mirror.items()} == {""}


async def test_those_who_want_a_part_of_each_node_are_answered_from_the_whole_ones(tmp_path):
    async with lab(tmp_path) as here:
        for remembered in (False, True):
            for kind, more in ((SWEPT_NODES, {}), (NODES, {"metadata_only": True})):
                cluster = CachedCluster(here.cache)
                assert [item.name for item in await cluster.list(kind, **more)] == THREE
                assert (cluster.cache_age_s is not None) is remembered
            await here.names()
        assert here.requests("list") == 3
        assert len(here.cache.followed) == 1


async def test_a_pod_that_is_asked_about_and_what_is_said_of_it_are_always_read(tmp_path):
    async with lab(tmp_path) as here:
        for _ in range(2):
            cluster = CachedCluster(here.cache)
            await cluster.get(PODS, "trainer-0", "ml")
            await cluster.list(PODS, fields="metadata.name=trainer-0")
            await cluster.list(PODS, "ml")
            await cluster.list(HOLDERS, "ml")
            await cluster.list(EVENTS)
            assert cluster.cache_age_s is None
        assert len(here.server.requests) == 10


async def test_pods_that_wait_for_a_node_are_remembered_whole(tmp_path):
    waiting = pod("waiting") | {"status": {"phase": "Pending"}}
    async with lab(tmp_path, objects={"pods": [waiting, pod("other")]}) as here:
        for _ in range(2):
            (found,) = await CachedCluster(here.cache).list(PODS, fields="status.phase=Pending")
            assert found.spec.containers[0].name == "main"
        assert len([request for request in here.server.requests if "watch" not in request.query]) == 1


async def test_an_error_of_the_api_is_told_as_without_a_cache(tmp_path):
    async with lab(tmp_path, Fault(NODES_PATH, "status", status=403, verb="list")) as here:
        for _ in range(2):
            with pytest.raises(SourceError, match="HTTP 403"):
                await here.names()
        with pytest.raises(NotFound):
            await CachedCluster(here.cache).get(NODES, "none")


async def test_answers_are_judged_as_of_the_moment_that_memory_vouches_for(tmp_path):
    async with lab(tmp_path) as here:
        await here.names()
        cluster = CachedCluster(here.cache)
        await cluster.list(NODES)
        assert (cluster.now() - cluster.as_of([])).total_seconds() > 0.9


async def test_nothing_runs_on_when_the_cache_is_closed(tmp_path):
    async with lab(tmp_path) as here:
        await here.begun()
        nodes = here.nodes
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert nodes.age_s() is None
