"""Slack's published error words of the methods that the bot calls: each is sorted by what may be done about it."""

import json
import re
from pathlib import Path

import pytest

from bot.slack.failures import PROBLEMS, Problem, answered
from bot.texts import in_english

METHODS: dict[str, list[str]] = json.loads((Path(__file__).parent / "slack_errors.json").read_text())
WORDS = sorted({word for words in METHODS.values() for word in words})
FAULTS_OF_THE_BOT = """
as_user_not_supported bad_timestamp block_mismatch cant_broadcast_message channels_limit_exceeded deprecated_endpoint
draft_already_deleted draft_already_sent draft_has_conflict draft_not_found duplicate_channel_not_found
duplicate_external_id duplicate_message_not_found insecure_request invalid_arg_name invalid_arguments
invalid_array_arg invalid_attachments invalid_blocks invalid_blocks_format invalid_charset invalid_cursor
invalid_form_data invalid_metadata_filter_keys invalid_metadata_format invalid_metadata_schema invalid_name
invalid_post_type invalid_ts_latest invalid_ts_oldest invalid_user_combination markdown_text_conflict
metadata_must_be_sent_from_app method_deprecated missing_args missing_argument missing_file_data missing_post_type
missing_profile_id no_dual_broadcast_content_update no_item_specified no_text not_enough_users not_implemented
send_on_behalf_not_allowed too_many_users unknown_method unknown_snippet_type unknown_subtype users_list_not_supplied
"""


def test_no_word_of_slack_is_left_unsorted() -> None:
    assert [word for word in WORDS if word not in PROBLEMS and word not in FAULTS_OF_THE_BOT.split()] == []


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


@pytest.mark.parametrize("word", [word for word in WORDS if word in PROBLEMS])
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
