"""Containers of placed pods that were not started for a GPU reason, in the words that kubelet hands on."""

from pathlib import Path

import pytest

from tests.playbooks.started_support import PLACED, REJECTED, container_status, placed, report_on
from tests.playbooks.world import Object, ago, ask, cause, cluster, codes, container, event, gpu, owner, pod, quotes

CDI = "failed to create containerd container: CDI device injection failed: unresolvable CDI devices {}"
NO_RUNTIME = 'Failed to create pod sandbox: rpc error: code = Unknown desc = {}: no runtime for "nvidia" is configured'
MISMATCH = "nvidia-container-cli: initialization error: nvml error: driver/library version mismatch: unknown"
BACK_OFF = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container=main"}}


def ended(message: str, **fields: object) -> Object:
    start = {"exitCode": 128, "reason": "StartError", "startedAt": "1970-01-01T00:00:00Z", "finishedAt": ago(40)}
    return {"terminated": start | {"message": message} | fields}


def creating(**fields: object) -> Object:
    statuses = container_status(state={"waiting": {"reason": "ContainerCreating"}})
    return placed(phase="Pending", containerStatuses=statuses, **fields)


@pytest.mark.parametrize(
    "device", ["k8s.device-plugin.nvidia.com/gpu=MIG-1", "nvidia.com/gpu=GPU-1", "runtime.x/gpu=0"]
)
def test_a_device_that_no_cdi_file_names_is_told_from_what_the_container_waits_for(tmp_path: Path, device: str) -> None:
    waiting = {"waiting": {"reason": "CreateContainerError", "message": CDI.format(device)}}
    report = ask(tmp_path, cluster(placed(phase="Pending", containerStatuses=container_status(state=waiting))))
    assert codes(report) == ["gpu-start-failure", "image-or-start-failure"]
    assert CDI.format(device) in quotes(report)
    assert "CDI" in cause(report).claim


@pytest.mark.parametrize("reason", [{}, {"reason": "ContainerCannotRun"}], ids=["usual", "of another runtime"])
def test_a_back_off_does_not_hide_how_the_last_start_ended(tmp_path: Path, reason: dict[str, str]) -> None:
    statuses = container_status(state=BACK_OFF, lastState=ended(MISMATCH, **reason), restartCount=7)
    report = ask(tmp_path, cluster(placed(phase="Running", containerStatuses=statuses)))
    assert codes(report) == ["driver-not-loaded", "image-or-start-failure"]
    assert "upgraded" in cause(report).claim


NO_SHELL = 'failed to create containerd task: exec: "/bin/bash": stat /bin/bash: no such file or directory: unknown'


@pytest.mark.parametrize(
    ("phase", "states"),
    [("Running", {"state": BACK_OFF, "lastState": ended(NO_SHELL)}), ("Failed", {"state": ended(NO_SHELL)})],
)
def test_why_a_container_was_not_started_is_told_in_the_runtime_s_words(
    tmp_path: Path, phase: str, states: Object
) -> None:
    report = ask(tmp_path, cluster(placed(phase=phase, containerStatuses=container_status(**states))))
    assert codes(report) == ["image-or-start-failure"]
    assert NO_SHELL in quotes(report)
    assert NO_SHELL in cause(report).claim


@pytest.mark.parametrize("place", ["state", "lastState"])
def test_the_last_words_of_a_program_that_was_started_prove_nothing_and_are_not_shown(
    tmp_path: Path, place: str
) -> None:
    words = "key hunter2 refused\nRuntimeError: could not load NVML library\nKeyError: 'gpu'"
    end = ended(words, exitCode=1, reason="Error", startedAt=ago(60))
    states = {"state": end} if place == "state" else {"state": BACK_OFF, "lastState": end}
    phase = "Failed" if place == "state" else "Running"
    report = ask(tmp_path, cluster(placed(phase=phase, containerStatuses=container_status(**states))))
    assert codes(report) == ["image-or-start-failure"]
    assert "hunter2" not in str(report)


def test_a_pod_that_is_not_restarted_is_told_by_how_it_ended(tmp_path: Path) -> None:
    statuses = container_status(state=ended(MISMATCH))
    report = ask(tmp_path, cluster(placed(phase="Failed", containerStatuses=statuses)))
    assert codes(report) == ["driver-not-loaded", "image-or-start-failure"]


