"""How questions reach the bot from Slack: `/hami`, mentions, direct messages, buttons, the shortcut and the form. The
first verb of the table that takes the words handles them; all other words are questions for the inbox.
"""

import logging
import re
from collections.abc import Sequence
from typing import Any

import msgspec

from bot.errors import UsageError
from bot.slack.app import App
from bot.slack.message import said_in
from bot.slack.render import blocks
from bot.slack.render.blocks import ASK, EVERYTHING, POST
from bot.slack.render.prose import error_line
from bot.texts import Text
from handlers.inbox import Inbox
from handlers.parsing.question import (
    HeardWords,
    Question,
    Verb,
    as_delivered,
    by_button,
    by_command,
    by_message,
    clicked,
    is_direct,
    is_ephemeral,
    join_words,
    split_words,
    thread_below,
)
from handlers.parsing.sentences import as_verb
from handlers.parsing.slack_grammar import COMMAND, ManifestWanted, begins_as_command, understand
from handlers.user_actions import NOTHING, AcceptedDeed, ActionKind, Nothing
from playbooks.fit.manifest import Manifest, read_pods

FIT_CALLBACK, DIAGNOSE_CALLBACK = "fit", "diagnose"
_BLOCK, _INPUT = "manifest", "text"
_LONGEST_ERROR = 500
_ANYTHING = re.compile(".*", re.DOTALL)

log = logging.getLogger(__name__)


def register(app: App, inbox: Inbox, verbs: Sequence[Verb]) -> None:
    """Listens to every way to ask. `verbs` is the table of verbs with a handler of their own, tried in its order."""
    window = _Window(inbox, verbs)
    app.command(COMMAND)(window.command)
    app.event("app_mention")(window.mention)
    app.event("message")(window.message)
    app.action(re.compile(f"^{re.escape(ASK)}"))(window.button)
    app.action(EVERYTHING)(window.everything)
    app.action(POST)(window.posted)
    app.shortcut({"type": "message_action", "callback_id": DIAGNOSE_CALLBACK})(window.diagnose)
    app.view(FIT_CALLBACK)(window.submitted)


