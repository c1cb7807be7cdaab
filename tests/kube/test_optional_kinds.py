"""Kinds that an API server serves in another version, or not at all."""

import asyncio
import re
from pathlib import Path

import pytest
from aiohttp import web

from bot.errors import SourceError
from bot.kube.client.connect import open_cluster
from bot.kube.cluster import list_served
from bot.kube.models import RESOURCE_CLAIMS, RESOURCE_SLICES, ResourceSlice
from bot.kube.recording.record import record
from bot.kube.recording.recorded_cluster import RecordedCluster
from tests.kube.live_servers import Fault, sandbox, serving, write_kubeconfig
from tests.playbooks.dra_support import resource_claim, resource_slice


def listed_from(versions: str, folder: Path) -> tuple[list[ResourceSlice], list[str]]:
    """What is listed of a server that serves these versions alone, and the paths that were asked for."""
    asked: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.path)
        if not re.search(f"/({versions})/", request.path):
            return web.json_response({"kind": "Status", "code": 404, "message": "not found"}, status=404)
        return web.json_response({"metadata": {}, "items": [resource_slice("a", beta="beta1" in request.path)]})

    async def main() -> list[ResourceSlice]:
        async with (
            serving(answer) as url,
            await open_cluster(kubeconfig=write_kubeconfig(folder, url)) as cluster,
        ):
            return await list_served(cluster, RESOURCE_SLICES)

    return asyncio.run(main()), asked


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1"])
def test_the_newest_version_that_is_served_is_read(version: str, tmp_path: Path) -> None:
    (found,), asked = listed_from(version, tmp_path)
    assert (found.spec.driver, (found.spec.devices or [])[0].uuid) == ("hami-core-gpu.project-hami.io", "GPU-a")
    assert asked[-1] == f"/apis/resource.k8s.io/{version}/resourceslices"


def test_where_no_version_is_served_there_are_none(tmp_path: Path) -> None:
    assert listed_from("none", tmp_path)[0] == []


async def test_where_reading_is_refused_that_is_said(tmp_path: Path) -> None:
    async with sandbox(tmp_path, None, Fault("/resourceslices", "status", 403)) as (_, cluster):
        with pytest.raises(SourceError, match="403"):
            await list_served(cluster, RESOURCE_SLICES)


async def test_claims_and_slices_are_recorded_and_read_back(tmp_path: Path) -> None:
    claim = resource_claim("a", ("dra-1", "hami-gpu-0"), users=["wl"]) | {"apiVersion": "resource.k8s.io/v1"}
    offered = resource_slice() | {"apiVersion": "resource.k8s.io/v1"}
    out = tmp_path / "case.tar.gz"
    seed = {"resourceclaims.resource.k8s.io": [claim], "resourceslices.resource.k8s.io": [offered]}
    async with sandbox(tmp_path, {"pods": [], "nodes": [], **seed}) as (_, cluster):
        await record(cluster, out, pod=None, server_version="v1.34.1", annotations=())
        again = RecordedCluster.open(out)
        (slice_read,), (slice_recorded,) = await cluster.list(RESOURCE_SLICES), await again.list(RESOURCE_SLICES)
        (claim_read,), (claim_recorded,) = await cluster.list(RESOURCE_CLAIMS), await again.list(RESOURCE_CLAIMS)
        assert slice_recorded.spec == slice_read.spec
        assert (claim_recorded.spec, claim_recorded.status) == (claim_read.spec, claim_read.status)
        assert claim_recorded.devices[0].device == "hami-gpu-0"
