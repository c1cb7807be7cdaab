"""Pods that get no GPU because of their node: its device plugin, its driver, a second plugin, a faulty GPU."""

from pathlib import Path

import pytest

from tests.playbooks.node_side_support import (
    KUBELET,
    NO_LABEL,
    NO_NVML,
    NOT_LOADED,
    REGISTERED,
    RUNS,
    TOO_FEW,
    bare,
    behind,
    counted,
    crashing,
    dead,
    plugin,
    refused_pod,
    rival,
    unlabelled,
    waiting,
    why,
)
from tests.playbooks.status_support import daemon_set
from tests.playbooks.world import (
    LOCK,
    Object,
    ago,
    ask,
    bind_error,
    cause,
    cluster,
    codes,
    commands,
    event,
    given,
    none_of,
    pod,
    quotes,
    refused,
)

XID = "E1121 04:00:00.000000       1 health.go:80] XidCriticalError: Xid=79 on Device=GPU-a, it will go unhealthy."


# ----------------------------------------------------------------------------------------- the device plugin


def test_a_plugin_whose_image_cannot_be_pulled_is_not_a_crash(tmp_path: Path) -> None:
    device = waiting("ImagePullBackOff", 'Back-off pulling image "docker.io/projecthami/hami:v9"')
    report = why(tmp_path, *behind(0, device=device))
    assert codes(report) == ["device-plugin-not-ready", "allocate-failed"]
    assert "Back-off pulling image" in cause(report).claim


def test_a_sandbox_that_the_runtime_does_not_make_is_told_by_the_event(tmp_path: Path) -> None:
    stuck = plugin(device=waiting("ContainerCreating", ""))
    said = 'Failed to create pod sandbox: rpc error: code = Unknown desc = no runtime for "nvidia" is configured'
    objects = [refused_pod(), counted(capacity=0, allocatable=0), stuck, event(stuck, "FailedCreatePodSandBox", said)]
    assert codes(why(tmp_path, *objects))[0] == "gpu-runtime-missing"


def test_errors_before_kubelet_took_the_registration_are_over(tmp_path: Path) -> None:
    gone = "Could not register device plugin: context deadline exceeded"
    objects = behind(0, device=RUNS | {"state": {"running": {"startedAt": ago(20)}}})
    assert codes(why(tmp_path, *objects, log=f"{gone}\n{REGISTERED}")) == ["allocate-failed"]


def test_a_refusal_by_the_plugin_itself_is_not_blamed_on_the_node(tmp_path: Path) -> None:
    said = KUBELET.format("rpc error: code = Unknown desc = device number not matched")
    line = "I1121 04:58:00.000000       1 util.go:408] Pod allocation failed for pod ml/wl on node gpu-1"
    other = line.replace("ml/wl", "ml/wl-2")
    report = why(tmp_path, *behind(2, of=2, said=said, device=crashing()), rival(), log=f"{line}\n{other}")
    assert codes(report) == ["allocate-failed"]
    assert line in quotes(report)
    assert other not in quotes(report)
    assert "more or fewer GPUs" in cause(report).claim


APPLIED = """{"env":[{"name":"DB","value":"hunter2"}]}"""
ALLOCATES = "I1121 04:58:00.000000       1 server.go:762] Allocate pod name is ml/wl"


@pytest.mark.parametrize(
    ("line", "left"),
    [
        (f"{ALLOCATES}, annotation is map[kubectl.kubernetes.io/last-applied-configuration:{APPLIED}]", ALLOCATES),
        (f"{ALLOCATES}, annotation is map[note:hunter2 hami.io/vgpu-node:gpu-1]", ALLOCATES),
        (f"{ALLOCATES} token=hunter2 for", f"{ALLOCATES} token=*** for"),
    ],
)
def test_a_refusal_shows_no_annotations_of_the_pod_and_no_credentials(tmp_path: Path, line: str, left: str) -> None:
    said = KUBELET.format("rpc error: code = Unknown desc = device number not matched")
    report = why(tmp_path, *behind(2, of=2, said=said), log=line)
    assert left in quotes(report)
    assert "hunter2" not in str(report)


