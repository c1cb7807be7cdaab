"""`nodes` about the cause of a problem: the device plugin's log and states, other plugins, faulty GPUs."""

from pathlib import Path

from bot.report import Report
from tests.playbooks.node_side_support import MONITOR_LOG, PLUGIN_LOG, counted, crashing, plugin, rival, unlabelled
from tests.playbooks.nodes_support import about, only
from tests.playbooks.status_support import daemon_set
from tests.playbooks.world import Object, answer, cause, cluster, codes, quotes, record

NOT_LOADED = "nvidia-container-cli: initialization error: nvml error: driver not loaded: unknown"
UNKNOWN = "E1121 04:59:30.000000       1 main.go:128] Received error: failed to initialize NVML: Unknown Error"


def nodes(tmp_path: Path, *objects: Object, node: str = "", **logs: str) -> Report:
    names = {"plugin": PLUGIN_LOG, "monitor": MONITOR_LOG}
    others = {names[name]: text for name, text in logs.items()}
    return answer("nodes", record(tmp_path, cluster(*objects), others=others), {}, node=node)


def well(name: str) -> list[Object]:
    return [counted(name, capacity=20, allocatable=20), plugin(name)]


def test_the_cause_comes_first_and_its_consequences_on_that_node_are_not_told_twice(tmp_path: Path) -> None:
    sick = [counted(capacity=20, allocatable=0), plugin(device=crashing(code=128, message=NOT_LOADED))]
    report = nodes(tmp_path, *sick, *well("gpu-2"))
    assert codes(report)[0] == "driver-not-loaded"
    assert "device-plugin-not-ready" not in codes(report)
    assert NOT_LOADED in quotes(report)


def test_vgpumonitor_alone_takes_no_gpus_away(tmp_path: Path) -> None:
    objects = [counted(capacity=20, allocatable=20), plugin(monitor=crashing(code=0, reason="Completed"))]
    told = only(nodes(tmp_path, *objects, monitor=UNKNOWN), "device-plugin-not-ready")
    assert "hands out GPUs" in told.claim
    assert UNKNOWN in [proof.quote for proof in told.evidence]


def test_of_many_nodes_whose_monitor_is_down_none_is_said_to_allocate_nothing(tmp_path: Path) -> None:
    names = [f"gpu-{number}" for number in range(5)]
    objects = [counted(name, capacity=20, allocatable=20) for name in names]
    objects += [plugin(name, monitor=crashing(code=0, reason="Completed")) for name in names]
    told = [
        finding.claim for finding in nodes(tmp_path, *objects).findings if finding.code == "device-plugin-not-ready"
    ]
    assert told
    assert [text for text in told if "allocates no GPUs" in text] == []


def test_a_second_plugin_is_named_instead_of_a_number_that_differs(tmp_path: Path) -> None:
    report = nodes(tmp_path, counted(capacity=2, allocatable=2), plugin(), rival())
    assert codes(report)[0] == "second-device-plugin"
    assert "allocatable-mismatch" not in codes(report)


def test_a_node_monitor_s_verdict_is_told_of_every_node_that_has_it(tmp_path: Path) -> None:
    names = [f"gpu-{number}" for number in range(5)]
    objects = [item for name in names for item in well(name)]
    for object_ in objects:
        if object_["kind"] == "Node" and object_["metadata"]["name"] != "gpu-4":
            object_["status"]["conditions"].append({"type": "GPUMissing", "status": "True", "message": "7 of 8 GPUs"})
    report = nodes(tmp_path, *objects)
    assert codes(report) == ["card-fault", "nodes-healthy"]
    assert cause(report).scope.nodes == ("gpu-0", "gpu-1", "gpu-2", "gpu-3")
    assert "7 of 8 GPUs" in quotes(report)


def test_a_faulty_gpu_on_a_cordoned_node_is_told_apart_from_those_that_take_pods(tmp_path: Path) -> None:
    objects = [item for name in ("gpu-1", "gpu-2") for item in well(name)]
    for object_ in objects:
        if "conditions" in object_["status"] and object_["metadata"]["name"] in ("gpu-1", "gpu-2"):
            object_["status"]["conditions"].append({"type": "GPUMissing", "status": "True", "message": "7 of 8 GPUs"})
    objects[0]["spec"]["unschedulable"] = True
    faulty = [finding for finding in nodes(tmp_path, *objects).findings if finding.code == "card-fault"]
    assert sorted(finding.scope.nodes for finding in faulty) == [("gpu-1",), ("gpu-2",)]


def test_a_gpu_node_without_the_label_is_only_mentioned_while_others_have_the_plugin(tmp_path: Path) -> None:
    report = nodes(tmp_path, *well("gpu-1"), unlabelled(), daemon_set(1))
    assert only(report, "device-plugin-not-selected").severity == "info"
    assert report.severity == "info"


def test_asked_about_that_node_it_is_the_answer(tmp_path: Path) -> None:
    report = nodes(tmp_path, *well("gpu-1"), unlabelled(), daemon_set(1), node="gpu-9")
    assert codes(report) == ["device-plugin-not-selected"]
    assert report.severity == "warning"


def test_a_condition_about_gpus_that_nobody_knows_is_quoted_and_not_judged(tmp_path: Path) -> None:
    objects = well("gpu-1")
    condition = {"type": "AcmeGpuCheck", "status": "True", "reason": "Hot", "message": "GPU 2 is at 91 C"}
    objects[0]["status"]["conditions"].append(condition)
    report = nodes(tmp_path, *objects, node="gpu-1")
    assert codes(report) == ["nodes-healthy"]
    assert about(report)["AcmeGpuCheck"] == "True, Hot: GPU 2 is at 91 C"
