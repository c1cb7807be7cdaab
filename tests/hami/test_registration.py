"""Register annotations in every encoding, right and wrong."""

import pytest

from bot.hami.nodes.cards import Card, MigProfile
from bot.hami.nodes.node_state import read_registrations
from bot.hami.nodes.registration import Registration, Unreadable
from bot.hami.vendors import FIRST as NVIDIA
from tests.hami.build import A30, card, mig_card, node, register_json, registered_under

KEY = "hami.io/node-nvidia-register"
SEVEN = "GPU-a02b30b8-5b20-131c-0e47-6bc99948e264,10,15360,100,NVIDIA-Tesla T4,0,true:"
NINE = "GPU-5114d1cc-6998-593e-0a18-91193cf4a2fa,10,81559,100,NVIDIA-NVIDIA H100 80GB HBM3,1,true,3,mig:"
JSON = (
    '[{"id":"GPU-1","index":2,"count":10,"devmem":15360,"devcore":100,"type":"NVIDIA-Tesla T4","numa":1,'
    '"mode":"hami-core","health":true}]'
)


def cards(text: str, key: str = KEY) -> tuple[Card, ...]:
    read = registered_under(key, text)
    assert isinstance(read, Registration), read
    return read.cards


def why(text: str, key: str = KEY) -> str:
    read = registered_under(key, text)
    assert isinstance(read, Unreadable), read
    return read.why


def test_text_of_seven_fields():
    (only,) = cards(SEVEN)
    assert only == Card(
        "GPU-a02b30b8-5b20-131c-0e47-6bc99948e264",
        10,
        15360,
        100,
        "NVIDIA-Tesla T4",
        health=True,
        mode="hami-core",
    )


def test_text_of_nine_fields():
    (only,) = cards(NINE)
    assert (only.numa, only.index, only.mode, only.type) == (1, 3, "mig", "NVIDIA-NVIDIA H100 80GB HBM3")


def test_cards_keep_the_order_in_which_they_were_registered():
    three = "".join(f"GPU-{name},1,1,1,NVIDIA,0,true,{index},:" for index, name in enumerate("zxy"))
    assert [card.uuid for card in cards(three)] == ["GPU-z", "GPU-x", "GPU-y"]
    listed = register_json(card("z"), card("x"), card("y"))
    assert [card.uuid for card in cards(listed)] == ["z", "x", "y"]


def test_what_is_no_number_in_a_text_is_zero_and_what_is_too_large_the_largest():
    (only,) = cards("GPU-1,x,1e3,99999999999,NVIDIA,,yes:")
    assert (only.slots, only.memory_mib, only.cores, only.numa, only.health) == (0, 0, 2**31 - 1, 0, False)


def test_foreign_digits_are_no_numbers():
    assert cards("GPU-1,٣,1,1,NVIDIA,0,true:")[0].slots == 0


@pytest.mark.parametrize(("word", "healthy"), [("true", True), ("1", True), ("T", True), ("tRUE", False), ("", False)])
def test_health_is_a_go_boolean(word, healthy):
    assert cards(f"GPU-1,1,1,1,NVIDIA,0,{word}:")[0].health is healthy


def test_json():
    assert cards(JSON) == (
        Card("GPU-1", 10, 15360, 100, "NVIDIA-Tesla T4", numa=1, health=True, index=2, mode="hami-core"),
    )


def test_what_json_leaves_out_is_zero_and_health_false():
    (only,) = cards('[{"id":"GPU-1","count":10}]')
    assert only == Card("GPU-1", 10, 0, 0, "", numa=0, health=False, index=0, mode="")


def test_unknown_keys_are_ignored_and_the_last_of_equal_keys_counts():
    text = '[{"id":"x","id":"GPU-1","devicevendor":"NVIDIA","custominfo":{"NetworkID":1},"count":3}]'
    assert [(card.uuid, card.slots) for card in cards(text)] == [("GPU-1", 3)]


def test_mig_profiles():
    assert cards(register_json(mig_card()))[0].mig_profiles == A30


def test_a_mig_profile_without_places_is_written_as_null():
    (only,) = cards('[{"id":"g","migProfiles":[{"name":"1g","memoryMB":1,"placements":null}]}]')
    assert only.mig_profiles == (MigProfile("1g", 1, 0, 0, None),)
    assert cards('[{"id":"g","migProfiles":null}]')[0].mig_profiles == ()