def test_an_init_container_is_told_as_well(tmp_path: Path) -> None:
    first = [{"name": "warm-up", "state": BACK_OFF, "lastState": ended(MISMATCH)}]
    main = container_status(state={"waiting": {"reason": "PodInitializing"}})
    waiting = placed(phase="Pending", initContainerStatuses=first, containerStatuses=main)
    report = ask(tmp_path, cluster(waiting))
    assert codes(report)[0] == "driver-not-loaded"
    assert "Container warm-up did not start on gpu-1" in report.verdict
    assert "initContainerStatuses" in cause(report).evidence[0].command


@pytest.mark.parametrize("reason", ["Pulling", "Pulled"])
def test_a_sandbox_that_was_made_since_is_no_trouble_any_more(tmp_path: Path, reason: str) -> None:
    waiting = creating()
    failed = event(waiting, "FailedCreatePodSandBox", NO_RUNTIME.format("containerd"), 300)
    report = ask(tmp_path, cluster(waiting, failed, event(waiting, reason, 'image "cuda:12"', 60)))
    assert codes(report) == ["image-or-start-failure"]


def test_the_event_tells_where_the_status_does_not(tmp_path: Path) -> None:
    waiting = placed(phase="Pending", containerStatuses=container_status(state=BACK_OFF))
    report = ask(tmp_path, cluster(waiting, event(waiting, "Failed", f"Error: {MISMATCH}")))
    assert codes(report) == ["driver-not-loaded", "image-or-start-failure"]


def test_a_container_that_runs_again_is_not_told_by_how_an_earlier_start_ended(tmp_path: Path) -> None:
    running = {"running": {"startedAt": ago(900)}}
    statuses = container_status(state=running, lastState=ended(MISMATCH, finishedAt=ago(960)), restartCount=2)
    waiting = placed(phase="Running", containerStatuses=statuses)
    report = ask(tmp_path, cluster(waiting, event(waiting, "Failed", f"Error: {MISMATCH}", 960)))
    assert codes(report) == ["running"]


def test_a_pod_that_asked_for_no_gpu_is_told_as_well_when_the_words_prove_it(tmp_path: Path) -> None:
    statuses = container_status(state=BACK_OFF, lastState=ended(MISMATCH))
    status = {"phase": "Running", "containerStatuses": statuses}
    report = ask(tmp_path, cluster(pod(limits={}, nodeName="gpu-1", status=status)))
    assert codes(report) == ["driver-not-loaded", "image-or-start-failure"]


def test_an_image_of_the_toolkit_that_cannot_be_pulled_is_no_gpu_failure(tmp_path: Path) -> None:
    words = 'Failed to pull image "nvcr.io/nvidia/k8s/nvidia-container-toolkit:v1.17.0": not found'
    statuses = container_status(state={"waiting": {"reason": "ErrImagePull", "message": words}})
    waiting = placed(phase="Pending", containerStatuses=statuses)
    assert codes(ask(tmp_path, cluster(waiting, event(waiting, "Failed", words)))) == ["image-or-start-failure"]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("nvidia-container-runtime: failed to initialize NVML: Driver Not Loaded", "driver-not-loaded"),
        ("failed to inject devices: unresolvable CDI devices runtime.nvidia.com/gpu=0", "gpu-start-failure"),
        ("error executing hook `/usr/bin/nvidia-container-toolkit` (exit code: 1)", "gpu-start-failure"),
        ("failed to find runtime handler nvidia from runtime list map[crun:0xc0]", "gpu-runtime-missing"),
    ],
)
def test_other_runtimes_and_newer_toolkits_use_other_words(tmp_path: Path, words: str, code: str) -> None:
    waiting = {"waiting": {"reason": "CreateContainerError", "message": words}}
    report = ask(tmp_path, cluster(placed(phase="Pending", containerStatuses=container_status(state=waiting))))
    assert codes(report)[0] == code