def test_a_node_that_cannot_be_read_makes_the_answer_weaker(tmp_path: Path) -> None:
    report = why(tmp_path, *dead(code=128, message=NOT_LOADED), missing=["nodes"])
    assert codes(report)[0] == "driver-not-loaded"
    assert "node gpu-1" in [gap.source for gap in report.gaps]


@pytest.mark.parametrize(
    "message", [TOO_FEW, KUBELET.format("rpc error: code = Unknown desc = pod annotation format error")]
)
def test_a_fix_stands_over_no_command_that_only_shows_the_fault(tmp_path: Path, message: str) -> None:
    crashed = plugin(device=crashing(code=128, message=NOT_LOADED))
    report = why(tmp_path, refused_pod(message), counted(capacity=20, allocatable=0), crashed)
    shown = {evidence.command for finding in report.findings for evidence in finding.evidence}
    actions = [action for finding in report.findings for action in finding.next_actions]
    assert not cause(report).next_actions[0].command
    assert shown.isdisjoint(action.command for action in actions)


def test_an_init_container_of_the_plugin_counts_as_the_plugin(tmp_path: Path) -> None:
    one = plugin(device=waiting("PodInitializing", ""))
    one["status"]["initContainerStatuses"] = [{"name": "toolkit-validation"} | crashing(message=NOT_LOADED, code=128)]
    report = why(tmp_path, refused_pod(), counted(capacity=20, allocatable=0), one)
    assert codes(report)[0] == "driver-not-loaded"


def test_another_vendor_s_plugin_that_crashes_is_not_hami_s(tmp_path: Path) -> None:
    one = plugin(device=crashing())
    one["metadata"] = one["metadata"] | {"labels": {"app.kubernetes.io/component": "hami-ascend-device-plugin"}}
    report = why(tmp_path, refused_pod(), counted(capacity=20, allocatable=20), one)
    assert codes(report) == ["allocate-failed"]


def test_what_mends_the_node_behind_a_refusal_ends_with_a_pod_in_place_of_the_refused_one(tmp_path: Path) -> None:
    report = why(tmp_path, *dead(code=128, message=NOT_LOADED))
    assert codes(report) == ["driver-not-loaded", "allocate-failed"]
    last = cause(report).next_actions[-1]
    assert last.label.startswith("Recreate the pod: a refused one never starts again")
    assert (last.command, last.changes_cluster) == ("kubectl -n ml delete pod wl", True)


# ------------------------------------------------------------------------------------------- a second plugin


@pytest.mark.parametrize(
    "other",
    [
        rival(),
        rival(image="registry.example/nvidia-gpu-device-plugin@sha256:1", container="nvidia-gpu-device-plugin"),
        rival(image="registry.example/mirror:1", labels={"app": "nvidia-device-plugin-daemonset"}),
    ],
)
def test_another_plugin_s_pod_and_kubelet_s_count_prove_a_second_plugin(tmp_path: Path, other: Object) -> None:
    report = why(tmp_path, *behind(2, of=2, said=TOO_FEW), other)
    assert codes(report) == ["second-device-plugin", "allocate-failed"]
    assert cause(report).confidence == "confirmed"
    assert "other-gpu-1" in quotes(report)


def test_time_slices_of_the_other_plugin_are_another_number_too(tmp_path: Path) -> None:
    report = why(tmp_path, *behind(8, of=8, said=TOO_FEW), rival())
    assert codes(report)[0] == "second-device-plugin"


def test_one_device_for_each_gpu_without_another_pod_is_only_suspected(tmp_path: Path) -> None:
    report = why(tmp_path, *behind(2, of=2, said=TOO_FEW))
    assert codes(report)[0] == "second-device-plugin"
    assert cause(report).confidence == "suspected"


