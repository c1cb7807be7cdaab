"""How questions reach the bot from Slack: `/hami`, mentions, direct messages, buttons, the shortcut and the form."""

import logging
import re
from typing import Any

import msgspec

from bot.errors import UsageError
from bot.slack.app import App
from bot.slack.foreign_messages import said_in
from bot.slack.render import blocks
from bot.slack.render.buttons import ASK, EVERYTHING, POST, AskButton, read_value
from bot.slack.render.prose import error_line
from bot.texts import Text
from handlers.inbox import Inbox
from handlers.parsing.question import Question
from handlers.parsing.slack_grammar import COMMAND, ManifestWanted, understand
from handlers.parsing.slack_words import as_delivered, command_words, join_words, mentioned_words, split_words
from handlers.user_actions import NOTHING, AcceptedDeed, ActionKind, Nothing
from handlers.verb_listeners import edited_ts, heard, is_direct, key_of
from playbooks.fit.manifest import Manifest, read_pods

FIT_CALLBACK = "fit"
_BLOCK, _INPUT = "manifest", "text"
_LONGEST_ERROR = 500


class FitForm:
    """The form as it is opened."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self._to_open = inbox.kinds.add(ActionKind("fit-open", Nothing, self._open, is_live=True))

    async def open(self, trigger_id: str, question: Question) -> None:
        """Opens the form; a trigger is good for three seconds, so nothing is read before."""
        await self._inbox.do(trigger_id, self._to_open, question, NOTHING)

    async def _open(self, taken: AcceptedDeed[Nothing]) -> None:
        """Its key is the trigger."""
        await self._inbox.deps.gateway.open_view(taken.key, blocks.in_words(_form(taken.asked), self._inbox.deps.say))


def _form(question: Question) -> dict[str, Any]:
    return blocks.modal(
        Text("desk.fit-title"),
        [
            blocks.asking(
                Text("desk.fit-label"),
                blocks.text_input(_INPUT, multiline=True),
                _BLOCK,
                hint=Text("desk.fit-hint"),
            )
        ],
        close=Text("desk.cancel"),
        submit=Text("desk.ask-submit"),
        callback_id=FIT_CALLBACK,
        private_metadata=msgspec.json.encode(question).decode(),
    )


def register_fit_form(app: App, inbox: Inbox) -> None:
    """Listens to the form."""

    async def submitted(ack: Any, body: dict[str, Any]) -> None:
        view = body["view"]
        text = view["state"]["values"][_BLOCK][_INPUT].get("value") or ""
        try:
            read_pods([Manifest("the manifest", text)])
        except UsageError as error:
            await ack(response_action="errors", errors={_BLOCK: error_line(error, inbox.deps.say)[:_LONGEST_ERROR]})
            return
        await ack()
        question = msgspec.json.decode(view["private_metadata"], type=Question)
        question = msgspec.structs.replace(question, user=body["user"]["id"], manifest=text)
        await inbox.ask_typed(f"{view['id']}:{view['hash']}", question)

    app.view(FIT_CALLBACK)(submitted)


def register_command(app: App, inbox: Inbox) -> None:
    """Listens to the slash command."""
    fit_form = FitForm(inbox)

    async def asked(ack: Any, body: dict[str, Any]) -> None:
        await ack()
        question = Question(
            words=command_words(body),
            user=body["user_id"],
            channel=body["channel_id"],
            asked_at=inbox.deps.now(),
            response_url=body.get("response_url", ""),
            beside=True,
        )
        if _wants_form(question.words):
            await fit_form.open(body["trigger_id"], question)
        else:
            inbox.ask(body["trigger_id"], question)

    app.command(COMMAND)(asked)


def _wants_form(words: str) -> bool:
    """Cheap for all but `fit`: this is done before the ack of whatever else was delivered meanwhile."""
    if "fit" not in words:
        return False
    try:
        return isinstance(understand(split_words(words)), ManifestWanted)
    except UsageError:
        return False


def register_mention(app: App, inbox: Inbox) -> None:
    """Listens to mentions and direct messages. Both are acked by bolt before these run."""

    async def on_mention(event: dict[str, Any]) -> None:
        if message := heard(event):
            inbox.ask(key_of(message), question_of(inbox, message, message.get("thread_ts") or message["ts"]))

    async def on_message(event: dict[str, Any]) -> None:
        if is_direct(event) and (message := heard(event)):
            inbox.ask(key_of(message), question_of(inbox, message, message.get("thread_ts", "")))

    app.event("app_mention")(on_mention)
    app.event("message")(on_message)


def question_of(inbox: Inbox, message: dict[str, Any], thread_ts: str) -> Question:
    """What a mention or a direct message asks."""
    return Question(
        words=mentioned_words(message, inbox.deps.bot_user),
        user=message["user"],
        channel=message["channel"],
        asked_at=inbox.deps.now(),
        thread_ts=thread_ts,
        public=True,
        asked_ts=message["ts"],
        edited_ts=edited_ts(message),
    )


def register_buttons(app: App, inbox: Inbox) -> None:
    """Listens to the buttons that `bot.slack.render.buttons` makes."""

    async def asked(ack: Any, body: dict[str, Any]) -> None:
        await ack()
        _ask(inbox, body, public=not _is_ephemeral(body), beside=True)

    async def wants_everything(ack: Any, body: dict[str, Any]) -> None:
        await ack()
        _ask(inbox, body, public=False, beside=False, everything=True)

    async def posted(ack: Any, body: dict[str, Any]) -> None:
        await ack()
        _ask(inbox, body, public=True, beside=False)

    app.action(re.compile(f"^{re.escape(ASK)}"))(asked)
    app.action(EVERYTHING)(wants_everything)
    app.action(POST)(posted)


def _ask(inbox: Inbox, body: dict[str, Any], *, public: bool, beside: bool, everything: bool = False) -> None:
    container, channel = _part(body, "container"), _part(body, "channel")
    message = _part(body, "message")
    # A reply to a message of everyone's belongs into its thread; an ephemeral one may itself stand in a thread.
    thread_ts: str = message.get("thread_ts") or container.get("thread_ts") or ""
    if not thread_ts and not _is_ephemeral(body):
        thread_ts = container.get("message_ts", "")
    value = read_value(body["actions"][0].get("value", ""), AskButton)
    words = as_delivered(value.words) if value else ""
    if value and value.cluster in inbox.deps.clusters and len(inbox.deps.clusters) > 1 and "--cluster" not in words:
        words = as_delivered(join_words([*split_words(words), "--cluster", value.cluster]))
    inbox.ask(
        body["trigger_id"],
        Question(
            words=words,
            user=body["user"]["id"],
            channel=channel.get("id") or body["user"]["id"],
            asked_at=inbox.deps.now(),
            thread_ts=thread_ts,
            public=public,
            response_url=body.get("response_url", ""),
            beside=beside,
            everything=everything,
            read=value.read if value and public and not beside else "",
        ),
    )


def _part(body: dict[str, Any], name: str) -> dict[str, Any]:
    return body.get(name) or {}


def _is_ephemeral(body: dict[str, Any]) -> bool:
    return bool(body["container"].get("is_ephemeral"))


DIAGNOSE_CALLBACK = "diagnose"


def register_diagnose(app: App, inbox: Inbox) -> None:
    """Listens to the shortcut in a message's menu."""

    async def diagnose(ack: Any, body: dict[str, Any]) -> None:
        await ack()
        message = body["message"]
        inbox.ask(
            body["trigger_id"],
            Question(
                words="",
                user=body["user"]["id"],
                channel=body["channel"]["id"],
                asked_at=inbox.deps.now(),
                thread_ts=_thread_of(message),
                response_url=body.get("response_url", ""),
                beside=True,
                about=said_in(message) or " ",
            ),
        )

    app.shortcut({"type": "message_action", "callback_id": DIAGNOSE_CALLBACK})(diagnose)


def _thread_of(message: dict[str, Any]) -> str:
    """The thread that a reply stands in. For the first message of one, and any other, there is none.

    What one person alone is to see cannot begin a thread, and who is in the channel need not look into one.
    """
    thread_ts: str = message.get("thread_ts") or ""
    return "" if thread_ts == message.get("ts") else thread_ts


_ANYTHING = re.compile(".*", re.DOTALL)

log = logging.getLogger(__name__)


def register_unhandled(app: App) -> None:
    """To be registered after all others: bolt takes the first listener that matches."""

    async def event(body: dict[str, Any]) -> None:
        log.debug("no listener for the event %s", body.get("event", {}).get("type"))

    async def anything(ack: Any, body: dict[str, Any]) -> None:
        await ack()
        log.info("no listener for %s", body.get("type") or body.get("command"))

    app.event(_ANYTHING)(event)
    for listen in (app.command, app.action, app.options, app.shortcut, app.view, app.view_closed):
        listen(_ANYTHING)(anything)


def register(app: App, inbox: Inbox) -> None:
    """Every way to ask is registered, in the order in which bolt tries them."""
    for one in (register_command, register_mention, register_buttons, register_diagnose, register_fit_form):
        one(app, inbox)
