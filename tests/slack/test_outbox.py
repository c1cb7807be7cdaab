"""What the outbox promises, with Slack's own client and a real server, in virtual time."""

import asyncio
import itertools
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from sqlalchemy import event

from bot.slack.message import File, Message
from bot.slack.outbox import FILES_TRIED, LATE_FILES, LEASE, Outbox
from bot.store import Store
from bot.texts import in_english
from sandbox.slack import Fault, Seed
from tests.slack.bot import staged
from tests.slack.outbox_support import (
    ADA,
    GENERAL,
    GRACE,
    ONCALL,
    START,
    Bot,
    a_bot,
    a_workspace,
    an_outbox,
    calls,
    drain,
    failed,
    line,
    outbox_of,
    said,
    seed,
    shared,
    texts,
)

POST = "chat.postMessage"
CSV = File("use.csv", b"gpu-1,100", "Use")
PICTURE = File("use.png", b"\x89PNG", "Use", alt_text="gpu-1 is full")


@staged
@asynccontextmanager
async def with_outbox(database: str, start: Seed | None = None) -> AsyncGenerator[tuple[Bot, Outbox, Store]]:
    async with a_workspace(start) as bot, an_outbox(bot, database) as (outbox, store):
        yield bot, outbox, store


@with_outbox()
async def test_what_was_put_is_sent_by_run(bot: Bot, outbox: Outbox, store: Store) -> None:
    sender = asyncio.create_task(outbox.run())
    await outbox.put("a", ONCALL, line("to on-call"))
    await outbox.put("b", ADA, line("to Ada"))
    assert outbox.waiting() == 2
    await outbox.settled()
    sender.cancel()
    assert (texts(bot, ONCALL), texts(bot, ADA)) == (["to on-call"], ["to Ada"])
    assert outbox.waiting() == 0


@with_outbox()
async def test_the_most_severe_goes_first_then_the_oldest_and_one_a_second(
    bot: Bot, outbox: Outbox, store: Store
) -> None:
    for number, severity in enumerate(("info", "warning", "critical", "info", "critical")):
        await outbox.put(f"{number}", ONCALL, line(f"{severity} {number}"), severity=severity)
        await bot.clock.advance(1)
    await drain(store, bot.clock, outbox)
    assert texts(bot, ONCALL) == ["critical 2", "critical 4", "warning 1", "info 0", "info 3"]
    times = [entry.at for entry in bot.slack.journal.of("api", POST)]
    assert [later - earlier for earlier, later in itertools.pairwise(times)] == [1.0] * 4


@with_outbox()
async def test_answers_in_one_channel_go_round_by_person_and_what_the_bot_says_by_itself_has_its_turn(
    bot: Bot, outbox: Outbox, store: Store
) -> None:
    for number in range(4):
        await outbox.put(f"ada-{number}", ONCALL, line(f"ada {number}"), asker=ADA)
    for number in range(2):
        await bot.clock.advance(1)
        await outbox.put(f"grace-{number}", ONCALL, line(f"grace {number}"), asker=GRACE)
    await outbox.put("digest", ONCALL, line("digest"))
    await outbox.put("incident", ONCALL, line("incident"), severity="critical")
    await drain(store, bot.clock, outbox)
    rounds = ["ada 0", "grace 0", "digest", "ada 1", "grace 1", "ada 2", "ada 3"]
    assert texts(bot, ONCALL) == ["incident", *rounds]


@pytest.mark.parametrize("sending", [True, False])
async def test_while_the_store_is_away_the_log_has_one_line_and_one_when_it_is_back(
    database: str, caplog: pytest.LogCaptureFixture, *, sending: bool
):
    async def work(bot: Bot, outbox: Outbox, store: Store) -> None:
        failed = asyncio.Event()
        event.listen(store._engine.sync_engine, "handle_error", lambda _: failed.set())
        await outbox.put("a", ONCALL, line("to on-call"))
        await renamed(store, "outbox", "away")
        sender = asyncio.create_task(outbox._drain(ONCALL) if sending else outbox.run())
        for _ in range(5):
            await failed.wait()
            failed.clear()
            outbox._wake.set()
        await renamed(store, "away", "outbox")
        while not texts(bot, ONCALL):
            outbox._wake.set()
            await asyncio.sleep(0)
        await outbox.settled()
        sender.cancel()

    async with a_workspace() as bot, an_outbox(bot, database, sleep=bot.clock.advance) as (outbox, store):
        await work(bot, outbox, store)
    told = [record for record in caplog.records if record.name == "bot.slack.outbox"]
    assert [record.levelname for record in told] == ["ERROR", "WARNING"]
    assert in_english(told[0].message).startswith("nothing is sent to Slack until the store can be used again: ")
    assert not any(record.exc_info for record in told)


