"""Pods whose end would let another in: held against every subset, the cluster built anew without them."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.hami.fit.advice import changed, smallest_changes
from bot.hami.fit.blockers import pods_to_end
from tests.hami.build import V27, V29, V210, card, gpu_node, holder, mig_card, node, quota, request, view, wants


def used(name, node_name, *shares, **fields):
    text = "".join(f"{uuid},NVIDIA,{memory},{cores}:" for uuid, memory, cores in shares)
    return holder(name, node_name, f"{text};", **fields)


def ended(cluster, asked, names=("n1", "n2")):
    """The sets of names, in the order of the answer."""
    return [[pod.name for pod in ending.pods] for ending in pods_to_end(cluster, names, asked).found]


# -------------------------------------------------------------------------------------------- one situation each


def test_one_pod_is_preferred_to_two():
    pods = [used("a", "n1", ("a", 6000, 0)), used("b", "n1", ("a", 6000, 0)), used("c", "n2", ("b", 12000, 0))]
    cluster = view([gpu_node("n1", card("a")), gpu_node("n2", card("b"))], pods)
    assert ended(cluster, request(wants(memory=15000))) == [["c"]]


def test_two_pods_end_where_one_is_not_enough():
    pods = [used("a", "n1", ("a", 6000, 0)), used("b", "n1", ("a", 6000, 0)), used("tiny", "n1", ("a", 100, 0))]
    cluster = view([gpu_node("n1", card("a"))], pods)
    assert ended(cluster, request(wants(memory=16000)), ["n1"]) == [["a", "b"]]


def test_two_pods_are_preferred_to_three_smaller_ones():
    sizes = {"a": 3000, "b": 3000, "c": 3000, "d": 3500, "e": 3500}
    cluster = view([gpu_node("n1", card("a"))], [used(name, "n1", ("a", size, 0)) for name, size in sizes.items()])
    assert ended(cluster, request(wants(memory=7300)), ["n1"]) == [["d", "e"]]


def test_an_exclusive_card_needs_all_of_its_users_gone():
    pods = [used(f"h{i}", "n1", ("a", 10, 0)) for i in range(8)]
    cluster = view([gpu_node("n1", card("a"))], pods)
    assert ended(cluster, request(wants(cores=100)), ["n1"]) == [[f"h{i}" for i in range(8)]]


def test_of_equals_the_lowest_priority_goes_first_then_the_youngest():
    def at(name, uuid, created, priority):
        one = used(name, f"n-{uuid}", (uuid, 16000, 0))
        return type(one)(
            metadata=_with(one.metadata, creation_timestamp=created),
            spec=_with(one.spec, priority=priority),
            status=one.status,
        )

    pods = [
        at("important", "a", "2026-11-21T04:59:00Z", 1000),
        at("old", "b", "2026-11-01T00:00:00Z", 0),
        at("young", "c", "2026-11-21T04:00:00Z", 0),
        at("unknown", "d", None, 0),
    ]
    nodes = [gpu_node(f"n-{uuid}", card(uuid)) for uuid in "abcd"]
    found = ended(view(nodes, pods), request(wants(memory=9000)), [node.name for node in nodes])
    assert found == [["young"], ["old"], ["unknown"], ["important"]]


def _with(model, **fields):
    return type(model)(**{name: getattr(model, name) for name in model.__struct_fields__} | fields)


def test_a_pod_that_is_being_deleted_goes_before_all_others():
    pods = [used("a", "n1", ("a", 16000, 0)), used("leaving", "n2", ("b", 16000, 0), deleted="2026-11-21T05:00:00Z")]
    cluster = view([gpu_node("n1", card("a")), gpu_node("n2", card("b"))], pods)
    assert ended(cluster, request(wants(memory=9000))) == [["leaving"], ["a"]]


def test_a_quota_is_freed_by_the_namespace_s_own_pods_on_any_node():
    pods = [
        used("mine", "n2", ("b", 900, 0)),
        used("theirs", "n1", ("a", 900, 0), namespace="dev"),
        used("small", "n2", ("b", 10, 0)),
    ]
    cluster = view([gpu_node("n1", card("a")), gpu_node("n2", card("b"))], pods, [quota(gpumem="1000")])
    assert ended(cluster, request(wants(memory=500))) == [["mine"]]


def test_a_full_card_and_a_quota_may_need_two_pods():
    pods = [used("other", "n1", ("a", 16000, 0), namespace="dev"), used("mine", "n2", ("b", 900, 0))]
    small = gpu_node("n2", card("b", memory_mib=1000))
    cluster = view([gpu_node("n1", card("a")), small], pods, [quota(gpumem="9500")])
    assert ended(cluster, request(wants(memory=9000))) == [["mine", "other"]]


@pytest.mark.parametrize("sick", [card("a", health=False), card("a", memory_mib=8000), card("a", slots=0)])
def test_nobody_ends_for_a_card_that_would_not_do_even_empty(sick):
    cluster = view([gpu_node("n1", sick)], [used("h", "n1", ("a", 7000, 0))])
    search = pods_to_end(cluster, ["n1"], request(wants(memory=9000)))
    assert (search.found, search.complete) == ((), True)


def test_nothing_is_named_without_the_pods_or_for_an_unregistered_node():
    assert ended(view([gpu_node("n1", card())], None), request(wants(memory=99999)), ["n1"]) == []
    assert ended(view([node("cpu")], [used("h", "cpu", ("a", 1, 0))]), request(), ["cpu"]) == []


def test_several_containers_and_mig_cards_are_tried_with_the_filter_itself():
    pods = [used("h", "n1", ("GPU-0", 10000, 0)), used("i", "n1", ("GPU-0", 100, 0))]
    cluster = view([gpu_node("n1", card())], pods)
    assert ended(cluster, request(wants(memory=7000), wants(memory=7000)), ["n1"]) == [["h"]]
    place = '[{"gpuUUID":"GPU-0","profile":"1g.6gb","placement":{"start":3,"size":1}}]'
    given_ = used("h", "n1", ("GPU-0", 6144, 25), annotations={"hami.io/vgpu-mig-allocations": place})
    cluster = view([gpu_node("n1", mig_card())], [given_])
    assert ended(cluster, request(wants(memory=20000)), ["n1"]) == [["h"]]


# --------------------------------------------------------------------------------------- against every subset

UUIDS = {"n1": ("a", "b"), "n2": ("c", "d", "e")}
amounts = st.sampled_from([0, 100, 3000, 5000, 8000, 16384])
cores = st.sampled_from([0, 0, 10, 50, 100])


def mostly(usual, *others):
    """Draws the usual value six times as often as another: a pod with many wishes is let in by the end of nobody."""
    return st.sampled_from([usual] * 6 + [*others])


@st.composite
def clusters(draw):
    """Nodes, holders and quotas, and a request, all small enough to try everything."""
    nodes = []
    for name, uuids in UUIDS.items():
        cards = [
            card(
                uuid,
                memory_mib=draw(st.sampled_from([8192, 16384])),
                slots=draw(st.sampled_from([1, 2, 10])),
                health=draw(mostly(True, False)),
                numa=draw(st.sampled_from([0, 1])),
                type=draw(mostly("NVIDIA-Tesla T4", "NVIDIA A100")),
                mode=draw(mostly("hami-core", "mps")),
            )
            for uuid in uuids
        ]
        nodes.append(gpu_node(name, *cards))
    pods = []
    for number in range(draw(st.integers(1, 6))):
        name = draw(st.sampled_from(sorted(UUIDS)))
        uuids = draw(st.lists(st.sampled_from(UUIDS[name]), min_size=1, max_size=2, unique=True))
        shares = [(uuid, draw(amounts), draw(cores)) for uuid in uuids]
        pods.append(used(f"h{number}", name, *shares, namespace=draw(st.sampled_from(["ml", "dev"]))))
    limits = draw(st.sampled_from([None, None, {"gpumem": "9000"}, {"gpumem": "20000", "gpucores": "100"}]))
    quotas = [quota(**limits)] if limits else []
    containers = [
        wants(draw(mostly(1, 2, 3)), memory=draw(amounts), cores=draw(cores)) for _ in range(draw(mostly(1, 2)))
    ]
    asked = request(
        *containers,
        numa_bind=draw(mostly(False, True)),
        use_uuid=draw(mostly(None, "a", "c,d")),
        use_type=draw(mostly(None, "T4", "")),
        mode=draw(mostly(None, "hami-core")),
        policy=draw(mostly(None, "binpack", "mutex", "topology-aware")),
    )
    return nodes, pods, quotas, asked, draw(st.sampled_from([V27, V29, V210]))


def fits_without(drawn, gone, names=tuple(UUIDS)):
    """Whether some of the nodes takes the pod in a cluster built without the pods."""
    nodes, pods, quotas, asked, version = drawn
    cluster = view(nodes, [pod for pod in pods if pod.name not in gone], quotas, version)
    return any(cluster.judge(name, asked).fits for name in names)


@given(clusters())
def test_every_set_lets_the_pod_in_no_smaller_part_of_it_does_and_the_first_is_as_small_as_any(drawn):
    nodes, pods, quotas, asked, version = drawn
    if fits_without(drawn, ()):
        return
    search = pods_to_end(view(nodes, pods, quotas, version), list(UUIDS), asked)
    for ending in search.found:
        gone = [pod.name for pod in ending.pods]
        assert fits_without(drawn, gone, [ending.node])
        for size in range(len(gone)):
            assert not any(fits_without(drawn, some, [ending.node]) for some in combinations(gone, size))
    assert search.complete
    everybody = [pod.name for pod in pods]
    sizes = (
        size
        for size in range(1, len(everybody) + 1)
        if any(fits_without(drawn, some) for some in combinations(everybody, size))
    )
    fewest = next(sizes, None)
    assert (len(search.found[0].pods) if search.found else None) == fewest
    if fewest == 1:
        assert len(search.found) == min(sum(fits_without(drawn, [name]) for name in everybody), 5)


@given(clusters())
def test_every_smallest_change_made_fits(drawn):
    nodes, pods, quotas, asked, version = drawn
    if fits_without(drawn, ()):
        return
    of_one = asked.containers[0]
    below = {"memory": of_one.memory_mib or 10**9, "share": 10**9, "count": of_one.count, "cores": of_one.cores}
    for change in smallest_changes(view(nodes, pods, quotas, version), list(UUIDS), asked):
        assert change.amount < below.get(change.what, 1)
        if change.what == "end-pod":
            assert fits_without(drawn, [change.pod.split("/")[1]], [change.node])
        else:
            assert fits_without((nodes, pods, quotas, changed(asked, change), version), (), [change.node])
