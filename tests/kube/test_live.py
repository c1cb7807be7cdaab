"""Reading a live cluster: the real client against servers on real sockets, with all that can go wrong on the way."""

import asyncio
import socket
import ssl
import time
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from bot.errors import NotFound, SourceError
from bot.kube.cluster import LogLines, LogWanted
from bot.kube.connect import open_cluster
from bot.kube.live import LONGEST_LINE, MOST_LINES, LineFilter, LiveCluster
from bot.kube.models import DEPLOYMENTS, NODES, PODS
from sandbox.apiserver import ApiServer, Fault

# For 127.0.0.1 until 2120, signed by itself. It guards nothing.
CERTIFICATE = """\
-----BEGIN CERTIFICATE-----
MIIBdTCCARygAwIBAgIBATAKBggqhkjOPQQDAjAZMRcwFQYDVQQDDA5oYW1pLWJv
dC10ZXN0czAgFw0yMDAxMDEwMDAwMDBaGA8yMTIwMDEwMTAwMDAwMFowGTEXMBUG
A1UEAwwOaGFtaS1ib3QtdGVzdHMwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAATN
2vZOkuPEgLP/CujrMq3py0S2zIHVEuOjoWCJJPE7xU8nNWJqalbN+X+N2UrHXN66
jtOWJOJj8nhzc+arBbd+o1MwUTAdBgNVHQ4EFgQULX+PTrhjkJDBVPBLQXHjXxY2
JSkwDwYDVR0TAQH/BAUwAwEB/zAOBgNVHQ8BAf8EBAMCAoQwDwYDVR0RBAgwBocE
fwAAATAKBggqhkjOPQQDAgNHADBEAiB2urzI923w6HlS/bTSP9uK2w9FA8y/gNds
JkTZOlmdXwIgUl99E16p/JyaL35GHyZrJBZweG/kHciRiOIKaA5/hVs=
-----END CERTIFICATE-----
"""
PRIVATE_KEY = """\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgbq+YREtYigy8AjRL
rZBmS+EVOkTnHntUDeyqnbXr/VyhRANCAATN2vZOkuPEgLP/CujrMq3py0S2zIHV
EuOjoWCJJPE7xU8nNWJqalbN+X+N2UrHXN66jtOWJOJj8nhzc+arBbd+
-----END PRIVATE KEY-----
"""
BOT = "system:serviceaccount:hami-system:hami-bot"


def node(number: int, **spec: Any) -> dict[str, Any]:
    name = f"gpu-{number:04d}"
    labels = {"pool": "a100" if number % 2 else "t4"}
    return {"kind": "Node", "apiVersion": "v1", "metadata": {"name": name, "labels": labels}, "spec": spec}


def pod(name: str, namespace: str = "ml") -> dict[str, Any]:
    spec = {"containers": [{"name": "main"}], "schedulerName": "hami-scheduler"}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": name, "namespace": namespace}, "spec": spec}


def write_kubeconfig(folder: Path, server: str, **cluster: Any) -> Path:
    file = folder / "kubeconfig"
    context = {"cluster": "lab", "user": "me"}
    content = {
        "clusters": [{"name": "lab", "cluster": {"server": server, **cluster}}],
        "users": [{"name": "me", "user": {"token": "t"}}],
        "contexts": [{"name": "lab", "context": context}],
        "current-context": "lab",
    }
    file.write_text(yaml.safe_dump(content))
    return file


Read = Callable[[LiveCluster], Awaitable[Any]]


async def list_nodes(cluster: LiveCluster) -> Any:
    return await cluster.list(NODES)


async def get_trainer(cluster: LiveCluster) -> Any:
    return await cluster.get(PODS, "trainer-0", "ml")


@asynccontextmanager
async def sandbox(
    folder: Path, objects: dict[str, Any] | None = None, *faults: Fault, logs: Any = None
) -> AsyncIterator[tuple[ApiServer, LiveCluster]]:
    default = {"nodes": [node(number) for number in range(3)], "pods": [pod("trainer-0")]}
    async with ApiServer(objects or default, faults=faults, logs=logs) as server:
        file = write_kubeconfig(folder, server.url)
        async with await open_cluster(kubeconfig=file) as cluster:
            yield server, cluster


