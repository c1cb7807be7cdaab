"""What holds for any text and any cluster: no parser raises or dawdles, and the fit obeys its own logic."""

import json
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from bot.hami.fit.filter import judge, read_weights
from bot.hami.fit.verdicts import ALLOCATED_INSUFFICIENT, NodeCards, Verdict
from bot.hami.nodes.cards import CardState, read_mig_allocations
from bot.hami.nodes.node_lock import lock_complaint, parse_lock
from bot.hami.nodes.registration import judge_by_guides, parse_handshake
from bot.hami.pods.allocations import decode_allocations
from bot.hami.pods.pod_request import PodRequest
from bot.hami.pods.request_parsing import read_device_config
from bot.hami.scheduler_logs.filter_runs import rebuild
from bot.hami.scheduler_logs.log_lines import lines_about, parse_line
from bot.hami.scheduler_logs.scheduling_events import (
    REASONS,
    chosen_node,
    finding_code,
    parse_code_event,
    parse_unschedulable,
    read_reason,
    says_none_fit,
    strip_combined,
)
from bot.hami.vendors import vendor_of_register_key
from bot.hami.vendors.nvidia import read_link_scores
from bot.hami.version import parse_version, rules_of
from tests.hami.build import (
    NOW,
    V28,
    V210,
    VERSIONS,
    card,
    mig_card,
    register_json,
    registered_under,
    request,
    state,
    wants,
)
from tests.sampling import examples

REGISTER_KEYS = (
    "hami.io/node-nvidia-register",
    "hami.io/node-dcu-register",
    "hami.io/node-register-Ascend910B3",
    "metax-tech.com/node-gpu-devices",
    "enflame.com/gcu-drs-capacity",
)
HEAD = "I1121 04:59:58.123456   15866 score.go:1] "

Parser = Callable[[str], object]
PARSERS: dict[str, tuple[Parser, tuple[str, ...]]] = {
    "registration": (
        lambda text: [registered_under(key, text) for key in REGISTER_KEYS],
        (register_json(card(), mig_card()), "GPU-1,10,15360,100,NVIDIA-Tesla T4,0,true,0,hami-core:", "[]"),
    ),
    "handshake": (
        lambda text: [judge_by_guides(parse_handshake(text), version, 0, NOW) for version in VERSIONS],
        (
            "Reported 2024-11-10 11:05:48.756620661 +0000 UTC m=+2976.676870749",
            "Requesting_2025-08-07 11:28:25",
            "Deleted_2024.11.11 05:16:13",
            "1755561600",
            "2025-08-07T11:28:25+08:00",
        ),
    ),
    "lock": (
        lambda text: [parse_lock(text, version) for version in (*VERSIONS, None)] + [lock_complaint(text)],
        ("2025-08-06T05:51:42Z,default,pod", "node gpu-a has been locked within 5m0s: node lock contention"),
    ),
    "allocations": (
        lambda text: [decode_allocations(text, version) for version in (V28, V210)],
        ("GPU-a,NVIDIA,3000,10:GPU-b[0-1],NVIDIA,5000,0:;;",),
    ),
    "messages": (
        lambda text: (
            parse_unschedulable(text),
            parse_code_event(text),
            read_reason(text),
            says_none_fit(text),
            chosen_node(text),
            strip_combined(text),
            finding_code(text),
        ),
        (
            "0/3 nodes are available: 1 1/2 CardTypeMismatch, 1/2 CardCordoned, 2 node unregistered. preemption: 0/3 x",
            "3 nodes CardInsufficientMemory(gpu-a,gpu-b)",
            "Bindingfailed: CardInsufficientMemory on node gpu-node-01",
            "Successfully filtered to following nodes: [gpu12] for default/gpu-pod ",
            "find fit node(n), 0 nodes not fit, 1 nodes fit(n:0.00)",
            'Device with UUID "GPU-1" not found on node n after Fit',
        ),
    ),
    "logs": (
        lambda text: (
            parse_line(text, NOW),
            parse_line(HEAD + text, NOW),
            rebuild(lines_about([HEAD + text], "ml", "wl", NOW)),
        ),
        (
            HEAD + '"NodeUnfitPod" pod="ml/wl" node="n" reason="1/1 CardCordoned" card request={"Nums":1}',
            '"NodeUnfitPod" pod="ml/wl" node="n" reason="a \\"b\\" \\u2603"',
        ),
    ),
    "link scores": (read_link_scores, ('[{"uuid":"a","score":{"b":100}}]',)),
    "mig allocations": (
        read_mig_allocations,
        ('[{"containerIndex":0,"deviceIndex":0,"gpuUUID":"g","profile":"1g","placement":{"start":0,"size":1}}]',),
    ),
    "weights": (read_weights, ("slot=1,core=1,memory=3",)),
    "version": (parse_version, ("projecthami/hami:v2.10.0@sha256:00",)),
    "keys": (vendor_of_register_key, ("hami.io/node-register-x",)),
    "device config": (
        read_device_config,
        ("nvidia:\n  memoryFactor: 1\n  resourceCountName: a/b\nvnpus:\n- {resourceName: x}\n", "a: &x [*x]"),
    ),
}


