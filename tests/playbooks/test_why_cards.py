"""Cards that refuse a pod: one finding code per cause, in HAMi's words and borne out by the objects."""

import json
from pathlib import Path

import pytest

from bot.report import Report
from tests.playbooks.world import (
    Object,
    ask,
    card,
    cause,
    cluster,
    codes,
    commands,
    container,
    event,
    gpu,
    gpu_node,
    node,
    none_of,
    pod,
    quota,
    quotes,
    refused,
    running,
)


def refusal(tmp_path: Path, reason: str, waiting: Object, *objects: Object, version: str = "2.10.0") -> Report:
    """The report on a pod that the only node refused for this reason."""
    waiting["status"]["conditions"] = [refused(none_of(1, f"1 {reason}"))]
    report = ask(tmp_path, cluster(waiting, *objects, version=version))
    assert cause(report).confidence == "confirmed"
    assert report.severity == "warning"
    assert waiting["status"]["conditions"][0]["message"] in quotes(report)
    return report


def holder(memory: int = 100, cores: int = 0, uuid: str = "GPU-gpu-1") -> Object:
    return running(f"holder-{uuid.lower()}", "gpu-1", (uuid, memory, cores))


def test_too_little_memory_names_the_largest_slice_and_what_would_fit(tmp_path: Path) -> None:
    report = refusal(tmp_path, "1/1 CardInsufficientMemory", pod(limits=gpu(memory=9000)), gpu_node(), holder(10000))
    assert codes(report) == ["card-insufficient-memory"]
    assert "9,000 MiB free; the largest free slice is 6,384 MiB on gpu-1" in report.verdict
    labels = [action.label for action in cause(report).next_actions]
    assert any("at most 6,384 MiB" in label for label in labels)
    assert any("Wait for ml/holder-gpu-gpu-1 to finish" in label for label in labels)


def test_of_several_containers_the_one_that_does_not_fit_is_told(tmp_path: Path) -> None:
    both = [container(gpu(memory=100), "small"), container(gpu(memory=9000), "large")]
    report = refusal(tmp_path, "1/1 CardInsufficientMemory", pod(containers=both), gpu_node(), holder(10000))
    assert "has 9,000 MiB free" in report.verdict


def test_too_few_cores(tmp_path: Path) -> None:
    waiting = pod(limits=gpu(memory=100, cores=60))
    report = refusal(tmp_path, "1/1 CardInsufficientCore", waiting, gpu_node(), holder(cores=60))
    assert codes(report) == ["card-insufficient-core"]
    assert "60% of its cores" in report.verdict


def test_every_slot_taken(tmp_path: Path) -> None:
    one_slot = gpu_node("gpu-1", card("GPU-gpu-1", count=1))
    report = refusal(tmp_path, "1/1 CardTimeSlicingExhausted", pod(), one_slot, holder())
    assert codes(report) == ["card-time-slicing-exhausted"]


def test_a_card_whose_cores_are_all_taken(tmp_path: Path) -> None:
    report = refusal(tmp_path, "1/1 CardComputeUnitsExhausted", pod(), gpu_node(), holder(cores=100))
    assert codes(report) == ["card-compute-units-exhausted"]


def test_a_pod_that_wants_the_card_for_itself(tmp_path: Path) -> None:
    waiting = pod(limits=gpu(memory=100, cores=100))
    report = refusal(tmp_path, "1/1 ExclusiveDeviceAllocateConflict", waiting, gpu_node(), holder())
    assert codes(report) == ["exclusive-device-conflict"]


def test_an_unhealthy_card(tmp_path: Path) -> None:
    report = refusal(tmp_path, "1/1 CardNotHealth", pod(), gpu_node("gpu-1", card("GPU-gpu-1", health=False)))
    assert codes(report) == ["card-not-healthy"]
    assert commands(report) == ["nodes gpu-1", "gpus --node gpu-1"]


def test_a_cordoned_card(tmp_path: Path) -> None:
    cordoned = gpu_node(annotations={"hami.io/device-cordon": "GPU-gpu-1"})
    assert codes(refusal(tmp_path, "1/1 CardCordoned", pod(), cordoned)) == ["card-cordoned"]


def test_a_type_that_no_card_has(tmp_path: Path) -> None:
    wants = pod(annotations={"nvidia.com/use-gputype": "H100"})
    report = refusal(tmp_path, "1/1 CardTypeMismatch", wants, gpu_node())
    assert codes(report) == ["card-type-mismatch"]
    assert "(H100)" in report.verdict
    assert "Remove the type annotations" in cause(report).next_actions[0].label


