"""More requests a second are advised where throttling is felt: by its seconds, not by its lines."""

from pathlib import Path

import pytest

from tests.playbooks.world import EXTENDER, HAMI, READY, card, gpu_node, node, running, scheduler
from tests.tune.lab import USED, row, told, tune, use

LINE = (
    'I1121 04:59:30.000000       1 request.go:683] "Waited before sending request" delay="{delay}"'
    ' reason="client-side throttling, not priority and fairness" verb="PATCH" URL="https://10.0.0.1/{number}"\n'
)
HOLDER = running("a", "gpu-1", ("GPU-a", 8192, 0))


def log(count: int, delay: str) -> str:
    return "".join(LINE.format(delay=delay, number=number) for number in range(count))


@pytest.mark.parametrize(
    ("count", "delay", "direction"),
    [(3, "120ms", "keep"), (1, "1.2s", "raise"), (100, "900ms", "raise"), (60, "900ms", "keep")],
)
def test_short_waits_raise_nothing_and_long_or_many_ones_do(
    tmp_path: Path, count: int, delay: str, direction: str
) -> None:
    flags = ["--kube-qps=20", "--kube-burst=40"]
    report = tune(tmp_path, [*scheduler(flags=flags), gpu_node("gpu-1", card("GPU-a")), HOLDER], logs=log(count, delay))
    for topic in ("kube-qps", "kube-burst"):
        found = row(report, topic)
        assert found.direction == direction
        assert f"held back {count} request" in found.why


def test_waits_that_are_not_felt_leave_the_size_to_decide(tmp_path: Path) -> None:
    report = tune(tmp_path, [*scheduler(), gpu_node("gpu-1", card("GPU-a")), HOLDER], logs=log(3, "120ms"))
    found = row(report, "kube-qps")
    assert "too short to be felt" in found.why
    assert found.recommended != "50"


@pytest.mark.parametrize(
    ("flags", "qps", "burst"),
    [
        (("--kube-qps=-1",), ("keep", "-1"), ("keep", "10 (the default)")),
        (("--kube-qps=0", "--kube-burst=10"), ("raise", "5 (the default)"), ("raise", "10")),
    ],
    ids=["a negative rate is no limit", "a rate of 0 is the default"],
)
def test_a_rate_that_is_none_is_read_as_the_client_does(
    tmp_path: Path, flags: tuple[str, ...], qps: tuple[str, str], burst: tuple[str, str]
) -> None:
    nodes = [node(f"cpu-{number}") for number in range(60)]
    report = tune(tmp_path, [*scheduler(flags=flags), gpu_node("gpu-1", card("GPU-a")), HOLDER, *nodes])
    found = [row(report, topic) for topic in ("kube-qps", "kube-burst")]
    assert [(advice.direction, advice.current) for advice in found] == [qps, burst]


OLD, NEW = [], ["--kube-qps=50", "--kube-burst=100"]


@pytest.mark.parametrize(
    ("flags", "leader", "throttled", "seen"),
    [
        ((NEW, OLD), 1, 1, ("raise", "5 (the default)")),
        ((NEW, OLD), 0, 1, ("keep", "50")),
        ((OLD, NEW), 1, 0, ("keep", "50")),
    ],
    ids=["the leader is throttled", "the old pod was", "the old pod was, and is first by name"],
)
def test_a_scheduler_pod_is_judged_by_its_own_flags(
    tmp_path: Path, flags: tuple[list[str], list[str]], leader: int, throttled: int, seen: tuple[str, str]
) -> None:
    objects = scheduler(statuses=(READY, READY))
    pods = [object_ for object_ in objects if object_["kind"] == "Pod"]
    for one, own in zip(pods, flags, strict=True):
        parts = [dict(part) for part in one["spec"]["containers"]]
        for part in parts:
            part["command"] = [*part["command"], *own]
        one["spec"] = one["spec"] | {"containers": parts}
    (lease,) = (object_ for object_ in objects if object_["kind"] == "Lease")
    lease["spec"]["holderIdentity"] = f"hami-scheduler-{leader}_1"
    logs = {f"{HAMI}/hami-scheduler-{n}/{EXTENDER}": log(100, "1.2s") if n == throttled else "" for n in (0, 1)}
    report = tune(tmp_path, [*objects, gpu_node("gpu-1", card("GPU-a")), HOLDER], missing=("logs",), others=logs)
    found = row(report, "kube-qps")
    assert (found.direction, found.current) == seen


def test_a_gap_of_the_monitor_quotes_what_was_asked_and_who_holds_gpus_there(tmp_path: Path) -> None:
    nodes = [gpu_node("gpu-1", card("GPU-a")), gpu_node("gpu-2", card("GPU-b"))]
    other = running("b", "gpu-2", ("GPU-b", 8192, 0))
    monitors = {"gpu-1": use(USED, "a", "GPU-a", 1), "gpu-2": "go_goroutines 12\n"}
    report = tune(tmp_path, [*scheduler(), *nodes, HOLDER, other], monitors=monitors)
    asked, held = told(report, "vGPUmonitor's figures are missing").evidence
    assert "hami-device-plugin-gpu-2" in asked.object
    assert "9394" in asked.quote
    assert "GPU-b,NVIDIA,8192,0" in held.quote
