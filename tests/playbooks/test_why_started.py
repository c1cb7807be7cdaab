"""Pods that are past scheduling: refused by the device plugin, starting, failing, running, finished, going away."""

from pathlib import Path

import pytest

from tests.playbooks.started_support import PLACED, REJECTED, container_status, placed, report_on
from tests.playbooks.world import (
    ago,
    ask,
    cause,
    cluster,
    codes,
    event,
    gpu,
    pod,
    quotes,
)

# --------------------------------------------------------------------------------------------- allocate


@pytest.mark.parametrize(
    "why",
    [
        "no binding pod found on node gpu-1",
        "device number not matched",
        "device request not found",
        "pod annotation format error, missing fields, do not use nodeName in task spec",
    ],
)
def test_a_device_plugin_that_refused_is_told_in_its_own_words(tmp_path: Path, why: str) -> None:
    message = REJECTED.format(why)
    report = report_on(tmp_path, placed(phase="Failed", reason="UnexpectedAdmissionError", message=message))
    assert codes(report) == ["allocate-failed"]
    assert f"refused there: {why}" in cause(report).claim
    assert message in quotes(report)


def test_kubelet_that_has_no_device_left_is_told(tmp_path: Path) -> None:
    why = "requested number of devices unavailable for nvidia.com/gpu. Requested: 1, Available: 0"
    report = report_on(
        tmp_path, placed(phase="Failed", reason="UnexpectedAdmissionError", message=f"Allocate failed due to {why}")
    )
    assert codes(report) == ["allocate-failed"]
    assert why in report.findings[0].claim


def test_kubelet_that_has_none_of_the_resource_left_refused_the_device(tmp_path: Path) -> None:
    why = "Node didn't have enough resource: nvidia.com/gpu, requested: 1, used: 10, capacity: 10"
    report = report_on(
        tmp_path, placed(phase="Failed", reason="OutOfnvidia.com/gpu", message=f"Pod was rejected: {why}")
    )
    assert codes(report) == ["allocate-failed"]


def test_kubelet_that_has_no_cpu_left_is_no_device_failure(tmp_path: Path) -> None:
    report = report_on(tmp_path, placed(phase="Failed", reason="OutOfcpu", message="Pod was rejected: no cpu"))
    assert codes(report) == ["image-or-start-failure"]


def test_the_event_alone_tells_as_much(tmp_path: Path) -> None:
    waiting = placed(phase="Failed")
    refusal = event(waiting, "UnexpectedAdmissionError", REJECTED.format("device number not matched"))
    report = report_on(tmp_path, waiting, refusal)
    assert codes(report) == ["allocate-failed"]
    assert "device number not matched" in report.verdict


def test_the_phase_that_the_plugin_wrote_alone_tells_that_it_failed(tmp_path: Path) -> None:
    report = report_on(tmp_path, placed({**PLACED, "hami.io/bind-phase": "failed"}, phase="Pending"))
    assert codes(report) == ["allocate-failed"]
    assert "hami.io/bind-phase" in report.verdict


def test_a_pod_that_hami_never_placed_is_told_so_and_not_just_to_recreate_it(tmp_path: Path) -> None:
    waiting = placed({}, phase="Failed", reason="UnexpectedAdmissionError", message=REJECTED.format("no binding pod"))
    waiting["spec"]["schedulerName"] = "default-scheduler"
    report = report_on(tmp_path, waiting)
    assert codes(report) == ["webhook-bypassed", "allocate-failed"]
    assert "default-scheduler put the pod on gpu-1 without a GPU from HAMi" in report.findings[1].claim


def test_another_pod_s_refusal_of_the_same_name_is_not_this_one_s(tmp_path: Path) -> None:
    waiting = placed(phase="Running")
    refusal = event(waiting, "UnexpectedAdmissionError", REJECTED.format("device number not matched"))
    refusal["involvedObject"]["uid"] = "uid-of-yesterday"
    assert codes(report_on(tmp_path, waiting, refusal)) == ["running"]


# -------------------------------------------------------------------------------------------------- start


@pytest.mark.parametrize(
    "reason", ["ErrImagePull", "ImagePullBackOff", "CreateContainerConfigError", "InvalidImageName"]
)
def test_a_container_that_cannot_start_is_not_the_scheduler_s_fault(tmp_path: Path, reason: str) -> None:
    statuses = container_status(state={"waiting": {"reason": reason, "message": "manifest unknown"}})
    report = report_on(tmp_path, placed(phase="Pending", containerStatuses=statuses))
    assert (codes(report), report.severity) == (["image-or-start-failure"], "warning")
    assert f"scheduling is not the cause: {reason} manifest unknown" in report.verdict


def test_an_init_container_that_cannot_start_is_told(tmp_path: Path) -> None:
    statuses = container_status(state={"waiting": {"reason": "ErrImagePull"}})
    report = report_on(tmp_path, placed(phase="Pending", initContainerStatuses=statuses))
    assert "ErrImagePull" in report.verdict


