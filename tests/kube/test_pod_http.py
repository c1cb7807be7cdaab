"""A pod's own port, through the API server and straight: its answer as it is, bounded, or a clear error."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from msgspec import structs
from yarl import URL

from bot.errors import SourceError, Troubled
from bot.kube.client import pod_http
from bot.kube.client.live import LiveCluster
from bot.kube.cluster import PodAnswer, PodGet, nobody_listens
from bot.texts import in_english
from sandbox.apiserver import ApiServer, Fault
from sandbox.serving import Served
from tests.kube.live_servers import reached, tls

POD = {
    "metadata": {"namespace": "hami-system", "name": "sched-0"},
    "spec": {"containers": [{"name": "vgpu-scheduler-extender", "ports": [{"containerPort": 443}]}]},
    "status": {"podIP": "127.0.0.9", "phase": "Running"},
}
PROFILE = b"\x1f\x8b" + b"profile" * 1000
HEAP = PodGet("hami-system", "sched-0", "https", 443, "debug/pprof/heap", within_s=2)


def proxied(folder: Path, talk: Callable[[LiveCluster], Awaitable[Any]], *faults: Fault) -> Any:
    async def run() -> Any:
        profiles = {("hami-system", "sched-0", "heap"): PROFILE}
        async with reached(ApiServer({"pods": [POD]}, profiles=profiles, faults=faults), folder) as cluster:
            return await talk(cluster)

    return asyncio.run(run())


def test_through_the_api_server_the_pods_answer_comes_as_it_is(tmp_path: Path) -> None:
    answer = proxied(tmp_path, lambda cluster: cluster.pod_get(HEAP))
    assert (answer.status, answer.body, answer.cut) == (200, PROFILE, False)


def test_a_path_that_the_pod_does_not_serve_is_its_own_404(tmp_path: Path) -> None:
    answer = proxied(tmp_path, lambda cluster: cluster.pod_get(structs.replace(HEAP, path="nothing")))
    assert (answer.status, answer.body) == (404, b"404 page not found\n")


def test_a_body_over_the_limit_is_cut(tmp_path: Path) -> None:
    answer = proxied(tmp_path, lambda cluster: cluster.pod_get(structs.replace(HEAP, limit_bytes=100)))
    assert (len(answer.body), answer.cut) == (100, True)


def test_what_the_api_server_refuses_says_what_to_grant(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="403") as told:
        proxied(tmp_path, lambda cluster: cluster.pod_get(HEAP), Fault("/proxy/", "status", status=403))
    assert "pods/proxy" in in_english(told.value.hint)


def test_a_port_that_nobody_listens_on_is_told(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="503"):
        proxied(tmp_path, lambda cluster: cluster.pod_get(structs.replace(HEAP, port=9999)))


def test_a_pod_that_the_api_server_cannot_reach_is_not_the_api_servers_trouble(tmp_path: Path) -> None:
    with pytest.raises(SourceError) as told:
        proxied(tmp_path, lambda cluster: cluster.pod_get(structs.replace(HEAP, port=9999)))
    assert not isinstance(told.value, Troubled)
    assert "cannot reach the pod" in in_english(told.value.hint)


def test_an_answer_that_does_not_end_in_time_is_given_up(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"not finished within 0\.3 s"):
        proxied(
            tmp_path,
            lambda cluster: cluster.pod_get(structs.replace(HEAP, within_s=0.3)),
            Fault("/proxy/", "hang"),
        )


def straight(scheme: str, context: ssl.SSLContext | None, *, trust_any: bool, **changes: Any) -> PodAnswer:
    """The answer of a server on loopback that stands for a pod."""

    async def run() -> PodAnswer:
        async def served(request: web.Request) -> web.Response:
            if request.query.get("seconds") == "9":
                raise web.HTTPFound("http://127.0.0.1:1/elsewhere")
            if request.query.get("seconds") == "8":
                await asyncio.Event().wait()
            return web.Response(body=PROFILE, headers={"X-Go-Pprof": "1"})

        app = web.Application()
        app.router.add_get("/debug/pprof/heap", served)
        async with Served(app, tls=context, handler_cancellation=True) as server:
            wanted = structs.replace(HEAP, scheme=scheme, port=URL(server.url).port or 0, **changes)
            return await pod_http.straight("127.0.0.1", wanted, trust_any=trust_any)

    return asyncio.run(run())


def test_straight_to_a_pod_with_a_certificate_that_nobody_signed(tmp_path: Path) -> None:
    answer = straight("https", tls(tmp_path), trust_any=True)
    assert (answer.status, answer.body, answer.headers["x-go-pprof"]) == (200, PROFILE, "1")


def test_such_a_certificate_is_refused_unless_that_is_allowed(tmp_path: Path) -> None:
    with pytest.raises(SourceError) as told:
        straight("https", tls(tmp_path), trust_any=False)
    assert "profiles.trust_any_certificate" in in_english(told.value.hint)


def test_a_redirect_is_not_followed() -> None:
    assert straight("http", None, trust_any=False, query=(("seconds", "9"),)).status == 302


def test_a_pod_that_never_answers_is_given_up() -> None:
    with pytest.raises(SourceError, match=r"not finished within 0\.3 s"):
        straight("http", None, trust_any=False, query=(("seconds", "8"),), within_s=0.3)


def test_a_port_of_a_pod_that_nobody_listens_on_is_known_as_such() -> None:
    with pytest.raises(SourceError, match="connection refused") as told:
        asyncio.run(pod_http.straight("127.0.0.1", structs.replace(HEAP, port=1), trust_any=False))
    assert nobody_listens(told.value)
