"""Servers on loopback for the live client to read from, good and bad, and what its failures say."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from bot.errors import SourceError
from bot.kube.client.connect import open_cluster
from bot.kube.client.live import LiveCluster
from bot.kube.models import NODES, PODS
from sandbox.apiserver import ApiServer, Fault
from sandbox.serving import Served

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


def node(number: int, **spec: Any) -> dict[str, Any]:
    name = f"gpu-{number:04d}"
    labels = {"pool": "a100" if number % 2 else "t4"}
    return {"kind": "Node", "apiVersion": "v1", "metadata": {"name": name, "labels": labels}, "spec": spec}


def pod(name: str, namespace: str = "ml") -> dict[str, Any]:
    spec = {"containers": [{"name": "main"}], "schedulerName": "hami-scheduler"}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": name, "namespace": namespace}, "spec": spec}


UNUSED = "https://127.0.0.1:1"


def write_kubeconfig(
    folder: Path, server: str = UNUSED, *, user: Any = None, name: str = "lab", **cluster: Any
) -> Path:
    """A kubeconfig of one context `name`, for that server and user (None: the token `t`)."""
    file = folder / ("kubeconfig" if name == "lab" else f"{name}.kubeconfig")
    content = {
        "clusters": [{"name": name, "cluster": {"server": server, **cluster}}],
        "users": [{"name": "me", "user": {"token": "t"} if user is None else user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": "me", "namespace": "ml"}}],
        "current-context": name,
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
async def reached(
    server: ApiServer, folder: Path, namespace: str = "default", **options: Any
) -> AsyncIterator[LiveCluster]:
    """The cluster that the server's kubeconfig, of credentials of that namespace, leads to while the server runs."""
    async with server:
        config = folder / "kubeconfig"
        config.write_text(server.kubeconfig(namespace=namespace))
        async with await open_cluster(kubeconfig=config, **options) as cluster:
            yield cluster


@asynccontextmanager
async def serving(answer: Any, context: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """A web server that answers every GET with `answer(request)`."""
    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    async with Served(app, tls=context) as served:
        yield served.url


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


def tls(folder: Path) -> ssl.SSLContext:
    pem = folder / "server.pem"
    pem.write_text(CERTIFICATE + PRIVATE_KEY)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pem)
    return context


async def one_node(_: web.Request) -> web.Response:
    return web.json_response({"metadata": {}, "items": [node(1)]})
