"""Pods that Volcano places: its words count, and nobody is told to ask for HAMi's resources."""

from pathlib import Path

import pytest

from bot.report import Report
from tests.playbooks.world import (
    Object,
    ago,
    ask,
    cause,
    cluster,
    codes,
    commands,
    event,
    gpu,
    gpu_node,
    pod,
    quotes,
    refused,
)

GROUP = {"scheduling.k8s.io/group-name": "podgroup-1"}


def vgpu(number: int = 1, memory: int = 1000) -> Object:
    return {"volcano.sh/vgpu-number": str(number), "volcano.sh/vgpu-memory": str(memory)}


def unavailable(reasons: str) -> Object:
    return refused(f"0/3 nodes are unavailable: {reasons}.")


@pytest.mark.parametrize(
    ("words", "means"),
    [
        ("1 no enough gpu cards on node b1, 2 Insufficient volcano.sh/vgpu-number", "at most one vGPU of each GPU"),
        ("3 not enough gpu cards on this node", "at most one vGPU of each GPU"),
        ("3 Insufficient volcano.sh/vgpu-memory", "offers too little of it"),
        ("1 node not initialized with devicehamivgpu, 2 Insufficient cpu", "has not registered that node"),
        ("3 hami-vgpuDeviceSharing error", "refused the node"),
    ],
)
def test_volcano_s_words_are_quoted_and_explained(tmp_path: Path, words: str, means: str) -> None:
    said = unavailable(words)
    report = ask(tmp_path, cluster(gpu_node(), pod(limits=vgpu(2), schedulerName="volcano", said=said)))
    assert codes(report) == ["volcano-scheduled"]
    assert means in cause(report).claim
    assert said["message"] in quotes(report)
    assert not any("nvidia.com/gpu" in action.label for action in cause(report).next_actions)


NO_NVML = "I1121 04:10:01.200000       1 main.go:122] Failed to initialize NVML: could not load NVML library."
STARTED = (
    "I1121 04:20:01.200000       1 server.go:260] Registered device plugin for 'volcano.sh/vgpu-number' with Kubelet"
)
PLUGIN_LOG = "kube-system/volcano-device-plugin-x/volcano-device-plugin"


def volcano_plugin() -> Object:
    one = pod("volcano-device-plugin-x", {}, namespace="kube-system", labels={"name": "volcano-device-plugin"})
    image = "docker.io/projecthami/volcano-vgpu-device-plugin:v1.11.0"
    names = ["volcano-device-plugin", "monitor"]
    one["spec"] |= {"nodeName": "gpu-1", "containers": [{"name": name, "image": image} for name in names]}
    running = {"ready": True, "state": {"running": {"startedAt": ago(9000)}}}
    return one | {"status": {"phase": "Running", "containerStatuses": [{"name": name} | running for name in names]}}


def asked_with(tmp_path: Path, log: str) -> Report:
    said = unavailable("1 Insufficient volcano.sh/vgpu-number")
    objects = cluster(gpu_node(), pod(limits=vgpu(), schedulerName="volcano", said=said), volcano_plugin())
    return ask(tmp_path, objects, others={PLUGIN_LOG: f"{log}\n"})


def test_what_keeps_volcano_s_device_plugin_from_its_work_is_told_by_its_log(tmp_path: Path) -> None:
    report = asked_with(tmp_path, NO_NVML)
    assert codes(report) == ["volcano-scheduled"]
    assert "On gpu-1 Volcano's device plugin does not work: The container has no NVML library" in cause(report).claim
    assert NO_NVML in quotes(report)
    assert not [gap for gap in report.gaps if "volcano" in gap.source]


def test_a_volcano_plugin_that_registered_since_is_not_blamed(tmp_path: Path) -> None:
    assert "does not work" not in cause(asked_with(tmp_path, f"{NO_NVML}\n{STARTED}")).claim


def test_words_that_nobody_knows_are_quoted_as_they_are(tmp_path: Path) -> None:
    said = unavailable("3 a plugin of the year 2031 said no")
    report = ask(tmp_path, cluster(pod(limits=vgpu(), schedulerName="vc-scheduler", said=said)))
    assert codes(report) == ["volcano-scheduled"]
    assert "a plugin of the year 2031 said no" in report.verdict


def test_a_pod_group_that_the_queue_has_no_room_for_explains_its_pod(tmp_path: Path) -> None:
    one = pod(limits=vgpu(), schedulerName="volcano", annotations=GROUP)
    group = {"kind": "PodGroup", "metadata": {"name": "podgroup-1", "namespace": "ml", "uid": "uid-group"}}
    told = event(group, "Unschedulable", "queue resource quota insufficient: volcano.sh/vgpu-number")
    report = ask(tmp_path, cluster(one, told))
    assert codes(report) == ["volcano-scheduled"]
    assert "queue has no room" in cause(report).claim
    assert {"podgroup-1", told["message"]} <= set(quotes(report))
    assert "kubectl -n ml describe podgroups.scheduling.volcano.sh podgroup-1" in commands(report)


