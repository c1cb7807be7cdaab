"""What the outbox promises, with Slack's own client and a real server, in virtual time."""

import asyncio
import itertools
import logging
from dataclasses import replace

import pytest
from sqlalchemy import event

from bot.slack.message import File, Message
from bot.slack.outbox import LEASE
from bot.store import Store
from bot.texts import in_english
from sandbox.slack import Fault
from tests.slack.outbox_support import (
    ADA,
    GENERAL,
    GRACE,
    ONCALL,
    Sending,
    a_bot,
    an_outbox,
    calls,
    drain,
    failed,
    line,
    outbox_of,
    said,
    seed,
    sending,
    shared,
    texts,
)

POST = "chat.postMessage"
CSV = File("use.csv", b"gpu-1,100", "Use")
PICTURE = File("use.png", b"\x89PNG", "Use", alt_text="gpu-1 is full")


@sending()
async def test_what_was_put_is_sent_by_run(bot: Sending) -> None:
    sender = asyncio.create_task(bot.outbox.run())
    await bot.put("a", "to on-call")
    await bot.put("b", "to Ada", channel=ADA)
    assert bot.outbox.waiting() == 2
    await bot.outbox.settled()
    sender.cancel()
    assert (texts(bot, ONCALL), texts(bot, ADA)) == (["to on-call"], ["to Ada"])
    assert bot.outbox.waiting() == 0


@sending()
async def test_the_most_severe_goes_first_then_the_oldest_and_one_a_second(bot: Sending) -> None:
    for number, severity in enumerate(("info", "warning", "critical", "info", "critical")):
        await bot.put(f"{number}", f"{severity} {number}", severity=severity)
        await bot.clock.advance(1)
    await bot.drain()
    assert texts(bot, ONCALL) == ["critical 2", "critical 4", "warning 1", "info 0", "info 3"]
    times = [entry.at for entry in bot.slack.journal.of("api", POST)]
    assert [later - earlier for earlier, later in itertools.pairwise(times)] == [1.0] * 4


@sending()
async def test_answers_in_one_channel_go_round_by_person_and_what_the_bot_says_by_itself_has_its_turn(
    bot: Sending,
) -> None:
    for number in range(4):
        await bot.put(f"ada-{number}", f"ada {number}", asker=ADA)
    for number in range(2):
        await bot.clock.advance(1)
        await bot.put(f"grace-{number}", f"grace {number}", asker=GRACE)
    await bot.put("digest", "digest")
    await bot.put("incident", "incident", severity="critical")
    await bot.drain()
    rounds = ["ada 0", "grace 0", "digest", "ada 1", "grace 1", "ada 2", "ada 3"]
    assert texts(bot, ONCALL) == ["incident", *rounds]


@pytest.mark.parametrize("of_channel", [True, False])
@sending(in_virtual_time=True)
async def test_while_the_store_is_away_the_log_has_one_line_and_one_when_it_is_back(
    bot: Sending, *, of_channel: bool, caplog: pytest.LogCaptureFixture
) -> None:
    failed = asyncio.Event()
    event.listen(bot.store._engine.sync_engine, "handle_error", lambda _: failed.set())
    await bot.put("a", "to on-call")
    await renamed(bot.store, "outbox", "away")
    sender = asyncio.create_task(bot.outbox._drain(ONCALL) if of_channel else bot.outbox.run())
    for _ in range(5):
        await failed.wait()
        failed.clear()
        bot.outbox._wake.set()
    await renamed(bot.store, "away", "outbox")
    while not texts(bot, ONCALL):
        bot.outbox._wake.set()
        await asyncio.sleep(0)
    await bot.outbox.settled()
    sender.cancel()
    told = [record for record in caplog.records if record.name == "bot.slack.outbox"]
    assert [record.levelname for record in told] == ["ERROR", "WARNING"]
    assert in_english(told[0].message).startswith("nothing is sent to Slack until the store can be used again: ")
    assert not any(record.exc_info for record in told)


async def renamed(store: Store, old: str, new: str) -> None:
    async with store._engine.begin() as connection:
        await connection.exec_driver_sql(f"ALTER TABLE {old} RENAME TO {new}")


