"""Nodes that kube-scheduler drops before HAMi is asked: every family of filter, in every version's words."""

from pathlib import Path

import pytest

from tests.playbooks.world import (
    Object,
    ask,
    cause,
    cluster,
    codes,
    commands,
    event,
    gpu,
    gpu_node,
    node,
    none_of,
    pod,
    quotes,
    refused,
    running,
)

INFRA = {"key": "dedicated", "value": "infra", "effect": "NoSchedule"}


def dropped(tmp_path: Path, reasons: str, *nodes: Object, **fields: Object) -> str:
    """The verdict on a pod that kube-scheduler refused with these reasons, after checks that hold for all."""
    report = ask(tmp_path, cluster(*nodes, pod(said=refused(none_of(len(nodes), reasons)), **fields)))
    assert codes(report)[0] == "kubernetes-filter"
    assert report.severity == "warning"
    return report.verdict


@pytest.mark.parametrize(
    "words",
    [
        "node(s) had taint {dedicated: infra}, that the pod didn't tolerate",
        "node(s) had untolerated taint {dedicated: infra}",
    ],
)
def test_a_taint_is_told_in_the_words_of_the_kube_scheduler_that_dropped_the_node(tmp_path: Path, words: str) -> None:
    verdict = dropped(tmp_path, f"1 {words}", gpu_node(taints=[INFRA]))
    assert words in verdict
    assert "HAMi would take the pod on gpu-1" in verdict


def test_a_taint_that_newer_kube_schedulers_do_not_name_is_named(tmp_path: Path) -> None:
    assert "untolerated taint(s) (dedicated)" in dropped(
        tmp_path, "1 node(s) had untolerated taint(s)", gpu_node(taints=[INFRA])
    )


def test_a_taint_that_is_called_as_a_resource_is_quoted_and_not_what_kubelet_offers_of_it(tmp_path: Path) -> None:
    taint = {"key": "nvidia.com/gpu", "effect": "NoSchedule"}
    waits = pod(said=refused(none_of(1, "1 node(s) had untolerated taint(s)")))
    told = cause(ask(tmp_path, cluster(gpu_node(taints=[taint]), waits)))
    (proof,) = [proof for proof in told.evidence if proof.object == "Node gpu-1"]
    assert (proof.quote, "taints" in proof.command) == ("nvidia.com/gpu", True)


def test_of_several_taints_the_one_that_costs_a_node_with_room_is_told(tmp_path: Path) -> None:
    control_plane = node("cp-1", taints=[{"key": "cp", "effect": "NoSchedule"}])
    reasons = "1 node(s) had untolerated taint {cp: }, 1 node(s) had untolerated taint {dedicated: infra}"
    verdict = dropped(tmp_path, reasons, control_plane, gpu_node(taints=[INFRA]))
    assert "{dedicated: infra}; …" in verdict
    assert "HAMi would take the pod on gpu-1" in verdict


def test_a_tolerated_taint_drops_nothing(tmp_path: Path) -> None:
    tolerates = [{"key": "dedicated", "operator": "Exists"}]
    report = ask(tmp_path, cluster(gpu_node(taints=[INFRA]), pod(tolerations=tolerates)))
    assert codes(report) == ["waiting-for-retry"]


def test_a_cordoned_node_is_told(tmp_path: Path) -> None:
    assert "were unschedulable" in dropped(tmp_path, "1 node(s) were unschedulable", gpu_node(unschedulable=True))


def test_a_node_that_is_not_ready_is_told_with_what_kubelet_says_and_before_other_taints(tmp_path: Path) -> None:
    words = "container runtime network not ready: cni plugin not initialized"
    sick = gpu_node("gpu-1", taints=[{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}])
    sick["status"]["conditions"] = [{"type": "Ready", "status": "False", "reason": "KubeletNotReady", "message": words}]
    said = "1 node(s) had untolerated taint {node.kubernetes.io/not-ready: }, 1 node(s) had untolerated taint {a: }"
    other = node("cp-2", taints=[{"key": "a", "effect": "NoSchedule"}])
    report = ask(tmp_path, cluster(sick, other, pod(said=refused(none_of(2, said)))))
    first, others = report.findings
    assert (first.code, first.scope.nodes, first.confidence) == ("kubernetes-filter", ("gpu-1",), "confirmed")
    assert first.claim.startswith("Kubernetes itself rules out gpu-1: not ready")
    assert first.claim.endswith("HAMi would take the pod on gpu-1.")
    assert words in [proof.quote for proof in first.evidence]
    assert (others.scope.nodes, others.severity) == (("cp-2",), "info")


def test_pressure_is_told_and_a_cordon_with_how_to_undo_it(tmp_path: Path) -> None:
    full = gpu_node(taints=[{"key": "node.kubernetes.io/disk-pressure", "effect": "NoSchedule"}])
    verdict = dropped(tmp_path / "a", "1 node(s) had untolerated taint {node.kubernetes.io/disk-pressure: }", full)
    assert "kubelet reports pressure (node.kubernetes.io/disk-pressure)" in verdict
    said = refused(none_of(1, "1 node(s) were unschedulable"))
    report = ask(tmp_path / "b", cluster(gpu_node(unschedulable=True), pod(said=said)))
    assert commands(report) == ["kubectl describe node gpu-1", "kubectl uncordon gpu-1"]


def test_a_node_selector_that_nothing_matches_is_told_by_its_label(tmp_path: Path) -> None:
    reasons = "1 node(s) didn't match Pod's node affinity/selector"
    assert "(pool)" in dropped(tmp_path, reasons, gpu_node(), nodeSelector={"pool": "a100"})


