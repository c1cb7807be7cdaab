"""All that can be wrong with a call of Slack, as one closed set of problems.

The set follows what the sender may do next: wait, send again, look first whether it is already there, or give up.
Slack's words are those of each method's page (docs.slack.dev/reference/methods, "Errors"), August 2026.
"""

import json
import math
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, cast

import aiohttp

from bot.errors import BotError
from bot.texts import Prose, Text


class Problem(StrEnum):
    """What is wrong with a call of Slack, by what may be done about it."""

    RATE_LIMITED = "rate-limited"
    """The call was not carried out; it may be repeated after `retry_after` seconds."""
    TRANSIENT = "transient"
    """The call was not carried out, or may be repeated without harm."""
    UNKNOWN_OUTCOME = "unknown-outcome"
    """The call was perhaps carried out: whoever repeats it without looking may say something twice."""
    BAD_REQUEST = "bad-request"
    """Slack will never take this request."""
    TOO_LONG = "too-long"
    """Slack may take a simpler or shorter form of the message."""
    NO_FILE = "no-file"
    """Slack does not take this file here; it may take the message without the file."""
    NO_REPLY = "no-reply"
    """The thread takes no reply; its channel may take the message."""
    GONE = "gone"
    """The channel, message, view or address does not exist any more."""
    FORBIDDEN = "forbidden"
    """The bot may not make this call in that place."""
    AUTH = "auth"
    """The bot may not make any call: its token is refused."""


PASSING = frozenset({Problem.RATE_LIMITED, Problem.TRANSIENT, Problem.UNKNOWN_OUTCOME})
"""Problems that may be over the next time that Slack is asked."""


HINTS = {
    Problem.RATE_LIMITED: Text("error-slack-hint.limits-how-often"),
    Problem.TRANSIENT: Text("error-slack-hint.check-slack"),
    Problem.UNKNOWN_OUTCOME: Text("error-slack-hint.may-have-applied"),
    Problem.BAD_REQUEST: Text("error-slack-hint.fault-of-bot"),
    Problem.TOO_LONG: Text("error-slack-hint.ask-about-less-time"),
    Problem.NO_FILE: Text("error-slack-hint.admin-allow-such-files"),
    Problem.NO_REPLY: Text("error-slack-hint.ask-in-channel-or-unlock"),
    Problem.GONE: Text("error-slack-hint.check-channel-still-exists"),
    Problem.FORBIDDEN: Text("error-slack-hint.invite-and-compare-scopes"),
    Problem.AUTH: Text("error-slack-hint.install-again"),
}
"""What a person can do about a problem."""

_BLOCKED_IN_SHARED_CHANNELS = (
    "slack_connect_canvas_sharing_blocked slack_connect_clip_sharing_blocked slack_connect_file_link_sharing_blocked "
    "slack_connect_file_upload_sharing_blocked slack_connect_lists_sharing_blocked slack_connect_blocked_file_type"
)

OWN_HINTS = {
    **dict.fromkeys(
        ["invalid_trigger_id", "expired_trigger_id", "trigger_expired", "exchanged_trigger_id", "trigger_exchanged"],
        Text("error-slack-hint.click-again"),
    ),
    "hash_conflict": Text("error-slack-hint.form-changed"),
    "update_failed": Text("error-slack-hint.could-not-edit"),
    "external_channel_migrating": Text("error-slack-hint.moving-channel"),
    "ekm_access_denied": Text("error-slack-hint.admin-suspended"),
    "accesslimited": Text("error-slack-hint.admin-add-addresses"),
    "app_access_restricted": Text("error-slack-hint.admin-allow-app"),
    "enterprise_is_restricted": Text("error-slack-hint.admin-of-organisation"),
    "channel_is_limited_access": Text("error-slack-hint.admin-give-access"),
    "posting_to_channel_denied": Text("error-slack-hint.admin-let-app-post"),
    "restricted_action": Text("error-slack-hint.managers-let-apps-post"),
    "restricted_action_read_only_channel": Text("error-slack-hint.managers-let-apps-post"),
    "restricted_action_thread_only_channel": Text("error-slack-hint.replies-only"),
    "messages_tab_disabled": Text("error-slack-hint.switch-on-messages"),
    "not_enabled": Text("error-slack-hint.switch-on-home"),
    "plan_upgrade_required": Text("error-slack-hint.groups-need-paid-plan"),
    "no_such_subteam": Text("error-slack-hint.group-does-not-exist"),
    "user_not_found": Text("error-slack-hint.check-person-id"),
    "user_disabled": Text("error-slack-hint.account-is-deactivated"),
    "user_not_visible": Text("error-slack-hint.may-not-see-person"),
    "message_not_found": Text("error-slack-hint.message-deleted"),
    "thread_not_found": Text("error-slack-hint.thread-deleted"),
    "edit_window_closed": Text("error-slack-hint.no-edits-of-older"),
    "is_inactive": Text("error-slack-hint.check-channel-and-message"),
    "storage_limit_reached": Text("error-slack-hint.storage-is-full"),
    "file_uploads_disabled": Text("error-slack-hint.admin-allow-uploads"),
    "file_uploads_except_images_disabled": Text("error-slack-hint.admin-allow-no-images"),
    "file_upload_size_restricted": Text("error-slack-hint.admin-allow-larger"),
    **dict.fromkeys(_BLOCKED_IN_SHARED_CHANNELS.split(), Text("error-slack-hint.admin-shared-channels")),
    "too_many_reactions": Text("error-slack-hint.as-many-reactions"),
    "too_many_emoji": Text("error-slack-hint.as-many-reactions"),
}
"""What a person can do, by Slack's word for an error, where that differs from the hint of its problem."""