@pytest.mark.parametrize(
    "text",
    [
        '[{"id":1}]',
        '[{"id":"g","count":"10"}]',
        '[{"id":"g","count":1.5}]',
        '[{"id":"g","devmem":2147483648}]',
        '[{"id":"g","devcore":-2147483649}]',
        '[{"id":"g","index":-1}]',
        '[{"id":"g","health":"true"}]',
        '[{"id":"g","count":NaN}]',
        '[{"id":"g","count":1e999}]',
        '[{"id":"g"},1]',
        '[{"id":"g"}',
        '[{"id":"g"}] trailing',
        '{"id":"g"}',
        "[" * 5000,
        '[{"id":"\ud800"}]',
        "no separators at all",
        "GPU-1,1,1,1,NVIDIA,0:",
        "GPU-1,1,1,1,NVIDIA,0,true,1:",
        "a,b:c",
    ],
)
def test_one_wrong_card_makes_the_whole_registration_unreadable(text):
    assert why(text).startswith("unreadable")


@pytest.mark.parametrize(("text", "reason"), [("", "empty"), ("  ", "empty")])
def test_an_empty_registration_is_empty(text, reason):
    assert why(text) == reason


@pytest.mark.parametrize("text", ["[]", "null", ":", "::", " [ ] "])
def test_a_registration_without_cards_says_so(text):
    assert why(text) == "no device in it"


def test_the_encoding_is_told():
    assert registered_under(KEY, JSON).encoding == "json"  # type: ignore[union-attr]
    assert registered_under(KEY, NINE).encoding == "text"  # type: ignore[union-attr]


# ------------------------------------------------------------------ other vendors


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        '{"devices":[{"index":0,"capacity":6}],"profiles":{"6g.42gb":"1"}}',
        '{"devices":[{"index":"0","capacity":0}],"profiles":{"6g.42gb":"1"}}',
        '{"devices":[{"index":"0","capacity":6}],"profiles":{"a":"1"}}',
        '{"devices":[],"profiles":{"6g.42gb":"1"}}',
    ],
)
def test_an_enflame_list_with_one_wrong_field_registers_nothing(text):
    assert isinstance(registered_under("enflame.com/gcu-drs-capacity", text), Unreadable)


@pytest.mark.parametrize(
    ("resource", "amount", "word", "count"),
    [
        ("cambricon.com/mlu.smlu.vcore", "800", "MLU", 8),
        ("mthreads.com/sgpu-core", "32", "Mthreads", 2),
        ("metax-tech.com/gpu", "8", "Metax-GPU", 8),
        ("enflame.com/gcu", "4", "GCU", 4),
        ("kunlunxin.com/xpu", "8", "kunlun", 8),
        ("iluvatar.ai/vcuda-core", "400", "Iluvatar", 4),
        ("aws.amazon.com/neuron", "2", "AWSNeuron", 2),
    ],
)
def test_vendors_without_an_annotation_are_counted_by_capacity(resource, amount, word, count):
    (only,) = read_registrations(node(capacity={resource: amount}))
    assert isinstance(only, Registration)
    assert (only.word, only.encoding, len(only.cards)) == (word, "capacity", count)


def test_a_vendor_that_registers_is_not_counted_again():
    found = read_registrations(
        node("n1", {"hami.io/node-amd-register": JSON, KEY: JSON}, capacity={"amd.com/gpu": "8", "nvidia.com/gpu": "8"})
    )
    assert [(entry.vendor.word, len(entry.cards)) for entry in found if isinstance(entry, Registration)] == [
        ("AMD", 1),
        ("NVIDIA", 1),
    ]


def test_an_absurd_capacity_makes_no_absurd_list():
    (only,) = read_registrations(node(capacity={"kunlunxin.com/xpu": "9E"}))
    assert isinstance(only, Registration)
    assert len(only.cards) == 1024


def test_a_node_without_anything_registers_nothing():
    assert read_registrations(node()) == []
    assert read_registrations(node("n", {KEY: ""})) == [Unreadable(NVIDIA.names, "NVIDIA", KEY, "empty")]


def test_cards_of_one_type_share_its_text_whatever_node_registers_them():
    [here], [elsewhere] = cards(JSON), cards(JSON.replace("GPU-1", "GPU-2"))
    assert here.type is elsewhere.type
    assert here.mode is elsewhere.mode
