"""A question as it was asked in Slack, and what Slack's payloads say to every listener: one place reads them.

A command, a mention, a direct message and a button under an answer become one `HeardWords`: its words are normalised
here, once. `handlers.question_listeners` gives it to the first `Verb` of the table that takes it, else it is a
question.
"""

import hashlib
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, NamedTuple

import msgspec

from bot.slack.people import Origin
from bot.slack.render.buttons import AskButton, read_value
from handlers.parsing.slack_grammar import BOT, COMMAND
from handlers.parsing.slack_words import as_delivered, command_words, mentioned_words


class Question(msgspec.Struct, frozen=True, omit_defaults=True):
    """A question as asked, complete enough to be answered by another process after a restart.

    `public` answers stand in the channel or thread for everyone, others are shown to `user` alone. `asked_ts` is the
    message that asked, if one did. `asked_at` is in unix seconds. `beside`: what the
    response_url belongs to stays, the answer stands beside it; for a command's, which replaces nothing, always.
    `everything`: the answer comes with its files, also
    where one person alone sees it. `manifest` is the pod of a `fit`; `about` is a
    message that names a pod, for a question without words. `edited_ts`: the message was edited then, and these are its
    words since. `read` is the gist of the answer that is to be posted: if
    the answer is another one by now, it is not. `sent_by`: who sent it, to be checked again after a restart.
    """

    words: str
    user: str
    channel: str
    asked_at: float
    thread_ts: str = ""
    public: bool = False
    response_url: str = ""
    asked_ts: str = ""
    beside: bool = False
    everything: bool = False
    manifest: str = ""
    about: str = ""
    read: str = ""
    edited_ts: str = ""
    sent_by: Origin | None = None

    @property
    def message(self) -> str:
        """What names the message that asked, whatever it became; empty if none did."""
        return f"{self.channel}:{self.asked_ts}" if self.asked_ts else ""

    @property
    def program(self) -> str:
        """What stands before the words of a question there: a mention in threads, nothing in direct messages."""
        if self.is_direct:
            return ""
        return f"@{BOT}" if self.asked_ts or self.thread_ts else COMMAND

    @property
    def is_direct(self) -> bool:
        """Whether it was asked where nobody else reads: a user's id is the channel of their direct messages."""
        return self.channel.startswith(("D", "U", "W"))

    @property
    def in_thread(self) -> bool:
        """Whether it was asked below an earlier message; one that begins its thread was not."""
        return self.thread_ts not in {"", self.asked_ts}

    def for_who_asked(self) -> "Question":
        """Where something is told that is not what was to be posted: beside what the person read."""
        return msgspec.structs.replace(self, public=False, beside=True, read="") if self.read else self


def read_question(payload: str) -> Question | None:
    """A kept question; None for one of another version."""
    try:
        return msgspec.json.decode(payload, type=Question)
    except msgspec.DecodeError:
        return None


class HeardWords(msgspec.Struct, frozen=True):
    """What a person asked in words, whichever way: `question` is for the eyes of who asked, in their thread if any.

    `key` is Slack's id of the delivery; `body` is the payload of a command or a button, `button` the button's value.
    """

    surface: Literal["command", "mention", "direct", "button"]
    key: str
    question: Question
    body: Mapping[str, Any] = {}
    button: AskButton | None = None

    @property
    def words(self) -> str:
        """The words, in their normal form unless a button has them, and still escaped."""
        return self.question.words

    @property
    def trigger_id(self) -> str:
        """What opens a form; empty for a message."""
        return self.body.get("trigger_id", "")

    def publicly(self) -> Question:
        """The question of a message, answered for everyone: a mention in a thread, which it begins if it has none."""
        begun = self.question.asked_ts if self.surface == "mention" else ""
        thread_ts = self.question.thread_ts or begun
        return msgspec.structs.replace(self.question, thread_ts=thread_ts, public=True, beside=False)


class Verb(NamedTuple):
    """One row of the table: how the words begin that a handler takes, the handler, and whether it takes them all."""

    begins: re.Pattern[str]
    answer: Callable[[HeardWords], Awaitable[None]]
    takes: Callable[[HeardWords], bool] | None = None


def beginning(*verbs: str) -> re.Pattern[str]:
    """How words begin that ask for one of the verbs, behind the options."""
    one = "|".join(r"\s+".join(verb.split()) for verb in verbs)
    return re.compile(rf"\s*(?:--(?:cluster|lang)[= ]\S+\s+)*(?:{one})\b", re.IGNORECASE)


