"""What can come back from Slack, or not come back, as one closed set of problems.

The set follows what the sender may do next: wait, send again, look first whether it is already there, or give up.
"""

import json
import math
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, cast

import aiohttp

from bot.errors import BotError

LONGEST_WAIT = 600.0
"""Seconds. Slack asks for a minute at most; a mistaken Retry-After must not silence the bot for hours."""
SHORTEST_WAIT = 0.5
USUAL_WAIT = 1.0
"""Seconds to wait when Slack limits without saying for how long."""


class Problem(StrEnum):
    """What is wrong, by what may be done about it."""

    RATE_LIMITED = "rate-limited"
    """Not done; again after `retry_after` seconds."""
    TRANSIENT = "transient"
    """Not done, or harmless to do again."""
    UNKNOWN_OUTCOME = "unknown-outcome"
    """Perhaps done: whoever sends again without looking may say it twice."""
    BAD_REQUEST = "bad-request"
    """Slack will never take this request."""
    GONE = "gone"
    """The channel, message, view or address is not there any more."""
    FORBIDDEN = "forbidden"
    """The bot may not do this there."""
    AUTH = "auth"
    """The bot may not do anything: its token is refused."""


class SlackFailure(BotError):  # noqa: N818  # the name its callers read best
    """A call that Slack did not confirm. `error` is Slack's own word, "" where there was none.

    `retry_after`: seconds to wait first, 0.0 unless rate limited.
    """

    def __init__(
        self, message: str, problem: Problem, *, error: str = "", retry_after: float = 0.0, hint: str = ""
    ) -> None:
        super().__init__(message, hint=hint or _HINTS[problem])
        self.problem = problem
        self.error = error
        self.retry_after = retry_after


_HINTS = {
    Problem.RATE_LIMITED: "Slack limits how often this may be called; it is asked again later",
    Problem.TRANSIENT: "check that Slack can be reached from here (DNS, proxy, firewall) and https://slack-status.com",
    Problem.UNKNOWN_OUTCOME: "it may have been done; see https://slack-status.com",
    Problem.BAD_REQUEST: "this is a fault of the bot: report it with the message above",
    Problem.GONE: "check that the channel still exists and is not archived",
    Problem.FORBIDDEN: "invite the bot to the channel, and compare the app's scopes with the manifest",
    Problem.AUTH: "install the app into the workspace again and give the bot its new token",
}

_WORDS: dict[Problem, frozenset[str]] = {
    Problem.RATE_LIMITED: frozenset({"ratelimited", "rate_limited", "message_limit_exceeded"}),
    Problem.TRANSIENT: frozenset({"request_timeout", "team_added_to_org"}),
    # "some aspect of the operation may have succeeded", says Slack of the first two.
    Problem.UNKNOWN_OUTCOME: frozenset({"fatal_error", "internal_error", "service_unavailable"}),
    Problem.GONE: frozenset(
        {
            *("channel_not_found", "is_archived", "channel_is_archived", "user_not_found", "user_disabled"),
            *("message_not_found", "thread_not_found", "file_not_found", "not_found", "edit_window_closed"),
            *("expired_trigger_id", "trigger_expired", "exchanged_trigger_id", "trigger_exchanged"),
            *("used_url", "expired_url", "no_active_hooks"),
        }
    ),
    Problem.FORBIDDEN: frozenset(
        {
            *("not_in_channel", "user_not_in_channel", "not_in_conversation", "cannot_dm_bot", "messages_tab_disabled"),
            *("restricted_action", "restricted_action_read_only_channel", "restricted_action_thread_only_channel"),
            *("restricted_action_non_threadable_channel", "no_permission", "access_denied", "ekm_access_denied"),
            *("cant_update_message", "action_prohibited", "team_access_not_granted", "missing_scope"),
            *("method_not_supported_for_channel_type", "is_bot"),
        }
    ),
    Problem.AUTH: frozenset(
        {
            *("invalid_auth", "not_authed", "token_revoked", "token_expired", "account_inactive"),
            *("not_allowed_token_type", "org_login_required", "two_factor_setup_required"),
        }
    ),
}
_PROBLEMS = {word: problem for problem, words in _WORDS.items() for word in words}
_NEEDED_FOR_ALL = frozenset({"auth.test", "apps.connections.open", "chat.postMessage"})
"""Without the scope of one of these the bot is of no use, so a missing scope stops it as a revoked token does."""


def answered(
    method: str, status: int, headers: Mapping[str, str], body: Any, *, repeatable: bool = False
) -> SlackFailure:
    """The failure for an answer that is no success; `body` is the decoded JSON, or anything else that came.

    `repeatable`: doing it twice is the same as once, so an unknown outcome is merely a transient one.
    """
    said = cast("dict[str, Any]", body) if isinstance(body, dict) else {}
    word = str(said.get("error") or "")
    problem = _PROBLEMS.get(word, Problem.BAD_REQUEST) if word else Problem.UNKNOWN_OUTCOME
    if status == 429:
        problem = Problem.RATE_LIMITED
    elif status >= 500:
        problem = Problem.UNKNOWN_OUTCOME
    if word == "missing_scope" and method in _NEEDED_FOR_ALL:
        problem = Problem.AUTH
    if repeatable and problem is Problem.UNKNOWN_OUTCOME:
        problem = Problem.TRANSIENT
    text = f"{method}: Slack answered {_told(status, word, said)}"
    wait = seconds_to_wait(headers.get("Retry-After")) if problem is Problem.RATE_LIMITED else 0.0
    return SlackFailure(text, problem, error=word, retry_after=wait)


def _told(status: int, word: str, said: dict[str, Any]) -> str:
    if not word:
        return f"HTTP {status} with something that is no answer of its API"
    text = word if status == 200 else f"HTTP {status}, {word}"
    if word == "missing_scope":
        return f"{text}: needs {said.get('needed')}, has {said.get('provided')}"
    metadata = said.get("response_metadata")
    details = cast("dict[str, Any]", metadata).get("messages") if isinstance(metadata, dict) else None
    return f"{text}: {json.dumps(details)[:300]}" if details else text


def broken(method: str, error: Exception, *, repeatable: bool = False) -> SlackFailure:
    """The failure for a call that brought no answer at all: `error` is a ClientError, an OSError or a TimeoutError."""
    what = str(error) or type(error).__name__
    if isinstance(error, aiohttp.InvalidURL | aiohttp.NonHttpUrlClientError):
        return SlackFailure(f"{method}: {what} is not an address", Problem.BAD_REQUEST)
    # These two are raised before the first byte of the request is written; a reset may come after the last.
    never_sent = isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError)
    problem = Problem.TRANSIENT if never_sent or repeatable else Problem.UNKNOWN_OUTCOME
    return SlackFailure(f"{method}: no answer from Slack: {what}", problem)


def seconds_to_wait(header: str | None) -> float:
    """What a Retry-After header asks for, in seconds between `SHORTEST_WAIT` and `LONGEST_WAIT`."""
    try:
        seconds = float(header or "")
    except ValueError:
        return USUAL_WAIT
    if math.isnan(seconds) or seconds < 0:
        return USUAL_WAIT
    return min(max(seconds, SHORTEST_WAIT), LONGEST_WAIT)