def test_a_volume_that_does_not_come_is_told_by_its_newest_event(tmp_path: Path) -> None:
    statuses = container_status(state={"waiting": {"reason": "ContainerCreating"}})
    waiting = placed(phase="Pending", containerStatuses=statuses)
    old = event(waiting, "FailedAttachVolume", "AttachVolume.Attach failed: timed out", 600)
    new = event(waiting, "FailedMount", 'MountVolume.SetUp failed for volume "data"', 30)
    report = report_on(tmp_path, waiting, old, new)
    assert codes(report) == ["image-or-start-failure"]
    assert 'MountVolume.SetUp failed for volume "data"' in report.verdict


def test_a_crashing_container_is_told_by_how_it_ended(tmp_path: Path) -> None:
    ended = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
    back_off = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container"}}
    statuses = container_status(state=back_off, lastState=ended)
    report = report_on(tmp_path, placed(phase="Running", containerStatuses=statuses))
    assert codes(report) == ["image-or-start-failure"]
    assert "container main exited with code 137 OOMKilled (CrashLoopBackOff)" in report.verdict


def test_a_failed_pod_is_told_by_its_exit_code(tmp_path: Path) -> None:
    statuses = container_status(state={"terminated": {"exitCode": 3, "reason": "Error"}})
    report = report_on(tmp_path, placed(phase="Failed", containerStatuses=statuses))
    assert codes(report) == ["image-or-start-failure"]
    assert "container main exited with code 3" in report.verdict


def test_an_evicted_pod_is_told_by_its_message(tmp_path: Path) -> None:
    why = "The node was low on resource: memory."
    report = report_on(tmp_path, placed(phase="Failed", reason="Evicted", message=why))
    assert codes(report) == ["image-or-start-failure"]
    assert why in report.verdict


def test_a_pod_that_is_just_starting_is_well(tmp_path: Path) -> None:
    report = report_on(tmp_path, placed(phase="Pending", age=30))
    assert (codes(report), report.severity) == (["image-or-start-failure"], "info")


def test_a_pod_that_has_been_starting_for_long_is_not(tmp_path: Path) -> None:
    assert report_on(tmp_path, placed(phase="Pending", age=900)).severity == "warning"


def test_a_pod_whose_cards_were_not_handed_out_yet_is_told_so(tmp_path: Path) -> None:
    report = report_on(tmp_path, placed({**PLACED, "hami.io/bind-phase": "allocating"}, phase="Pending"))
    assert codes(report) == ["image-or-start-failure"]
    assert "has not allocated its GPUs yet" in report.verdict
    assert "allocating" in quotes(report)


# ---------------------------------------------------------------------------------------------- well, leaving


def test_a_running_pod_runs(tmp_path: Path) -> None:
    report = report_on(tmp_path, placed(phase="Running"))
    assert (codes(report), report.severity) == (["running"], "info")
    assert report.verdict.startswith("ml/wl is running on gpu-1. Its own log was not read")


def test_a_finished_pod_has_finished(tmp_path: Path) -> None:
    report = report_on(tmp_path, placed(phase="Succeeded"))
    assert (codes(report), report.severity) == (["succeeded"], "info")


def test_a_running_pod_that_asked_for_no_card_just_runs(tmp_path: Path) -> None:
    waiting = pod(limits={}, nodeName="gpu-1", status={"phase": "Running"})
    assert codes(report_on(tmp_path, waiting)) == ["running"]


@pytest.mark.parametrize("phase", ["Running", "Pending"])
def test_a_pod_that_is_being_deleted_is_not_called_starting(tmp_path: Path, phase: str) -> None:
    leaving = placed(phase=phase)
    leaving["metadata"]["deletionTimestamp"] = ago(-10)
    report = report_on(tmp_path, leaving)
    assert (codes(report), report.severity) == (["terminating"], "info")
    assert "it holds its GPUs on gpu-1 until it is gone" in report.verdict


def test_a_pod_that_does_not_go_away_holds_its_cards(tmp_path: Path) -> None:
    leaving = placed(phase="Running")
    leaving["metadata"]["deletionTimestamp"] = ago(1000)
    report = report_on(tmp_path, leaving)
    assert (codes(report), report.severity) == (["terminating"], "warning")
    assert "2026-11-21T04:43:20Z" in report.verdict


def test_without_events_a_placed_pod_is_still_explained(tmp_path: Path) -> None:
    waiting = placed(
        phase="Failed", reason="UnexpectedAdmissionError", message=REJECTED.format("device request not found")
    )
    report = ask(tmp_path, cluster(waiting), missing=["events"])
    assert codes(report) == ["allocate-failed"]
    assert [gap.source for gap in report.gaps] == ["events", "node gpu-1"]


def test_a_pod_asked_for_with_limits_only_is_the_same_to_everybody(tmp_path: Path) -> None:
    waiting = pod(limits=gpu(memory=1000), nodeName="gpu-1", status={"phase": "Running"})
    waiting["spec"]["containers"][0]["resources"].pop("requests")
    assert codes(report_on(tmp_path, waiting)) == ["running"]
