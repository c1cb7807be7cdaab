"""The sandbox's API server gives the answers that were recorded from kube-apiserver v1.36.2 (data/api).

A recording is served as if it had been taken now: every time in it is moved by one offset, and nothing else.
"""

import asyncio
import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from yarl import URL

from sandbox.apiserver import ApiServer, Fault, Rule
from sandbox.apiserver.recordings import read_recording
from sandbox.apiserver.timeshift import shift_objects
from tests.sandbox.apiserver_support import PATIENCE_S

DATA = Path(__file__).parent / "data" / "api"
USER = "system:serviceaccount:hami-system:hami-bot"
STATUS_PARTS = ("kind", "status", "reason", "message", "details", "code")

DEPLOYMENT = json.loads((DATA / "get-deployment.json").read_text())["response"]["body"]
NODES = [
    {"kind": "Node", "metadata": {"name": name, "resourceVersion": "24656"}}
    for name in ("cp-node-01", "cpu-node-21", *(f"gpu-node-{number:02d}" for number in range(1, 21)))
] + [{"kind": "Node", "metadata": {"name": f"node-{number}", "resourceVersion": "1"}} for number in range(16)]
SCHEDULER_POD = {
    "kind": "Pod",
    "metadata": {"name": "hami-scheduler-77cf4dd557-rfsxf", "namespace": "hami-system"},
    "spec": {"containers": [{"name": "kube-scheduler"}, {"name": "vgpu-scheduler-extender"}]},
}
NAMESPACES = [{"kind": "Namespace", "metadata": {"name": name}} for name in ("hami-system", "ml", "quota-ns")]
OBJECTS = {"deployments.apps": [DEPLOYMENT], "nodes": NODES, "pods": [SCHEDULER_POD], "namespaces": NAMESPACES}


def recorded(name: str) -> dict[str, Any]:
    return json.loads((DATA / f"{name}.json").read_text())


def replay(name: str, objects: Any = OBJECTS, **options: Any) -> tuple[dict[str, Any], dict[str, Any], Any]:
    """What was recorded, and what our server says to the same request; of a watch the first event."""
    case = recorded(name)
    sent = case["request"]

    async def talk() -> dict[str, Any]:
        async with ApiServer(objects, **options) as server, aiohttp.ClientSession() as client:
            url = URL(server.url + sent["path"], encoded=True)
            async with client.request(sent["method"], url, headers=sent["headers"], data=sent["body"]) as response:
                text = await response.text()
                kind = response.headers["Content-Type"]
                body = json.loads(text.splitlines()[0]) if kind.startswith("application/json") else text
                retry = {"retry_after": response.headers["Retry-After"]} if "Retry-After" in response.headers else {}
                return {"status": response.status, "content_type": kind, "body": body, **retry}

    ours = asyncio.run(asyncio.wait_for(talk(), PATIENCE_S))
    return case["response"], ours, case["request"]


def status_parts(body: Any) -> dict[str, Any]:
    return {part: body.get(part) for part in STATUS_PARTS}


REFUSALS = [
    "create-already-exists",
    "delete-precondition-conflict",
    "events-bad-fieldselector",
    "gone-expired-continue-token",
    "gone-list-exact-old-rv",
    "jsonpatch-add-args-missing-parent",
    "jsonpatch-index-out-of-range",
    "jsonpatch-malformed",
    "jsonpatch-not-json",
    "jsonpatch-replace-resourceVersion-stale",
    "jsonpatch-test-fails-args-missing-path",
    "jsonpatch-test-fails-value",
    "jsonpatch-test-resourceVersion-stale",
    "mergepatch-containers-list-replaces-all",
    "mergepatch-stale-resourceVersion",
    "nodes-bad-continue",
    "nodes-bad-labelselector",
    "notfound-deployment",
    "patch-immutable-selector",
    "patch-unsupported-media-type",
    "pod-log-two-containers-no-name",
    "strategic-stale-resourceVersion",
    "strategic-unknown-container-name",
]


@pytest.mark.parametrize("name", REFUSALS)
def test_a_refusal_is_the_recorded_one(name):
    theirs, ours, _ = replay(name)
    assert ours["status"] == theirs["status"]
    assert status_parts(ours["body"]) == status_parts(theirs["body"])


