"""What each vendor's cards are given to, in sentences; the recorded verdicts are in `tests/test_vendor_verdicts.py`."""

import json

import msgspec
import pytest

from bot.hami.fit.advice import smaller_requests
from bot.hami.fit.filter import judge
from bot.hami.fit.verdicts import FITS, NodeCards
from bot.hami.fit.version_differences import rules_of
from bot.hami.nodes.cards import CardState
from bot.hami.pods.pod_request import PodRequest
from bot.hami.pods.request_parsing import DeviceConfig, pod_request
from bot.hami.vendors import VENDORS
from bot.hami.vendors.enflame import SliceProfile, SliceRequest, profile_for, read_profile
from bot.hami.vendors.kunlun import rounded
from bot.kube.models import ResourceQuota
from playbooks.quotes import of_card
from tests.hami.build import V210, card, node, pod, quota, view

MLU = "cambricon.com/vmlu"
MLU_MEMORY = "cambricon.com/mlu.smlu.vmemory"
MLU_CORES = "cambricon.com/mlu.smlu.vcore"
SGPU, SGPU_MEMORY, SGPU_CORES = (f"metax-tech.com/{name}" for name in ("sgpu", "vmemory", "vcore"))
APP_CLASS, QOS = "metax-tech.com/sgpu-app-class", "metax-tech.com/sgpu-qos-policy"


def judged(on, wanted, pods=(), quotas=()):
    request = pod_request(wanted, DeviceConfig(), V210)
    found = view([on], pods, quotas).judge("n1", request)
    return "fit" if found.fits else found.text()


def counted(annotations=None, labels=None, **amounts):
    """A node that is known by its capacity."""
    amounts = {name.replace("__", "/").replace("_dot_", "."): str(amount) for name, amount in amounts.items()}
    return node(annotations=annotations, labels=labels, capacity=amounts, allocatable=amounts)


def having(text, key="hami.io/cambricon-mlu-devices-allocated", name="other", **annotations):
    return pod(name, {}, annotations={"hami.io/vgpu-node": "n1", key: text, **annotations}, node="n1", phase="Running")


MLUS = node(capacity={MLU: "200", MLU_CORES: "200", MLU_MEMORY: "192"})
"""Two of 24,576 MiB."""


def test_an_mlu_without_cores_asked_for_is_a_whole_unused_one():
    part = having("n1-cambricon-mlu-0,MLU,1024,10:;")
    assert judged(MLUS, pod("wl", {MLU: "2"})) == "fit"
    assert judged(MLUS, pod("wl", {MLU: "2"}), [part]) == (
        "1/2 AllocatedCardsInsufficientRequest, 1/2 CardInsufficientMemory"
    )
    assert judged(MLUS, pod("wl", {MLU: "2", MLU_MEMORY: "8"}), [part]) == (
        "1/2 AllocatedCardsInsufficientRequest, 1/2 CardInsufficientCore"
    )


def test_an_mlu_s_memory_is_asked_for_in_units_of_256_mib():
    assert judged(MLUS, pod("wl", {MLU: "1", MLU_MEMORY: "96", MLU_CORES: "1"})) == "fit"
    assert judged(MLUS, pod("wl", {MLU: "1", MLU_MEMORY: "97", MLU_CORES: "1"})) == "2/2 CardInsufficientMemory"


def test_bytes_where_hami_counts_units_are_no_request_at_all():
    assert judged(MLUS, pod("wl", {MLU: "1", MLU_MEMORY: "16Gi"})) == "fit"
    assert pod_request(pod("wl", {MLU: "1", MLU_MEMORY: "16Gi"}), DeviceConfig(), V210).containers == ()


def limit(**hard):
    keys = {f"limits.cambricon.com/mlu.smlu.{key}": value for key, value in hard.items()}
    return msgspec.convert({"metadata": {"name": "q", "namespace": "ml"}, "spec": {"hard": keys}}, ResourceQuota)