def test_a_required_node_affinity_is_told(tmp_path: Path) -> None:
    terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    reasons = "1 node(s) didn't match Pod's node affinity/selector"
    assert "node affinity/selector" in dropped(tmp_path, reasons, gpu_node(), affinity=affinity)


def test_a_pod_larger_than_the_node_is_told_from_the_node_itself(tmp_path: Path) -> None:
    waiting = pod(limits=gpu(memory=1000) | {"cpu": "500"}, said=refused(none_of(1, "1 Insufficient cpu")))
    report = ask(tmp_path, cluster(gpu_node(), waiting))
    assert codes(report) == ["kubernetes-filter"]
    assert cause(report).scope.nodes == ("gpu-1",)
    assert "64" in quotes(report)


@pytest.mark.parametrize(
    "reason",
    [
        "Insufficient cpu",
        "Insufficient memory",
        "Too many pods",
        "node(s) had volume node affinity conflict",
        "node(s) exceed max volume count",
        "node(s) didn't find available persistent volumes to bind",
        "node(s) didn't have free ports for the requested pod ports",
        "node(s) didn't match pod anti-affinity rules",
        "node(s) didn't match pod affinity rules",
        "node(s) didn't match pod topology spread constraints",
    ],
)
def test_what_only_the_scheduler_can_know_is_taken_from_its_words(tmp_path: Path, reason: str) -> None:
    verdict = dropped(tmp_path, f"1 {reason}", gpu_node())
    assert reason in verdict
    assert "HAMi would take the pod on gpu-1" in verdict


@pytest.mark.parametrize(
    "reason",
    ["pod has unbound immediate PersistentVolumeClaims", 'persistentvolumeclaim "data" not found'],
)
def test_a_reason_without_a_count_holds_for_every_node(tmp_path: Path, reason: str) -> None:
    message = f"0/2 nodes are available: {reason}. preemption: 0/2 nodes are available: 2 Preemption is not helpful."
    report = ask(tmp_path, cluster(gpu_node("gpu-1"), gpu_node("gpu-2"), pod(said=refused(message))))
    assert codes(report) == ["kubernetes-filter"]
    assert reason in report.verdict


def test_a_node_with_room_that_is_out_of_cpu_explains_the_pod_beside_full_ones(tmp_path: Path) -> None:
    held = running("holder", "gpu-2", ("GPU-gpu-2", 16000, 0))
    said = refused(none_of(2, "1 1/1 CardInsufficientMemory, 1 Insufficient cpu"))
    report = ask(tmp_path, cluster(gpu_node("gpu-1"), gpu_node("gpu-2"), held, pod(said=said)))
    assert codes(report) == ["kubernetes-filter"]
    assert "HAMi would take the pod on gpu-1" in report.verdict


def test_a_dropped_node_that_hami_would_not_take_either_is_background(tmp_path: Path) -> None:
    held = running("holder", "gpu-1", ("GPU-gpu-1", 16000, 0)), running("other", "gpu-2", ("GPU-gpu-2", 16000, 0))
    said = refused(none_of(2, "1 1/1 CardInsufficientMemory, 1 node(s) had untolerated taint {dedicated: infra}"))
    nodes = gpu_node("gpu-1"), gpu_node("gpu-2", taints=[INFRA])
    report = ask(tmp_path, cluster(*nodes, *held, pod(said=said)))
    assert codes(report) == ["card-insufficient-memory", "kubernetes-filter"]
    assert report.findings[1].severity == "info"
    assert "HAMi would" not in report.findings[1].claim


def test_without_events_and_condition_an_obstacle_on_the_only_node_is_suspected(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(gpu_node(taints=[INFRA]), pod()), missing=["events"])
    assert (codes(report), cause(report).confidence) == (["kubernetes-filter"], "suspected")
    assert "(dedicated)" in report.verdict


def test_an_event_stands_in_where_the_pod_has_no_condition(tmp_path: Path) -> None:
    waiting = pod()
    told = event(waiting, "FailedScheduling", none_of(1, "1 Insufficient cpu"))
    report = ask(tmp_path, cluster(gpu_node(), waiting, told))
    assert (codes(report), cause(report).confidence) == (["kubernetes-filter"], "confirmed")


def test_lost_nodes_that_do_not_account_for_the_room_do_not_explain_the_pod(tmp_path: Path) -> None:
    nodes = gpu_node("gpu-1"), gpu_node("gpu-2"), node("cpu-1")
    said = refused(none_of(3, "1 Insufficient cpu, 1 node unregistered"))
    report = ask(tmp_path, cluster(*nodes, pod(said=said)))
    assert codes(report) == ["waiting-for-retry"]


def test_a_holder_that_does_not_go_is_not_waited_for_but_looked_at(tmp_path: Path) -> None:
    holder = running("holder", "gpu-1", ("GPU-gpu-1", 16000, 0))
    holder["metadata"] |= {"deletionTimestamp": "2026-11-21T04:20:00Z", "finalizers": ["acme.example/cleanup"]}
    waits = pod(limits=gpu(memory=8000), said=refused(none_of(1, "1 1/1 CardInsufficientMemory")))
    [step] = [
        step
        for step in cause(ask(tmp_path, cluster(gpu_node(), holder, waits))).next_actions
        if "ml/holder" in step.label
    ]
    assert step.label.startswith("ml/holder has been terminating since 2026-11-21T04:20:00Z: check its finalizers")
    assert step.command == "kubectl -n ml get pod holder -o yaml"
