"""`nodes` about other vendors' nodes: registered or not, their own device plugins, labels and words."""

import asyncio
import gc
import json
import re
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any
from weakref import ref

import pytest
from msgspec import structs

from bot.kube.recording.recorded_cluster import RecordedCluster
from playbooks.gather.nodes_in_question import NodesInQuestion
from playbooks.nodes import playbook
from playbooks.playbook import Sources
from playbooks.rules.nodes.faults import faults_of
from tests.cases_support import files_in, write_recording
from tests.playbooks.nodes_support import ask, faults, healthy, plugin, rows
from tests.playbooks.tables import only
from tests.playbooks.world import (
    HANDSHAKE,
    READY,
    REGISTER,
    Object,
    ago,
    answer,
    card,
    cause,
    codes,
    commands,
    gpu_node,
    node,
    pod,
    quotes,
    record,
    scheduler,
)
from tests.vendor_worlds import FOLDER, recording

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


@pytest.mark.parametrize("of_nvidia", [True, False])
def test_only_nvidia_s_unhealthy_cards_have_xid_errors(tmp_path: Path, of_nvidia: bool) -> None:
    sick = npus(annotations={f"hami.io/node-register-{CHIP}": json.dumps([card("a", type=CHIP, health=False)])})
    report = ask(tmp_path, gpu_node("npu-1", card("a", health=False)) if of_nvidia else sick)
    look = next(step.label for each in report.findings for step in each.next_actions if "unhealthy" in step.label)
    assert ("Xid" in look, '"health"' in look) == (of_nvidia, False)


# ------------------------------------------------------------------------------------------------ registration


def test_a_node_of_another_vendor_without_a_registration_is_told_in_that_vendor_s_words(tmp_path: Path) -> None:
    report = ask(tmp_path, *healthy(), npus(registered=False, offered=0))
    assert faults(report) == ["node-unregistered"]
    assert "NPU" in cause(report).claim
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


# ------------------------------------------------------------------------------------------------ registration


def test_a_node_without_a_registration_is_found_with_its_proof(tmp_path: Path) -> None:
    lost = node("gpu-2", allocatable={"nvidia.com/gpu": "40"}, labels={"gpu": "on"})
    report = ask(tmp_path, *healthy(), lost, plugin("gpu-2"))
    assert faults(report) == ["node-unregistered"]
    assert (cause(report).scope.nodes, quotes(report)[0]) == (("gpu-2",), "40")
    assert commands(report)[:2] == [
        "kubectl -n hami-system logs hami-device-plugin-gpu-2 --all-containers --tail=50",
        "kubectl -n hami-system delete pod hami-device-plugin-gpu-2",
    ]


def test_a_registration_that_lacks_its_plugin_is_one_finding_that_says_so(tmp_path: Path) -> None:
    lost = node("gpu-2", labels={"gpu": "on"})
    report = ask(tmp_path, *healthy(), lost)
    assert faults(report) == ["node-unregistered"]
    assert cause(report).claim.endswith("The node has no device plugin pod.")


def test_nodes_with_the_same_cause_are_one_finding(tmp_path: Path) -> None:
    lost = [node(f"gpu-{i}", labels={"gpu": "on"}) for i in range(2, 9)]
    report = ask(tmp_path, *healthy(), *lost, *(plugin(gone["metadata"]["name"]) for gone in lost))
    assert faults(report) == ["node-unregistered"]
    assert cause(report).scope.nodes == tuple(f"gpu-{i}" for i in range(2, 9))
    assert len(cause(report).evidence) == 3


@pytest.mark.parametrize(("version", "text"), [("2.7.1", False), ("2.8.1", True)])
def test_a_registration_in_the_other_version_s_format_is_told(tmp_path: Path, version: str, text: bool) -> None:
    report = ask(tmp_path, gpu_node("gpu-1", text=text), plugin("gpu-1"), version=version)
    assert faults(report) == ["node-unregistered"]
    assert "format" in cause(report).claim
    assert rows(report)["gpu-1"]["format"].startswith("text, HAMi 2.8.1 reads json" if text else "json, HAMi 2.7.1")


def test_an_unreadable_registration_of_another_vendor_is_told(tmp_path: Path) -> None:
    key = "hami.io/node-register-Ascend910B3"
    report = ask(tmp_path, node("npu-1", {key: "[{"}), *healthy())
    assert (faults(report), quotes(report)[0]) == (["node-unregistered"], "[{")


# --------------------------------------------------------------------------------------------------- handshake


