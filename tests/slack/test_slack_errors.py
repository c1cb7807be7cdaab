"""Slack's published error words of the methods that the bot calls: each is sorted by what may be done about it."""

import json
import re
from pathlib import Path

import pytest

from bot.slack.failures import PROBLEMS, Problem, answered
from bot.texts import in_english

METHODS: dict[str, list[str]] = json.loads((Path(__file__).parent / "slack_errors.json").read_text())
WORDS = sorted({word for words in METHODS.values() for word in words})


def test_no_word_of_slack_is_left_unsorted() -> None:
    assert [word for word in WORDS if word not in PROBLEMS] == []


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        (Problem.TRANSIENT, "external_channel_migrating request_timeout update_failed accesslimited"),
        (Problem.RATE_LIMITED, "ratelimited message_limit_exceeded"),
        (
            Problem.FORBIDDEN,
            """app_access_restricted enterprise_is_restricted posting_to_channel_denied not_enabled
            channel_is_limited_access plan_upgrade_required ekm_access_denied not_in_channel cannot_dm_bot
            user_not_in_channel""",
        ),
        (
            Problem.GONE,
            """is_inactive no_such_subteam invalid_trigger_id expired_trigger_id hash_conflict channel_not_found
            is_archived used_url""",
        ),
        (Problem.UNKNOWN_OUTCOME, "fatal_error internal_error"),
        (Problem.AUTH, "token_revoked invalid_auth account_inactive"),
        (Problem.NO_REPLY, "thread_locked restricted_action_thread_locked cannot_reply_to_message"),
        (Problem.TOO_LONG, "msg_too_long msg_blocks_too_long view_too_large"),
        (Problem.NO_FILE, "storage_limit_reached file_uploads_disabled file_type_not_allowed"),
        (
            Problem.BAD_REQUEST,
            "no_text invalid_arg_name unknown_method missing_post_type invalid_blocks made_up_yesterday",
        ),
    ],
)
def test_a_word_is_sorted_by_what_may_be_done(problem: Problem, words: str) -> None:
    for word in words.split():
        failure = answered("chat.postMessage", 200, {}, {"ok": False, "error": word})
        assert (failure.problem, failure.error) == (problem, word)
        assert {"chat.postMessage", word} <= set(re.findall(r"[\w.]+", in_english(failure.message)))


@pytest.mark.parametrize("word", [word for word in WORDS if PROBLEMS.get(word) is not Problem.BAD_REQUEST])
def test_what_is_no_fault_of_the_bot_is_not_called_one(word: str) -> None:
    failure = answered("chat.update", 200, {}, {"ok": False, "error": word})
    assert in_english(failure.hint)
    assert "fault of the bot" not in in_english(failure.hint)


@pytest.mark.parametrize(
    ("word", "advice"),
    [
        ("invalid_trigger_id", "click again"),
        ("storage_limit_reached", "storage"),
        ("file_uploads_disabled", "file uploads"),
        ("plan_upgrade_required", "paid plan"),
        ("no_such_subteam", "user group"),
        ("not_enabled", "Home tab"),
        ("accesslimited", "addresses"),
        ("ekm_access_denied", "encryption"),
        ("thread_locked", "thread"),
        ("a_word_slack_made_up_yesterday", "newer version"),
    ],
)
def test_the_hint_says_what_a_person_can_do(word: str, advice: str) -> None:
    assert advice in in_english(answered("views.open", 200, {}, {"ok": False, "error": word}).hint)