@pytest.mark.parametrize(
    "name", ["jsonpatch-test-ok-dryrun", "strategic-container-by-name", "mergepatch-annotation-ok"]
)
def test_a_patch_gives_the_recorded_object(name):
    theirs, ours, _ = replay(name)
    assert (ours["status"], ours["body"]) == (200, theirs["body"])


async def test_a_put_of_an_old_state_is_a_conflict_as_recorded():
    case = recorded("put-stale-resourceVersion")
    stale = DEPLOYMENT | {"metadata": DEPLOYMENT["metadata"] | {"resourceVersion": "1"}}
    async with (
        ApiServer(OBJECTS) as server,
        aiohttp.ClientSession(server.url) as client,
        client.put(case["request"]["path"], json=stale) as response,
    ):
        status, body = response.status, await response.json()
    assert (status, status_parts(body)) == (409, status_parts(case["response"]["body"]))


async def test_an_apply_patch_is_refused_because_nothing_here_owns_fields():
    async with ApiServer(OBJECTS) as server, aiohttp.ClientSession(server.url) as client:
        path = "/apis/apps/v1/namespaces/hami-system/deployments/hami-scheduler"
        headers = {"Content-Type": "application/apply-patch+yaml"}
        async with client.patch(path, data="{}", headers=headers) as response:
            assert response.status == 415


@pytest.mark.parametrize("name", ["forbidden-get-missing-object", "forbidden-list-nodes", "forbidden-patch-deployment"])
def test_who_may_nothing_is_told_so_as_recorded(name):
    theirs, ours, _ = replay(name, granted=[])
    expected = status_parts(theirs["body"])
    expected["message"] = expected["message"].replace("system:serviceaccount:ml:viewer", USER)
    assert (ours["status"], status_parts(ours["body"])) == (403, expected)


def test_a_bad_token_is_unauthorized_as_recorded():
    theirs, ours, _ = replay("unauthorized-bad-token", token="another")
    assert (ours["status"], ours["body"]) == (401, theirs["body"])


@pytest.mark.parametrize(
    ("name", "granted"), [("ssar-admin", None), ("ssar-viewer", [Rule(["get"], ["deployments"], ["apps"])])]
)
def test_an_access_review_is_answered_as_recorded(name, granted):
    theirs, ours, _ = replay(name, granted=granted)
    assert (ours["status"], ours["body"]) == (201, theirs["body"])


def test_pages_are_the_recorded_ones():
    theirs, ours, _ = replay("nodes-limit-5")
    assert ours["body"]["metadata"] == theirs["body"]["metadata"]
    names = [[item["metadata"]["name"] for item in answer["body"]["items"]] for answer in (ours, theirs)]
    assert names[0] == names[1]
    theirs, ours, _ = replay("nodes-limit-5-page2")
    assert ours["body"]["metadata"] == theirs["body"]["metadata"]


def test_a_version_of_the_future_is_waited_for_in_vain_as_recorded():
    theirs, ours, _ = replay("nodes-rv-future")
    assert (ours["status"], ours["retry_after"]) == (504, theirs["retry_after"])
    message = theirs["body"]["message"].replace("24704", "24656")
    assert status_parts(ours["body"]) == status_parts(theirs["body"]) | {"message": message}


def test_a_scale_is_the_recorded_one():
    theirs, ours, _ = replay("deployments-scale")
    assert ours["body"] == theirs["body"]


def test_a_path_outside_every_group_is_the_recorded_404():
    theirs, ours, _ = replay("notfound-path")
    assert (ours["status"], ours["content_type"], ours["body"]) == (404, theirs["content_type"], theirs["body"])


def test_a_namespace_that_is_not_there_lists_as_empty_as_recorded():
    theirs, ours, _ = replay("notfound-namespace-list-is-empty")
    assert (ours["status"], ours["body"]["kind"], ours["body"]["items"]) == (200, theirs["body"]["kind"], [])


def test_a_watch_from_an_old_version_ends_with_the_recorded_error():
    theirs, ours, _ = replay("gone-watch-old-rv")
    message = theirs["body"]["object"]["message"].replace("5148", "24656")
    theirs["body"]["object"]["message"] = message
    assert (ours["status"], ours["body"]) == (200, theirs["body"])