@asynccontextmanager
async def serving(answer: Any, context: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """A web server that answers every GET with `answer(request)`."""
    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    try:
        yield f"{'https' if context else 'http'}://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def failure_of(read: Read, folder: Path, *faults: Fault) -> SourceError:
    async def attempt() -> SourceError:
        async with sandbox(folder, None, *faults) as (_, cluster):
            with pytest.raises(SourceError) as caught:
                await read(cluster)
            return caught.value

    return asyncio.run(attempt())


def failure_at(url: str, folder: Path, *, cluster: dict[str, Any] | None = None, **timeouts: float) -> SourceError:
    async def attempt() -> SourceError:
        file = write_kubeconfig(folder, url, **(cluster or {}))
        async with await open_cluster(kubeconfig=file, **timeouts) as opened:
            with pytest.raises(SourceError) as caught:
                await opened.list(NODES)
            return caught.value

    return asyncio.run(attempt())


def failure_with_answer(
    answer: Any, folder: Path, read: Read = list_nodes, context: ssl.SSLContext | None = None
) -> SourceError:
    async def attempt() -> SourceError:
        async with (
            serving(answer, context) as url,
            await open_cluster(kubeconfig=write_kubeconfig(folder, url)) as cluster,
        ):
            with pytest.raises(SourceError) as caught:
                await read(cluster)
            return caught.value

    return asyncio.run(attempt())


@pytest.fixture
def silent_port():
    """A port whose connections are made by the kernel and never served."""
    with closing(socket.socket()) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield listening.getsockname()[1]


# ------------------------------------------------------------------------------------------------ objects


def test_a_list_longer_than_a_page_comes_whole(tmp_path):
    async def names() -> tuple[list[str], list[str]]:
        async with sandbox(tmp_path, {"nodes": [node(number) for number in range(1201)]}) as (server, cluster):
            found = await cluster.list(NODES)
            return [one.name for one in found], [request.query.get("limit", "") for request in server.requests]

    found, limits = asyncio.run(names())
    assert found == [f"gpu-{number:04d}" for number in range(1201)]
    assert limits == ["500", "500", "500"]


def test_selectors_reach_the_server(tmp_path):
    async def names() -> list[str]:
        nodes = [node(0), node(1), node(3, unschedulable=True)]
        async with sandbox(tmp_path, {"nodes": nodes}) as (_, cluster):
            found = await cluster.list(NODES, labels="pool in (a100, h100)", fields="spec.unschedulable!=true")
            return [one.name for one in found]

    assert asyncio.run(names()) == ["gpu-0001"]


def test_a_list_of_metadata_only_has_no_spec(tmp_path):
    async def schedulers() -> list[tuple[str, str]]:
        async with sandbox(tmp_path) as (_, cluster):
            return [(one.name, one.spec.scheduler_name) for one in await cluster.list(PODS, metadata_only=True)]

    assert asyncio.run(schedulers()) == [("trainer-0", "")]


def test_the_server_is_told_who_asks_and_may_compress(tmp_path):
    async def headers() -> tuple[str, str, str]:
        async with sandbox(tmp_path) as (server, cluster):
            await cluster.list(NODES)
            sent = server.requests[0].headers
            return sent["User-Agent"], sent["Accept-Encoding"], sent["Authorization"]

    assert asyncio.run(headers()) == ("hami-bot", "gzip", "Bearer t")


def test_the_server_tells_its_version(tmp_path):
    async def version() -> str:
        async with sandbox(tmp_path) as (_, cluster):
            return await cluster.server_version()

    assert asyncio.run(version()) == "v1.34.1"


def test_an_object_with_wrong_types_is_left_out_and_named(tmp_path):
    broken = pod("broken") | {"spec": {"containers": 5}}

    async def read() -> tuple[list[str], list[str]]:
        async with sandbox(tmp_path, {"pods": [pod("a"), broken, pod("b")]}) as (_, cluster):
            return [one.name for one in await cluster.list(PODS)], cluster.undecodable

    assert asyncio.run(read()) == (["a", "b"], ["pods ml/broken: Expected `array`, got `int` - at `$.spec.containers`"])


def test_an_object_that_was_repaired_is_no_longer_named(tmp_path):
    bodies = [[pod("broken") | {"spec": 5}], [pod("broken")]]

    async def answer(_: web.Request) -> web.Response:
        return web.json_response({"metadata": {}, "items": bodies.pop(0)})

    async def read() -> tuple[list[str], list[str]]:
        async with serving(answer) as url, await open_cluster(kubeconfig=write_kubeconfig(tmp_path, url)) as cluster:
            await cluster.list(PODS)
            before = cluster.undecodable
            await cluster.list(PODS)
            return before, cluster.undecodable

    before, after = asyncio.run(read())
    assert len(before) == 1
    assert after == []


@pytest.mark.parametrize("name", ["", ".", "..", "../../secrets", "a%2fb"])
def test_a_name_that_would_change_the_path_names_no_object(tmp_path, name):
    async def read() -> int:
        async with sandbox(tmp_path) as (server, cluster):
            with pytest.raises(NotFound, match="cannot be the name of an object"):
                await cluster.get(PODS, name, "ml")
            return len(server.requests)

    assert asyncio.run(read()) == 0


def test_a_question_mark_in_a_name_stays_in_the_name(tmp_path):
    error = failure_of(lambda cluster: cluster.get(PODS, "a?b", "ml"), tmp_path)
    assert error.message == 'GET /api/v1/namespaces/ml/pods/a%3Fb: HTTP 404: pods "a?b" not found'


# ------------------------------------------------------------------------------------------------ refusals


def test_a_forbidden_list_says_what_to_grant_to_whom(tmp_path):
    error = failure_of(list_nodes, tmp_path, Fault("/nodes", "status", status=403))
    assert error.message == (
        f'GET /api/v1/nodes?limit=500: HTTP 403: nodes is forbidden: User "{BOT}" cannot list resource "nodes" '
        'in API group "" at the cluster scope'
    )
    assert error.hint == f"grant list on nodes in the whole cluster to {BOT}"


def test_a_forbidden_log_says_what_to_grant_in_which_namespace(tmp_path):
    wanted = LogWanted("hami-system", "hami-scheduler-0", "main", b"")
    error = failure_of(lambda cluster: cluster.log(wanted), tmp_path, Fault("/log", "status", status=403))
    assert error.hint == f"grant get on pods/log in namespace hami-system to {BOT}"


def test_a_refusal_in_other_words_still_says_what_to_grant(tmp_path):
    async def answer(_: web.Request) -> web.Response:
        return web.json_response({"message": "denied by policy 7"}, status=403)

    error = failure_with_answer(answer, tmp_path, lambda cluster: cluster.list(DEPLOYMENTS, "hami-system"))
    assert error.message.endswith("deployments?limit=500: HTTP 403: denied by policy 7")
    assert error.hint == "grant list on deployments.apps in namespace hami-system to the bot"


def test_an_object_that_is_not_there_is_told_in_the_servers_words(tmp_path):
    error = failure_of(lambda cluster: cluster.get(PODS, "nope", "ml"), tmp_path)
    assert isinstance(error, NotFound)
    assert error.message == 'GET /api/v1/namespaces/ml/pods/nope: HTTP 404: pods "nope" not found'
    assert error.hint == "check the name and the namespace"


def test_a_refused_token_says_whose_credentials_to_renew(tmp_path):
    error = failure_of(get_trainer, tmp_path, Fault("/pods", "status", status=401))
    assert error.message == "GET /api/v1/namespaces/ml/pods/trainer-0: HTTP 401: Unauthorized"
    expected = "the token was refused, also after reading it anew: renew the credentials of context 'lab' in "
    assert error.hint == f"{expected}{tmp_path / 'kubeconfig'}"


def test_a_list_that_expires_while_it_is_read_is_begun_anew(tmp_path):
    async def names() -> tuple[int, list[bool]]:
        nodes = {"nodes": [node(number) for number in range(700)]}
        async with sandbox(tmp_path, nodes, Fault("/nodes", "status", status=410, skip=1, times=1)) as (
            server,
            cluster,
        ):
            found = await cluster.list(NODES)
            return len({one.name for one in found}), ["continue" in request.query for request in server.requests]

    assert asyncio.run(names()) == (700, [False, True, False, True])


def test_a_list_that_expires_twice_is_given_up(tmp_path):
    error = failure_of(list_nodes, tmp_path, Fault("/nodes", "status", status=410))
    assert error.message.startswith("GET /api/v1/nodes?limit=500: HTTP 410: The provided continue parameter is too old")
    assert error.hint == "the list changed faster than it could be read, twice: ask again"


def test_a_busy_server_is_given_the_time_it_asks_for(tmp_path):
    async def seconds() -> float:
        async with sandbox(tmp_path, None, Fault("/pods", "status", status=429, times=1, retry_after=1)) as (
            _,
            cluster,
        ):
            start = time.monotonic()
            await get_trainer(cluster)
            return time.monotonic() - start

    assert 1 <= asyncio.run(seconds()) < 3


def test_a_server_that_stays_busy_is_asked_three_times(tmp_path):
    asked: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.path)
        return web.json_response({"message": "too many requests"}, status=429, headers={"Retry-After": "0"})

    error = failure_with_answer(answer, tmp_path)
    assert len(asked) == 3
    assert error.message == "GET /api/v1/nodes?limit=500: HTTP 429: too many requests"
    assert error.hint == "the API server is busy and asked to wait: ask again in a minute"