@sending()
async def test_the_same_key_again_is_one_message_that_says_the_newest(bot: Sending) -> None:
    for state in ("3 pods", "5 pods", "9 pods", "9 pods"):
        await bot.put("incident-1", state)
    assert bot.outbox.waiting() == 1
    await bot.drain()
    await bot.put("incident-1", "9 pods")
    assert bot.outbox.waiting() == 0
    await bot.put("incident-1", "resolved")
    await bot.drain()
    assert texts(bot, ONCALL) == ["resolved"]
    assert (calls(bot, POST), calls(bot, "chat.update")) == (1, 1)


@pytest.mark.parametrize("known", [True, False])
@sending()
async def test_newer_kinds_of_blocks_are_sent_and_edited_where_the_workspace_has_them(
    bot: Sending, *, known: bool
) -> None:
    if not known:
        bot.slack.unknown_blocks.add("task_card")
    for text in ("looking", "found"):
        card = {"type": "task_card", "task_id": "1", "title": text, "status": "in_progress"}
        await bot.put("answer", line(text)._replace(newer=(card,)))
        await bot.drain()
        (block,) = bot.slack.messages(ONCALL)[-1]["blocks"]
        assert (block["type"], text in str(block)) == ("task_card" if known else "section", True)
    assert calls(bot, "chat.update") == 1


@sending()
async def test_what_is_put_while_its_message_is_being_posted_becomes_an_edit(bot: Sending) -> None:
    bot.slack.faults.append(Fault("reset_after", POST))
    await bot.put("incident-1", "3 pods")
    await bot.outbox.step(ONCALL)
    await bot.put("incident-1", "5 pods")
    await bot.drain()
    assert texts(bot, ONCALL) == ["5 pods"]
    assert calls(bot, "chat.update") == 1


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
@sending()
async def test_no_passing_fault_loses_or_doubles_anything(bot: Sending, *, where: str, fault: Fault) -> None:
    bot.slack.faults.append(replace(fault, where=where, times=3))
    await bot.put("a", "first", CSV, PICTURE)
    await bot.put("b", "second")
    await bot.drain()
    assert texts(bot, ONCALL) == ["first", "second"]
    assert sorted(name for name, _ in shared(bot, ONCALL)) == ["use.csv", "use.png"]
    assert await failed(bot.store) == []


@sending(total=0.2)
async def test_a_hang_is_given_up_and_what_happened_behind_it_is_found(bot: Sending) -> None:
    bot.slack.faults.append(Fault("hang", POST))
    await bot.put("a", "first")
    await bot.drain()
    assert texts(bot, ONCALL) == ["first"]


@sending()
async def test_a_look_that_fails_leaves_the_message_in_doubt(bot: Sending) -> None:
    bot.slack.faults.append(Fault("reset_after", POST))
    bot.slack.faults.append(Fault("status", "conversations.history", times=5))
    bot.slack.faults.append(Fault("rate_limited", "conversations.history", times=3, retry_after="90"))
    await bot.put("a", "first")
    await bot.drain()
    assert texts(bot, ONCALL) == ["first"]
    assert len(bot.slack.journal.of("api", POST)) <= 2


@sending()
async def test_a_429_holds_its_channel_and_no_other(bot: Sending) -> None:
    bot.slack.faults.append(Fault("rate_limited", POST, retry_after="30"))
    await bot.put("a", "held", channel=GENERAL)
    await bot.put("b", "free")
    assert await bot.outbox.step(GENERAL) == pytest.approx(30)
    await bot.outbox.step(ONCALL)
    assert (texts(bot, GENERAL), texts(bot, ONCALL)) == ([], ["free"])
    await bot.drain()
    assert texts(bot, GENERAL) == ["held"]


@sending()
async def test_tries_during_an_outage_become_rare(bot: Sending) -> None:
    bot.slack.faults.append(Fault("outage", until=bot.clock.now() + 600))
    for number in range(50):
        await bot.put(f"{number}", f"{number}")
    tries: list[float] = []
    while bot.clock.now() < bot.slack.faults._faults[0].until:
        wait = await bot.outbox.step(ONCALL)
        assert wait is not None
        tries.append(wait)
        await bot.clock.advance(wait)
    assert len(tries) < 25
    assert max(tries) <= 60
    await bot.drain()
    assert texts(bot, ONCALL) == [f"{number}" for number in range(50)]