@pytest.mark.parametrize(
    "other",
    [
        rival(container="gpu-feature-discovery", labels={"app": "gpu-feature-discovery"}),
        rival(image="projecthami/mock-device-plugin:v1", container="mock-device-plugin"),
        rival(on="gpu-2"),
    ],
)
def test_pods_that_serve_nothing_there_are_no_second_plugin(tmp_path: Path, other: Object) -> None:
    report = why(tmp_path, *behind(13, of=13, said=TOO_FEW), other)
    assert "second-device-plugin" not in codes(report)


def test_a_second_plugin_that_lost_the_socket_is_not_the_cause(tmp_path: Path) -> None:
    report = why(tmp_path, *behind(20, said=TOO_FEW), rival())
    assert codes(report) == ["allocate-failed"]


# -------------------------------------------------------------------------------------------- the register loop

NOT_WRITTEN = "E1121 03:00:03.000000       1 register.go:240] Failed to register annotation: connection refused"
NOT_ALLOWED = "E1121 03:00:03.000000       1 register.go:233] unauthorized to access node gpu-1"
WRITTEN = "I1121 03:00:08.000000       1 register.go:251] Successfully updated node annotation. Next check in 30s"
TRIES = "I1121 03:00:08.000000       1 register.go:230] Updating node annotations with 2 device(s)"
UNCHANGED = "I1121 03:00:38.000000       1 register.go:221] No device changes detected"


@pytest.mark.parametrize("line", [NOT_WRITTEN, NOT_ALLOWED])
@pytest.mark.parametrize(
    ("after", "told"),
    [((WRITTEN,), False), ((UNCHANGED,), False), ((WRITTEN, XID), False), ((TRIES,), True), ((), True)],
    ids=["written", "unchanged", "written, then a fault", "tried", "nothing"],
)
def test_a_node_annotation_that_was_written_in_the_end_is_no_fault(
    tmp_path: Path, line: str, after: tuple[str, ...], told: bool
) -> None:
    log = "\n".join((REGISTERED, WRITTEN, line, *after))
    report = why(tmp_path, *behind(0), log=log)
    assert ("device-plugin-crash" in codes(report)) == told
    assert (line in quotes(report)) == told
    assert XID not in after or codes(report)[0] == "card-fault"


# ------------------------------------------------------------------------------------------------ faulty GPUs


def test_an_xid_in_the_log_and_fewer_devices_are_a_faulty_gpu(tmp_path: Path) -> None:
    report = why(tmp_path, *behind(10), log=f"{REGISTERED}\n{XID}")
    assert codes(report) == ["card-fault", "allocate-failed"]
    assert [quote for quote in quotes(report) if "Xid=79" in quote]


def test_an_old_xid_is_not_told_while_kubelet_offers_everything(tmp_path: Path) -> None:
    log = f"{REGISTERED}\n{XID}"
    report = why(tmp_path, *behind(20, said=TOO_FEW), log=log)
    assert codes(report) == ["allocate-failed"]


def test_kubelet_s_figures_alone_are_a_suspicion_while_the_plugin_has_long_been_running(tmp_path: Path) -> None:
    report = why(tmp_path, *behind(0), log=REGISTERED)
    assert codes(report)[0] == "card-fault"
    assert cause(report).confidence == "suspected"


def test_a_log_that_was_cut_shows_by_its_later_lines_that_kubelet_took_the_plugin(tmp_path: Path) -> None:
    started = RUNS | {"state": {"running": {"startedAt": ago(120)}}}
    log = "I1121 04:59:30.000000       1 register.go:342] Successfully updated node annotation. Next check in 30s..."
    objects = behind(0, device=started)
    assert codes(why(tmp_path, *objects, log=log))[0] == "card-fault"


def test_a_plugin_that_has_just_started_says_nothing_about_gpus(tmp_path: Path) -> None:
    young = RUNS | {"state": {"running": {"startedAt": ago(60)}}}
    report = why(tmp_path, *behind(0, device=young))
    assert codes(report) == ["allocate-failed"]


