"""One container on one node: hami-fit's checks, their order and their counts, in every version."""

from typing import TYPE_CHECKING, Any

import pytest
from msgspec import structs

from bot.hami.fit.verdicts import QuotaRoom
from tests.hami.build import V25, V26, V27, V28, V29, V210, VERSIONS, card, mig_card, request, state, verdict, wants

if TYPE_CHECKING:
    from collections.abc import Callable

OLD = [version for version in VERSIONS if version < V210]


def test_a_pod_that_asks_for_nothing_is_passed_through():
    assert verdict([], structs.replace(request(), containers=())) == "fit"


def test_each_card_counts_once_with_the_first_check_it_fails():
    """A card that fails every check; each line mends what the line before it was refused for."""
    world: dict[str, Any] = {
        "card": card(health=False, mode="mps"),
        "used": {"slots": 10, "memory": 16000, "cores": 40},
        "pod": request(
            wants(memory=1000, cores=100),
            use_type="A100",
            mode="hami-core",
            use_uuid="GPU-9",
            policy="mutex",
        ),
        "more": {"cordoned": frozenset({"GPU-0"}), "quota": QuotaRoom(memory_limit_mib=100)},
    }
    mends: list[tuple[str, Callable[[], None]]] = [
        ("CardNotHealth", lambda: world.update(card=card(mode="mps"))),
        ("CardCordoned", lambda: world["more"].pop("cordoned")),
        ("CardTypeMismatch", lambda: change_pod(use_type="T4")),
        ("CardTypeMismatch", lambda: world.update(card=card())),
        ("CardUuidMismatch", lambda: change_pod(use_uuid="GPU-0")),
        ("CardTimeSlicingExhausted", lambda: world["used"].update(slots=9)),
        ("ExclusiveDeviceAllocateConflict", lambda: change_pod(policy="spread")),
        ("ResourceQuotaNotFit", lambda: world["more"].pop("quota")),
        ("CardInsufficientMemory", lambda: world["used"].update(memory=1000)),
        ("CardInsufficientCore", lambda: world["used"].update(cores=0)),
        ("ExclusiveDeviceAllocateConflict", lambda: world["used"].update(slots=0)),
    ]

    def change_pod(**constraints: Any) -> None:
        pod = world["pod"]
        world["pod"] = structs.replace(pod, constraints=structs.replace(pod.constraints, **constraints))

    said = []
    for _, mend in mends:
        said.append(verdict([state(world["card"], **world["used"])], world["pod"], **world["more"]))
        mend()
    assert said == [f"1/1 {code}" for code, _ in mends]
    assert verdict([state(world["card"], **world["used"])], world["pod"]) == "fit"


def test_a_card_whose_cores_are_all_given_away_takes_no_pod_without_cores():
    full = state(card(), slots=2, memory=100, cores=100)
    assert verdict([full], request(wants(memory=1))) == "1/1 CardComputeUnitsExhausted"
    assert verdict([full], request(wants(memory=1, cores=1))) == "1/1 CardInsufficientCore"


def test_cores_above_a_hundred_are_only_exclusive_on_a_card_of_exactly_a_hundred():
    overcommitted = state(card(cores=200), slots=1, cores=50)
    assert verdict([overcommitted], request(wants(memory=1, cores=100))) == "fit"


def test_a_card_without_cores_is_never_out_of_them():
    assert verdict([card(cores=0)], request(wants(memory=1))) == "fit"


def test_the_reason_is_sorted_as_text_with_all_cards_in_play_as_denominator():
    cards = [
        *(state(card(f"full-{i}"), slots=10) for i in range(3)),
        *(state(card(f"used-{i}"), slots=1, memory=16000) for i in range(10)),
        card("sick", health=False),
    ]
    assert verdict(cards, request()) == (
        "1/14 CardNotHealth, 10/14 CardInsufficientMemory, 3/14 CardTimeSlicingExhausted"
    )


def test_some_cards_taken_but_too_few_are_counted():
    cards = [card("a"), card("b"), state(card("c"), slots=10)]
    assert verdict(cards, request(wants(3, 1000))) == (
        "1/3 CardTimeSlicingExhausted, 2/3 AllocatedCardsInsufficientRequest"
    )


def test_before_2_10_the_cards_taken_are_counted_as_one():
    cards = [card("a"), card("b"), state(card("c"), slots=10)]
    for version in OLD:
        assert verdict(cards, request(wants(3, 1000)), version) == (
            "1/3 AllocatedCardsInsufficientRequest, 1/3 CardTimeSlicingExhausted"
        )


