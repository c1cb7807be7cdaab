"""`nodes` about registrations and handshakes: the version's own rule, other vendors, and the scheduler's time zone."""

import json
from pathlib import Path

import pytest

from tests.playbooks.nodes_support import ask, faults, healthy, only, plugin, rows
from tests.playbooks.world import (
    HANDSHAKE,
    REGISTER,
    answer,
    card,
    cause,
    codes,
    commands,
    gpu_node,
    node,
    quotes,
    record,
    scheduler,
)

MANY = 3


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
    assert len(cause(report).evidence) == MANY


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


def test_other_vendors_cards_count_and_need_no_nvidia_registration(tmp_path: Path) -> None:
    ascend = json.dumps([card("npu-0", memory=65536, type="Ascend910B3")])
    one = node("npu-1", {"hami.io/node-register-Ascend910B3": ascend}, labels={"gpu": "on"})
    report = ask(tmp_path, one, all=True)
    assert codes(report) == ["nodes-healthy"]
    assert (rows(report)["npu-1"]["cards"], rows(report)["npu-1"]["type"]) == ("1", "Ascend910B3")


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


def test_a_stale_handshake_of_another_vendor_s_cards_is_told(tmp_path: Path) -> None:
    dcu = {"hami.io/node-dcu-register": "DCU-0,4,65536,100,DCU-K100,0,true:"}
    dead = dcu | {"hami.io/node-handshake-dcu": "Requesting_2026-11-21 04:50:00"}
    offered = {"hygon.com/dcunum": "4"}
    assert faults(ask(tmp_path / "old", node("dcu-1", dead, allocatable=offered), version="2.8.1")) == [
        "handshake-stale"
    ]
    assert faults(ask(tmp_path / "new", node("dcu-1", dead, allocatable=offered))) == []


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
