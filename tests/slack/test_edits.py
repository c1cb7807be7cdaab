"""A message is one question, however often it is edited and however it is sent."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from bot.errors import SourceError
from bot.store import open_store
from handlers.parsing.question import Question
from handlers.threads import Edits
from sandbox.slack import SlackServer
from tests.slack import changing
from tests.slack.bot import POD, VERDICT, Gated, Here, a_recorded_bot, played
from tests.slack.deliveries import later
from tests.slack.surfaces import text_of


def said(slack: SlackServer, channel: str, thread_ts: str = "") -> list[dict[str, Any]]:
    """What the bot said there for everybody, without the files that go with it."""
    seen = slack.messages(channel, "ada", thread_ts)
    return [message for message in seen if message.get("bot_id") and not message.get("files")]


@played()
async def test_an_edit_that_changes_no_word_is_answered_by_nothing(here: Here) -> None:
    asked, answer = await here.mention("ada", f"why ml/{POD}", VERDICT)
    await here.slack.edit("ada", "gpu-oncall", asked, f"@hami-bot  Why  ml/{POD}")
    await later(here.slack)
    assert [message["ts"] for message in said(here.slack, "gpu-oncall", asked)] == [answer["ts"]]
    assert here.slack.journal.of("api", "chat.update") == []


@played()
async def test_other_words_are_answered_in_the_place_of_the_first_answer(here: Here) -> None:
    asked, first = await here.mention("ada", f"why ml/{POD}", VERDICT)
    await here.slack.edit("ada", "gpu-oncall", asked, "@hami-bot why ml/nobody-knows-it")
    await here.slack.wait_for(channel="gpu-oncall", containing="nobody-knows-it", thread_ts=asked)
    [only] = said(here.slack, "gpu-oncall", asked)
    assert only["ts"] == first["ts"]
    await here.slack.edit("ada", "gpu-oncall", asked, f"@hami-bot why ml/{POD}")
    await here.slack.wait_for(channel="gpu-oncall", containing=VERDICT, thread_ts=asked)
    [only] = said(here.slack, "gpu-oncall", asked)
    assert only["ts"] == first["ts"]


class FailsOnce(Gated):
    """What is read first waits for the gate, and then fails; what others read meanwhile does not."""

    async def _wait(self) -> None:
        if not self.asked.is_set():
            await super()._wait()


async def test_the_answer_to_an_edit_stays_when_the_first_words_fail_after_it(tmp_path: Path) -> None:
    gated = FailsOnce(SourceError("the cluster went away"))

    async with a_recorded_bot(tmp_path, opener=gated.opener) as here:
        asked = await here.slack.mention("ada", "gpu-oncall", "why ml/nobody-knows-it")
        await gated.asked.wait()
        await here.slack.edit("ada", "gpu-oncall", asked.ts, f"@hami-bot why ml/{POD}")
        await here.slack.wait_for(channel="gpu-oncall", containing=VERDICT, thread_ts=asked.ts)
        gated.gate.set()
        # The answer waits behind whatever is posted before it.
        asked_later = await here.slack.mention("ada", "gpu-oncall", "help")
        await here.slack.wait_for(channel="gpu-oncall", containing="You can ask", thread_ts=asked_later.ts)
        [only] = said(here.slack, "gpu-oncall", asked.ts)
        assert VERDICT in text_of(only)


async def test_an_edit_that_comes_behind_a_later_one_asks_nothing(database: str) -> None:
    async with open_store(database) as store:
        edits = Edits(store)
        first = Question("why ml/a", "U1", "C1", 1.0, asked_ts="1.0")
        earlier = msgspec.structs.replace(first, words="why ml/b", edited_ts="1800000001.000000")
        latest = msgspec.structs.replace(first, words="why ml/c", edited_ts="1800000002.000000")
        assert await edits.news("first", first) == "first"
        assert await edits.news("latest", latest) == "changed"
        await edits.note("latest", latest)
        assert await edits.news("earlier", earlier) == "same"


@played()
async def test_a_direct_message_that_was_edited_is_answered_in_the_same_place(here: Here) -> None:
    room = here.slack.dm("ada")
    asked = await here.slack.say("ada", room, f"why ml/{POD}")
    first = await here.slack.wait_for(channel=room, containing=VERDICT)
    await here.slack.edit("ada", room, asked.ts, "why ml/nobody-knows-it")
    await here.slack.wait_for(channel=room, containing="nobody-knows-it", user="ada")
    [only] = said(here.slack, room)
    assert only["ts"] == first["ts"]


@played()
async def test_a_threaded_direct_message_that_is_also_sent_is_answered_once(here: Here) -> None:
    room = here.slack.dm("ada")
    asked = await here.slack.say("ada", room, "help")
    await here.slack.wait_for(channel=room, containing="You can ask")
    await here.slack.say("ada", room, f"why ml/{POD}", thread_ts=asked.ts, broadcast=True)
    await here.slack.wait_for(channel=room, containing=VERDICT, thread_ts=asked.ts)
    await later(here.slack)
    answers = [reply for reply in said(here.slack, room, asked.ts) if VERDICT in reply["text"]]
    assert len(answers) == 1


def told_in(world: changing.World) -> str:
    return world.slack.workspace.channel_id(changing.ROOM)


@pytest.mark.parametrize("before", ["verbosity 4 because it hangs", f"why ml/{POD}"])
@changing.played()
async def test_an_edit_that_asks_for_a_change_offers_nothing_and_says_how_to_go_on(
    world: changing.World, *, before: str
) -> None:
    asked = await world.slack.mention("ada", changing.ROOM, before)
    if before.startswith("why"):
        await world.slack.wait_for(channel=changing.ROOM, containing=VERDICT, thread_ts=asked.ts)
    else:
        await world.told("ada", "")
    await world.slack.edit("ada", changing.ROOM, asked.ts, "@hami-bot verbosity 5 for 10m because it hangs")
    where = {"thread_ts": asked.ts} if before.startswith("why") else {}
    told = await world.slack.wait_for(channel=changing.ROOM, containing="editing a message", user="ada", **where)
    assert "@hami-bot verbosity 5 for 10m because it hangs" in text_of(told)
    everything = [message for _, message in world.slack.workspace.everything(told_in(world))]
    offers = [message for message in everything if "change:confirm" in changing.actions(message)]
    assert not offers
    assert await world.is_closed()
