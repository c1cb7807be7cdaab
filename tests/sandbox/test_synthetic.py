"""The made-up cluster is one that HAMi 2.10 could have left."""

import json
import re
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta

import pytest

from sandbox.synthetic import synthetic_cluster

NOW = datetime(2026, 11, 21, 5, 0, tzinfo=UTC)


@pytest.fixture(scope="module")
def cluster():
    return synthetic_cluster(20, 400, now=NOW)


def cards_of(cluster):
    """The registered cards by uuid."""
    registers = (node["metadata"]["annotations"]["hami.io/node-nvidia-register"] for node in cluster["nodes"])
    return {card["id"]: card for register in registers for card in json.loads(register)}


def used_of(cluster):
    """What unfinished pods hold: (memory, cores, slots) by the card's uuid."""
    used = defaultdict(lambda: [0, 0, 0])
    for pod in cluster["pods"]:
        devices = pod["metadata"].get("annotations", {}).get("hami.io/vgpu-devices-allocated", "")
        for device in filter(None, re.split("[:;]", devices)):
            uuid, _, memory, cores = device.split(",")
            used[uuid] = [sum(pair) for pair in zip(used[uuid], (int(memory), int(cores), 1), strict=True)]
    return used


def test_the_same_arguments_give_the_same_objects():
    assert synthetic_cluster(3, 30, seed=7, now=NOW) == synthetic_cluster(3, 30, seed=7, now=NOW)
    assert synthetic_cluster(3, 30, seed=7, now=NOW) != synthetic_cluster(3, 30, seed=8, now=NOW)


def test_there_are_as_many_nodes_and_pods_as_asked_for(cluster):
    assert (len(cluster["nodes"]), len(cluster["pods"])) == (20, 400)
    names = Counter((pod["metadata"]["namespace"], pod["metadata"]["name"]) for pod in cluster["pods"])
    assert max(names.values()) == 1


def test_objects_have_the_size_of_real_ones(cluster):
    def mean(items):
        return sum(len(json.dumps(item, separators=(",", ":"))) for item in items) / len(items)

    assert 11_000 < mean(cluster["nodes"]) < 13_000
    assert 4_200 < mean(cluster["pods"]) < 5_200


@pytest.mark.parametrize(("nodes", "pods"), [(20, 400), (4, 500)])
def test_no_card_is_over_booked(nodes, pods):
    cluster = synthetic_cluster(nodes, pods, gpus_per_node=4, now=NOW)
    cards, used = cards_of(cluster), used_of(cluster)
    assert set(used) <= set(cards)
    for uuid, (memory, cores, slots) in used.items():
        assert memory <= cards[uuid]["devmem"]
        assert cores <= cards[uuid]["devcore"]
        assert slots < cards[uuid]["count"]


def test_about_a_fifth_of_the_pods_hold_cards_and_some_have_finished(cluster):
    holders = [pod for pod in cluster["pods"] if "hami.io/vgpu-node" in pod["metadata"]["labels"]]
    assert len(holders) == 72
    for pod in holders:
        assert pod["metadata"]["annotations"]["hami.io/vgpu-node"] == pod["spec"]["nodeName"]
        assert pod["spec"]["schedulerName"] == "hami-scheduler"
    assert {pod["status"]["phase"] for pod in cluster["pods"]} == {"Running", "Succeeded", "Pending"}


def test_a_pod_holds_cards_of_its_own_node(cluster):
    registered = {
        node["metadata"]["name"]: node["metadata"]["annotations"]["hami.io/node-nvidia-register"]
        for node in cluster["nodes"]
    }
    for pod in cluster["pods"]:
        devices = pod["metadata"].get("annotations", {}).get("hami.io/vgpu-devices-allocated", "")
        for device in filter(None, re.split("[:;]", devices)):
            assert device.split(",")[0] in registered[pod["spec"]["nodeName"]]


@pytest.mark.parametrize(("nodes", "pods", "gpus"), [(1, 0, 1), (1, 500, 2), (20, 400, 8), (40, 50, 8)])
def test_the_pending_pod_fits_no_card_now_and_some_card_when_empty(nodes, pods, gpus):
    cluster = synthetic_cluster(nodes, pods, gpus_per_node=gpus, now=NOW)
    cards, used = cards_of(cluster), used_of(cluster)
    [pending] = [pod for pod in cluster["pods"] if pod["status"]["phase"] == "Pending"]
    assert pending["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpumem"] == "80k"
    assert max(card["devmem"] for card in cards.values()) >= 80_000
    assert max(card["devmem"] - used[uuid][0] for uuid, card in cards.items()) < 80_000


def test_what_is_said_about_the_pending_pod_agrees_with_the_nodes(cluster):
    [pending] = [pod for pod in cluster["pods"] if pod["status"]["phase"] == "Pending"]
    [condition] = pending["status"]["conditions"]
    assert condition["message"].startswith("0/20 nodes are available: 20 8/8 CardInsufficientMemory. ")
    uids = {event["involvedObject"]["uid"] for event in cluster["events"]}
    assert uids == {pending["metadata"]["uid"]}
    messages = [event["message"] for event in cluster["events"]]
    assert messages[0].startswith("20 nodes CardInsufficientMemory(gpu-node-00000,gpu-node-00001,")
    assert messages[1:] == ["no available node, 20 nodes do not meet", condition["message"]]


def test_the_scheduler_leads_with_a_fresh_lease():
    cluster = synthetic_cluster(1, 0)
    [lease] = cluster["leases.coordination.k8s.io"]
    [scheduler] = [pod for pod in cluster["pods"] if "hami.io/scheduler-role" in pod["metadata"]["labels"]]
    assert lease["spec"]["holderIdentity"].startswith(scheduler["metadata"]["name"] + "_")
    assert datetime.now(UTC) - datetime.fromisoformat(lease["spec"]["renewTime"]) < timedelta(minutes=1)  # noqa: TID251
    assert [container["name"] for container in scheduler["spec"]["containers"]] == [
        "kube-scheduler",
        "vgpu-scheduler-extender",
    ]


def test_every_address_is_loopback(cluster):
    addresses = re.findall(r'"((?:\d{1,3}\.){3}\d{1,3})"', json.dumps(cluster))
    assert len(addresses) > 400
    assert {address.partition(".")[0] for address in addresses} == {"127"}
