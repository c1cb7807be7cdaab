"""What each vendor's cards are given to, in sentences; the recorded verdicts are in `tests/test_vendor_verdicts.py`."""

import json

import msgspec
import pytest

from bot.hami.fit.advice import smaller_requests
from bot.hami.fit.filter import judge
from bot.hami.fit.verdicts import FITS, NodeCards
from bot.hami.nodes.cards import CardState
from bot.hami.pods.request_parsing import DeviceConfig, pod_request
from bot.hami.vendors import VENDORS
from bot.hami.version import rules_of
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


def test_memory_of_an_amd_gpu_without_a_count_asks_for_nothing():
    assert amd({"gpumem": 999999}) == "fit"


@pytest.mark.parametrize("vendor", VENDORS, ids=lambda vendor: vendor.names.word)
def test_an_unused_card_of_every_vendor_bears_the_least_that_a_pod_can_ask(vendor):
    """So no question about a single card needs to know whose it is."""
    profiles = (("6g.48gb", 0),) if vendor.names.word == "Enflame" else ()
    cores = 3 if vendor.names.word == "AWSNeuron" else 100
    unused = CardState(card(type=vendor.names.word, slots=2, cores=cores, memory_mib=98304, mode="", custom=profiles))
    assert judge(NodeCards([unused]), vendor.least(unused, vendor.names.word), rules_of(V210)) == FITS
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
