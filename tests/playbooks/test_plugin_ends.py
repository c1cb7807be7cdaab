"""Pods that get no GPU because the device plugin of their node ends: its last words, an init container, its driver."""

from pathlib import Path

import pytest

from bot.hami.signatures import signatures
from bot.report import Report
from tests.playbooks.node_side_support import (
    KUBELET,
    NO_NVML,
    PLUGIN_LOG,
    REGISTERED,
    bare,
    behind,
    between_crashes,
    crashing,
    dead,
    plugin,
    refused_pod,
    why,
)
from tests.playbooks.world import Object, ago, ask, cause, cluster, codes, none_of, pod, quotes, refused

FORMAT = "exec /usr/bin/nvidia-device-plugin: exec format error"
PANIC = "panic: runtime error: index out of range [0] with length 0"
STACK = "goroutine 96 [running]:\nmain.main()"
INFO = "I1121 04:59:29.123456       1 main.go:60] Starting FS watcher."
ERROR = "E1121 04:59:29.123456       1 main.go:60] something nobody has seen"
NO_SHELL = 'failed to create containerd task: exec: "nvidia-device-plugin": no such file or directory: unknown'
CLOSED = KUBELET.format("rpc error: code = Unavailable desc = transport is closing")
EOF = KUBELET.format("rpc error: code = Unavailable desc = error reading from server: EOF")
LONG = f"I1121 04:57:00.000000       1 server.go:500] {'annotation ' * 100}\n"
NOT_FOUND = "log of hami-system/hami-device-plugin-gpu-1 device-plugin"


def told(tmp_path: Path, log: str, previous: str = "", **device: object) -> str:
    """What `why` says of a node of which kubelet offers nothing, and whose device plugin keeps ending."""
    report = why(tmp_path, *dead(**device), log=log, previous=previous)
    assert codes(report) == ["device-plugin-crash", "allocate-failed"]
    return cause(report).claim


def test_a_log_without_an_error_of_go_is_told_by_its_last_line(tmp_path: Path) -> None:
    assert told(tmp_path, f"{FORMAT}\n\n").endswith(f"The last line of its log: {FORMAT}")


def test_an_end_that_no_signature_knows_is_told_with_the_last_error_of_the_log(tmp_path: Path) -> None:
    report = why(tmp_path, *dead(), log=f"{ERROR}\n{STACK}")
    assert codes(report) == ["device-plugin-crash", "allocate-failed"]
    assert "something nobody has seen" in cause(report).claim
    assert ERROR in quotes(report)


def test_an_error_of_an_earlier_run_comes_before_a_last_line(tmp_path: Path) -> None:
    assert told(tmp_path, f"{FORMAT}\n", f"{ERROR}\n").endswith("Its last error: something nobody has seen")


def test_an_ordinary_line_of_klog_s_is_no_reason(tmp_path: Path) -> None:
    assert "last line" not in told(tmp_path, f"{INFO}\n")


@pytest.mark.parametrize(("code", "reason"), [(137, "OOMKilled"), (137, "Error"), (143, "Error")])
def test_of_a_plugin_that_was_killed_the_last_line_is_no_reason(tmp_path: Path, code: int, reason: str) -> None:
    claim = told(tmp_path, f"{FORMAT}\n", code=code, reason=reason)
    assert "last line" not in claim
    assert ("OOMKilled" in claim) == (reason == "OOMKilled")


def test_a_panic_is_quoted_with_the_brackets_it_has(tmp_path: Path) -> None:
    assert told(tmp_path, f"{PANIC}\n\n{STACK}\n", code=2).endswith(f"Its last error: {PANIC}")


def test_without_the_log_the_exit_code_is_all_that_is_told(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(*dead(code=2)))
    assert codes(report) == ["device-plugin-crash", "allocate-failed"]
    assert "exit code 2: a panic" in cause(report).claim
    assert NOT_FOUND in [gap.source for gap in report.gaps]


def test_a_plugin_that_left_last_words_of_its_own_is_told_by_its_end(tmp_path: Path) -> None:
    assert "exit code 1" in told(tmp_path, "", code=1, message="E1121 04:58:00 main.go:1] no idea")