@st.composite
def texts(draw: st.DrawFn, seeds: tuple[str, ...]) -> str:
    """Any text, or a good one with something cut out, put in or repeated."""
    if draw(st.booleans()):
        return draw(st.text(st.characters()))
    good = draw(st.sampled_from(seeds))
    start, end = sorted((draw(st.integers(0, len(good))), draw(st.integers(0, len(good)))))
    odd = ["", ",", ":", ";", '"', "null", "-1", "1e999", "NaN", "99999999999999999999", "\ud800", "\x00", "🙂", "٣"]
    middle = draw(st.sampled_from([*odd, good[start:end] * 3])) or draw(st.text(max_size=5))
    return good[:start] + middle + good[end:]


@pytest.mark.parametrize("name", PARSERS)
@settings(max_examples=examples(120), deadline=None)
@given(data=st.data())
def test_no_parser_raises_on_any_text(name, data):
    parse, seeds = PARSERS[name]
    parse(data.draw(texts(seeds)))


PIECES = {
    "one word": "a",
    "blanks": " ",
    "words": "ab ",
    "digits": "1",
    "commas": ",",
    "commas and blanks": ", ",
    "a list": ", a",
    "colons": ":",
    "semicolons": ";",
    "quotes": '"',
    "backslashes": "\\",
    "pairs": ' a="',
    "equals": "=",
    "brackets": "[",
    "braces": '{"a":',
    "parentheses": "(",
    "lines": "\n",
    "emoji": "🙂",
    "controls": "\x00\x1b",
    "unfinished nodes": "Successfully filtered to following nodes: [",
    "unfinished fits": "find fit node(",
    "unfinished locks": "node x has been ",
    "on node": " on node",
}
ANNOTATIONS = ("registration", "handshake", "lock", "allocations", "link scores", "mig allocations", "weights")