_WORDS = {
    Problem.RATE_LIMITED: "ratelimited rate_limited message_limit_exceeded",
    # accesslimited: "on the current network", so all that the bot does fails until its addresses are allowed.
    Problem.TRANSIENT: (
        "request_timeout team_added_to_org external_channel_migrating update_failed file_update_failed "
        "streaming_state_conflict accesslimited"
    ),
    # "some aspect of the operation may have succeeded", says Slack of the first two.
    Problem.UNKNOWN_OUTCOME: "fatal_error internal_error service_unavailable",
    Problem.TOO_LONG: (
        "msg_too_long msg_blocks_too_long view_too_large metadata_too_large alt_txt_too_large "
        "too_many_attachments attachment_payload_limit_exceeded too_many_contact_cards"
    ),
    Problem.NO_FILE: (
        "storage_limit_reached file_uploads_disabled file_uploads_except_images_disabled "
        "file_type_not_allowed file_upload_size_restricted blocked_file_type snippet_too_large "
        f"file_share_limit_reached max_file_sharing_exceeded unable_to_share_files {_BLOCKED_IN_SHARED_CHANNELS}"
    ),
    Problem.NO_REPLY: (
        "thread_locked restricted_action_thread_locked cannot_reply_to_message restricted_action_non_threadable_channel"
    ),
    Problem.GONE: (
        "channel_not_found is_archived channel_is_archived user_not_found user_disabled message_not_found "
        "thread_not_found file_not_found not_found edit_window_closed expired_trigger_id trigger_expired "
        "exchanged_trigger_id trigger_exchanged used_url expired_url no_active_hooks invalid_trigger_id "
        "hash_conflict file_deleted file_is_deleted file_comment_not_found invalid_channel is_inactive "
        "no_such_subteam team_not_found already_reacted no_reaction list_record_comment_fetch_failed"
    ),
    Problem.FORBIDDEN: (
        "not_in_channel user_not_in_channel not_in_conversation cannot_dm_bot messages_tab_disabled "
        "restricted_action restricted_action_read_only_channel restricted_action_thread_only_channel "
        "no_permission access_denied ekm_access_denied app_access_restricted cant_update_message "
        "action_prohibited team_access_not_granted missing_scope no_access "
        "method_not_supported_for_channel_type is_bot enterprise_is_restricted forbidden_team "
        "posting_to_channel_denied channel_is_limited_access not_enabled plan_upgrade_required "
        "user_not_visible not_reactable too_many_emoji too_many_reactions"
    ),
    Problem.AUTH: (
        "invalid_auth not_authed token_revoked token_expired account_inactive not_allowed_token_type "
        "org_login_required two_factor_setup_required"
    ),
}
PROBLEMS = {word: problem for problem, words in _WORDS.items() for word in words.split()}
"""The problem that a word of Slack stands for; with any other word Slack says that the request is wrong."""


LONGEST_WAIT = 600.0
"""Seconds to wait at most. Slack asks for a minute at most; a mistaken Retry-After must not silence the bot."""
SHORTEST_WAIT = 0.5
USUAL_WAIT = 1.0
"""Seconds to wait when Slack limits calls without saying for how long."""


class SlackFailure(BotError):  # noqa: N818  # the name its callers read best
    """A call that Slack did not confirm. `error` is Slack's own word, empty where there was none; `hint` says what a
    person can do about that word, or else about the problem; `retry_after`: seconds to wait first, 0.0 unless rate
    limited.
    """

    def __init__(
        self, message: Prose, problem: Problem, *, error: str = "", retry_after: float = 0.0, hint: Prose = ""
    ) -> None:
        super().__init__(message, hint=hint or OWN_HINTS.get(error) or HINTS[problem])
        self.problem = problem
        self.error = error
        self.retry_after = retry_after


_NEEDED_FOR_ALL = frozenset({"auth.test", "apps.connections.open", "chat.postMessage"})
"""Methods without whose scope the bot is of no use: if it is missing, that stops the bot as a revoked token does."""


def answered(
    method: str, status: int, headers: Mapping[str, str], body: Any, *, repeatable: bool = False
) -> SlackFailure:
    """The failure for an answer that is no success; `body` is the decoded JSON, or whatever else came. `repeatable`:
    calling twice is the same as once, so an unknown outcome is only a transient problem.
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
    """The failure for a call that brought no answer: `error` is a ClientError, an OSError or a TimeoutError."""
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
    """The wait that a Retry-After header asks for, in seconds between `SHORTEST_WAIT` and `LONGEST_WAIT`."""
    try:
        seconds = float(header or "")
    except ValueError:
        return USUAL_WAIT
    if math.isnan(seconds) or seconds < 0:
        return USUAL_WAIT
    return min(max(seconds, SHORTEST_WAIT), LONGEST_WAIT)