def test_why_the_plugin_was_not_started_is_told_in_the_runtime_s_words(tmp_path: Path) -> None:
    report = why(tmp_path, *dead(code=128, message=NO_SHELL, reason="StartError"))
    assert codes(report)[0] == "device-plugin-not-ready"
    assert f"StartError: {NO_SHELL}" in cause(report).claim
    assert NO_SHELL in quotes(report)


def test_the_plugin_s_last_error_shows_no_credentials(tmp_path: Path) -> None:
    line = "E1121 04:58:00.000000       1 main.go:201] cannot reach https://admin:hunter2@proxy:3128"
    report = why(tmp_path, *dead(), log=line)
    assert "https://***@proxy:3128" in cause(report).claim
    assert "hunter2" not in str(report)


def test_the_run_before_tells_it_too_while_the_next_one_has_just_begun(tmp_path: Path) -> None:
    objects = behind(0, device=between_crashes())
    assert codes(why(tmp_path, *objects, previous=NO_NVML))[0] == "gpu-runtime-missing"


def test_a_plugin_that_restarted_once_and_works_again_is_not_to_blame(tmp_path: Path) -> None:
    objects = behind(20, device=again(1, ended=1000))
    report = why(tmp_path, *objects, log=f"{NO_NVML}\n{REGISTERED}", previous=NO_NVML)
    assert codes(report) == ["allocate-failed"]


def again(code: int, ended: float = 118) -> Object:
    """A container that ended, at first while kubelet asked it, and has been running again since."""
    end = {"terminated": {"exitCode": code, "reason": "Error", "finishedAt": ago(ended)}}
    state = {"running": {"startedAt": ago(ended - 1)}}
    return {"ready": True, "restartCount": 1, "state": state, "lastState": end}


def test_a_plugin_that_crashed_while_kubelet_asked_it_is_the_cause(tmp_path: Path) -> None:
    report = why(tmp_path, *behind(20, said=CLOSED, device=again(2)), previous=f"{PANIC}\n{STACK}")
    assert codes(report) == ["device-plugin-crash", "allocate-failed"]
    assert PANIC in cause(report).claim
    assert PANIC in quotes(report)


@pytest.mark.parametrize("said", [CLOSED, EOF])
def test_a_plugin_that_was_told_to_end_then_did_not_crash(tmp_path: Path, said: str) -> None:
    report = why(tmp_path, *behind(20, said=said, device=again(143)))
    assert codes(report) == ["allocate-failed"]
    assert "The device plugin ended or was replaced while kubelet asked it" in cause(report).claim


@pytest.mark.sampled(0)  # four megabytes of log: left to `make test-all`
def test_a_cause_behind_more_long_lines_than_may_be_read_is_found(tmp_path: Path) -> None:
    report = why(tmp_path, *dead(), log=f"{LONG * 4_000}{NO_NVML}\n")
    assert NO_NVML in quotes(report)
    assert not [gap for gap in report.gaps if gap.source == NOT_FOUND]


def test_newest_lines_that_could_not_be_read_are_a_gap(tmp_path: Path) -> None:
    report = why(tmp_path, *dead(), log=f"{'annotation ' * 80_000}\n" * 3 + f"{NO_NVML}\n")
    whys = [gap.why for gap in report.gaps if gap.source == NOT_FOUND]
    assert whys == ["its newest lines were not read: the lines before are 2,097,152 bytes"]


def two_dead_nodes(tmp_path: Path, *logs: str) -> Report:
    """A pod that HAMi refuses because neither node is registered: the plugin of each is down."""
    names = ("gpu-1", "gpu-2")
    objects = [pod(said=refused(none_of(2, "2 node unregistered"))), *map(bare, names)]
    objects += [plugin(name, crashing()) for name in names]
    others = {PLUGIN_LOG.replace("gpu-1", name): log for name, log in zip(names, logs, strict=True)}
    return ask(tmp_path, cluster(*objects), others=others)


