"""What people see in the pretended Slack: heads of incidents, cards, and what one person alone was told."""

from typing import Any

from benchmarks.soak.place import INCIDENTS, ROOMS
from sandbox.slack import SlackServer
from sandbox.slack.content import elements_of, strings_of

Message = dict[str, Any]


def heads(slack: SlackServer) -> list[Message]:
    """The messages that triage threads begin with, the oldest first."""
    return [
        message
        for message in _public(slack, INCIDENTS)
        if key_of(message).count(":") == 1 and "triage:" in key_of(message)
    ]


def cards(slack: SlackServer, channel: str) -> list[Message]:
    """The messages with the button that undoes a change."""
    return [message for message in _public(slack, channel) if "change:revert" in buttons(message)]


def told(slack: SlackServer, who: str) -> list[Message]:
    """What that person alone was told, in a channel or in their conversation with the bot."""
    channels = slack.workspace.channels
    found = [message for room in ROOMS for message in channels[room].ephemerals.get(who, {}).values()]
    direct = channels[f"D{who[1:]}"]
    return found + [message for message in direct.messages.values() if message.get("bot_id")]


def key_of(message: Message) -> str:
    """The name that the bot gave it, which no other message has; empty for what has none."""
    return str(message.get("metadata", {}).get("event_payload", {}).get("key", ""))


def text_of(message: Message) -> str:
    return "\n".join(strings_of(message))


def buttons(message: Message) -> set[str]:
    """The action ids of its buttons."""
    found = (element for block in message.get("blocks", []) for element in elements_of(block))
    return {str(element.get("action_id", "")) for element in found}


def everything(slack: SlackServer) -> list[Message]:
    """Every message of every channel, whoever sees it."""
    rooms = slack.workspace.channels
    return [message for room in rooms for _, message in slack.workspace.everything(room)]


def _public(slack: SlackServer, channel: str) -> list[Message]:
    return [message for message in slack.workspace.channels[channel].messages.values() if message.get("bot_id")]
