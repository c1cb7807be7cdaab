"""What can come back from Slack, or not come back, as one closed set of problems.

The set follows what the sender may do next: wait, send again, look first whether it is already there, or give up.
"""

import json
import math
from collections.abc import Mapping
from typing import Any, cast

import aiohttp

from bot.errors import BotError
from bot.slack.error_words import HINTS, OWN_HINTS, PROBLEMS, Problem
from bot.texts import Prose, Text

LONGEST_WAIT = 600.0
"""Seconds. Slack asks for a minute at most; a mistaken Retry-After must not silence the bot for hours."""
SHORTEST_WAIT = 0.5
USUAL_WAIT = 1.0
"""Seconds to wait when Slack limits without saying for how long."""


class SlackFailure(BotError):  # noqa: N818  # the name its callers read best
    """A call that Slack did not confirm. `error` is Slack's own word, "" where there was none.

    `hint` says what a person can do; the one of the word, where it has its own, else that of the problem.

    `retry_after`: seconds to wait first, 0.0 unless rate limited.
    """

    def __init__(
        self, message: Prose, problem: Problem, *, error: str = "", retry_after: float = 0.0, hint: Prose = ""
    ) -> None:
        super().__init__(message, hint=hint or OWN_HINTS.get(error) or HINTS[problem])
        self.problem = problem
        self.error = error
        self.retry_after = retry_after


_NEEDED_FOR_ALL = frozenset({"auth.test", "apps.connections.open", "chat.postMessage"})
"""Without the scope of one of these the bot is of no use, so a missing scope stops it as a revoked token does."""


def answered(
    method: str, status: int, headers: Mapping[str, str], body: Any, *, repeatable: bool = False
) -> SlackFailure:
    """The failure for an answer that is no success; `body` is the decoded JSON, or anything else that came.

    `repeatable`: doing it twice is the same as once, so an unknown outcome is merely a transient one.
    """
    answer = cast("dict[str, Any]", body) if isinstance(body, dict) else {}
    word = str(answer.get("error") or "")
    problem = PROBLEMS.get(word, Problem.BAD_REQUEST) if word else Problem.UNKNOWN_OUTCOME
    if status == 429:
        problem = Problem.RATE_LIMITED
    elif status >= 500:
        problem = Problem.UNKNOWN_OUTCOME
    if word == "missing_scope" and method in _NEEDED_FOR_ALL:
        problem = Problem.AUTH
    if repeatable and problem is Problem.UNKNOWN_OUTCOME:
        problem = Problem.TRANSIENT
    text = Text("error-slack.answered", method=method, told=_told(status, word, answer))
    wait = seconds_to_wait(headers.get("Retry-After")) if problem is Problem.RATE_LIMITED else 0.0
    return SlackFailure(text, problem, error=word, retry_after=wait)


def _told(status: int, word: str, answer: dict[str, Any]) -> str:
    if not word:
        return f"HTTP {status} with an unexpected body (a proxy?)"
    text = word if status == 200 else f"HTTP {status}, {word}"
    if word == "missing_scope":
        return f"{text}: needs {answer.get('needed')}, has {answer.get('provided')}"
    metadata = answer.get("response_metadata")
    details = cast("dict[str, Any]", metadata).get("messages") if isinstance(metadata, dict) else None
    return f"{text}: {json.dumps(details)[:300]}" if details else text


def broken(method: str, error: Exception, *, repeatable: bool = False) -> SlackFailure:
    """The failure for a call that brought no answer at all: `error` is a ClientError, an OSError or a TimeoutError."""
    if isinstance(error, aiohttp.InvalidURL | aiohttp.NonHttpUrlClientError):
        return SlackFailure(Text("error-slack.address-is-not-valid-url", method=method), Problem.BAD_REQUEST)
    what: Prose = str(error) or type(error).__name__
    if isinstance(error, aiohttp.ClientHttpProxyError):  # whose text has the proxy's password
        what = Text("error-kube.proxy-answered-http", status=error.status)
    # These two are raised before the first byte of the request is written; a reset may come after the last.
    never_sent = isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError)
    problem = Problem.TRANSIENT if never_sent or repeatable else Problem.UNKNOWN_OUTCOME
    return SlackFailure(Text("error-slack.no-answer", method=method, what=what), problem)


def seconds_to_wait(header: str | None) -> float:
    """What a Retry-After header asks for, in seconds between `SHORTEST_WAIT` and `LONGEST_WAIT`."""
    try:
        seconds = float(header or "")
    except ValueError:
        return USUAL_WAIT
    if math.isnan(seconds) or seconds < 0:
        return USUAL_WAIT
    return min(max(seconds, SHORTEST_WAIT), LONGEST_WAIT)
