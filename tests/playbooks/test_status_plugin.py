"""`status`: the nodes that the device plugin does not cover."""

import json
from pathlib import Path

import pytest

from tests.playbooks.node_side_support import counted, crashing, rival
from tests.playbooks.node_side_support import plugin as crashing_plugin
from tests.playbooks.nodes_support import CHART
from tests.playbooks.status_support import ask, changed, daemon_set, healthy, plugin_pod, without
from tests.playbooks.tables import only, table
from tests.playbooks.world import HAMI, Object, card, cause, codes, event, gpu_node, node


@pytest.mark.parametrize("age", [{}, {"age": 30}], ids=["long ago", "from its start"])
def test_a_plugin_pod_that_is_down_is_found_with_its_node_however_young(tmp_path: Path, age: dict[str, float]) -> None:
    down = {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "False"}],
        "containerStatuses": [{"name": "device-plugin", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}],
    }
    report = ask(tmp_path, [*without(healthy(), "Pod", "plugin-gpu-2"), plugin_pod("gpu-2", down, **age)])
    assert codes(report) == ["plugin-not-ready"]
    assert cause(report).scope.nodes == ("gpu-2",)
    assert "CrashLoopBackOff" in report.verdict


def test_a_gpu_node_without_a_plugin_pod_is_found(tmp_path: Path) -> None:
    report = ask(tmp_path, without(healthy(), "Pod", "plugin-gpu-2"))
    assert codes(report) == ["plugin-missing"]
    assert cause(report).scope.nodes == ("gpu-2",)


def test_a_plugin_that_runs_and_hands_out_nothing_is_told_with_its_own_words(tmp_path: Path) -> None:
    def none(one: Object) -> None:
        one["status"]["allocatable"] = {**one["status"]["allocatable"], "nvidia.com/gpu": "0"}

    said = "E1121 04:58:00.000000       1 factory.go:135] Incompatible strategy detected auto"
    runs = crashing_plugin("gpu-2")
    objects = [*without(changed(healthy(), "Node", none, "gpu-2"), "Pod", "plugin-gpu-2"), runs]
    report = ask(tmp_path, objects, others={f"{HAMI}/{runs['metadata']['name']}/device-plugin": said})
    assert codes(report)[0] == "gpu-runtime-missing"
    assert cause(report).scope.nodes == ("gpu-2",)


def test_another_plugin_beside_hami_s_is_told(tmp_path: Path) -> None:
    nodes = [counted("gpu-1", capacity=20, allocatable=20), counted("gpu-2", capacity=2, allocatable=2)]
    report = ask(tmp_path, [*without(healthy(), "Node"), *nodes, rival("gpu-2")])
    assert [(finding.code, finding.scope.nodes) for finding in report.findings] == [
        ("second-device-plugin", ("gpu-2",))
    ]


def test_the_table_counts_the_nodes_that_have_a_plugin_pod(tmp_path: Path) -> None:
    def covered(objects: list[Object]) -> str:
        rows = table(ask(tmp_path / str(len(objects)), objects), "components")
        return next(row["state"] for row in rows if row["object"] == "nodes with GPUs")

    assert covered(healthy()) == "2 of 2 have a plugin pod, logs read of 2"
    assert covered(without(healthy(), "Pod", "plugin-gpu-2")) == "1 of 2 have a plugin pod, logs read of 1"


def test_a_taint_that_keeps_the_plugin_away_is_named(tmp_path: Path) -> None:
    tainted = gpu_node("gpu-3", taints=[{"key": "team", "value": "ml", "effect": "NoSchedule"}])
    assert "untolerated taint(s): team" in ask(tmp_path, [*healthy(), tainted]).verdict


def test_a_node_that_hami_has_nothing_to_do_with_is_only_mentioned(tmp_path: Path) -> None:
    other = node("other-1", allocatable={"nvidia.com/gpu": "8"})
    report = ask(tmp_path, [*healthy(), other])
    assert codes(report) == ["healthy", "plugin-missing"]
    assert report.severity == "info"


