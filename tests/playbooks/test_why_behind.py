"""Obstacles that stand one behind the other: HAMi names the first, and without it the pod would not run either."""

from pathlib import Path

from tests.playbooks.world import answer, ask, card, cluster, codes, gpu, gpu_node, node, pod, quota, record, running

FULL = running("big", "gpu-1", ("GPU-0", 14000, 0))
QUOTA = quota(gpumem=15000)
LARGE = pod(limits=gpu(memory=4000))


def test_a_quota_in_front_of_full_cards_is_told_with_the_cards_behind_it(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(gpu_node("gpu-1", card("GPU-0")), QUOTA, FULL, LARGE))
    assert codes(report) == ["resource-quota-not-fit", "card-insufficient-memory"]
    assert [one.severity for one in report.findings] == ["warning", "info"]


def test_cordoned_cards_that_are_full_are_told_as_both(tmp_path: Path) -> None:
    cordoned = gpu_node("gpu-1", card("GPU-0"), annotations={"hami.io/device-cordon": "GPU-0"})
    report = ask(tmp_path, cluster(cordoned, FULL, LARGE))
    assert codes(report) == ["card-cordoned", "card-insufficient-memory"]
    assert report.severity == "warning"


def test_a_node_that_kubernetes_drops_and_that_is_full_is_a_warning_too(tmp_path: Path) -> None:
    taint = {"key": "team", "value": "ml", "effect": "NoSchedule"}
    report = ask(tmp_path, cluster(gpu_node("gpu-1", card("GPU-0"), taints=[taint]), node("cpu-1"), FULL, LARGE))
    assert report.severity == "warning"


def test_all_nodes_where_something_stands_behind_are_named(tmp_path: Path) -> None:
    names = [f"gpu-{at:02}" for at in range(30)]
    nodes = [gpu_node(name, card(f"GPU-{name}")) for name in names]
    full = [running(f"big-{name}", name, (f"GPU-{name}", 14000, 0)) for name in names]
    report = ask(tmp_path, cluster(*nodes, *full, QUOTA, LARGE))
    assert [(one.code, len(one.scope.nodes)) for one in report.findings] == [
        ("resource-quota-not-fit", 30),
        ("card-insufficient-memory", 30),
    ]


def test_an_obstacle_that_hides_nothing_is_told_alone(tmp_path: Path) -> None:
    small = pod(limits=gpu(memory=2000))
    report = ask(tmp_path, cluster(gpu_node("gpu-1", card("GPU-0")), QUOTA, FULL, small))
    assert codes(report) == ["resource-quota-not-fit"]


def test_pending_says_the_same(tmp_path: Path) -> None:
    objects = cluster(gpu_node("gpu-1", card("GPU-0")), QUOTA, FULL, LARGE)
    report = answer("pending", record(tmp_path, objects), {})
    assert (codes(report), report.severity) == (["resource-quota-not-fit"], "warning")
