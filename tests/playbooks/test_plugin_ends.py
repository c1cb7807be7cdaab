"""What ends a device plugin, or holds it up before it starts, by the last words of its log and its init containers."""

from pathlib import Path

import pytest

from tests.playbooks.node_side_support import PLUGIN_LOG, counted, crashing, plugin, refused_pod
from tests.playbooks.world import Object, ago, ask, cause, cluster, codes, none_of, pod, quotes, refused

FORMAT = "exec /usr/bin/nvidia-device-plugin: exec format error"
PANIC = "panic: runtime error: index out of range [0] with length 0"
STACK = "goroutine 96 [running]:\nmain.main()"
INFO = "I1121 04:59:29.123456       1 main.go:60] Starting FS watcher."
ERROR = "E1121 04:59:29.123456       1 main.go:60] something nobody has seen"


def told(tmp_path: Path, log: str, previous: str = "", **device: object) -> str:
    """What `why` says of a node of which kubelet offers nothing, and whose device plugin keeps ending."""
    objects = [refused_pod(), counted(capacity=20, allocatable=0), plugin(device=crashing(**device))]
    others = {PLUGIN_LOG: log, f"{PLUGIN_LOG}.previous": previous}
    report = ask(tmp_path, cluster(*objects), others=others)
    assert codes(report)[0] == "device-plugin-crash"
    return cause(report).claim


def test_a_log_without_an_error_of_go_is_told_by_its_last_line(tmp_path: Path) -> None:
    assert told(tmp_path, f"{FORMAT}\n\n").endswith(f"The last line of its log: {FORMAT}")


def test_an_error_of_an_earlier_run_comes_before_a_last_line(tmp_path: Path) -> None:
    assert told(tmp_path, f"{FORMAT}\n", f"{ERROR}\n").endswith("Its last error: something nobody has seen")


def test_an_ordinary_line_of_klog_s_is_no_reason(tmp_path: Path) -> None:
    assert "last line" not in told(tmp_path, f"{INFO}\n")


@pytest.mark.parametrize(("code", "reason"), [(137, "OOMKilled"), (137, "Error"), (143, "Error")])
def test_the_last_line_of_a_plugin_that_was_killed_is_no_reason(tmp_path: Path, code: int, reason: str) -> None:
    assert "last line" not in told(tmp_path, f"{FORMAT}\n", code=code, reason=reason)


def test_a_panic_is_quoted_with_the_brackets_it_has(tmp_path: Path) -> None:
    assert told(tmp_path, f"{PANIC}\n\n{STACK}\n", code=2).endswith(f"Its last error: {PANIC}")


# ------------------------------------------------------------------------------------------- an init container


def held(seconds: float = 1500, *, main: str = "PodInitializing") -> Object:
    """The device plugin's pod, whose init container has been running for so long."""
    state: Object = {"waiting": {"reason": main}} if main else {"running": {"startedAt": ago(seconds)}}
    stuck = {"ready": False, "restartCount": 0, "state": state, "lastState": {}}
    one = plugin(device=stuck, monitor=stuck)
    first = {"name": "toolkit-validation", "ready": False, "state": {"running": {"startedAt": ago(seconds)}}}
    one["spec"]["initContainers"] = [{"name": "toolkit-validation", "image": "busybox"}]
    one["status"] |= {"phase": "Pending", "initContainerStatuses": [first]}
    return one


def driver(*, ready: bool) -> Object:
    one = pod("driver-abc", {}, namespace="gpu-operator", nodeName="gpu-1", labels={"app": "nvidia-driver-daemonset"})
    status = {"name": "nvidia-driver-ctr", "ready": ready} | ({} if ready else crashing())
    conditions = [{"type": "Ready", "status": str(ready)}]
    return one | {"status": {"phase": "Running", "conditions": conditions, "containerStatuses": [status]}}


def unregistered() -> list[Object]:
    node = counted(capacity=0, allocatable=0)
    node["metadata"]["annotations"] = {}
    return [node, pod(said=refused(none_of(1, "1 node unregistered")))]


def test_an_init_container_that_waits_for_the_driver_is_told_as_the_driver_pod_that_crashes(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(*unregistered(), held(), driver(ready=False)))
    assert (codes(report)[0], cause(report).confidence) == ("driver-not-loaded", "suspected")
    assert "gpu-operator/driver-abc (CrashLoopBackOff)" in cause(report).claim
    assert {"toolkit-validation", "CrashLoopBackOff"} <= set(quotes(report))


def test_an_init_container_that_does_not_end_is_told_where_no_driver_pod_is_ill(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(*unregistered(), held(), driver(ready=True)))
    assert codes(report)[0] == "device-plugin-not-ready"
    assert "init container toolkit-validation, which has been running since 2026-11-21T04:35:00Z" in cause(report).claim


@pytest.mark.parametrize("one", [held(20), held(main="")], ids=["only just started", "beside containers that run"])
def test_an_init_container_that_holds_nothing_up_is_not_blamed(tmp_path: Path, one: Object) -> None:
    assert "device-plugin-not-ready" not in codes(ask(tmp_path, cluster(*unregistered(), one)))