async def renamed(store: Store, old: str, new: str) -> None:
    async with store._engine.begin() as connection:
        await connection.exec_driver_sql(f"ALTER TABLE {old} RENAME TO {new}")


@with_outbox()
async def test_the_same_key_again_is_one_message_that_says_the_newest(bot: Bot, outbox: Outbox, store: Store) -> None:
    for state in ("3 pods", "5 pods", "9 pods", "9 pods"):
        await outbox.put("incident-1", ONCALL, line(state))
    assert outbox.waiting() == 1
    await drain(store, bot.clock, outbox)
    await outbox.put("incident-1", ONCALL, line("9 pods"))
    assert outbox.waiting() == 0
    await outbox.put("incident-1", ONCALL, line("resolved"))
    await drain(store, bot.clock, outbox)
    assert texts(bot, ONCALL) == ["resolved"]
    assert (calls(bot, POST), calls(bot, "chat.update")) == (1, 1)


@pytest.mark.parametrize("known", [True, False])
def test_newer_kinds_of_blocks_are_sent_and_edited_where_the_workspace_has_them(database: str, *, known: bool):
    card = {"type": "task_card", "task_id": "1", "title": "Looking", "status": "in_progress"}

    async def work(bot: Bot, outbox: Outbox, store: Store) -> None:
        if not known:
            bot.slack.unknown_blocks.add("task_card")
        for text in ("looking", "found"):
            await outbox.put("answer", ONCALL, line(text)._replace(newer=({**card, "title": text},)))
            await drain(store, bot.clock, outbox)
            (block,) = bot.slack.messages(ONCALL)[-1]["blocks"]
            assert (block["type"], text in str(block)) == ("task_card" if known else "section", True)
        assert calls(bot, "chat.update") == 1

    with_outbox()(work)(database=database)


@with_outbox()
async def test_what_is_put_while_its_message_is_being_posted_becomes_an_edit(
    bot: Bot, outbox: Outbox, store: Store
) -> None:
    bot.slack.faults.append(Fault("reset_after", POST))
    await outbox.put("incident-1", ONCALL, line("3 pods"))
    await outbox.step(ONCALL)
    await outbox.put("incident-1", ONCALL, line("5 pods"))
    await drain(store, bot.clock, outbox)
    assert texts(bot, ONCALL) == ["5 pods"]
    assert calls(bot, "chat.update") == 1


@with_outbox()
async def test_edits_of_one_message_coalesce(bot: Bot, outbox: Outbox, store: Store) -> None:
    head = await bot.gateway.post(ONCALL, line("3 pods"))
    for state in ("5 pods", "9 pods", "resolved"):
        await outbox.put("incident-1:state", ONCALL, line(state), update_ts=head.ts)
    await drain(store, bot.clock, outbox)
    assert texts(bot, ONCALL) == ["resolved"]
    assert calls(bot, "chat.update") == 1


@with_outbox()
async def test_files_follow_their_message_into_its_thread_once(bot: Bot, outbox: Outbox, store: Store) -> None:
    message = line("gpu-1 is full")._replace(files=(CSV, PICTURE))
    await outbox.put("a", ONCALL, message)
    await drain(store, bot.clock, outbox)
    await outbox.put("a", ONCALL, message)
    await outbox.put("a", ONCALL, message._replace(text="gpu-1 is free"))
    await drain(store, bot.clock, outbox)
    head = said(bot, ONCALL)[0]
    assert head["text"] == "gpu-1 is free"
    assert shared(bot, ONCALL) == [("use.csv", head["ts"]), ("use.png", head["ts"])]
    assert calls(bot, "files.completeUploadExternal") == 1