@pytest.mark.parametrize("error", ["token_revoked", "invalid_auth", "account_inactive"])
@sending()
async def test_a_refused_token_stops_everything_and_keeps_every_row(
    bot: Sending, *, error: str, caplog: pytest.LogCaptureFixture
) -> None:
    revoked = bot.slack.faults.append(Fault("error", "api/", error=error, times=None))
    for channel in (ONCALL, GENERAL):
        await bot.put("a", "kept", channel=channel)
    assert bot.outbox.ready
    assert await bot.outbox.step(ONCALL) == 60
    assert not bot.outbox.ready
    assert await bot.outbox.step(GENERAL) == 60  # without a call
    await bot.drain(until=lambda: len(bot.slack.journal.entries) > 5)
    assert bot.outbox.waiting() == 2
    assert len([record for record in caplog.records if record.levelno == logging.ERROR]) == 1
    bot.slack.faults.remove(revoked)
    await bot.drain()
    assert bot.outbox.ready
    assert (texts(bot, ONCALL), texts(bot, GENERAL)) == (["kept"], ["kept"])


@pytest.mark.parametrize(
    "error", ["channel_not_found", "is_archived", "restricted_action", "cannot_dm_bot", "not_in_channel"]
)
@sending()
async def test_rows_of_a_channel_that_is_gone_are_kept_with_the_reason_and_told_once(
    bot: Sending, *, error: str, caplog: pytest.LogCaptureFixture
) -> None:
    bot.slack.faults.append(Fault("error", POST, error=error, times=3))
    for number in range(3):
        await bot.put(f"{number}", f"{number}", CSV)
    await bot.drain()
    assert bot.outbox.waiting() == 0
    dead = await failed(bot.store)
    assert [row.content["text"] for row in dead] == ["0", "1", "2"]
    assert all(error in row.reason for row in dead)
    assert len([record for record in caplog.records if record.levelno == logging.ERROR]) == 1
    await bot.put("0", "0")  # put again, it is tried again
    await bot.drain()
    assert texts(bot, ONCALL) == ["0"]


@pytest.mark.parametrize("error", ["metadata_too_large", "no_text", "invalid_arguments"])
@sending()
async def test_a_message_that_slack_never_takes_does_not_hold_up_the_next(bot: Sending, *, error: str) -> None:
    bot.slack.faults.append(Fault("error", POST, error=error, times=1))
    await bot.put("a", Message("bad"))
    await bot.put("b", "good")
    await bot.drain()
    assert texts(bot, ONCALL) == ["good"]
    assert [row.content["text"] for row in await failed(bot.store)] == ["bad"]


@sending()
async def test_a_reply_in_the_channel_whose_outcome_is_unknown_is_found_there(bot: Sending) -> None:
    head = await bot.gateway.post(ONCALL, line("3 pods"))
    bot.slack.faults.append(Fault("error", POST, error="restricted_action_thread_locked"))
    bot.slack.faults.append(Fault("reset_after", POST))
    await bot.put("a", "evidence", thread_ts=head.ts)
    await bot.drain()
    assert texts(bot, ONCALL) == ["3 pods", "evidence"]


@pytest.mark.parametrize(
    ("error", "times"), [("external_channel_migrating", 20), ("accesslimited", 20), ("update_failed", 3)]
)
@sending()
async def test_an_edit_that_cannot_be_made_yet_waits_until_it_can(bot: Sending, *, error: str, times: int) -> None:
    head = await bot.gateway.post(ONCALL, line("3 pods"))
    bot.slack.faults.append(Fault("error", "chat.update", error=error, times=times))
    await bot.put("a", "5 pods", update_ts=head.ts)
    await bot.drain()
    assert texts(bot, ONCALL) == ["5 pods"]


@sending()
async def test_an_edit_that_slack_fails_to_make_again_and_again_does_not_hold_up_the_next_for_ever(
    bot: Sending,
) -> None:
    head = await bot.gateway.post(ONCALL, line("3 pods"))
    bot.slack.faults.append(Fault("error", "chat.update", error="update_failed", times=None))
    await bot.put("a", "5 pods", update_ts=head.ts)
    await bot.put("b", "next")
    await bot.drain()
    assert texts(bot, ONCALL) == ["3 pods", "next"]
    assert "update_failed" in (await failed(bot.store))[0].reason


