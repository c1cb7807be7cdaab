"""The listeners of a verb that answers in a way of its own."""

import re
from typing import Any, Protocol

from bot.slack.app import App
from bot.slack.render.buttons import ASK, AskButton, read_value
from handlers.actions import first_action
from handlers.message_events import heard, is_direct
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
