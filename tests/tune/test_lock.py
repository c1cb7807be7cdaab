"""How long a node stays locked is judged by locks that expired, never by throttling."""

from pathlib import Path

import pytest

from tests.playbooks.world import Object, gpu_node, running, scheduler
from tests.tune.lab import advised, row, told, tune

SET = 'I1121 04:40:00.000000       1 nodelock.go:171] "Node lock set" node="gpu-1" podName="slow-0"'
EXPIRED = (
    'I1121 04:45:30.000000       1 nodelock.go:301] "Node lock expired" node="gpu-1"'
    ' lockTime="2026-11-21T04:40:00Z" timeout="5m0s"'
)
MET = (
    'E1121 04:41:00.000000       1 scheduler.go:1048] "Failed to lock node"'
    ' err="node gpu-1 has been locked within 5m0s: node lock contention" node="gpu-1" pod="ml/other-0"'
)
THROTTLED = (
    'I1121 04:42:00.000000       1 request.go:683] "Waited before sending request" delay="1.5s"'
    ' reason="client-side throttling, not priority and fairness" verb="PATCH" URL="https://10.0.0.1/a"'
)
LONGER = "after a crash of the device plugin the node stays locked for longer"
SHORTER = "the lock of a slow bind may expire before the device plugin has allocated"
ALLOCATED = {"hami.io/bind-phase": "success"}
SLOW = running("slow-0", "gpu-1", ("GPU-gpu-1", 4096, 0), annotations=ALLOCATED, age=1800)
FAILED = running("slow-0", "gpu-1", ("GPU-gpu-1", 4096, 0), annotations={"hami.io/bind-phase": "allocating"})
LATER = running("slow-0", "gpu-1", ("GPU-gpu-1", 4096, 0), annotations=ALLOCATED, age=300)


def cluster(*flags: str, owner: Object = SLOW, version: str = "2.10.0") -> list[Object]:
    return [*scheduler(version, flags=flags), gpu_node("gpu-1"), owner]


def test_a_lock_that_expired_before_its_pod_was_allocated_was_too_short(tmp_path: Path) -> None:
    report = tune(tmp_path, cluster(), logs=f"{SET}\n{MET}\n{EXPIRED}\n")
    assert row(report, "node-lock-timeout")[1:5] == ("raise", "", "5m (the default)", "10m")
    finding = told(report, "node-lock-timeout")
    assert finding.evidence[0].quote == EXPIRED
    assert finding.evidence[0].command.endswith("-c vgpu-scheduler-extender | grep 'Node lock expired'")
    assert "scheduler.extender.extraArgs: --node-lock-timeout=10m" in finding.next_actions[0].label
    assert finding.next_actions[0].label.endswith(f"Risk: {LONGER}")
    assert "Node lock expired" in finding.next_actions[1].command


@pytest.mark.parametrize(
    ("owner", "lines"),
    [(FAILED, f"{SET}\n{EXPIRED}\n"), (LATER, f"{SET}\n{EXPIRED}\n"), (SLOW, f"{EXPIRED}\n")],
    ids=["its pod never got GPUs", "a later pod of the same name", "its pod is not known"],
)
def test_an_expired_lock_tells_nothing_of_the_timeout_unless_its_pod_was_allocated_later(
    tmp_path: Path, owner: Object, lines: str
) -> None:
    assert row(tune(tmp_path, cluster(owner=owner), logs=lines), "node-lock-timeout").direction == "cannot-tell"


@pytest.mark.parametrize("lines", [f"{THROTTLED}\n{MET}\n", f"{SET}\n{THROTTLED}\n{EXPIRED}\n"])
def test_throttling_never_raises_the_lock_timeout(tmp_path: Path, lines: str) -> None:
    report = tune(tmp_path, cluster(), logs=lines)
    assert ("node-lock-timeout", "raise") not in advised(report)
    assert "raise kube-qps first" in row(report, "node-lock-timeout").why


def test_pods_that_meet_a_locked_node_are_no_reason(tmp_path: Path) -> None:
    found = row(tune(tmp_path, cluster(), logs=f"{SET}\n{MET}\n"), "node-lock-timeout")
    assert found.direction == "keep"
    assert "1 pod met a locked node" in found.why


def test_a_timeout_outside_the_guides_range_is_brought_into_it(tmp_path: Path) -> None:
    found = row(tune(tmp_path, cluster("--node-lock-timeout=30m")), "node-lock-timeout")
    assert found[1:5] == ("lower", "", "30m", "10m")


@pytest.mark.parametrize(("set_to", "risk"), [("30m", SHORTER), ("1m", LONGER)])
def test_a_timeout_names_the_risk_of_its_own_direction_and_no_other(tmp_path: Path, set_to: str, risk: str) -> None:
    report = tune(tmp_path, cluster(f"--node-lock-timeout={set_to}"))
    assert told(report, "node-lock-timeout").next_actions[0].label.endswith(f"Risk: {risk}")


def test_before_2_7_no_flag_changes_it(tmp_path: Path) -> None:
    found = row(tune(tmp_path, cluster(version="2.6.1"), logs=f"{SET}\n{EXPIRED}\n"), "node-lock-timeout")
    assert found.direction == "keep"
    assert "before HAMi 2.7" in found.why


def test_the_charts_value_is_told_to_have_no_effect(tmp_path: Path) -> None:
    objects = cluster()
    for object_ in objects:
        if object_["kind"] == "Pod" and object_["metadata"]["name"] == "hami-scheduler-0":
            object_["spec"]["containers"][-1]["env"] = [{"name": "HAMI_NODELOCK_EXPIRE", "value": "3m"}]
    assert "scheduler.nodeLockExpire is 3m and has no effect" in row(tune(tmp_path, objects), "node-lock-timeout").why


def test_without_the_log_nothing_is_told(tmp_path: Path) -> None:
    report = tune(tmp_path, cluster(), missing=("logs",))
    for topic in ("node-lock-timeout", "kube-qps", "kube-burst"):
        assert row(report, topic).direction == "cannot-tell"