def test_a_uuid_that_no_card_has(tmp_path: Path) -> None:
    wants = pod(annotations={"nvidia.com/use-gpuuuid": "GPU-dead"})
    report = refusal(tmp_path, "1/1 CardUuidMismatch", wants, gpu_node())
    assert codes(report) == ["card-uuid-mismatch"]
    assert "(GPU-dead)" in report.verdict


def test_no_numa_node_with_enough_cards(tmp_path: Path) -> None:
    apart = gpu_node("gpu-1", card("GPU-a", numa=0), card("GPU-b", numa=1))
    wants = pod(limits=gpu(2, 1000), annotations={"nvidia.com/numa-bind": "true"})
    assert codes(refusal(tmp_path, "1/2 NumaNotFit", wants, apart))[0] == "numa-not-fit"


def test_no_mig_profile_with_a_free_place(tmp_path: Path) -> None:
    profile = {"name": "1g.6gb", "memoryMB": 6144, "core": 25, "sliceCount": 1, "placements": [{"size": 1}]}
    mig = card("GPU-gpu-1", 24576, mode="mig", type="NVIDIA-A30", migProfiles=[profile])
    wants = pod(limits=gpu(memory=12000))
    assert "mig-topology-infeasible" in codes(
        refusal(tmp_path, "1/1 CardMigTopologyInfeasible", wants, gpu_node("gpu-1", mig))
    )


def test_fewer_cards_than_asked_for_on_every_node_that_the_pod_selects(tmp_path: Path) -> None:
    large = gpu_node("gpu-2", *(card(f"GPU-{i}") for i in range(4)), labels={"pool": "b"})
    waiting = pod(limits=gpu(3, 1000), nodeSelector={"pool": "a"})
    waiting["status"]["conditions"] = [
        refused(none_of(2, "1 NodeInsufficientDevice, 1 node(s) didn't match Pod's node affinity/selector"))
    ]
    report = ask(tmp_path, cluster(gpu_node(labels={"pool": "a"}), large, waiting))
    assert codes(report) == ["node-insufficient-device", "kubernetes-filter"]
    assert "HAMi would take the pod on gpu-2" in report.findings[1].claim


def test_some_cards_that_fit_but_too_few_are_told_behind_what_fills_the_others(tmp_path: Path) -> None:
    two = gpu_node("gpu-1", card("GPU-a"), card("GPU-b"))
    waiting = pod(limits=gpu(2, 9000))
    reason = "1/2 AllocatedCardsInsufficientRequest, 1/2 CardInsufficientMemory"
    report = refusal(tmp_path, reason, waiting, two, holder(10000, uuid="GPU-a"))
    assert codes(report)[0] == "card-insufficient-memory"
    assert "allocated-cards-insufficient" in codes(report)


@pytest.mark.parametrize(
    ("asked", "told"),
    [(gpu(memory=99999), "1 x 99,999 MiB"), (gpu(9, 1000), "9 x 1,000 MiB")],
    ids=["memory", "count"],
)
def test_a_request_that_no_node_could_ever_hold_comes_first(tmp_path: Path, asked: Object, told: str) -> None:
    report = refusal(tmp_path, "1/1 CardInsufficientMemory", pod(limits=asked), gpu_node())
    assert codes(report)[0] == "impossible-anywhere"
    assert told in report.verdict


def test_a_refusal_whose_cause_is_not_modelled_is_told_as_that(tmp_path: Path) -> None:
    mig = card("GPU-gpu-1", mode="mig", type="NVIDIA-A30")
    report = refusal(tmp_path, "NodeUnfitPod", pod(), gpu_node("gpu-1", mig), version="2.9.0")
    assert codes(report) == ["node-unfit-pod"]
    assert any("MIG" in gap.why for gap in report.gaps)


# ------------------------------------------------------------------------------------------------ quotas


def test_a_quota_of_memory_tells_its_figures_and_where_to_look(tmp_path: Path) -> None:
    report = refusal(
        tmp_path, "1/1 ResourceQuotaNotFit", pod(limits=gpu(memory=4000)), gpu_node(), holder(9000), quota(gpumem=10000)
    )
    assert codes(report) == ["resource-quota-not-fit"]
    assert "nvidia.com/gpumem exceeded: 9,000 of 10,000 used, 1 x 4,000 MiB asked" in report.verdict
    assert "10000" in quotes(report)
    assert "quota ml" in commands(report)


def test_a_quota_of_cores_is_told_in_cores(tmp_path: Path) -> None:
    waiting = pod(limits=gpu(memory=4000, cores=60))
    unrelated = quota("pods-only")
    unrelated["spec"]["hard"] = {"pods": "10"}
    report = refusal(tmp_path, "1/1 ResourceQuotaNotFit", waiting, gpu_node(), unrelated, quota(gpucores=50))
    assert codes(report) == ["resource-quota-not-fit"]
    assert "nvidia.com/gpucores exceeded: 0 of 50 used, 60 asked" in report.verdict
    assert {"50", "60"} <= set(quotes(report))


