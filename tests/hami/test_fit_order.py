"""What one container takes and the next one sees: the order of cards, NUMA, topology, several containers."""

import pytest
from msgspec import structs

from bot.hami.fit.filter import Weights, read_weights, score, sort_cards
from bot.hami.version import Version, rules_of
from tests.hami.build import V25, V26, V27, V28, V29, V210, VERSIONS, card, request, state, verdict, wants

UNUSED = [card("n0-a"), card("n0-b"), card("n1-a", numa=1), card("n1-b", numa=1)]


def order(cards, version=V210, policy="spread", *, asked=None, numa_bind=False, weights=None):
    """The uuids in the order in which they are scanned: from the last card of the sort to the first."""
    listed = list(cards)
    rules = rules_of(version)
    sort_cards(
        listed, [asked or wants(memory=1)], rules, policy=policy, numa_bind=numa_bind, weights=weights or Weights()
    )
    return [state.card.uuid for state in reversed(listed)]


# ------------------------------------------------------------------ the order of the cards


def in_use():
    """Numa 0 holds the least and the most used card, numa 1 the two between; `c` and `d` are equally used."""
    return [
        state(card("a", index=0), slots=1, memory=1000),
        state(card("b", index=1), slots=4, memory=8000),
        state(card("c", index=2, numa=1), slots=2, memory=2000),
        state(card("d", index=3, numa=1), slots=2, memory=2000),
    ]


@pytest.mark.parametrize(
    ("policy", "numa_bind", "scanned"),
    [
        ("spread", False, "adcb"),
        ("binpack", False, "bdca"),
        ("anything else", False, "adcb"),
        ("mutex", False, "adcb"),
        ("mutex", True, "adcb"),
        ("spread", True, "dcab"),
        ("binpack", True, "badc"),
        ("numa", False, "dcba"),
        ("binpack,numa", False, "bdca"),
        ("numa,binpack", False, "dcba"),
        (" numa , spread", False, "dcab"),
        ("spread,binpack", False, "adcb"),
        ("mutex,topology-aware", False, "adcb"),
        ("binpack,numa", True, "dcba"),
        ("numa,spread", True, "dcab"),
        (" mutex", False, "adcb"),
    ],
)
def test_cards_are_scanned_in_the_policy_s_order(policy, numa_bind, scanned):
    assert "".join(order(in_use(), policy=policy, numa_bind=numa_bind)) == scanned


@pytest.mark.parametrize("version", [V25, V26, V27, V28, V29])
def test_before_2_10_numa_comes_first_and_nothing_else_is_known(version):
    for numa_bind in (False, True):
        assert "".join(order(in_use(), version, "spread", numa_bind=numa_bind)) == "dcab"
        assert "".join(order(in_use(), version, "binpack", numa_bind=numa_bind)) == "badc"
        assert "".join(order(in_use(), version, "numa,binpack", numa_bind=numa_bind)) == "dcab"
        assert "".join(order(in_use(), version, "mutex", numa_bind=numa_bind)) == "dcab"


def test_equal_cards_are_scanned_from_the_last_registered_one():
    assert order([state(card) for card in UNUSED]) == ["n1-b", "n1-a", "n0-b", "n0-a"]


def test_a_card_with_a_total_of_zero_scores_zero():
    used = state(card(cores=0), slots=5, memory=100)
    assert score(used, wants(memory=1), rules_of(V210), Weights()) == 0


def test_the_score_is_the_used_share_of_slots_cores_and_memory():
    used = state(card(memory_mib=1000), slots=5, memory=250, cores=50)
    for version in (V29, V210):
        assert score(used, wants(memory=900, cores=9), rules_of(version), Weights()) == 12.5
    assert score(used, wants(memory=1), rules_of(V210), Weights(slot=0, core=0, memory=4)) == 10


@pytest.mark.parametrize(
    ("asked", "memory"),
    [
        (wants(2, memory=100), 100),
        (wants(2, percentage=100), 1000),
        (wants(2, percentage=99), 0),
        (wants(2, memory=100, percentage=50), 0),
        (wants(2, memory=100, percentage=100), 1000),
        (wants(2, percentage=250), 2000),
        (wants(2, memory=100, percentage=0), 100),
    ],
)
def test_up_to_2_8_the_score_includes_the_request_with_whole_hundreds_of_percents(asked, memory):
    """Integer division: a percentage below 100 counts as 0 of the card, and it wins over an amount beside it."""
    used = state(card(memory_mib=1000), slots=1)
    for version in (V25, V26, V27, V28):
        assert score(used, asked, rules_of(version), Weights()) == pytest.approx(10 * (3 / 10 + memory / 1000))


