"""A scheduler that serves profiles over a socket, and a profile fetched from it."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from playbooks.playbook import Sources
from playbooks.profile.fetch import ProfileSnapshot, gather
from playbooks.profile.request import Request
from sandbox.apiserver import ApiServer
from sandbox.apiserver.recordings import read_recording
from tests.cases_support import CASES
from tests.kube.live_servers import reached

HEAP, CPU = Request("heap", 0), Request("cpu", 30)
REAL = read_recording(CASES / "hami-2.10" / "recording.tar.gz").profiles
PROFILE = next(content for (*_, kind), content in REAL.items() if kind == "heap")


def scheduler_of(version: str) -> tuple[str, str]:
    """Namespace and name of the pod of HAMi's scheduler in the recording of that version."""
    pods = read_recording(CASES / version / "recording.tar.gz").objects["pods"]
    found = [pod["metadata"] for pod in pods if any("extender" in c["name"] for c in pod["spec"]["containers"])]
    return found[0]["namespace"], found[0]["name"]


def fetched(
    folder: Path, request: Request, server: ApiServer, meanwhile: Callable[..., Awaitable[Any]] = gather
) -> Any:
    """What `gather` gives with the real client on that server."""

    async def run() -> ProfileSnapshot:
        async with reached(server, folder, read_timeout_s=60) as cluster:
            return await meanwhile(request, Sources(cluster, ports=cluster))

    return asyncio.run(run())


def serving(version: str, *profiles: str, **options: Any) -> ApiServer:
    where = scheduler_of(version)
    seed = read_recording(CASES / version / "recording.tar.gz")
    served = {(*where, kind): PROFILE for kind in profiles}
    return ApiServer(seed.objects, profiles=served, **options)