@pytest.mark.parametrize("fault", [Fault("/nodes", "status", status=503, times=1), Fault("/nodes", "cut", times=1)])
def test_a_passing_failure_is_not_noticed(tmp_path, fault):
    async def names() -> list[str]:
        async with sandbox(tmp_path, None, fault) as (_, cluster):
            return [one.name for one in await cluster.list(NODES)]

    assert asyncio.run(names()) == ["gpu-0000", "gpu-0001", "gpu-0002"]


def test_a_lasting_failure_of_the_server_is_told(tmp_path):
    error = failure_of(list_nodes, tmp_path, Fault("/nodes", "status", status=500))
    assert error.message == "GET /api/v1/nodes?limit=500: HTTP 500: etcdserver: request timed out"
    assert error.hint.startswith("the API server, or what stands before it, is in trouble")


def test_the_page_of_a_failing_proxy_is_told_as_text(tmp_path):
    page = "<html><head><title>x</title><style>a{}</style></head><body><h1>502 Bad\n Gateway</h1></body></html>"

    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=502, text=page, content_type="text/html")

    assert failure_with_answer(answer, tmp_path).message == "GET /api/v1/nodes?limit=500: HTTP 502: 502 Bad Gateway"


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
    assert said in error.message
    assert error.hint == "check that the address is the API server's own, with no login page or proxy in between"


