"""The namespace's limits.* quota, as each version holds a pod against it."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.hami.fit.verdicts import QuotaRoom
from bot.hami.pods.request_parsing import DeviceConfig
from bot.hami.version import Version
from bot.texts import in_english
from tests.hami import build
from tests.hami.build import (
    V25,
    V26,
    V27,
    V28,
    V29,
    V210,
    VERSIONS,
    card,
    gpu_node,
    holder,
    mig_card,
    pod,
    quota,
    request,
    verdict,
    view,
    wants,
)
from tests.sampling import examples

CARDS = [card(f"c{i}") for i in range(4)]
CORES = QuotaRoom(cores_limit=100, cores_used=50)


def memory(limit: int, used: int = 0) -> QuotaRoom:
    return QuotaRoom(memory_limit_mib=limit, memory_used_mib=used)


def test_a_quota_is_unknown_before_2_7():
    for version in VERSIONS:
        expected = "fit" if version in (V25, V26) else "4/4 ResourceQuotaNotFit"
        assert verdict(CARDS, request(wants(memory=1001)), version, quota=memory(1000)) == expected


def test_what_the_namespace_uses_is_added_and_the_limit_itself_may_be_reached():
    assert verdict(CARDS, request(wants(memory=400)), quota=memory(1000, 600)) == "fit"
    assert verdict(CARDS, request(wants(memory=401)), quota=memory(1000, 600)) == "4/4 ResourceQuotaNotFit"
    assert verdict(CARDS, request(wants(memory=1, cores=50)), quota=CORES) == "fit"
    assert verdict(CARDS, request(wants(memory=1, cores=51)), quota=CORES) == "4/4 ResourceQuotaNotFit"


def test_each_card_of_a_container_is_added():
    pair = request(wants(2, memory=600))
    assert verdict(CARDS, pair, quota=memory(1200)) == "fit"
    assert verdict(CARDS, pair, quota=memory(1199)) == "1/4 AllocatedCardsInsufficientRequest, 3/4 ResourceQuotaNotFit"


def test_2_7_looks_at_one_container_only_and_2_8_at_the_earlier_ones_too():
    pair = request(wants(memory=600), wants(memory=600))
    assert verdict(CARDS, pair, V27, quota=memory(1000)) == "fit"
    for version in (V28, V29, V210):
        assert verdict(CARDS, pair, version, quota=memory(1000)) == "4/4 ResourceQuotaNotFit"
        assert verdict(CARDS, pair, version, quota=memory(1200)) == "fit"


def test_a_limit_of_zero_is_none_up_to_2_9_and_a_hard_block_in_2_10():
    for version in (V27, V28, V29):
        assert verdict(CARDS, request(), version, quota=memory(0)) == "fit"
    assert verdict(CARDS, request(), quota=memory(0)) == "4/4 ResourceQuotaNotFit"


def test_a_quota_hides_memory_and_is_hidden_by_slots():
    assert verdict([card(slots=0), card()], request(wants(memory=99999)), quota=memory(1)) == (
        "1/2 CardTimeSlicingExhausted, 1/2 ResourceQuotaNotFit"
    )


def test_on_a_mig_card_the_request_counts_not_the_profile():
    """3,000 MiB get a profile of 6,144; while one container is placed its own cards count as asked."""
    pair = request(wants(2, memory=3000))
    assert verdict([mig_card()], pair, quota=memory(6000)) == "fit"
    assert verdict([mig_card()], pair, quota=memory(5999)) == (
        "1/1 AllocatedCardsInsufficientRequest, 1/1 ResourceQuotaNotFit"
    )


def test_an_earlier_container_s_mig_card_counts_with_its_profile():
    pair = request(wants(memory=3000), wants(memory=3000))
    assert verdict([mig_card()], pair, quota=memory(9144)) == "fit"
    assert verdict([mig_card()], pair, quota=memory(9143)) == "1/1 ResourceQuotaNotFit"


# ------------------------------------------------------------------ init containers


def test_2_9_adds_init_containers():
    both = request(wants(memory=600, init=True), wants(memory=600), inits=1)
    assert verdict(CARDS, both, V29, quota=memory(1000)) == "4/4 ResourceQuotaNotFit"


def test_2_10_holds_init_and_app_containers_against_the_quota_apart():
    both = request(wants(memory=600, init=True), wants(memory=600), inits=1)
    assert verdict(CARDS, both, quota=memory(1000)) == "fit"
    assert verdict(CARDS, both, quota=memory(599)) == "4/4 ResourceQuotaNotFit"


def test_2_10_takes_the_first_app_containers_for_init_containers():
    """Positions are counted among GPU containers: with one init container the first app container is a maximum."""
    one = [card()]
    pair = (wants(memory=600), wants(memory=600))
    assert verdict(one, request(*pair, inits=1), quota=memory(600)) == "fit"
    assert verdict(one, request(*pair, inits=0), quota=memory(600)) == "1/1 ResourceQuotaNotFit"
    with_init = request(wants(memory=600, init=True), *pair, inits=1)
    assert verdict(one, with_init, quota=memory(600)) == "fit"
    assert verdict(one, request(*pair, wants(memory=600), inits=1), quota=memory(1199)) == "1/1 ResourceQuotaNotFit"


def test_2_10_compares_card_by_card():
    """On different cards nothing overlaps, so the maximum of one and the sum of the other are both needed."""
    apart = request(wants(memory=10000), wants(memory=10000), inits=1)
    assert verdict([card("a"), card("b")], apart, quota=memory(20000)) == "fit"
    assert verdict([card("a"), card("b")], apart, quota=memory(19999)) != "fit"


# ------------------------------------------------------------------ from the objects


def judged(quotas, *, pods=(), asks=1000, version: Version = V210, config=None, namespace="ml"):
    cluster = view([gpu_node("n1", card())], pods, quotas, version, config=config or DeviceConfig())
    said = cluster.judge("n1", msgspec.structs.replace(request(wants(memory=asks)), namespace=namespace))
    return in_english(said.unknown) or said.text() or "fit"


def test_only_limits_of_the_namespace_count():
    assert judged([quota(gpumem="999")]) == "1/1 ResourceQuotaNotFit"
    assert judged([quota("other", gpumem="999")]) == "fit"
    assert judged([quota(gpu="0"), quota(cpu="1")]) == "fit"


def test_quantities_are_read_as_kubernetes_writes_them():
    assert judged([quota(gpumem="1k")]) == "fit"
    assert judged([quota(gpumem="1k")], asks=1001) == "1/1 ResourceQuotaNotFit"


def test_a_limit_that_is_no_whole_number_is_ignored():
    assert judged([quota(gpumem="500500m")]) == "fit"


def test_holders_of_the_namespace_count_on_whatever_node():
    elsewhere = holder("h", "gone-node", "GPU-x,NVIDIA,500,0:;")
    assert judged([quota(gpumem="1499")], pods=[elsewhere]) == "1/1 ResourceQuotaNotFit"
    assert judged([quota(gpumem="1500")], pods=[elsewhere]) == "fit"
    stranger = holder("h", "n1", "GPU-x,NVIDIA,500,0:;", namespace="other")
    assert judged([quota(gpumem="1000")], pods=[stranger]) == "fit"


def test_the_memory_factor_scales_the_limit():
    config = build.config(memory_factor=256)
    assert judged([quota(gpumem="4")], asks=1024, config=config) == "fit"
    assert judged([quota(gpumem="4")], asks=1025, config=config) == "1/1 ResourceQuotaNotFit"


def test_renamed_resources_have_their_own_quota_keys():
    config = build.config(memory="example.com/mem")
    assert judged([quota(gpumem="1")], config=config) == "fit"


def test_an_unseen_quota_leaves_a_fitting_pod_unknown_but_not_a_card_of_the_wrong_type():
    cluster = view([gpu_node("n1", card())], [], None)
    assert in_english(cluster.judge("n1", request()).unknown) == "the namespace's quota was not seen"
    assert cluster.judge("n1", request(use_type="A100")).text() == "1/1 CardTypeMismatch"
    assert view([gpu_node("n1", card())], [], None, V28).judge("n1", request()).fits is None
    with_text = gpu_node("n1", card(), annotations={"hami.io/node-nvidia-register": "GPU-0,10,9999,100,NVIDIA,0,true:"})
    assert view([with_text], [], None, V26).judge("n1", request()).fits


@pytest.mark.parametrize("order", [1, -1])
def test_several_quotas_for_one_resource_leave_unknown_what_they_disagree_on(order):
    """HAMi keeps the one it processed last, and nothing shows which that was."""
    several = [quota(gpumem="500"), quota(gpumem="2000")][::order]
    assert "quotas" in judged(several)
    assert judged(several, asks=400) == "fit"
    assert judged(several, asks=3000) == "1/1 ResourceQuotaNotFit"


def test_the_judged_pod_s_own_reservation_is_not_counted_twice():
    own = holder("wl", "n1", "GPU-0,NVIDIA,1000,0:;", uid="uid-wl", phase="Pending")
    cluster = view([gpu_node("n1", card())], [own, pod("x")], [quota(gpumem="1000")])
    assert not cluster.judge("n1", request()).fits
    assert cluster.forgetting("uid-wl").judge("n1", request()).fits


@settings(max_examples=examples(300))
@given(
    st.sampled_from(VERSIONS),
    st.lists(st.tuples(st.integers(0, 3000) | st.none(), st.integers(0, 300) | st.none()), min_size=1, max_size=4),
    st.tuples(st.integers(1, 4), st.integers(0, 2000), st.integers(0, 150)),
    st.sampled_from(["", "binpack", "topology-aware", "mutex"]),
)
def test_namespaces_that_share_a_verdict_get_the_one_that_each_would_get_alone(
    version: Version, hards: list[tuple[int | None, int | None]], asked: tuple[int, int, int], policy: str
) -> None:
    nodes = [gpu_node("n1", *CARDS), gpu_node("n2", card("m", mode="mig"), *CARDS[:1])]
    names = [f"team-{number}" for number in range(len(hards))]
    quotas = [
        quota(name, **{key: str(one) for key, one in zip(("gpumem", "gpucores"), hard, strict=True) if one is not None})
        for name, hard in zip(names, hards, strict=True)
    ]
    held = [holder("h", "n1", "c0,NVIDIA,700,20:;", namespace="team-0")]
    together = view(nodes, held, quotas, version)
    count, memory, cores = asked
    for name in names:
        one = msgspec.structs.replace(request(wants(count, memory, cores=cores), policy=policy or None), namespace=name)
        alone = view(nodes, held, quotas, version)
        assert together.judge_each(["n1", "n2"], one) == alone.judge_each(["n1", "n2"], one)
