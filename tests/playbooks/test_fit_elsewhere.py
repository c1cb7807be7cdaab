"""`fit` where HAMi would give cards and Kubernetes drops those nodes: each way out that is told lets the pod in."""

import copy
import json
from pathlib import Path

import pytest

from bot.report import Report
from tests.playbooks.world import Object, cause, cluster, codes, container, fit, gpu, gpu_node, pod, quotes, running

TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
ILL = {"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}
POOL = {"labels": {"pool": "a100"}}
AFFINITY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "pool", "operator": "In", "values": ["t4"]}]}]
        }
    }
}


def ask(tmp_path: Path, objects: list[Object], wanted: Object) -> Report:
    return fit(tmp_path, objects, json.dumps(wanted))


def labels(report: Report) -> list[str]:
    return [action.label for action in cause(report).next_actions]


def with_spec(wanted: Object, **fields: object) -> Object:
    changed = copy.deepcopy(wanted)
    changed["spec"] |= fields
    return changed


@pytest.mark.parametrize(
    ("spec", "told", "loosened", "quote"),
    [
        (
            {"nodeSelector": {"pool": "t4"}},
            "Remove pool=t4 from the nodeSelector, if the pod may run elsewhere (gpu-1 would take the pod now)",
            {"nodeSelector": None},
            "t4",
        ),
        (
            {"affinity": AFFINITY},
            "Remove the required nodeAffinity pool In t4 (gpu-1 would take the pod now)",
            {"affinity": None},
            "GPU-gpu-1",
        ),
        (
            {"tolerations": [{"key": "other", "operator": "Exists"}]},
            "Let the pod tolerate the taint nvidia.com/gpu: gpu-2 would take the pod now",
            {"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}]},
            "nvidia.com/gpu",
        ),
    ],
)
def test_what_would_let_the_pod_to_the_cards_is_told_and_lets_it(
    tmp_path: Path, spec: Object, told: str, loosened: Object, quote: str
) -> None:
    tainted = told.startswith("Let the pod tolerate")
    one = gpu_node("gpu-2", taints=[TAINT]) if tainted else gpu_node("gpu-1", **POOL)
    wanted = with_spec(pod(), **spec)
    report = ask(tmp_path / "as-asked", cluster(one), wanted)
    assert codes(report) == ["kubernetes-filter"]
    assert labels(report) == [told]
    assert quote in " ".join(quotes(report))
    assert codes(ask(tmp_path / "loosened", cluster(one), with_spec(wanted, **loosened))) == ["fits"]


def test_all_of_the_selection_that_has_to_go_is_named(tmp_path: Path) -> None:
    wanted = with_spec(pod(), nodeSelector={"pool": "t4", "zone": "b"}, affinity=AFFINITY)
    one = gpu_node("gpu-1", labels={"pool": "a100", "zone": "b"})
    [told] = labels(ask(tmp_path / "fit", cluster(one), wanted))
    assert told.startswith("Remove pool=t4, nodeAffinity from the nodeSelector, ")
    assert codes(ask(tmp_path / "loosened", cluster(one), with_spec(pod(), nodeSelector={"zone": "b"}))) == ["fits"]


def test_of_several_loosenings_the_one_that_leaves_most_of_the_selection_is_told(tmp_path: Path) -> None:
    wanted = with_spec(pod(), nodeSelector={"pool": "t4", "zone": "b"})
    nodes = [gpu_node("gpu-1", labels={"zone": "a"}), gpu_node("gpu-2", labels={"zone": "b"})]
    report = ask(tmp_path, cluster(*nodes), wanted)
    assert labels(report) == [
        "Remove pool=t4 from the nodeSelector, if the pod may run elsewhere (gpu-2 would take the pod now)"
    ]


def test_a_way_that_meets_another_obstacle_is_not_told(tmp_path: Path) -> None:
    objects = cluster(gpu_node("gpu-1", taints=[TAINT], **POOL), gpu_node("gpu-2", taints=[TAINT, ILL]))
    report = ask(tmp_path, objects, with_spec(pod(), nodeSelector={"pool": "a100"}))
    assert labels(report) == ["Let the pod tolerate the taint nvidia.com/gpu: gpu-1 would take the pod now"]


def test_nobody_is_told_to_tolerate_that_a_node_is_ill(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(gpu_node("gpu-1", taints=[ILL])), pod())
    assert codes(report) == ["kubernetes-filter"]
    assert [label for label in labels(report) if "tolera" in label] == []


def test_the_smallest_change_for_the_nodes_that_the_pod_may_go_to_is_told_too(tmp_path: Path) -> None:
    objects = cluster(
        gpu_node("gpu-1", **POOL),
        gpu_node("gpu-2", labels={"pool": "t4"}),
        running("holder", "gpu-2", ("GPU-gpu-2", 10000, 0)),
    )
    report = ask(tmp_path, objects, with_spec(pod(limits=gpu(memory=9000)), nodeSelector={"pool": "t4"}))
    assert codes(report) == ["kubernetes-filter"]
    assert labels(report) == [
        "Remove pool=t4 from the nodeSelector, if the pod may run elsewhere (gpu-1 would take the pod now)",
        "Request at most 6,384 MiB per GPU (gpu-2 would take the pod)",
        (
            "Wait for ml/holder to finish (gpu-2 would then take this pod), or, if its users can spare it, "
            "delete it: nothing owns it, so nothing starts it again"
        ),
    ]
    assert "GPU-gpu-2,NVIDIA,10000,0:;" in quotes(report)
    (table,) = [table for table in report.tables if table.title == "pods to end"]
    assert [row[table.columns.index("pods to end")] for row in table.rows] == ["ml/holder"]


def test_several_obstacles_are_counted_and_a_long_claim_leaves_a_whole_verdict(tmp_path: Path) -> None:
    nodes = [gpu_node(f"gpu-node-with-a-long-name-{at}", taints=[TAINT]) for at in range(2)]
    small = gpu_node("gpu-small", allocatable={"nvidia.com/gpu": "10", "cpu": "1"})
    asks = container(gpu() | {"cpu": "4"})
    report = ask(tmp_path, cluster(*nodes, small), with_spec(pod(), containers=[asks]))
    assert cause(report).claim.endswith("1 Insufficient cpu (the pod requests 4, these nodes have at most 1).")
    assert report.verdict == (
        "HAMi would give wl GPUs on 3 nodes, but Kubernetes drops them: "
        "2 node(s) had untolerated taint(s) (nvidia.com/gpu); 1 Insufficient cpu."
    )


def test_what_other_pods_take_of_a_node_s_cpu_is_not_known_and_that_is_said(tmp_path: Path) -> None:
    asks = container(gpu() | {"cpu": "4", "memory": "8Gi"})
    report = ask(tmp_path / "cpu", cluster(gpu_node()), with_spec(pod(), containers=[asks]))
    assert (codes(report), cause(report).confidence) == (["fits"], "suspected")
    assert [gap.source for gap in report.gaps] == ["free cpu, memory"]
    alone = ask(tmp_path / "cards-alone", cluster(gpu_node()), pod())
    assert (codes(alone), cause(alone).confidence, alone.gaps) == (["fits"], "confirmed", ())