def test_more_cards_asked_than_in_play_is_a_bare_reason():
    for version in VERSIONS:
        assert verdict([card("a"), card("b")], request(wants(3, 1)), version) == "NodeInsufficientDevice", version


# ------------------------------------------------------------------ which cards are in play


def test_other_vendors_cards_are_out_of_play():
    cards = [state(card("a"), slots=10), card("b", type="Quadro RTX 6000")]
    for version in (V27, V28, V29, V210):
        assert verdict(cards, request(), version) == "1/1 CardTimeSlicingExhausted", version


def test_up_to_2_6_cards_of_other_names_count_as_of_the_wrong_type():
    cards = [state(card("a"), slots=10), card("b", type="Quadro RTX 6000")]
    for version in (V25, V26):
        assert verdict(cards, request(), version) == "1/2 CardTimeSlicingExhausted, 1/2 CardTypeMismatch", version


def test_from_2_10_the_type_s_case_does_not_matter():
    assert verdict([card(type="nvidia t4")], request()) == "fit"
    assert verdict([card(type="nvidia t4")], request(), V29) != "fit"


def test_before_2_10_no_card_in_play_but_enough_of_other_names_gives_an_empty_reason():
    for version in (V27, V28, V29):
        assert verdict([card(type="Quadro")], request(), version) == ""
    assert verdict([card(type="Quadro")], request(), V210) == "NodeInsufficientDevice"


def test_before_2_10_the_count_is_held_against_all_cards_of_the_node():
    cards = [card("a"), card("b", type="Quadro")]
    two = request(wants(2, 1000))
    assert verdict(cards, two, V210) == "NodeInsufficientDevice"
    assert verdict(cards, two, V29) == "1/1 AllocatedCardsInsufficientRequest"
    assert verdict(cards, request(wants(3, 1000)), V29) == "NodeInsufficientDevice"


# ------------------------------------------------------------------ health, cordon, mutex


def test_unhealthy_cards_are_used_up_to_2_6():
    sick = [card(health=False)]
    assert [verdict(sick, request(), version) for version in VERSIONS] == ["fit"] * 2 + ["1/1 CardNotHealth"] * 4


def test_cordon_and_mutex_are_unknown_before_2_10():
    used = [state(card(), slots=1)]
    for version in OLD:
        assert verdict(used, request(policy="mutex"), version, cordoned=frozenset({"GPU-0"})) == "fit"
    assert verdict(used, request(policy="mutex")) == "1/1 ExclusiveDeviceAllocateConflict"
    assert verdict(used, request(), cordoned=frozenset({"GPU-0"})) == "1/1 CardCordoned"


@pytest.mark.parametrize("policy", ["mutex", " mutex", "mutex ", "binpack,mutex", "binpack , mutex"])
def test_mutex_is_found_among_trimmed_words(policy):
    assert verdict([state(card(), slots=1)], request(policy=policy)) == "1/1 ExclusiveDeviceAllocateConflict"
    assert verdict([card()], request(policy=policy)) == "fit"


def test_a_pod_s_own_policy_stands_before_the_flag_even_when_it_is_empty():
    used = [state(card(), slots=1)]
    assert verdict(used, request(), default_policy="mutex") == "1/1 ExclusiveDeviceAllocateConflict"
    assert verdict(used, request(policy="binpack"), default_policy="mutex") == "fit"
    assert verdict(used, request(policy=""), default_policy="mutex") == "fit"


def test_invalid_weights_fail_every_filter_run_and_so_no_verdict_is_known():
    weights = "slot=1"
    assert verdict([card()], request(weights=weights)).startswith("unknown: hami.io/device-scoring-weights")
    for version in OLD:
        assert verdict([card()], request(weights=weights), version) == "fit"


# ------------------------------------------------------------------ type and mode annotations


@pytest.mark.parametrize(
    ("use", "no_use", "fits", "fitted_before"),
    [
        ("t4", None, True, True),
        ("A100,T4", None, True, True),
        ("A100, tesla", None, True, False),
        ("A100", None, False, False),
        (None, "t4", False, False),
        (None, "A100, Tesla", False, True),
        (None, "A100", True, True),
        ("T4", "Tesla", False, False),
        ("", None, True, True),
        (None, "", True, False),
        ("  ", None, True, False),
        (None, "  ", True, True),
        (",", None, False, True),
        (None, ",", True, False),
        ("T4,", None, True, True),
        (None, "A100,", True, False),
    ],
)
def test_type_lists_match_substrings_and_before_2_10_an_empty_entry_matches_everything(
    use, no_use, fits, fitted_before
):
    pod = request(use_type=use, no_use_type=no_use)
    assert verdict([card()], pod) == ("fit" if fits else "1/1 CardTypeMismatch")
    for version in OLD:
        assert verdict([card()], pod, version) == ("fit" if fitted_before else "1/1 CardTypeMismatch"), version