def test_the_end_of_the_initial_events_is_told_as_recorded():
    theirs, ours, _ = replay("watch-sendinitialevents-bookmark", faults=[Fault("/pods$", "gone", events=1)])
    theirs["body"]["object"]["metadata"]["resourceVersion"] = "24656"
    assert ours["body"] == theirs["body"]


CASE = Path(__file__).parents[1] / "cases" / "hami-2.10" / "recording.tar.gz"
TAKEN_AT = datetime(2026, 11, 21, 6, 13, 30, tzinfo=UTC)
DAY = timedelta(days=1, hours=1)


@pytest.mark.parametrize(
    ("text", "moved"),
    [
        ("2026-11-21T06:13:30Z", "2026-11-22T07:13:30Z"),
        ("2026-12-31T23:00:00.123456Z", "2027-01-02T00:00:00.123456Z"),
        ("2026-11-21T14:13:30+08:00", "2026-11-22T15:13:30+08:00"),
        ("Requesting_2026-11-21 05:52:25", "Requesting_2026-11-22 06:52:25"),
        ("Requesting_2026.11.21 05:52:25", "Requesting_2026.11.22 06:52:25"),
        ("Reported 2026-11-21 05:52:25.1 +0000 UTC m=+1", "Reported 2026-11-22 06:52:25.1 +0000 UTC m=+1"),
        ("2026-11-21T06:11:11Z,ml,trainer-0", "2026-11-22T07:11:11Z,ml,trainer-0"),
        ("2026-13-41T06:11:11Z", "2026-13-41T06:11:11Z"),
        ("10.2026-11-21", "10.2026-11-21"),
    ],
)
def test_times_keep_their_format(text, moved):
    assert json.loads(shift_objects(json.dumps({"a": text}).encode(), DAY)) == {"a": moved}


def test_seconds_since_1970_are_moved_where_hami_writes_them():
    text = json.dumps({"hami.io/bind-time": "1795241448", "hami.io/vgpu-time": "1795241448", "other": "1795241448"})
    assert json.loads(shift_objects(text.encode(), DAY)) == {
        "hami.io/bind-time": "1795331448",
        "hami.io/vgpu-time": "1795331448",
        "other": "1795241448",
    }


TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$")


def differences(old: Any, new: Any) -> set[timedelta | str]:
    """By how much each time in two copies of a document differs; anything else that differs is named."""
    if isinstance(old, dict):
        assert old.keys() == new.keys()
        return {difference for key in old for difference in differences(old[key], new[key])}
    if isinstance(old, list):
        return {difference for pair in zip(old, new, strict=True) for difference in differences(*pair)}
    if old == new:
        return {"a time that was not moved"} if isinstance(old, str) and TIME.match(old) else set()
    if isinstance(old, str) and TIME.match(old):
        return {datetime.fromisoformat(new) - datetime.fromisoformat(old)}
    return {re.sub(r"\d", "0", old)}


def test_every_time_of_a_recorded_cluster_is_moved_by_the_same():
    now = TAKEN_AT + timedelta(days=3, seconds=5, microseconds=400_000)
    plain, moved = read_recording(CASE), read_recording(CASE, now)
    found = differences(plain.objects, moved.objects)
    handshake, lock, unix = "Requesting_0000-00-00 00:00:00", "0000-00-00T00:00:00Z,ml,", "0000000000"
    others = {entry for entry in found if isinstance(entry, str)}
    assert found - others == {timedelta(days=3, seconds=5)}
    assert {handshake, unix} <= others
    assert all(other in {handshake, unix} or other.startswith(lock) or "0000-00-00" in other for other in others)
    [key] = plain.logs
    assert moved.logs[key].splitlines()[-1][5:].split()[0] != plain.logs[key].splitlines()[-1][5:].split()[0]
    assert len(moved.logs[key]) == len(plain.logs[key])


async def test_a_shifted_recording_is_served():
    now = datetime(2030, 2, 3, 4, 5, 6, tzinfo=UTC)
    async with (
        ApiServer.from_recording(CASE, shift_to=now) as server,
        aiohttp.ClientSession(server.url) as client,
        client.get("/api/v1/namespaces/ml/pods") as response,
    ):
        pods = (await response.json())["items"]
    assert (
        timedelta()
        < now - max(datetime.fromisoformat(pod["metadata"]["creationTimestamp"]) for pod in pods)
        < timedelta(minutes=5)
    )