def test_two_causes_of_one_code_are_told_apart_where_their_fix_is_the_same(tmp_path: Path) -> None:
    examples = {signature.id: signature.example for signature in signatures()}
    report = two_dead_nodes(tmp_path, examples["plugin-config-open"], examples["plugin-config-yaml"])
    told = [(finding.code, finding.scope.nodes) for finding in report.findings[:2]]
    assert told == [("device-plugin-crash", ("gpu-1",)), ("device-plugin-crash", ("gpu-2",))]


def test_plugins_that_end_with_other_errors_are_not_told_as_the_same(tmp_path: Path) -> None:
    report = two_dead_nodes(tmp_path, ERROR, ERROR.replace("nobody", "no one"))
    assert codes(report)[:2] == ["device-plugin-crash"] * 2


# ------------------------------------------------------------------------------------------------ the driver

BY_LABEL = {"labels": {"app": "nvidia-driver-daemonset"}}
BY_IMAGE = {"containers": [{"name": "driver", "image": "nvcr.io/nvidia/driver:550.144.03-ubuntu22.04"}]}


def driver(*, ready: bool, by: Object = BY_LABEL) -> Object:
    """The pod that loads the driver of gpu-1."""
    one = pod("driver-abc", {}, namespace="gpu-operator", nodeName="gpu-1", **by)
    state = {"running": {"startedAt": ago(600)}} if ready else {"waiting": {"reason": "ImagePullBackOff"}}
    status: Object = {"phase": "Running", "conditions": [{"type": "Ready", "status": str(ready)}]}
    return one | {"status": status | {"containerStatuses": [{"name": "driver", "ready": ready, "state": state}]}}


@pytest.mark.parametrize("by", [BY_LABEL, BY_IMAGE], ids=["label", "image"])
def test_a_driver_pod_that_is_not_ready_explains_why_the_plugin_ends(tmp_path: Path, by: Object) -> None:
    report = why(tmp_path, refused_pod(), plugin(device=crashing()), driver(ready=False, by=by))
    assert (codes(report)[0], cause(report).confidence) == ("driver-not-loaded", "suspected")
    assert "gpu-operator/driver-abc (ImagePullBackOff)" in cause(report).claim
    assert "ImagePullBackOff" in quotes(report)


@pytest.mark.parametrize("other", [driver(ready=True), driver(ready=False, by={})], ids=["ready", "another pod"])
def test_without_a_driver_pod_in_trouble_the_plugin_s_end_is_told_alone(tmp_path: Path, other: Object) -> None:
    assert codes(why(tmp_path, refused_pod(), plugin(device=crashing()), other))[0] == "device-plugin-crash"


@pytest.mark.parametrize(("code", "reason"), [(137, "OOMKilled"), (137, "Error"), (143, "Error"), (0, "Completed")])
def test_a_plugin_that_was_ended_by_others_is_not_put_down_to_the_driver_pod(
    tmp_path: Path, code: int, reason: str
) -> None:
    ended = plugin(device=crashing(code=code, reason=reason))
    assert codes(why(tmp_path, refused_pod(), ended, driver(ready=False)))[0] == "device-plugin-crash"


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


UNREGISTERED = [bare(), pod(said=refused(none_of(1, "1 node unregistered")))]


def test_an_init_container_that_waits_for_the_driver_is_told_as_the_driver_pod_that_crashes(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(*UNREGISTERED, held(), driver(ready=False)))
    assert (codes(report)[0], cause(report).confidence) == ("driver-not-loaded", "suspected")
    assert "gpu-operator/driver-abc (ImagePullBackOff)" in cause(report).claim
    assert {"toolkit-validation", "ImagePullBackOff"} <= set(quotes(report))


def test_an_init_container_that_does_not_end_is_told_where_no_driver_pod_is_ill(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(*UNREGISTERED, held(), driver(ready=True)))
    assert codes(report)[0] == "device-plugin-not-ready"
    assert "init container toolkit-validation, which has been running since 2026-11-21T04:35:00Z" in cause(report).claim


@pytest.mark.parametrize("one", [held(20), held(main="")], ids=["only just started", "beside containers that run"])
def test_an_init_container_that_holds_nothing_up_is_not_blamed(tmp_path: Path, one: Object) -> None:
    assert "device-plugin-not-ready" not in codes(ask(tmp_path, cluster(*UNREGISTERED, one)))
