"""`why` of a pod that asks for another vendor's devices: that vendor's names, rules and words."""

import json
from pathlib import Path

import pytest

from bot.report import Report
from tests.playbooks.world import (
    Object,
    ago,
    ask,
    bind_error,
    card,
    cause,
    codes,
    commands,
    container,
    gpu,
    gpu_node,
    node,
    none_of,
    pod,
    quotes,
    refused,
    scheduler,
)

DCU = "hygon.com/dcunum"
CHART = (Path(__file__).parents[1] / "cases" / "fit-vendors" / "device-config.yaml").read_text()


def why(tmp_path: Path, asked: Object, said: str, *nodes: Object, **fields: object) -> Report:
    """A pod that asks for this, what HAMi says of it, and the nodes, under the chart's device config.

    `flags`: the scheduler's; every vendor is on without.
    """
    flags = fields.pop("flags", ["--enable-ascend", "--enable-iluvatar"])
    one = pod(limits=asked, said=refused(none_of(len(nodes), said)), **fields)
    return ask(tmp_path, [*scheduler(config=CHART, flags=flags), *nodes, one])


def dcus(name: str, *cards: str) -> Object:
    """A node with Hygon's cards, as its plugin writes them."""
    register = "".join(f"{card}:" for card in cards)
    return node(name, {"hami.io/node-dcu-register": register}, allocatable={DCU: "8"})


def npus(name: str, chip: str = "Ascend910B3", count: int = 1, **annotations: str) -> Object:
    """A node with Ascend's cards."""
    cards = [
        {"id": f"{name}-{i}", "index": i, "count": 4, "devmem": 65536, "devcore": 20, "type": chip, "health": True}
        for i in range(count)
    ]
    given = {f"hami.io/node-register-{chip}": json.dumps(cards), **annotations}
    return node(name, given, allocatable={f"huawei.com/{chip}": str(4 * count)})


def test_a_card_that_is_too_small_is_told_with_the_vendor_s_own_resources(tmp_path: Path) -> None:
    asked = {DCU: "1", "hygon.com/dcumem": "20000", "hygon.com/dcucores": "50"}
    report = why(tmp_path, asked, "1 1/1 CardInsufficientMemory", dcus("dcu-1", "DCU-0,4,16384,100,DCU-Z100,0,true"))
    assert codes(report)[:2] == ["impossible-anywhere", "card-insufficient-memory"]
    assert "20,000 MiB" in cause(report).claim
    assert "GPU" not in cause(report).claim
    assert "20000" in quotes(report)
    assert not any("nvidia.com" in command for command in commands(report))


def test_an_unhealthy_card_is_named_where_it_is_registered(tmp_path: Path) -> None:
    report = why(tmp_path, {DCU: "1"}, "1 1/1 CardNotHealth", dcus("dcu-1", "DCU-0,4,16384,100,DCU-Z100,0,false"))
    assert codes(report)[0] == "card-not-healthy"
    assert any("hami\\.io/node-dcu-register" in proof.command for proof in cause(report).evidence)


def test_a_register_annotation_that_cannot_be_read_is_the_vendor_s(tmp_path: Path) -> None:
    broken = node("dcu-1", {"hami.io/node-dcu-register": "abc:"}, allocatable={DCU: "4"})
    report = why(tmp_path, {DCU: "1"}, "1 node unregistered", broken)
    assert codes(report)[0] == "node-unregistered"
    assert "abc:" in quotes(report)


def test_nodes_of_another_vendor_s_are_nothing_to_mend(tmp_path: Path) -> None:
    few = dcus("dcu-1", "DCU-0,4,16384,100,DCU-Z100,0,true")
    report = why(tmp_path, {DCU: "2"}, "2 NodeInsufficientDevice", npus("npu-1"), few)
    assert codes(report)[0] in ("node-insufficient-device", "impossible-anywhere")
    assert "node-unregistered" not in codes(report)


