import contextlib
import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bot.kube.lists import NotAListError, decode_list, encode_list
from bot.kube.models import ALL_KINDS, DEPLOYMENTS, NODES, PODS
from tests.kube.samples import a_list, pod


def names(kind, data):
    return [item.name for item in decode_list(kind, data).items]


@pytest.mark.parametrize("kind", ["List", "PodList"])
def test_a_list_of_kubectl_and_one_of_the_api_are_read_alike(kind):
    assert names(PODS, a_list(pod("a"), pod("b"), kind=kind)) == ["a", "b"]


def test_items_of_the_api_carry_no_kind_of_their_own():
    item = pod("a")
    del item["kind"]
    assert names(PODS, a_list(item, kind="PodList")) == ["a"]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (json.dumps(pod("a")).encode(), "its kind is 'Pod'"),
        (a_list(kind="NodeList"), "its kind is 'NodeList'"),
        (b'{"kind": "Table", "rows": []}', "its kind is 'Table'"),
        (b'{"kind": "Status", "status": "Failure"}', "its kind is 'Status'"),
        (b'{"kind": "List"}', "its kind is 'List'"),
        (b"[]", "is no List"),
        (b"null", "is no List"),
        (b"", "is no JSON"),
        (b"No resources found", "is no JSON"),
        (b'{"kind": "List", "items": [NaN]}', "is no JSON"),
        (a_list(pod("a"))[:-10], "is no JSON"),
        (b'{"kind": "List", "items": [' + b"[" * 100_000 + b"]" * 100_000 + b"]}", "is no JSON"),
        (b'{"kind": "PodList", "metadata": {"continue": "x"}, "items": []}', "one page of a longer list"),
    ],
)
def test_what_is_no_whole_list_of_that_kind_is_refused(data, said):
    with pytest.raises(NotAListError, match=said):
        decode_list(PODS, data)


def test_one_unreadable_item_does_not_spoil_the_others():
    broken = pod("x")
    broken["metadata"]["labels"] = {"app": 7}
    decoded = decode_list(PODS, a_list(pod("a"), broken, "text", pod("b")))
    assert [item.name for item in decoded.items] == ["a", "b"]
    assert [(bad.position, bad.namespace, bad.name) for bad in decoded.bad] == [(1, "ml", "x"), (2, "", "")]
    assert "labels" in decoded.bad[0].why


def test_of_a_key_that_stands_twice_the_last_counts_as_in_the_api_server():
    assert names(NODES, b'{"kind": "List", "items": [{"metadata": {"name": "a", "name": "b"}}]}') == ["b"]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_file_written_by_powershell_is_read(encoding):
    assert names(PODS, a_list(pod("a")).decode().encode(encoding)) == ["a"]


@pytest.mark.parametrize("kind", ALL_KINDS, ids=lambda kind: kind.plural)
def test_what_is_written_is_read_back(kind):
    written = encode_list(kind, [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}])
    assert names(kind, written) == ["a", "b"]


def test_what_is_written_names_kind_and_version_as_kubectl_does():
    item = json.loads(encode_list(DEPLOYMENTS, [{"metadata": {"name": "a"}}]))["items"][0]
    assert (item["apiVersion"], item["kind"]) == ("apps/v1", "Deployment")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["kind", "metadata", "name", "spec", "x"]), inner),
    max_leaves=20,
)


@given(st.binary() | json_values.map(lambda value: json.dumps(value).encode()))
@example(b"\xff\xfe\x00")
@example(b'{"kind": "List", "items": [{"metadata": {"name": "\xff"}}]}')
def test_any_bytes_are_a_list_or_are_refused(data):
    with contextlib.suppress(NotAListError):
        decode_list(PODS, data)


@given(st.lists(json_values, max_size=4))
def test_any_items_are_read_or_told(items):
    with contextlib.suppress(NotAListError):  # NaN and Infinity are no JSON
        decoded = decode_list(PODS, a_list(*items))
        assert len(decoded.items) + len(decoded.bad) == len(items)
