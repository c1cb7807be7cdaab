"""MIG as v2.10 places it, and what contradictory records make of a card."""

import json

import pytest

from bot.hami.fit.allocated_totals import Holding, Share
from bot.hami.fit.node_cache import take_stock
from bot.hami.nodes.cards import MigPlacement, MigProfile, MigReservation, choose_profile, read_mig_allocations
from bot.hami.version import rules_of
from tests.hami.build import A30, V27, V28, V29, V210, card, mig_card, request, state, verdict, wants


def at(start: int, size: int) -> MigPlacement:
    return MigPlacement(start, size)


# ------------------------------------------------------------------ choosing a profile and a place


@pytest.mark.parametrize(
    ("memory", "occupied", "profile", "start"),
    [
        (1, [], "1g.6gb", 3),
        (6144, [], "1g.6gb", 3),
        (6145, [], "2g.12gb", 0),
        (1, [at(3, 1)], "1g.6gb", 2),
        (1, [at(0, 4)], None, None),
        (6145, [at(0, 1)], "2g.12gb", 2),
        (12289, [], "4g.24gb", 0),
        (12289, [at(3, 1)], None, None),
        (24577, [], None, None),
    ],
)
def test_the_smallest_sufficient_profile_with_a_free_place_is_chosen(memory, occupied, profile, start):
    choice = choose_profile(A30, memory, occupied)
    assert (choice and (choice.profile.name, choice.placement.start)) == (profile and (profile, start))


@pytest.mark.parametrize(
    ("name", "start"), [("1g.5gb", 6), ("3g.20gb", 6), ("2g.10gb", 0), ("4g.20gb", 0), ("7g.40gb", 0), ("13g.x", 0)]
)
def test_only_names_that_begin_with_1g_or_3g_are_placed_from_the_end(name, start):
    profile = MigProfile(name, 100, 1, 1, (at(2, 1), at(0, 1), at(6, 1)))
    assert choose_profile([profile], 1, []).placement.start == start  # type: ignore[union-attr]


def test_profiles_are_tried_by_memory_then_slices_whatever_their_order():
    larger = MigProfile("b", 200, 1, 1, (at(0, 1),))
    wide = MigProfile("wide", 100, 1, 2, (at(1, 1),))
    narrow = MigProfile("narrow", 100, 1, 1, (at(2, 1),))
    assert choose_profile([larger, wide, narrow], 1, []).profile is narrow  # type: ignore[union-attr]
    assert choose_profile([larger, wide, narrow], 1, [at(2, 1)]).profile is wide  # type: ignore[union-attr]
    assert choose_profile([larger, wide, narrow], 1, [at(1, 2)]).profile is larger  # type: ignore[union-attr]


def test_a_profile_without_places_is_never_chosen():
    assert choose_profile([MigProfile("1g", 100, 1, 1, None)], 1, []) is None


# ------------------------------------------------------------------ in a filter run


def test_one_card_takes_as_many_instances_as_it_has_room_for():
    assert verdict([mig_card()], request(wants(4, memory=6000))) == "fit"
    assert verdict([mig_card()], request(wants(2, memory=12000))) == "fit"


def test_the_last_visit_of_a_full_mig_card_counts_beside_what_was_taken():
    """The example of the reference: one card, 8 asked, room for 3."""
    three = MigProfile("2g.10gb", 10240, 28, 2, (at(0, 2), at(2, 2), at(4, 2)))
    said = verdict([mig_card(mig_profiles=(three,))], request(wants(8, memory=10000)))
    assert said == "1/1 CardMigTopologyInfeasible, 3/1 AllocatedCardsInsufficientRequest"


def test_a_whole_card_needs_a_profile_of_all_its_registered_memory():
    assert verdict([mig_card()], request(wants(percentage=100))) == "fit"
    assert verdict([mig_card(memory_mib=24577)], request(wants(percentage=100))) == "1/1 CardMigTopologyInfeasible"


def test_a_mig_card_lifts_the_limit_on_the_count_unless_the_pod_wants_another_mode():
    three = wants(3, memory=6000)
    assert verdict([mig_card()], request(three)) == "fit"
    assert verdict([mig_card()], request(three, mode="mig")) == "fit"
    assert verdict([mig_card()], request(three, mode="hami-core")) == "NodeInsufficientDevice"
    other = mig_card("x", type="Quadro")
    assert verdict([card("a"), other], request(three)) == "NodeInsufficientDevice"


def test_what_a_container_took_is_the_profile_s_memory_and_cores_and_its_place():
    pair = request(wants(memory=100, cores=30), wants(memory=100, cores=80))
    assert verdict([mig_card()], pair) == "1/1 CardInsufficientCore"
    fits = request(wants(memory=100, cores=30), wants(memory=100, cores=75))
    assert verdict([mig_card()], fits) == "fit"
    tight = [state(mig_card(), placements=[at(1, 3)])]
    assert verdict(tight, request(wants(memory=100))) == "fit"
    assert verdict(tight, request(wants(memory=100), wants(memory=100))) == "1/1 CardMigTopologyInfeasible"


def test_mig_before_2_10_is_unknown_where_it_decides():
    for version in (V27, V28, V29):
        assert verdict([mig_card()], request(), version) == "unknown: MIG templates of versions before 2.10"
        assert verdict([mig_card()], request(mode="hami-core"), version) == "1/1 CardTypeMismatch"
        assert verdict([mig_card()], request(wants(memory=99999)), version) == "1/1 CardInsufficientMemory"


