"""`/hami doctor`: for those who may change something, in the background, for the eyes of the one who asked."""

from collections.abc import Awaitable, Callable
from typing import Any

from bot.slack.app import App
from bot.slack.render.buttons import AskButton, read_value
from bot.slack.render.change import render_denied
from bot.slack.render.text import escape
from handlers.actions import first_action
from handlers.changes.guard import Guard
from handlers.changes.types import Person
from handlers.doctor.links import Link
from handlers.doctor.message import render_links
from handlers.doctor.words import VERB, ExaminationAsked
from handlers.inbox import DONE, Inbox
from handlers.message_events import edited_ts, heard, key_of
from handlers.parsing.question import Question
from handlers.parsing.slack_grammar import understand
from handlers.parsing.slack_words import command_words, mentioned_words, split_words
from handlers.user_actions import NOTHING, AcceptedDeed, Kind, Nothing
from handlers.verb_listeners import listen_for

Examine = Callable[[], Awaitable[list[Link]]]
"""Looks at every link between the running bot and what it needs."""


def register(app: App, inbox: Inbox, guard: Guard, examine: Examine) -> None:
    """To be registered before what listens to all commands and mentions."""
    listen_for(app, VERB, _Desk(inbox, guard, examine))


class _Desk:
    """Its listeners, and what they need."""

    def __init__(self, inbox: Inbox, guard: Guard, examine: Examine) -> None:
        self._inbox = inbox
        self._guard = guard
        self._examine = examine
        self._kind = inbox.kinds.add(Kind(VERB, Nothing, self._answer))

    def words_of(self, event: dict[str, Any]) -> str:
        return mentioned_words(event, self._inbox.deps.bot_user)

    async def command(self, ack: Any, body: dict[str, Any]) -> None:
        await ack()
        words, url = command_words(body), body.get("response_url", "")
        await self._ask(body["trigger_id"], body["user_id"], body["channel_id"], words, response_url=url)

    async def mention(self, event: dict[str, Any]) -> None:
        message = heard(event) or event
        about = {"thread_ts": message.get("thread_ts", ""), "asked_ts": message["ts"], "edited_ts": edited_ts(message)}
        await self._ask(key_of(message), message["user"], message["channel"], self.words_of(message), **about)

    said = mention

    async def button(self, ack: Any, body: dict[str, Any]) -> None:
        await ack()
        value, user = read_value(first_action(body)["value"], AskButton), body["user"]["id"]
        room: dict[str, Any] = body.get("channel") or {}
        words, url = value.words if value else VERB, body.get("response_url", "")
        await self._ask(body["trigger_id"], user, room.get("id") or user, words, response_url=url)

    async def _ask(self, key: str, user: str, channel: str, words: str, **about: Any) -> None:
        asked_at = self._inbox.deps.now()
        question = Question(words=words, user=user, channel=channel, asked_at=asked_at, beside=True, **about)
        await self._inbox.do(key, self._kind, question, NOTHING)

    async def _answer(self, taken: AcceptedDeed[Nothing]) -> None:
        question = taken.asked
        asked = understand(split_words(question.words))
        say = self._inbox.deps.texts(asked.options.get("lang") if isinstance(asked, ExaminationAsked) else None)
        reply = self._inbox.reply(taken.key, question)
        if refused := await self._guard.denied(Person(question.user, question.channel), "examine", ""):
            denied = refused.denied
            await reply.answer(render_denied(denied.why, denied.who, denied.where).in_words(say), mark=DONE)
            return
        async with reply.expecting(escape(say("doctor.progress"))):
            links = await self._examine()
        await reply.answer(render_links(links, say), mark=DONE)
