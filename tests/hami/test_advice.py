"""The smallest change that fits: only what the filter accepts is proposed."""

import pytest

from bot.hami.fit.advice import PlacementChange, largest_slice, smallest_changes
from tests.hami.build import V29, V210, card, gpu_node, holder, mig_card, node, quota, request, view, wants


def used(name, node_name, memory, uuid="GPU-0", cores=0, **fields):
    return holder(name, node_name, f"{uuid},NVIDIA,{memory},{cores}:;", **fields)


def changes(cluster, pod, names=("n1",)):
    return {change.what: change for change in smallest_changes(cluster, names, pod)}


# ------------------------------------------------------------------ the largest slice


def test_the_largest_slice_is_the_most_free_memory_of_a_usable_card():
    nodes = [gpu_node("n1", card("a"), card("sick", memory_mib=99999, health=False)), gpu_node("n2", card("b"))]
    cluster = view([*nodes, node("cpu")], [used("h", "n1", 10000, "a"), used("i", "n2", 4000, "b", 30)])
    best = largest_slice(cluster, ["n1", "n2", "cpu"], request(wants(memory=50000)))
    assert best is not None
    assert (best.node, best.uuid, best.memory_mib, best.cores) == ("n2", "b", 12384, 70)


def test_cards_that_the_pod_rules_out_or_that_are_cordoned_or_full_give_no_slice():
    cordoned = gpu_node("n1", card("a"), annotations={"hami.io/device-cordon": "a"})
    full = gpu_node("n2", card("b", slots=1))
    cluster = view([cordoned, full], [used("h", "n2", 1, "b")])
    assert largest_slice(cluster, ["n1", "n2"], request()) is None
    assert largest_slice(view([gpu_node("n1", card())]), ["n1"], request(use_type="A100")) is None


def test_the_slice_does_not_depend_on_a_quota_seen_or_unseen():
    for quotas in (None, [quota(gpumem="1")]):
        cluster = view([gpu_node("n1", card())], [used("h", "n1", 4)], quotas)
        best = largest_slice(cluster, ["n1"], request(wants(memory=50000)))
        assert best is not None
        assert best.memory_mib == 16380


# ------------------------------------------------------------------ one change of each kind


def test_less_memory_is_the_most_that_some_node_would_give():
    nodes = [gpu_node("n1", card("a")), gpu_node("n2", card("b"), card("c"))]
    pods = [used("h", "n1", 10000, "a"), used("i", "n2", 9000, "b"), used("j", "n2", 8000, "c")]
    cluster = view(nodes, pods)
    assert changes(cluster, request(wants(memory=16000)), ["n1", "n2"])["memory"] == PlacementChange(
        "memory", "n2", 8384
    )
    assert changes(cluster, request(wants(2, memory=16000)), ["n1", "n2"])["memory"] == PlacementChange(
        "memory", "n2", 7384
    )


def test_less_memory_on_a_mig_card_is_a_profile_s():
    # 24,576 MiB need the whole card, where a place of one slice is taken.
    holders = [
        holder(
            "h",
            "n1",
            "GPU-0,NVIDIA,6144,25:;",
            annotations={
                "hami.io/vgpu-mig-allocations": (
                    '[{"gpuUUID":"GPU-0","profile":"1g.6gb","placement":{"start":3,"size":1}}]'
                )
            },
        )
    ]
    cluster = view([gpu_node("n1", mig_card())], holders)
    best = largest_slice(cluster, ["n1"], request(wants(memory=16000)))
    assert best is not None
    assert best.memory_mib == 12288
    assert changes(cluster, request(wants(memory=16000)))["memory"] == PlacementChange("memory", "n1", 12288)


def test_fewer_cores():
    cluster = view([gpu_node("n1", card())], [used("h", "n1", 100, cores=60)])
    assert changes(cluster, request(wants(memory=1, cores=50)))["cores"] == PlacementChange("cores", "n1", 40)


def test_a_pod_that_wants_a_card_alone_is_not_offered_one_per_cent_less():
    cluster = view([gpu_node("n1", card())], [used("h", "n1", 100)])
    assert "cores" not in changes(cluster, request(wants(memory=1, cores=100)))


def test_fewer_cards():
    cluster = view([gpu_node("n1", card("a"), card("b"))], [])
    assert changes(cluster, request(wants(4, memory=1)))["count"] == PlacementChange("count", "n1", 2)


@pytest.mark.parametrize(
    ("what", "constraints"),
    [
        ("drop-uuid", {"use_uuid": "GPU-9"}),
        ("drop-uuid", {"no_use_uuid": "GPU-0"}),
        ("drop-type", {"use_type": "A100"}),
        ("drop-mode", {"mode": "mig"}),
    ],
)
def test_an_annotation_dropped(what, constraints):
    cluster = view([node("cpu"), gpu_node("n1", card())])
    assert list(changes(cluster, request(**constraints), ["cpu", "n1"]).values()) == [PlacementChange(what, "n1")]


def test_numa_binding_dropped():
    cluster = view([gpu_node("n1", card("a"), card("b", numa=1))])
    assert changes(cluster, request(wants(2, memory=1), numa_bind=True))["drop-numa"] == PlacementChange(
        "drop-numa", "n1"
    )


def test_the_smallest_holder_whose_end_makes_room():
    pods = [used("large", "n1", 9000), used("small", "n1", 2000), used("tiny", "n1", 10)]
    found = changes(view([gpu_node("n1", card())], pods), request(wants(memory=7000)))
    assert found["end-pod"] == PlacementChange("end-pod", "n1", pod="ml/small")


def test_no_holder_is_named_where_the_quota_was_not_seen():
    cluster = view([gpu_node("n1", card())], [used("h", "n1", 16000)], None)
    assert changes(cluster, request(wants(memory=7000))) == {}


def test_nothing_is_proposed_where_nothing_helps():
    cluster = view([gpu_node("n1", card(health=False)), node("cpu")])
    assert smallest_changes(cluster, ["n1", "cpu"], request(wants(2, memory=1, cores=50), use_uuid="x")) == []


def test_with_several_containers_no_single_number_is_the_request():
    pods = [used("h", "n1", 10000)]
    found = changes(view([gpu_node("n1", card())], pods), request(wants(memory=6000), wants(memory=6000)))
    assert list(found) == ["end-pod"]


def test_nothing_is_proposed_without_the_pods():
    assert smallest_changes(view([gpu_node("n1", card())], None), ["n1"], request(wants(memory=99999))) == []


def test_before_2_10_advice_works_alike():
    for version in (V29, V210):
        cluster = view([gpu_node("n1", card())], [used("h", "n1", 10000)], version=version)
        assert changes(cluster, request(wants(memory=7000)))["memory"] == PlacementChange("memory", "n1", 6384)