def test_a_namespace_s_quota_on_mlus_counts_what_their_pods_have_and_a_whole_card_where_no_memory_is_asked_for():
    part = having("n1-cambricon-mlu-0,MLU,1024,10:;")
    wanted = pod("wl", {MLU: "1", MLU_MEMORY: "8", MLU_CORES: "10"})
    assert judged(MLUS, wanted, [part], [limit(vmemory="12")]) == "fit"
    assert judged(MLUS, wanted, [part], [limit(vmemory="11")]) == "2/2 ResourceQuotaNotFit"
    assert judged(MLUS, wanted, [part], [limit(vcore="19")]) == "2/2 ResourceQuotaNotFit"
    assert judged(MLUS, pod("wl", {MLU: "1"}), [], [limit(vmemory="95")]) == "2/2 ResourceQuotaNotFit"


def test_a_quota_on_nvidia_s_gpus_is_none_on_mlus():
    assert judged(MLUS, pod("wl", {MLU: "1"}), [], [quota(gpumem="1", gpucores="1")]) == "fit"


def test_two_containers_with_a_whole_metax_gpu_never_fit():
    two = counted(**{"metax-tech.com/gpu": 2})
    one = {"metax-tech.com/gpu": "1"}
    assert judged(two, pod("wl", {"metax-tech.com/gpu": "2"})) == "fit"
    assert judged(two, pod("wl", one, one)) == "1/2 CardNotFoundCustomFilterRule, 1/2 CardTimeSlicingExhausted"
    assert judged(two, pod("wl", one, init=[one])) == "fit"


def test_a_second_container_with_a_mthreads_gpu_gets_the_card_of_the_first():
    cards = counted(**{"mthreads.com/vgpu": 200, "mthreads.com/sgpu-core": 32, "mthreads.com/sgpu-memory": 192})
    share = {"mthreads.com/vgpu": "1", "mthreads.com/sgpu-memory": "48", "mthreads.com/sgpu-core": "8"}
    whole = {"mthreads.com/vgpu": "2", "mthreads.com/sgpu-memory": "96", "mthreads.com/sgpu-core": "16"}
    assert judged(cards, pod("wl", share, share)) == "fit"
    assert (
        judged(cards, pod("wl", share, share, share)) == "1/2 CardInsufficientMemory, 1/2 CardNotFoundCustomFilterRule"
    )
    assert judged(cards, pod("wl", whole, share)) == "2/2 CardNotFoundCustomFilterRule"


def shared_cards(*cards):
    usual = {"model": "MXC500", "totalDevCount": 16, "totalCompute": 100, "totalVRam": 65536, "healthy": True}
    listed = [{"uuid": f"GPU-{index}", **usual, **card} for index, card in enumerate(cards)]
    return node(annotations={"metax-tech.com/node-gpu-devices": json.dumps(listed)})


def sgpu(memory=None, cores=None, **annotations):
    limits = {SGPU: "1", SGPU_MEMORY: memory, SGPU_CORES: cores}
    named = {"app": APP_CLASS, "qos": QOS}
    return pod(
        "wl",
        {name: amount for name, amount in limits.items() if amount is not None},
        annotations={named[key]: value for key, value in annotations.items()},
    )


@pytest.mark.parametrize(
    ("memory", "mib"),
    [("2", 2048), ("512Mi", 512), ("2Gi", 2048), ("4G", 3814), ("2k", 0), (None, 0), ("2097151", 2147482624)],
)
def test_an_sgpu_s_memory_is_gib_or_bytes_where_a_letter_stands_in_it(memory, mib):
    (asked,) = pod_request(sgpu(memory, "10"), DeviceConfig(), V210).containers
    assert (asked.memory_mib, asked.percentage) == (mib, 0 if mib else 100)


