"""Obstacles that stand one behind the other: HAMi names the first, and without it the pod would not run either."""

from pathlib import Path

import pytest

from tests.playbooks.world import (
    Object,
    answer,
    ask,
    card,
    cluster,
    codes,
    gpu,
    gpu_node,
    node,
    none_of,
    pod,
    quota,
    record,
    refused,
    running,
)

FULL = running("big", "gpu-1", ("GPU-0", 14000, 0))
QUOTA = quota(gpumem=15000)
LARGE = pod(limits=gpu(memory=4000))


def test_a_quota_in_front_of_full_cards_is_told_with_the_cards_behind_it(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(gpu_node("gpu-1", card("GPU-0")), QUOTA, FULL, LARGE))
    assert codes(report) == ["resource-quota-not-fit", "card-insufficient-memory"]
    assert [finding.severity for finding in report.findings] == ["warning", "info"]


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
    assert [(finding.code, len(finding.scope.nodes)) for finding in report.findings] == [
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


THREE = "1 1/1 ResourceQuotaNotFit, 2 node(s) didn't match Pod's node affinity/selector"


def three_obstacles() -> list[Object]:
    """The selector leaves a GPU of 15 GiB, the pod asks for 30, and its namespace's quota is exceeded."""
    small = gpu_node("gpu-1", card("GPU-0", memory=15360), labels={"pool": "small"})
    large = [gpu_node(name, card(f"GPU-{name}", memory=81920)) for name in ("gpu-2", "gpu-3")]
    asked = pod(limits=gpu(memory=30720), nodeSelector={"pool": "small"}, said=refused(none_of(3, THREE)))
    return cluster(small, *large, quota(gpumem=15000), running("big", "gpu-1", ("GPU-0", 14000, 0)), asked)


def test_where_no_single_change_helps_what_hami_names_comes_before_the_pod_s_own_selector(tmp_path: Path) -> None:
    for verb in ("why", "pending"):
        report = ask(tmp_path, three_obstacles()) if verb == "why" else answer(verb, tmp_path, {})
        assert codes(report)[0] == "resource-quota-not-fit"
        assert report.severity == "warning"
    assert set(codes(ask(tmp_path, three_obstacles()))) >= {"card-insufficient-memory", "kubernetes-filter"}


def test_where_no_single_change_helps_the_answer_says_so(tmp_path: Path) -> None:
    claim = ask(tmp_path, three_obstacles()).findings[0].claim
    assert claim.endswith("One change is not enough. Also in the way: kubernetes-filter, card-insufficient-memory.")


def test_where_one_change_helps_nothing_of_the_kind_is_said(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(gpu_node("gpu-1", card("GPU-0")), FULL, LARGE))
    assert "One change" not in report.findings[0].claim


@pytest.mark.parametrize("said", [None, refused(none_of(1, "1 node(s) didn't match Pod's node affinity/selector"))])
def test_a_quota_that_forbids_every_node_comes_before_a_selector_that_leaves_none(
    tmp_path: Path, said: Object | None
) -> None:
    """kube-scheduler never asked HAMi; without the selector the pod would wait for the quota all the same."""
    one = pod(limits=gpu(memory=30720), nodeSelector={"pool": "none"}, said=said)
    objects = cluster(gpu_node("gpu-1", card("GPU-0", memory=81920)), quota(gpumem=15000), one)
    report = ask(tmp_path, objects)
    assert codes(report) == ["resource-quota-not-fit", "kubernetes-filter"]
    assert report.findings[0].claim.endswith("One change is not enough. Also in the way: kubernetes-filter.")
    assert codes(answer("pending", record(tmp_path, objects), {}))[0] == "resource-quota-not-fit"


def test_a_quota_with_room_leaves_the_selector_first(tmp_path: Path) -> None:
    one = pod(limits=gpu(memory=10000), nodeSelector={"pool": "none"})
    objects = cluster(gpu_node("gpu-1", card("GPU-0", memory=81920)), quota(gpumem=15000), one)
    assert codes(ask(tmp_path, objects)) == ["kubernetes-filter"]


def test_what_kube_scheduler_names_comes_before_what_hami_was_never_asked(tmp_path: Path) -> None:
    """The selector leaves no node, and the GPU is full as well."""
    one = pod(limits=gpu(memory=4000), nodeSelector={"pool": "none"})
    assert codes(ask(tmp_path, cluster(gpu_node("gpu-1", card("GPU-0")), FULL, one)))[0] == "kubernetes-filter"
