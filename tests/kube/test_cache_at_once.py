"""Questions that come at once: who shares a list, and who is told what went wrong with it."""

import asyncio

from bot.errors import SourceError
from bot.kube.models import NODES, PODS
from bot.kube.watch.cache import CachedCluster
from sandbox.apiserver import Fault
from tests.kube.cache_lab import NODES_PATH, QUICK, THREE, Lab, lab, until
from tests.kube.live_servers import pod


async def test_questions_at_once_while_the_cache_is_cold_share_one_list(tmp_path):
    async with lab(tmp_path) as here:
        clusters = [CachedCluster(here.cache) for _ in range(5)]
        found = await asyncio.gather(*(cluster.list(NODES) for cluster in clusters))
        assert [[entry.name for entry in some] for some in found] == [THREE] * 5
        assert here.requests("list") == 1
        assert [cluster.cache_age_s is None for cluster in clusters] == [True, False, False, False, False]


async def test_questions_at_once_on_a_silent_watch_share_one_list_and_later_ones_are_answered_by_it(tmp_path):
    async with lab(tmp_path) as here:
        await here.begun()
        while here.nodes.age_s() is not None:  # the server has been silent for longer than is trusted
            here.nodes._told_at -= QUICK.silence_s
        found = await asyncio.gather(*(here.names() for _ in range(5)))
        assert [*found, await here.names()] == [THREE] * 6
        assert here.requests("list") == 2
        await here.tells("new")


async def test_a_list_that_fails_is_told_to_all_who_wait_for_it_and_read_anew_for_the_next(tmp_path):
    async with lab(tmp_path, Fault(NODES_PATH, "status", status=403, verb="list", times=1)) as here:
        found = await asyncio.gather(*(here.names() for _ in range(3)), return_exceptions=True)
        assert all(isinstance(entry, SourceError) for entry in found)
        assert await here.names() == THREE


async def test_a_question_that_is_given_up_takes_no_list_from_the_others(tmp_path):
    async with lab(tmp_path) as here:
        first = asyncio.create_task(here.names())
        others = [asyncio.create_task(here.names()) for _ in range(2)]
        await until(lambda: here.requests("list") == 1)
        first.cancel()
        assert await asyncio.gather(*others) == [THREE] * 2
        assert here.requests("list") == 1


async def test_questions_at_once_share_a_list_that_nobody_follows_and_those_behind_them_the_next(tmp_path):
    async with lab(tmp_path) as here:

        def ask() -> asyncio.Task[list[str]]:
            return asyncio.create_task(_pods(here))

        first = [ask() for _ in range(3)]
        for _ in range(3):  # begun, and an answer takes more turns of the loop
            await asyncio.sleep(0)
        here.server.write("pods", pod("later"))
        behind = [ask() for _ in range(3)]
        found = await asyncio.gather(*first, *behind)
        assert found[3:] == [["later", "trainer-0"]] * 3
        assert sum(request.path == "/api/v1/pods" for request in here.server.requests) == 2


async def test_an_object_that_cannot_be_read_is_told_to_those_who_asked_for_its_list_only(tmp_path):
    async with lab(tmp_path) as here:
        odd = pod("odd")
        odd["metadata"]["namespace"], odd["spec"] = "team-a", {"nodeName": 7}
        here.server.write("pods", odd)
        first = CachedCluster(here.cache)
        await first.list(PODS, "team-a")
        assert [name.partition(":")[0] for name in first.undecodable] == ["pods team-a/odd"]
        second = first.anew()
        await second.list(PODS, "ml")
        assert list(second.undecodable) == []


async def _pods(here: Lab) -> list[str]:
    return sorted(entry.name for entry in await CachedCluster(here.cache).list(PODS))
