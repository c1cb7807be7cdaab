"""What pods have of their own: logs that grow and end, recorded ports behind the proxy, verbosity of the scheduler.

Logs are served as a real server did: statuses and bodies were recorded from v1.36.2.
"""

import re
from datetime import UTC, datetime
from typing import Any

import pytest

from sandbox.apiserver import Rule, Timing
from sandbox.apiserver.schedulerlogs import scheduler_log, verbosity
from tests.sandbox.apiserver_seed import (
    LOG,
    ask,
)
from tests.sandbox.apiserver_support import Answer, Clock, talk

NAME = "hami-scheduler-0"
PATH = f"/api/v1/namespaces/hami-system/pods/{NAME}"
EXTENDER, KUBE = "vgpu-scheduler-extender", "kube-scheduler"
LINES = [b"I1121 06:00:0%d.000000       1 score.go:275] n=%d\n" % (number, number) for number in range(6)]


def scheduler_pod(level: int = 4) -> dict[str, Any]:
    started = {"running": {"startedAt": "2026-11-21T06:00:00Z"}}
    return {
        "kind": "Pod",
        "metadata": {"name": NAME, "namespace": "hami-system", "uid": "u"},
        "spec": {
            "containers": [
                {"name": KUBE, "command": ["kube-scheduler", f"-v={level}"]},
                {"name": EXTENDER, "command": ["scheduler", f"-v={level}"], "ports": [{"containerPort": 9395}]},
            ]
        },
        "status": {"podIP": "127.1.0.1", "containerStatuses": [{"name": EXTENDER, "state": started}]},
    }


WAITING = {
    "kind": "Pod",
    "metadata": {
        "name": "s03-card-insufficient-memory",
        "namespace": "ml",
        "uid": "11111111-2222-4333-8444-555555555555",
    },
    "spec": {"containers": [{"name": "main"}]},
}
OBJECTS = {"pods": [scheduler_pod(), WAITING]}
LOGS = {("hami-system", NAME, EXTENDER): b"".join(LINES)}


def log(conversation_query: dict[str, Any], **options: Any) -> Any:
    async def conversation(_, client):
        return await client.get(f"{PATH}/log", **{"container": EXTENDER, **conversation_query})

    return talk(conversation, OBJECTS, **{"logs": LOGS, "clock": Clock(), **options})


def test_a_log_starts_at_a_time():
    assert log({"sinceTime": "2026-11-21T06:00:04Z"}).content == b"".join(LINES[4:])
    assert log({"sinceTime": "2026-11-21T14:00:04+08:00"}).content == b"".join(LINES[4:])


def test_lines_are_stamped_with_their_times():
    assert log({"timestamps": "true", "tailLines": 1}).content == b"2026-11-21T06:00:05.000000000Z " + LINES[5]


def test_the_log_of_the_run_before_is_another_one():
    previous = {("hami-system", NAME, EXTENDER): b"panic\n"}
    assert log({"previous": "true"}, previous_logs=previous).content == b"panic\n"
    assert log({"previous": "true"}).status == 400


@pytest.mark.parametrize(
    ("container", "level"),
    [
        ({}, 0),
        ({"command": ["x", "-v=4"]}, 4),
        ({"command": ["x", "-v=4", "-v=5"]}, 5),
        ({"command": ["x", "--v=4"], "args": ["-v", "2"]}, 2),
        ({"args": ["--verbose=9", "-v"]}, 0),
    ],
)
def test_the_last_flag_is_the_verbosity(container, level):
    assert verbosity(container) == level


NOON = datetime(2027, 3, 1, 12, tzinfo=UTC)
UIDS = {("ml", "s03-card-insufficient-memory"): WAITING["metadata"]["uid"]}


def simulated(level: int, container: str = EXTENDER) -> bytes:
    text = scheduler_log(container, level, NOON, lambda *pod: UIDS.get(pod))
    assert text
    return text


def test_a_higher_verbosity_says_more():
    sizes = [len(simulated(level)) for level in (0, 1, 2, 4, 5, 9)]
    assert sizes == sorted(sizes)
    assert [sizes[1], sizes[5]] == [sizes[0], sizes[4]]
    assert b"NodeUnfitPod" not in simulated(2)
    assert b'"NodeUnfitPod" pod="ml/s03-card-insufficient-memory"' in simulated(4)
    assert b'"CardInsufficientMemory" pod="ml/s03-card-insufficient-memory"' in simulated(5)
    kube = [simulated(level, KUBE).count(b"\n") for level in (0, 2, 4, 5)]
    assert kube == sorted(set(kube))


def test_the_newest_line_is_at_the_time_given_and_the_pods_are_those_of_the_cluster():
    text = simulated(4)
    assert re.findall(rb"^[IWEF](\d{4} \d\d:\d\d:\d\d)", text, re.MULTILINE)[-1] == b"0301 12:00:00"
    uids = set(re.findall(rb'"Starting schedule filter process" pod="s03-\S+" uuid="([^"]+)"', text))
    assert uids == {WAITING["metadata"]["uid"].encode()}


@pytest.mark.parametrize(("level", "told"), [(2, False), (4, True)])
def test_a_scheduler_without_a_recorded_log_says_as_much_as_its_flags_let_it(level, told):
    async def conversation(_, client):
        return await client.get(f"{PATH}/log", container=EXTENDER)

    answer = talk(conversation, {"pods": [scheduler_pod(level), WAITING]}, timing=Timing(), clock=Clock())
    assert (b"NodeUnfitPod" in answer.content) is told


PORTS = {
    "metrics": {("hami-system", NAME, "9395"): b"hami_up 1\n"},
    "profiles": {("hami-system", NAME, "heap"): b"\x1f\x8bprofile"},
}


def proxied(address: str, path: str, method: str = "GET", body: Any = None, **options: Any) -> Any:
    async def conversation(_, client):
        place = f"/api/v1/namespaces/hami-system/pods/{address}/proxy/{path}"
        return await client.send(method, place, body, "text/plain")

    return talk(conversation, OBJECTS, **{**PORTS, **options})


def test_a_port_that_nothing_listens_on_is_unavailable():
    answer = proxied(f"{NAME}:8080", "metrics")
    message = "error trying to reach service: dial tcp 127.1.0.1:8080: connect: connection refused"
    assert (answer.status, answer.body["reason"], answer.body["message"]) == (503, "ServiceUnavailable", message)


def test_the_proxy_is_a_right_of_its_own():
    answer = proxied(f"{NAME}:9395", "metrics", refused=[Rule(["get"], ["pods/proxy"])])
    assert answer.status == 403
    assert f'pods "{NAME}" is forbidden' in answer.body["message"]
    assert 'cannot get resource "pods/proxy"' in answer.body["message"]


def log_of(pod_name: str = "hami-scheduler-0", *, log: bytes = LOG, **query: Any) -> Answer:
    path = f"/api/v1/namespaces/hami-system/pods/{pod_name}/log"
    return ask(path, options={"logs": {("hami-system", NAME, EXTENDER): log}}, **query)


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


def test_the_log_of_a_missing_container_or_pod_says_so():
    container, missing = log_of(container="nope"), log_of("nope")
    message = "container nope is not valid for pod hami-scheduler-0"
    assert (container.status, container.body["message"]) == (400, message)
    assert (missing.status, missing.body["message"]) == (404, 'pods "nope" not found')
