"""What every card has given away, as the scheduler counts it."""

import json

import pytest

from bot.hami.fit.allocated_totals import Share, build_ledger, read_holding
from tests.hami.build import V25, V27, V28, V29, V210, VERSIONS, holder, pod

ONE = "GPU-a,NVIDIA,1000,10:;"
DONE = {"terminated": {"exitCode": 0}}
FAILED = {"terminated": {"exitCode": 1}}


def shares(text, version=V210, **fields):
    holding = read_holding(holder("h", "n1", text, **fields), version)
    return None if holding is None else holding.shares


def test_pods_count_by_annotation_not_by_where_they_run():
    moved = pod("moved", annotations={"hami.io/vgpu-node": "n2", "hami.io/vgpu-devices-allocated": ONE}, node="n1")
    ledger = build_ledger([moved], V210)
    assert [holding.name for holding in ledger.on("n2")] == ["moved"]
    assert ledger.on("n1") == []


def test_a_reservation_counts_before_the_pod_is_bound():
    reserved = pod("r", annotations={"hami.io/vgpu-node": "n1", "hami.io/vgpu-devices-allocated": ONE})
    (holding,) = build_ledger([reserved], V210).on("n1")
    assert (holding.bound, holding.shares) == (False, {"GPU-a": Share(1, 1000, 10)})
    assert build_ledger([holder("h", "n1", ONE)], V210).on("n1")[0].bound


@pytest.mark.parametrize("version", VERSIONS)
def test_terminating_pods_count_and_finished_ones_do_not(version):
    pods = [
        holder("terminating", "n1", ONE, deleted="2026-11-21T04:00:00Z"),
        holder("succeeded", "n1", ONE, phase="Succeeded"),
        holder("failed", "n1", ONE, phase="Failed"),
        holder("unknown", "n1", ONE, phase="Unknown"),
    ]
    assert [holding.name for holding in build_ledger(pods, version).on("n1")] == ["terminating", "unknown"]


def test_pods_without_a_node_or_without_devices_hold_nothing():
    bare = pod("bare", annotations={"hami.io/vgpu-node": "n1"})
    homeless = pod("homeless", annotations={"hami.io/vgpu-devices-allocated": ONE})
    other = pod("tpu", annotations={"hami.io/vgpu-node": "n1", "hami.io/tpu-devices": "TPU-1,TPU,1,1:;"})
    assert build_ledger([bare, homeless, other], V210).by_node == {}


def test_a_pod_whose_devices_cannot_be_read_counts_nowhere():
    ledger = build_ledger([holder("h", "n1", "GPU-a,NVIDIA,1000:;")], V210)
    assert ledger.by_node == {}
    assert ledger.used_in("ml", "") == (0, 0)


def test_what_is_given_back_counts_nowhere_and_the_ledger_stays_as_it_was():
    pods = [holder("wl", "n1", ONE, uid="u1"), holder("wl", "n1", ONE, uid="u2"), holder("x", "n1", ONE, uid="")]
    ledger = build_ledger(pods, V210)
    rest = ledger.without([holding for holding in ledger.all() if holding.uid == "u1"])
    assert rest == build_ledger(pods[1:], V210)
    assert ledger == build_ledger(pods, V210)


def test_every_entry_adds_a_slot():
    text = "GPU-a,NVIDIA,1000,10:GPU-b,NVIDIA,500,5:;;GPU-a,NVIDIA,2000,20:;"
    for version in VERSIONS:
        assert shares(text, version) == {"GPU-a": Share(2, 3000, 30), "GPU-b": Share(1, 500, 5)}


def test_namespaces_add_up_over_all_nodes():
    pods = [
        holder("a", "n1", ONE),
        holder("b", "n2", "GPU-z,NVIDIA,500,5:GPU-a,NVIDIA,1,1:;"),
        holder("c", "n1", ONE, namespace="other"),
    ]
    ledger = build_ledger(pods, V27)
    assert (ledger.used_in("ml", ""), ledger.used_in("other", "")) == ((1501, 16), (1000, 10))


# ------------------------------------------------------------------ init containers


INIT_AND_APPS = "GPU-a,NVIDIA,3000,10:;GPU-a,NVIDIA,1000,20:;GPU-a,NVIDIA,1000,20:;"


def test_before_2_10_all_entries_add_up():
    for version in (V25, V27, V28, V29):
        assert shares(INIT_AND_APPS, version, init=[{}]) == {"GPU-a": Share(3, 5000, 50)}


def test_2_10_takes_the_larger_of_the_init_peak_with_one_slot_and_the_apps_sum():
    assert shares(INIT_AND_APPS, init=[{}]) == {"GPU-a": Share(2, 3000, 40)}
    assert shares("GPU-a,NVIDIA,3000,10:;GPU-a,NVIDIA,2000,30:;;", init=[{}, {}]) == {"GPU-a": Share(1, 3000, 30)}
    assert shares("GPU-a,NVIDIA,3000,10:;GPU-b,NVIDIA,1000,20:;", init=[{}]) == {
        "GPU-a": Share(1, 3000, 10),
        "GPU-b": Share(1, 1000, 20),
    }


def test_an_init_container_with_two_instances_of_one_card_counts_the_larger():
    assert shares("GPU-a,NVIDIA,3000,10:GPU-a,NVIDIA,6000,5:;;", init=[{}]) == {"GPU-a": Share(1, 6000, 10)}


@pytest.mark.parametrize(
    ("done", "memory"),
    [((DONE,), 2000), ((FAILED,), 3000), ((), 3000), (({"running": {}},), 3000), (({},), 3000)],
)
def test_2_10_counts_only_the_apps_once_every_init_container_succeeded(done, memory):
    assert shares(INIT_AND_APPS, init=[{}], done=done)["GPU-a"].memory_mib == memory
    assert shares(INIT_AND_APPS, V29, init=[{}], done=done)["GPU-a"].memory_mib == 5000


def test_a_running_sidecar_never_lets_the_figures_shrink():
    assert shares(INIT_AND_APPS, init=[{}, {}], done=(DONE, {"running": {}}))["GPU-a"].memory_mib == 3000


def test_the_placeholder_trap_of_2_10():
    """No entry for an init container without a card: the app's entry stands in its place."""
    assert shares(ONE, init=[{}]) == {"GPU-a": Share(1, 1000, 10)}
    assert shares(ONE, init=[{}], done=(DONE,)) == {}


# ------------------------------------------------------------------ MIG reservations


def test_mig_reservations_are_read_in_2_10_only():
    listed = [{"gpuUUID": "GPU-a", "profile": "1g.6gb", "placement": {"start": 3, "size": 1}}]
    marked = {"hami.io/vgpu-mig-allocations": json.dumps(listed)}
    reserved = holder("h", "n1", ONE, annotations=marked)
    assert [instance.gpu_uuid for instance in read_holding(reserved, V210).mig] == ["GPU-a"]  # type: ignore[union-attr]
    assert read_holding(reserved, V29).mig == ()  # type: ignore[union-attr]
    assert read_holding(holder("h", "n1", ONE, annotations={**marked, "x": "y"}), V210) is not None
