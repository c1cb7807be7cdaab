"""The sandbox's API server answers as a real one did: statuses and bodies below were recorded from v1.36.2."""

import asyncio
import json
import signal
import subprocess
import sys
import tarfile
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import aiohttp
import kubernetes.aio
import pytest
import yaml

from sandbox.apiserver import ApiServer, Fault
from tests.sandbox.apiserver_support import PATIENCE_S

METADATA_LIST = {"Accept": "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"}
METADATA = {"Accept": "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json"}

NODES = [
    {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {
            "name": f"gpu-{number}",
            "uid": str(number),
            "resourceVersion": str(40 + number),
            "labels": {"pool": pool, "rank": str(number)},
        },
        "spec": {"unschedulable": True} if number == 3 else {},
        "status": {"allocatable": {"cpu": "8"}},
    }
    for number, pool in ((3, "a100"), (1, "t4"), (2, "a100"))
]


def pod(namespace: str, name: str, phase: str, *containers: str, **spec: Any) -> dict[str, Any]:
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"namespace": namespace, "name": name, "resourceVersion": "7", "labels": {"app": name}},
        "spec": {"containers": [{"name": container} for container in containers], **spec},
        "status": {"phase": phase},
    }


PODS = [
    pod("ml", "trainer", "Pending", "main", schedulerName="hami-scheduler"),
    pod("ml", "web", "Running", "main", nodeName="gpu-1", schedulerName="default-scheduler"),
    pod("ml-dev", "trainer", "Failed", "main", nodeName="gpu-2"),
    pod("hami-system", "hami-scheduler-0", "Running", "kube-scheduler", "vgpu-scheduler-extender"),
]
EVENT = {
    "kind": "Event",
    "apiVersion": "v1",
    "metadata": {"namespace": "ml", "name": "trainer.1"},
    "involvedObject": {"kind": "Pod", "namespace": "ml", "name": "trainer", "uid": "u"},
    "reason": "FilteringFailed",
    "type": "Warning",
    "reportingComponent": "hami-scheduler",
}
DEPLOYMENT = {
    "kind": "Deployment",
    "apiVersion": "apps/v1",
    "metadata": {"namespace": "hami-system", "name": "hami-scheduler"},
    "spec": {"replicas": 1},
}
OBJECTS = {"nodes": NODES, "pods": PODS, "events": [EVENT], "deployments.apps": [DEPLOYMENT]}
LOG = b"".join(
    b'I1121 06:%02d:00.000000       1 score.go:275] "NodeUnfitPod" pod="ml/trainer" n=%d\n' % (number, number)
    for number in range(10)
)
EXTENDER = ("hami-system", "hami-scheduler-0", "vgpu-scheduler-extender")


class Answer(NamedTuple):
    status: int
    headers: Any
    content: bytes

    @property
    def body(self) -> Any:
        return json.loads(self.content)

    @property
    def names(self) -> list[str]:
        return [item["metadata"]["name"] for item in self.body["items"]]


Get = Callable[..., Awaitable[Answer]]


def converse(talk: Callable[[ApiServer, Get], Awaitable[Any]], objects: Any = OBJECTS, **options: Any) -> Any:
    """What `talk` returns; it gets a running server and a function that sends one GET."""

    async def run():
        async with ApiServer(objects, **options) as server, aiohttp.ClientSession(server.url) as client:

            async def get(path: str, headers: Any = None, **query: Any) -> Answer:
                params = {name: str(value) for name, value in query.items()}
                async with client.get(path, headers=headers, params=params) as response:
                    return Answer(response.status, response.headers, await response.read())

            return await asyncio.wait_for(talk(server, get), PATIENCE_S)

    return asyncio.run(run())


def ask(path: str, *, headers: Any = None, objects: Any = OBJECTS, options: Any = None, **query: Any) -> Answer:
    """The server's answer to one GET."""
    return converse(lambda _, get: get(path, headers, **query), objects, **(options or {}))


def refusal(code: int, reason: str, message: str, **details: Any) -> dict[str, Any]:
    """A Status body as the real server writes it."""
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message}
    return status | {"reason": reason} | ({"details": details} if details else {}) | {"code": code}


# ------------------------------------------------------------------------------------------------ lists


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


def test_a_namespaced_list_holds_that_namespace_only():
    assert ask("/api/v1/namespaces/ml/pods").names == ["trainer", "web"]


