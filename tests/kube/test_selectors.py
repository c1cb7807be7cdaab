import contextlib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bot.kube.models import Event, Node, ObjectMeta, Pod, PodSpec, Resource
from bot.kube.models.base import NodeSpec, ObjectReference
from bot.kube.models.pods import PodStatus
from bot.kube.selectors import field_matcher, label_matcher

LABELS = {"app": "trainer", "tier": "", "app.kubernetes.io/component": "hami-scheduler", "in": "x"}
POD = Pod(
    ObjectMeta(name="trainer-0", namespace="ml", labels=LABELS), PodSpec(node_name="gpu-1"), PodStatus(phase="Pending")
)


@pytest.mark.parametrize(
    "selector",
    [
        "",
        "  ",
        "app",
        "app=trainer",
        "app==trainer",
        " app = trainer , !gpu ",
        "app!=other",
        "gpu!=x",
        "!gpu",
        "! gpu",
        "tier=",
        "tier in ()",
        "app in (trainer, other)",
        "app in(trainer)",
        "app notin (other)",
        "gpu notin (other)",
        "in in (x)",
        "app.kubernetes.io/component in (hami-scheduler,hami-device-plugin),app",
        "app=trainer,app!=other,app in (trainer),!gpu",
    ],
)
def test_a_label_selector_that_holds(selector):
    assert label_matcher(selector)(LABELS)


@pytest.mark.parametrize(
    "selector",
    ["gpu", "!app", "app=other", "app!=trainer", "app in (other)", "app notin (trainer)", "gpu in ()", "app,gpu"],
)
def test_a_label_selector_that_does_not_hold(selector):
    assert not label_matcher(selector)(LABELS)


def test_an_object_without_labels_has_none_of_them():
    assert label_matcher("!app")(None)
    assert not label_matcher("app")(None)


@pytest.mark.parametrize(
    "selector",
    [
        ",",
        "a,",
        ",a",
        "a,,b",
        "a b",
        "a===b",
        "a=b=c",
        "a=-b",
        "=b",
        "a in b",
        "a in (b",
        "a in (b c)",
        "a in (-)",
        "a>1",
        "/a",
        "a/b/c",
        "é=1",
        "a=é",
        "!",
        "a\0",
        "!a=b",
    ],
)
def test_what_is_no_label_selector_is_refused(selector):
    with pytest.raises(ValueError, match="not a label"):
        label_matcher(selector)


@pytest.mark.parametrize(
    ("selector", "holds"),
    [
        ("", True),
        ("metadata.name=trainer-0", True),
        ("metadata.name==trainer-0,metadata.namespace=ml", True),
        ("metadata.name=trainer-0,spec.nodeName=gpu-2", False),
        ("spec.nodeName!=gpu-2", True),
        ("status.phase!=Pending", False),
        ("metadata.deletionTimestamp=", True),
        (",status.phase=Pending,", True),
    ],
)
def test_a_field_selector_compares_the_api_s_fields(selector, holds):
    assert field_matcher(selector)(POD) is holds


def test_fields_of_events_go_by_their_names_in_the_api():
    event = Event(involved_object=ObjectReference(kind="Pod", namespace="ml", name="trainer-0"), reason="Failed")
    selector = "involvedObject.kind=Pod,involvedObject.name=trainer-0,reason=Failed,reportingComponent="
    assert field_matcher(selector)(event)


def test_a_boolean_field_is_true_or_false():
    assert field_matcher("spec.unschedulable=false")(Node())
    assert field_matcher("spec.unschedulable=true")(Node(spec=NodeSpec(unschedulable=True)))


@pytest.mark.parametrize("selector", ["a", "=a", "!=a", "a=b=c", "a=b,c", "a!b"])
def test_what_is_no_field_selector_is_refused(selector):
    with pytest.raises(ValueError, match="not a field selector"):
        field_matcher(selector)


@pytest.mark.parametrize(
    "field", ["foo", "name", "metadata", "metadata.labels", "spec.containers", "spec.nodeName.x", "spec.node_name"]
)
def test_a_field_that_cannot_be_compared_is_no_silent_mismatch(field):
    with pytest.raises(ValueError, match=f"field label not supported: {field}"):
        field_matcher(f"{field}!=x")(POD)


selectors = st.text() | st.text("ab./-_=!,() innotin\\><\t\n", max_size=30)


@given(selectors, st.dictionaries(st.text(), st.text()) | st.none())
@example("a" * 5000 + "!", None)
@example("a=" + "-" * 5000, None)
def test_any_text_as_a_label_selector_gives_a_test_or_a_value_error(selector, labels):
    with contextlib.suppress(ValueError):
        assert label_matcher(selector)(labels) in (True, False)


@given(selectors | st.lists(st.sampled_from(["metadata", "name", "__class__", ".", "=", "!=", ",", ""])).map("".join))
@example("a=" + "\\" * 5000)
@example("metadata.\ud800=x")
def test_any_text_as_a_field_selector_gives_a_test_or_a_value_error(selector):
    for item in (POD, Resource()):
        with contextlib.suppress(ValueError):
            assert field_matcher(selector)(item) in (True, False)


@given(
    st.dictionaries(st.from_regex(r"[a-z]([a-z0-9.-]*[a-z0-9])?", fullmatch=True), st.sampled_from(["", "x", "y-1"]))
)
def test_labels_match_the_selector_that_is_made_of_them(labels):
    assert label_matcher(",".join(f"{key}={value}" for key, value in labels.items()))(labels)
    assert label_matcher(",".join(f"{key} in ({value}, z)" for key, value in labels.items()))(labels)
    assert not any(label_matcher(f"{key}!={value}")(labels) for key, value in labels.items())
