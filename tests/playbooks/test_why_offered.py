"""Resources that no node offers: unknown names, vendors without a plugin, and what kube-scheduler keeps from HAMi."""

from pathlib import Path
from typing import Any

import pytest

from bot.report import Report
from tests.playbooks.offered_support import DEVICES
from tests.playbooks.status_support import CONFIG, scheduler_config
from tests.playbooks.world import (
    Object,
    ask,
    card,
    cause,
    cluster,
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


def about(folder: Path, asked: Object, refusal: str, *nodes: Object, **fields: str) -> Report:
    """A pod of HAMi's scheduler that asks for something, kube-scheduler's words about it, and the nodes."""
    config = fields.pop("config", CONFIG)
    one = pod(limits=asked, said=refused(none_of(len(nodes), refusal)), **fields)
    settings = [scheduler_config(config)] if config else []
    return ask(folder, [*scheduler(config=DEVICES), *settings, *nodes, one])


# -------------------------------------------------------------------------------------------- unknown names


@pytest.mark.parametrize(
    ("asked", "near"),
    [
        ("nvidia.com/gpu.memory", "nvidia.com/gpumem"),
        ("nvidia.com/gpu-mem", "nvidia.com/gpumem"),
        ("nvidia.com/gpucore", "nvidia.com/gpucores"),
        ("hygon.com/dcunums", "hygon.com/dcunum"),
        ("huawei.com/Ascend910B3-mem", "huawei.com/Ascend910B3-memory"),
    ],
)
def test_a_misspelt_resource_is_told_the_nearest_name_that_there_is(tmp_path: Path, asked: str, near: str) -> None:
    report = about(tmp_path, {asked: "1"}, f"1 Insufficient {asked}", gpu_node())
    assert codes(report) == ["resource-unknown"]
    assert f"The nearest name is {near}" in report.verdict
    assert asked.replace(".", "\\.") in cause(report).evidence[-1].command
    assert cause(report).confidence == "confirmed"


def test_a_name_that_is_like_none_gets_no_guess(tmp_path: Path) -> None:
    report = about(tmp_path, {"example.com/fpga": "1"}, "1 Insufficient example.com/fpga", gpu_node())
    assert codes(report) == ["resource-unknown"]
    assert "nearest" not in report.verdict


def test_an_unknown_resource_of_an_init_container_is_found_beside_known_ones(tmp_path: Path) -> None:
    init = container({"nvidia.com/vgpu": "1"}, name="init")
    one = pod(initContainers=[init], said=refused(none_of(1, "1 Insufficient nvidia.com/vgpu")))
    report = ask(tmp_path, [*scheduler(config=DEVICES), gpu_node(), one])
    assert codes(report) == ["resource-unknown"]


def test_a_pod_of_the_default_scheduler_with_an_unknown_resource_was_not_missed_by_the_webhook(tmp_path: Path) -> None:
    said = "1 Insufficient hygon.com/dcu"
    report = about(tmp_path, {"hygon.com/dcu": "1"}, said, gpu_node(), schedulerName="default-scheduler")
    assert codes(report) == ["resource-unknown"]


def test_a_resource_that_a_node_lists_with_nothing_left_is_known(tmp_path: Path) -> None:
    one = node("fpga-1", allocatable={"example.com/fpga": "0"})
    report = about(tmp_path, gpu(**{"example.com/fpga": 1}), "2 Insufficient example.com/fpga", one, gpu_node())
    assert "resource-unknown" not in codes(report)


def test_without_the_nodes_no_name_is_called_unknown(tmp_path: Path) -> None:
    one = pod(limits={"nvidia.com/vgpu": "1"}, said=refused(none_of(3, "3 Insufficient nvidia.com/vgpu")))
    report = ask(tmp_path, [*scheduler(config=DEVICES), gpu_node(), one], missing=["nodes"])
    assert "resource-unknown" not in codes(report)


def test_without_hami_s_device_config_an_unknown_name_is_only_suspected(tmp_path: Path) -> None:
    one = pod(limits={"nvidia.com/vgpu": "1"}, said=refused(none_of(1, "1 Insufficient nvidia.com/vgpu")))
    report = ask(tmp_path, [*scheduler(), gpu_node(), one], missing=["configmaps"])
    assert (codes(report)[0], cause(report).confidence) == ("resource-unknown", "suspected")


# ---------------------------------------------------------------------------------- vendors that are not there


@pytest.mark.parametrize("asked", ["metax-tech.com/gpu", "hygon.com/dcunum", "huawei.com/Ascend310P", "amd.com/gpu"])
def test_a_vendor_without_any_device_in_the_cluster_lacks_its_plugin(tmp_path: Path, asked: str) -> None:
    report = about(tmp_path, {asked: "1"}, f"2 Insufficient {asked}", gpu_node(), node("cpu-1"))
    assert codes(report) == ["resource-unknown"]
    look, install = cause(report).next_actions[:2]
    assert (look.only_looks, install.changes_cluster) == (True, True)
    assert "is missing, or does not work" in cause(report).claim


def test_a_vendor_without_any_device_is_found_where_kube_scheduler_leaves_its_resource_to_hami(tmp_path: Path) -> None:
    managed = f"{CONFIG}  - name: metax-tech.com/gpu\n    ignoredByScheduler: true\n"
    asked = {"metax-tech.com/gpu": "1"}
    report = about(tmp_path, asked, "1 node unregistered", gpu_node(), config=managed)
    assert codes(report) == ["resource-unknown"]


# --------------------------------------------------------------------------- kube-scheduler looks for HAMi's


@pytest.mark.parametrize(
    ("asked", "offered"),
    [
        ("nvidia.com/priority", {}),
        ("huawei.com/Ascend910B3-memory", {"huawei.com/Ascend910B3": "20"}),
        ("metax-tech.com/vmemory", {"metax-tech.com/sgpu": "16"}),
        ("hygon.com/dcumem", {"hygon.com/dcunum": "8"}),
    ],
)
def test_a_resource_that_kube_scheduler_does_not_leave_to_hami_is_misconfigured(
    tmp_path: Path, asked: str, offered: Object
) -> None:
    one = gpu_node(allocatable=offered)
    report = about(tmp_path, gpu(**{asked: 1}), f"1 Insufficient {asked}", one)
    assert codes(report)[0] == "extender-misconfigured"
    assert (asked in report.verdict, cause(report).confidence) == (True, "confirmed")
    assert any(quote.startswith("managedResources:\n") for quote in quotes(report))
    assert any(command.endswith("edit configmap hami-scheduler") for command in commands(report))


def test_a_vendor_that_only_registers_its_devices_is_there(tmp_path: Path) -> None:
    one = gpu_node(annotations={"hami.io/node-dcu-register": "[]"})
    report = about(tmp_path, {"hygon.com/dcumem": "1000"}, "1 Insufficient hygon.com/dcumem", one)
    assert codes(report)[0] == "extender-misconfigured"


def test_a_kube_scheduler_that_was_not_restarted_since_its_file_changed_is_suspected(tmp_path: Path) -> None:
    report = about(tmp_path, gpu(memory=1000), "1 Insufficient nvidia.com/gpumem", gpu_node())
    assert codes(report)[0] == "extender-misconfigured"
    assert cause(report).confidence == "suspected"
    assert "may still use an older file" in cause(report).claim
    assert any("rollout restart deployment hami-scheduler" in command for command in commands(report))


def test_without_the_file_the_words_of_kube_scheduler_are_enough_to_suspect_it(tmp_path: Path) -> None:
    report = about(tmp_path, gpu(memory=1000), "1 Insufficient nvidia.com/gpumem", gpu_node(), config="")
    assert (codes(report)[0], cause(report).confidence) == ("extender-misconfigured", "suspected")


def test_words_of_the_default_scheduler_are_no_fault_of_hami_s_configuration(tmp_path: Path) -> None:
    said = "1 Insufficient nvidia.com/gpumem"
    report = about(tmp_path, gpu(memory=1000), said, gpu_node(), schedulerName="default-scheduler")
    assert codes(report) == ["webhook-bypassed"]


@pytest.mark.parametrize(
    ("resource", "project"),
    [
        ("aliyun.com/gpu-mem", "gpushare (Alibaba Cloud)"),
        ("tencent.com/vcuda-core", "gpu-manager (Tencent)"),
        ("tke.cloud.tencent.com/qgpu-core", "qGPU (Tencent)"),
        ("nvidia.com/mig-1g.10gb", "k8s-device-plugin (NVIDIA, MIG)"),
        ("nvidia.com/gpu.shared", "k8s-device-plugin"),
        ("nvidia.com/mig-1g.10gb", "k8s-device-plugin"),
    ],
)
def test_a_resource_of_another_project_is_called_so(tmp_path: Path, resource: str, project: str) -> None:
    said = refused(none_of(1, f"1 Insufficient {resource}"))
    report = ask(tmp_path, cluster(pod(limits={resource: "1"}, said=said), gpu_node()))
    assert codes(report)[0] == "resource-unknown"
    assert project in cause(report).claim
    assert "nvidia.com/gpumem" in cause(report).next_actions[0].label


def test_a_mig_size_that_no_node_has_is_told_beside_one_that_a_node_has(tmp_path: Path) -> None:
    node, said = gpu_node(), refused(none_of(1, "1 Insufficient nvidia.com/mig-1g.5gb"))
    node["status"]["allocatable"]["nvidia.com/mig-1g.10gb"] = "7"
    report = ask(tmp_path, cluster(pod(limits={"nvidia.com/mig-1g.5gb": "1"}, said=said), node))
    assert "The nearest name is nvidia.com/mig-1g.10gb" in cause(report).claim


def test_names_of_hami_s_predecessor_are_called_so_where_hami_runs(tmp_path: Path) -> None:
    said = refused(none_of(1, "1 Insufficient 4pd.io/vgpu"))
    one = pod(limits={"4pd.io/vgpu": "1"}, schedulerName="4pd-scheduler", said=said)
    report = ask(tmp_path, cluster(one, gpu_node()))
    assert (codes(report)[0], report.severity) == ("resource-unknown", "warning")
    assert "HAMi's predecessor" in cause(report).claim


CORDON = "hami.io/device-cordon"


def labels(report: Report) -> list[str]:
    """What the first finding says to do."""
    return [action.label for action in cause(report).next_actions]


def with_cpus(name: str, cpus: str, **fields: Any) -> Object:
    one = gpu_node(name, card(f"GPU-{name}"), **fields)
    one["status"]["allocatable"]["cpu"] = cpus
    return one


def wants_cpus(cpus: str) -> Object:
    limits = gpu(memory=1000) | {"cpu": cpus}
    return pod(limits=limits, said=refused(none_of(2, "2 Insufficient cpu")))


def test_more_of_a_resource_than_any_node_has_is_told_with_both_figures_and_what_to_ask_for(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(with_cpus("gpu-1", "64"), with_cpus("gpu-2", "96"), wants_cpus("1000")))
    assert codes(report)[0] == "kubernetes-filter"
    assert report.verdict.startswith("The pod requests 1,000 of cpu, and the largest node has 96;")
    assert "1000" in quotes(report)
    assert cause(report).evidence[-1].quote == "96"
    assert labels(report)[0].startswith("Set requests cpu to at most 96 in all its containers (now 1,000): no node has")


def test_more_of_a_resource_than_some_nodes_have_is_told_without_saying_that_no_node_has_it(tmp_path: Path) -> None:
    tainted = with_cpus("gpu-2", "96", taints=[{"key": "dedicated", "effect": "NoSchedule"}])
    report = ask(tmp_path, cluster(with_cpus("gpu-1", "64"), tainted, wants_cpus("80")))
    told = next(finding for finding in report.findings if "Insufficient cpu" in finding.claim)
    assert "the pod requests 80, these nodes have at most 64" in told.claim
    assert not any("at most 64 of cpu" in label for label in labels(report))


def test_memory_is_told_in_the_unit_of_the_request(tmp_path: Path) -> None:
    one = gpu_node()
    one["status"]["allocatable"]["memory"] = "1056763428Ki"
    waits = pod(limits=gpu(memory=1000) | {"memory": "4Ti"}, said=refused(none_of(1, "1 Insufficient memory")))
    report = ask(tmp_path, cluster(one, waits))
    assert "The pod requests 4,096 GiB of memory, and the largest node has 1,007.8 GiB" in report.verdict
    assert labels(report)[0].startswith(
        "Set requests memory to at most 1,007 GiB in all its containers (now 4,096 GiB)"
    )


def test_what_several_containers_ask_for_together_is_quoted_of_each(tmp_path: Path) -> None:
    waits = wants_cpus("60")
    waits["spec"]["containers"].append(container({"cpu": "50"}, name="other"))
    report = ask(tmp_path, cluster(with_cpus("gpu-1", "64"), with_cpus("gpu-2", "96"), waits))
    assert "The pod requests 110" in report.verdict
    assert {"60", "50"} <= set(quotes(report))


def test_more_than_all_of_a_card_is_answered_with_all_of_it(tmp_path: Path) -> None:
    waits = pod(limits=gpu(**{"nvidia.com/gpumem-percentage": 150}), said=refused(none_of(1, "1 NodeUnfitPod")))
    report = ask(tmp_path, cluster(gpu_node(text=True), waits, version="2.7.1"))
    assert codes(report)[0] == "impossible-anywhere"
    assert (
        report.verdict
        == "The pod requests 150% of a GPU, which no GPU can give: HAMi 2.7.1 takes the value as written."
    )
    assert "Request at most 100% of a GPU (gpu-1 would take the pod)" in labels(report)[0]


def test_a_job_that_cannot_be_read_is_called_one(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(gpu_node()), "ml/job/nightly", missing=["jobs"])
    assert codes(report) == ["not-enough-evidence"]
    assert report.verdict.startswith("The bot read too little to tell why Job ml/nightly is pending")
    assert commands(report) == ["kubectl -n ml describe job nightly"]
    assert labels(report) == ["Look at the Job yourself"]


def elsewhere(count: int) -> list[Object]:
    return [gpu_node(f"other-{number}", card(f"GPU-o{number}")) for number in range(count)]


def chosen(*cards: Object, **fields: Any) -> Object:
    return gpu_node("gpu-1", *cards, labels={"pool": "a"}, **fields)


def test_nodes_that_the_pods_own_selector_leaves_out_are_offered_whatever_comes_first(tmp_path: Path) -> None:
    waits = pod(
        limits=gpu(2, memory=1000), nodeSelector={"pool": "a"}, said=refused(none_of(3, "1 NodeInsufficientDevice"))
    )
    others = [gpu_node(f"other-{number}", card(f"GPU-{number}"), card(f"GPU-{number}b")) for number in range(2)]
    report = ask(tmp_path, cluster(chosen(card()), *others, waits))
    assert codes(report)[0] == "node-insufficient-device"
    assert any("(other-0, other-1 would take the pod now); in Pod" in label for label in labels(report))


def test_an_unregistered_node_is_no_reason_to_keep_the_others_back(tmp_path: Path) -> None:
    silent = node("gpu-1", labels={"pool": "a", "gpu": "on"})
    silent["status"]["allocatable"] = {"nvidia.com/gpu": "10"}
    waits = pod(nodeSelector={"pool": "a"}, said=refused(none_of(2, "1 node unregistered")))
    report = ask(tmp_path, cluster(silent, *elsewhere(1), waits))
    assert codes(report)[0] == "node-unregistered"
    assert any("(other-0 would take the pod now); in Pod" in label for label in labels(report))


def test_more_nodes_than_are_named_are_not_read_as_all(tmp_path: Path) -> None:
    waits = pod(
        limits=gpu(2, memory=1000), nodeSelector={"pool": "a"}, said=refused(none_of(9, "1 NodeInsufficientDevice"))
    )
    others = [gpu_node(f"other-{number}", card(f"GPU-{number}"), card(f"GPU-{number}b")) for number in range(5)]
    report = ask(tmp_path, cluster(chosen(card()), *others, waits))
    told = next(finding for finding in report.findings if finding.code == "kubernetes-filter")
    assert told.claim.endswith("HAMi would take the pod on other-0, other-1, other-2 and others.")
    assert any("(other-0, other-1, other-2 and others would take the pod now)" in label for label in labels(report))


def cordoned(*uuids: str) -> Object:
    return chosen(*(card(uuid) for uuid in uuids), annotations={CORDON: ",".join(uuids)})


def test_a_cordoned_card_comes_with_how_to_uncordon_it_after_who_did(tmp_path: Path) -> None:
    waits = pod(said=refused(none_of(1, "1 1/1 CardCordoned")))
    report = ask(tmp_path, cluster(cordoned("GPU-0"), waits))
    assert codes(report) == ["card-cordoned"]
    look, uncordon = cause(report).next_actions[:2]
    assert look.command == "kubectl get node gpu-1 -o yaml --show-managed-fields"
    assert (uncordon.command, uncordon.changes_cluster) == (f"kubectl annotate node gpu-1 {CORDON}-", True)


def test_of_several_cordoned_cards_one_is_uncordoned_and_the_others_stay(tmp_path: Path) -> None:
    waits = pod(said=refused(none_of(1, "1 2/2 CardCordoned")))
    report = ask(tmp_path, cluster(cordoned("GPU-0", "GPU-1"), waits))
    uncordon = cause(report).next_actions[1]
    assert uncordon.command == f"kubectl annotate node gpu-1 --overwrite {CORDON}=GPU-1"
    assert uncordon.label.startswith("Uncordon 1 of the 2 GPUs in node gpu-1's annotation")


def test_a_node_that_was_taken_for_a_pod_is_called_a_node(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(gpu_node()), "gpu-1")
    assert codes(report) == ["not-found"]
    assert report.verdict == "gpu-1 is a node, not a pod."
    assert commands(report)[0] == "nodes gpu-1"
    assert quotes(report) == ["gpu-1"]


def test_that_a_name_was_typed_in_part_takes_nothing_of_the_verdict(tmp_path: Path) -> None:
    part, whole = (
        ask(tmp_path / at, cluster(gpu_node(), pod("trainer-0")), f"ml/{at}") for at in ("trainer", "trainer-0")
    )
    assert (part.verdict, part.subject) == (whole.verdict, whole.subject)
