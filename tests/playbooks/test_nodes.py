"""`nodes`: every planted fault is found once, by its cause, and what only looks like one is left alone."""

import json
from pathlib import Path

import pytest

from bot.render.terminal import terminal
from bot.texts import Texts
from tests.playbooks.nodes_support import about, ask, faults, healthy, plugin, rows
from tests.playbooks.tables import only
from tests.playbooks.world import (
    HAMI,
    HANDSHAKE,
    LOCK,
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

# ----------------------------------------------------------------------------------------------- a healthy cluster


def test_a_healthy_cluster_gives_one_finding_that_is_no_warning(tmp_path: Path) -> None:
    report = ask(tmp_path, *healthy("gpu-1"), *healthy("gpu-2"), node("cpu-1"))
    assert (codes(report), report.severity, report.gaps) == (["nodes-healthy"], "info", ())
    assert report.verdict == "2 GPU nodes are registered with HAMi (2 GPUs) and show no fault."
    assert report.tables == ()


def test_all_gives_a_row_for_every_node(tmp_path: Path) -> None:
    cards = [card(f"GPU-{i}", memory=122880, type="NVIDIA A100-SXM4-80GB", numa=i % 2, devcore=200) for i in range(2)]
    report = ask(tmp_path, gpu_node("gpu-1", *cards), plugin("gpu-1", restarts=2), node("cpu-1"), all=True)
    assert rows(report)["gpu-1"] == {
        "node": "gpu-1",
        "problems": "registered-otherwise",
        "kubernetes": "ready",
        "cards": "2",
        "type": "NVIDIA A100-SXM4-80GB",
        "memory": "122,880 MiB",
        "healthy": "2/2",
        "cordoned": "",
        "mode": "hami-core",
        "numa": "0, 1",
        "slots": "20",
        "split": "10",
        "scaling": "memory x1.5, cores x2",
        "format": "json",
        "handshake": "none",
        "lock": "",
        "plugin": "ready, 2 restarts",
        "plugin pod": "hami-system/hami-device-plugin-gpu-1",
    }
    assert rows(report)["cpu-1"]["cards"] == ""


def test_cards_of_several_sizes_are_told_with_the_unit_of_each(tmp_path: Path) -> None:
    cards = [card("GPU-a", memory=81920), card("GPU-b", memory=15360), card("GPU-c", memory=15360)]
    report = ask(tmp_path, gpu_node("gpu-1", *cards), plugin("gpu-1"), all=True)
    assert rows(report)["gpu-1"]["memory"] == "15,360 MiB, 81,920 MiB"


def test_a_message_that_shows_six_columns_shows_the_problem_the_lock_and_the_handshake(tmp_path: Path) -> None:
    locked = gpu_node("gpu-1", annotations={LOCK: f"{ago(120)},ml,holder"})
    report = ask(tmp_path, locked, plugin("gpu-1"), OWNER, gpu_node("gpu-2", card(health=False)), plugin("gpu-2"))
    shown = rows(report)["gpu-1"]
    assert [*shown][:5] == ["node", "problems", "kubernetes", "lock", "handshake"]
    everything = ask(tmp_path / "all", locked, plugin("gpu-1"), OWNER, all=True)
    assert [*rows(everything)["gpu-1"]][:6] == ["node", "problems", "kubernetes", "cards", "type", "memory"]


def test_without_all_only_nodes_with_problems_have_rows(tmp_path: Path) -> None:
    sick = gpu_node("gpu-2", card(health=False))
    report = ask(tmp_path, *healthy("gpu-1"), sick, plugin("gpu-2"))
    assert list(rows(report)) == ["gpu-2"]
    assert only(report, "nodes-healthy").claim.startswith("1 of 2 GPU nodes shows no fault.")


def test_the_memory_scaling_of_a_card_whose_name_tells_no_size_is_the_one_that_is_set(tmp_path: Path) -> None:
    config = "nvidia: {deviceMemoryScaling: 1.5}\n"
    objects = [*scheduler("2.10.0", config=config), *healthy("gpu-1"), *healthy("gpu-2")]
    settings = {"nodeconfig": [{"name": "gpu-2", "devicememoryscaling": 2}]}
    objects.append(
        {
            "kind": "ConfigMap",
            "metadata": {"name": "hami-device-plugin", "namespace": HAMI},
            "data": {"config.json": json.dumps(settings)},
        }
    )
    table = rows(answer("nodes", record(tmp_path, objects), {}, all=True))
    assert [table[name]["scaling"] for name in ("gpu-1", "gpu-2")] == ["memory x1.5, cores x1", "memory x2, cores x1"]


# ------------------------------------------------------------------------------------------------------- locks

OWNER = pod("holder", {}, phase="Pending")


@pytest.mark.parametrize(
    ("lock", "owner", "version", "found", "severity"),
    [
        (f"{ago(10)},ml,holder", True, "2.10.0", [], "info"),
        (f"{ago(120)},ml,holder", True, "2.10.0", ["node-lock-held"], "warning"),
        (f"{ago(120)},ml,holder", False, "2.10.0", ["node-lock-dangling"], "info"),
        (f"{ago(120)},ml,holder", False, "2.5.1", ["node-lock-dangling"], "warning"),
        (f"{ago(900)},ml,holder", True, "2.10.0", ["node-lock-dangling"], "info"),
        (f"{ago(10)},ml", True, "2.10.0", ["node-lock-malformed"], "warning"),
        (ago(10), True, "2.10.0", ["node-lock-malformed"], "warning"),
        (ago(10), True, "2.5.1", [], "info"),
    ],
)
def test_a_lock_is_told_with_its_phase(
    tmp_path: Path, lock: str, *, owner: bool, version: str, found: list[str], severity: str
) -> None:
    one = gpu_node("gpu-1", text=version == "2.5.1", annotations={LOCK: lock})
    report = ask(tmp_path, one, plugin("gpu-1"), *([OWNER] if owner else ()), version=version)
    assert (faults(report), report.severity) == (found, severity)
    assert found == [] or lock in quotes(report)


def test_a_lock_shows_its_holder_age_and_the_holder_s_phase(tmp_path: Path) -> None:
    one = gpu_node("gpu-1", annotations={LOCK: f"{ago(120)},ml,holder"})
    report = ask(tmp_path, one, plugin("gpu-1"), OWNER)
    assert rows(report)["gpu-1"]["lock"] == "held by ml/holder (Pending), 2 min"


def test_cambricon_s_own_lock_expires_after_two_minutes(tmp_path: Path) -> None:
    def locked(seconds: float) -> Object:
        return node(
            "mlu-1", {"cambricon.com/dsmlu.lock": ago(seconds)}, allocatable={"cambricon.com/mlu.smlu.vcore": "400"}
        )

    assert faults(ask(tmp_path / "new", locked(100))) == ["node-lock-held"]
    report = ask(tmp_path / "old", locked(130))
    assert (faults(report), report.severity) == (["node-lock-dangling"], "info")


# ------------------------------------------------------------------------------------------------------- cards


def test_unhealthy_cards_are_counted_and_quoted(tmp_path: Path) -> None:
    sick = {key: value for key, value in card("GPU-b").items() if key != "health"}
    report = ask(tmp_path, gpu_node("gpu-1", card("GPU-a"), sick), plugin("gpu-1"))
    assert faults(report) == ["card-not-healthy"]
    assert cause(report).claim.startswith("1 GPU on gpu-1")
    assert quotes(report) == [json.dumps(sick)]
    look, restart = cause(report).next_actions
    assert ("Xid" in look.label, look.command) == (True, cause(report).evidence[0].command)
    assert restart.changes_cluster
    assert rows(report)["gpu-1"]["healthy"] == "1/2"


def test_cordoned_cards_are_told_and_a_cordon_in_vain_too(tmp_path: Path) -> None:
    one = gpu_node("gpu-1", annotations={"hami.io/device-cordon": "GPU-gpu-1, GPU-elsewhere"})
    report = ask(tmp_path / "new", one, plugin("gpu-1"))
    assert faults(report) == ["card-cordoned", "card-cordon-ignored"]
    assert quotes(report)[:2] == ["GPU-gpu-1, GPU-elsewhere"] * 2
    assert faults(ask(tmp_path / "old", one, plugin("gpu-1"), version="2.9.0")) == ["card-cordon-ignored"]


def test_a_cordoned_card_comes_with_how_to_uncordon_it_after_who_did(tmp_path: Path) -> None:
    cordon = "hami.io/device-cordon"
    report = ask(tmp_path / "one", gpu_node("gpu-1", annotations={cordon: "GPU-gpu-1"}), plugin("gpu-1"))
    who, undo = cause(report).next_actions
    assert "--show-managed-fields" in who.command
    assert (undo.command, undo.changes_cluster) == (f"kubectl annotate node gpu-1 {cordon}-", True)
    both = gpu_node("gpu-1", card("GPU-a"), card("GPU-b"), annotations={cordon: "GPU-a, GPU-b, GPU-c"})
    undo = cause(ask(tmp_path / "two", both, plugin("gpu-1"))).next_actions[-1]
    assert undo.command == f"kubectl annotate node gpu-1 --overwrite {cordon}=GPU-c"


def test_a_card_registered_on_two_nodes_is_one_finding(tmp_path: Path) -> None:
    nodes = [gpu_node(name, card("GPU-same"), card(f"GPU-{name}")) for name in ("gpu-1", "gpu-2")]
    report = ask(tmp_path, *nodes, *healthy("gpu-3"), plugin("gpu-1"), plugin("gpu-2"))
    assert faults(report) == ["duplicate-card-uuid"]
    assert cause(report).scope.nodes == ("gpu-1", "gpu-2")
    assert only(report, "nodes-healthy").claim.startswith("1 of 3 GPU nodes shows no fault.")
    assert faults(ask(tmp_path / "one", *nodes, plugin("gpu-1"), plugin("gpu-2"), node="gpu-1")) == [
        "duplicate-card-uuid"
    ]


def test_cards_that_other_vendors_number_on_each_node_are_no_duplicates(tmp_path: Path) -> None:
    nodes = [node(name, {"hami.io/node-dcu-register": "DCU-0,4,65536,100,DCU,0,true:"}) for name in ("a", "b")]
    assert faults(ask(tmp_path, *nodes)) == []


@pytest.mark.parametrize(
    ("offered", "cards", "found"),
    [
        ("20", [card("GPU-a"), card("GPU-b")], []),
        ("10", [card("GPU-a"), card("GPU-b")], ["allocatable-mismatch"]),
        ("30", [card("GPU-a"), card("GPU-b")], ["allocatable-mismatch"]),
        ("10", [card("GPU-a"), card("GPU-b", health=False)], ["card-not-healthy"]),
        ("7", [card("GPU-a", mode="mig"), card("GPU-b", mode="mig")], []),
        ("0", [card("GPU-a", mode="mig"), card("GPU-b", mode="mig")], ["allocatable-mismatch"]),
    ],
)
def test_slots_are_held_against_what_kubelet_offers(
    tmp_path: Path, offered: str, cards: list[Object], found: list[str]
) -> None:
    one = gpu_node("gpu-1", *cards, allocatable={"nvidia.com/gpu": offered})
    report = ask(tmp_path, one, plugin("gpu-1"))
    assert faults(report) == found
    assert not found or rows(report)["gpu-1"]["slots"] == f"20, kubelet offers {offered}"


def test_no_slots_at_kubelet_are_told_where_hami_still_counts_the_cards(tmp_path: Path) -> None:
    fresh = {HANDSHAKE: "Reported 2026-11-21 04:59:50.1 +0000 UTC m=+2.6"}
    one = gpu_node("gpu-1", text=True, annotations=fresh, allocatable={"nvidia.com/gpu": "0"})
    assert faults(ask(tmp_path, one, plugin("gpu-1"), version="2.7.1")) == ["allocatable-mismatch"]


# ----------------------------------------------------------------------------------------------- device plugin


@pytest.mark.parametrize(
    ("status", "found", "quote"),
    [
        (
            {"ready": False, "waiting": "CrashLoopBackOff", "restarts": 9},
            ["device-plugin-not-ready"],
            "CrashLoopBackOff",
        ),
        ({"restarts": 5, "ended": 300}, ["device-plugin-restarting"], "Error"),
        ({"restarts": 5, "ended": 90000}, [], ""),
        ({"restarts": 1, "ended": 300}, [], ""),
    ],
)
def test_the_device_plugin_s_state_is_judged(tmp_path: Path, status: Object, found: list[str], quote: str) -> None:
    report = ask(tmp_path, gpu_node("gpu-1"), plugin("gpu-1", **status))
    assert faults(report) == found
    assert found == [] or quotes(report) == [quote]


def test_a_missing_plugin_is_told_where_others_have_theirs(tmp_path: Path) -> None:
    report = ask(tmp_path, gpu_node("gpu-1"), *healthy("gpu-2"))
    assert faults(report) == ["device-plugin-missing"]
    assert cause(report).scope.nodes == ("gpu-1",)
    assert faults(ask(tmp_path / "one", gpu_node("gpu-1"), *healthy("gpu-2"), node="gpu-1")) == [
        "device-plugin-missing"
    ]


def test_where_no_plugin_carries_the_label_none_is_called_missing(tmp_path: Path) -> None:
    report = ask(tmp_path, gpu_node("gpu-1"))
    assert codes(report) == ["nodes-healthy"]
    assert [gap.source for gap in report.gaps] == ["device plugin pods"]


def test_pods_that_cannot_be_read_are_a_gap_and_everything_is_only_suspected(tmp_path: Path) -> None:
    one = gpu_node("gpu-1", annotations={LOCK: f"{ago(120)},ml,gone"})
    report = ask(tmp_path, one, missing=["pods"])
    assert faults(report) == ["node-lock-held"]
    assert {finding.confidence for finding in report.findings} == {"suspected"}
    assert {gap.source for gap in report.gaps} >= {"device plugin pods", "lock owner"}


# ------------------------------------------------------------------------------------------------- Kubernetes


def test_a_node_that_is_not_ready_explains_its_dead_plugin(tmp_path: Path) -> None:
    down = gpu_node("gpu-1", text=True, annotations={HANDSHAKE: "Requesting_2026-11-21 04:50:00"})
    down["status"]["conditions"] = [{"type": "Ready", "status": "Unknown", "lastHeartbeatTime": ago(600)}]
    report = ask(tmp_path, down, plugin("gpu-1", ready=False), version="2.7.1")
    assert (faults(report), quotes(report)) == (["node-not-ready"], ["Unknown"])


@pytest.mark.parametrize(
    ("fields", "found", "severity"),
    [
        ({"unschedulable": True}, ["node-cordoned"], "info"),
        (
            {"taints": [{"key": "node.kubernetes.io/disk-pressure", "effect": "NoSchedule"}]},
            ["node-pressure"],
            "warning",
        ),
        ({"taints": [{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}]}, ["node-not-ready"], "warning"),
        ({"taints": [{"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}]}, [], "info"),
    ],
)
def test_what_kubernetes_says_of_a_gpu_node(tmp_path: Path, fields: Object, found: list[str], severity: str) -> None:
    report = ask(tmp_path, *healthy(**fields), all=True)
    assert (faults(report), report.severity) == (found, severity)
    assert rows(report)["gpu-1"]["kubernetes"] != "ready"


def test_a_cpu_node_s_troubles_are_none_of_hami_s(tmp_path: Path) -> None:
    down = node("cpu-1", unschedulable=True)
    down["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    assert faults(ask(tmp_path, down, *healthy())) == []


# ------------------------------------------------------------------------------------------------ the question


def test_one_node_is_shown_with_everything_about_it(tmp_path: Path) -> None:
    stamp = "Requesting_2026-10-21 04:50:00"
    one = gpu_node("gpu-1", card("GPU-a", index=1), card("GPU-b", health=False), annotations={HANDSHAKE: stamp})
    report = ask(tmp_path, one, plugin("gpu-1"), gpu_node("gpu-2", card(health=False)), node="gpu-1")
    assert (report.subject.kind, report.subject.name) == ("Node", "gpu-1")
    assert faults(report) == ["card-not-healthy"]
    assert cause(report).scope.nodes == ("gpu-1",)
    assert about(report)[HANDSHAKE] == stamp
    assert about(report)["problems"] == "card-not-healthy"
    assert list(rows(report, "cards")) == ["GPU-b", "GPU-a"]


def test_a_node_without_cards_is_no_fault(tmp_path: Path) -> None:
    report = ask(tmp_path, node("cpu-1"), *healthy(), node="cpu-1")
    assert (codes(report), report.severity) == (["nodes-healthy"], "info")


def test_where_no_node_has_gpus_the_installation_is_looked_at(tmp_path: Path) -> None:
    report = ask(tmp_path, node("cpu-1"))
    assert (codes(report), commands(report)) == (["not-found"], ["status"])


def test_an_unknown_node_is_answered_with_near_names(tmp_path: Path) -> None:
    report = ask(tmp_path, *healthy("gpu-node-01"), node="gpu-node-1")
    assert codes(report) == ["not-found"]
    assert commands(report) == ["nodes gpu-node-01"]


def test_the_end_of_a_nodes_name_is_enough_to_be_offered_it(tmp_path: Path) -> None:
    report = ask(tmp_path, *healthy("gpu-node-01"), *healthy("gpu-node-16"), node="16")
    assert commands(report) == ["nodes gpu-node-16"]


def test_a_node_that_nothing_is_called_like_leads_to_all_of_them(tmp_path: Path) -> None:
    assert commands(ask(tmp_path, *healthy("gpu-node-01"), node="zzz")) == ["nodes --all"]


def test_a_verdict_about_many_problems_counts_their_nodes_by_kind(tmp_path: Path) -> None:
    twice = card("GPU-twice")
    report = ask(
        tmp_path,
        *(gpu_node(name, twice) for name in ("gpu-1", "gpu-2")),
        gpu_node("gpu-3", allocatable={"nvidia.com/gpu": "5"}),
        gpu_node("gpu-4", annotations={LOCK: "?"}),
        gpu_node("gpu-5", text=True),
        gpu_node("gpu-6", card(health=False)),
        *(plugin(f"gpu-{at}") for at in range(1, 7)),
        gpu_node("gpu-7"),
        gpu_node("gpu-8", annotations={"hami.io/device-cordon": "GPU-gpu-8"}),
    )
    kinds = "1 not registered, 2 whose device plugin fails, 3 with other faults, 1 locked"
    assert report.verdict == f"8 of 8 GPU nodes have problems: {kinds}, 2 more kinds of fault."
    shown = terminal(report, Texts("en"), width=100, colour=False, whole=False)
    assert f"{kinds}, 1 with unhealthy GPUs, 1 cordoned." in " ".join(shown.split())


def test_the_worst_comes_first_and_the_verdict_counts_the_rest(tmp_path: Path) -> None:
    cordoned = gpu_node("gpu-1", unschedulable=True)
    sick = gpu_node("gpu-2", card("GPU-s", health=False))
    lost = node("gpu-3", labels={"gpu": "on"})
    report = ask(tmp_path, cordoned, sick, lost, *map(plugin, ("gpu-1", "gpu-2", "gpu-3")))
    assert codes(report) == ["node-unregistered", "card-not-healthy", "node-cordoned"]
    assert report.verdict == "2 of 3 GPU nodes have problems: 1 not registered, 1 with unhealthy GPUs."
    assert list(rows(report)) == ["gpu-3", "gpu-2", "gpu-1"]
