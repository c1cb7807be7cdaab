"""What Slack's answers mean for whoever sent the request."""

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from bot.slack.failures import LONGEST_WAIT, SHORTEST_WAIT, Problem, answered, broken, seconds_to_wait
from bot.texts import in_english


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        *(("1.5", 1.5), ("30", 30.0), (" 2 ", 2.0), (None, 1.0), ("", 1.0), ("soon", 1.0), ("-5", 1.0)),
        *(("nan", 1.0), ("inf", LONGEST_WAIT), ("1e9", LONGEST_WAIT), ("0", SHORTEST_WAIT)),
        ("Wed, 21 Oct 2026 07:28:00 GMT", 1.0),
    ],
)
def test_retry_after_is_read_whatever_it_says(header: str | None, seconds: float):
    assert seconds_to_wait(header) == seconds


@given(st.text())
def test_retry_after_is_always_bounded(header: str):
    assert SHORTEST_WAIT <= seconds_to_wait(header) <= LONGEST_WAIT


PROXY = URL("http://u:s3cret@proxy.example")
REFUSED = aiohttp.RequestInfo(PROXY, "CONNECT", CIMultiDictProxy(CIMultiDict()), PROXY)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (aiohttp.ClientHttpProxyError(REFUSED, (), status=407), "the proxy answered HTTP 407"),
        (aiohttp.InvalidURL(PROXY), "its address is not a valid URL"),
    ],
)
def test_a_proxys_password_is_not_repeated(error: aiohttp.ClientError, said: str):
    failure = broken("auth.test", error)
    assert said in in_english(failure.message)
    assert "s3cret" in str(error)
    assert "s3cret" not in in_english(failure.message)


def test_a_missing_scope_stops_the_bot_only_where_it_cannot_do_without():
    body = {"ok": False, "error": "missing_scope", "needed": "chat:write", "provided": "commands"}
    failure = answered("chat.postMessage", 200, {}, body)
    assert failure.problem is Problem.AUTH
    assert "needs chat:write, has commands" in in_english(failure.message)
    assert answered("reactions.add", 200, {}, body).problem is Problem.FORBIDDEN


@pytest.mark.parametrize(
    "body", [None, [], [1], "ok", 3, {}, {"ok": False}, {"error": None}, {"response_metadata": "x"}]
)
@pytest.mark.parametrize("status", [200, 301, 404, 500, 502, 503, 504])
def test_an_answer_that_is_none_leaves_the_outcome_unknown(status: int, body: object):
    assert answered("chat.postMessage", status, {}, body).problem is Problem.UNKNOWN_OUTCOME
    assert answered("chat.update", status, {}, body, repeatable=True).problem is Problem.TRANSIENT


def test_a_server_error_leaves_the_outcome_unknown_whatever_word_comes_with_it():
    body = {"ok": False, "error": "channel_not_found"}
    assert answered("chat.postMessage", 500, {}, body).problem is Problem.UNKNOWN_OUTCOME


def test_429_carries_its_wait_with_any_body():
    failure = answered("chat.postMessage", 429, {"Retry-After": "1.5"}, None)
    assert (failure.problem, failure.retry_after) == (Problem.RATE_LIMITED, 1.5)


def test_slacks_own_explanation_of_a_bad_request_is_quoted():
    body = {"ok": False, "error": "invalid_arguments", "response_metadata": {"messages": ["[ERROR] no more than 50"]}}
    assert "no more than 50" in in_english(answered("chat.postMessage", 200, {}, body).message)


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (aiohttp.ConnectionTimeoutError(), Problem.TRANSIENT),
        (aiohttp.ServerDisconnectedError(), Problem.UNKNOWN_OUTCOME),
        (aiohttp.ClientOSError(104, "Connection reset by peer"), Problem.UNKNOWN_OUTCOME),
        (aiohttp.ClientPayloadError(), Problem.UNKNOWN_OUTCOME),
        (aiohttp.SocketTimeoutError(), Problem.UNKNOWN_OUTCOME),
        (TimeoutError(), Problem.UNKNOWN_OUTCOME),
        (ConnectionResetError(), Problem.UNKNOWN_OUTCOME),
        (aiohttp.InvalidURL("http:///"), Problem.BAD_REQUEST),
    ],
)
def test_a_call_without_an_answer_was_sent_unless_the_connection_was_never_made(error: Exception, problem: Problem):
    assert broken("chat.postMessage", error).problem is problem