def test_another_vendor_s_node_that_has_nvidia_s_label_too_is_not_missed(tmp_path: Path) -> None:
    npu = node("npu-1", labels={"gpu": "on"}, allocatable={"huawei.com/Ascend910B3": "8"})
    every = healthy(config=CHART, flags=["--enable-ascend"])
    report = ask(tmp_path, [*every, npu])
    assert "plugin-missing" not in codes(report)


def test_resources_of_another_vendor_that_kube_scheduler_keeps_to_itself_are_a_warning(tmp_path: Path) -> None:
    """Pods that ask for NVIDIA's GPUs are not affected."""
    cards = json.dumps([card("npu-0", type="Ascend910B3")])
    texts = {"hami.io/node-register-Ascend910B3": cards}
    npu = node("npu-1", texts, allocatable={"huawei.com/Ascend910B3": "10"})
    told = only(ask(tmp_path, [*healthy(config=CHART, flags=["--enable-ascend"]), npu]), "extender-misconfigured")
    assert told.severity == "warning"
    assert "huawei.com/Ascend910B3-memory" in told.claim
    off = ask(tmp_path / "off", [*healthy(config=CHART), npu])
    assert "extender-misconfigured" not in codes(off)


def test_a_cordoned_node_and_one_without_gpus_need_no_word(tmp_path: Path) -> None:
    cordoned = gpu_node("gpu-3", unschedulable=True)
    assert codes(ask(tmp_path, [*healthy(), cordoned, plugin_pod("gpu-3"), node("cpu-1")])) == ["healthy"]


@pytest.mark.parametrize("kind", ["nodes", "daemonsets"])
def test_coverage_is_not_judged_without_what_decides_it(tmp_path: Path, kind: str) -> None:
    report = ask(tmp_path, without(healthy(), "Pod", "plugin-gpu-2"), missing=[kind])
    assert codes(report) == (["bot-blind", "healthy"] if kind == "nodes" else ["healthy"])
    assert report.findings[-1].confidence == "suspected"


# ------------------------------------------------------------------------------------------------ the causes


def test_the_driver_that_keeps_plugin_pods_down_comes_before_them(tmp_path: Path) -> None:
    objects = without(healthy(), "Pod", "plugin-gpu-1")
    said = "nvidia-container-cli: initialization error: nvml error: driver not loaded: unknown"
    report = ask(tmp_path, [*objects, crashing_plugin("gpu-1", device=crashing(code=128, message=said))])
    assert codes(report)[:2] == ["driver-not-loaded", "plugin-not-ready"]


def test_vgpumonitor_that_is_down_alone_is_told_as_such(tmp_path: Path) -> None:
    objects = without(healthy(), "Pod", "plugin-gpu-1")
    report = ask(tmp_path, [*objects, crashing_plugin("gpu-1", monitor=crashing(code=0, reason="Completed"))])
    assert "GPUs; GPU metrics are missing there" in only(report, "device-plugin-not-ready").claim


def test_a_runtime_class_that_does_not_exist_is_why_plugin_pods_are_missing(tmp_path: Path) -> None:
    objects = without(healthy(), "Pod", "plugin-gpu-1")
    wanted = next(object_ for object_ in objects if object_["kind"] == "DaemonSet")
    wanted["metadata"]["uid"] = "uid-set"
    said = 'Error creating: pods "hami-device-plugin-" is forbidden: pod rejected: RuntimeClass "nvidia" not found'
    report = ask(tmp_path, [*objects, event(wanted, "FailedCreate", said)])
    assert codes(report)[0] == "gpu-runtime-missing"


def test_a_daemon_set_that_selects_no_node_is_told(tmp_path: Path) -> None:
    objects = without(without(healthy(nodes=0), "Node"), "DaemonSet")
    report = ask(tmp_path, [*objects, daemon_set(0), node("n-1")])
    assert "No node has the label" in only(report, "device-plugin-not-selected").claim