@with_outbox()
async def test_a_direct_message_with_files_needs_only_the_users_id(bot: Bot, outbox: Outbox, store: Store) -> None:
    bot.slack.faults.append(Fault("reset_after", POST))
    await outbox.put("a", ADA, line("for you")._replace(files=(CSV,)))
    await drain(store, bot.clock, outbox)
    assert texts(bot, ADA) == ["for you"]
    assert len(shared(bot, ADA)) == 1


COMPLETE = "files.completeUploadExternal"


def answered(bot: Bot, method: str) -> int:
    """How often Slack did what was asked."""
    return len([entry for entry in bot.slack.journal.of("api", method) if entry.status == 200])


@pytest.mark.parametrize("late_s", [1, 8, 25])
@with_outbox()
async def test_a_file_that_appears_after_the_answer_was_lost_is_shared_once(
    bot: Bot, outbox: Outbox, store: Store, *, late_s: float
) -> None:
    bot.slack.faults.append(Fault("late_files", seconds=late_s))
    bot.slack.faults.append(Fault("reset_after", COMPLETE))
    await outbox.put("a", ONCALL, line("gpu-1 is full")._replace(files=(CSV, PICTURE)))
    await drain(store, bot.clock, outbox)
    head = said(bot, ONCALL)[0]
    assert shared(bot, ONCALL) == [("use.csv", head["ts"]), ("use.png", head["ts"])]
    assert answered(bot, COMPLETE) == 1


@with_outbox()
async def test_a_file_that_appears_after_the_process_died_is_shared_once(
    bot: Bot, outbox: Outbox, store: Store
) -> None:
    bot.slack.faults.append(Fault("late_files", seconds=8))
    bot.slack.faults.append(Fault("reset_after", COMPLETE))
    await outbox.put("a", ONCALL, line("gpu-1 is full")._replace(files=(CSV,)))
    await drain(store, bot.clock, outbox, until=lambda: calls(bot, COMPLETE) > 0)
    await drain(store, bot.clock, outbox_of(bot, store, owner="another"))
    assert [name for name, _ in shared(bot, ONCALL)] == ["use.csv"]
    assert answered(bot, COMPLETE) == 1


@with_outbox()
async def test_a_file_that_never_appears_is_shared_again(bot: Bot, outbox: Outbox, store: Store) -> None:
    bot.slack.faults.append(Fault("reset", COMPLETE))
    await outbox.put("a", ONCALL, line("gpu-1 is full")._replace(files=(CSV,)))
    await drain(store, bot.clock, outbox)
    assert [name for name, _ in shared(bot, ONCALL)] == ["use.csv"]
    tried = [entry.at for entry in bot.slack.journal.of("api", COMPLETE)]
    assert tried[-1] >= START + LATE_FILES


@with_outbox()
async def test_a_file_that_was_certainly_not_shared_is_shared_as_soon_as_slack_allows(
    bot: Bot, outbox: Outbox, store: Store
) -> None:
    bot.slack.faults.append(Fault("rate_limited", COMPLETE, retry_after="4"))
    await outbox.put("a", ONCALL, line("gpu-1 is full")._replace(files=(CSV,)))
    await drain(store, bot.clock, outbox)
    assert [name for name, _ in shared(bot, ONCALL)] == ["use.csv"]
    assert bot.clock.now() < START + LATE_FILES


STAGE = "files.getUploadURLExternal"


@pytest.mark.parametrize("where", [STAGE, "upload/", COMPLETE])
@with_outbox()
async def test_files_that_slack_does_not_take_hold_up_no_other_message(
    bot: Bot, outbox: Outbox, store: Store, *, where: str
) -> None:
    bot.slack.faults.append(Fault("status", where, times=None))
    await outbox.put("a", ONCALL, line("first")._replace(files=(CSV,)))
    await drain(store, bot.clock, outbox, until=lambda: calls(bot, STAGE) > 0)
    for number in range(20):
        await outbox.put(f"{number}", ONCALL, line(f"critical {number}"), severity="critical")
        asked = bot.clock.now()
        await drain(store, bot.clock, outbox, until=lambda: texts(bot, ONCALL)[-1] == f"critical {number}")  # noqa: B023
        assert bot.clock.now() - asked < 5
        await bot.clock.advance(7 * number)


