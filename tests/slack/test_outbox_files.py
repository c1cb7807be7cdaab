"""Files that follow a message through the outbox: each is shared once, in its thread, and holds up nothing."""

import pytest

from bot.slack.message import File
from bot.slack.outbox import FILES_TRIED, LATE_FILES
from sandbox.slack import Fault
from tests.slack.outbox_support import (
    ADA,
    ONCALL,
    START,
    Bot,
    Sending,
    calls,
    failed,
    line,
    said,
    seed,
    sending,
    shared,
    texts,
)

POST = "chat.postMessage"
CSV = File("use.csv", b"gpu-1,100", "Use")
PICTURE = File("use.png", b"\x89PNG", "Use", alt_text="gpu-1 is full")
COMPLETE = "files.completeUploadExternal"
STAGE = "files.getUploadURLExternal"


@sending()
async def test_files_follow_their_message_into_its_thread_once(bot: Sending) -> None:
    message = line("gpu-1 is full")._replace(files=(CSV, PICTURE))
    await bot.put("a", message)
    await bot.drain()
    await bot.put("a", message)
    await bot.put("a", message._replace(text="gpu-1 is free"))
    await bot.drain()
    head = said(bot, ONCALL)[0]
    assert head["text"] == "gpu-1 is free"
    assert shared(bot, ONCALL) == [("use.csv", head["ts"]), ("use.png", head["ts"])]
    assert calls(bot, "files.completeUploadExternal") == 1


@sending()
async def test_a_direct_message_with_files_needs_only_the_users_id(bot: Sending) -> None:
    bot.slack.faults.append(Fault("reset_after", POST))
    await bot.put("a", "for you", CSV, channel=ADA)
    await bot.drain()
    assert texts(bot, ADA) == ["for you"]
    assert len(shared(bot, ADA)) == 1


def answered(bot: Bot, method: str) -> int:
    """How often Slack did what was asked."""
    return len([entry for entry in bot.slack.journal.of("api", method) if entry.status == 200])


@pytest.mark.parametrize("late_s", [1, 8, 25])
@sending()
async def test_a_file_that_appears_after_the_answer_was_lost_is_shared_once(bot: Sending, *, late_s: float) -> None:
    bot.slack.faults.append(Fault("late_files", seconds=late_s))
    bot.slack.faults.append(Fault("reset_after", COMPLETE))
    await bot.put("a", "gpu-1 is full", CSV, PICTURE)
    await bot.drain()
    head = said(bot, ONCALL)[0]
    assert shared(bot, ONCALL) == [("use.csv", head["ts"]), ("use.png", head["ts"])]
    assert answered(bot, COMPLETE) == 1


@sending()
async def test_a_file_that_never_appears_is_shared_again(bot: Sending) -> None:
    bot.slack.faults.append(Fault("reset", COMPLETE))
    await bot.put("a", "gpu-1 is full", CSV)
    await bot.drain()
    assert [name for name, _ in shared(bot, ONCALL)] == ["use.csv"]
    tried = [entry.at for entry in bot.slack.journal.of("api", COMPLETE)]
    assert tried[-1] >= START + LATE_FILES


@sending()
async def test_a_file_that_was_certainly_not_shared_is_shared_as_soon_as_slack_allows(bot: Sending) -> None:
    bot.slack.faults.append(Fault("rate_limited", COMPLETE, retry_after="4"))
    await bot.put("a", "gpu-1 is full", CSV)
    await bot.drain()
    assert [name for name, _ in shared(bot, ONCALL)] == ["use.csv"]
    assert bot.clock.now() < START + LATE_FILES


@pytest.mark.parametrize("where", [STAGE, "upload/", COMPLETE])
@sending()
async def test_files_that_slack_does_not_take_hold_up_no_other_message(bot: Sending, *, where: str) -> None:
    bot.slack.faults.append(Fault("status", where, times=None))
    await bot.put("a", "first", CSV)
    await bot.drain(until=lambda: calls(bot, STAGE) > 0)
    for number in range(20):
        await bot.put(f"{number}", f"critical {number}", severity="critical")
        asked = bot.clock.now()
        await bot.drain(until=lambda: texts(bot, ONCALL)[-1] == f"critical {number}")  # noqa: B023
        assert bot.clock.now() - asked < 5
        await bot.clock.advance(7 * number)


@sending()
async def test_a_share_without_an_answer_holds_up_no_other_message(bot: Sending) -> None:
    bot.slack.faults.append(Fault("late_files", seconds=25))
    bot.slack.faults.append(Fault("reset_after", COMPLETE))
    await bot.put("a", "first", CSV)
    await bot.drain(until=lambda: calls(bot, COMPLETE) > 0)
    await bot.put("b", "second", severity="critical")
    asked = bot.clock.now()
    await bot.drain(until=lambda: len(texts(bot, ONCALL)) == 2)
    assert bot.clock.now() - asked < 5
    await bot.drain()
    assert [name for name, _ in shared(bot, ONCALL)] == ["use.csv"]
    assert answered(bot, COMPLETE) == 1


