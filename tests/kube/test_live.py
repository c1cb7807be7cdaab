"""Reading objects and logs of a live cluster: the real client against servers on real sockets."""

import asyncio
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from bot.errors import NotFound
from bot.kube.client.connect import open_cluster
from bot.kube.cluster import LONGEST_LINE, MOST_LINES, LineFilter, LogLines, LogWanted
from bot.kube.models import NODES, PODS
from bot.texts import in_english
from tests.kube.live_servers import failure_of, node, pod, sandbox, serving, write_kubeconfig

# ------------------------------------------------------------------------------------------------ objects


async def test_a_list_longer_than_a_page_comes_whole(tmp_path):
    async with sandbox(tmp_path, {"nodes": [node(number) for number in range(1201)]}) as (server, cluster):
        found = await cluster.list(NODES)
        found, limits = [entry.name for entry in found], [request.query.get("limit", "") for request in server.requests]
    assert found == [f"gpu-{number:04d}" for number in range(1201)]
    assert limits == ["500", "500", "500"]


async def test_of_a_list_no_more_is_read_than_is_asked_for(tmp_path):
    async with sandbox(tmp_path, {"nodes": [node(number) for number in range(1201)]}) as (server, cluster):
        found = await cluster.list(NODES, most=3)
        assert ([entry.name for entry in found], [request.query.get("limit", "") for request in server.requests]) == (
            ["gpu-0000", "gpu-0001", "gpu-0002"],
            ["3"],
        )


async def test_selectors_reach_the_server(tmp_path):
    nodes = [node(0), node(1), node(3, unschedulable=True)]
    async with sandbox(tmp_path, {"nodes": nodes}) as (_, cluster):
        found = await cluster.list(NODES, labels="pool in (a100, h100)", fields="spec.unschedulable!=true")
        assert [entry.name for entry in found] == ["gpu-0001"]


async def test_a_list_of_metadata_only_has_no_spec(tmp_path):
    async with sandbox(tmp_path) as (_, cluster):
        assert [(pod.name, pod.spec.scheduler_name) for pod in await cluster.list(PODS, metadata_only=True)] == [
            ("trainer-0", "")
        ]


def test_the_server_is_told_who_asks_and_may_compress(tmp_path):
    async def headers() -> tuple[str, str, str]:
        async with sandbox(tmp_path) as (server, cluster):
            await cluster.list(NODES)
            sent = server.requests[0].headers
            return sent["User-Agent"], sent["Accept-Encoding"], sent["Authorization"]

    assert asyncio.run(headers()) == ("hami-bot", "gzip", "Bearer t")


async def test_the_server_tells_its_version(tmp_path):
    async with sandbox(tmp_path) as (_, cluster):
        assert await cluster.server_version() == "v1.34.1"


async def test_an_object_with_wrong_types_is_left_out_and_named(tmp_path):
    broken = pod("broken") | {"spec": {"containers": 5}}
    async with sandbox(tmp_path, {"pods": [pod("a"), broken, pod("b")]}) as (_, cluster):
        assert ([pod.name for pod in await cluster.list(PODS)], cluster.undecodable) == (
            ["a", "b"],
            ["pods ml/broken: Expected `array`, got `int` - at `$.spec.containers`"],
        )


async def test_an_object_that_was_repaired_is_no_longer_named(tmp_path):
    bodies = [[pod("broken") | {"spec": 5}], [pod("broken")]]

    async def answer(_: web.Request) -> web.Response:
        return web.json_response({"metadata": {}, "items": bodies.pop(0)})

    async with serving(answer) as url, await open_cluster(kubeconfig=write_kubeconfig(tmp_path, url)) as cluster:
        await cluster.list(PODS)
        before = cluster.undecodable
        await cluster.list(PODS)
        assert cluster.undecodable == []
    assert len(before) == 1


@pytest.mark.parametrize("name", ["", ".", "..", "../../secrets", "a%2fb"])
async def test_a_name_that_would_change_the_path_names_no_object(tmp_path, name):
    async with sandbox(tmp_path) as (server, cluster):
        with pytest.raises(NotFound, match="cannot be the name of an object"):
            await cluster.get(PODS, name, "ml")
        assert len(server.requests) == 0


def test_a_question_mark_in_a_name_stays_in_the_name(tmp_path):
    error = failure_of(lambda cluster: cluster.get(PODS, "a?b", "ml"), tmp_path)
    assert in_english(error.message) == 'GET /api/v1/namespaces/ml/pods/a%3Fb: HTTP 404: pods "a?b" not found'


SCHEDULER = ("hami-system", "hami-scheduler-0", "main")