@pytest.mark.parametrize(
    ("version", "stamp", "found"),
    [
        ("2.7.1", "Requesting_2026-11-21 04:50:00", ["handshake-stale"]),
        ("2.7.1", "Requesting_2026-11-21 04:59:30", []),
        ("2.7.1", "Deleted_2026-11-21 04:50:00", ["handshake-deleted"]),
        ("2.7.1", "Reported 2026-11-21 04:59:50.1 +0000 UTC m=+2.6", []),
        ("2.8.1", "Deleted_2026-10-21 04:50:00", []),
        ("2.9.0", "Requesting_2026-10-21 04:50:00", []),
        ("2.10.0", "Requesting_2026-10-21 04:50:00", []),
        ("2.10.0", "1795233600", ["handshake-stale"]),
        ("2.10.0", "1795237190", []),
    ],
)
def test_a_handshake_is_judged_by_the_version_s_own_rule(
    tmp_path: Path, version: str, stamp: str, found: list[str]
) -> None:
    one = gpu_node("gpu-1", text=version < "2.8" and version != "2.10.0", annotations={HANDSHAKE: stamp})
    report = ask(tmp_path, one, plugin("gpu-1"), version=version)
    assert faults(report) == found
    assert found == [] or stamp in quotes(report)


def test_handshakes_of_vendors_without_cards_mean_nothing(tmp_path: Path) -> None:
    old = {f"hami.io/node-handshake-{word}": "Deleted_2026-11-20 04:50:00" for word in ("dcu", "xpu", "va")}
    report = ask(tmp_path, *healthy(annotations=old, text=True), node("cpu-1", old), version="2.7.1")
    assert faults(report) == []


def test_a_scheduler_west_of_utc_is_the_cause_and_not_its_nodes(tmp_path: Path) -> None:
    """Before 2.9 a local time is read as UTC: 8 hours back, every question looks unanswered."""
    stamps = {f"gpu-{i}": f"Requesting_2026-11-20 20:59:{20 + i}" for i in range(1, 4)}
    nodes = [gpu_node(name, text=True, annotations={HANDSHAKE: stamp}) for name, stamp in stamps.items()]
    alive = gpu_node("gpu-9", text=True, annotations={HANDSHAKE: "Reported 2026-11-21 04:59:50.1 +0000 UTC m=+2.6"})
    names = [*stamps, "gpu-9"]
    report = ask(tmp_path, *nodes, alive, *map(plugin, names), version="2.7.1")
    assert faults(report) == ["handshake-time-zone"]
    assert "UTC-8" in cause(report).claim
    assert (cause(report).scope.nodes, cause(report).confidence) == (tuple(stamps), "suspected")


def test_a_scheduler_east_of_utc_hides_a_dead_plugin(tmp_path: Path) -> None:
    dead = gpu_node("gpu-1", text=True, annotations={HANDSHAKE: "Requesting_2026-11-21 12:40:00"})
    alive = gpu_node("gpu-2", text=True, annotations={HANDSHAKE: "Requesting_2026-11-21 12:59:40"})
    report = ask(tmp_path, dead, alive, plugin("gpu-1"), plugin("gpu-2"), version="2.7.1")
    assert faults(report) == ["handshake-time-zone"]
    assert "UTC+8" in cause(report).claim
    assert cause(report).scope.nodes == ("gpu-1",)


def test_an_old_request_alone_shows_no_time_zone(tmp_path: Path) -> None:
    one = gpu_node("gpu-1", text=True, annotations={HANDSHAKE: "Requesting_2026-11-20 21:00:00"})
    assert faults(ask(tmp_path, one, plugin("gpu-1"), version="2.7.1")) == ["handshake-stale"]


def test_a_node_outside_the_scheduler_s_selector_is_said_to_be(tmp_path: Path) -> None:
    install = scheduler("2.10.0", flags=["--node-label-selector=pool=gpu"])
    inside = gpu_node("gpu-1", labels={"pool": "gpu"})
    path = record(tmp_path, [*install, inside, plugin("gpu-1"), *healthy("gpu-2")])
    report = answer("nodes", path, {})
    assert faults(report) == ["registration-ignored"]
    assert (only(report, "registration-ignored").scope.nodes, report.severity) == (("gpu-2",), "info")


def test_an_unreadable_registration_is_not_believed_by_any_version(tmp_path: Path) -> None:
    report = ask(tmp_path, node("gpu-1", {REGISTER: "[{"}, labels={"gpu": "on"}), plugin("gpu-1"))
    assert (faults(report), rows(report)["gpu-1"]["format"]) == (["node-unregistered"], "unreadable")


