"""Figures of other vendors' devices: too few of them, whole ones, cores and memory in the vendor's own unit."""

import json
from pathlib import Path

import pytest

from bot.report import Report
from playbooks.fit.manifest import Manifest
from tests.playbooks.tables import table
from tests.playbooks.world import Object, answer, ask, cause, codes, node, none_of, pod, record, refused, scheduler
from tests.vendor_worlds import CHART

FLAGS = ["--enable-ascend", "--enable-iluvatar"]
GIVEN = {"hami.io/vgpu-node": "n-1", "hami.io/vgpu-time": "1795237200"}


def hami() -> list[Object]:
    return scheduler(config=CHART, flags=FLAGS)


def counted(**capacity: object) -> Object:
    """A node whose devices are counted by its capacity: `metax-tech.com/gpu` and the like."""
    return node("n-1", allocatable={name: str(amount) for name, amount in capacity.items()})


def registered(key: str, count: str, *cards: Object) -> Object:
    """A node whose devices its plugin registers, and kubelet offers by that resource."""
    return node("n-1", {key: json.dumps(cards)}, allocatable={count: "8"})


def holder(key: str, given: str, **fields: object) -> Object:
    one = pod("holder", annotations=GIVEN | {key: given}, labels={"hami.io/vgpu-node": "n-1"}, nodeName="n-1", **fields)
    return one | {"status": {"phase": "Running"}}


def why(tmp_path: Path, reason: str, limits: Object, *objects: Object, **fields: object) -> Report:
    waiting = pod(limits=limits, said=refused(none_of(1, f"1 {reason}")), **fields)
    return ask(tmp_path, [*hami(), waiting, *objects])


def told(tmp_path: Path, verb: str, *objects: Object, **words: object) -> Report:
    return answer(verb, record(tmp_path, [*hami(), *objects]), {}, **words)


def dcus(count: int = 2) -> Object:
    text = "".join(f"DCU-{at},4,65536,100,DCU,0,true:" for at in range(count))
    return node("n-1", {"hami.io/node-dcu-register": text}, allocatable={"hygon.com/dcunum": str(4 * count)})


def test_where_some_devices_pass_the_claim_is_that_they_are_too_few(tmp_path: Path) -> None:
    full = holder("hami.io/dcu-devices-allocated", "DCU-0,DCU,65536,0:;")
    asked = {"hygon.com/dcunum": "2", "hygon.com/dcumem": "4000", "hygon.com/dcucores": "5"}
    reason = "1/2 AllocatedCardsInsufficientRequest, 1/2 CardInsufficientMemory"
    report = why(tmp_path, reason, asked, dcus(), full)
    assert cause(report).claim == "Too few DCUs of n-1 have 4,000 MiB free: the pod requests 2 on one node."


def test_what_an_empty_node_lacks_is_told_with_hami_s_reason_and_the_amount_in_question(tmp_path: Path) -> None:
    card = {"uuid": "GPU-0", "totalDevCount": 4, "totalCompute": 100, "totalVRam": 65536, "healthy": True}
    there = node("n-1", {"metax-tech.com/node-gpu-devices": json.dumps([card])})
    first = {"metax-tech.com/sgpu": "1", "metax-tech.com/vcore": "25", "metax-tech.com/vmemory": "4"}
    asked = [
        {"name": name, "resources": {"limits": first | {"metax-tech.com/vcore": cores}}}
        for name, cores in (("main", "25"), ("side", "120"))
    ]
    report = why(tmp_path, "1/1 CardInsufficientCore", {}, there, containers=asked)
    assert cause(report).claim.endswith("on n-1 HAMi would still say 1/1 CardInsufficientCore.")
    assert "120" in [evidence.quote for evidence in cause(report).evidence]


def test_containers_that_must_share_a_whole_device_never_fit(tmp_path: Path) -> None:
    asked = [{"name": name, "resources": {"limits": {"metax-tech.com/gpu": "1"}}} for name in ("main", "side")]
    reason = "1/2 CardNotFoundCustomFilterRule, 1/2 CardTimeSlicingExhausted"
    report = why(tmp_path, reason, {}, counted(**{"metax-tech.com/gpu": 2}), containers=asked)
    assert codes(report)[0] == "impossible-anywhere"
    assert "all its containers must get the same Metax-GPU device" in cause(report).claim