def test_one_whose_log_says_that_it_registered_tells_sooner(tmp_path: Path) -> None:
    young = RUNS | {"state": {"running": {"startedAt": ago(60)}}}
    objects = behind(0, device=young)
    assert codes(why(tmp_path, *objects, log=REGISTERED))[0] == "card-fault"


def with_condition(type_: str, status: str, **fields: str) -> Object:
    one = counted(capacity=20, allocatable=20)
    condition = {"type": type_, "status": status, "lastTransitionTime": ago(600)} | fields
    one["status"]["conditions"].append(condition)
    return one


@pytest.mark.parametrize(
    ("type_", "status"),
    [
        ("GpuMemWatch", "True"),
        ("SysLogsXIDError", "True"),
        ("AcceleratedHardwareReady", "False"),
        ("XIDErrors", "True"),
    ],
)
def test_a_node_monitor_s_verdict_on_a_gpu_is_told(tmp_path: Path, type_: str, status: str) -> None:
    report = why(tmp_path, refused_pod(), with_condition(type_, status, message="GPU 3: double bit error"), plugin())
    assert codes(report)[0] == "card-fault"
    assert "GPU 3: double bit error" in quotes(report)


@pytest.mark.parametrize(
    ("type_", "status", "fields"),
    [
        ("GpuMemWatch", "False", {}),
        ("AcceleratedHardwareReady", "True", {}),
        ("AcceleratedHardwareReady", "Unknown", {}),
        ("AcceleratedHardwareReady", "False", {"reason": "DCGMError"}),
        ("GpuNvlinkWatch", "True", {"message": "ErrorCode:DCGM_FR_IMEX_UNHEALTHY GPU:0"}),
        ("SomebodysGpuCheck", "True", {}),
    ],
)
def test_other_conditions_are_nobody_s_verdict(tmp_path: Path, type_: str, status: str, fields: dict[str, str]) -> None:
    report = why(tmp_path, refused_pod(TOO_FEW), with_condition(type_, status, **fields), plugin())
    assert codes(report) == ["allocate-failed"]


# --------------------------------------------------------------------------------------------- pods that wait


@pytest.mark.parametrize("cordoned", [True, False])
def test_a_node_with_a_faulty_gpu_that_is_cordoned_already_is_not_to_be_cordoned(
    tmp_path: Path, cordoned: bool
) -> None:
    one = with_condition("GpuMemWatch", "True", message="GPU 3: double bit error")
    one["spec"] = {"unschedulable": True} if cordoned else {}
    report = why(tmp_path, refused_pod(), one, plugin())
    assert codes(report)[0] == "card-fault"
    assert ("still places pods there" in cause(report).claim) != cordoned
    assert ("kubectl cordon gpu-1" in commands(report)) != cordoned


UNREGISTERED = refused(none_of(1, "1 node unregistered"))


def test_a_waiting_pod_is_told_why_its_node_registers_nothing(tmp_path: Path) -> None:
    objects = [pod(said=UNREGISTERED), bare(), plugin(device=crashing())]
    report = why(tmp_path, *objects, log=NO_NVML)
    assert codes(report) == ["gpu-runtime-missing", "node-unregistered"]


def test_a_taint_that_the_daemon_set_does_not_tolerate_is_named(tmp_path: Path) -> None:
    taints = [{"key": "gpu-only", "effect": "NoSchedule"}]
    tolerant = pod(said=UNREGISTERED, tolerations=[{"operator": "Exists"}])
    tainted = unlabelled(labels={"gpu": "on"}, taints=taints)
    report = why(tmp_path, tolerant, tainted, daemon_set(0))
    assert codes(report)[0] == "device-plugin-not-selected"
    assert "taint" in cause(report).claim


