"""Buttons under an answer: ask the next question, show everything, or post the answer for everyone.

A button carries the words of a question and nothing else. On a click they are read like any other words, so that a
forged value can ask only what its sender may type.
"""

import re
from typing import Any

from bot.slack.app import App
from bot.slack.render.buttons import ASK, EVERYTHING, POST, AskButton, read_value
from handlers.inbox import Inbox
from handlers.parsing.question import Question
from handlers.parsing.slack_words import as_delivered, join_words, split_words


def register(app: App, inbox: Inbox) -> None:
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