def test_of_a_vendor_that_the_scheduler_s_flags_leave_out_nothing_is_concluded(tmp_path: Path) -> None:
    asked = {"huawei.com/Ascend910B3": "2"}
    report = why(tmp_path, asked, "1 NodeInsufficientDevice", npus("npu-1"), flags=[])
    assert "node-unregistered" not in codes(report)
    assert any("huawei.com/Ascend910B3" in gap.why for gap in report.gaps)


# ------------------------------------------------------------------------------------------- amounts in bytes

BYTES = {DCU: "1", "hygon.com/dcumem": "16Gi"}


def test_a_pod_that_asked_in_bytes_and_runs_without_a_device_is_told_why(tmp_path: Path) -> None:
    runs = pod(limits=BYTES, nodeName="dcu-1")
    runs["status"] = {"phase": "Running"}
    ours = dcus("dcu-1", "DCU-0,4,16384,100,DCU-Z100,0,true")
    report = ask(tmp_path, [*scheduler(config=CHART), ours, runs])
    assert codes(report) == ["no-device-request", "running"]
    assert "16Gi" in quotes(report)


def test_a_pod_that_hami_gave_a_device_is_not_told_that_its_amounts_are_unread(tmp_path: Path) -> None:
    own = {"hami.io/vgpu-node": "dcu-1", "hami.io/dcu-devices-allocated": "DCU-0,DCU,16384,100:;"}
    runs = pod(limits=BYTES, nodeName="dcu-1", annotations=own)
    runs["status"] = {"phase": "Running"}
    ours = dcus("dcu-1", "DCU-0,4,16384,100,DCU-Z100,0,true")
    assert codes(ask(tmp_path, [*scheduler(config=CHART), ours, runs])) == ["running"]


def test_a_container_that_asks_in_bytes_beside_one_that_does_not_is_named(tmp_path: Path) -> None:
    plain = {DCU: "1", "hygon.com/dcumem": "32768", "hygon.com/dcucores": "10"}
    both = [container(BYTES, name="loader"), container(plain, name="trainer")]
    ours = dcus("dcu-1", "DCU-0,4,16384,100,DCU-Z100,0,true")
    report = why(tmp_path, {}, "1 1/1 CardInsufficientMemory", ours, containers=both)
    assert codes(report)[0] != "no-device-request"
    assert [finding.claim.split(":")[0] for finding in report.findings if finding.code == "no-device-request"] == [
        "Container loader"
    ]


# ------------------------------------------------------------------------------------- nodes and device plugins

ASCEND = "huawei.com/Ascend910B3"
SHAKES = "hami.io/node-handshake-Ascend910B3"
MLU = "cambricon.com/vmlu"


def bare(name: str) -> Object:
    """A node that is given to the Ascend device plugin, which has registered nothing."""
    return node(name, labels={"ascend": "on"}, allocatable={ASCEND: "0"})


def mlus(**annotations: str) -> Object:
    counted = {MLU: "4", "cambricon.com/mlu.smlu.vcore": "400", "cambricon.com/mlu.smlu.vmemory": "1024"}
    return node("mlu-1", annotations, allocatable=counted)


def test_in_a_mixed_cluster_the_vendor_s_own_node_comes_before_nodes_of_others(tmp_path: Path) -> None:
    others = [gpu_node(f"gpu-{i}") for i in range(3)]
    report = why(tmp_path, {ASCEND: "1"}, "1 node unregistered, 3 NodeInsufficientDevice", bare("npu-1"), *others)
    assert codes(report)[0] == "node-unregistered"
    assert "impossible-anywhere" not in codes(report)
    assert [finding.severity for finding in report.findings if finding.code == "node-insufficient-device"] == ["info"]


def test_nodes_of_the_vendor_that_are_full_come_before_nodes_of_others(tmp_path: Path) -> None:
    asked = {DCU: "1", "hygon.com/dcumem": "20000", "hygon.com/dcucores": "50"}
    small = dcus("dcu-1", "DCU-0,4,16384,100,DCU-Z100,0,true")
    others = [gpu_node(f"gpu-{i}") for i in range(3)]
    report = why(tmp_path, asked, "1 1/1 CardInsufficientMemory, 3 NodeInsufficientDevice", small, *others)
    assert codes(report)[0] in ("card-insufficient-memory", "impossible-anywhere")
    assert "16,384 MiB" in cause(report).claim