def log_of(text: bytes, folder: Path, **wanted: Any) -> LogLines:
    async def read() -> LogLines:
        objects = {"pods": [pod("hami-scheduler-0", "hami-system")]}
        async with sandbox(folder, objects, logs={SCHEDULER: text}) as (_, cluster):
            return await cluster.log(LogWanted(*SCHEDULER, **wanted))

    return asyncio.run(read())


def test_only_the_lines_that_contain_the_needle_are_kept(tmp_path):
    text = "ml/trainer-0 无法调度\nml/other\nagain: ml/trainer-01 ml/trainer-0".encode()
    found = log_of(text, tmp_path, needle=b"ml/trainer-0")
    assert found.lines == ("ml/trainer-0 无法调度", "again: ml/trainer-01 ml/trainer-0")
    assert not found.cut
    assert found.first == "ml/trainer-0 无法调度"


def test_a_log_that_the_limit_ends_says_so_and_ends_with_a_whole_line(tmp_path):
    found = log_of(b"a one\na two\na three\n", tmp_path, needle=b"a", limit_bytes=15)
    assert found == LogLines(("a one", "a two"), cut=True, ends_early=True, first="a one")


def test_the_runs_before_a_restart_and_the_times_of_the_runtime_can_be_asked_for(tmp_path):
    text = b"I1121 05:00:00.000001       1 a.go:1] about a\n"
    found = log_of(text, tmp_path, needle=b"a", stamped=True)
    assert found.lines[0].endswith(f"-11-21T05:00:00.000001000Z {text.decode().rstrip()}")
    wanted = LogWanted(*SCHEDULER, b"a", previous=True)
    error = failure_of(lambda cluster: cluster.log(wanted), tmp_path)
    assert "previous=true" in in_english(error.message)


def test_a_container_that_is_not_there_is_told_in_the_servers_words(tmp_path):
    wanted = LogWanted("ml", "trainer-0", "sidecar", b"", since_s=60, limit_bytes=99)
    error = failure_of(lambda cluster: cluster.log(wanted), tmp_path)
    assert in_english(error.message) == (
        "GET /api/v1/namespaces/ml/pods/trainer-0/log?container=sidecar&sinceSeconds=60&limitBytes=99: "
        "HTTP 400: container sidecar is not valid for pod trainer-0"
    )


def test_a_log_of_30_mb_takes_little_memory(tmp_path):
    piece = b"".join(b"line %d of something else\n" % number for number in range(4000))

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(30 * 1024 * 1024 // len(piece)):
            await response.write(piece)
        await response.write(b"the line about ml/trainer-0\n")
        return response

    async def read() -> tuple[LogLines, int]:
        async with serving(answer) as url, await open_cluster(kubeconfig=write_kubeconfig(tmp_path, url)) as cluster:
            tracemalloc.start()
            try:
                lines = await cluster.log(LogWanted(*SCHEDULER, needle=b"ml/trainer-0"))
                return lines, tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()

    lines, peak_bytes = asyncio.run(read())
    assert lines[:2] == (("the line about ml/trainer-0",), False)
    assert peak_bytes < 10 * 1024 * 1024


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_lines_are_the_same_however_the_log_arrives(size):
    log = b"a1\n\nxa2\r\nb\na3"
    lines = LineFilter(b"a")
    for start in range(0, len(log), size):
        lines.feed(log[start : start + size])
    assert lines.finish(cut_short=False)[:2] == (("a1", "xa2\r", "a3"), False)


@pytest.mark.parametrize("size", [1, 4, 100])
def test_a_line_with_any_of_several_words_is_kept_once_and_in_its_place(size):
    log = b"b1\na1 b\nc\na2\nb2\nb3 a"
    lines = LineFilter(b"a", b"b", b"zz")
    for start in range(0, len(log), size):
        lines.feed(log[start : start + size])
    assert lines.finish(cut_short=False).lines == ("b1", "a1 b", "a2", "b2", "b3 a")


def test_a_line_without_end_is_dropped_and_the_next_one_is_kept():
    lines = LineFilter(b"a")
    lines.feed(b"first a\n")
    for _ in range(3):
        lines.feed(b"a" * LONGEST_LINE)
    lines.feed(b"aa\nlast a\n")
    assert lines.finish(cut_short=False)[:2] == (("first a", "last a"), True)


def test_of_too_many_matches_the_newest_are_kept():
    lines = LineFilter(b"a")
    lines.feed(b"".join(b"a%d\n" % number for number in range(MOST_LINES + 2)))
    kept, cut, *_ = lines.finish(cut_short=False)
    assert (kept[0], kept[-1], len(kept), cut) == ("a2", f"a{MOST_LINES + 1}", MOST_LINES, True)