def test_words_of_the_toolkit_that_nobody_knows_are_quoted(tmp_path: Path) -> None:
    words = "OCI runtime create failed: nvidia-container-runtime: something new: unknown"
    waiting = {"waiting": {"reason": "RunContainerError", "message": words}}
    report = ask(tmp_path, cluster(placed(phase="Pending", containerStatuses=container_status(state=waiting))))
    assert codes(report) == ["gpu-start-failure", "image-or-start-failure"]
    assert words in quotes(report)


def test_a_runtime_class_that_does_not_exist_is_told_of_the_pod_that_was_never_created(tmp_path: Path) -> None:
    job = owner("Job", "train")
    words = 'Error creating: pods "train-" is forbidden: pod rejected: RuntimeClass "nvidia" not found'
    report = ask(tmp_path, cluster(job, event(job, "FailedCreate", words)), "ml/job/train")
    assert codes(report) == ["gpu-runtime-missing", "admission-denied"]
    assert words in quotes(report)


def crashed(restarts: int, since: float, lasted: float) -> Object:
    """A running container that was restarted `since` seconds ago, after a run of `lasted` seconds."""
    last = {"exitCode": 1, "reason": "Error", "startedAt": ago(since + 20 + lasted), "finishedAt": ago(since + 20)}
    statuses = [
        {"name": "main", "ready": True, "restartCount": restarts, "state": {"running": {"startedAt": ago(since)}}}
    ]
    return placed(PLACED, phase="Running", containerStatuses=[statuses[0] | {"lastState": {"terminated": last}}])


@pytest.mark.parametrize(
    ("restarts", "since", "lasted", "code"),
    [
        (1, 5, 9, "image-or-start-failure"),
        (6, 5, 9, "image-or-start-failure"),
        (6, 200, 280, "image-or-start-failure"),
        (1, 200, 280, "running"),
        (6, 400, 280, "running"),
        (6, 3600, 100000, "running"),
    ],
)
def test_a_container_caught_between_two_restarts_is_not_running(
    tmp_path: Path, restarts: int, since: float, lasted: float, code: str
) -> None:
    report = ask(tmp_path, cluster(crashed(restarts, since, lasted)))
    assert codes(report) == [code]


MOUNT = "nvidia-container-cli: mount error: "


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (f"{MOUNT}stat failed: /dev/nvidia-uvm: no such file or directory", "mount /dev/nvidia-uvm: the node does not"),
        (f"{MOUNT}file creation failed: /lib/libcuda.so.1: file exists", "at /lib/libcuda.so.1: the image has one"),
        ("failed to apply OCI options: lstat /dev/nvidiactl: no such file or directory", "has no /dev/nvidiactl"),
    ],
)
def test_the_file_that_a_start_lacks_is_named_as_the_runtime_names_it(tmp_path: Path, words: str, says: str) -> None:
    waiting = {"waiting": {"reason": "CreateContainerError", "message": words}}
    report = ask(tmp_path, cluster(placed(phase="Pending", containerStatuses=container_status(state=waiting))))
    assert says in cause(report).claim


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


def test_kubelet_that_has_none_of_the_resource_left_refused_the_device(tmp_path: Path) -> None:
    why = "Node didn't have enough resource: nvidia.com/gpu, requested: 1, used: 10, capacity: 10"
    report = report_on(
        tmp_path, placed(phase="Failed", reason="OutOfnvidia.com/gpu", message=f"Pod was rejected: {why}")
    )
    assert codes(report) == ["allocate-failed"]


@pytest.mark.parametrize(
    "why",
    [
        "Allocate failed due to requested number of devices unavailable for rdma/hca. Requested: 1, Available: 0",
        "Allocate failed due to no healthy devices present; cannot allocate unhealthy devices rdma/hca",
        "Allocate failed due to cannot allocate unregistered device rdma/hca",
        "Node didn't have enough resource: rdma/hca, requested: 1, used: 8, capacity: 8",
    ],
)
def test_a_device_that_hami_does_not_hand_out_is_not_looked_for_at_hami(tmp_path: Path, why: str) -> None:
    report = report_on(tmp_path, placed(phase="Failed", reason="UnexpectedAdmissionError", message=why))
    assert codes(report) == ["allocate-failed"]
    assert "HAMi does not hand out rdma/hca: kubelet refused it" in cause(report).claim
    assert not any("hami-device-plugin" in action.command for action in cause(report).next_actions)


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


