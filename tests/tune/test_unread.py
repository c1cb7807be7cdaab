"""Every recording gets the advice that it must get; what could not be read is taken for no default and no count."""

from pathlib import Path
from typing import Any

import pytest

from playbooks.tune.advice import AdviceRow
from tests.playbooks.world import Object, card, gpu_node, node, running, scheduler
from tests.tune.lab import GIB, HOURS, USED, FakePrometheus, advised, row, told, tune, use
from tests.tune.support import Case, cases, rows_of

A = running("a", "gpu-1", ("GPU-a", 8192, 0))


def week(used: float) -> FakePrometheus:
    return FakePrometheus(peaks=use(USED, "a", "GPU-a", used), hours=use(USED, "a", "GPU-a", HOURS))


def cluster(*more: Object, config: str = "nvidia:\n  deviceMemoryScaling: 2\n", **fields: Any) -> list[Object]:
    return [*scheduler(config=config, **fields), gpu_node("gpu-1", card("GPU-a")), A, *more]


def killed(limit: str) -> list[Object]:
    """A cluster whose extender ran out of memory."""
    objects = cluster()
    for object_ in objects:
        if object_["kind"] == "Pod" and "hami-scheduler" in object_["metadata"]["name"]:
            (extender,) = (part for part in object_["spec"]["containers"] if part["name"] == "vgpu-scheduler-extender")
            extender["resources"] = {"limits": {"memory": limit}} if limit else {}
            object_["status"]["containerStatuses"] = [
                {
                    "name": "vgpu-scheduler-extender",
                    "restartCount": 3,
                    "lastState": {"terminated": {"reason": "OOMKilled", "exitCode": 137}},
                }
            ]
    return objects


def test_a_scaling_that_could_not_be_read_is_not_raised(tmp_path: Path) -> None:
    report = tune(tmp_path, cluster(), prometheus=week(5 * GIB), missing=("configmaps",))
    found = row(report, "memory-scaling")
    assert (found.direction, found.current) == ("cannot-tell", "")
    assert "could not be read" in found.why


def test_a_scaling_above_1_that_is_not_safe_goes_back_to_1(tmp_path: Path) -> None:
    report = tune(tmp_path, cluster(), prometheus=week(7.9 * GIB))
    rows = [advice for advice in rows_of(report) if advice.topic == "memory-scaling"]
    assert [(row.direction, row.current, row.recommended) for row in rows] == [
        ("lower", "2", "1"),
        ("refuse", "2", "1"),
    ]


def test_the_highest_that_is_safe_is_the_guides_top(tmp_path: Path) -> None:
    config = "nvidia:\n  deviceMemoryScaling: 1\n"
    report = tune(tmp_path, cluster(config=config), prometheus=week(2 * GIB))
    assert row(report, "memory-scaling").recommended == "2"


@pytest.mark.parametrize("missing", [("deployments", "pods"), ("deployments",)])
def test_a_flag_that_could_not_be_read_is_not_advised(tmp_path: Path, missing: tuple[str, ...]) -> None:
    nodes = [node(f"cpu-{number}") for number in range(60)]
    report = tune(tmp_path, cluster(*nodes, flags=("--kube-qps=100", "--kube-burst=200")), missing=missing)
    assert not {topic for topic, _ in advised(report)} & {"kube-qps", "kube-burst", "kube-timeout"}


def test_values_that_could_not_be_read_are_not_shown_as_the_default(tmp_path: Path) -> None:
    report = tune(tmp_path, cluster(), missing=("deployments", "pods"))
    for topic in ("kube-qps", "kube-timeout", "node-lock-timeout", "scheduling-policy"):
        found = row(report, topic)
        assert (found.direction, found.current) == ("cannot-tell", ""), found


def test_nodes_that_could_not_be_read_are_not_counted(tmp_path: Path) -> None:
    found = row(tune(tmp_path, killed("1Gi"), missing=("nodes",)), "scheduler-resources")
    assert (found.direction, found.recommended) == ("raise", "2Gi")
    assert "node" not in found.why


def test_an_end_that_just_happened_is_quoted_where_it_stands(tmp_path: Path) -> None:
    objects = killed("1Gi")
    (scheduler_pod,) = (object_ for object_ in objects if object_["metadata"]["name"] == "hami-scheduler-0")
    (extender,) = scheduler_pod["status"]["containerStatuses"]
    extender["state"] = extender.pop("lastState")
    proof = told(tune(tmp_path, objects), "OOMKilled").evidence[0]
    assert ".state.terminated.reason" in proof.command


def test_a_container_without_a_memory_limit_is_given_none(tmp_path: Path) -> None:
    found = row(tune(tmp_path, killed("")), "scheduler-resources")
    assert found.direction == "cannot-tell"
    assert "no memory limit" in found.why


T4 = 15 * 1024
ALONE = [running("a", "gpu-1", ("GPU-a", T4, 0))]
SHARED = [running("a", "gpu-1", ("GPU-a", 8192, 0)), running("b", "gpu-1", ("GPU-a", T4 - 8192, 0))]
FULL = f'hami_host_gpu_memory_used_bytes{{device_uuid="GPU-a"}} {14.9 * GIB}\n'


@pytest.mark.parametrize(
    ("pods", "scaling", "directions"),
    [
        (ALONE, 1, ["cannot-tell"]),
        (SHARED, 1, ["refuse"]),
        (ALONE, 2, ["lower", "refuse"]),
        (SHARED, 2, ["lower", "refuse"]),
    ],
    ids=["alone", "shared", "alone, over-committed", "shared, over-committed"],
)
def test_a_full_gpu_that_is_shared_or_over_committed_refuses_more(
    tmp_path: Path, pods: list[Object], scaling: int, directions: list[str]
) -> None:
    gpu = card("GPU-a", devmem=T4 * scaling)
    objects = [*scheduler(config=f"nvidia:\n  deviceMemoryScaling: {scaling}\n"), gpu_node("gpu-1", gpu), *pods]
    report = tune(tmp_path, objects, monitors={"gpu-1": FULL})
    assert [row.direction for row in rows_of(report) if row.topic == "memory-scaling"] == directions


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_every_recording_gets_its_advice_and_none_that_is_wrong(case: Case) -> None:
    rows = rows_of(case.ask())
    missing = [wanted for wanted in case.advice if not any(map(wanted.is_met_by, rows))]
    wrong = [row for row in rows for never in case.never if never.is_met_by(row)]
    assert (missing, wrong) == ([], list[AdviceRow]())


def test_the_risk_is_that_of_the_direction() -> None:
    (oom_risk,) = (case for case in cases() if case.name == "oom-risk")
    (lower,) = (finding for finding in oom_risk.ask().findings if "1 is recommended" in finding.claim)
    assert "less memory can be requested" in lower.next_actions[0].label
