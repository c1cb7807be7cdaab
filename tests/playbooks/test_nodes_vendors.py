"""`nodes` about other vendors' nodes: registered or not, their own device plugins, labels and words."""

import json
from pathlib import Path

import pytest

from tests.playbooks.nodes_support import ask, faults, healthy, only, plugin, rows
from tests.playbooks.world import (
    READY,
    Object,
    ago,
    card,
    cause,
    codes,
    commands,
    gpu_node,
    node,
    pod,
    quotes,
)

ASCEND = {"app.kubernetes.io/component": "hami-ascend-device-plugin"}
CHIP = "Ascend910B3"
SHAKES = f"hami.io/node-handshake-{CHIP}"
LOG = "kube-system/ascend-npu-1/device-plugin"


def npus(
    name: str = "npu-1", *, offered: int = 4, registered: bool = True, chip: str = CHIP, **fields: object
) -> Object:
    """A node with Ascend's NPUs, labelled for the Ascend device plugin; `labels` are added, `annotations` too."""
    cards = [card(f"{name}-0", memory=65536, type=chip, mode="", count=4)]
    texts = {f"hami.io/node-register-{chip}": json.dumps(cards)} if registered else {}
    labels = {"ascend": "on"} | fields.pop("labels", {})
    texts |= fields.pop("annotations", {})
    return node(name, texts, allocatable={f"huawei.com/{chip}": str(offered)}, labels=labels, **fields)


def ascend_plugin(on: str = "npu-1", *, ready: bool = True) -> Object:
    """The pod of the Ascend device plugin on a node; where it is not `ready` it keeps ending."""
    one = pod(f"ascend-{on}", {}, namespace="kube-system", labels=ASCEND, nodeName=on, age=9000)
    one["spec"]["containers"] = [{"name": "device-plugin", "image": "projecthami/ascend-device-plugin:v1.2.0"}]
    ended = {"terminated": {"exitCode": 255, "reason": "Error", "finishedAt": ago(30)}}
    waits = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s"}}
    state = {"state": {"running": {"startedAt": ago(7200)}}} if ready else {"state": waits, "lastState": ended}
    status = {"name": "device-plugin", "ready": ready, "restartCount": 0 if ready else 5} | state
    one["status"] = {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": str(ready)}],
        "containerStatuses": [status],
    }
    return one


# ------------------------------------------------------------------------------------------------ registration


def test_a_node_of_another_vendor_without_a_registration_is_told_in_that_vendor_s_words(tmp_path: Path) -> None:
    report = ask(tmp_path, *healthy(), npus(registered=False, offered=0))
    assert faults(report) == ["node-unregistered"]
    assert "NPUs" in cause(report).claim
    assert "ascend" in commands(report)[0]
    assert not any(
        "hami-device-plugin" in command.replace("hami-ascend-device-plugin", "") for command in commands(report)
    )


@pytest.mark.parametrize("labels", [{}, {"gpu": "on"}])
def test_nvidia_s_plugin_is_not_missed_on_another_vendor_s_node(tmp_path: Path, labels: Object) -> None:
    report = ask(tmp_path, *healthy(), npus(labels=labels), ascend_plugin(), all=True)
    assert codes(report) == ["nodes-healthy"]
    assert (rows(report)["npu-1"]["type"], rows(report)["npu-1"]["plugin"]) == (CHIP, "Ascend ready")


def test_nvidia_s_plugin_that_its_label_put_on_another_vendor_s_node_and_that_fails_is_told(tmp_path: Path) -> None:
    broken = plugin("npu-1", ready=False, waiting="CrashLoopBackOff")
    report = ask(tmp_path, *healthy(), npus(labels={"gpu": "on"}), broken)
    assert faults(report) == ["device-plugin-not-ready"]


def test_a_node_whose_plugin_offers_no_counted_resource_is_told_which_one_lacks(tmp_path: Path) -> None:
    report = ask(tmp_path, node("mlu-1", allocatable={"cambricon.com/vmlu": "4"}))
    assert faults(report) == ["node-unregistered"]
    assert "cambricon.com/mlu.smlu.vcore" in cause(report).claim


def test_devices_that_other_programs_serve_under_the_same_name_may_be_left_out_on_purpose(tmp_path: Path) -> None:
    report = ask(tmp_path, *healthy(), node("amd-1", allocatable={"amd.com/gpu": "8"}))
    assert only(report, "node-unregistered").severity == "info"


def test_amd_s_gpus_are_counted_by_capacity_before_2_10(tmp_path: Path) -> None:
    amd = node("amd-1", allocatable={"amd.com/gpu": "8"})
    assert faults(ask(tmp_path, *healthy(), amd, version="2.9.0")) == []


def test_a_label_of_one_kind_of_a_vendor_s_devices_asks_for_no_other_kind(tmp_path: Path) -> None:
    whole = node("xpu-1", allocatable={"kunlunxin.com/xpu": "8"}, labels={"xpu": "on"})
    assert faults(ask(tmp_path, whole)) == []


def test_a_registration_that_the_scheduler_s_flags_leave_out_is_told_and_its_devices_are_not_counted(
    tmp_path: Path,
) -> None:
    report = ask(tmp_path, *healthy(), npus(), flags=[])
    assert faults(report) == ["registration-ignored"]
    assert "--enable-ascend" in cause(report).claim


