"""The made-up cluster is one that HAMi 2.10 could have left."""

import json
import re
from collections import defaultdict
from datetime import UTC, datetime

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
