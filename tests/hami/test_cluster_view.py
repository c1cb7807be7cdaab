"""One cluster as one version sees it."""

from msgspec import structs

from bot.hami.fit.cluster_view import versions_to_try
from bot.hami.nodes.registration import Unregistered
from bot.kube.models import Node
from bot.texts import in_english
from tests.hami.build import V27, V28, V29, V210, VERSIONS, card, gpu_node, holder, node, request, view, wants

TEXT = "GPU-0,10,16384,100,NVIDIA-Tesla T4,0,true,0,hami-core:"
FULL = "GPU-0,NVIDIA,16000,10:;"


def judged(cluster, name="n1", pod=None, **more):
    said = cluster.judge(name, pod or request(), **more)
    return in_english(said.unknown) or said.text() or "fit"


def test_a_pod_that_asks_for_nothing_fits_everywhere():
    nothing = structs.replace(request(), containers=())
    assert judged(view([node("cpu")], None, None), "cpu", nothing) == "fit"


def test_a_node_without_cards_is_unregistered():
    assert judged(view([node("cpu")]), "cpu") == "node unregistered"


def test_what_holders_have_is_counted():
    assert judged(view([gpu_node("n1", card())], [holder("h", "n1", FULL)])) == "1/1 CardInsufficientMemory"
    assert judged(view([gpu_node("n1", card())], [holder("h", "other", FULL)])) == "fit"


def test_without_the_pods_nothing_is_known_of_a_registered_node():
    cluster = view([gpu_node("n1", card()), node("cpu")], None)
    assert judged(cluster) == "the pods that hold its devices were not seen"
    assert judged(cluster, "cpu") == "node unregistered"


def test_cordoned_cards_count_in_2_10_only():
    cordon = {"hami.io/device-cordon": "GPU-0"}
    assert judged(view([gpu_node("n1", card(), annotations=cordon)])) == "1/1 CardCordoned"
    assert judged(view([gpu_node("n1", card(), annotations=cordon)], version=V29)) == "fit"


def test_link_scores_of_the_node_are_used():
    scores = (
        '[{"uuid":"a","score":{"b":1,"c":9}},{"uuid":"b","score":{"a":1,"c":1}},{"uuid":"c","score":{"a":9,"b":1}}]'
    )
    three = [card(name, slots=1) for name in "abc"]
    cluster = view([gpu_node("n1", *three, annotations={"hami.io/node-nvidia-score": scores})])
    pod = request(wants(2, 1), wants(1, 1), policy="topology-aware", use_uuid="a,b,c")
    assert judged(cluster, pod=pod) == "fit"
    assert judged(cluster, pod=request(wants(2, 1), wants(2, 1), policy="topology-aware")) == (
        "1/3 AllocatedCardsInsufficientRequest, 2/3 CardTimeSlicingExhausted"
    )


def test_a_node_outside_the_scheduler_s_selector_is_never_registered():
    labelled = gpu_node("n1", card())
    cluster = view([labelled], node_selector="pool=gpu")
    assert judged(cluster) == "node unregistered"
    found = cluster.registration("n1")
    assert isinstance(found, Unregistered)
    assert (found.why, found.key, found.quote) == ("absent", "--node-label-selector", "pool=gpu")


def test_a_node_whose_cards_kubelet_does_not_offer_is_neither_fit_nor_unfit():
    dead = gpu_node("n1", card(), allocatable=0)
    assert judged(view([dead])).startswith("kubelet offers no devices (allocatable 0)")
    assert judged(view([dead], version=V28)) == "node unregistered"
    refused = request(use_type="A100")
    assert view([dead]).judge("n1", refused).fits is None


def test_the_flag_s_policy_stands_where_the_pod_names_none():
    used = [holder("h", "n1", "GPU-0,NVIDIA,1,0:;")]
    assert judged(view([gpu_node("n1", card())], used, policy="mutex")) == "1/1 ExclusiveDeviceAllocateConflict"


def test_an_empty_node_is_judged_without_its_holders():
    cluster = view([gpu_node("n1", card()), node("cpu")], [holder("h", "n1", FULL)])
    assert cluster.fits_empty("n1", request()) is True
    assert cluster.fits_empty("n1", request(wants(memory=20000))) is False
    assert cluster.fits_empty("cpu", request()) is None
    assert view([gpu_node("n1", card())], None).fits_empty("n1", request()) is True


def test_the_cards_of_a_node_with_what_is_left_of_them():
    cluster = view([gpu_node("n1", card()), node("cpu")], [holder("h", "n1", FULL)])
    assert [card.free_memory_mib for card in cluster.cards("n1")] == [384]
    assert cluster.cards("cpu") == []


def test_judging_leaves_no_trace():
    cluster = view([gpu_node("n1", card())], [holder("h", "n1", "GPU-0,NVIDIA,6000,0:;")])
    pair = request(wants(memory=5000), wants(memory=5000))
    assert [judged(cluster, pod=pair) for _ in range(3)] == ["fit"] * 3
    assert cluster.cards("n1")[0].memory_mib == 6000


# ------------------------------------------------------------------ an unknown version


def textual() -> Node:
    return node("old", {"hami.io/node-nvidia-register": TEXT})


def test_a_known_version_is_the_only_one_to_try():
    assert versions_to_try(V27, [gpu_node("n1", card())]) == (V27,)


def test_an_unknown_version_is_one_that_reads_the_nodes_format():
    assert {version[:2] for version in versions_to_try(None, [gpu_node("n1", card())])} == {(2, 8), (2, 9), (2, 10)}
    assert {version[:2] for version in versions_to_try(None, [textual(), node("cpu")])} == {(2, 5), (2, 6), (2, 7)}
    every = {tuple(version[:2]) for version in VERSIONS}
    assert {version[:2] for version in versions_to_try(None, [textual(), gpu_node("n1", card())])} == every
    assert {version[:2] for version in versions_to_try(None, [])} == every
    assert versions_to_try(None, [])[-1] >= V210


def test_a_pod_is_forgotten_on_its_node_and_the_other_nodes_stay_as_they_are():
    pods = [
        holder("a", "n1", "GPU-0,NVIDIA,16000,0:;", uid="u1"),
        holder("b", "n2", "GPU-0,NVIDIA,16000,0:;", uid="u2"),
    ]
    cluster = view([gpu_node("n1", card()), gpu_node("n2", card())], pods)
    without = cluster.forgetting("u1")
    assert [without.judge(name, request()).fits for name in ("n1", "n2")] == [True, False]
    assert [cluster.judge(name, request()).fits for name in ("n1", "n2")] == [False, False]
    assert cluster.forgetting("").judge("n1", request()) == cluster.judge("n1", request())
