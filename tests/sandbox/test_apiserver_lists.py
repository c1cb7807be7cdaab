"""The sandbox's API server lists as a real one did: statuses and bodies below were recorded from v1.36.2."""

import pytest

from tests.sandbox.apiserver_seed import (
    METADATA_LIST,
    ask,
    converse,
    refusal,
)


def test_a_list_is_sorted_and_its_items_carry_no_kind():
    answer = ask("/api/v1/nodes")
    assert answer.status == 200
    assert answer.headers["Content-Type"].startswith("application/json")
    assert answer.names == ["gpu-1", "gpu-2", "gpu-3"]
    assert {"kind": answer.body["kind"], "apiVersion": answer.body["apiVersion"]} == {
        "kind": "NodeList",
        "apiVersion": "v1",
    }
    assert answer.body["metadata"] == {"resourceVersion": "43"}
    assert list(answer.body["items"][0]) == ["metadata", "spec", "status"]


def test_items_of_all_namespaces_come_in_the_order_of_their_keys():
    answer = ask("/api/v1/pods")
    keys = [(item["metadata"]["namespace"], item["metadata"]["name"]) for item in answer.body["items"]]
    assert keys == [  # '-' sorts before '/'
        ("hami-system", "hami-scheduler-0"),
        ("ml-dev", "trainer"),
        ("ml", "trainer"),
        ("ml", "web"),
    ]


def test_a_kind_that_the_server_does_not_know_is_served_when_seeded():
    scaler = {"kind": "Queue", "apiVersion": "example.dev/v1beta1", "metadata": {"name": "q", "namespace": "ml"}}
    answer = ask("/apis/example.dev/v1beta1/namespaces/ml/queues", objects={"queues.example.dev": [scaler]})
    assert (answer.body["kind"], answer.names) == ("QueueList", ["q"])


def test_pages_go_on_where_the_last_one_ended():
    async def talk(_, get):
        first = await get("/api/v1/nodes", limit=2)
        token = first.body["metadata"]["continue"]
        return first, await get("/api/v1/nodes", **{"limit": 2, "continue": token})

    first, second = converse(talk)
    assert (first.names, second.names) == (["gpu-1", "gpu-2"], ["gpu-3"])
    assert first.body["metadata"]["remainingItemCount"] == 1
    assert second.body["metadata"] == {"resourceVersion": "43"}


def test_a_garbage_continue_token_is_a_bad_request():
    answer = ask("/api/v1/nodes", **{"limit": 5, "continue": "garbage"})
    problem = "invalid character '\\u0081' looking for beginning of value"
    message = f"invalid continue token: continue key is not valid: {problem}"
    assert (answer.status, answer.body) == (400, refusal(400, "BadRequest", message))


def test_an_expired_continue_token_is_gone_and_names_one_that_goes_on():
    old = "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MjQsInN0YXJ0IjoiL2dwdS0xXHUwMDAwIn0"  # of version 24, behind gpu-1

    async def talk(_, get):
        gone = await get("/api/v1/nodes", **{"limit": 1, "continue": old})
        return gone, await get("/api/v1/nodes", **{"limit": 1, "continue": gone.body["metadata"]["continue"]})

    gone, resumed = converse(talk)
    assert (gone.status, gone.body["reason"], gone.body["code"]) == (410, "Expired", 410)
    assert gone.body["message"].startswith("The provided continue parameter is too old to display a consistent list")
    assert resumed.names == ["gpu-2"]


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("pool=a100", ["gpu-2", "gpu-3"]),
        ("pool==a100,rank!=2", ["gpu-3"]),
        ("pool in (t4, v100)", ["gpu-1"]),
        ("pool notin (t4)", ["gpu-2", "gpu-3"]),
        ("pool,!zone", ["gpu-1", "gpu-2", "gpu-3"]),
        ("zone", []),
        ("zone!=b", ["gpu-1", "gpu-2", "gpu-3"]),
        ("rank>1", ["gpu-2", "gpu-3"]),
    ],
)
def test_label_selectors_select(selector, names):
    assert ask("/api/v1/nodes", labelSelector=selector).names == names


@pytest.mark.parametrize(
    ("path", "selector", "names"),
    [
        ("/api/v1/pods", "spec.nodeName=gpu-1", ["web"]),
        ("/api/v1/pods", "spec.nodeName=,status.phase!=Failed,metadata.namespace=ml", ["trainer"]),
        ("/api/v1/pods", "spec.schedulerName=hami-scheduler,spec.hostNetwork=false", ["trainer"]),
        ("/api/v1/nodes", "spec.unschedulable=true", ["gpu-3"]),
        ("/api/v1/nodes", "spec.unschedulable!=true,metadata.name!=gpu-1", ["gpu-2"]),
        ("/api/v1/namespaces/ml/events", "involvedObject.name=trainer,reason=FilteringFailed", ["trainer.1"]),
        ("/api/v1/events", "source=hami-scheduler,type=Warning", ["trainer.1"]),
        ("/apis/apps/v1/deployments", "metadata.name=hami-scheduler", ["hami-scheduler"]),
    ],
)
def test_field_selectors_select(path, selector, names):
    assert ask(path, fieldSelector=selector).names == names


def test_a_list_of_metadata_holds_neither_spec_nor_status():
    body = ask("/api/v1/nodes", headers=METADATA_LIST, limit=1).body
    assert (body["kind"], body["apiVersion"]) == ("PartialObjectMetadataList", "meta.k8s.io/v1")
    assert body["metadata"]["remainingItemCount"] == 2
    [item] = body["items"]
    assert list(item) == ["kind", "apiVersion", "metadata"]
    assert (item["kind"], item["metadata"]["name"]) == ("PartialObjectMetadata", "gpu-1")


@pytest.mark.parametrize(
    ("encoding", "size", "compressed"), [("gzip", 2000, True), ("gzip", 2, False), ("", 2000, False)]
)
def test_only_a_large_list_is_compressed_and_only_for_who_takes_it(encoding, size, compressed):
    items = [{"kind": "Pod", "metadata": {"name": f"p{number:04d}", "note": "x" * 100}} for number in range(size)]
    answer = ask("/api/v1/pods", headers={"Accept-Encoding": encoding}, objects={"pods": items})
    assert ("gzip" in answer.headers.get("Content-Encoding", "")) is compressed
    assert len(answer.names) == size