def test_without_the_daemon_set_the_missing_registration_is_all_that_is_told(tmp_path: Path) -> None:
    report = why(tmp_path, pod(said=UNREGISTERED), unlabelled(), daemon_set(0), missing=["daemonsets"])
    assert codes(report)[0] == "node-unregistered"
    assert "daemon sets" in [gap.source for gap in report.gaps]


def test_a_daemon_set_that_selects_no_node_at_all_is_named(tmp_path: Path) -> None:
    plain = unlabelled("n-1")
    plain["metadata"]["labels"] = {}
    report = why(tmp_path, pod(said=UNREGISTERED), plain, daemon_set(0))
    assert codes(report)[0] == "device-plugin-not-selected"
    assert "No node has the label" in cause(report).claim


def test_a_runtime_class_that_does_not_exist_keeps_the_plugin_s_pods_away(tmp_path: Path) -> None:
    wanted = daemon_set(1)
    wanted["metadata"]["uid"] = "uid-set"
    said = 'Error creating: pods "hami-device-plugin-" is forbidden: pod rejected: RuntimeClass "nvidia" not found'
    labelled = unlabelled(labels={"gpu": "on"})
    report = why(tmp_path, pod(said=UNREGISTERED), labelled, wanted, event(wanted, "FailedCreate", said))
    assert codes(report)[0] == "gpu-runtime-missing"
    assert said in quotes(report)


def test_nodes_without_gpus_do_not_take_the_place_of_the_sick_one(tmp_path: Path) -> None:
    plain = [unlabelled(f"a-{number}", labels={NO_LABEL: "false"}) for number in range(4)]
    objects = [pod(said=refused(none_of(5, "5 node unregistered"))), *plain, bare(), plugin(device=crashing())]
    assert codes(why(tmp_path, *objects, log=NO_NVML))[0] == "gpu-runtime-missing"


def test_nodes_of_the_same_cause_share_one_finding(tmp_path: Path) -> None:
    names = ("gpu-1", "gpu-2")
    nodes = [bare(name) for name in names]
    objects = [pod(said=refused(none_of(2, "2 node unregistered"))), *nodes]
    objects += [plugin(name, crashing(code=128, message=NOT_LOADED)) for name in names]
    report = why(tmp_path, *objects)
    assert codes(report) == ["driver-not-loaded", "node-unregistered"]
    assert cause(report).scope.nodes == names


def test_a_sick_node_that_could_not_take_the_pod_anyway_is_left_out(tmp_path: Path) -> None:
    small = counted(capacity=20, allocatable=0)
    asks = pod(limits={"nvidia.com/gpu": "1", "nvidia.com/gpumem": "99000"}, said=UNREGISTERED)
    report = why(tmp_path, asks, small, plugin(device=crashing(code=128, message=NOT_LOADED)))
    assert "driver-not-loaded" not in codes(report)


def test_the_logs_of_at_most_three_nodes_are_read(tmp_path: Path) -> None:
    nodes = [bare(f"gpu-{number}") for number in range(5)]
    objects = [pod(said=refused(none_of(5, "5 node unregistered"))), *nodes]
    objects += [plugin(f"gpu-{number}", crashing()) for number in range(5)]
    gaps = [gap.source for gap in ask(tmp_path, cluster(*objects), missing=["logs"]).gaps]
    assert len([gap for gap in gaps if gap.startswith("log of hami-system") and "device-plugin-gpu" in gap]) == 6


def test_a_lock_left_on_a_node_without_its_driver_is_told_after_the_driver(tmp_path: Path) -> None:
    sick = counted(capacity=20, allocatable=0, annotations={LOCK: f"{ago(60)},ml,other"})
    said = bind_error("node gpu-1 has been locked within 5m0s", 20)
    waits = pod(annotations=given("gpu-1", ("GPU-gpu-1-a", 1000, 0)), said=said)
    report = ask(tmp_path, cluster(sick, plugin(device=crashing(code=128, message=NOT_LOADED)), waits))
    assert codes(report) == ["driver-not-loaded", "node-lock-dangling"]