# ------------------------------------------------------------------------------------------------ the way there


def test_a_refused_connection_is_told(tmp_path):
    with closing(socket.socket()) as bound:
        bound.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{bound.getsockname()[1]}"
        error = failure_at(url, tmp_path)
    assert error.message == f"GET /api/v1/nodes?limit=500 from {url}: connection refused"
    assert error.hint == "check that the server is up and that it can be reached from here (address, VPN, firewall)"


def test_a_host_without_an_address_is_told(tmp_path):
    host = "no." + "such-host." * 30 + "invalid"  # so long that it is refused without a question to DNS
    error = failure_at(f"http://{host}", tmp_path)
    assert error.message.endswith(f"no address is known for host {host!r}")
    assert error.hint == f"check the server of context 'lab' in {tmp_path / 'kubeconfig'}, DNS and VPN"


def test_an_address_without_a_scheme_is_told(tmp_path):
    error = failure_at("127.0.0.1:6443", tmp_path)
    assert error.message == "GET /api/v1/nodes?limit=500 from 127.0.0.1:6443: this is no http(s) address"


def test_a_connection_that_does_not_come_about_ends_in_time(tmp_path, silent_port):
    start = time.monotonic()
    error = failure_at(f"https://127.0.0.1:{silent_port}", tmp_path, connect_timeout_s=0.2)
    assert time.monotonic() - start < 2
    assert error.message.endswith("no connection within 0.2 s")


def test_a_half_open_connection_ends_in_time(tmp_path, silent_port):
    start = time.monotonic()
    error = failure_at(f"http://127.0.0.1:{silent_port}", tmp_path, read_timeout_s=0.2)
    assert time.monotonic() - start < 2
    assert error.message.endswith("nothing came for 0.2 s")
    assert error.hint == "the server or the way to it is stuck: ask again"


def test_an_answer_that_trickles_ends_in_time(tmp_path):
    async def attempt() -> SourceError:
        async with ApiServer({"nodes": [node(1)]}, faults=[Fault("/nodes", "slow")]) as server:
            file = write_kubeconfig(tmp_path, server.url)
            async with await open_cluster(kubeconfig=file, read_timeout_s=0.1) as cluster:
                with pytest.raises(SourceError) as caught:
                    await cluster.list(NODES)
                return caught.value

    assert asyncio.run(attempt()).message.endswith("not finished within 0.4 s")


def test_a_connection_that_is_always_cut_is_told(tmp_path):
    error = failure_of(list_nodes, tmp_path, Fault("/nodes", "cut"))
    assert "the answer broke off or is damaged" in error.message
    error = failure_of(list_nodes, tmp_path, Fault("/nodes", "refuse"))
    assert "the connection was lost: server disconnected" in error.message


def tls(folder: Path) -> ssl.SSLContext:
    pem = folder / "server.pem"
    pem.write_text(CERTIFICATE + PRIVATE_KEY)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pem)
    return context