@with_outbox()
async def test_a_share_without_an_answer_holds_up_no_other_message(bot: Bot, outbox: Outbox, store: Store) -> None:
    bot.slack.faults.append(Fault("late_files", seconds=25))
    bot.slack.faults.append(Fault("reset_after", COMPLETE))
    await outbox.put("a", ONCALL, line("first")._replace(files=(CSV,)))
    await drain(store, bot.clock, outbox, until=lambda: calls(bot, COMPLETE) > 0)
    await outbox.put("b", ONCALL, line("second"), severity="critical")
    asked = bot.clock.now()
    await drain(store, bot.clock, outbox, until=lambda: len(texts(bot, ONCALL)) == 2)
    assert bot.clock.now() - asked < 5
    await drain(store, bot.clock, outbox)
    assert [name for name, _ in shared(bot, ONCALL)] == ["use.csv"]
    assert answered(bot, COMPLETE) == 1


@with_outbox()
async def test_files_that_slack_does_not_take_for_hours_are_given_up_and_their_thread_says_so(
    bot: Bot, outbox: Outbox, store: Store
) -> None:
    bot.slack.faults.append(Fault("status", STAGE, times=None))
    await outbox.put("a", ONCALL, line("first")._replace(files=(CSV,)))
    await drain(store, bot.clock, outbox, until=lambda: bot.clock.now() > START + 600)
    before = calls(bot, STAGE)
    await drain(store, bot.clock, outbox, until=lambda: bot.clock.now() > START + 1200)
    assert calls(bot, STAGE) - before < 2 * 11  # each try asks twice
    await bot.clock.advance(FILES_TRIED - 1500)
    await drain(store, bot.clock, outbox)
    first, note = said(bot, ONCALL)
    assert "`use.csv` could not be attached: files.getUploadURLExternal: Slack answered HTTP 503" in note["text"]
    assert note["thread_ts"] == first["ts"]
    assert FILES_TRIED <= bot.clock.now() - START < FILES_TRIED + 90
    assert outbox.waiting() == 0


@with_outbox()
async def test_a_message_whose_files_wait_is_edited_at_once(bot: Bot, outbox: Outbox, store: Store) -> None:
    bot.slack.faults.append(Fault("status", STAGE, until=START + 300, times=None))
    message = line("3 pods")._replace(files=(CSV,))
    await outbox.put("a", ONCALL, message)
    await drain(store, bot.clock, outbox, until=lambda: bot.clock.now() > START + 200)
    await outbox.put("a", ONCALL, message._replace(text="5 pods"))
    await drain(store, bot.clock, outbox, until=lambda: texts(bot, ONCALL) == ["5 pods"])
    assert bot.clock.now() < START + 270
    await drain(store, bot.clock, outbox)
    assert [name for name, _ in shared(bot, ONCALL)] == ["use.csv"]


@with_outbox()
async def test_the_file_that_a_simpler_form_brings_is_shared_too(bot: Bot, outbox: Outbox, store: Store) -> None:
    await outbox.put("a", ONCALL, line("the whole verdict")._replace(files=(CSV,)))
    bot.slack.faults.append(Fault("error", POST, error="msg_blocks_too_long"))
    await drain(store, bot.clock, outbox)
    assert texts(bot, ONCALL) == ["the whole verdict"]
    assert "use.csv" in [name for name, _ in shared(bot, ONCALL)]
    assert len(shared(bot, ONCALL)) == 2


# faults