@pytest.mark.parametrize("piece", PIECES)
def test_a_megabyte_of_anything_in_an_annotation_is_read_or_refused_at_once(piece):
    """A quadratic parser would need minutes for one of these."""
    text = PIECES[piece] * (1_000_000 // len(PIECES[piece]))
    for name in ANNOTATIONS:
        parse, seeds = PARSERS[name]
        parse(text)
        parse(seeds[0] + text)


@pytest.mark.parametrize("piece", PIECES)
def test_a_long_message_or_log_line_of_anything_is_read_at_once(piece):
    text = PIECES[piece] * (200_000 // len(PIECES[piece]))
    for name in ("messages", "logs", "version", "keys"):
        parse, seeds = PARSERS[name]
        for before in ("", seeds[0], "0/3 nodes are available: 1 Insufficient cpu"):
            parse(before + text)


@pytest.mark.parametrize(
    "text",
    [
        "[" + "null," * 200_000 + "null]",
        "[" + "1," * 500_000 + "1]",
        '[{"id":"x"' + ',"id":"x"' * 100_000 + "}]",
        '[{"x":' + "[" * 500 + "]" * 500 + "}]",
        '[{"x":' + "[" * 100_000 + "]" * 100_000 + "}]",
        "[" + '{"id":"x"},' * 80_000 + "{}]",
    ],
    ids=["nulls", "numbers", "equal keys", "deep", "too deep", "cards"],
)
def test_a_megabyte_of_json_is_read_or_refused(text):
    for name in ("registration", "link scores", "mig allocations"):
        PARSERS[name][0](text)


@pytest.mark.parametrize("piece", ["a: b\n", "- x\n", "[", "- ", "a", "#", " ", "\n", "'", "&a "])
def test_a_large_device_config_is_read_or_refused(piece):
    read_device_config(piece * (20_000 // len(piece)))


@settings(max_examples=examples(60), deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.floats() | st.text(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    )
)
def test_no_reader_of_json_raises_on_any_json(value):
    for key in ("id", "uuid", "devices", "gpuUUID", "score"):
        for shape in (value, [value], [{key: value}], {key: value}):
            text = json.dumps(shape)
            for name in ("registration", "link scores", "mig allocations"):
                PARSERS[name][0](text)


# ------------------------------------------------------------------ the fit's own logic


cards = st.builds(
    card,
    uuid=st.uuids().map(str),
    slots=st.integers(1, 4),
    memory_mib=st.sampled_from([1000, 2000]),
    cores=st.sampled_from([0, 100, 200]),
    type=st.sampled_from(["NVIDIA-Tesla T4", "NVIDIA A100", "Quadro"]),
    health=st.sampled_from([True, True, True, False]),
    mode=st.sampled_from(["hami-core", "mps"]),
    numa=st.integers(0, 1),
)
states = st.builds(
    state,
    cards,
    slots=st.integers(0, 4),
    memory=st.sampled_from([0, 0, 500, 1000, 1999]),
    cores=st.sampled_from([0, 0, 50, 100]),
)
single = st.builds(
    request,
    st.builds(
        wants,
        count=st.integers(1, 3),
        memory=st.sampled_from([0, 1, 500, 1000]),
        cores=st.sampled_from([0, 10, 50, 100]),
    ),
    use_type=st.sampled_from([None, None, "T4", "A100,T4", ""]),
    no_use_type=st.sampled_from([None, None, "A100"]),
    mode=st.sampled_from([None, None, "hami-core"]),
    policy=st.sampled_from([None, "binpack", "mutex", "spread,numa"]),
)
nodes = st.lists(states, min_size=1, max_size=5)
versions = st.sampled_from(VERSIONS)
checks = st.frozensets(st.sampled_from([reason.text for reason in REASONS]))


def fit_of(cards: list[CardState], pod: PodRequest, version, relax=frozenset()) -> Verdict:
    return judge(NodeCards(cards), pod, rules_of(version), relax=relax)


@settings(max_examples=examples(150), deadline=None)
@given(nodes, single, versions, st.data())
def test_more_usage_never_makes_a_pod_fit(cards, pod, version, data):
    before = fit_of(cards, pod, version)
    one = data.draw(st.sampled_from(cards))
    one.slots += data.draw(st.integers(0, 3))
    one.memory_mib += data.draw(st.integers(0, 900))
    one.cores += data.draw(st.integers(0, 120))
    assert before.fits or not fit_of(cards, pod, version).fits


@settings(max_examples=examples(150), deadline=None)
@given(nodes, single, versions)
def test_the_counts_add_up_to_the_cards_in_play(cards, pod, version):
    said = fit_of(cards, pod, version)
    taken = dict(said.parts).get(ALLOCATED_INSUFFICIENT, 0)
    if said.parts and (version == V210 or not taken):
        assert sum(count for _, count in said.parts) == said.of


@settings(max_examples=examples(150), deadline=None)
@given(nodes, single, versions, checks)
def test_leaving_checks_out_never_makes_a_fitting_pod_unfit(cards, pod, version, relax):
    if fit_of(cards, pod, version).fits:
        assert fit_of(cards, pod, version, relax).fits


@settings(max_examples=examples(100), deadline=None)
@given(nodes, single, versions, st.randoms(use_true_random=False))
def test_one_container_s_verdict_does_not_depend_on_the_order_of_the_cards(cards, pod, version, random):
    shuffled = list(cards)
    random.shuffle(shuffled)
    assert fit_of(shuffled, pod, version).text() == fit_of(cards, pod, version).text()


@settings(max_examples=examples(100), deadline=None)
@given(nodes, single, versions)
def test_asking_for_fewer_cards_fits_too(cards, pod, version):
    fewer = structs.replace(pod, containers=(structs.replace(pod.containers[0], count=1),))
    assert not fit_of(cards, pod, version).fits or fit_of(cards, fewer, version).fits


@settings(max_examples=examples(60), deadline=None)
@given(nodes, single, single, versions)
def test_judging_changes_nothing(cards, pod, other, version):
    def figures():
        return [(card.card.uuid, card.slots, card.memory_mib, card.cores, card.placements) for card in cards]

    before = figures()
    both = structs.replace(pod, containers=pod.containers + other.containers)
    for asked in (
        pod,
        both,
        structs.replace(both, constraints=structs.replace(both.constraints, numa_bind=True)),
    ):
        fit_of(cards, asked, version)
        assert figures() == before