@pytest.mark.parametrize("path", ["/api/v1/namespaces/nope/pods", "/api/v1/services", "/apis/batch/v1/jobs"])
def test_what_is_not_there_lists_as_empty(path):
    answer = ask(path)
    assert (answer.status, answer.body["items"]) == (200, [])


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


def test_a_selected_list_does_not_count_what_remains():
    metadata = ask("/api/v1/pods", limit=1, fieldSelector="status.phase!=Succeeded").body["metadata"]
    assert "continue" in metadata
    assert "remainingItemCount" not in metadata


def test_a_list_from_the_watch_cache_ignores_the_limit():
    assert ask("/api/v1/nodes", resourceVersion=0, limit=2).names == ["gpu-1", "gpu-2", "gpu-3"]


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
    ("selector", "message"),
    [
        ("a===", "unable to parse requirement: found '=', expected: identifier"),
        ("a=b,", "found '', expected: identifier after ','"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
    ],
)
def test_a_malformed_label_selector_is_a_bad_request(selector, message):
    answer = ask("/api/v1/nodes", labelSelector=selector)
    assert (answer.status, answer.body) == (400, refusal(400, "BadRequest", message))


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


@pytest.mark.parametrize(
    ("path", "selector", "message"),
    [
        ("/api/v1/events", "foo=bar", "field label not supported: foo"),
        ("/api/v1/nodes", "status.phase=Ready", "field label not supported: status.phase"),
        (
            "/apis/apps/v1/deployments",
            "status.replicas=1",
            '"status.replicas" is not a known field selector: only "metadata.name", "metadata.namespace"',
        ),
        ("/api/v1/pods", "nonsense", "invalid selector: 'nonsense'; can't understand 'nonsense'"),
    ],
)
def test_a_field_selector_that_the_kind_does_not_support_is_a_bad_request(path, selector, message):
    answer = ask(path, fieldSelector=selector)
    assert (answer.status, answer.body) == (400, refusal(400, "BadRequest", message))


# ------------------------------------------------------------------------------------------------ metadata only, gzip


def test_a_list_of_metadata_holds_neither_spec_nor_status():
    body = ask("/api/v1/nodes", headers=METADATA_LIST, limit=1).body
    assert (body["kind"], body["apiVersion"]) == ("PartialObjectMetadataList", "meta.k8s.io/v1")
    assert body["metadata"]["remainingItemCount"] == 2
    [item] = body["items"]
    assert list(item) == ["kind", "apiVersion", "metadata"]
    assert (item["kind"], item["metadata"]["name"]) == ("PartialObjectMetadata", "gpu-1")


def test_one_object_is_given_as_metadata_too():
    body = ask("/api/v1/nodes/gpu-1", headers=METADATA).body
    assert (body["kind"], sorted(body)) == ("PartialObjectMetadata", ["apiVersion", "kind", "metadata"])


def test_metadata_of_one_object_is_not_what_a_list_gives():
    answer = ask("/api/v1/nodes", headers=METADATA)
    message = "you requested PartialObjectMetadata, but the requested object is a list (*core.NodeList)"
    assert (answer.status, answer.body) == (406, refusal(406, "NotAcceptable", message))


@pytest.mark.parametrize(
    ("encoding", "size", "compressed"), [("gzip", 2000, True), ("gzip", 2, False), ("", 2000, False)]
)
def test_only_a_large_list_is_compressed_and_only_for_who_takes_it(encoding, size, compressed):
    items = [{"kind": "Pod", "metadata": {"name": f"p{number:04d}", "note": "x" * 100}} for number in range(size)]
    answer = ask("/api/v1/pods", headers={"Accept-Encoding": encoding}, objects={"pods": items})
    assert ("gzip" in answer.headers.get("Content-Encoding", "")) is compressed
    assert len(answer.names) == size


# ----------------------------------------------------------------------------------------- one object, no such path


def test_one_object_carries_its_kind():
    body = ask("/apis/apps/v1/namespaces/hami-system/deployments/hami-scheduler").body
    assert body == DEPLOYMENT


def test_an_object_that_is_not_there_is_not_found():
    answer = ask("/apis/apps/v1/namespaces/hami-system/deployments/nope")
    expected = refusal(
        404, "NotFound", 'deployments.apps "nope" not found', name="nope", group="apps", kind="deployments"
    )
    assert (answer.status, answer.body) == (404, expected)