def test_an_sgpu_takes_no_card_of_another_class_or_quality():
    key = "hami.io/metax-sgpu-devices-allocated"
    batch = having("GPU-0,Metax-SGPU,1024,10:;", key, **{APP_CLASS: "offline", QOS: "best-effort"})
    plain = having("GPU-0,Metax-SGPU,1024,10:;", key, **{QOS: "best-effort"})
    cards = shared_cards({"qosPolicy": "best-effort"})
    assert judged(cards, sgpu("1", "10", app="online"), [batch]) == "fit"
    assert judged(cards, sgpu("1", "10", qos="best-effort"), [batch]) == "1/1 CardAppClassMismatch"
    assert judged(cards, sgpu("1", "10", app="online"), [plain]) == "1/1 CardAppClassMismatch"
    assert judged(cards, sgpu("1", "10", qos="best-effort"), [plain]) == "fit"
    assert judged(cards, sgpu("1", "10", qos="fixed-share"), [plain]) == "1/1 CardQosPolicyMismatch"
    assert judged(cards, sgpu("1", "10", qos="fixed-share")) == "fit"


def test_more_than_all_cores_of_an_sgpu_fit_nowhere_and_a_sick_one_has_a_word_of_its_own():
    assert judged(shared_cards({}), sgpu("1", "120")) == "1/1 CardInsufficientCore"
    assert judged(shared_cards({"healthy": False}), sgpu("1", "10")) == "1/1 CardUnhealthy"


PROFILES = [SliceProfile(1, 8), SliceProfile(2, 16), SliceProfile(3, 24), SliceProfile(6, 48)]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (SliceRequest(2, 0, 0), (2, 34)),
        (SliceRequest(4, 0, 0), None),
        (SliceRequest(0, 9, 0), (2, 34)),
        (SliceRequest(0, 16384, 0), (2, 34)),
        (SliceRequest(0, 0, 35), (3, 50)),
        (SliceRequest(0, 48, 100), (6, 100)),
        (SliceRequest(0, 49, 0), None),
    ],
)
def test_a_slice_of_a_gcu_is_of_the_first_profile_that_serves(wanted, found):
    chosen = profile_for(PROFILES, wanted)
    assert (chosen and (chosen[0].size, chosen[1])) == found


def test_a_profile_s_name_says_slices_and_gigabytes():
    assert [read_profile(name) for name in ("2g.16gb", " 1G.6GB", "x.8gb", "4g")] == [(2, 16), (1, 6), (0, 8), (4, 0)]


def test_a_slice_is_one_user_of_a_gcu_however_large_it_is():
    text = json.dumps({"devices": [{"index": "0", "capacity": 6}], "profiles": {"1g.8gb": "0", "3g.24gb": "2"}})
    cards = node(annotations={"enflame.com/gcu-drs-capacity": text})
    held = having("n1-enflame-drs-0,Enflame,24576,100:;", "hami.io/enflame-vgpu-devices-allocated")
    three = {"enflame.com/drs-gcu": "3"}
    assert judged(cards, pod("wl", three)) == "fit"
    assert judged(cards, pod("wl", three), [held]) == "1/1 CardInsufficientMemory"
    assert judged(cards, pod("wl", {"enflame.com/drs-gcu": "2"})) == "1/1 ModeNotFit"
    assert judged(cards, pod("wl", {"enflame.com/drs-gcu": "1"}, {"enflame.com/drs-gcu": "3"})) == (
        "1/1 CardInsufficientMemory"
    )


def test_a_whole_gcu_serves_nobody_else():
    cards = counted(**{"enflame.com/gcu": 1})
    held = having("n1-GCU-0,GCU,100,100:;", "hami.io/enflame-gcu-devices-allocated")
    assert judged(cards, pod("wl", {"enflame.com/gcu": "1"})) == "fit"
    assert judged(cards, pod("wl", {"enflame.com/gcu": "1"}), [held]) == "1/1 ExclusiveDeviceAllocateConflict"


def kunluns(count, *used):
    text = ":".join(f"n1-kunlun-{index},kunlun,98304,100" for index in used)
    held = [having(f"{text}:;", "hami.io/kunlun-allocated")] if used else []
    return judged(counted(**{"kunlunxin.com/xpu": 8}), pod("wl", {"kunlunxin.com/xpu": str(count)}), held)


