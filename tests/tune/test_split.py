"""Pools and their shares: more are advised for pods that nothing else keeps out, as `why` and `pending` judge."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from bot.kube.recording.recorded_cluster import RecordedCluster
from bot.report import Report
from bot.rows import PoolRow
from bot.texts import Texts
from playbooks.pending.playbook import PLAYBOOK as PENDING
from playbooks.pending.rows import PendingRow
from playbooks.playbook import Sources
from playbooks.tune import sharing
from playbooks.tune.playbook import PLAYBOOK
from tests.cases_support import CASES, VERSIONS
from tests.playbooks.world import Object, card, gpu, gpu_node, node, none_of, pod, refused, running, scheduler
from tests.tune.lab import GIB, HOURS, KERNEL, LIMIT, USED, FakePrometheus, advised, row, told, tune, use
from tests.tune.support import cases, rows_of

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
    assert found.why.startswith("2 pods wait for a slot")


def test_a_pod_that_another_share_would_not_let_in_is_not_counted(tmp_path: Path) -> None:
    report = asked(tmp_path, wait("small"), wait("large", memory=10**6), wait("elsewhere", nodeSelector={"zone": "b"}))
    assert row(report, "split-count").why.startswith("1 pod waits for a slot")
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
    assert found.why.startswith("1 waiting pod that was refused for want of a slot was not judged")


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
    proofs = [proof for finding in tuned.findings if "slots" in finding.claim for proof in finding.evidence]
    assert {proof.object.removeprefix("Pod ") for proof in proofs if proof.source == "condition"} == waiting


HOUR = 3600
TWO_CONTAINERS = {"hami.io/vgpu-devices-allocated": "GPU-a,NVIDIA,4096,0:;GPU-a,NVIDIA,8192,0:;"}
PAIR = running("pair", "gpu-1", annotations=TWO_CONTAINERS)
DCU_REGISTER = {"hami.io/node-dcu-register": "DCU-0,4,65536,100,DCU-K100_AI,0,true:"}
DCU_GIVEN = {"hami.io/vgpu-devices-allocated": "", "hami.io/dcu-devices-allocated": "DCU-0,DCU,16384,20:;"}


def ask(tmp_path: Path, **seen: Any) -> Report:
    return tune(tmp_path, [*scheduler(config="nvidia: {}\n"), gpu_node("gpu-1", card("GPU-a")), PAIR], **seen)


def both(name: str, first: float, second: float) -> str:
    return use(name, "pair", "GPU-a", first) + use(name, "pair", "GPU-a", second, container="side")


def prometheus(peaks: str, hours: str) -> FakePrometheus:
    return FakePrometheus(both(USED, GIB, GIB), peaks, hours)


def test_the_peaks_of_two_containers_on_one_gpu_add_up(tmp_path: Path) -> None:
    seen = prometheus(both(USED, 6 * GIB, 2 * GIB), both(USED, HOURS, HOURS))
    found = row(ask(tmp_path, prometheus=seen), "memory-scaling")
    assert "12,288 MiB / 8,192 MiB x 0.9 = 1.35" in found.why


def test_a_peak_of_one_of_two_containers_is_no_peak_of_the_pod(tmp_path: Path) -> None:
    one = prometheus(use(USED, "pair", "GPU-a", GIB), use(USED, "pair", "GPU-a", HOURS))
    assert row(ask(tmp_path, prometheus=one), "memory-scaling").direction == "cannot-tell"


def test_two_containers_without_a_kernel_are_an_idle_pod(tmp_path: Path) -> None:
    found = row(ask(tmp_path, monitors={"gpu-1": both(KERNEL, 9 * HOUR, 8 * HOUR)}), "idle-holder")
    assert (found.direction, found.why) == ("lower", "no kernel for 8.0 h")


def test_a_pod_is_not_idle_for_one_of_its_containers(tmp_path: Path) -> None:
    idle = use(KERNEL, "pair", "GPU-a", 9 * HOUR) + use(USED, "pair", "GPU-a", GIB // 8)
    report = ask(tmp_path, monitors={"gpu-1": idle + use(LIMIT, "pair", "GPU-a", 4 * GIB)})
    assert row(report, "idle-holder").direction == "cannot-tell"
    assert advised(report) == set()


def dcu_cluster() -> list[Object]:
    pod = running("dcu", "dcu-1", annotations=DCU_GIVEN)
    return [*scheduler(config="nvidia: {}\n"), gpu_node("gpu-1", card("GPU-a")), node("dcu-1", DCU_REGISTER), PAIR, pod]


def test_nothing_is_asked_of_a_pod_on_another_vendors_devices(tmp_path: Path) -> None:
    working = both(KERNEL, 5, 5) + both(USED, 2 * GIB, 2 * GIB)
    report = tune(tmp_path, dcu_cluster(), monitors={"gpu-1": working})
    assert advised(report) == set()
    assert [advice for advice in rows_of(report) if "dcu" in advice.object] == []


@pytest.mark.parametrize(
    ("label", "pools"),
    [
        ("karpenter.sh/nodepool", ["one", "two"]),
        ("eks.amazonaws.com/nodegroup", ["one", "two"]),
        ("alpha.eksctl.io/nodegroup-name", ["one", "two"]),
        ("example.com/gpu-pool", ["one", "two"]),
        ("agentpool", ["one", "two"]),
        ("node_pool", ["one", "two"]),
        ("example.com/ip-pool", ["NVIDIA-Tesla T4"]),
        ("example.com/zone", ["NVIDIA-Tesla T4"]),
    ],
)
def test_the_label_of_a_pool_is_known_whoever_sets_it(tmp_path: Path, label: str, pools: list[str]) -> None:
    nodes = [gpu_node(f"gpu-{name}", card(f"GPU-{name}")) for name in ("one", "two")]
    for one, name in zip(nodes, ("one", "two"), strict=True):
        one["metadata"].setdefault("labels", {})[label] = name
    report = tune(tmp_path, [*scheduler(), *nodes])
    found = sorted(row.pool for row in report.typed(PoolRow))
    assert found == [f"{label}={name}" if name in ("one", "two") else name for name in pools]


def test_a_count_that_is_too_large_says_what_grows_with_it() -> None:
    (case,) = (case for case in cases() if case.name == "split-too-large")
    (lower,) = (row for row in rows_of(case.ask()) if (row.topic, row.direction) == ("split-count", "lower"))
    assert "kubelet's list of devices grows with the count, the node's annotation does not" in lower.why
