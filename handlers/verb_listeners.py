"""What Slack's events say to every listener, and the listeners of a verb that answers in a way of its own."""

import hashlib
import re
from collections.abc import Mapping
from typing import Any, Protocol

from bot.slack.app import App
from bot.slack.render.buttons import ASK, AskButton, read_value
from handlers.parsing.slack_grammar import COMMAND
from handlers.parsing.slack_words import command_words


class VerbListeners(Protocol):
    """What takes the verb: as a command, in a mention, in a direct message, and from a button under an answer."""

    def words_of(self, event: dict[str, Any]) -> str:
        """What a message says to the bot."""
        ...

    async def command(self, ack: Any, body: dict[str, Any]) -> None: ...
    async def mention(self, event: dict[str, Any]) -> None: ...
    async def said(self, event: dict[str, Any]) -> None: ...
    async def button(self, ack: Any, body: dict[str, Any]) -> None: ...


def listen_for(app: App, verb: str, listeners: VerbListeners) -> None:
    """To be called before what listens to all commands, mentions and buttons."""
    asking = re.compile(rf"\s*(?:--(?:cluster|lang)[= ]\S+\s+)*{verb}\b")

    async def commanded(body: dict[str, Any]) -> bool:
        return bool(asking.match(command_words(body)))

    async def mentioned(event: dict[str, Any]) -> bool:
        message = heard(event)
        return message is not None and bool(asking.match(listeners.words_of(message)))

    async def said_directly(event: dict[str, Any]) -> bool:
        return is_direct(event) and await mentioned(event)

    async def asked_by_button(body: dict[str, Any]) -> bool:
        value = read_value(first_action(body).get("value", ""), AskButton)
        return bool(value and asking.match(value.words))

    app.command(COMMAND, matchers=[commanded])(listeners.command)
    app.event("app_mention", matchers=[mentioned])(listeners.mention)
    app.event("message", matchers=[said_directly])(listeners.said)
    app.action(re.compile(f"^{re.escape(ASK)}"), matchers=[asked_by_button])(listeners.button)


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