def test_only_nodes_of_others_are_told_where_none_has_the_device(tmp_path: Path) -> None:
    report = why(tmp_path, {DCU: "1"}, "1 NodeInsufficientDevice", npus("npu-1"))
    assert "largest" not in cause(report).claim


def test_the_plugin_of_the_vendor_that_the_pod_asks_for_is_looked_for_and_read(tmp_path: Path) -> None:
    ended = {"terminated": {"exitCode": 255, "reason": "Error", "finishedAt": ago(30)}}
    state = {
        "ready": False,
        "restartCount": 4,
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": ended,
    }
    plugin = pod("vendor-dp-npu-1", {}, namespace="kube-system", nodeName="npu-1")
    plugin["spec"]["containers"] = [{"name": "plugin", "image": "example/ascend-device-plugin:v1.2.0"}]
    plugin["status"] = {"phase": "Running", "containerStatuses": [{"name": "plugin"} | state]}
    said = "F1121 04:59:30.000000 1 main.go:127] load config failed, error is can not find vnpu config for chip 910X"
    log = "kube-system/vendor-dp-npu-1/plugin"
    asking = pod(limits={ASCEND: "1"}, said=refused(none_of(1, "1 node unregistered")))
    hami = scheduler(config=CHART, flags=["--enable-ascend"])
    report = ask(tmp_path, [*hami, bare("npu-1"), plugin, asking], others={log: "", f"{log}.previous": said})
    assert codes(report)[:2] == ["device-plugin-crash", "node-unregistered"]
    assert "kube-system/vendor-dp-npu-1" in cause(report).claim
    assert said in quotes(report)


def test_nvidia_s_plugin_is_not_missed_on_another_vendor_s_node_that_has_nvidia_s_label_too(tmp_path: Path) -> None:
    npu = node("npu-1", labels={"ascend": "on", "gpu": "on"}, allocatable={ASCEND: "8"})
    full = gpu_node("gpu-1", card("GPU-0", memory=500))
    report = why(tmp_path, gpu(memory=1000), "1 1/1 CardInsufficientMemory, 1 node unregistered", full, npu)
    assert "npu-1" not in [
        name for finding in report.findings for name in finding.scope.nodes if finding.severity != "info"
    ]
    assert not any("npu-1" in command for command in commands(report))


def test_a_vendor_s_plugin_that_is_not_there_is_said_to_be_missing(tmp_path: Path) -> None:
    report = why(tmp_path, {DCU: "1"}, "1 node unregistered", node("dcu-1", allocatable={DCU: "4"}))
    assert codes(report)[0] == "node-unregistered"
    assert [action.key for action in cause(report).next_actions] == ["node-unregistered.no-plugin"]


def test_a_resource_that_the_plugin_does_not_offer_is_named_where_hami_counts_by_it(tmp_path: Path) -> None:
    report = why(tmp_path, {MLU: "1"}, "1 node unregistered", node("mlu-1", allocatable={MLU: "4"}))
    assert "cambricon.com/mlu.smlu.vcore" in cause(report).claim


def test_after_a_restart_of_the_scheduler_a_node_is_unknown_until_its_plugin_reports(tmp_path: Path) -> None:
    old = npus("npu-1", **{SHAKES: "Requesting_2026-11-21 02:00:00"})
    report = why(tmp_path, {ASCEND: "1"}, "1 node unregistered", old)
    assert codes(report)[0] == "handshake-stale"
    assert f"kubectl annotate node npu-1 {SHAKES}-" in commands(report)
    assert not any("rollout restart" in command for command in commands(report))


def test_a_node_that_this_scheduler_has_taken_in_is_not_called_unknown_since_its_start(tmp_path: Path) -> None:
    known = npus("npu-1", **{SHAKES: "Requesting_2026-11-21 03:00:00"})
    report = why(tmp_path, {ASCEND: "1"}, "1 node unregistered", known)
    assert "handshake-stale" not in codes(report)