@pytest.mark.parametrize(
    "fault",
    [
        *(Fault("status", status=status) for status in (500, 502, 503)),
        *(Fault("html"), Fault("reset"), Fault("reset_after"), Fault("rate_limited", retry_after="1.5")),
        *(Fault("rate_limited", retry_after="soon"), Fault("error", error="ratelimited")),
        *(Fault("error", error="fatal_error"), Fault("error", error="internal_error")),
    ],
    ids=lambda fault: f"{fault.kind}-{fault.status}-{fault.error}",
)
@pytest.mark.parametrize("where", [POST, "files.getUploadURLExternal", "upload/", "files.completeUploadExternal"])
@pytest.mark.sampled(8)
@with_outbox()
async def test_no_passing_fault_loses_or_doubles_anything(
    bot: Bot, outbox: Outbox, store: Store, *, where: str, fault: Fault
) -> None:
    bot.slack.faults.append(replace(fault, where=where, times=3))
    await outbox.put("a", ONCALL, line("first")._replace(files=(CSV, PICTURE)))
    await outbox.put("b", ONCALL, line("second"))
    await drain(store, bot.clock, outbox)
    assert texts(bot, ONCALL) == ["first", "second"]
    assert sorted(name for name, _ in shared(bot, ONCALL)) == ["use.csv", "use.png"]
    assert await failed(store) == []


async def test_a_hang_is_given_up_and_what_happened_behind_it_is_found(database: str):
    async with a_workspace(total=0.2) as bot, an_outbox(bot, database) as (outbox, store):
        bot.slack.faults.append(Fault("hang", POST))
        await outbox.put("a", ONCALL, line("first"))
        await drain(store, bot.clock, outbox)
        assert texts(bot, ONCALL) == ["first"]


@with_outbox()
async def test_a_look_that_fails_leaves_the_message_in_doubt(bot: Bot, outbox: Outbox, store: Store) -> None:
    bot.slack.faults.append(Fault("reset_after", POST))
    bot.slack.faults.append(Fault("status", "conversations.history", times=5))
    bot.slack.faults.append(Fault("rate_limited", "conversations.history", times=3, retry_after="90"))
    await outbox.put("a", ONCALL, line("first"))
    await drain(store, bot.clock, outbox)
    assert texts(bot, ONCALL) == ["first"]
    assert len(bot.slack.journal.of("api", POST)) <= 2


@with_outbox()
async def test_a_429_holds_its_channel_and_no_other(bot: Bot, outbox: Outbox, store: Store) -> None:
    bot.slack.faults.append(Fault("rate_limited", POST, retry_after="30"))
    await outbox.put("a", GENERAL, line("held"))
    await outbox.put("b", ONCALL, line("free"))
    assert await outbox.step(GENERAL) == pytest.approx(30)
    await outbox.step(ONCALL)
    assert (texts(bot, GENERAL), texts(bot, ONCALL)) == ([], ["free"])
    await drain(store, bot.clock, outbox)
    assert texts(bot, GENERAL) == ["held"]


@with_outbox()
async def test_tries_during_an_outage_become_rare(bot: Bot, outbox: Outbox, store: Store) -> None:
    bot.slack.faults.append(Fault("outage", until=bot.clock.now() + 600))
    for number in range(50):
        await outbox.put(f"{number}", ONCALL, line(f"{number}"))
    tries: list[float] = []
    while bot.clock.now() < bot.slack.faults._faults[0].until:
        wait = await outbox.step(ONCALL)
        assert wait is not None
        tries.append(wait)
        await bot.clock.advance(wait)
    assert len(tries) < 25
    assert max(tries) <= 60
    await drain(store, bot.clock, outbox)
    assert texts(bot, ONCALL) == [f"{number}" for number in range(50)]


@pytest.mark.parametrize("error", ["token_revoked", "invalid_auth", "account_inactive"])
@with_outbox()
async def test_a_refused_token_stops_everything_and_keeps_every_row(
    bot: Bot, outbox: Outbox, store: Store, *, error: str, caplog: pytest.LogCaptureFixture
) -> None:
    revoked = bot.slack.faults.append(Fault("error", "api/", error=error, times=None))
    for channel in (ONCALL, GENERAL):
        await outbox.put("a", channel, line("kept"))
    assert outbox.ready
    assert await outbox.step(ONCALL) == 60
    assert not outbox.ready
    assert await outbox.step(GENERAL) == 60  # without a call
    await drain(store, bot.clock, outbox, until=lambda: len(bot.slack.journal.entries) > 5)
    assert outbox.waiting() == 2
    assert len([record for record in caplog.records if record.levelno == logging.ERROR]) == 1
    bot.slack.faults.remove(revoked)
    await drain(store, bot.clock, outbox)
    assert outbox.ready
    assert (texts(bot, ONCALL), texts(bot, GENERAL)) == (["kept"], ["kept"])


