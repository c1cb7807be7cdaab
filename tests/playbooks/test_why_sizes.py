"""A request that is larger than the cards of the nodes that the pod chose: waiting is no advice then."""

import json
import shlex
from pathlib import Path

import pytest

from bot.report import Report
from handlers.shell_output import asked_there
from playbooks.fit.manifest import Manifest
from tests.playbooks.tables import table
from tests.playbooks.world import (
    Object,
    answer,
    ask,
    card,
    cause,
    cluster,
    codes,
    gpu,
    gpu_node,
    node,
    none_of,
    pod,
    quotes,
    record,
    refused,
    running,
    scheduler,
)
from tests.vendor_worlds import CHART

SMALL = 15360
LARGE = 81920
AFFINITY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "pool", "operator": "In", "values": ["small"]}]}]
        }
    }
}


def pool(name: str, memory: int, kind: str, **fields: object) -> Object:
    return gpu_node(name, card(f"GPU-{name}", memory, type=f"NVIDIA {kind}"), labels={"pool": kind}, **fields)


def small(name: str = "gpu-1", **fields: object) -> Object:
    return pool(name, SMALL, "small", **fields)


def large(name: str = "gpu-2", **fields: object) -> Object:
    return pool(name, LARGE, "large", **fields)


def asked(tmp_path: Path, waiting: Object, *nodes: Object) -> Report:
    waiting["status"]["conditions"] = [refused(none_of(len(nodes), "1 1/1 CardInsufficientMemory"))]
    return ask(tmp_path, cluster(waiting, *nodes))


def labels_of(report: Report) -> list[str]:
    return [action.label for action in cause(report).next_actions]


def test_more_than_the_chosen_nodes_cards_have_is_told_as_such_and_where_it_would_fit(tmp_path: Path) -> None:
    report = asked(tmp_path, pod(limits=gpu(memory=20000), nodeSelector={"pool": "small"}), small(), large())
    assert codes(report)[0] == "card-insufficient-memory"
    expected = "No GPU of gpu-1 has the 20,000 MiB asked for: at most 15,360 MiB (NVIDIA small). Waiting will not help."
    assert report.verdict == expected
    assert any('"devmem": 15360' in quote for quote in quotes(report))
    assert (
        "from the nodeSelector, if the pod may run elsewhere (gpu-2 would take the pod now); in Pod"
        in labels_of(report)[0]
    )
    assert "at most 15,360 MiB per GPU" in labels_of(report)[1]


def test_a_node_affinity_is_loosened_as_well(tmp_path: Path) -> None:
    report = asked(tmp_path, pod(limits=gpu(memory=20000), affinity=AFFINITY), small(), large())
    assert (
        "Remove the required nodeAffinity pool In small (gpu-2 would take the pod now); in Pod ml/wl"
        in labels_of(report)[0]
    )


def test_nodes_that_would_not_take_it_either_are_not_offered(tmp_path: Path) -> None:
    taints = [{"key": "team", "value": "a", "effect": "NoSchedule"}]
    waiting = pod(limits=gpu(memory=20000), nodeSelector={"pool": "small"})
    report = asked(tmp_path, waiting, small(), large(taints=taints), small("gpu-3", taints=taints))
    assert "Waiting will not help" in report.verdict
    assert not any("nodeSelector" in label for label in labels_of(report))


def test_a_selection_that_is_too_narrow_in_two_ways_is_no_matter_of_one_of_them(tmp_path: Path) -> None:
    waiting = pod(limits=gpu(memory=20000), nodeSelector={"pool": "small", "zone": "a"})
    here = small()
    here["metadata"]["labels"]["zone"] = "a"
    assert "Remove " in labels_of(asked(tmp_path, waiting, here, large()))[0]


def test_the_pods_own_type_annotation_chooses_too(tmp_path: Path) -> None:
    waiting = pod(limits=gpu(memory=20000), annotations={"nvidia.com/use-gputype": "small"})
    report = asked(tmp_path, waiting, small(), large())
    told = next(finding for finding in report.findings if finding.code == "card-insufficient-memory")
    assert "No GPU of gpu-1 has the 20,000 MiB asked for" in told.claim


def test_where_a_card_is_large_enough_waiting_may_help(tmp_path: Path) -> None:
    report = asked(tmp_path, pod(limits=gpu(memory=15000), nodeSelector={"pool": "small"}), small(), large())
    assert "Waiting will not help" not in report.verdict


def test_cards_that_cannot_be_read_might_be_larger(tmp_path: Path) -> None:
    unread = small("gpu-3")
    del unread["metadata"]["annotations"]["hami.io/node-nvidia-register"]
    waiting = pod(limits=gpu(memory=20000), nodeSelector={"pool": "small"})
    report = asked(tmp_path, waiting, small(), large(), unread)
    assert not any("Waiting will not help" in finding.claim for finding in report.findings)


def steps_of(report: Report) -> list[tuple[str, str, bool]]:
    return [(action.label, action.command, action.changes_cluster) for action in cause(report).next_actions]


def owned(waiting: Object, kind: str, name: str) -> Object:
    waiting["metadata"]["ownerReferences"] = [{"kind": kind, "name": name, "uid": "u-1", "controller": True}]
    return waiting