@pytest.mark.parametrize(
    ("asked", "memory"),
    [
        (wants(2, memory=100, cores=20), 100),
        (wants(2, percentage=50, cores=20), 500),
        (wants(2, memory=100, percentage=50, cores=20), 500),
    ],
)
def test_in_2_10_the_request_enters_only_where_the_type_is_literally_nvidia(asked, memory):
    literal = state(card(memory_mib=1000, type="NVIDIA"), slots=1)
    assert score(literal, asked, rules_of(V210), Weights()) == pytest.approx(10 * (2 / 10 + 0.2 + memory / 1000))
    assert score(state(card(memory_mib=1000), slots=1), asked, rules_of(V210), Weights()) == 1


@pytest.mark.parametrize(
    ("text", "weights"),
    [
        (None, Weights(1, 1, 1)),
        ("slot=1,core=1,memory=3", Weights(1, 1, 3)),
        (" memory = 3 , slot=0,core=+1 ", Weights(0, 1, 3)),
        ("slot=9223372036854775807,core=1,memory=1", Weights(9223372036854775807, 1, 1)),
    ],
)
def test_weights_are_three_whole_numbers_in_any_order(text, weights):
    assert read_weights(text) == weights


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        ",",
        "slot=1,core=1",
        "slot=1,core=1,memory=1,",
        "slot=1,core=1,memory=1,slot=1",
        "slot=1,slot=1,memory=1",
        "slot=1,core=1,memory=1.5",
        "slot=1,core=1,memory=-1",
        "slot=0,core=0,memory=0",
        "slot=1,core=1,mem=1",
        "slot=1,core=1,memory=9223372036854775808",
        "slot=1,core=1,memory=1e3",
        "slot=1,core=1,memory=",
        "slot:1,core:1,memory:1",
        "slot=1,core=1,memory=1_0",
        "slot=1,core=1,memory=٣",
    ],
)
def test_other_weights_make_the_filter_fail(text):
    assert read_weights(text) is None


# ------------------------------------------------------------------ several containers


def test_a_container_sees_what_earlier_ones_took():
    pair = request(wants(memory=10000), wants(memory=10000))
    for version in VERSIONS:
        assert verdict([card()], pair, version) == "1/1 CardInsufficientMemory"
        assert verdict([card("a"), card("b")], pair, version) == "fit"


def test_earlier_containers_take_slots_and_cores_too():
    assert verdict([card(slots=1)], request(wants(memory=1), wants(memory=1))) == "1/1 CardTimeSlicingExhausted"
    assert (
        verdict([card()], request(wants(memory=1, cores=60), wants(memory=1, cores=60))) == "1/1 CardInsufficientCore"
    )


def test_the_policy_decides_which_card_is_left_for_the_next_container():
    cards = [state(card("busy"), slots=1, memory=6000), state(card("idle"))]
    small_then_large = (wants(memory=4000), wants(memory=16384))
    assert verdict(cards, request(*small_then_large, policy="binpack")) == "fit"
    assert verdict(cards, request(*small_then_large, policy="spread")) == "2/2 CardInsufficientMemory"


def test_weights_decide_which_card_is_left_for_the_next_container():
    cards = [state(card("slots"), slots=5), state(card("memory"), slots=1, memory=4000)]
    pair = (wants(memory=1000), wants(memory=16000))
    assert verdict(cards, request(*pair, policy="binpack", weights="slot=0,core=0,memory=1")) == "fit"
    assert verdict(cards, request(*pair, policy="binpack", weights="slot=1,core=0,memory=0")) != "fit"


def test_in_2_10_init_containers_see_a_fresh_node_each_and_leave_nothing():
    pod = request(wants(memory=10000, init=True), wants(memory=10000, init=True), wants(memory=10000), inits=2)
    assert verdict([card()], pod) == "fit"
    assert verdict([card()], request(wants(memory=20000, init=True), wants(memory=1), inits=1)) == (
        "1/1 CardInsufficientMemory"
    )


def test_in_2_9_init_containers_are_added_to_the_app_containers():
    pod = request(wants(memory=10000, init=True), wants(memory=10000), inits=1)
    assert verdict([card()], pod, V29) == "1/1 CardInsufficientMemory"


# ------------------------------------------------------------------ numa


def test_numa_binding_wants_all_cards_of_one_numa_node():
    assert verdict(UNUSED, request(wants(2, 1), numa_bind=True)) == "fit"
    assert verdict(UNUSED, request(wants(3, 1), numa_bind=True)) == (
        "2/4 AllocatedCardsInsufficientRequest, 2/4 NumaNotFit"
    )


def test_before_2_10_numa_losses_count_one():
    assert verdict(UNUSED, request(wants(3, 1), numa_bind=True), V29) == (
        "1/4 AllocatedCardsInsufficientRequest, 1/4 NumaNotFit"
    )


def test_a_card_that_fails_a_later_check_still_starts_its_numa_node_anew():
    cards = [card("a"), card("b"), card("other", numa=1)]
    pod = request(wants(2, 1), numa_bind=True, use_uuid="a,b")
    assert verdict(cards, pod) == "fit"
    between = [card("a"), card("other", numa=1), card("b")]
    assert verdict(between, request(wants(2, 1), numa_bind=True, use_uuid="a,b", policy="mutex")) == "fit"


