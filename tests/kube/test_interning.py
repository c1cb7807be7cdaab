import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.kube.models import DAEMON_PODS, HOLDERS, NODES, Node
from bot.kube.watch.follow import take_over
from sandbox.synthetic import synthetic_cluster

LONG = "kubectl.kubernetes.io/last-applied-configuration"


def decoded(item, model):
    return msgspec.json.decode(msgspec.json.encode(item), type=model)


def followed(item, model, before=None):
    found = decoded(item, model)
    take_over(found, before)
    return found


@pytest.mark.parametrize("kind", [NODES, HOLDERS, DAEMON_PODS])
def test_an_object_stays_equal_to_what_was_decoded(kind):
    for item in synthetic_cluster(5, 40)[kind.plural]:
        assert followed(item, kind.type, decoded(item, kind.type)) == decoded(item, kind.type)


def node(**status):
    return {"metadata": {"name": "a", "annotations": {LONG: "{}", "hami.io/x": "1"}, "labels": {"k": "v"}}} | status


def test_what_is_gone_since_is_not_taken_from_before():
    before = decoded(node(status={"allocatable": {"cpu": "8"}, "capacity": {"cpu": "8"}}), Node)
    bare = {"metadata": {"name": "a"}}
    assert followed(bare, Node, before) == decoded(bare, Node)


def test_annotations_of_kilobytes_that_no_rule_reads_are_left_out():
    assert decoded(node(), Node).metadata.annotations == {"hami.io/x": "1"}


def test_labels_stay_whatever_they_are_called():
    labels = {LONG: "1", "nfd.node.kubernetes.io/x": "2"}
    assert decoded({"metadata": {"name": "a", "labels": labels}}, Node).metadata.labels == labels


texts = st.dictionaries(st.sampled_from(["a", "b", "c", "d"]), st.sampled_from(["", "1", "2", "y" * 200]))


@given(st.lists(texts, min_size=1))
def test_texts_that_come_go_and_change_are_those_of_the_newest(versions):
    known = None
    for version in versions:
        known = followed({"metadata": {"name": "a", "labels": version, "annotations": version}}, Node, known)
        assert (known.metadata.labels or {}, known.metadata.annotations or {}) == (version, version)


def test_texts_stand_in_the_order_that_a_fresh_read_gives_them():
    known = None
    for keys in ("bd", "abcd", "acd", "abe"):
        known = followed({"metadata": {"name": "a", "annotations": dict.fromkeys(keys, "1")}}, Node, known)
        assert "".join(known.metadata.annotations) == keys


def test_equal_texts_of_different_objects_are_one():
    one, other = (decoded(node(), Node).metadata.labels for _ in range(2))
    assert one is not other
    assert next(iter(one)) is next(iter(other))
    assert one["k"] is other["k"]


def test_a_long_text_that_has_not_changed_is_the_same_one():
    text = {"metadata": {"name": "a", "annotations": {"hami.io/x": "y" * 1000}}}
    before = decoded(text, Node)
    assert followed(text, Node, before).metadata.annotations["hami.io/x"] is before.metadata.annotations["hami.io/x"]