@pytest.mark.parametrize(
    "path", ["/apis/apps/v1/things", "/api/v1/things/x", "/api/v1/pods/web", "/api/v1/nodes/a/b/c"]
)
def test_a_resource_that_its_group_does_not_have_is_not_found(path):
    answer = ask(path)
    expected = refusal(404, "NotFound", "the server could not find the requested resource")
    assert (answer.status, answer.body) == (404, expected | {"details": {}})


@pytest.mark.parametrize("path", ["/apis/nope/v1/things", "/apis/apps/v7/deployments", "/nope"])
def test_a_path_outside_every_group_is_a_plain_404(path):
    answer = ask(path)
    assert (answer.status, answer.content) == (404, b"404 page not found\n")


@pytest.mark.parametrize(("method", "path"), [("POST", "/api/v1/nodes/gpu-1"), ("DELETE", "/api/v1/nodes")])
def test_a_method_that_a_path_does_not_have_is_not_allowed(method, path):
    async def talk(server, _):
        async with aiohttp.ClientSession() as client, client.request(method, server.url + path) as response:
            return response.status, await response.json()

    status, body = converse(talk)
    assert (status, body["reason"]) == (405, "MethodNotAllowed")


def test_groups_and_their_resources_are_told():
    async def talk(_, get):
        return [await get(path) for path in ("/api", "/apis", "/apis/apps", "/apis/apps/v1", "/api/v1", "/openapi/v3")]

    api, groups, apps, deployments, core, openapi = (answer.body for answer in converse(talk))
    assert api["versions"] == ["v1"]
    assert {"apps", "coordination.k8s.io", "authorization.k8s.io"} <= {group["name"] for group in groups["groups"]}
    assert apps["preferredVersion"] == {"groupVersion": "apps/v1", "version": "v1"}
    named = {one["name"]: one for one in [*deployments["resources"], *core["resources"]]}
    assert named["deployments"]["shortNames"] == ["deploy"]
    assert (named["deployments/scale"]["group"], named["deployments/scale"]["kind"]) == ("autoscaling", "Scale")
    assert [named[name]["namespaced"] for name in ("nodes", "pods", "pods/log")] == [False, True, True]
    assert "api/v1" in openapi["paths"]


@pytest.mark.parametrize("path", ["/apis/nope", "/apis/apps/v7", "/openapi/v2"])
def test_a_group_that_is_not_served_is_a_plain_404(path):
    answer = ask(path)
    assert (answer.status, answer.content) == (404, b"404 page not found\n")


def test_version_and_health_are_told():
    async def talk(_, get):
        return await get("/version"), await get("/readyz")

    version, ready = converse(talk, server_version="v1.34.1")
    told = {name: version.body[name] for name in ("major", "minor", "gitVersion")}
    assert told == {"major": "1", "minor": "34", "gitVersion": "v1.34.1"}
    assert (ready.status, ready.content) == (200, b"ok")


# ------------------------------------------------------------------------------------------------ credentials, clients


def test_a_token_is_asked_for_and_may_be_rotated():
    async def talk(server, get):
        answers = [await get("/api/v1/nodes", headers) for headers in (None, {"Authorization": "Bearer one"})]
        server.token = "two"
        return [*answers, await get("/api/v1/nodes", {"Authorization": "Bearer one"})]

    missing, right, old = converse(talk, token="one")
    assert [missing.status, right.status, old.status] == [401, 200, 401]
    assert old.body == refusal(401, "Unauthorized", "Unauthorized")


def test_every_request_is_kept():
    async def talk(server, get):
        await get("/api/v1/nodes", {"Accept": "application/json"}, limit=3)
        return server.requests

    [request] = converse(talk)
    assert (request.method, request.path, request.query) == ("GET", "/api/v1/nodes", {"limit": "3"})
    assert request.headers["accept"] == "application/json"


def test_the_official_client_reads_it_through_the_kubeconfig():
    async def talk(server, _):
        configuration = kubernetes.aio.client.Configuration()
        config = yaml.safe_load(server.kubeconfig())
        await kubernetes.aio.config.load_kube_config_from_dict(config, client_configuration=configuration)
        async with kubernetes.aio.client.ApiClient(configuration) as client:
            nodes = await kubernetes.aio.client.CoreV1Api(client).list_node(label_selector="pool=a100")
        return [node.metadata.name for node in nodes.items]

    assert converse(talk, token="secret") == ["gpu-2", "gpu-3"]


# ------------------------------------------------------------------------------------------------ logs


