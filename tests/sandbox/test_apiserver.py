"""The sandbox's API server answers as a real one did: statuses and bodies below were recorded from v1.36.2."""

import asyncio
import json
import signal
import subprocess
import sys
import tarfile

import aiohttp
import pytest
import yaml

from sandbox.apiserver import ApiServer, Fault
from tests.sandbox.apiserver_seed import EXTENDER, LOG, METADATA_LIST, OBJECTS, ask, converse, refusal


@pytest.mark.parametrize(("method", "path"), [("POST", "/api/v1/nodes/gpu-1"), ("DELETE", "/api/v1/nodes")])
def test_a_method_that_a_path_does_not_have_is_not_allowed(method, path):
    async def talk(server, _):
        async with aiohttp.ClientSession() as client, client.request(method, server.url + path) as response:
            return response.status, await response.json()

    status, body = converse(talk)
    assert (status, body["reason"]) == (405, "MethodNotAllowed")


def test_a_token_is_asked_for_and_may_be_rotated():
    async def talk(server, get):
        answers = [await get("/api/v1/nodes", headers) for headers in (None, {"Authorization": "Bearer one"})]
        server.token = "two"
        return [*answers, await get("/api/v1/nodes", {"Authorization": "Bearer one"})]

    missing, right, old = converse(talk, token="one")
    assert [missing.status, right.status, old.status] == [401, 200, 401]
    assert old.body == refusal(401, "Unauthorized", "Unauthorized")


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


async def test_the_previous_log_of_a_recording_is_served_as_that_of_the_run_before(recording):
    namespace, pod, container = EXTENDER
    (recording / "logs" / namespace / pod / f"{container}.previous.log").write_bytes(b"the run before\n")
    async with ApiServer.from_recording(recording) as server, aiohttp.ClientSession(server.url) as client:
        path = f"/api/v1/namespaces/{namespace}/pods/{pod}/log?container={container}"
        async with client.get(path) as now, client.get(f"{path}&previous=true") as before:
            assert (await now.read(), await before.read()) == (LOG, b"the run before\n")


@pytest.mark.process
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


@pytest.mark.parametrize(
    "headers", [{"Host": "sandbox.example"}, {"Host": "127.0.0.1.sandbox.example"}, {"Origin": "https://x.example"}]
)
async def test_a_web_page_that_has_its_name_point_here_reaches_nothing(headers: dict[str, str]) -> None:
    async with ApiServer({"pods": []}) as server, aiohttp.ClientSession(headers=headers) as session:
        for method, path in (("GET", "/api/v1/pods"), ("DELETE", "/api/v1/namespaces/ml/pods/a"), ("GET", "/livez")):
            async with session.request(method, server.url + path) as answer:
                assert answer.status == 403
        assert server.requests == []


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


def test_garbage_is_a_web_page_that_claims_success():
    answer = ask("/api/v1/nodes", options={"faults": [Fault("nodes", "garbage")]})
    assert (answer.status, answer.headers["Content-Type"].partition(";")[0]) == (200, "text/html")