WORLDS = json.loads((FOLDER / "questions.json").read_text())
_UUID = re.compile(
    r"DCU-T\d+|(?:GPU|BRGPU)-[0-9a-f]{8}-[0-9a-f-]{27}|[0-9A-F]{8}(?:-[0-9A-F]{8}){4}|(?:XPU|vastai|biren)-[0-9a-f]{12}"
)
_SECONDS = re.compile(r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d")


def renumbered(node: Any) -> Any:
    """Like it, with devices of its own."""
    return json.loads(_UUID.sub(lambda found: f"{found[0]}-copy", json.dumps(node)))


def unoffered(node: Any) -> Any:
    """Kubelet offers no device."""
    amounts = node["status"].get("allocatable") or {}
    node["status"]["allocatable"] = {name: "0" if "/" in name else amount for name, amount in amounts.items()}
    return node


def unhealthy(node: Any) -> Any:
    """One of its devices is registered as unhealthy."""
    return texts_replaced(node, "register", lambda text: re.sub(r"\btrue\b", "false", text, count=1))


def unreadable(node: Any) -> Any:
    """What it registers cannot be read."""
    return texts_replaced(node, "register", lambda text: text[:-9])


def silent(node: Any) -> Any:
    """Nobody has answered the scheduler for a year."""
    return texts_replaced(node, "handshake", lambda text: _SECONDS.sub("2025-01-01 00:00:00", text))


def without_labels(node: Any) -> Any:
    node["metadata"]["labels"] = {}
    return node


def with_sick_condition(node: Any) -> Any:
    """A monitor says that a GPU is broken."""
    broken = {"type": "GpuUnhealthy", "status": "True", "reason": "Xid79", "message": "a GPU fell off the bus"}
    node["status"].setdefault("conditions", []).append(broken)
    return node


def with_well_condition(node: Any) -> Any:
    """A monitor says that no GPU is broken."""
    node["status"].setdefault("conditions", []).append({"type": "GpuUnhealthy", "status": "False", "reason": "None"})
    return node


def texts_replaced(node: Any, kind: str, change: Callable[[str], str]) -> Any:
    texts = node["metadata"].get("annotations") or {}
    node["metadata"]["annotations"] = {key: change(text) if kind in key else text for key, text in texts.items()}
    return node


CHANGES = (unoffered, unhealthy, unreadable, silent, without_labels, with_sick_condition, with_well_condition)


def with_copies(path: Path) -> Path:
    """The recording with each node once more, and once more for each thing that may change about it."""
    files = files_in(path)
    listed = json.loads(files["objects/nodes.json"])
    nodes = []
    for item in listed["items"]:
        nodes += [item, renamed(renumbered(item), "copy")]
        for change in CHANGES:
            name = change.__name__.replace("_", "-")
            nodes += [renamed(change(renumbered(deepcopy(item))), f"{name}-{i}") for i in (1, 2)]
    files["objects/nodes.json"] = json.dumps({**listed, "items": nodes}).encode()
    return write_recording(files, path.with_name(f"copies-{path.name}"))


def renamed(node: Any, suffix: str) -> Any:
    node["metadata"]["name"] += f"-{suffix}"
    return node


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("world", "probe"), WORLDS.items(), ids=WORLDS)
def test_a_node_that_is_like_another_has_the_faults_that_it_has_alone(world: str, probe: str, tmp_path: Path) -> None:
    cluster = RecordedCluster.open(with_copies(recording(world, probe, tmp_path)[0]))
    scene = asyncio.run(playbook.gather(playbook.request(), Sources(cluster))).scene
    scene = scene.with_questioned(NodesInQuestion({}), ())

    def faults(nodes: Any) -> set[Any]:
        found = structs.replace(scene, nodes=nodes).alike
        return {(name, fault) for node, names in found for fault in faults_of(node) for name in names}

    alone = set[Any]().union(*(faults([node]) for node in scene.nodes))
    assert faults(scene.nodes) == alone


def test_a_node_of_other_vendors_is_looked_at_once_however_many_are_like_it(tmp_path: Path) -> None:
    world, probe = next(pair for pair in WORLDS.items() if "hygon" in pair[0] or "dcu" in pair[0].lower())
    cluster = RecordedCluster.open(with_copies(recording(world, probe, tmp_path)[0]))
    scene = asyncio.run(playbook.gather(playbook.request(), Sources(cluster))).scene
    node = scene.nodes[0].name
    together = [names for _, names in scene.with_questioned(NodesInQuestion({}), ()).alike if node in names]
    assert [f"{node}-copy" in names for names in together] == [True]
    assert [f"{node}-unhealthy-1" in names for names in together] == [False]


def test_what_was_read_of_nodes_is_gone_with_the_answer(tmp_path: Path) -> None:
    world, probe = next(iter(WORLDS.items()))
    cluster = RecordedCluster.open(recording(world, probe, tmp_path)[0])
    gc.disable()
    try:
        snapshot = asyncio.run(playbook.gather(playbook.request(), Sources(cluster)))
        playbook.diagnose(snapshot)
        scene = ref(snapshot.scene)
        del snapshot
        assert scene() is None
    finally:
        gc.enable()