@pytest.mark.parametrize(("count", "said"), [(1, "fit"), (2, "fit"), (3, "1/8 NumaNotFit"), (4, "fit"), (8, "fit")])
def test_kunlun_cards_are_had_by_ones_twos_fours_or_all_eight(count, said):
    assert kunluns(count) == said


def test_kunlun_cards_of_two_wings_have_to_face_each_other():
    """Used cards come first in the order: the wings are of that order, what faces what goes by the index."""
    assert kunluns(8, 0) == "1/8 NumaNotFit"
    assert kunluns(4, 0, 1, 2, 3, 4) == "1/8 NumaNotFit"
    assert kunluns(1, *range(8)) == "1/8 NumaNotFit"


def vxpus(memory, *held):
    register = [{"id": "XPU-0", "count": 4, "devmem": 98304, "devcore": 100, "type": "XPU", "health": True}]
    cards = node(
        annotations={"hami.io/node-register-xpu": json.dumps(register)}, allocatable={"kunlunxin.com/vxpu": "4"}
    )
    pods = [
        having(f"XPU-0,XPU,{size},{size * 100 // 98304}:;", "hami.io/xpu-devices-allocated", f"held-{index}")
        for index, size in enumerate(held)
    ]
    return judged(cards, pod("wl", {"kunlunxin.com/vxpu": "1", "kunlunxin.com/vxpu-memory": str(memory)}), pods)


def test_a_vxpu_stands_beside_others_of_its_size_alone():
    assert [rounded(memory) for memory in (0, 1, 24577, 60000, 200000)] == [24576, 24576, 49152, 98304, 98304]
    assert vxpus(20000, 24576, 24576) == "fit"
    assert vxpus(20000, 49152) == "1/1 NumaNotFit"
    assert vxpus(49152, 49152) == "fit"
    assert vxpus(49152, 49152, 49152) == "1/1 NumaNotFit"


def neurons(kind, devices, wanted, *held):
    cards = counted(
        labels={"node.kubernetes.io/instance-type": kind},
        **{"aws.amazon.com/neuron": devices, "aws.amazon.com/neuroncore": 2 * devices},
    )
    pods = [
        having(f"n1-AWSNeuron-{index},AWSNeuron,0,{mask}:;", "hami.io/aws-neuron-devices-allocated", f"held-{index}")
        for index, mask in held
    ]
    return judged(cards, pod("wl", *({f"aws.amazon.com/{name}": str(amount)} for name, amount in wanted)), pods)


def test_several_neuron_devices_stand_in_a_row_and_on_trainium_four_eight_or_sixteen_at_once():
    assert neurons("trn1.32xlarge", 8, [("neuron", 2)]) == "1/8 NumaNotFit"
    assert neurons("trn1.32xlarge", 8, [("neuron", 4)]) == "fit"
    assert neurons("inf2.24xlarge", 6, [("neuron", 3)]) == "fit"
    assert neurons("inf2.24xlarge", 6, [("neuron", 6)], (0, 1)) == "1/6 NumaNotFit"


def test_a_neuron_device_serves_a_core_each_to_two():
    assert neurons("inf2.xlarge", 1, [("neuroncore", 1)], (0, 1)) == "fit"
    assert neurons("inf2.xlarge", 1, [("neuroncore", 2)], (0, 1)) == "1/1 CardInsufficientCore"
    assert neurons("inf2.xlarge", 1, [("neuron", 1)], (0, 1)) == "1/1 CardInsufficientCore"
    assert neurons("inf2.xlarge", 1, [("neuroncore", 1)] * 2) == "fit"
    assert neurons("inf2.xlarge", 1, [("neuroncore", 1)] * 3) == "1/1 CardTimeSlicingExhausted"