@pytest.mark.parametrize("error", ["msg_too_long", "msg_blocks_too_long"])
@sending()
async def test_a_message_that_is_too_long_is_sent_in_a_shorter_form(bot: Sending, *, error: str) -> None:
    bot.slack.faults.append(Fault("error", POST, error=error))
    await bot.put("a", Message("x" * 5000))
    await bot.drain()
    first = said(bot, ONCALL)[0]["text"]
    assert first.startswith("xxx")
    assert len(first) < 4000
    assert len(shared(bot, ONCALL)) == 1


@sending()
async def test_a_message_somebody_deleted_is_not_edited_for_ever(bot: Sending) -> None:
    head = await bot.gateway.post(ONCALL, line("3 pods"))
    bot.slack.workspace.remove(ONCALL, head.ts)
    await bot.put("a", "5 pods", update_ts=head.ts)
    await bot.drain()
    assert "message_not_found" in (await failed(bot.store))[0].reason


@sending(start=seed(scopes=("chat:write", "files:write")))
async def test_where_the_history_may_not_be_read_a_message_twice_is_better_than_none(
    bot: Sending, *, caplog: pytest.LogCaptureFixture
) -> None:
    bot.slack.faults.append(Fault("reset", POST))
    await bot.put("a", "first")
    await bot.drain()
    assert texts(bot, ONCALL) == ["first"]
    assert "a second time" in caplog.text


# processes


@pytest.mark.each_way
@sending()
async def test_two_processes_with_one_store_send_each_row_once(bot: Sending, *, database: str) -> None:
    async with a_bot(bot.slack) as second_bot, an_outbox(second_bot, database) as (second, second_store):
        for number in range(12):
            await (bot.outbox, second)[number % 2].put(f"{number}", ONCALL, line(f"{number}"))
            await bot.put(f"{number}", f"{number}", channel=GENERAL)
        while channels := await bot.store.outbox.channels():
            steps = (sender.step(channel) for channel in channels for sender in (bot.outbox, second))
            waits = [wait for wait in await asyncio.gather(*steps) if wait is not None]
            await bot.clock.advance(min(waits, default=0.0))
        assert await second_store.outbox.channels() == []
    for channel in (ONCALL, GENERAL):
        assert sorted(texts(bot, channel), key=int) == [f"{number}" for number in range(12)]
    assert all(entry.status != 429 for entry in bot.slack.journal.of("api"))
    for channel in (ONCALL, GENERAL):
        times = [entry.at for entry in bot.slack.journal.of("api", POST) if entry.request["channel"] == channel]
        assert all(later - earlier >= 1.0 for earlier, later in itertools.pairwise(times)), times


@pytest.mark.each_way
@sending()
async def test_another_process_takes_over_when_the_lease_has_lapsed_and_not_before(bot: Sending) -> None:
    bot.slack.faults.append(Fault("reset_after", POST))
    await bot.put("a", "first")
    began = bot.clock.now()
    await bot.outbox.step(ONCALL)  # and this process is never heard of again
    heir = outbox_of(bot, bot.store)
    await drain(bot.store, bot.clock, heir)
    assert texts(bot, ONCALL) == ["first"]
    assert LEASE <= bot.clock.now() - began < LEASE + 11


@pytest.mark.each_way
@sending()
async def test_a_process_that_comes_back_under_its_own_name_goes_on_at_once(bot: Sending) -> None:
    before = outbox_of(bot, bot.store, owner="hami-bot-0")
    bot.slack.faults.append(Fault("reset_after", POST))
    await before.put("a", ONCALL, line("first"))
    began = bot.clock.now()
    await before.step(ONCALL)
    await drain(bot.store, bot.clock, outbox_of(bot, bot.store, owner="hami-bot-0"))
    assert texts(bot, ONCALL) == ["first"]
    assert bot.clock.now() - began < 10


@sending()
async def test_any_text_can_be_kept_and_sent(bot: Sending) -> None:
    for number, text in enumerate(("ünïcödé 🚀", "half a pair \ud83d", "x" * 30_000)):
        await bot.put(f"{number}", Message(text))
    await bot.drain()
    assert [text[:11] for text in texts(bot, ONCALL)] == ["ünïcödé 🚀"[:11], "half a pair", "x" * 11]
