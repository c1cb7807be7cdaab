"""The message shortcut "Diagnose with HAMi": why is the pod pending that this message names?"""

from typing import Any

from bot.slack.app import App
from bot.slack.foreign_messages import said_in
from handlers.inbox import Inbox
from handlers.parsing.question import Question

CALLBACK = "diagnose"


def register(app: App, inbox: Inbox) -> None:
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

    app.shortcut({"type": "message_action", "callback_id": CALLBACK})(diagnose)


def _thread_of(message: dict[str, Any]) -> str:
    """The thread that a reply stands in. For the first message of one, and any other, there is none.

    What one person alone is to see cannot begin a thread, and who is in the channel need not look into one.
    """
    thread_ts: str = message.get("thread_ts") or ""
    return "" if thread_ts == message.get("ts") else thread_ts
