import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.kube.models import DAEMON_PODS, HOLDERS, NODES, Node
from bot.kube.watch.follow import Shared
from sandbox.synthetic import synthetic_cluster

LONG = "kubectl.kubernetes.io/last-applied-configuration"


def decoded(item, model):
    return msgspec.json.decode(msgspec.json.encode(item), type=model)


@pytest.mark.parametrize("kind", [NODES, HOLDERS, DAEMON_PODS])
def test_an_object_stays_equal_to_what_was_decoded(kind):
    shared = Shared()
    for item in synthetic_cluster(5, 40)[kind.plural]:
        small = shared.shrink(decoded(item, kind.type))
        assert small == decoded(item, kind.type)
        assert shared.shrink(decoded(item, kind.type), small) == decoded(item, kind.type)


def node(**status):
    return {"metadata": {"name": "a", "annotations": {LONG: "{}", "hami.io/x": "1"}, "labels": {"k": "v"}}} | status


def test_what_is_gone_since_is_not_taken_from_before():
    shared = Shared()
    before = shared.shrink(decoded(node(status={"allocatable": {"cpu": "8"}, "capacity": {"cpu": "8"}}), Node))
    bare = {"metadata": {"name": "a"}}
    assert shared.shrink(decoded(bare, Node), before) == decoded(bare, Node)


def test_annotations_of_kilobytes_that_no_rule_reads_are_left_out():
    assert Shared().shrink(decoded(node(), Node)).metadata.annotations == {"hami.io/x": "1"}


def test_labels_stay_whatever_they_are_called():
    labels = {LONG: "1", "nfd.node.kubernetes.io/x": "2"}
    assert Shared().shrink(decoded({"metadata": {"name": "a", "labels": labels}}, Node)).metadata.labels == labels


texts = st.dictionaries(st.sampled_from(["a", "b", "c", "d"]), st.sampled_from(["", "1", "2", "y" * 200]))


@given(st.lists(texts, min_size=1))
def test_texts_that_come_go_and_change_are_those_of_the_newest(versions):
    shared, known = Shared(), None
    for version in versions:
        item = {"metadata": {"name": "a", "labels": version, "annotations": version}}
        known = shared.shrink(decoded(item, Node), known)
        assert known == decoded(item, Node)


def test_texts_stand_in_the_order_that_a_fresh_read_gives_them():
    shared, known = Shared(), None
    for keys in ("bd", "abcd", "acd", "abe"):
        item = {"metadata": {"name": "a", "annotations": dict.fromkeys(keys, "1")}}
        known = shared.shrink(decoded(item, Node), known)
        assert "".join(known.metadata.annotations) == keys


def test_equal_texts_of_different_objects_are_one():
    shared = Shared()
    one, other = (shared.shrink(decoded(node(), Node)).metadata.labels for _ in range(2))
    assert one is not other
    assert next(iter(one)) is next(iter(other))
    assert one["k"] is other["k"]


def test_a_long_text_that_has_not_changed_is_the_same_one():
    shared = Shared()
    text = {"metadata": {"name": "a", "annotations": {"hami.io/x": "y" * 1000}}}
    before = shared.shrink(decoded(text, Node))
    after = shared.shrink(decoded(text, Node), before)
    assert after.metadata.annotations["hami.io/x"] is before.metadata.annotations["hami.io/x"]
