"""What is kept from question to question: quicker, and never another answer."""

import gc
import weakref

from hypothesis import given, settings
from hypothesis import strategies as st

from bot.hami.fit.advice import largest_slice, smallest_changes
from bot.hami.fit.blockers import pods_to_end
from bot.hami.fit.cluster_view import View, terms
from bot.hami.fit.node_cache import Stock
from bot.kube.models import Node, Pod, ResourceQuota
from tests.hami.build import V27, V210, card, gpu_node, holder, mig_card, quota, request, view, wants

NAMES = ("n1", "n2", "n3")
AMOUNTS = (100, 6000, 9000, 16384)
REQUESTS = (
    request(),
    request(wants(memory=9000)),
    request(wants(2, 6000)),
    request(wants(memory=100, cores=100)),
    request(wants()),
    request(wants(memory=6000), wants(memory=6000)),
    request(wants(2, 6000), numa_bind=True),
    request(wants(memory=6000), use_uuid="n1-0,n2-1"),
    request(wants(memory=6000), policy="topology-aware"),
)


@st.composite
def nodes(draw: st.DrawFn) -> list[Node]:
    """Three nodes of two cards each; some are alike."""
    made: list[Node] = []
    for name in NAMES:
        make = draw(st.sampled_from((card, card, card, mig_card)))
        memory, health = draw(st.sampled_from((16384, 24576))), draw(st.sampled_from((True, True, False)))
        cards = [make(f"{name}-{i}", memory_mib=memory, numa=i, index=i, health=health or i > 0) for i in range(2)]
        annotations = {"hami.io/device-cordon": f"{name}-0"} if draw(st.integers(0, 5)) == 0 else {}
        made.append(gpu_node(name, *cards, annotations=annotations, allocatable=draw(st.sampled_from((20, 20, 0)))))
    return made


@st.composite
def pods(draw: st.DrawFn) -> list[Pod]:
    made: list[Pod] = []
    for number in range(draw(st.integers(0, 5))):
        node, position = draw(st.sampled_from(NAMES)), draw(st.integers(0, 1))
        share = f"{node}-{position},NVIDIA,{draw(st.sampled_from(AMOUNTS))},{draw(st.sampled_from((0, 30, 100)))}:;"
        made.append(holder(f"h{number}", node, share, namespace=draw(st.sampled_from(("ml", "web")))))
    return made


quotas = st.lists(st.builds(lambda limit: quota(gpumem=limit), st.sampled_from((100, 9000, 30_000))), max_size=1)


def answers(cluster: View) -> list[object]:
    """Everything that is asked of a cluster, each request in turn."""
    found: list[object] = []
    for wanted in REQUESTS:
        found += [
            cluster.judge_each(NAMES, wanted),
            cluster.judge_each(NAMES, wanted, frozenset({"CardInsufficientMemory"})),
            largest_slice(cluster, NAMES, wanted),
            smallest_changes(cluster, NAMES, wanted),
            pods_to_end(cluster, NAMES, wanted),
            cluster.registered(NAMES),
        ]
    return found


@given(st.lists(st.tuples(nodes(), pods(), quotas), min_size=2, max_size=3), st.sampled_from((V27, V210)), st.data())
@settings(max_examples=15)
def test_what_is_kept_changes_no_answer(turns, version, data):
    kept: Stock | None = None
    before: tuple[list[Node], list[Pod], list[ResourceQuota]] = ([], [], [])
    for fresh in turns:
        # Of the objects some stay the very same from turn to turn, as in a cache.
        stays = data.draw(st.lists(st.booleans(), min_size=3, max_size=3))
        now = tuple(old if stay and old else new for old, new, stay in zip(before, fresh, stays, strict=True))
        plain = view(*now, version=version)
        kept = kept or Stock(terms(plain.facts, version))
        assert answers(view(*now, version=version, stock=kept)) == answers(plain)
        before = now


def test_nodes_of_equal_cards_are_judged_once_and_named_each():
    cluster = view([gpu_node(name, card(f"{name}-0")) for name in NAMES])
    assert cluster.unlike(NAMES, request()) == ["n1"]
    assert list(cluster.judge_each(NAMES, request())) == list(NAMES)
    assert len({stock.shape for stock in cluster.stocks_of(NAMES)}) == 1


def test_what_is_used_makes_nodes_differ_and_leaves_their_shape():
    cluster = view([gpu_node(name, card(f"{name}-0")) for name in NAMES], [holder("h", "n2", "n2-0,NVIDIA,100,0:;")])
    assert cluster.unlike(NAMES, request()) == ["n1", "n2"]
    assert len({stock.shape for stock in cluster.stocks_of(NAMES)}) == 1


def test_a_node_that_is_offered_again_is_judged_again():
    waits = view([gpu_node("n1", card(), allocatable=0)])
    kept = Stock(terms(waits.facts, V210))
    assert view([gpu_node("n1", card(), allocatable=0)], stock=kept).judge("n1", request()).fits is None
    assert view([gpu_node("n1", card())], stock=kept).judge("n1", request()).fits


def test_what_is_kept_goes_with_its_last_user_and_leaves_nothing_to_the_garbage_collector():
    stock = Stock(terms(view([]).facts, V210))
    stock.ledger([holder("h", "n1", "n1-0,NVIDIA,100,0:;")])
    gone = weakref.ref(stock)
    gc.disable()
    try:
        del stock
        assert gone() is None
    finally:
        gc.enable()