def test_a_pod_that_opted_out_of_the_webhook_meets_the_quota_in_the_filter(tmp_path: Path) -> None:
    waiting = pod(limits=gpu(memory=4000), labels={"hami.io/webhook": "ignore"})
    report = refusal(tmp_path, "NodeUnfitPod", waiting, gpu_node(), quota(gpumem=1000), version="2.9.0")
    assert codes(report) == ["resource-quota-not-fit"]


def test_a_quota_of_zero_blocks_since_2_10_and_means_nothing_before(tmp_path: Path) -> None:
    objects = gpu_node(), quota(gpumem=0), pod()
    assert codes(ask(tmp_path / "new", cluster(*objects))) == ["resource-quota-not-fit"]
    assert codes(ask(tmp_path / "old", cluster(*objects, version="2.9.0"))) == ["waiting-for-retry"]


def test_another_namespace_s_quota_is_not_this_one_s(tmp_path: Path) -> None:
    objects = gpu_node(), quota(namespace="dev", gpumem=10), pod()
    assert codes(ask(tmp_path, cluster(*objects))) == ["waiting-for-retry"]


# ----------------------------------------------------------------------------------------- other vendors

ASCEND = {"huawei.com/Ascend910B3": "1", "huawei.com/Ascend910B3-memory": "16384"}
NPU_NODE = node(
    "npu-1",
    {"hami.io/node-register-Ascend910B3": json.dumps([card("NPU-0", type="Ascend910B3")])},
    allocatable={"huawei.com/Ascend910B3": "8"},
)


def assert_vendor_gap(report: Report) -> None:
    assert any("the vendor of huawei.com/Ascend910B3" in gap.why for gap in report.gaps)
    assert not report.tables


def test_another_vendor_s_mode_is_told_in_hami_s_words_and_our_fit_names_its_gap(tmp_path: Path) -> None:
    waiting = pod(limits=ASCEND, said=refused(none_of(1, "1 NodeUnfitPod")))
    told = event(waiting, "FilteringFailed", "1 nodes ModeNotFit(npu-1)")
    report = ask(tmp_path, cluster(NPU_NODE, waiting, told, version="2.9.0"))
    assert codes(report) == ["mode-not-fit"]
    assert cause(report).scope.nodes == ("npu-1",)
    assert "1 nodes ModeNotFit(npu-1)" in quotes(report)
    assert_vendor_gap(report)


def test_another_vendor_s_own_rule_is_told_in_hami_s_words(tmp_path: Path) -> None:
    waiting = pod(limits=ASCEND, said=refused(none_of(1, "1 8/8 CardNotFoundCustomFilterRule")))
    report = ask(tmp_path, cluster(NPU_NODE, waiting))
    assert (codes(report), cause(report).confidence) == (["custom-filter-rule"], "confirmed")
    assert_vendor_gap(report)


def test_another_vendor_s_pod_that_a_lock_holds_is_held_like_any(tmp_path: Path) -> None:
    waiting = pod(limits=ASCEND, said=refused("node npu-1 has been locked within 5m0s", reason="SchedulerError"))
    assert codes(ask(tmp_path, cluster(NPU_NODE, waiting))) == ["node-lock-held"]


def test_another_vendor_s_pod_that_kubernetes_drops_is_told_so(tmp_path: Path) -> None:
    tainted = {**NPU_NODE, "spec": {"taints": [{"key": "dedicated", "effect": "NoSchedule"}]}}
    report = ask(tmp_path, cluster(tainted, pod(limits=ASCEND)))
    assert codes(report) == ["kubernetes-filter"]
    assert_vendor_gap(report)


def test_of_another_vendor_s_pod_nothing_is_claimed_where_nothing_was_said(tmp_path: Path) -> None:
    report = ask(tmp_path, cluster(NPU_NODE, pod(limits=ASCEND)))
    assert codes(report) == ["not-enough-evidence"]
    assert_vendor_gap(report)


def test_a_pod_that_wants_cards_of_two_vendors_is_not_promised_a_place(tmp_path: Path) -> None:
    both = pod(limits=ASCEND | gpu(memory=1000), said=refused(none_of(2, "2 NodeUnfitPod")))
    report = ask(tmp_path, cluster(NPU_NODE, gpu_node(), both, version="2.9.0"))
    assert codes(report) == ["node-unfit-pod"]
    assert_vendor_gap(report)
