"""Whether a version's scheduler takes in a node's NVIDIA cards, and why not."""

import pytest

from bot.hami.nodes.node_state import cordoned_uuids, expects_gpus
from bot.hami.nodes.registration import Registration, Unregistered, kubelet_offers
from bot.hami.pods.pod_request import Resources
from bot.hami.pods.request_parsing import DeviceConfig
from bot.hami.vendors import FIRST as NVIDIA
from bot.hami.vendors.nvidia import read_link_scores
from tests.hami.build import NOW, V25, V26, V27, V28, V29, V210, VERSIONS, card, gpu_node, node, register_json

KEY = "hami.io/node-nvidia-register"
GPUS = Resources("nvidia.com/gpu")
TEXT = "GPU-0,10,16384,100,NVIDIA-Tesla T4,0,true,0,hami-core:"
JSON = register_json(card())
TEXTUAL, IN_JSON = (V25, V26, V27), (V28, V29, V210)


def registration(subject, version):
    return NVIDIA.registration(subject, version, NOW, GPUS)


def why(version, text=None, allocatable=10, **annotations):
    """`registered`, or why not, for a node with that register annotation in the version's own format by default."""
    own = (JSON if version in IN_JSON else TEXT) if text is None else text
    given = {KEY: own, **{f"hami.io/{key.replace('_', '-')}": value for key, value in annotations.items()}}
    read = registration(node("n1", given, allocatable={"nvidia.com/gpu": str(allocatable)}), version)
    return read.why if isinstance(read, Unregistered) else "registered"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_node_without_the_annotation_is_absent(version):
    read = registration(node("n1", {"hami.io/node-handshake": "x"}), version)
    assert isinstance(read, Unregistered)
    assert read.why == "absent"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("text", ["", "  ", "[]", "null", "nonsense", "[{]", '[{"id":1}]', "GPU-0,10,1:"])
def test_an_unusable_annotation_is_unreadable_and_quoted(version, text):
    read = registration(node("n1", {KEY: text}), version)
    assert isinstance(read, Unregistered)
    assert (read.why, read.key, read.quote) == ("unreadable", KEY, text or "empty")


def test_each_generation_reads_only_its_own_format_and_the_other_s_cards_are_still_told():
    assert [why(version, TEXT) for version in VERSIONS] == ["registered"] * 3 + ["other-format"] * 3
    assert [why(version, JSON) for version in VERSIONS] == ["other-format"] * 3 + ["registered"] * 3
    read = registration(node("n1", {KEY: TEXT}), V210)
    assert isinstance(read, Unregistered)
    assert read.registration is not None
    assert read.registration.cards[0].uuid == "GPU-0"


@pytest.mark.parametrize("score", ["", "x", "{}", "[1]", '[{"uuid":1}]', '[{"uuid":"a","score":{"b":"1"}}]'])
def test_link_scores_that_are_no_such_json_unregister_the_node_from_2_8(score):
    for version in IN_JSON:
        assert why(version, node_nvidia_score=score) == "score-unreadable"
    for version in TEXTUAL:
        assert why(version, node_nvidia_score=score) == "registered"


@pytest.mark.parametrize("score", ["null", "[]", '[{"uuid":"a","score":null}]', '[{"uuid":"a"}]', '[{"x":1}]'])
def test_link_scores_may_be_empty(score):
    assert read_link_scores(score) == {}
    assert why(V210, node_nvidia_score=score) == "registered"


def test_link_scores_are_told_by_pair():
    text = '[{"uuid":"a","score":{"b":100,"c":20}},{"uuid":"b","score":{"a":100}}]'
    assert read_link_scores(text) == {("a", "b"): 100, ("a", "c"): 20, ("b", "a"): 100}


# ------------------------------------------------------------------ handshake and allocatable


@pytest.mark.parametrize("version", [V29, V210])
@pytest.mark.parametrize("handshake", [None, "Requesting_2026-11-21 04:59:30", "Deleted_2026-11-21 04:00:00", "17"])
def test_2_9_and_2_10_take_in_and_drop_a_node_without_allocatable_cards_by_turns(version, handshake):
    given = {} if handshake is None else {"node_handshake": handshake}
    assert why(version, allocatable=0, **given) == "registered"
    annotations = {"hami.io/node-handshake": handshake} if handshake else {}
    assert NVIDIA.is_held_by_turns(gpu_node("n1", card(), annotations=annotations, allocatable=0), version, NOW, GPUS)


def test_a_node_with_allocatable_cards_is_held():
    for version in VERSIONS:
        assert not NVIDIA.is_held_by_turns(gpu_node("n1", card()), version, NOW, GPUS)
    assert not NVIDIA.is_held_by_turns(gpu_node("n1", card(), allocatable=0), V28, NOW, GPUS)


def test_a_renamed_count_resource_is_asked_for():
    offering = node("n1", {KEY: JSON}, allocatable={"example.com/gpu": "8"})
    assert isinstance(NVIDIA.registration(offering, V28, NOW, Resources("example.com/gpu")), Registration)
    assert isinstance(registration(offering, V28), Unregistered)
    assert kubelet_offers(offering, "example.com/gpu") == 8
    assert kubelet_offers(node(), GPUS.count) == 0


# ------------------------------------------------------------------ the rest


@pytest.mark.parametrize(
    ("text", "uuids"),
    [
        (None, set()),
        ("", set()),
        (" , ", set()),
        ("GPU-1", {"GPU-1"}),
        (" GPU-1 ,GPU-2,", {"GPU-1", "GPU-2"}),
    ],
)
def test_cordoned_cards_are_a_trimmed_list(text, uuids):
    annotations = None if text is None else {"hami.io/device-cordon": text}
    assert cordoned_uuids(node("n1", annotations)) == uuids


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        (node("cpu"), False),
        (node("cpu", {"hami.io/node-handshake": "Requesting_2026-11-21 05:00:00"}), False),
        (node("gpu", {KEY: ""}), True),
        (node("gpu", allocatable={"nvidia.com/gpu": "1"}), True),
        (node("gpu", allocatable={"nvidia.com/gpu": "0"}, capacity={"nvidia.com/gpu": "8"}), True),
        (node("cpu", allocatable={"nvidia.com/gpu": "0"}), False),
        (node("gpu", labels={"gpu": "on"}), True),
        (node("cpu", labels={"gpu": "off"}), False),
    ],
)
def test_which_nodes_are_meant_to_have_cards(subject, expected):
    assert expects_gpus(subject, DeviceConfig()) is expected