@pytest.mark.parametrize(
    ("annotation", "mode", "fits"),
    [
        (None, "hami-core", True),
        ("hami-core", "hami-core", True),
        ("hami-core,mig", "hami-core", True),
        ("hami-core-x", "hami-core", True),
        ("HAMI-CORE", "hami-core", False),
        ("mps", "hami-core", False),
        ("", "hami-core", False),
        ("", "", True),
        ("anything", "", True),
    ],
)
def test_the_mode_annotation_has_to_contain_the_card_s_mode(annotation, mode, fits):
    for version in VERSIONS:
        said = verdict([card(mode=mode)], request(mode=annotation), version)
        assert said == ("fit" if fits else "1/1 CardTypeMismatch")


# ------------------------------------------------------------------ uuid annotations


@pytest.mark.parametrize(
    ("use", "no_use", "fits", "fitted_before"),
    [
        ("GPU-0", None, True, True),
        ("GPU-9,GPU-0", None, True, True),
        ("GPU-9, GPU-0", None, True, False),
        ("gpu-0", None, False, False),
        ("GPU", None, False, False),
        (None, "GPU-0", False, False),
        (None, "GPU-9, GPU-0", False, True),
        ("GPU-0", "GPU-0", False, True),
        ("GPU-9", "GPU-0", False, False),
        ("", None, True, False),
        ("", "GPU-0", False, False),
        (None, "", True, True),
        ("  ", None, True, False),
        (",", None, False, False),
        (None, ",", True, True),
    ],
)
def test_uuid_lists_match_whole_uuids_and_before_2_10_an_empty_value_matches_nothing(use, no_use, fits, fitted_before):
    pod = request(use_uuid=use, no_use_uuid=no_use)
    assert verdict([card()], pod) == ("fit" if fits else "1/1 CardUuidMismatch")
    for version in OLD:
        assert verdict([card()], pod, version) == ("fit" if fitted_before else "1/1 CardUuidMismatch"), version


# ------------------------------------------------------------------ amounts


def test_a_percentage_is_of_each_card_s_own_memory_rounded_down():
    fits = state(card("a", memory_mib=1001), memory=501)
    lacks_one = state(card("b", memory_mib=2001), memory=1002)
    half = wants(percentage=50)
    assert verdict([fits], request(half)) == "fit"
    assert verdict([lacks_one], request(half)) == "1/1 CardInsufficientMemory"


def test_an_amount_wins_over_a_percentage_beside_it():
    nearly_full = [state(card(), memory=16000)]
    assert verdict(nearly_full, request(wants(memory=300, percentage=100))) == "fit"


def test_a_whole_card_needs_all_of_its_registered_memory():
    assert verdict([card()], request(wants(percentage=100))) == "fit"
    assert verdict([state(card(), memory=1)], request(wants(percentage=100))) == "1/1 CardInsufficientMemory"


# ------------------------------------------------------------------ leaving checks out


@pytest.mark.parametrize(
    ("code", "cards", "pod", "more"),
    [
        ("CardNotHealth", [card(health=False)], request(), {}),
        ("CardCordoned", [card()], request(), {"cordoned": frozenset({"GPU-0"})}),
        ("CardTypeMismatch", [card()], request(use_type="A100"), {}),
        ("CardUuidMismatch", [card()], request(use_uuid="GPU-9"), {}),
        ("CardTimeSlicingExhausted", [state(card(), slots=10)], request(), {}),
        ("ExclusiveDeviceAllocateConflict", [state(card(), slots=1)], request(wants(memory=1, cores=100)), {}),
        ("ResourceQuotaNotFit", [card()], request(), {"quota": QuotaRoom(memory_limit_mib=1)}),
        ("CardInsufficientMemory", [card()], request(wants(memory=20000)), {}),
        ("CardInsufficientCore", [state(card(), cores=60)], request(wants(memory=1, cores=50)), {}),
        ("CardComputeUnitsExhausted", [state(card(), cores=100)], request(), {}),
        ("CardMigTopologyInfeasible", [mig_card(mig_profiles=())], request(), {}),
        ("NumaNotFit", [card("a"), card("b", numa=1)], request(wants(2, 1), numa_bind=True), {}),
    ],
)
def test_a_check_that_is_left_out_refuses_nothing(code, cards, pod, more):
    assert code in verdict(cards, pod, **more)
    assert verdict(cards, pod, relax=frozenset({code}), **more) == "fit"
