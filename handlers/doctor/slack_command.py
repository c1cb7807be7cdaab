"""The command `/hami doctor`: for people who may change something, run in the background, answered to them alone."""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence

from bot.slack.message import Message
from bot.slack.render.blocks import Room
from bot.slack.render.change import render_denied
from bot.slack.render.text import TOTAL_BUDGET, Part, bullets, escape, line, rich_text, span
from bot.texts import Texts
from handlers.changes.draft import Person
from handlers.changes.execute import Guard
from handlers.doctor.links import STATES, Link, fix_of, in_words, title
from handlers.inbox import DONE, Inbox
from handlers.parsing.grammar import DOCTOR, CommandAsked
from handlers.parsing.question import HeardWords, Verb, begins_with, split_words
from handlers.parsing.slack_grammar import understand
from handlers.user_actions import NOTHING, AcceptedDeed, ActionKind, Nothing

Examine = Callable[[], Awaitable[list[Link]]]
"""Checks every link between the running bot and what it needs."""


def answering(inbox: Inbox, guard: Guard, examine: Examine) -> Verb:
    """The row of `doctor` for the table of verbs."""

    async def answer(taken: AcceptedDeed[Nothing]) -> None:
        question = taken.asked
        asked = understand(split_words(question.words))
        say = inbox.deps.texts(asked.options.get("lang") if isinstance(asked, CommandAsked) else None)
        reply = inbox.reply(taken.key, question)
        if refused := await guard.denied(Person(question.user, question.channel), "examine", ""):
            denied = refused.denied
            await reply.answer(render_denied(denied.why, denied.who, denied.where).in_words(say), mark=DONE)
            return
        async with reply.expecting(lambda: escape(say("doctor.progress"))):
            links = await examine()
        await reply.answer(render_links(links, say), mark=DONE)

    kind = inbox.kinds.add(ActionKind(DOCTOR, Nothing, answer))

    async def ask(asked: HeardWords) -> None:
        await inbox.do(asked.key, kind, asked.question, NOTHING)

    return Verb(begins_with(DOCTOR), ask)


_SEEN, _FIX = 600, 600
_MARGIN = 1000
"""Characters kept for the summary and the line about what is left out."""


def render_links(links: Sequence[Link], say: Texts) -> Message:
    """A message with failed links first, then degraded ones, then the others; as many as it has room for."""
    counts = Counter(link.state for link in links)
    summary = say("doctor.summary", failed=counts["failed"], degraded=counts["degraded"], well=counts["ok"])
    room = Room(TOTAL_BUDGET - _MARGIN, say)
    ordered = sorted(in_words(links, say), key=lambda link: STATES.index(link.state), reverse=True)

    def shown(_: int, link: Link) -> Part:
        name = f"{say.name(link.state, 'states')}: {title(link, say)}"
        pieces = [span(room.text(name, _SEEN), "bold"), span(f" {room.text(str(link.seen), _SEEN)}")]
        pieces += [span(f"\n{room.text(fix_of(link, say), _FIX)}")] if link.fix else []
        return line(*pieces)

    items = room.fill(ordered, shown, share=room.characters, most=len(ordered))
    left_out = len(ordered) - len(items)
    more = [line(span(say("doctor.left-out", count=left_out)))] if left_out else []
    return Message(escape(summary), (rich_text(line(span(summary, "bold")), bullets(*items), *more),))