def test_topology_on_mig_cards_is_not_imitated():
    assert verdict([mig_card()], request(policy="topology-aware")) == ("unknown: the policy topology-aware on MIG GPUs")


# ------------------------------------------------------------------ reservations


def reserved(uuid: str = "GPU-0", container: int = 0, device: int = 0, **more: object) -> dict[str, object]:
    place = {"containerIndex": container, "deviceIndex": device, "gpuUUID": uuid, "profile": "1g.6gb"}
    return {**place, "placement": {"start": 3, "size": 1}, **more}


def test_reservations_are_read_with_and_without_what_the_plugin_fills_in():
    filled = reserved(migUUID="MIG-1", gpuInstanceID=0, computeInstanceID=0)
    read = read_mig_allocations(json.dumps([reserved(), {**filled, "deviceIndex": 1}]))
    assert [(instance.gpu_uuid, instance.placement, instance.mig_uuid) for instance in read] == [
        ("GPU-0", at(3, 1), ""),
        ("GPU-0", at(3, 1), "MIG-1"),
    ]


def test_an_index_of_zero_may_be_left_out():
    bare = {key: value for key, value in reserved().items() if "Index" not in key}
    assert len(read_mig_allocations(json.dumps([bare]))) == 1


@pytest.mark.parametrize(
    "broken",
    [
        reserved(container=-1),
        reserved(device=-1),
        reserved(uuid=""),
        reserved(profile=""),
        reserved(placement={"start": 0, "size": 0}),
        reserved(placement={"start": 0, "size": -1}),
        reserved(placement={"start": -1, "size": 1}),
        reserved(placement={}),
        reserved(migUUID="MIG-1"),
        reserved(gpuInstanceID=1),
        reserved(migUUID="MIG-1", gpuInstanceID=1),
        reserved(gpuInstanceID=1, computeInstanceID=-1, migUUID="M"),
        reserved(device=7),
        reserved(deviceIndex="0"),
        None,
        1,
    ],
)
def test_one_invalid_reservation_makes_all_of_them_absent(broken):
    good = reserved(device=7)
    assert read_mig_allocations(json.dumps([good])) != ()
    assert read_mig_allocations(json.dumps([good, broken])) == ()


@pytest.mark.parametrize("text", ["", "null", "[]", "{}", "[", "nonsense", "[[]]", '"x"'])
def test_what_is_no_list_of_reservations_is_none(text):
    assert read_mig_allocations(text) == ()


# ------------------------------------------------------------------ what records make of a card


def stock(mode: str, *, used: bool, reservations: int, named: str = "GPU-0"):
    """The card and a MIG neighbour after one pod with that usage and those reservations."""
    places = tuple(MigReservation(0, i, named, "1g.6gb", at(i, 1)) for i in range(reservations))
    shares = {"GPU-0": Share(1, 100, 10)} if used else {}
    pod = Holding("ml", "h", "u", "n1", bound=True, shares=shares, mig=places)
    return take_stock([card(mode=mode), mig_card("neighbour")], [pod], rules_of(V210))


@pytest.mark.parametrize(
    ("mode", "used", "reservations", "healthy"),
    [
        ("mig", True, 1, True),
        ("mig", False, 2, True),
        ("mig", True, 0, False),
        ("mig", False, 0, True),
        ("hami-core", True, 1, False),
        ("hami-core", False, 1, False),
        ("hami-core", True, 0, True),
        ("mps", True, 1, True),
        ("", True, 1, True),
        ("mps", False, 1, False),
        ("", True, 2, False),
        ("mps", True, 0, True),
    ],
)
def test_records_that_contradict_the_card_s_mode_make_it_unhealthy(mode, used, reservations, healthy):
    first, neighbour = stock(mode, used=used, reservations=reservations)
    assert first.healthy is healthy
    assert neighbour.healthy


def test_reservations_occupy_places_of_a_mig_card():
    first, _ = stock("mig", used=True, reservations=2)
    assert first.placements == (at(0, 1), at(1, 1))
    assert stock("mps", used=True, reservations=1)[0].placements == ()


def test_a_reservation_on_a_card_the_node_does_not_have_makes_every_mig_card_unhealthy():
    first, neighbour = stock("hami-core", used=False, reservations=1, named="GPU-gone")
    assert first.healthy
    assert not neighbour.healthy


def test_before_2_10_no_reservation_counts():
    pod = Holding("ml", "h", "u", "n1", bound=True, shares={"GPU-0": Share(1, 1, 1)}, mig=())
    for version in (V27, V28, V29):
        assert take_stock([mig_card()], [pod], rules_of(version))[0].healthy


def test_usage_adds_up_and_unknown_uuids_are_ignored():
    pods = [
        Holding("ml", f"h{i}", "u", "n1", bound=True, shares={"GPU-0": Share(2, 100, 10), "GPU-x": Share(1, 9, 9)})
        for i in range(3)
    ]
    (only,) = take_stock([card()], pods, rules_of(V210))
    assert (only.slots, only.memory_mib, only.cores) == (6, 300, 30)
    assert (only.free_memory_mib, only.free_cores) == (16084, 70)
