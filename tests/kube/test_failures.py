"""What the live client says when the API server refuses, or the way there fails; and when it tries again."""

import asyncio
import socket
import time
import traceback
from contextlib import closing

import pytest
from aiohttp import web

from bot.errors import NotFound, SourceError
from bot.kube.client import connect
from bot.kube.client.connect import open_cluster
from bot.kube.cluster import LogWanted
from bot.kube.models import DEPLOYMENTS, NODES
from bot.texts import in_english
from sandbox.apiserver import ApiServer, Fault
from tests.kube.live_servers import (
    CERTIFICATE,
    failure_at,
    failure_of,
    failure_with_answer,
    get_trainer,
    list_nodes,
    node,
    one_node,
    sandbox,
    serving,
    tls,
    write_kubeconfig,
)

BOT = "system:serviceaccount:hami-system:hami-bot"


def read_log(cluster):
    return cluster.log(LogWanted("hami-system", "hami-scheduler-0", "main", b""))


@pytest.fixture
def silent_port():
    """A port whose connections are made by the kernel and never served."""
    with closing(socket.socket()) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield listening.getsockname()[1]


@pytest.mark.parametrize(
    ("ask", "path", "status", "said", "hint"),
    [
        (list_nodes, "/nodes", 403, "cannot list resource", f"grant list on nodes in the whole cluster to {BOT}"),
        (read_log, "/log", 403, "forbidden", f"grant get on pods/log in namespace hami-system to {BOT}"),
        (get_trainer, "/pods", 404, "HTTP 404", "check the name and the namespace"),
        (get_trainer, "/pods", 401, "HTTP 401: Unauthorized", "also after reading it anew: renew the credentials of"),
        (list_nodes, "/nodes", 500, "HTTP 500: etcdserver: request timed out", "a proxy in front of it, has a problem"),
    ],
)
def test_a_refusal_is_told_in_the_servers_words_with_what_to_do(tmp_path, ask, path, status, said, hint):  # noqa: PLR0917
    error = failure_of(ask, tmp_path, Fault(path, "status", status=status))
    assert said in in_english(error.message)
    assert hint in in_english(error.hint)
    assert isinstance(error, NotFound) is (status == 404)


def test_a_refusal_in_other_words_still_says_what_to_grant(tmp_path):
    async def answer(_: web.Request) -> web.Response:
        return web.json_response({"message": "denied by policy 7"}, status=403)

    error = failure_with_answer(answer, tmp_path, lambda cluster: cluster.list(DEPLOYMENTS, "hami-system"))
    assert in_english(error.message).endswith("deployments?limit=500: HTTP 403: denied by policy 7")
    assert in_english(error.hint) == "grant list on deployments.apps in namespace hami-system to the bot"


async def test_a_list_that_expires_while_it_is_read_is_begun_anew(tmp_path):
    nodes = {"nodes": [node(number) for number in range(700)]}
    async with sandbox(tmp_path, nodes, Fault("/nodes", "status", status=410, skip=1, times=1)) as (
        server,
        cluster,
    ):
        found = await cluster.list(NODES)
        assert (len({entry.name for entry in found}), ["continue" in request.query for request in server.requests]) == (
            700,
            [False, True, False, True],
        )


def test_a_list_that_expires_twice_is_given_up(tmp_path):
    error = failure_of(list_nodes, tmp_path, Fault("/nodes", "status", status=410))
    assert in_english(error.message).startswith(
        "GET /api/v1/nodes?limit=500: HTTP 410: The provided continue parameter is too old"
    )
    assert in_english(error.hint) == "the list changed faster than it could be read, twice: ask again"


async def test_a_busy_server_is_given_the_time_it_asks_for(tmp_path):
    async with sandbox(tmp_path, None, Fault("/pods", "status", status=429, times=1, retry_after=1)) as (
        _,
        cluster,
    ):
        start = time.monotonic()
        await get_trainer(cluster)
        assert time.monotonic() - start >= 1


def test_a_server_that_stays_busy_is_asked_three_times(tmp_path):
    asked: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.path)
        return web.json_response({"message": "too many requests"}, status=429, headers={"Retry-After": "0"})

    error = failure_with_answer(answer, tmp_path)
    assert len(asked) == 3
    assert in_english(error.message) == "GET /api/v1/nodes?limit=500: HTTP 429: too many requests"
    assert in_english(error.hint) == "the API server is busy and asked to wait: ask again in a minute"


@pytest.mark.parametrize("fault", [Fault("/nodes", "status", status=503, times=1), Fault("/nodes", "cut", times=1)])
async def test_a_passing_failure_is_not_noticed(tmp_path, fault):
    async with sandbox(tmp_path, None, fault) as (_, cluster):
        assert [node.name for node in await cluster.list(NODES)] == ["gpu-0000", "gpu-0001", "gpu-0002"]


def test_the_page_of_a_failing_proxy_is_told_as_text(tmp_path):
    page = "<html><head><title>x</title><style>a{}</style></head><body><h1>502 Bad\n Gateway</h1></body></html>"

    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=502, text=page, content_type="text/html")

    assert (
        in_english(failure_with_answer(answer, tmp_path).message)
        == "GET /api/v1/nodes?limit=500: HTTP 502: 502 Bad Gateway"
    )


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("<html>Sign in</html>", "begins with '<html>Sign in</html>'"),
        ('{"kind": "Status", "message": "no list"}', "missing required field `items`"),
        ('{"items": [{"metadata": {"name": "a"', "Input data was truncated"),
        ('{"items": [' + '{"a":' * 5000 + "1" + "}" * 5000 + "]}", "maximum recursion depth exceeded"),
        ("", "Input data was truncated"),
    ],
)
def test_an_answer_that_is_no_list_is_told_and_not_taken_for_an_empty_one(tmp_path, body, said):
    async def answer(_: web.Request) -> web.Response:
        return web.Response(text=body, content_type="application/json")

    error = failure_with_answer(answer, tmp_path)
    assert said in in_english(error.message)
    assert (
        in_english(error.hint)
        == "check that the address is the API server's own, with no login page or proxy in between"
    )