def log_of(pod_name: str = "hami-scheduler-0", *, log: bytes = LOG, **query: Any) -> Answer:
    path = f"/api/v1/namespaces/hami-system/pods/{pod_name}/log"
    return ask(path, options={"logs": {EXTENDER: log}}, **query)


def minutes(answer: Answer) -> list[int]:
    """Which lines of LOG the answer holds."""
    return [int(line.rpartition(b"=")[2]) for line in answer.content.splitlines()]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, list(range(10))),
        ({"tailLines": 3}, [7, 8, 9]),
        ({"tailLines": 0}, []),
        ({"tailLines": 99}, list(range(10))),
        ({"sinceSeconds": 120}, [7, 8, 9]),
        ({"sinceSeconds": 119}, [8, 9]),
        ({"sinceSeconds": 86400}, list(range(10))),
        ({"sinceSeconds": 240, "tailLines": 2}, [8, 9]),
    ],
)
def test_a_log_is_cut_to_what_was_asked_for(query, expected):
    answer = log_of(container="vgpu-scheduler-extender", **query)
    assert answer.headers["Content-Type"].startswith("text/plain")
    assert minutes(answer) == expected


def test_a_byte_limit_keeps_the_first_bytes_of_the_range():
    answer = log_of(container="vgpu-scheduler-extender", tailLines=2, limitBytes=30)
    assert answer.content == LOG.splitlines(keepends=True)[-2][:30]


def test_a_log_without_klog_headers_is_given_whole():
    assert (
        log_of(log=b"hello\nworld\n", container="vgpu-scheduler-extender", sinceSeconds=1).content == b"hello\nworld\n"
    )


def test_lines_without_a_header_belong_to_the_line_above():
    log = LOG.replace(b"n=8\n", b"n=8\ngoroutine 1 [running]:\n")
    answer = log_of(log=log, container="vgpu-scheduler-extender", sinceSeconds=30)
    assert answer.content.count(b"\n") == 1


def test_a_pod_with_two_containers_must_be_asked_for_one():
    message = (
        "a container name must be specified for pod hami-scheduler-0, "
        "choose one of: [kube-scheduler vgpu-scheduler-extender]"
    )
    answer = log_of()
    assert (answer.status, answer.body) == (400, refusal(400, "BadRequest", message))


def test_the_log_of_a_missing_container_or_pod_says_so():
    container, missing = log_of(container="nope"), log_of("nope")
    message = "container nope is not valid for pod hami-scheduler-0"
    assert (container.status, container.body["message"]) == (400, message)
    assert (missing.status, missing.body["message"]) == (404, 'pods "nope" not found')


# ------------------------------------------------------------------------------------------------ faults


@pytest.mark.parametrize(
    ("status", "path", "expected"),
    [
        (401, "/api/v1/nodes", refusal(401, "Unauthorized", "Unauthorized")),
        (
            403,
            "/api/v1/namespaces/hami-system/pods/nope",
            refusal(
                403,
                "Forbidden",
                'pods "nope" is forbidden: User "system:serviceaccount:hami-system:hami-bot" cannot get resource '
                '"pods" in API group "" in the namespace "hami-system"',
                name="nope",
                kind="pods",
            ),
        ),
        (
            403,
            "/api/v1/nodes",
            refusal(
                403,
                "Forbidden",
                'nodes is forbidden: User "system:serviceaccount:hami-system:hami-bot" cannot list resource '
                '"nodes" in API group "" at the cluster scope',
                kind="nodes",
            ),
        ),
        (404, "/api/v1/nodes/gpu-1", refusal(404, "NotFound", 'nodes "gpu-1" not found', name="gpu-1", kind="nodes")),
    ],
)
def test_a_status_fault_answers_as_the_real_server_would(status, path, expected):
    answer = ask(path, options={"faults": [Fault(path, "status", status)]})
    assert (answer.status, answer.body) == (status, expected)


@pytest.mark.parametrize(
    ("status", "reason"), [(410, "Expired"), (429, "TooManyRequests"), (503, "ServiceUnavailable")]
)
def test_other_status_faults_carry_a_status_body(status, reason):
    answer = ask("/api/v1/nodes", options={"faults": [Fault("nodes", "status", status, retry_after=2)]})
    assert (answer.status, answer.body["reason"], answer.body["kind"]) == (status, reason, "Status")
    assert answer.headers.get("Retry-After") == (None if status == 410 else "2")


