"""JSON patch, merge patch and strategic merge patch: the documents that come out, and those that are refused."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.apiserver.jsonpatch import PatchError, apply_json_patch, same
from tests.sandbox.apiserver_support import talk

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text("ab~/", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab~/", max_size=2), inner, max_size=3),
    max_leaves=8,
)


def one(op: str, path: str, **rest: Any) -> dict[str, Any]:
    return {"op": op, "path": path, **rest}


@pytest.mark.parametrize(
    ("document", "patch", "expected"),
    [
        ({"foo": "bar"}, [one("add", "/baz", value="qux")], {"foo": "bar", "baz": "qux"}),
        ({"foo": ["bar", "baz"]}, [one("add", "/foo/1", value="qux")], {"foo": ["bar", "qux", "baz"]}),
        ({"foo": [1]}, [one("add", "/foo/1", value=2)], {"foo": [1, 2]}),
        ({"foo": ["bar"]}, [one("add", "/foo/-", value=["abc"])], {"foo": ["bar", ["abc"]]}),
        ({"foo": 1}, [one("add", "/foo", value=2)], {"foo": 2}),
        ({"foo": 1}, [one("add", "", value=[])], []),
        ({"baz": 1, "foo": 2}, [one("remove", "/baz")], {"foo": 2}),
        ({"foo": [1, 2, 3]}, [one("remove", "/foo/1")], {"foo": [1, 3]}),
        ({"foo": 1}, [one("replace", "/foo", value=None)], {"foo": None}),
        ({"a": {"b": 1}, "c": {}}, [one("move", "/c/d", **{"from": "/a/b"})], {"a": {}, "c": {"d": 1}}),
        ({"foo": [1, 2, 3]}, [one("move", "/foo/2", **{"from": "/foo/0"})], {"foo": [2, 3, 1]}),
        ({"a": [1]}, [one("copy", "/b", **{"from": "/a"}), one("add", "/b/-", value=2)], {"a": [1], "b": [1, 2]}),
        ({"baz": "qux", "foo": ["a", 2]}, [one("test", "/baz", value="qux"), one("test", "/foo/1", value=2)], None),
        ({"/": 9, "~1": 10}, [one("test", "/~01", value=10), one("remove", "/~1")], {"~1": 10}),
        ({"foo": 1}, [one("test", "/foo", value=1.0, more="ignored")], None),
    ],
)
def test_an_operation_changes_what_the_standard_says(document, patch, expected):
    assert apply_json_patch(document, patch) == (document if expected is None else expected)


@pytest.mark.parametrize(
    ("document", "operation"),
    [
        ({"foo": "bar"}, one("test", "/foo", value="baz")),
        ({"foo": "10"}, one("test", "/foo", value=10)),
        ({"foo": 1}, one("test", "/foo", value=True)),
        ({"foo": None}, one("test", "/bar", value=None)),
        ({"foo": "bar"}, one("add", "/baz/bat", value=1)),
        ({"foo": [1]}, one("add", "/foo/2", value=1)),
        ({"foo": [1]}, one("add", "/foo/01", value=1)),
        ({"foo": [1]}, one("add", "/foo/-1", value=1)),
        ({"foo": [1]}, one("replace", "/foo/-", value=1)),
        ({"foo": [1]}, one("replace", "/foo/1", value=1)),
        ({"foo": 1}, one("replace", "/bar", value=1)),
        ({"foo": 1}, one("remove", "/bar")),
        ({"foo": 1}, one("remove", "")),
        ({"foo": {"a": 1}}, one("move", "/foo/b", **{"from": "/foo"})),
        ({"foo": 1}, one("copy", "/b", **{"from": "/a"})),
        ({"foo": 1}, one("add", "/b")),
        ({"foo": 1}, one("add", "b", value=1)),
        ({"foo": 1}, one("add", "/~2", value=1)),
        ({"foo": 1}, one("spill", "/foo", value=1)),
        ({"foo": 1}, "remove /foo"),
    ],
)
def test_an_operation_that_does_not_fit_is_refused_and_nothing_is_changed(document, operation):
    before = copy.deepcopy(document)
    with pytest.raises(PatchError):
        apply_json_patch(document, [one("add", "/new", value=1), operation])
    assert document == before


def difference(old: Any, new: Any, path: str = "") -> list[dict[str, Any]]:
    """A patch that turns one document into another, made of every operation that can be told from the two."""
    if same(old, new):
        return [one("test", path, value=old)]
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return [one("replace", path, value=new)]
    steps: list[dict[str, Any]] = []
    for key in sorted({*old, *new}):
        place = f"{path}/{key.replace('~', '~0').replace('/', '~1')}"
        if key not in new:
            steps.append(one("remove", place))
        elif key not in old:
            steps.append(one("add", place, value=new[key]))
        else:
            steps += difference(old[key], new[key], place)
    return steps


@given(JSON, JSON)
def test_the_patch_between_two_documents_leads_from_one_to_the_other(old, new):
    assert same(apply_json_patch(old, difference(old, new)), new)


NODE = {"kind": "Node", "metadata": {"name": "gpu-1", "resourceVersion": "7", "annotations": {"hami.io/x": "1"}}}
NODES = {"nodes": [NODE]}


def test_a_patch_that_changes_nothing_leaves_the_version():
    async def conversation(_, client):
        patch = one("test", "/metadata/annotations/hami.io~1x", value="1")
        return await client.json_patch("/api/v1/nodes/gpu-1", patch)

    answer = talk(conversation, NODES)
    assert (answer.status, answer.version) == (200, "7")


def test_a_dry_run_shows_the_result_and_stores_nothing():
    async def conversation(_, client):
        patch = {"metadata": {"labels": {"a": "b"}}}
        shown = await client.merge_patch("/api/v1/nodes/gpu-1", patch, dryRun="All")
        return shown.body, (await client.get("/api/v1/nodes/gpu-1")).body

    shown, stored = talk(conversation, NODES)
    assert (shown["metadata"]["labels"], shown["metadata"]["resourceVersion"]) == ({"a": "b"}, "7")
    assert "labels" not in stored["metadata"]


def test_of_two_patches_that_test_the_same_value_one_wins():
    async def conversation(_, client):
        path = "/api/v1/nodes/gpu-1"

        def raised(value: str) -> Any:
            place = "/metadata/annotations/hami.io~1x"
            return client.json_patch(path, one("test", place, value="1"), one("replace", place, value=value))

        answers = [await raised("2"), await raised("3")]
        return [answer.status for answer in answers], (await client.get(path)).body["metadata"]["annotations"]

    assert talk(conversation, NODES) == ([200, 422], {"hami.io/x": "2"})