@pytest.mark.parametrize(
    "error", ["channel_not_found", "is_archived", "restricted_action", "cannot_dm_bot", "not_in_channel"]
)
@with_outbox()
async def test_rows_of_a_channel_that_is_gone_are_kept_with_the_reason_and_told_once(
    bot: Bot, outbox: Outbox, store: Store, *, error: str, caplog: pytest.LogCaptureFixture
) -> None:
    bot.slack.faults.append(Fault("error", POST, error=error, times=3))
    for number in range(3):
        await outbox.put(f"{number}", ONCALL, line(f"{number}")._replace(files=(CSV,)))
    await drain(store, bot.clock, outbox)
    assert outbox.waiting() == 0
    dead = await failed(store)
    assert [row.content["text"] for row in dead] == ["0", "1", "2"]
    assert all(error in row.reason for row in dead)
    assert len([record for record in caplog.records if record.levelno == logging.ERROR]) == 1
    await outbox.put("0", ONCALL, line("0"))  # put again, it is tried again
    await drain(store, bot.clock, outbox)
    assert texts(bot, ONCALL) == ["0"]


@pytest.mark.parametrize("error", ["metadata_too_large", "no_text", "invalid_arguments"])
@with_outbox()
async def test_a_message_that_slack_never_takes_does_not_hold_up_the_next(
    bot: Bot, outbox: Outbox, store: Store, *, error: str
) -> None:
    bot.slack.faults.append(Fault("error", POST, error=error, times=1))
    await outbox.put("a", ONCALL, Message("bad"))
    await outbox.put("b", ONCALL, line("good"))
    await drain(store, bot.clock, outbox)
    assert texts(bot, ONCALL) == ["good"]
    assert [row.content["text"] for row in await failed(store)] == ["bad"]


@pytest.mark.parametrize("error", ["restricted_action_thread_locked", "cannot_reply_to_message"])
@with_outbox()
async def test_a_reply_that_its_thread_does_not_take_stands_in_the_channel_with_its_files(
    bot: Bot, outbox: Outbox, store: Store, *, error: str
) -> None:
    head = await bot.gateway.post(ONCALL, line("3 pods"))
    bot.slack.faults.append(Fault("error", POST, error=error))
    bot.slack.faults.append(Fault("error", "files.completeUploadExternal", error=error))
    await outbox.put("a", ONCALL, line("evidence")._replace(files=(CSV,)), thread_ts=head.ts)
    await outbox.put("b", ONCALL, line("next"))
    await drain(store, bot.clock, outbox)
    assert texts(bot, ONCALL)[:3] == ["3 pods", "evidence", "next"]
    assert "thread_ts" not in said(bot, ONCALL)[1]
    assert len(shared(bot, ONCALL)) == 1
    assert await failed(store) == []


@pytest.mark.parametrize("late_s", [0, 8])
@with_outbox()
async def test_files_in_the_channel_whose_outcome_is_unknown_are_found_there(
    bot: Bot, outbox: Outbox, store: Store, *, late_s: float
) -> None:
    head = await bot.gateway.post(ONCALL, line("3 pods"))
    bot.slack.faults.append(Fault("late_files", seconds=late_s))
    bot.slack.faults.append(Fault("error", COMPLETE, error="restricted_action_thread_locked"))
    bot.slack.faults.append(Fault("reset_after", COMPLETE))
    await outbox.put("a", ONCALL, line("evidence")._replace(files=(CSV, PICTURE)), thread_ts=head.ts)
    await drain(store, bot.clock, outbox)
    assert shared(bot, ONCALL) == [("use.csv", ""), ("use.png", "")]


@with_outbox()
async def test_a_reply_in_the_channel_whose_outcome_is_unknown_is_found_there(
    bot: Bot, outbox: Outbox, store: Store
) -> None:
    head = await bot.gateway.post(ONCALL, line("3 pods"))
    bot.slack.faults.append(Fault("error", POST, error="restricted_action_thread_locked"))
    bot.slack.faults.append(Fault("reset_after", POST))
    await outbox.put("a", ONCALL, line("evidence"), thread_ts=head.ts)
    await drain(store, bot.clock, outbox)
    assert texts(bot, ONCALL) == ["3 pods", "evidence"]


