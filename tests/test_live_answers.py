"""The same answers through the real client over a real socket, and honest ones when something is forbidden."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from bot.kube.client.connect import open_cluster
from bot.report import Report
from bot.texts import Texts
from playbooks.own.discovery import find
from playbooks.playbook import Sources
from sandbox.apiserver import ApiServer, Fault
from tests.cases_support import CASES, VERSIONS, ask, scenarios

FORBIDDEN = {
    "pods": r"/pods",
    "nodes": r"/nodes",
    "events": r"/events",
    "resource quotas": r"/resourcequotas",
    "deployments": r"/deployments",
    "config maps": r"/configmaps",
    "leases": r"/leases",
    "logs": r"/log$",
}


def answers(version: str, pods: Sequence[str], folder: Path, faults: Sequence[Fault] = ()) -> list[Report]:
    """What `why` says of each pod on a served recording."""

    async def run() -> list[Report]:
        recording = CASES / version / "recording.tar.gz"
        async with ApiServer.from_recording(recording, faults=list(faults)) as server:
            config = folder / "kubeconfig"
            config.write_text(server.kubeconfig())
            async with await open_cluster(kubeconfig=config) as cluster:
                return [await _why(pod, Sources(cluster)) for pod in pods]

    return asyncio.run(run())


async def _why(pod: str, sources: Sources) -> Report:
    playbook = find("why")
    return playbook.report(await playbook.gather(playbook.request(pod=pod), sources), Texts("en"))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_live_cluster_gives_the_same_findings_as_its_recording(version: str, tmp_path: Path) -> None:
    pods = [scenario.pod for scenario in scenarios() if scenario.version == version]
    for pod, report in zip(pods, answers(version, pods, tmp_path), strict=True):
        expected = ask(CASES / version / "recording.tar.gz", pod)
        assert [(finding.code, finding.scope, finding.confidence) for finding in report.findings] == [
            (finding.code, finding.scope, finding.confidence) for finding in expected.findings
        ]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("resource", FORBIDDEN)
def test_with_one_resource_forbidden_the_report_still_comes_and_names_the_gap(resource: str, tmp_path: Path) -> None:
    pods = ["ml/s03-card-insufficient-memory", "ml/s25-huge-everywhere", "quota-ns/s08-quota-filter"]
    fault = Fault(FORBIDDEN[resource], "status", status=403)
    whole = {pod: ask(CASES / "hami-2.10" / "recording.tar.gz", pod) for pod in pods}
    for pod, report in zip(pods, answers("hami-2.10", pods, tmp_path, [fault]), strict=True):
        assert any("403" in gap.why for gap in report.gaps), report.gaps
        first = report.findings[0]
        if first.code != whole[pod].findings[0].code:
            assert first.confidence == "suspected"
            assert first.code in {"not-enough-evidence", *(finding.code for finding in whole[pod].findings)}