def test_a_smaller_request_is_written_where_it_is_set_with_the_value_now_and_the_command(tmp_path: Path) -> None:
    waiting = owned(pod(limits=gpu(memory=20000)), "StatefulSet", "trainer")
    label, command, changes = steps_of(asked(tmp_path, waiting, small()))[0]
    assert "in StatefulSet ml/trainer set limits nvidia.com/gpumem: 15360 (now 20000); its pods are created" in label
    wl = waiting["spec"]["containers"][0]["name"]
    amount = "nvidia.com/gpumem=15360"
    target = f"statefulset/trainer -c {wl}"
    assert command == f"kubectl -n ml set resources {target} --limits={amount} --requests={amount}"
    assert changes


def test_what_cannot_be_changed_in_place_is_said_to_be_made_anew(tmp_path: Path) -> None:
    alone = steps_of(asked(tmp_path / "alone", pod(limits=gpu(memory=20000)), small()))[0]
    assert "in Pod ml/wl set limits" in alone[0]
    assert alone[0].endswith("its spec is fixed: delete it and create it anew")
    assert alone[1].startswith(
        "kubectl -n ml get pod wl -o yaml | kubectl set resources --local -f - -c main --limits="
    )
    assert alone[1].endswith(" -o yaml | kubectl replace --force -f -")
    assert alone[2]
    job = steps_of(asked(tmp_path / "job", owned(pod(limits=gpu(memory=20000)), "Job", "train"), small()))[0]
    assert "in Job ml/train set limits" in job[0]
    assert job[0].endswith("its pod template is fixed: delete the Job and create it anew")
    assert job[1:] == ("kubectl -n ml get job train -o yaml", True)


def test_the_job_of_an_operator_is_not_taken_for_one_of_kubernetes(tmp_path: Path) -> None:
    waiting = owned(pod(limits=gpu(memory=20000)), "Job", "train")
    waiting["metadata"]["ownerReferences"][0]["apiVersion"] = "batch.volcano.sh/v1alpha1"
    label, command, _ = steps_of(asked(tmp_path, waiting, small()))[0]
    assert "in Job (batch.volcano.sh) ml/train set limits" in label
    assert command == "kubectl -n ml get job.batch.volcano.sh train -o yaml"


@pytest.mark.parametrize(
    ("waiting", "told", "patch"),
    [
        (
            pod(limits=gpu(memory=20000), nodeSelector={"pool": "small"}),
            "Remove pool=small from the nodeSelector",
            {"spec": {"nodeSelector": {"pool": None}}},
        ),
        (
            pod(limits=gpu(memory=1000), annotations={"nvidia.com/use-gputype": "H20"}),
            "Remove the annotation nvidia.com/use-gputype: H20",
            {"metadata": {"annotations": {"nvidia.com/use-gputype": None}}},
        ),
    ],
    ids=["selector", "annotation"],
)
def test_what_has_to_go_goes_by_a_patch_of_the_template_that_makes_the_pods(
    tmp_path: Path, waiting: Object, told: str, patch: Object
) -> None:
    steps = steps_of(asked(tmp_path, owned(waiting, "Deployment", "web"), small(), large()))
    _, command, changes = next(one for one in steps if told in one[0])
    *kubectl, written = shlex.split(command)
    assert kubectl == ["kubectl", "-n", "ml", "patch", "deployment/web", "-p"]
    assert json.loads(written) == {"spec": {"template": patch}}
    assert changes


def test_every_part_of_a_command_that_replaces_a_pod_asks_the_cluster_that_was_asked(tmp_path: Path) -> None:
    report = asked_there(asked(tmp_path, pod(limits=gpu(memory=20000)), small()), ("--context", "lab"), ())
    command = steps_of(report)[0][1]
    assert command.startswith("kubectl --context lab -n ml get pod wl -o yaml | kubectl --context lab set resources ")
    assert command.endswith(" | kubectl --context lab replace --force -f -")


def test_nobody_who_asked_for_a_whole_gpu_is_told_to_ask_for_99_percent_of_its_cores(tmp_path: Path) -> None:
    limits = gpu(memory=1000, cores=100)
    busy = running("holder", "gpu-1", ("GPU-gpu-1", 1000, 1))
    waiting = pod(limits=limits, said=refused(none_of(1, "1 1/1 ExclusiveDeviceAllocateConflict")))
    assert not any("cores" in label for label, *_ in steps_of(ask(tmp_path, cluster(waiting, small(), busy))))


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
    counted = "n-1: 1 of 2 DCUs with less than 4,000 MiB free"
    assert cause(report).claim == f"{counted}; too few are left for the pod's 2 on one node."


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
    assert cause(report).claim == "No usable GPU of n-1 has 12/16 of its cores free; at most 8/16 are."
    assert "Request at most 8/16 of the cores (n-1 would take the pod)" in cause(report).next_actions[0].label


def test_memory_is_proposed_in_units_of_the_resource(tmp_path: Path) -> None:
    mlu = {"cambricon.com/vmlu": 1, "cambricon.com/mlu.smlu.vcore": 100, "cambricon.com/mlu.smlu.vmemory": 96}
    asked = {"cambricon.com/vmlu": "1", "cambricon.com/mlu.smlu.vcore": "5", "cambricon.com/mlu.smlu.vmemory": "95"}
    busy = holder("hami.io/cambricon-mlu-devices-allocated", "n-1-cambricon-mlu-0,MLU,12288,5:;")
    report = why(tmp_path, "1/1 CardInsufficientMemory", asked, counted(**mlu), busy)
    step = "Request at most 12,288 MiB (cambricon.com/mlu.smlu.vmemory: 48) per MLU (n-1 would take the pod)"
    assert step in cause(report).next_actions[0].label


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
    assert step in cause(report).next_actions[0].label


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