@pytest.mark.parametrize(
    ("error", "times"), [("external_channel_migrating", 20), ("accesslimited", 20), ("update_failed", 3)]
)
@with_outbox()
async def test_an_edit_that_cannot_be_made_yet_waits_until_it_can(
    bot: Bot, outbox: Outbox, store: Store, *, error: str, times: int
) -> None:
    head = await bot.gateway.post(ONCALL, line("3 pods"))
    bot.slack.faults.append(Fault("error", "chat.update", error=error, times=times))
    await outbox.put("a", ONCALL, line("5 pods"), update_ts=head.ts)
    await drain(store, bot.clock, outbox)
    assert texts(bot, ONCALL) == ["5 pods"]


@with_outbox()
async def test_an_edit_that_slack_fails_to_make_again_and_again_does_not_hold_up_the_next_for_ever(
    bot: Bot, outbox: Outbox, store: Store
) -> None:
    head = await bot.gateway.post(ONCALL, line("3 pods"))
    bot.slack.faults.append(Fault("error", "chat.update", error="update_failed", times=None))
    await outbox.put("a", ONCALL, line("5 pods"), update_ts=head.ts)
    await outbox.put("b", ONCALL, line("next"))
    await drain(store, bot.clock, outbox)
    assert texts(bot, ONCALL) == ["3 pods", "next"]
    assert "update_failed" in (await failed(store))[0].reason


@pytest.mark.parametrize("error", ["msg_too_long", "msg_blocks_too_long"])
@with_outbox()
async def test_a_message_that_is_too_long_is_sent_in_a_shorter_form(
    bot: Bot, outbox: Outbox, store: Store, *, error: str
) -> None:
    bot.slack.faults.append(Fault("error", POST, error=error))
    await outbox.put("a", ONCALL, Message("x" * 5000))
    await drain(store, bot.clock, outbox)
    first = said(bot, ONCALL)[0]["text"]
    assert first.startswith("xxx")
    assert len(first) < 4000
    assert len(shared(bot, ONCALL)) == 1


@pytest.mark.parametrize(
    ("error", "advice"),
    [("storage_limit_reached", "delete old files"), ("file_uploads_disabled", "allow file uploads")],
)
@with_outbox()
async def test_a_message_whose_file_slack_does_not_take_goes_without_it_and_says_why(
    bot: Bot, outbox: Outbox, store: Store, *, error: str, advice: str
) -> None:
    bot.slack.faults.append(Fault("error", "files.getUploadURLExternal", error=error, times=None))
    await outbox.put("a", ONCALL, line("first")._replace(files=(CSV,)))
    await drain(store, bot.clock, outbox)
    first, note = said(bot, ONCALL)
    assert first["text"] == "first"
    assert note["thread_ts"] == first["ts"]
    assert "could not be attached" in note["text"]
    assert advice in note["text"]


@with_outbox()
async def test_a_message_somebody_deleted_is_not_edited_for_ever(bot: Bot, outbox: Outbox, store: Store) -> None:
    head = await bot.gateway.post(ONCALL, line("3 pods"))
    bot.slack.workspace.remove(ONCALL, head.ts)
    await outbox.put("a", ONCALL, line("5 pods"), update_ts=head.ts)
    await drain(store, bot.clock, outbox)
    assert "message_not_found" in (await failed(store))[0].reason


@with_outbox()
async def test_a_staged_file_that_slack_forgot_is_uploaded_again(bot: Bot, outbox: Outbox, store: Store) -> None:
    bot.slack.faults.append(Fault("reset", "files.completeUploadExternal"))
    bot.slack.faults.append(Fault("error", "files.completeUploadExternal", error="file_not_found"))
    await outbox.put("a", ONCALL, line("first")._replace(files=(CSV,)))
    await drain(store, bot.clock, outbox)
    assert len(shared(bot, ONCALL)) == 1


