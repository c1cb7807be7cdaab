"""`@hami-bot VERB …` in channels and threads, and messages sent to the bot directly: answered for everyone there."""

from typing import Any

from bot.slack.app import App
from handlers.desk import Desk
from handlers.question import Question
from handlers.words import mentioned_words


def register(app: App, desk: Desk) -> None:
    """Listens to mentions and direct messages. Both are acked by bolt before these run."""

    async def mentioned(body: dict[str, Any], event: dict[str, Any]) -> None:
        if _is_from_person(event):
            desk.ask(body["event_id"], question_of(desk, event, thread_ts=event.get("thread_ts") or event["ts"]))

    async def told(body: dict[str, Any], event: dict[str, Any]) -> None:
        if event.get("channel_type") == "im" and _is_from_person(event):
            desk.ask(body["event_id"], question_of(desk, event, thread_ts=event.get("thread_ts", "")))

    app.event("app_mention")(mentioned)
    app.event("message")(told)


def _is_from_person(event: dict[str, Any]) -> bool:
    """Not a bot's message (two bots would talk for ever), nor an edit, deletion or join."""
    return bool(event.get("user")) and not event.get("bot_id") and event.get("subtype") in (None, "file_share")


def question_of(desk: Desk, event: dict[str, Any], *, thread_ts: str) -> Question:
    """What a mention or a direct message asks."""
    return Question(
        words=mentioned_words(event, desk.lent.bot_user),
        user=event["user"],
        channel=event["channel"],
        asked_at=desk.lent.now(),
        thread_ts=thread_ts,
        public=True,
        asked_ts=event["ts"],
    )