def amd(limits, *held, capacity=1):
    register = [{"id": "GPU-0", "count": 8, "devmem": 65536, "devcore": 110, "type": "amd-mi250x", "health": True}]
    cards = node(
        annotations={"hami.io/node-amd-register": json.dumps(register)}, capacity={"amd.com/gpu": str(capacity)}
    )
    pods = [
        having(f"GPU-0,amd-mi250x,{memory},{units}:;", "hami.io/amd-devices-allocated", f"held-{index}")
        for index, (memory, units) in enumerate(held)
    ]
    return judged(cards, pod("wl", {f"amd.com/{name}": str(amount) for name, amount in limits.items()}), pods)


def test_cores_of_an_amd_gpu_are_compute_units_of_which_a_percentage_is_asked_for():
    assert amd({"gpu": 1, "gpumem": 1024, "gpucores": 50}, (1024, 55)) == "fit"
    assert amd({"gpu": 1, "gpumem": 1024, "gpucores": 50}, (1024, 56)) == "1/1 CardInsufficientCore"
    assert amd({"gpu": 1}, (1024, 1)) == "1/1 CardInsufficientMemory"
    assert amd({"gpu": 1}) == "fit"


def test_an_amd_gpu_that_the_node_does_not_count_is_none():
    assert amd({"gpu": 1}, capacity=0) == "node unregistered"


def test_memory_of_an_amd_gpu_without_a_count_asks_for_nothing():
    assert amd({"gpumem": 999999}) == "fit"


@pytest.mark.parametrize("vendor", VENDORS, ids=lambda vendor: vendor.names.word)
def test_an_unused_card_of_every_vendor_bears_the_least_that_a_pod_can_ask(vendor):
    """So no question about a single card needs to know whose it is."""
    profiles = (("6g.48gb", 0),) if vendor.names.word == "Enflame" else ()
    cores = 3 if vendor.names.word == "AWSNeuron" else 100
    unused = CardState(card(type=vendor.names.word, slots=2, cores=cores, memory_mib=98304, mode="", custom=profiles))
    container, constraints = vendor.least(unused, vendor.names.word)
    asked = PodRequest("ml", "p", "", (msgspec.structs.replace(container, vendor=vendor.names.word),), constraints)
    assert judge(NodeCards([unused]), asked, rules_of(V210)) == FITS
    assert 0 < max(vendor.slices(unused)) <= 98304


def proposals(on, wanted, pods=()):
    cluster = view([on], pods)
    return [
        (request.what, request.amount)
        for request in smaller_requests(cluster, ["n1"], pod_request(wanted, DeviceConfig(), V210))
    ]


def test_a_smaller_amount_is_proposed_in_the_units_that_can_be_asked_for():
    wanted = pod("wl", {MLU: "1", MLU_MEMORY: "200", MLU_CORES: "1"})
    odd = node(capacity={MLU: "100", MLU_CORES: "100", MLU_MEMORY: "96"})
    held = having("n1-cambricon-mlu-0,MLU,100,10:;")
    assert proposals(odd, wanted, [held]) == [("memory", 95 * 256)]


def test_no_part_of_several_cards_is_proposed_where_only_one_card_is_shared():
    cards = counted(**{"mthreads.com/vgpu": 200, "mthreads.com/sgpu-core": 32, "mthreads.com/sgpu-memory": 192})
    held = having("n1-mthreads-0,Mthreads,1024,1:;", "hami.io/mthreads-vgpu-devices-allocated")
    wanted = pod("wl", {"mthreads.com/vgpu": "2", "mthreads.com/sgpu-core": "32", "mthreads.com/sgpu-memory": "192"})
    assert proposals(cards, wanted, [held]) == [("count", 1)]


def test_a_card_that_hami_made_up_is_shown_by_what_the_node_counts():
    shown = of_card(MLUS, "n1-cambricon-mlu-1")
    assert (shown.quote, shown.command) == (
        "200",
        r"kubectl get node n1 -o jsonpath='{.status.capacity.cambricon\.com/mlu\.smlu\.vcore}'",
    )