@sending()
async def test_files_that_slack_does_not_take_for_hours_are_given_up_and_their_thread_says_so(bot: Sending) -> None:
    bot.slack.faults.append(Fault("status", STAGE, times=None))
    await bot.put("a", "first", CSV)
    await bot.drain(until=lambda: bot.clock.now() > START + 600)
    before = calls(bot, STAGE)
    await bot.drain(until=lambda: bot.clock.now() > START + 1200)
    assert calls(bot, STAGE) - before < 2 * 11  # each try asks twice
    await bot.clock.advance(FILES_TRIED - 1500)
    await bot.drain()
    first, note = said(bot, ONCALL)
    assert "`use.csv` could not be attached: files.getUploadURLExternal: Slack answered HTTP 503" in note["text"]
    assert note["thread_ts"] == first["ts"]
    assert FILES_TRIED <= bot.clock.now() - START < FILES_TRIED + 90
    assert bot.outbox.waiting() == 0


@sending()
async def test_a_message_whose_files_wait_is_edited_at_once(bot: Sending) -> None:
    bot.slack.faults.append(Fault("status", STAGE, until=START + 300, times=None))
    message = line("3 pods")._replace(files=(CSV,))
    await bot.put("a", message)
    await bot.drain(until=lambda: bot.clock.now() > START + 200)
    await bot.put("a", message._replace(text="5 pods"))
    await bot.drain(until=lambda: texts(bot, ONCALL) == ["5 pods"])
    assert bot.clock.now() < START + 270
    await bot.drain()
    assert [name for name, _ in shared(bot, ONCALL)] == ["use.csv"]


@sending()
async def test_the_file_that_a_simpler_form_brings_is_shared_too(bot: Sending) -> None:
    await bot.put("a", "the whole verdict", CSV)
    bot.slack.faults.append(Fault("error", POST, error="msg_blocks_too_long"))
    await bot.drain()
    assert texts(bot, ONCALL) == ["the whole verdict"]
    assert "use.csv" in [name for name, _ in shared(bot, ONCALL)]
    assert len(shared(bot, ONCALL)) == 2


@pytest.mark.parametrize("error", ["restricted_action_thread_locked", "cannot_reply_to_message"])
@sending()
async def test_a_reply_that_its_thread_does_not_take_stands_in_the_channel_with_its_files(
    bot: Sending, *, error: str
) -> None:
    head = await bot.gateway.post(ONCALL, line("3 pods"))
    bot.slack.faults.append(Fault("error", POST, error=error))
    bot.slack.faults.append(Fault("error", "files.completeUploadExternal", error=error))
    await bot.put("a", "evidence", CSV, thread_ts=head.ts)
    await bot.put("b", "next")
    await bot.drain()
    assert texts(bot, ONCALL)[:3] == ["3 pods", "evidence", "next"]
    assert "thread_ts" not in said(bot, ONCALL)[1]
    assert len(shared(bot, ONCALL)) == 1
    assert await failed(bot.store) == []


@pytest.mark.parametrize("late_s", [0, 8])
@sending()
async def test_files_in_the_channel_whose_outcome_is_unknown_are_found_there(bot: Sending, *, late_s: float) -> None:
    head = await bot.gateway.post(ONCALL, line("3 pods"))
    bot.slack.faults.append(Fault("late_files", seconds=late_s))
    bot.slack.faults.append(Fault("error", COMPLETE, error="restricted_action_thread_locked"))
    bot.slack.faults.append(Fault("reset_after", COMPLETE))
    await bot.put("a", "evidence", CSV, PICTURE, thread_ts=head.ts)
    await bot.drain()
    assert shared(bot, ONCALL) == [("use.csv", ""), ("use.png", "")]


@pytest.mark.parametrize(
    ("error", "advice"),
    [("storage_limit_reached", "delete old files"), ("file_uploads_disabled", "allow file uploads")],
)
@sending()
async def test_a_message_whose_file_slack_does_not_take_goes_without_it_and_says_why(
    bot: Sending, *, error: str, advice: str
) -> None:
    bot.slack.faults.append(Fault("error", "files.getUploadURLExternal", error=error, times=None))
    await bot.put("a", "first", CSV)
    await bot.drain()
    first, note = said(bot, ONCALL)
    assert first["text"] == "first"
    assert note["thread_ts"] == first["ts"]
    assert "could not be attached" in note["text"]
    assert advice in note["text"]


@sending()
async def test_a_staged_file_that_slack_forgot_is_uploaded_again(bot: Sending) -> None:
    bot.slack.faults.append(Fault("reset", "files.completeUploadExternal"))
    bot.slack.faults.append(Fault("error", "files.completeUploadExternal", error="file_not_found"))
    await bot.put("a", "first", CSV)
    await bot.drain()
    assert len(shared(bot, ONCALL)) == 1


@sending(start=seed(scopes=("chat:write", "channels:history")))
async def test_a_file_that_cannot_be_shared_is_given_up_and_its_message_stays(bot: Sending) -> None:
    await bot.put("a", "first", CSV)
    await bot.put("b", "second")
    await bot.drain()
    first, *_, note = said(bot, ONCALL)
    assert texts(bot, ONCALL)[:2] == ["first", "second"]
    assert shared(bot, ONCALL) == []
    assert bot.outbox.waiting() == 0
    assert "`use.csv` could not be attached: " in note["text"]
    assert "missing_scope" in note["text"]
    assert note["thread_ts"] == first["ts"]
