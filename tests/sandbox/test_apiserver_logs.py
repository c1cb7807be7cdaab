"""The sandbox's API server serves logs as a real one did: statuses and bodies below were recorded from v1.36.2."""

from typing import Any

import pytest

from tests.sandbox.apiserver_seed import (
    EXTENDER,
    LOG,
    ask,
    refusal,
)
from tests.sandbox.apiserver_support import Answer


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