class _Window:
    def __init__(self, inbox: Inbox, verbs: Sequence[Verb]) -> None:
        self._inbox = inbox
        self._verbs = verbs
        self._to_open = inbox.kinds.add(ActionKind("fit-open", Nothing, self._open, is_live=True))

    async def command(self, ack: Any, body: dict[str, Any]) -> None:
        await ack()
        await self._answer(by_command(body, self._inbox.deps.now()))

    async def mention(self, event: dict[str, Any]) -> None:
        """Takes a mention, which bolt has acked before, as every event."""
        await self._heard(event, is_mention=True)

    async def message(self, event: dict[str, Any]) -> None:
        if is_direct(event):
            await self._heard(event, is_mention=False)

    async def _heard(self, event: dict[str, Any], *, is_mention: bool) -> None:
        deps = self._inbox.deps
        if asked := by_message(event, deps.now(), deps.bot_user, is_mention=is_mention):
            await self._answer(asked)

    async def button(self, ack: Any, body: dict[str, Any]) -> None:
        await ack()
        await self._answer(by_button(body, self._inbox.deps.now()))

    async def _answer(self, asked: HeardWords) -> None:
        is_typed = asked.surface != "button" and not begins_as_command(asked.words)
        if is_typed and (typed := as_verb(asked.words)):
            asked = msgspec.structs.replace(asked, question=msgspec.structs.replace(asked.question, words=typed))
        begun = (verb for verb in self._verbs if verb.begins.match(asked.words))
        if verb := next((verb for verb in begun if verb.takes is None or verb.takes(asked)), None):
            await verb.answer(asked)
        elif asked.surface == "button":
            self._ask(asked, public=not is_ephemeral(asked.body), beside=True)
        elif asked.surface != "command":
            self._inbox.ask(asked.key, asked.publicly())
        elif _wants_form(asked.words):  # a trigger is good for three seconds, so nothing is read before
            await self._inbox.do(asked.key, self._to_open, asked.question, NOTHING)
        else:
            self._inbox.ask(asked.key, asked.question)

    async def everything(self, ack: Any, body: dict[str, Any]) -> None:
        """Answers [Show everything]: a message that everybody sees stays, one that a single person sees is replaced."""
        await ack()
        asked = by_button(body, self._inbox.deps.now())
        beside = not (is_ephemeral(body) or asked.question.is_direct)
        self._ask(asked, public=False, beside=beside, everything=True)

    async def posted(self, ack: Any, body: dict[str, Any]) -> None:
        await ack()
        self._ask(by_button(body, self._inbox.deps.now()), public=True, beside=False)

    def _ask(self, asked: HeardWords, *, public: bool, beside: bool, everything: bool = False) -> None:
        words, value, clusters = asked.words, asked.button, self._inbox.deps.clusters
        if value and value.cluster in clusters and len(clusters) > 1 and "--cluster" not in words:
            words = as_delivered(join_words([*split_words(words), "--cluster", value.cluster]))
        question = msgspec.structs.replace(
            asked.question,
            words=words,
            thread_ts=thread_below(asked.body),
            public=public,
            beside=beside,
            everything=everything,
            read=value.read if value and public and not beside else "",
        )
        self._inbox.ask(asked.key, question)

    async def diagnose(self, ack: Any, body: dict[str, Any]) -> None:
        await ack()
        message = body["message"]
        # What one person alone is to see cannot begin a thread, and who is in the channel need not look into one.
        replied_to = "" if message.get("thread_ts") == message.get("ts") else message.get("thread_ts")
        question = clicked(body, self._inbox.deps.now(), thread_ts=replied_to or "")
        self._inbox.ask(body["trigger_id"], msgspec.structs.replace(question, about=said_in(message) or " "))

    async def _open(self, taken: AcceptedDeed[Nothing]) -> None:
        """Opens the form; the deed's key is the trigger."""
        deps, text = self._inbox.deps, blocks.text_input(_INPUT, multiline=True)
        view = blocks.modal(
            Text("desk.fit-title"),
            [blocks.asking(Text("desk.fit-label"), text, _BLOCK, hint=Text("desk.fit-hint"))],
            submit=Text("desk.ask-submit"),
            callback_id=FIT_CALLBACK,
            private_metadata=msgspec.json.encode(taken.asked).decode(),
        )
        await deps.gateway.open_view(taken.key, blocks.in_words(view, deps.say))

    async def submitted(self, ack: Any, body: dict[str, Any]) -> None:
        view = body["view"]
        text = view["state"]["values"][_BLOCK][_INPUT].get("value") or ""
        try:
            read_pods([Manifest("the manifest", text)])
        except UsageError as error:
            said = error_line(error, self._inbox.deps.say)[:_LONGEST_ERROR]
            await ack(response_action="errors", errors={_BLOCK: said})
            return
        await ack()
        question = msgspec.json.decode(view["private_metadata"], type=Question)
        question = msgspec.structs.replace(question, user=body["user"]["id"], manifest=text)
        await self._inbox.ask_typed(f"{view['id']}:{view['hash']}", question)


def _wants_form(words: str) -> bool:
    """Is cheap for all but `fit`: it runs before the ack of whatever else was delivered meanwhile."""
    if "fit" not in words:
        return False
    try:
        return isinstance(understand(split_words(words)), ManifestWanted)
    except UsageError:
        return False


def register_unhandled(app: App) -> None:
    """Acks everything without a listener. Call it after all others: bolt takes the first listener that matches."""

    async def event(body: dict[str, Any]) -> None:
        log.debug("no listener for the event %s", body.get("event", {}).get("type"))

    async def anything(ack: Any, body: dict[str, Any]) -> None:
        await ack()
        log.info("no listener for %s", body.get("type") or body.get("command"))

    app.event(_ANYTHING)(event)
    for listen in (app.command, app.action, app.options, app.shortcut, app.view, app.view_closed):
        listen(_ANYTHING)(anything)