def test_a_pod_of_which_volcano_said_nothing_is_still_volcano_s(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(pod(limits=vgpu(), schedulerName="volcano")))
    assert codes(report) == ["volcano-scheduled"]
    assert "kubectl get pods -A -l app=volcano-scheduler" in commands(report)


def test_a_volcano_pod_without_devices_is_not_told_that_it_needs_any(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(pod(limits={}, schedulerName="volcano")))
    assert codes(report) == ["volcano-scheduled"]


def test_a_scheduler_of_another_name_is_volcano_s_by_the_pod_group(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(pod(limits=vgpu(), schedulerName="batch-volcano", annotations=GROUP)))
    assert codes(report) == ["volcano-scheduled"]


def test_a_pod_group_alone_takes_no_pod_from_hami(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(gpu_node(), pod(annotations=GROUP)))
    assert "volcano-scheduled" not in codes(report)


@pytest.mark.parametrize("scheduler", ["default-scheduler", "hami-scheduler"])
def test_volcano_s_resources_under_another_scheduler_need_volcano(tmp_path: Path, scheduler: str) -> None:
    said = refused("0/1 nodes are available: 1 Insufficient volcano.sh/vgpu-number.")
    report = ask(tmp_path, cluster(gpu_node(), pod(limits=vgpu(), schedulerName=scheduler, said=said)))
    assert codes(report) == ["volcano-scheduled"]
    assert f"its scheduler is {scheduler}" in report.verdict


@pytest.mark.parametrize("version", ["2.6.1", "2.10.0"])
def test_hami_s_resources_under_volcano_are_told_apart(tmp_path: Path, version: str) -> None:
    one = pod(limits=gpu(memory=1000), schedulerName="volcano", said=unavailable("3 Insufficient nvidia.com/gpumem"))
    report = ask(tmp_path, cluster(one, version=version))
    assert codes(report) == ["volcano-scheduled"]
    assert "which only hami-scheduler hands out" in report.verdict


def test_the_two_modes_of_volcano_s_gpu_sharing_cannot_be_mixed(tmp_path: Path) -> None:
    limits = {"volcano.sh/gpu-memory": "1000"} | vgpu()
    report = ask(tmp_path, cluster(pod(limits=limits, schedulerName="volcano")))
    assert "the two modes cannot be mixed" in report.verdict


def test_events_that_cannot_be_read_leave_volcano_s_condition(tmp_path: Path) -> None:
    said = unavailable("3 not enough gpu cards on this node")
    one = pod(limits=vgpu(2), schedulerName="volcano", annotations=GROUP, said=said)
    report = ask(tmp_path, cluster(one), missing=["events"])
    assert codes(report) == ["volcano-scheduled"]
    assert "events" in [gap.source for gap in report.gaps]


TAKEN = "requested number of devices unavailable for volcano.sh/vgpu-cores. Requested: 100, Available: 0"
DIED = "rpc error: code = Unavailable desc = error reading from server: EOF"
PANIC = "panic: runtime error: invalid memory address or nil pointer dereference"


def rejected(tmp_path: Path, why: str, *others: Object, log: str = "", state: Object | None = None) -> Report:
    """About a pod of Volcano's that kubelet refused; `state` is its device plugin's."""
    one = pod(limits=vgpu(), schedulerName="volcano", nodeName="gpu-1")
    message = f"Allocate failed due to {why}, which is unexpected"
    one["status"] = {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": message, "startTime": ago(120)}
    own = volcano_plugin()
    own["status"]["containerStatuses"][0] |= state or {}
    return ask(tmp_path, cluster(gpu_node(), one, own, *others), others={f"{PLUGIN_LOG}": log})


def test_what_kubelet_says_of_volcano_s_pod_is_not_put_into_volcano_s_mouth(tmp_path: Path) -> None:
    report = rejected(tmp_path, TAKEN)
    assert codes(report)[0] == "volcano-scheduled"
    assert "kubelet refused it" in cause(report).claim
    assert "Requested: 100, Available: 0" in cause(report).claim
    assert "from HAMi" not in " ".join(finding.claim for finding in report.findings)


def test_a_pod_that_is_being_deleted_is_the_holder_only_where_there_is_one(tmp_path: Path) -> None:
    ends = pod("old", vgpu(), uid="uid-old", nodeName="gpu-1", deleted=ago(30))
    assert "of ml/old, which is being deleted" in cause(rejected(tmp_path / "one", TAKEN, ends)).claim
    stays = pod("old", vgpu(), uid="uid-old", nodeName="gpu-1")
    assert "no pod with vGPUs is being deleted there" in cause(rejected(tmp_path / "none", TAKEN, stays)).claim


def test_a_panic_of_volcano_s_device_plugin_is_quoted(tmp_path: Path) -> None:
    down = {"ready": False, "restartCount": 0, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
    down["lastState"] = {"terminated": {"exitCode": 2, "reason": "Error", "finishedAt": ago(20)}}
    report = rejected(tmp_path, DIED, log=f"{PANIC}\n[signal SIGSEGV]\n", state=down)
    assert PANIC in quotes(report)
    assert codes(report)[0] == "volcano-scheduled"