def test_a_number_of_devices_that_is_never_given_is_told_of_whichever_container_asks_it(tmp_path: Path) -> None:
    asked = [{"name": str(count), "resources": {"limits": {"kunlunxin.com/xpu": count}}} for count in ("4", "3")]
    report = why(tmp_path, "1/8 NumaNotFit", {}, counted(**{"kunlunxin.com/xpu": 8}), containers=asked)
    claim = "No registered node can hold 3 XPUs, even empty: HAMi gives kunlun devices only 1, 2, 4, 8 at a time."
    assert cause(report).claim == claim


def test_the_largest_device_and_the_most_of_a_node_are_of_the_asked_kind(tmp_path: Path) -> None:
    larger = {"id": "A-0", "count": 2, "devmem": 196608, "devcore": 304, "type": "AMD", "health": True}
    beside = node("n-2", {"hami.io/node-amd-register": json.dumps([larger])}, allocatable={"amd.com/gpu": "2"})
    asked = {"hygon.com/dcunum": "1", "hygon.com/dcumem": "100000", "hygon.com/dcucores": "5"}
    report = why(tmp_path, "1/2 CardInsufficientMemory", asked, dcus(), beside)
    assert "the largest DCU has 65,536 MiB, a node has at most 2 DCUs" in cause(report).claim


def test_no_profile_is_no_soft_split(tmp_path: Path) -> None:
    text = json.dumps({"devices": [{"index": "0", "capacity": 4}], "profiles": {"1g.6gb": "0", "4g.24gb": "1"}})
    report = why(
        tmp_path, "1/1 ModeNotFit", {"enflame.com/drs-gcu": "3"}, node("n-1", {"enflame.com/gcu-drs-capacity": text})
    )
    (mode,) = [finding for finding in report.findings if finding.code == "mode-not-fit"]
    assert mode.claim == "n-1: no profile of their GCUs serves what the pod asks for (3 of enflame.com/drs-gcu)."


def test_cores_and_proposed_memory_are_in_the_vendor_s_unit(tmp_path: Path) -> None:
    there = counted(**{"mthreads.com/sgpu-core": 16, "mthreads.com/sgpu-memory": 96, "mthreads.com/vgpu": 16})
    asked = {"mthreads.com/vgpu": "1", "mthreads.com/sgpu-core": "12", "mthreads.com/sgpu-memory": "2"}
    busy = holder("hami.io/mthreads-vgpu-devices-allocated", "n-1-mthreads-0,Mthreads,1024,8:;")
    report = why(tmp_path, "1/1 CardInsufficientCore", asked, there, busy)
    assert cause(report).claim == "No usable GPU of n-1 has 12/16 of its cores free."
    assert cause(report).next_actions[0].label.startswith("Request at most 8/16 of the cores (n-1 would take the pod)")


def test_memory_is_proposed_in_units_of_the_resource(tmp_path: Path) -> None:
    mlu = {"cambricon.com/vmlu": 1, "cambricon.com/mlu.smlu.vcore": 100, "cambricon.com/mlu.smlu.vmemory": 96}
    asked = {"cambricon.com/vmlu": "1", "cambricon.com/mlu.smlu.vcore": "5", "cambricon.com/mlu.smlu.vmemory": "95"}
    busy = holder("hami.io/cambricon-mlu-devices-allocated", "n-1-cambricon-mlu-0,MLU,12288,5:;")
    report = why(tmp_path, "1/1 CardInsufficientMemory", asked, counted(**mlu), busy)
    step = "Request at most 12,288 MiB (cambricon.com/mlu.smlu.vmemory: 48) per MLU (n-1 would take the pod)"
    assert cause(report).next_actions[0].label.startswith(step)


@pytest.mark.parametrize(
    ("mode", "step"),
    [({}, "Request at most 32,768 MiB per NPU"), ({"huawei.com/vnpu-mode": "hami-core"}, "Request at most 40,960 MiB")],
)
def test_a_hard_split_is_proposed_the_largest_template_that_is_free(tmp_path: Path, mode: Object, step: str) -> None:
    key = "Ascend910B3"
    card = {"id": "NPU-0", "count": 4, "devmem": 65536, "devcore": 20, "type": key, "health": True}
    there = registered(f"hami.io/node-register-{key}", f"huawei.com/{key}", card)
    there["metadata"]["annotations"] |= {"hami-vnpu-core": "true"}
    busy = holder(f"hami.io/{key}-devices-allocated", f"NPU-0,{key},24576,0:;")
    asked = {f"huawei.com/{key}": "1", f"huawei.com/{key}-memory": "65536"}
    report = why(tmp_path, "1/1 CardInsufficientMemory", asked, there, busy, annotations=mode)
    assert cause(report).next_actions[0].label.startswith(step)