def test_a_refused_connection_is_told(tmp_path):
    with closing(socket.socket()) as bound:
        bound.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{bound.getsockname()[1]}"
        error = failure_at(url, tmp_path)
    assert in_english(error.message) == f"GET /api/v1/nodes?limit=500 from {url}: connection refused"
    assert in_english(error.hint).startswith("check that the server of context 'lab' in ")
    assert in_english(error.hint).endswith("kubeconfig is up and can be reached from here (address, VPN, firewall)")


def test_a_host_without_an_address_is_told(tmp_path):
    host = "no." + "such-host." * 30 + "invalid"  # so long that it is refused without a question to DNS
    error = failure_at(f"http://{host}", tmp_path)
    assert in_english(error.message).endswith(f"no address is known for host {host!r}")
    assert in_english(error.hint) == f"check the server of context 'lab' in {tmp_path / 'kubeconfig'}, DNS and VPN"


def test_a_proxy_that_cannot_be_reached_is_told(tmp_path):
    with closing(socket.socket()) as bound:
        bound.bind(("127.0.0.1", 0))
        proxy = f"http://127.0.0.1:{bound.getsockname()[1]}"
        error = failure_at("http://127.0.0.1:1", tmp_path, cluster={"proxy-url": proxy})
    assert in_english(error.message).endswith("the proxy cannot be reached: connection refused")
    assert in_english(error.hint).startswith("check proxy-url of context 'lab'")


async def test_a_proxy_that_refuses_is_told_and_its_password_nowhere(tmp_path):
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as proxy:
        address = f"http://u:s3cret@127.0.0.1:{proxy.sockets[0].getsockname()[1]}"
        file = write_kubeconfig(tmp_path, "https://127.0.0.1:1", **{"proxy-url": address})
        async with await open_cluster(kubeconfig=file) as cluster:
            with pytest.raises(SourceError, match="the proxy answered HTTP 407") as caught:
                await cluster.list(NODES)
            assert "s3cret" not in "".join(traceback.format_exception(caught.value))


def test_a_connection_that_does_not_come_about_ends_in_time(tmp_path, silent_port):
    start = time.monotonic()
    error = failure_at(f"https://127.0.0.1:{silent_port}", tmp_path, connect_timeout_s=0.2)
    assert time.monotonic() - start < 60
    assert in_english(error.message).endswith("no connection within 0.2 s")


def test_a_half_open_connection_ends_in_time(tmp_path, silent_port):
    start = time.monotonic()
    error = failure_at(f"http://127.0.0.1:{silent_port}", tmp_path, read_timeout_s=0.2)
    assert time.monotonic() - start < 60
    assert in_english(error.message).endswith("nothing came for 0.2 s")
    assert in_english(error.hint) == "the server or the way to it is stuck: ask again"


async def test_an_answer_that_trickles_ends_in_time(tmp_path, monkeypatch):
    monkeypatch.setattr(connect, "TRICKLE", 0.01)  # of a silence that is never reached
    async with ApiServer({"nodes": [node(1)]}, faults=[Fault("/nodes", "slow")]) as server:
        file = write_kubeconfig(tmp_path, server.url)
        async with await open_cluster(kubeconfig=file, read_timeout_s=60) as cluster:
            with pytest.raises(SourceError) as caught:
                await cluster.list(NODES)
            assert in_english(caught.value.message).endswith("not finished within 0.6 s")


def test_a_connection_that_is_always_cut_is_told(tmp_path):
    error = failure_of(list_nodes, tmp_path, Fault("/nodes", "cut"))
    assert "the answer broke off or is damaged" in in_english(error.message)
    error = failure_of(list_nodes, tmp_path, Fault("/nodes", "refuse"))
    assert "the connection was lost: server disconnected" in in_english(error.message)


def test_a_certificate_of_an_unknown_authority_is_refused(tmp_path):
    error = failure_with_answer(one_node, tmp_path, context=tls(tmp_path))
    assert in_english(error.message).endswith("TLS verification failed: self-signed certificate")
    assert in_english(error.hint).startswith("check certificate-authority and server of context 'lab'")


async def test_the_kubeconfigs_own_authority_is_trusted(tmp_path):
    authority = tmp_path / "ca.pem"
    authority.write_text(CERTIFICATE)
    async with serving(one_node, tls(tmp_path)) as url:
        file = write_kubeconfig(tmp_path, url, **{"certificate-authority": "ca.pem"})
        async with await open_cluster(kubeconfig=file) as cluster:
            assert [node.name for node in await cluster.list(NODES)] == ["gpu-0001"]


async def test_a_server_that_speaks_no_tls_is_told(tmp_path):
    async with serving(one_node) as url:
        file = write_kubeconfig(tmp_path, url.replace("http:", "https:"))
        async with await open_cluster(kubeconfig=file) as cluster:
            with pytest.raises(SourceError) as caught:
                await cluster.list(NODES)
            error = caught.value
    assert "TLS failed" in in_english(error.message)
    assert in_english(error.hint).startswith("check that the server of context 'lab'")