@with_outbox(start=seed(scopes=("chat:write", "channels:history")))
async def test_a_file_that_cannot_be_shared_is_given_up_and_its_message_stays(
    bot: Bot, outbox: Outbox, store: Store
) -> None:
    await outbox.put("a", ONCALL, line("first")._replace(files=(CSV,)))
    await outbox.put("b", ONCALL, line("second"))
    await drain(store, bot.clock, outbox)
    first, *_, note = said(bot, ONCALL)
    assert texts(bot, ONCALL)[:2] == ["first", "second"]
    assert shared(bot, ONCALL) == []
    assert outbox.waiting() == 0
    assert "`use.csv` could not be attached: " in note["text"]
    assert "missing_scope" in note["text"]
    assert note["thread_ts"] == first["ts"]


@with_outbox(start=seed(scopes=("chat:write", "files:write")))
async def test_where_the_history_may_not_be_read_a_message_twice_is_better_than_none(
    bot: Bot, outbox: Outbox, store: Store, *, caplog: pytest.LogCaptureFixture
) -> None:
    bot.slack.faults.append(Fault("reset", POST))
    await outbox.put("a", ONCALL, line("first"))
    await drain(store, bot.clock, outbox)
    assert texts(bot, ONCALL) == ["first"]
    assert "a second time" in caplog.text


# processes


@with_outbox()
async def test_two_processes_with_one_store_send_each_row_once(
    bot: Bot, outbox: Outbox, store: Store, *, database: str
) -> None:
    async with a_bot(bot.slack) as second_bot, an_outbox(second_bot, database) as (second, second_store):
        for number in range(12):
            await (outbox, second)[number % 2].put(f"{number}", ONCALL, line(f"{number}"))
            await outbox.put(f"{number}", GENERAL, line(f"{number}"))
        while channels := await store.outbox.channels():
            steps = (sender.step(channel) for channel in channels for sender in (outbox, second))
            waits = [wait for wait in await asyncio.gather(*steps) if wait is not None]
            await bot.clock.advance(min(waits, default=0.0))
        assert await second_store.outbox.channels() == []
    for channel in (ONCALL, GENERAL):
        assert sorted(texts(bot, channel), key=int) == [f"{number}" for number in range(12)]
    assert all(entry.status != 429 for entry in bot.slack.journal.of("api"))
    for channel in (ONCALL, GENERAL):
        times = [entry.at for entry in bot.slack.journal.of("api", POST) if entry.request["channel"] == channel]
        assert all(later - earlier >= 1.0 for earlier, later in itertools.pairwise(times)), times


@with_outbox()
async def test_another_process_takes_over_when_the_lease_has_lapsed_and_not_before(
    bot: Bot, outbox: Outbox, store: Store
) -> None:
    bot.slack.faults.append(Fault("reset_after", POST))
    await outbox.put("a", ONCALL, line("first"))
    began = bot.clock.now()
    await outbox.step(ONCALL)  # and this process is never heard of again
    heir = outbox_of(bot, store)
    await drain(store, bot.clock, heir)
    assert texts(bot, ONCALL) == ["first"]
    assert LEASE <= bot.clock.now() - began < LEASE + 11


@with_outbox()
async def test_a_process_that_comes_back_under_its_own_name_goes_on_at_once(
    bot: Bot, outbox: Outbox, store: Store
) -> None:
    before = outbox_of(bot, store, owner="hami-bot-0")
    bot.slack.faults.append(Fault("reset_after", POST))
    await before.put("a", ONCALL, line("first"))
    began = bot.clock.now()
    await before.step(ONCALL)
    await drain(store, bot.clock, outbox_of(bot, store, owner="hami-bot-0"))
    assert texts(bot, ONCALL) == ["first"]
    assert bot.clock.now() - began < 10


@with_outbox()
async def test_any_text_can_be_kept_and_sent(bot: Bot, outbox: Outbox, store: Store) -> None:
    for number, text in enumerate(("ünïcödé 🚀", "half a pair \ud83d", "x" * 30_000)):
        await outbox.put(f"{number}", ONCALL, Message(text))
    await drain(store, bot.clock, outbox)
    assert [text[:11] for text in texts(bot, ONCALL)] == ["ünïcödé 🚀"[:11], "half a pair", "x" * 11]
