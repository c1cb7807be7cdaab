"""More shares are advised for pods that nothing else keeps out: as `why` and `pending` judge them."""

import asyncio
from pathlib import Path

import pytest

from bot.kube.recording.recorded_cluster import RecordedCluster
from bot.report import Report
from bot.texts import Texts
from playbooks.pending.playbook import PLAYBOOK as PENDING
from playbooks.pending.rows import PendingRow
from playbooks.playbook import Sources
from playbooks.tune import sharing
from playbooks.tune.playbook import PLAYBOOK
from tests.cases_support import CASES, VERSIONS
from tests.playbooks.world import Object, card, gpu, gpu_node, none_of, pod, refused, running, scheduler
from tests.tune.lab import row, told, tune

SAID = refused(none_of(1, "1 1/1 CardTimeSlicingExhausted"))
HOLDERS = [running(f"held-{number}", "gpu-1", ("GPU-a", 100, 0)) for number in range(10)]


def asked(folder: Path, *waiting: Object, **recorded: object) -> Report:
    nodes = [gpu_node("gpu-1", card("GPU-a"))]
    return tune(folder, [*scheduler(config="nvidia: {}\n"), *nodes, *HOLDERS, *waiting], **recorded)


def wait(name: str, memory: int = 100, **fields: object) -> Object:
    return pod(name, limits=gpu(memory=memory), said=SAID, **fields)


def test_a_pod_that_a_share_would_let_in_is_counted(tmp_path: Path) -> None:
    report = asked(tmp_path, wait("small"), wait("alike"))
    found = row(report, "split-count")
    assert (found.direction, found.current, found.recommended) == ("raise", "10", "30")
    assert found.why.startswith("2 pods wait for a share")


def test_a_pod_that_another_share_would_not_let_in_is_not_counted(tmp_path: Path) -> None:
    report = asked(tmp_path, wait("small"), wait("large", memory=10**6), wait("elsewhere", nodeSelector={"zone": "b"}))
    assert row(report, "split-count").why.startswith("1 pod waits for a share")
    finding = told(report, "are split into")
    assert "ml/small" in finding.evidence[0].object
    assert not [proof for proof in finding.evidence if "large" in proof.object or "elsewhere" in proof.object]


def test_none_is_advised_for_pods_that_wait_for_something_else(tmp_path: Path) -> None:
    assert row(asked(tmp_path, wait("large", memory=10**6)), "split-count").direction == "keep"


def test_without_the_quotas_it_cannot_be_told(tmp_path: Path) -> None:
    report = asked(tmp_path, wait("small"), missing=("resourcequotas",))
    assert row(report, "split-count").direction == "cannot-tell"


def test_where_too_many_pods_differ_it_cannot_be_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "_MOST_VERDICTS", 1)
    report = asked(tmp_path, wait("large", memory=10**6), wait("small"))
    found = row(report, "split-count")
    assert found.direction == "cannot-tell"
    assert found.why.startswith("1 waiting pod that was refused for want of a share was not judged")


@pytest.mark.parametrize("version", VERSIONS)
def test_it_counts_the_pods_that_pending_counts(version: str) -> None:
    cluster = RecordedCluster.open(CASES / version / "recording.tar.gz")
    tuned, pending = (
        playbook.report(asyncio.run(playbook.gather(playbook.request(), Sources(cluster))), Texts("en"))
        for playbook in (PLAYBOOK, PENDING)
    )
    waiting = {
        f"{pod.namespace}/{pod.pod}" for pod in pending.typed(PendingRow) if pod.cause == "card-time-slicing-exhausted"
    }
    proofs = [proof for finding in tuned.findings if "shares" in finding.claim for proof in finding.evidence]
    assert {proof.object.removeprefix("Pod ") for proof in proofs if proof.source == "condition"} == waiting
