"""What people write to the bot: mentions and direct messages, and what they make of them later."""

import hashlib
from collections.abc import Mapping
from typing import Any

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