def test_a_fault_waits_for_its_turn_and_ends():
    async def talk(_, get):
        return [(await get("/api/v1/nodes")).status for _ in range(5)]

    assert converse(talk, faults=[Fault("/nodes$", "status", 500, skip=1, times=2)]) == [200, 500, 500, 200, 200]


def test_faults_follow_each_other():
    async def talk(_, get):
        return [(await get("/api/v1/nodes")).status for _ in range(3)]

    faults = [Fault("nodes", "status", 401, times=1), Fault("nodes", "status", 410, times=1)]
    assert converse(talk, faults=faults) == [401, 410, 200]


def test_a_fault_leaves_other_paths_alone():
    assert ask("/api/v1/pods", options={"faults": [Fault("/nodes", "status", 500)]}).status == 200


def test_a_fault_without_a_known_body_is_refused():
    with pytest.raises(ValueError, match="418"):
        Fault("/", "status", 418)


def test_a_refused_connection_is_closed_without_an_answer():
    with pytest.raises(aiohttp.ServerDisconnectedError):
        ask("/api/v1/nodes", options={"faults": [Fault("nodes", "refuse")]})


def test_a_cut_answer_ends_in_the_middle():
    with pytest.raises(aiohttp.ClientPayloadError):
        ask("/api/v1/nodes", options={"faults": [Fault("nodes", "cut")]})


@pytest.mark.parametrize("kind", ["hang", "slow"])
def test_an_answer_that_does_not_end_is_ended_by_the_client_and_does_not_hold_the_server(kind):
    async def talk(_, get):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(get("/api/v1/nodes"), 0.2)
        return (await get("/api/v1/pods")).status

    assert converse(talk, faults=[Fault("nodes", kind)]) == 200


def test_garbage_is_a_web_page_that_claims_success():
    answer = ask("/api/v1/nodes", options={"faults": [Fault("nodes", "garbage")]})
    assert (answer.status, answer.headers["Content-Type"].partition(";")[0]) == (200, "text/html")


# ------------------------------------------------------------------------------------------------ recordings, command


@pytest.fixture
def recording(tmp_path):
    folder = tmp_path / "case"
    (folder / "objects").mkdir(parents=True)
    (folder / "meta.json").write_text(json.dumps({"format": "hami-bot.recording/v1", "server_version": "v1.36.2"}))
    for name, items in OBJECTS.items():
        (folder / "objects" / f"{name}.json").write_text(json.dumps({"kind": "List", "items": items}))
    logs = folder / "logs" / EXTENDER[0] / EXTENDER[1]
    logs.mkdir(parents=True)
    (logs / f"{EXTENDER[2]}.log").write_bytes(LOG)
    return folder


@pytest.mark.parametrize("packed", [False, True])
def test_a_recording_is_served_from_a_folder_and_from_an_archive(recording, packed):
    path = recording
    if packed:
        path = recording.with_suffix(".tar.gz")
        with tarfile.open(path, "w:gz") as archive:
            archive.add(recording, "some-folder")

    async def read():
        async with ApiServer.from_recording(path) as server, aiohttp.ClientSession(server.url) as client:
            async with client.get("/apis/apps/v1/deployments") as response:
                deployments = await response.json()
            async with client.get("/version") as response:
                version = await response.json()
            log_path = f"/api/v1/namespaces/{EXTENDER[0]}/pods/{EXTENDER[1]}/log?container={EXTENDER[2]}"
            async with client.get(log_path) as response:
                return deployments["items"][0]["metadata"]["name"], version["gitVersion"], await response.read()

    assert asyncio.run(read()) == ("hami-scheduler", "v1.36.2", LOG)


def test_the_command_prints_its_url_serves_and_ends_when_interrupted(tmp_path):
    kubeconfig = tmp_path / "kubeconfig"
    command = [sys.executable, "-m", "sandbox.apiserver", "--nodes", "2", "--pods", "9"]
    process = subprocess.Popen([*command, "--kubeconfig-out", str(kubeconfig)], stdout=subprocess.PIPE, text=True)
    try:
        url = process.stdout.readline().strip()

        async def count():
            async with aiohttp.ClientSession(url) as client, client.get("/api/v1/pods") as response:
                return len((await response.json())["items"])

        assert asyncio.run(count()) == 9
        assert yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]["server"] == url
        process.send_signal(signal.SIGINT)
        assert process.wait(5) == 0
    finally:
        process.kill()
        process.communicate()
