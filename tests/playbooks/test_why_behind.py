"""Obstacles that stand one behind the other: HAMi names the first, and without it the pod would not run either."""

import asyncio
import json
from pathlib import Path

import pytest

from bot.hami.pods.request_parsing import DeviceConfig, read_device_config
from bot.kube.models import NODES as GPU_NODES
from bot.kube.recording.recorded_cluster import RecordedCluster
from bot.report import Report
from bot.texts import Texts
from playbooks.gather.nodes_in_question import gather_nodes_in_question
from playbooks.own.discovery import find
from playbooks.playbook import Sources
from sandbox.apiserver import ApiServer
from tests.kube.live_servers import reached
from tests.playbooks.inside_support import looping, placed
from tests.playbooks.node_side_support import NONE_HEALTHY, counted, crashing, plugin, refused_pod
from tests.playbooks.world import (
    Object,
    answer,
    ask,
    bind_error,
    card,
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
    quota,
    quotes,
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


def test_a_taint_is_answered_by_the_toleration_that_lets_the_pod_there_beside_those_that_it_has(tmp_path: Path) -> None:
    taint = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
    has = [{"key": "team", "operator": "Exists"}, {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}]
    waits = pod(said=refused(none_of(1, "1 node(s) had untolerated taint(s)")), tolerations=has)
    waits["metadata"]["ownerReferences"] = [{"kind": "StatefulSet", "name": "trainer", "controller": True}]
    first = cause(ask(tmp_path, cluster(gpu_node(taints=[taint]), waits))).next_actions[0]
    assert "Tolerate nvidia.com/gpu=present:NoSchedule" in first.label
    patched = json.loads(first.command.partition("-p '")[2].rstrip("'"))["spec"]["template"]["spec"]["tolerations"]
    assert patched == [has[0], {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]
    assert first.changes_cluster


@pytest.mark.parametrize("key", ["node.kubernetes.io/unreachable", "node.kubernetes.io/disk-pressure"])
def test_a_taint_by_which_kubernetes_calls_a_node_unwell_is_not_to_be_tolerated(tmp_path: Path, key: str) -> None:
    waits = pod(said=refused(none_of(1, "1 node(s) had untolerated taint(s)")))
    report = ask(tmp_path, cluster(gpu_node(taints=[{"key": key, "effect": "NoSchedule"}]), waits))
    assert not any("Tolerate" in step.label for finding in report.findings for step in finding.next_actions)


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
    assert "were unschedulable" in report.verdict
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


LOG_BYTES = 2 * 1024 * 1024
NODES = [f"gpu-{number}" for number in range(12)]
SICK = [counted(name, capacity=20, allocatable=0) for name in NODES]
CRASHING = [plugin(name, device=crashing()) for name in NODES]


def ask_live(tmp_path: Path, subject: Object, *objects: Object) -> tuple[Report, list[str], list[int]]:
    """The report on the pod, the device plugins' pods whose logs were read, and the bytes asked of each."""
    recording = record(tmp_path, cluster(subject, *objects))
    playbook = find("why")

    async def ask() -> tuple[Report, list[str], list[int]]:
        server = ApiServer.from_recording(recording)
        async with reached(server, tmp_path) as live:
            snapshot = await playbook.gather(playbook.request(pod="ml/wl"), Sources(live))
        asked = [request for request in server.requests if request.path.endswith("/log")]
        logs = [log for log in asked if "device-plugin" in log.path]
        names = sorted({log.path.split("/")[-2] for log in logs})
        return playbook.report(snapshot, Texts("en")), names, [int(log.query["limitBytes"]) for log in logs]

    return asyncio.run(ask())


@pytest.mark.parametrize(("verb", "words"), [("why", {"pod": "ml/wl"}), ("pending", {}), ("status", {})])
async def test_the_scheduler_s_log_is_read_once_for_a_question(tmp_path: Path, verb: str, words: Object) -> None:
    waits = pod(said=bind_error("bind failed: EOF", 18))
    refused_too = pod("other", said=refused(none_of(1, "1 CardInsufficientMemory")))
    recording = record(tmp_path, cluster(gpu_node(), waits, refused_too))
    playbook, server = find(verb), ApiServer.from_recording(recording)
    async with reached(server, tmp_path) as live:
        await playbook.gather(playbook.request(**words), Sources(live))
    logs = [request.path for request in server.requests if request.path.endswith("/log")]
    assert len([path for path in logs if "scheduler" in path]) == 1


@pytest.mark.parametrize("answer", ["12 node unregistered", "12 CardInsufficientMemory"])
def test_of_many_sick_nodes_three_device_plugins_are_read(tmp_path: Path, answer: str) -> None:
    waits = pod(said=refused(none_of(12, answer)))
    _, plugins, asked = ask_live(tmp_path, waits, *SICK, *CRASHING)
    assert len(plugins) == 3
    assert max(asked) <= LOG_BYTES


def renamed(name: str, offered: int) -> Object:
    """A node of a cluster whose device config calls the GPUs example.com/gpu."""
    one = counted(name, capacity=20, allocatable=offered)
    for amounts in (one["status"]["capacity"], one["status"]["allocatable"]):
        amounts["example.com/gpu"] = amounts.pop("nvidia.com/gpu")
    return one


async def test_a_node_that_offers_gpus_under_another_name_is_not_in_question(tmp_path: Path) -> None:
    there = RecordedCluster.open(record(tmp_path, [renamed(name, 0 if name == "gpu-9" else 20) for name in NODES]))
    config = read_device_config("nvidia:\n  resourceCountName: example.com/gpu\n")
    assert isinstance(config, DeviceConfig)
    assert list((await gather_nodes_in_question(there, None, await there.list(GPU_NODES), config)).sides) == ["gpu-9"]


def test_of_a_refused_pod_the_device_plugin_of_its_node_is_read(tmp_path: Path) -> None:
    _, plugins, asked = ask_live(tmp_path, refused_pod(NONE_HEALTHY), *SICK, *CRASHING)
    assert plugins == ["hami-device-plugin-gpu-1"]
    assert max(asked) <= LOG_BYTES


def test_of_a_container_that_started_no_device_plugin_is_read(tmp_path: Path) -> None:
    report, plugins, _ = ask_live(tmp_path, placed(looping(1)), *SICK, *CRASHING)
    assert (codes(report), plugins) == (["image-or-start-failure"], [])
