"""What ends with the scheduler's pods, recorded before they do: enough to replay, and nothing of anybody else's."""

import asyncio
import json
from pathlib import Path

import pytest

from bot.errors import SourceError
from bot.hami.vendors import ANNOTATIONS
from bot.kube.models import PODS
from bot.kube.recording.record import RecordSummary, capture
from bot.kube.recording.recorded_cluster import RecordedCluster
from sandbox.apiserver import ApiServer, Fault
from sandbox.apiserver.recordings import read_recording
from tests.cases_support import CASES, ask_cluster
from tests.kube.live_servers import reached

NAMESPACE = "hami-system"
METRICS = b'# TYPE GPUDeviceCount gauge\nGPUDeviceCount{nodeid="gpu-1"} 4\n'


def captured(folder: Path, *faults: Fault) -> tuple[RecordSummary, list[str]]:
    """The summary, and the paths that were asked for."""

    async def run() -> tuple[RecordSummary, list[str]]:
        seed = read_recording(CASES / "hami-2.10" / "recording.tar.gz", None)
        (pod,) = [pod for pod in seed.objects["pods"] if pod["metadata"]["name"].startswith("hami-scheduler")]
        metrics = {(NAMESPACE, pod["metadata"]["name"], "9395"): METRICS}
        server = ApiServer(seed.objects, logs=seed.logs, metrics=metrics, faults=faults)
        async with reached(server, folder) as cluster:
            pods = [await cluster.get(PODS, pod["metadata"]["name"], NAMESPACE)]
            summary = await capture(cluster, NAMESPACE, pods, folder / "capture.tar.gz", annotations=ANNOTATIONS)
        return summary, [request.path for request in server.requests]

    return asyncio.run(run())


def test_logs_metrics_lease_and_nodes_are_in_it_and_it_replays(tmp_path: Path) -> None:
    summary, _ = captured(tmp_path)
    recording = RecordedCluster.open(summary.path)
    (metrics,) = recording.files("metrics/")
    assert metrics.endswith("/9395.prom")
    assert recording.read(metrics) == METRICS
    assert recording.files("logs/")
    assert json.loads(recording.read("objects/leases.coordination.k8s.io.json"))["items"]
    assert [finding.code for finding in ask_cluster(recording, verb="status").findings] == ["node-unregistered"]


def test_no_pod_outside_of_hami_is_read(tmp_path: Path) -> None:
    summary, asked = captured(tmp_path)
    pods = json.loads(RecordedCluster.open(summary.path).read("objects/pods.json"))["items"]
    assert {pod["metadata"]["namespace"] for pod in pods} == {NAMESPACE}
    assert "/api/v1/pods" not in asked


def test_metrics_that_may_not_be_fetched_are_a_gap(tmp_path: Path) -> None:
    summary, _ = captured(tmp_path, Fault("/proxy/metrics$", "status", status=403))
    assert [gap.source.partition("/")[0] for gap in summary.gaps] == [
        "metrics of hami-system",
        "metrics of vGPUmonitor",
    ]
    assert summary.logs


def test_without_any_log_it_is_no_capture(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no log could be read of the pods"):
        captured(tmp_path, Fault("/log$", "status", status=403))