async def one_node(_: web.Request) -> web.Response:
    return web.json_response({"metadata": {}, "items": [node(1)]})


def test_a_certificate_of_an_unknown_authority_is_refused(tmp_path):
    error = failure_with_answer(one_node, tmp_path, context=tls(tmp_path))
    assert error.message.endswith("TLS verification failed: self-signed certificate")
    assert error.hint.startswith("check certificate-authority and server of context 'lab'")


def test_the_kubeconfigs_own_authority_is_trusted(tmp_path):
    authority = tmp_path / "ca.pem"
    authority.write_text(CERTIFICATE)

    async def names() -> list[str]:
        async with serving(one_node, tls(tmp_path)) as url:
            file = write_kubeconfig(tmp_path, url, **{"certificate-authority": "ca.pem"})
            async with await open_cluster(kubeconfig=file) as cluster:
                return [one.name for one in await cluster.list(NODES)]

    assert asyncio.run(names()) == ["gpu-0001"]


def test_a_server_that_speaks_no_tls_is_told(tmp_path):
    async def attempt() -> SourceError:
        async with serving(one_node) as url:
            file = write_kubeconfig(tmp_path, url.replace("http:", "https:"))
            async with await open_cluster(kubeconfig=file) as cluster:
                with pytest.raises(SourceError) as caught:
                    await cluster.list(NODES)
                return caught.value

    error = asyncio.run(attempt())
    assert "TLS failed" in error.message
    assert error.hint.startswith("check that the server of context 'lab'")


# ------------------------------------------------------------------------------------------------ logs

SCHEDULER = ("hami-system", "hami-scheduler-0", "main")


def log_of(text: bytes, folder: Path, **wanted: Any) -> LogLines:
    async def read() -> LogLines:
        objects = {"pods": [pod("hami-scheduler-0", "hami-system")]}
        async with sandbox(folder, objects, logs={SCHEDULER: text}) as (_, cluster):
            return await cluster.log(LogWanted(*SCHEDULER, **wanted))

    return asyncio.run(read())


def test_only_the_lines_that_contain_the_needle_are_kept(tmp_path):
    text = "ml/trainer-0 无法调度\nml/other\nagain: ml/trainer-01 ml/trainer-0".encode()
    assert log_of(text, tmp_path, needle=b"ml/trainer-0") == (
        ("ml/trainer-0 无法调度", "again: ml/trainer-01 ml/trainer-0"),
        False,
    )


def test_a_log_that_the_limit_ends_says_so_and_ends_with_a_whole_line(tmp_path):
    assert log_of(b"one a\ntwo a\nthree a\n", tmp_path, needle=b"a", limit_bytes=15) == (("one a", "two a"), True)


def test_a_container_that_is_not_there_is_told_in_the_servers_words(tmp_path):
    wanted = LogWanted("ml", "trainer-0", "sidecar", b"", since_s=60, limit_bytes=99)
    error = failure_of(lambda cluster: cluster.log(wanted), tmp_path)
    assert error.message == (
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
    assert lines == (("the line about ml/trainer-0",), False)
    assert peak_bytes < 10 * 1024 * 1024


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_lines_are_the_same_however_the_log_arrives(size):
    log = b"a1\n\nxa2\r\nb\na3"
    lines = LineFilter(b"a")
    for start in range(0, len(log), size):
        lines.feed(log[start : start + size])
    assert lines.finish(cut_short=False) == (("a1", "xa2\r", "a3"), False)


def test_an_empty_needle_keeps_every_line():
    lines = LineFilter(b"")
    lines.feed(b"a\nb\n\nc")
    assert lines.finish(cut_short=False).lines == ("a", "b", "", "c")


def test_a_line_without_end_is_dropped_and_the_next_one_is_kept():
    lines = LineFilter(b"a")
    lines.feed(b"first a\n")
    for _ in range(3):
        lines.feed(b"a" * LONGEST_LINE)
    lines.feed(b"aa\nlast a\n")
    assert lines.finish(cut_short=False) == (("first a", "last a"), True)


def test_of_too_many_matches_the_newest_are_kept():
    lines = LineFilter(b"a")
    lines.feed(b"".join(b"a%d\n" % number for number in range(MOST_LINES + 2)))
    kept, cut = lines.finish(cut_short=False)
    assert (kept[0], kept[-1], len(kept), cut) == ("a2", f"a{MOST_LINES + 1}", MOST_LINES, True)
