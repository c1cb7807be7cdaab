"""Answers that come packed with gzip: the real client against a web server that packs them."""

import asyncio
import gzip

from aiohttp import web

from bot.kube.connect import open_cluster
from bot.kube.models import NODES
from tests.kube.live_servers import failure_with_answer, node, sandbox, serving, write_kubeconfig

LISTED = b'{"metadata":{},"items":[{"metadata":{"name":"gpu-1","labels":{"says":"%s"}}}]}' % (b"much " * 50_000)


def answered(body: bytes, status: int = 200):
    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=body, status=status, headers={"Content-Encoding": "gzip"})

    return answer


def test_a_packed_list_is_read_whole(tmp_path):
    async def names() -> list[str]:
        async with (
            serving(answered(gzip.compress(LISTED))) as url,
            await open_cluster(kubeconfig=write_kubeconfig(tmp_path, url)) as cluster,
        ):
            return [one.name for one in await cluster.list(NODES)]

    assert asyncio.run(names()) == ["gpu-1"]


def test_a_list_whose_packing_is_cut_short_is_told_as_damaged(tmp_path):
    error = failure_with_answer(answered(gzip.compress(LISTED)[:-100]), tmp_path)
    assert "the answer broke off or is damaged" in error.message
    assert error.hint == "ask again"


def test_a_refusal_that_a_proxy_packed_is_quoted(tmp_path):
    error = failure_with_answer(answered(gzip.compress(b'{"message":"no such tenant"}'), 400), tmp_path)
    assert error.message.endswith("HTTP 400: no such tenant")


def test_a_refusal_whose_packing_is_damaged_leaves_its_status(tmp_path):
    assert failure_with_answer(answered(b"no gzip", 400), tmp_path).message.endswith("HTTP 400")


def test_only_lists_are_asked_for_packed(tmp_path):
    async def accepted() -> list[str]:
        async with sandbox(tmp_path, {"nodes": [node(1)]}) as (server, cluster):
            await cluster.list(NODES)
            await cluster.get(NODES, "gpu-0001")
            return [one.headers["Accept-Encoding"] for one in server.requests]

    assert asyncio.run(accepted()) == ["gzip", "identity"]
