"""Answers that come packed with gzip: the real client against a web server that packs them."""

import asyncio
import gzip
import zlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from bot.errors import SourceError
from bot.kube.client.connect import open_cluster
from bot.kube.client.live import LiveCluster, Selection
from bot.kube.client.responses import MOST_BYTES
from bot.kube.cluster import LogWanted, PodGet
from bot.kube.models import NODES
from bot.texts import in_english
from tests.kube.live_servers import failure_with_answer, node, sandbox, serving, write_kubeconfig

LISTED = b'{"metadata":{},"items":[{"metadata":{"name":"gpu-1","labels":{"says":"%s"}}}]}' % (b"much " * 50_000)


def answered(body: bytes, status: int = 200):
    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=body, status=status, headers={"Content-Encoding": "gzip"})

    return answer


def read(folder: Path, body: bytes, use: Callable[[LiveCluster], Awaitable[Any]]) -> Any:
    """What the client makes of this body, which says that it is packed."""

    async def reading() -> Any:
        async with (
            serving(answered(body)) as url,
            await open_cluster(kubeconfig=write_kubeconfig(folder, url)) as cluster,
        ):
            return await use(cluster)

    return asyncio.run(reading())


def bomb(size: int) -> bytes:
    """The beginning of more than so many zeros, of which each MiB is packed into the same bytes."""
    packing, zeros = zlib.compressobj(wbits=31), bytes(2**20)
    header, block = (packing.compress(zeros) + packing.flush(zlib.Z_FULL_FLUSH) for _ in range(2))
    return header + block * (size >> 20)


def test_a_packed_list_is_read_whole(tmp_path):
    found = read(tmp_path, gzip.compress(LISTED), lambda cluster: cluster.list(NODES))
    assert [entry.name for entry in found] == ["gpu-1"]


def test_a_list_whose_packing_is_cut_short_is_told_as_damaged(tmp_path):
    error = failure_with_answer(answered(gzip.compress(LISTED)[:-100]), tmp_path)
    assert "the answer broke off or is damaged" in in_english(error.message)
    assert in_english(error.hint) == "ask again"


@pytest.mark.parametrize(
    ("size", "said"), [(MOST_BYTES + 1, "unpacked it is larger than 128 MiB"), (9, "its packing is cut short")]
)
def test_a_packed_object_is_not_unpacked_beyond_what_it_says_and_what_a_list_may_need(tmp_path, size, said):
    packed = bomb(MOST_BYTES) + size.to_bytes(4, "little")
    with pytest.raises(SourceError, match=said):
        read(tmp_path, packed, lambda cluster: cluster.raw(NODES, "gpu-1"))


def test_what_follows_behind_a_packed_list_is_not_left_out_in_silence(tmp_path):
    error = failure_with_answer(answered(gzip.compress(LISTED) * 2), tmp_path)
    assert "more follows behind the end of its packing" in in_english(error.message)


def test_what_was_not_asked_for_packed_is_refused_where_it_is(tmp_path):
    log, profile = LogWanted("ml", "trainer-0", "main", b"x"), PodGet("ml", "trainer-0", "http", 6060, "heap")
    asked = (
        lambda cluster: cluster.log(log),
        lambda cluster: cluster.pod_get(profile),
        lambda cluster: cluster.watch(Selection(NODES), "1", print, for_s=1, silence_s=60),
    )
    for ask in asked:
        with pytest.raises(SourceError, match="it is packed, and was not asked for so"):
            read(tmp_path, gzip.compress(b"x\n" * 9), ask)


def test_a_refusal_that_a_proxy_packed_is_quoted(tmp_path):
    error = failure_with_answer(answered(gzip.compress(b'{"message":"no such tenant"}'), 400), tmp_path)
    assert in_english(error.message).endswith("HTTP 400: no such tenant")


def test_a_refusal_whose_packing_is_damaged_leaves_its_status(tmp_path):
    assert in_english(failure_with_answer(answered(b"no gzip", 400), tmp_path).message).endswith("HTTP 400")


async def test_only_lists_are_asked_for_packed(tmp_path):
    async with sandbox(tmp_path, {"nodes": [node(1)]}) as (server, cluster):
        await cluster.list(NODES)
        await cluster.get(NODES, "gpu-0001")
        assert [request.headers["Accept-Encoding"] for request in server.requests] == ["gzip", "identity"]