def test_a_chip_that_the_device_config_does_not_name_is_told(tmp_path: Path) -> None:
    report = ask(tmp_path, *healthy(), npus(chip="Ascend910Z"))
    assert faults(report) == ["registration-ignored"]
    assert "hami.io/node-register-Ascend910Z" in cause(report).claim


# --------------------------------------------------------------------------------------------------- handshake


def test_a_handshake_that_nobody_answers_is_quoted_where_it_stands(tmp_path: Path) -> None:
    asked = "Requesting_2026-11-21 04:50:00"
    report = ask(tmp_path, npus(offered=0, annotations={SHAKES: asked}))
    assert (faults(report), quotes(report)[0]) == (["handshake-stale"], asked)


def test_devices_that_kubelet_does_not_offer_are_told_while_hami_takes_them_in_by_turns(tmp_path: Path) -> None:
    report = ask(tmp_path, npus(offered=0, annotations={SHAKES: "Requesting_2026-11-21 04:59:30"}))
    assert faults(report) == ["allocatable-mismatch"]


def test_a_restarted_scheduler_does_not_know_nodes_whose_handshake_is_from_before(tmp_path: Path) -> None:
    before, since = "Requesting_2026-11-21 02:00:00", "Requesting_2026-11-21 03:00:00"
    nodes = [npus("npu-1", annotations={SHAKES: before}), npus("npu-2", annotations={SHAKES: since})]
    report = ask(tmp_path, *nodes)
    told = only(report, "handshake-stale")
    assert (told.scope.nodes, told.confidence) == (("npu-1",), "suspected")
    assert f"kubectl annotate node npu-1 {SHAKES}-" in commands(report)


def test_where_the_scheduler_s_start_is_not_known_nothing_is_said_of_old_handshakes(tmp_path: Path) -> None:
    unknown = {key: value for key, value in READY.items() if key != "containerStatuses"}
    old = npus(annotations={SHAKES: "Requesting_2026-11-20 02:00:00"})
    assert faults(ask(tmp_path, old, statuses=[unknown])) == []


# ---------------------------------------------------------------------------------------------- device plugins


def test_another_vendor_s_plugin_that_keeps_ending_is_named_with_the_fault_from_its_log(tmp_path: Path) -> None:
    said = "F1121 04:59:30.000000       1 main.go:123] init AscendManager failed, error is cannot init dcmi\n"
    logs = {LOG: "", f"{LOG}.previous": said}
    lost = npus(registered=False, offered=0)
    report = ask(tmp_path, *healthy(), lost, ascend_plugin(ready=False), others=logs)
    assert faults(report) == ["driver-not-loaded", "node-unregistered"]
    assert "kube-system/ascend-npu-1" in cause(report).claim
    assert said.strip() in quotes(report)


def test_a_plugin_that_keeps_ending_is_told_although_its_devices_are_still_registered(tmp_path: Path) -> None:
    report = ask(tmp_path, *healthy(), npus(), ascend_plugin(ready=False), others={LOG: "", f"{LOG}.previous": ""})
    assert faults(report) == ["device-plugin-crash"]
    assert cause(report).scope.nodes == ("npu-1",)


def test_pods_that_could_not_be_read_are_a_gap_and_no_missing_plugin(tmp_path: Path) -> None:
    report = ask(tmp_path, npus(registered=False, offered=0), missing=["pods"])
    assert faults(report) == ["node-unregistered"]
    assert "plugin pod" not in cause(report).claim
    assert any(gap.source == "device plugin pods" for gap in report.gaps)


def test_the_plugin_of_each_vendor_on_a_mixed_node_is_told_by_itself(tmp_path: Path) -> None:
    both = npus("gpu-1", annotations=gpu_node("gpu-1")["metadata"]["annotations"])
    both["status"]["allocatable"] |= {"nvidia.com/gpu": "10"}
    broken = ascend_plugin("gpu-1", ready=False)
    logs = {f"kube-system/ascend-gpu-1/device-plugin{run}": "" for run in ("", ".previous")}
    report = ask(tmp_path, both, plugin("gpu-1"), broken, others=logs)
    assert faults(report) == ["device-plugin-crash"]
    assert "kube-system/ascend-gpu-1" in cause(report).claim


def test_before_2_9_a_scheduler_west_of_utc_drops_every_vendor_s_nodes_by_its_own_clock(tmp_path: Path) -> None:
    stamps = {f"npu-{i}": f"Requesting_2026-11-20 20:59:{20 + i}" for i in range(1, 4)}
    nodes = [npus(name, annotations={SHAKES: stamp}) for name, stamp in stamps.items()]
    alive = npus("npu-9", annotations={SHAKES: "Reported 2026-11-21 04:59:50.1 +0000 UTC m=+2.6"})
    report = ask(tmp_path, *nodes, alive, version="2.7.1")
    assert faults(report) == ["handshake-time-zone"]
    assert quotes(report)[0] == stamps["npu-1"]


def test_an_old_request_is_stale_for_every_vendor_up_to_2_8_whatever_kubelet_offers(tmp_path: Path) -> None:
    old = npus(annotations={SHAKES: "Requesting_2026-11-21 04:50:00"})
    assert faults(ask(tmp_path / "old", old, version="2.8.1")) == ["handshake-stale"]
    assert faults(ask(tmp_path / "new", old, version="2.9.0")) == []
