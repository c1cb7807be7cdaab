"""The sandbox's API server fails on demand, as a real one does."""

import asyncio

import aiohttp
import pytest

from sandbox.apiserver import Fault
from tests.sandbox.apiserver_seed import (
    ask,
    converse,
    refusal,
)


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
