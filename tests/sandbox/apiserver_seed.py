"""A small cluster for the sandbox's API server, and single requests to it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp

from sandbox.apiserver import ApiServer
from tests.sandbox.apiserver_support import PATIENCE_S, Answer

METADATA_LIST = {"Accept": "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"}
METADATA = {"Accept": "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json"}

NODES = [
    {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {
            "name": f"gpu-{number}",
            "uid": str(number),
            "resourceVersion": str(40 + number),
            "labels": {"pool": pool, "rank": str(number)},
        },
        "spec": {"unschedulable": True} if number == 3 else {},
        "status": {"allocatable": {"cpu": "8"}},
    }
    for number, pool in ((3, "a100"), (1, "t4"), (2, "a100"))
]


def pod(namespace: str, name: str, phase: str, *containers: str, **spec: Any) -> dict[str, Any]:
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"namespace": namespace, "name": name, "resourceVersion": "7", "labels": {"app": name}},
        "spec": {"containers": [{"name": container} for container in containers], **spec},
        "status": {"phase": phase},
    }


PODS = [
    pod("ml", "trainer", "Pending", "main", schedulerName="hami-scheduler"),
    pod("ml", "web", "Running", "main", nodeName="gpu-1", schedulerName="default-scheduler"),
    pod("ml-dev", "trainer", "Failed", "main", nodeName="gpu-2"),
    pod("hami-system", "hami-scheduler-0", "Running", "kube-scheduler", "vgpu-scheduler-extender"),
]
EVENT = {
    "kind": "Event",
    "apiVersion": "v1",
    "metadata": {"namespace": "ml", "name": "trainer.1"},
    "involvedObject": {"kind": "Pod", "namespace": "ml", "name": "trainer", "uid": "u"},
    "reason": "FilteringFailed",
    "type": "Warning",
    "reportingComponent": "hami-scheduler",
}
DEPLOYMENT = {
    "kind": "Deployment",
    "apiVersion": "apps/v1",
    "metadata": {"namespace": "hami-system", "name": "hami-scheduler"},
    "spec": {"replicas": 1},
}
OBJECTS = {"nodes": NODES, "pods": PODS, "events": [EVENT], "deployments.apps": [DEPLOYMENT]}
LOG = b"".join(
    b'I1121 06:%02d:00.000000       1 score.go:275] "NodeUnfitPod" pod="ml/trainer" n=%d\n' % (number, number)
    for number in range(10)
)
EXTENDER = ("hami-system", "hami-scheduler-0", "vgpu-scheduler-extender")

Get = Callable[..., Awaitable[Answer]]


def converse(talk: Callable[[ApiServer, Get], Awaitable[Any]], objects: Any = OBJECTS, **options: Any) -> Any:
    """What `talk` returns; it gets a running server and a function that sends one GET."""

    async def run():
        async with ApiServer(objects, **options) as server, aiohttp.ClientSession(server.url) as client:

            async def get(path: str, headers: Any = None, **query: Any) -> Answer:
                params = {name: str(value) for name, value in query.items()}
                async with client.get(path, headers=headers, params=params) as response:
                    return Answer(response.status, response.headers, await response.read())

            return await asyncio.wait_for(talk(server, get), PATIENCE_S)

    return asyncio.run(run())


def ask(path: str, *, headers: Any = None, objects: Any = OBJECTS, options: Any = None, **query: Any) -> Answer:
    """The server's answer to one GET."""
    return converse(lambda _, get: get(path, headers, **query), objects, **(options or {}))


def refusal(code: int, reason: str, message: str, **details: Any) -> dict[str, Any]:
    """A Status body as the real server writes it."""
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message}
    return status | {"reason": reason} | ({"details": details} if details else {}) | {"code": code}