def test_a_card_that_fails_the_first_three_checks_does_not_start_its_numa_node():
    cards = [state(card("a"), slots=1), state(card("sick", numa=1, health=False)), state(card("b"))]
    assert verdict(cards, request(wants(2, 1), numa_bind=True)) == "fit"


def test_mutex_sorts_by_users_so_numa_nodes_are_torn_apart():
    """Scanned: n0-idle, n1-idle, n0-b …; each change of the NUMA node throws away what was taken."""
    cards = [card("n0-a"), card("n1-a", numa=1)]
    pod = request(wants(2, 1), numa_bind=True, policy="mutex")
    assert verdict(cards, pod) == "1/2 AllocatedCardsInsufficientRequest, 1/2 NumaNotFit"


# ------------------------------------------------------------------ topology-aware


LINKS = {("n0-a", "n0-b"): 50, ("n0-b", "n0-a"): 50, ("n1-a", "n1-b"): 90, ("n1-b", "n1-a"): 90}


def test_topology_fits_when_enough_cards_pass():
    for version in (V27, V28, V29, V210):
        assert verdict(UNUSED, request(wants(4, 1), policy="topology-aware"), version) == "fit"
    short = [*UNUSED[:3], state(UNUSED[3], slots=10)]
    assert verdict(short, request(wants(4, 1), policy="topology-aware")) == (
        "1/4 CardTimeSlicingExhausted, 3/4 AllocatedCardsInsufficientRequest"
    )


def test_several_cards_go_where_the_links_are_best():
    """The pair with the best link is taken; a second container then finds it gone."""
    cards = [card(unused.uuid, slots=1, numa=unused.numa) for unused in UNUSED]
    both = request(wants(2, 1), wants(2, 1), policy="topology-aware", use_uuid="n0-a,n1-a,n1-b")
    assert verdict(cards, both, link_scores=LINKS) == (
        "1/4 AllocatedCardsInsufficientRequest, 1/4 CardUuidMismatch, 2/4 CardTimeSlicingExhausted"
    )


def test_a_single_card_is_the_one_that_is_linked_worst():
    cards = [card(unused.uuid, slots=1) for unused in UNUSED[:3]]
    then = request(wants(1, 1), wants(2, 1), policy="topology-aware")
    links = {("n0-a", "n0-b"): 50, ("n0-b", "n0-a"): 50}
    assert verdict(cards, then, link_scores=links) == "fit"
    after = request(wants(1, 1), wants(1, 1), policy="topology-aware", use_uuid="n1-a")
    assert verdict(cards, after, link_scores=links) == "1/3 CardTimeSlicingExhausted, 2/3 CardUuidMismatch"


def test_before_2_10_several_cards_without_any_link_score_are_given_none_at_all():
    cards = [card(f"c{i}", slots=1) for i in range(3)]
    pod = request(wants(2, 1), wants(3, 1), policy="topology-aware")
    assert verdict(cards, pod, V29) == "fit"
    assert verdict(cards, pod, V210) == "1/3 AllocatedCardsInsufficientRequest, 2/3 CardTimeSlicingExhausted"


def test_topology_with_numa_binding_sees_only_the_last_numa_node_and_never_says_numa():
    pod = request(wants(3, 1), numa_bind=True, policy="topology-aware")
    assert verdict(UNUSED, pod) == "2/4 AllocatedCardsInsufficientRequest"
    assert verdict(UNUSED, request(wants(2, 1), numa_bind=True, policy="topology-aware")) == "fit"
    lost = [state(UNUSED[0], slots=10), *map(state, UNUSED[1:])]
    assert verdict(lost, request(wants(2, 1), numa_bind=True, policy="topology-aware")) == (
        "1/4 AllocatedCardsInsufficientRequest, 1/4 CardTimeSlicingExhausted"
    )


def test_topology_is_unknown_before_2_7_and_a_list_of_policies_before_2_10():
    full = [state(card(f"c{i}"), slots=10 * (i > 0)) for i in range(2)]
    assert verdict(full, request(wants(1, 1), policy="spread,topology-aware")) == "fit"
    for version in (V25, V26):
        assert verdict(UNUSED, request(wants(4, 1), policy="topology-aware"), version) == "fit"


def test_the_choice_among_many_cards_is_only_made_when_a_later_container_depends_on_it():
    many = [card(f"c{i:02}") for i in range(40)]
    assert verdict(many, request(wants(20, 1), policy="topology-aware")) == "fit"
    pod = request(wants(20, 1), wants(1, 1), policy="topology-aware")
    assert verdict(many, pod).startswith("unknown: the policy topology-aware over more than")


def test_rules_of_a_newer_version_are_those_of_the_newest_read_but_for_its_notes_on_quotas():
    assert rules_of(Version(3, 0)) == structs.replace(rules_of(V210), merges_quotas=True)
