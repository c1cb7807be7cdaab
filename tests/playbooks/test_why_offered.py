"""Resources that no node offers: unknown names, vendors without a plugin, and what kube-scheduler keeps from HAMi."""

from pathlib import Path

import pytest

from bot.report import Report
from tests.playbooks.offered_support import DEVICES
from tests.playbooks.status_support import CONFIG, scheduler_config
from tests.playbooks.world import (
    Object,
    ask,
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
    assert asked in quotes(report)
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
    assert "operator or device plugin is not installed" in report.verdict


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
    assert "managedResources:" in quotes(report)
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
        ("nvidia.com/gpu.shared", "k8s-device-plugin"),
    ],
)
def test_a_resource_of_another_project_is_called_so(tmp_path: Path, resource: str, project: str) -> None:
    said = refused(none_of(1, f"1 Insufficient {resource}"))
    report = ask(tmp_path, cluster(pod(limits={resource: "1"}, said=said), gpu_node()))
    assert codes(report)[0] == "resource-unknown"
    assert project in cause(report).claim
    assert "nvidia.com/gpumem" in cause(report).next_actions[0].label


def test_names_of_hami_s_predecessor_are_called_so_where_hami_runs(tmp_path: Path) -> None:
    said = refused(none_of(1, "1 Insufficient 4pd.io/vgpu"))
    one = pod(limits={"4pd.io/vgpu": "1"}, schedulerName="4pd-scheduler", said=said)
    report = ask(tmp_path, cluster(one, gpu_node()))
    assert (codes(report)[0], report.severity) == ("resource-unknown", "warning")
    assert "HAMi's predecessor" in cause(report).claim