def test_a_pod_whose_devices_kubelet_refused_points_at_the_plugin_of_their_vendor(tmp_path: Path) -> None:
    one = pod(limits={ASCEND: "1"}, nodeName="npu-1", annotations={"hami.io/vgpu-node": "npu-1"})
    said = "device number not matched: annotation has 1, request has 2"
    words = f"Allocate failed due to rpc error: code = Unknown desc = {said}"
    one["status"] = {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": words, "startTime": ago(60)}
    report = ask(tmp_path, [*scheduler(config=CHART, flags=["--enable-ascend"]), npus("npu-1"), one])
    assert codes(report) == ["allocate-failed"]
    assert "Ascend" in cause(report).claim
    assert any("hami-ascend-device-plugin" in command for command in commands(report))
    assert not any("=hami-device-plugin" in command for command in commands(report))


# ------------------------------------------------------------------------------------------------------- locks


def test_a_bind_that_cambricon_s_own_lock_refused_is_told_with_that_lock(tmp_path: Path) -> None:
    asking = pod(limits={MLU: "1"}, said=bind_error("node mlu-1 has been locked within 2 minutes", 20))
    locked = mlus(**{"cambricon.com/dsmlu.lock": ago(45)})
    report = ask(tmp_path, [*scheduler(config=CHART), locked, asking])
    assert codes(report)[0] == "node-lock-held"
    assert ago(45) in quotes(report)


def test_a_vendor_whose_binds_take_no_lock_is_not_kept_out_by_one(tmp_path: Path) -> None:
    held = node("xpu-1", {"hami.io/mutex.lock": f"{ago(60)},ml,other"}, allocatable={"kunlunxin.com/xpu": "8"})
    report = ask(tmp_path, [*scheduler(config=CHART), held, pod(limits={"kunlunxin.com/xpu": "1"}), pod("other")])
    assert "node-lock-held" not in codes(report)


# ------------------------------------------------------------------------------------------------------- chips


def test_a_pod_that_got_another_chip_is_told_that_its_resource_means_both(tmp_path: Path) -> None:
    own = {"hami.io/vgpu-node": "npu-1", "hami.io/Ascend910B4-devices-allocated": "npu-1-0,Ascend910B4,65536,0:;"}
    runs = pod(limits={"huawei.com/Ascend910B4": "1"}, nodeName="npu-1", annotations=own)
    runs["status"] = {"phase": "Running"}
    hami = scheduler(config=CHART, flags=["--enable-ascend"])
    mixed = ask(tmp_path / "mixed", [*hami, npus("npu-1", "Ascend910B4-1"), runs])
    assert "Ascend910B4-1" in cause(mixed).claim
    plain = ask(tmp_path / "plain", [*hami, npus("npu-1", "Ascend910B4"), runs])
    assert cause(plain).claim == "ml/wl is running on npu-1. Nothing wrong was seen."


HCU = {"hygon.com/hcunum": "1", "hygon.com/hcumem": "20000", "hygon.com/hcucores": "50"}


@pytest.mark.parametrize(
    ("version", "config", "code", "told"),
    [
        ("2.11.0", CHART.replace("dcu", "hcu"), "impossible-anywhere", "the largest HCU has 16,384 MiB"),
        ("2.11.0", CHART, "resource-unknown", "hygon.com/dcu"),
        ("2.10.0", CHART, "resource-unknown", "hygon.com/dcu"),
    ],
)
def test_hygon_s_devices_have_another_name_after_2_10(
    tmp_path: Path, version: str, config: str, code: str, told: str
) -> None:
    image = f"docker.io/projecthami/hami:v{version}"
    register = {"hami.io/node-hcu-register": "HCU-0,4,16384,100,HCU-Z100,0,true:"}
    one = pod(limits=HCU, said=refused(none_of(1, "1 1/1 CardInsufficientMemory")))
    host = node("hcu-1", register, allocatable={"hygon.com/hcunum": "8"})
    report = ask(tmp_path, [*scheduler(config=config, flags=[], image=image), host, one])
    assert codes(report)[0] == code
    assert told in cause(report).claim