def by_command(body: dict[str, Any], now: float) -> HeardWords:
    """What a slash command asks."""
    question = Question(
        words=command_words(body),
        user=body["user_id"],
        channel=body["channel_id"],
        asked_at=now,
        response_url=body.get("response_url", ""),
        beside=True,
    )
    return HeardWords("command", body["trigger_id"], question, body)


def by_message(event: Mapping[str, Any], now: float, bot_user: str, *, is_mention: bool) -> HeardWords | None:
    """What a mention or a direct message asks; None for what no person wrote to the bot."""
    message = heard(event)
    if message is None:
        return None
    question = Question(
        words=mentioned_words(message, bot_user),
        user=message["user"],
        channel=message["channel"],
        asked_at=now,
        thread_ts=message.get("thread_ts", ""),
        asked_ts=message["ts"],
        edited_ts=edited_ts(message),
        beside=True,
    )
    return HeardWords("mention" if is_mention else "direct", key_of(message), question)


def by_button(body: dict[str, Any], now: float) -> HeardWords:
    """What a button under an answer asks."""
    value = read_value(first_action(body).get("value", ""), AskButton)
    room: Mapping[str, Any] = body.get("channel") or {}
    user: str = body["user"]["id"]
    question = Question(
        words=as_delivered(value.words) if value else "",
        user=user,
        channel=room.get("id") or user,
        asked_at=now,
        response_url=body.get("response_url", ""),
        beside=True,
    )
    return HeardWords("button", body["trigger_id"], question, body, value)


def is_ephemeral(body: Mapping[str, Any]) -> bool:
    """Whether the message of a button is one that a single person sees."""
    container: Mapping[str, Any] = body.get("container") or {}
    return bool(container.get("is_ephemeral"))


def thread_below(body: Mapping[str, Any]) -> str:
    """The thread for an answer to a button: that of its message, which begins one if everybody sees it."""
    container: Mapping[str, Any] = body.get("container") or {}
    message: Mapping[str, Any] = body.get("message") or {}
    # An ephemeral message may itself stand in a thread.
    thread_ts: str = message.get("thread_ts") or container.get("thread_ts") or ""
    return thread_ts or ("" if is_ephemeral(body) else container.get("message_ts", ""))


def first_action(body: dict[str, Any]) -> dict[str, Any]:
    """The action that the payload is about; empty where it has none."""
    actions: list[dict[str, Any]] = body.get("actions") or [{}]
    return actions[0]


_WRITTEN = (None, "file_share", "thread_broadcast")
"""Subtypes of messages that a person wrote; `thread_broadcast` is a reply that is also sent to the channel."""


def heard(event: Mapping[str, Any]) -> dict[str, Any] | None:
    """The message as its author left it: `user`, `channel`, `text`, `ts`, and after an edit `edited`.

    None for what no person wrote (two bots would talk for ever), for joins and deletions, and for edits that Slack
    itself makes, as for the preview of a link.
    """
    message: dict[str, Any] = dict(event)
    if event.get("subtype") == "message_changed":
        message = {**(event.get("message") or {}), "channel": event.get("channel")}
        message["channel_type"] = event.get("channel_type")
        before: Mapping[str, Any] = event.get("previous_message") or {}
        if not (message.get("edited") and message.get("ts")) or before.get("text") == message.get("text"):
            return None
    is_persons = bool(message.get("user")) and not message.get("bot_id") and message.get("subtype") in _WRITTEN
    return message if is_persons else None


def is_direct(event: Mapping[str, Any]) -> bool:
    """Whether it is a message to the bot alone."""
    return event.get("channel_type") == "im" or str(event.get("channel", "")).startswith("D")


def key_of(message: Mapping[str, Any]) -> str:
    """The key of what the message asks: Slack gives every delivery of an edit another id, the message keeps its ts.

    `edited.ts` is in whole seconds, so that two quick edits differ only in their text.
    """
    key = f"{message['channel']}:{message['ts']}"
    if not (edited := edited_ts(message)):
        return key
    return f"{key}:{edited}:{hashlib.sha256(str(message.get('text')).encode()).hexdigest()[:8]}"


def edited_ts(message: Mapping[str, Any]) -> str:
    """When it was edited; empty if it was not."""
    edited: Mapping[str, Any] = message.get("edited") or {}
    return str(edited.get("ts") or "")
