"""The answer to one interaction, whatever becomes of its response_url."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from bot.slack.message import File, Message
from bot.slack.outbox import Outbox
from bot.slack.responder import LIFE, Responder
from bot.store import Store
from bot.texts import Texts
from sandbox.slack import Fault
from tests.slack.bot import staged
from tests.slack.outbox_support import (
    ADA,
    BUDGET,
    GRACE,
    ONCALL,
    Bot,
    a_workspace,
    an_outbox,
    drain,
    ephemerals,
    line,
    shared,
    texts,
)

URL = "commands/"
CSV = File("use.csv", b"gpu-1,100", "Use")


class Inbox:
    """A bot, its outbox, and somebody who asks."""

    def __init__(self, bot: Bot, outbox: Outbox, store: Store) -> None:
        self.bot = bot
        self.outbox = outbox
        self.store = store

    def responder(self, url: str, channel: str, user: str, key: str, *, replaces: bool = False) -> Responder:
        bot = self.bot
        more = {"key": key, "replaces": replaces, "now": bot.clock.now, "say": Texts("en")}
        return Responder(bot.gateway, self.outbox, url, channel, user, **more)

    def asked(self, channel: str = ONCALL, user: str = ADA) -> Responder:
        """By a command."""
        path = self.bot.slack._world.responses.issue("commands", channel, user).path
        url = self.bot.slack.url + path
        return self.responder(url, channel, user, url)

    def resumed(self, key: str, channel: str = ONCALL, user: str = ADA) -> Responder:
        """By a form, which has no response_url."""
        return self.responder("", channel, user, key)

    async def clicked(self) -> Responder:
        """By a button of a message that ADA alone sees."""
        await self.bot.gateway.ephemeral(ONCALL, ADA, line("the short answer"))
        ts = ephemerals(self.bot, ONCALL, ADA)[-1]["ts"]
        path = self.bot.slack._world.responses.issue("actions", ONCALL, ADA, original=ts).path
        url = self.bot.slack.url + path
        return self.responder(url, ONCALL, ADA, url, replaces=True)

    def seen(self, channel: str = ONCALL, user: str = ADA) -> list[str]:
        """What the user alone is shown in the channel."""
        return [message["text"] for message in ephemerals(self.bot, channel, user)]

    def uses(self) -> int:
        return len(self.bot.slack.journal.of("response_url"))

    async def way(self, responder: Responder, message: Message) -> str:
        """Has it answered, and tells by which way that came, as Slack saw it."""
        seen = len(self.bot.slack.journal.entries)
        await responder.answer(message)
        taken = [entry for entry in list(self.bot.slack.journal.entries)[seen:] if entry.ok]
        if any(entry.kind == "response_url" for entry in taken):
            return "response-url"
        if any(entry.title == "chat.postEphemeral" for entry in taken):
            return "ephemeral"
        return "direct" if self.outbox.waiting() else "lost"

    async def drain(self) -> None:
        await drain(self.store, self.bot.clock, self.outbox)


@staged
@asynccontextmanager
async def at_the_desk(tmp_path: Path, **options: Any) -> AsyncGenerator[Inbox]:
    async with a_workspace(**options) as bot, an_outbox(bot, f"sqlite:///{tmp_path}/state.db") as (outbox, store):
        yield Inbox(bot, outbox, store)


@at_the_desk()
async def test_the_message_with_the_button_becomes_the_progress_and_then_the_answer(inbox: Inbox) -> None:
    responder = await inbox.clicked()
    await responder.progress("Looking at ml/x")
    assert inbox.seen() == ["Looking at ml/x"]
    assert await inbox.way(responder, line("gpu-1 is full")) == "response-url"
    assert inbox.seen() == ["gpu-1 is full"]


@at_the_desk()
async def test_the_answer_to_a_command_stands_below_its_progress(inbox: Inbox) -> None:
    responder = inbox.asked()
    await responder.progress("This takes a few seconds")
    assert await inbox.way(responder, line("gpu-1 is full")) == "response-url"
    assert inbox.seen() == ["This takes a few seconds", "gpu-1 is full"]


@at_the_desk()
async def test_progress_never_takes_the_last_use_nor_the_answers_place(inbox: Inbox) -> None:
    responder = await inbox.clicked()
    for number in range(9):
        await responder.progress(f"step {number}")
    assert inbox.uses() == 4
    assert await inbox.way(responder, line("found")) == "response-url"
    await responder.progress("too late")
    assert inbox.seen() == ["found"]


@at_the_desk()
async def test_an_answer_waits_for_progress_that_is_under_way(inbox: Inbox) -> None:
    responder = await inbox.clicked()
    await asyncio.gather(responder.progress("looking"), responder.answer(line("found")))
    assert inbox.seen() == ["found"]


@at_the_desk()
async def test_the_sixth_answer_takes_the_next_way(inbox: Inbox) -> None:
    responder = inbox.asked()
    ways = [await inbox.way(responder, line(f"{number}")) for number in range(6)]
    assert ways == ["response-url"] * 5 + ["ephemeral"]
    assert inbox.seen() == ["0", "1", "2", "3", "4", "5"]
    assert inbox.uses() == 5


@at_the_desk()
async def test_after_half_an_hour_the_url_is_not_even_tried(inbox: Inbox) -> None:
    responder = inbox.asked()
    await inbox.bot.clock.advance(LIFE)
    await responder.progress("still looking")
    assert await inbox.way(responder, line("found")) == "ephemeral"
    assert inbox.seen() == ["found"]
    assert inbox.uses() == 0


@pytest.mark.parametrize(
    "fault",
    [
        *(Fault("status", URL, status=status) for status in (404, 410)),
        *(Fault("status", URL, times=2), Fault("html", URL, times=2), Fault("reset", URL, times=2)),
        *(Fault("rate_limited", URL, retry_after="1.5"), Fault("error", URL, error="no_text")),
    ],
    ids=lambda fault: f"{fault.kind}-{fault.status}",
)
@at_the_desk()
async def test_a_url_that_fails_is_followed_by_an_ephemeral_message(inbox: Inbox, *, fault: Fault) -> None:
    inbox.bot.slack.faults.append(fault)
    assert await inbox.way(inbox.asked(), line("found")) == "ephemeral"
    assert inbox.seen() == ["found"]


@pytest.mark.parametrize("kind", ["status", "html", "reset"])
@at_the_desk()
async def test_a_fault_that_passes_costs_only_a_second_use(inbox: Inbox, *, kind: Any) -> None:
    inbox.bot.slack.faults.append(Fault(kind, URL))
    assert await inbox.way(inbox.asked(), line("found")) == "response-url"
    assert inbox.seen() == ["found"]


@at_the_desk()
async def test_blocks_that_are_refused_come_simpler(inbox: Inbox) -> None:
    inbox.bot.slack.faults.append(Fault("error", URL, error="invalid_blocks"))
    assert await inbox.way(inbox.asked(), line("the whole verdict")) == "response-url"
    assert inbox.seen() == ["the whole verdict"]


@at_the_desk()
async def test_where_the_bot_is_not_it_answers_by_the_url_and_else_directly(inbox: Inbox) -> None:
    assert await inbox.way(inbox.asked(BUDGET, GRACE), line("found")) == "response-url"
    assert inbox.seen(BUDGET, GRACE) == ["found"]
    inbox.bot.slack.faults.append(Fault("status", URL, status=404))
    assert await inbox.way(inbox.asked(BUDGET, GRACE), line("found again")) == "direct"
    await inbox.drain()
    assert texts(inbox.bot, GRACE) == ["found again"]


@at_the_desk()
async def test_an_answer_while_slack_is_away_is_in_the_direct_messages_when_it_is_back(inbox: Inbox) -> None:
    inbox.bot.slack.faults.append(Fault("outage", until=inbox.bot.clock.now() + 600))
    responder = inbox.asked()
    await responder.progress("looking")
    assert await inbox.way(responder, line("found")._replace(files=(CSV,))) == "direct"
    await inbox.drain()
    assert texts(inbox.bot, ADA) == ["found"]
    assert len(shared(inbox.bot, ADA)) == 1


@at_the_desk()
async def test_files_of_a_private_answer_are_in_the_direct_messages_and_it_says_so(inbox: Inbox) -> None:
    message = line("gpu-1 is full")._replace(files=(CSV,))
    assert await inbox.way(inbox.asked(), message) == "response-url"
    await inbox.drain()
    blocks = ephemerals(inbox.bot, ONCALL, ADA)[0]["blocks"]
    assert "direct messages" in blocks[-1]["elements"][0]["text"]
    assert len(texts(inbox.bot, ADA)) == 1
    assert [name for name, _ in shared(inbox.bot, ADA)] == ["use.csv"]
    assert shared(inbox.bot, ONCALL) == []


@at_the_desk()
async def test_a_store_that_cannot_be_written_costs_the_files_and_not_the_answer(inbox: Inbox) -> None:
    async with inbox.store._engine.begin() as connection:
        await connection.exec_driver_sql("DROP TABLE outbox_files")
        await connection.exec_driver_sql("DROP TABLE outbox")
    assert await inbox.way(inbox.asked(), line("found")._replace(files=(CSV,))) == "response-url"
    assert inbox.seen() == ["found"]
    inbox.bot.slack.faults.append(Fault("outage"))
    assert await inbox.way(inbox.asked(), Message("lost")) == "lost"


@at_the_desk()
async def test_answers_without_a_response_url_are_not_taken_for_each_other(inbox: Inbox) -> None:
    for number in range(2):
        assert await inbox.way(inbox.resumed(f"V1:{number}", BUDGET, GRACE), line(f"{number}")) == "direct"
    await inbox.drain()
    assert texts(inbox.bot, GRACE) == ["0", "1"]


@at_the_desk()
async def test_the_files_of_a_forms_answer_are_posted_once_though_the_question_is_resumed(inbox: Inbox) -> None:
    for _ in range(2):
        answer = line("found")._replace(files=(CSV,))
        assert await inbox.way(inbox.resumed("V1:hash"), answer) == "ephemeral"
        await inbox.drain()
    assert [name for name, _ in shared(inbox.bot, ADA)] == ["use.csv"]


@at_the_desk()
async def test_progress_is_a_task_card_where_the_workspace_takes_them(inbox: Inbox) -> None:
    await inbox.asked().progress("Looking at &lt;ml/x&gt;")
    [message] = ephemerals(inbox.bot, ONCALL, ADA)
    assert [(block["type"], block["title"]) for block in message["blocks"]] == [("task_card", "Looking at <ml/x>")]


@at_the_desk()
async def test_progress_and_answer_come_where_the_workspace_refuses_task_cards(inbox: Inbox) -> None:
    inbox.bot.slack.unknown_blocks.add("task_card")
    responder = inbox.asked()
    await responder.progress("Looking at ml/x")
    assert await inbox.way(responder, line("gpu-1 is full")) == "response-url"
    assert inbox.seen() == ["Looking at ml/x", "gpu-1 is full"]