def test_fit_tells_of_a_device_that_no_node_has_and_of_numbers_that_are_never_given(tmp_path: Path) -> None:
    there = [*hami(), counted(**{"kunlunxin.com/xpu": 8})]
    for asked, words in (
        ({"birentech.com/gpu": "1"}, "no registered device has Biren in its type"),
        ({"kunlunxin.com/xpu": "3"}, "HAMi gives kunlun devices only 1, 2, 4, 8 at a time"),
    ):
        manifest = json.dumps(pod(limits=asked))
        report = answer("fit", record(tmp_path, there), {}, file=[Manifest("pod.yaml", manifest)], also=manifest)
        assert cause(report).claim.endswith(f"{words}.")


# ---------------------------------------------------------------------------------------------------------- gpus


def test_whole_devices_that_are_given_strand_no_memory(tmp_path: Path) -> None:
    card = {"id": "b-0", "count": 1, "devmem": 32768, "type": "Biren", "health": True}
    report = told(
        tmp_path,
        "gpus",
        registered("hami.io/node-biren-register", "birentech.com/gpu", card, card | {"id": "b-1"}),
        holder("hami.io/Biren-devices-allocated", "b-0,Biren,0,0:;"),
    )
    assert codes(report) == ["capacity"]
    assert cause(report).claim == "1 of 2 GPUs can still take a pod."
    assert [(row["state"], row["memory free"]) for row in table(report, "cards")] == [("no-slots", ""), ("free", "")]


def test_the_cores_of_a_neuron_device_are_counted(tmp_path: Path) -> None:
    there = counted(**{"aws.amazon.com/neuron": 1, "aws.amazon.com/neuroncore": 2})
    report = told(
        tmp_path, "gpus", there, holder("hami.io/aws-neuron-devices-allocated", "n-1-AWSNeuron-0,AWSNeuron,0,2:;")
    )
    (row,) = table(report, "cards")
    assert (row["cores used"], row["cores total"]) == ("1", "2")


def test_several_vendors_devices_are_devices(tmp_path: Path) -> None:
    report = told(tmp_path, "gpus", dcus(), node("n-2", allocatable={"metax-tech.com/gpu": "1"}))
    assert cause(report).claim.startswith("3 of 3 devices can still take a pod")


# --------------------------------------------------------------------------------------------------------- quota


def limited(**hard: str) -> Object:
    keys = {f"limits.{name}": value for name, value in hard.items()}
    return {"kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "ml"}, "spec": {"hard": keys}}


def test_a_limit_on_another_vendor_s_memory_is_held_against_pods(tmp_path: Path) -> None:
    there = {"cambricon.com/vmlu": 1, "cambricon.com/mlu.smlu.vcore": 100, "cambricon.com/mlu.smlu.vmemory": 96}
    report = told(
        tmp_path,
        "quota",
        counted(**there),
        holder("hami.io/cambricon-mlu-devices-allocated", "n-1-cambricon-mlu-0,MLU,12288,5:;"),
        limited(**{"cambricon.com/mlu.smlu.vmemory": "50"}),
    )
    assert codes(report)[0] == "quota-near-limit"
    assert "HAMi counts 12,288 against a limits.cambricon.com/mlu.smlu.vmemory of 12,800" in cause(report).claim


@pytest.mark.parametrize(("limit", "code"), [("8000", "resource-quota-not-fit"), ("80000", "fits")])
def test_the_webhook_denies_what_exceeds_the_quota_of_a_vendor_that_the_filter_lets_pass(
    tmp_path: Path, limit: str, code: str
) -> None:
    manifest = json.dumps(pod(limits={"hygon.com/dcunum": "1", "hygon.com/dcumem": "9000", "hygon.com/dcucores": "5"}))
    path = record(tmp_path, [*hami(), dcus(), limited(**{"hygon.com/dcumem": limit})])
    report = answer("fit", path, {}, file=[Manifest("pod.yaml", manifest)], also=manifest)
    assert codes(report) == [code]
    if code != "fits":
        assert cause(report).claim.startswith("HAMi's webhook denies")
