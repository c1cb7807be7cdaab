"""`@hami-bot VERB …` in channels and threads, and messages sent to the bot directly: answered for everyone there."""

from typing import Any

from bot.slack.app import App
from handlers.inbox import Inbox
from handlers.parsing.question import Question
from handlers.parsing.slack_words import mentioned_words
from handlers.verb_listeners import edited_ts, heard, is_direct, key_of


def register(app: App, inbox: Inbox) -> None:
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