def crashing(end: Object) -> Object:
    statuses = container_status(state=BACK_OFF, lastState={"terminated": end})
    return placed(phase="Running", containerStatuses=statuses)


def test_a_crashing_container_is_told_by_how_it_ended(tmp_path: Path) -> None:
    report = report_on(tmp_path, crashing({"exitCode": 137, "reason": "OOMKilled"}))
    assert codes(report) == ["image-or-start-failure"]
    assert "container main exited with code 137 OOMKilled (CrashLoopBackOff)" in report.verdict


def test_a_crashing_container_s_last_log_comes_first_in_what_to_do(tmp_path: Path) -> None:
    first, *others = cause(report_on(tmp_path, crashing({"exitCode": 3, "reason": "Error"}))).next_actions
    assert (first.command, first.changes_cluster) == ("kubectl -n ml logs wl -c main --previous --tail=50", False)
    assert [step.command for step in others] == ["kubectl -n ml describe pod wl"]


KILLED = {"exitCode": 137, "reason": "OOMKilled"}
OUT_OF_MEMORY = pytest.mark.parametrize("ends", ["again and again", "for good"])


def killed(ends: str, **limits: str) -> Object:
    """A pod of a StatefulSet whose container the kernel killed for want of memory."""
    ended = container_status(state={"terminated": KILLED})
    one = crashing(KILLED) if ends == "again and again" else placed(phase="Failed", containerStatuses=ended)
    one["spec"]["containers"] = [container({}, "sidecar"), container(gpu(memory=1000) | limits)]
    one["metadata"]["ownerReferences"] = [{"kind": "StatefulSet", "name": "web", "controller": True}]
    return one


@OUT_OF_MEMORY
def test_a_container_that_was_killed_at_its_limit_of_memory_gets_a_higher_one_in_its_owner(
    tmp_path: Path, ends: str
) -> None:
    found = cause(report_on(tmp_path, killed(ends, memory="8Gi")))
    assert "more of the node's memory than its limit, 8Gi; this is not the GPU's memory" in found.claim
    (step,) = found.next_actions
    assert step.label.startswith("Raise limits memory of container main (now 8Gi)")
    assert "in StatefulSet ml/web" in step.label
    assert (step.command, step.changes_cluster) == ("kubectl -n ml edit statefulset/web", True)
    assert any(
        proof.quote == "8Gi" and "{.spec.containers[*].resources.limits.memory}" in proof.command
        for proof in found.evidence
    )


@OUT_OF_MEMORY
def test_a_container_that_was_killed_without_a_limit_of_memory_is_told_to_request_what_it_needs(
    tmp_path: Path, ends: str
) -> None:
    found = cause(report_on(tmp_path, killed(ends)))
    assert "It has no memory limit: the node ran out of memory, which is not the GPU's." in found.claim
    (step,) = found.next_actions
    assert step.label.startswith("Set requests memory of container main to what it needs")
    assert (step.command, step.changes_cluster) == ("kubectl -n ml edit statefulset/web", True)


@pytest.mark.parametrize(
    ("reason", "why"), [("Evicted", "The node was low on resource: memory."), ("OutOfcpu", "Pod was rejected: no cpu")]
)
def test_a_pod_that_kubelet_ended_is_told_by_its_message(tmp_path: Path, reason: str, why: str) -> None:
    report = report_on(tmp_path, placed(phase="Failed", reason=reason, message=why))
    assert codes(report) == ["image-or-start-failure"]
    assert why in report.verdict


def test_a_failed_pod_is_told_by_its_exit_code(tmp_path: Path) -> None:
    statuses = container_status(state={"terminated": {"exitCode": 3, "reason": "Error"}})
    report = report_on(tmp_path, placed(phase="Failed", containerStatuses=statuses))
    assert codes(report) == ["image-or-start-failure"]
    assert "container main exited with code 3" in report.verdict


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
    assert report.verdict.startswith("ml/wl is running on gpu-1. Nothing wrong was seen; its own log, ")


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
