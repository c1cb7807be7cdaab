"""`/hami doctor`: for those who may change something, in the background, for the eyes of the one who asked."""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from bot.slack.app import App
from bot.slack.message import Message
from bot.slack.render.blocks import Room
from bot.slack.render.buttons import AskButton, read_value
from bot.slack.render.change import render_denied
from bot.slack.render.limits import TOTAL_BUDGET
from bot.slack.render.rich import Part, bullets, line, rich_text, span
from bot.slack.render.text import escape
from bot.texts import Texts
from handlers.changes.draft import Person
from handlers.changes.execute import Guard
from handlers.doctor.links import STATES, Link, in_words
from handlers.doctor.words import VERB, ExaminationAsked
from handlers.inbox import DONE, Inbox
from handlers.parsing.question import Question
from handlers.parsing.slack_grammar import understand
from handlers.parsing.slack_words import command_words, mentioned_words, split_words
from handlers.user_actions import NOTHING, AcceptedDeed, ActionKind, Nothing
from handlers.verb_listeners import edited_ts, first_action, heard, key_of, listen_for

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
        self._kind = inbox.kinds.add(ActionKind(VERB, Nothing, self._answer))

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


_SEEN, _FIX = 600, 600
_MARGIN = 1000
"""For the summary and the line about what is left out."""


def render_links(links: Sequence[Link], say: Texts) -> Message:
    """Failed links first, then degraded ones, then the others; as many as a message has room for."""
    counts = Counter(link.state for link in links)
    summary = say("doctor.summary", failed=counts["failed"], degraded=counts["degraded"], well=counts["ok"])
    room = Room(TOTAL_BUDGET - _MARGIN, say)
    ordered = sorted(in_words(links, say), key=lambda link: STATES.index(link.state), reverse=True)

    def shown(_: int, link: Link) -> Part:
        name = f"{link.state}: {link.name} {link.about}".strip()
        pieces = [span(room.text(name, _SEEN), "bold"), span(f" {room.text(str(link.seen), _SEEN)}")]
        pieces += [span(f"\n{say('doctor.fix')}: {room.text(str(link.fix), _FIX)}")] if link.fix else []
        return line(*pieces)

    items = room.fill("links", ordered, shown, share=room.characters, most=len(ordered))
    left_out = room.left_out["links"]
    more = [line(span(say("doctor.left-out", count=left_out)))] if left_out else []
    return Message(escape(summary), (rich_text(line(span(summary, "bold")), bullets(*items), *more),))
