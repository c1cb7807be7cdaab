"""`profile …` in Slack: commands, mentions, buttons under answers, and the button that cancels."""

from typing import Any

from bot.slack.app import App
from bot.slack.message import Message
from bot.slack.render.buttons import AskButton, read_value
from bot.slack.render.report import CANCEL
from handlers.inbox import DONE, Inbox
from handlers.parsing.question import Question
from handlers.parsing.slack_words import as_delivered, command_words, mentioned_words
from handlers.profiles.service import ProfileService
from handlers.profiles.words import VERB
from handlers.user_actions import NOTHING, AcceptedDeed, ActionKind, Nothing
from handlers.verb_listeners import edited_ts, first_action, heard, key_of, listen_for


def register(app: App, inbox: Inbox, profiles: ProfileService) -> None:
    """To be registered before what listens to all commands, mentions and buttons."""
    window = _ProfilesWindow(inbox, profiles)
    listen_for(app, VERB, window)
    app.action(CANCEL)(window.cancelled)


class _ProfilesWindow:
    """Its listeners, and what they need."""

    def __init__(self, inbox: Inbox, profiles: ProfileService) -> None:
        self._inbox = inbox
        self._profiles = profiles
        self._of_cancel = inbox.kinds.add(ActionKind("profile-cancel", Nothing, self._cancel))

    def words_of(self, event: dict[str, Any]) -> str:
        return mentioned_words(event, self._inbox.deps.bot_user)

    async def command(self, ack: Any, body: dict[str, Any]) -> None:
        await ack()
        words, url = command_words(body), body.get("response_url", "")
        question = self._question(body["user_id"], body["channel_id"], words, response_url=url, beside=True)
        await self._profiles.ask(body["trigger_id"], question)

    async def mention(self, event: dict[str, Any]) -> None:
        message = heard(event) or event
        await self._ask_publicly(message, message.get("thread_ts") or message["ts"])

    async def said(self, event: dict[str, Any]) -> None:
        message = heard(event) or event
        await self._ask_publicly(message, message.get("thread_ts", ""))

    async def _ask_publicly(self, message: dict[str, Any], thread_ts: str) -> None:
        about = {"thread_ts": thread_ts, "public": True, "asked_ts": message["ts"], "edited_ts": edited_ts(message)}
        question = self._question(message["user"], message["channel"], self.words_of(message), **about)
        await self._profiles.ask(key_of(message), question)

    async def button(self, ack: Any, body: dict[str, Any]) -> None:
        await ack()
        value = read_value(first_action(body)["value"], AskButton)
        words = as_delivered(value.words) if value else ""
        if value and value.cluster in self._inbox.deps.clusters and "--cluster" not in words:
            words = f"--cluster {value.cluster} {words}"
        await self._profiles.ask(body["trigger_id"], self._clicked(body, words))

    async def cancelled(self, ack: Any, body: dict[str, Any]) -> None:
        await ack()
        if self._profiles.cancel(str(first_action(body).get("value", "")), body["user"]["id"]):
            return
        await self._inbox.do(body["trigger_id"], self._of_cancel, self._clicked(body, ""), NOTHING)

    async def _cancel(self, taken: AcceptedDeed[Nothing]) -> None:
        """What is taken here was cancelled by then; so it is taken elsewhere, or not at all."""
        elsewhere = Message(self._inbox.deps.say("profile.elsewhere"))
        await self._inbox.reply(taken.key, taken.asked).answer(elsewhere, mark=DONE)

    def _clicked(self, body: dict[str, Any], words: str) -> Question:
        user: str = body["user"]["id"]
        container: dict[str, Any] = body.get("container") or {}
        message: dict[str, Any] = body.get("message") or {}
        room: dict[str, Any] = body.get("channel") or {}
        thread_ts: str = message.get("thread_ts") or container.get("thread_ts") or ""
        if not thread_ts and not container.get("is_ephemeral"):
            thread_ts = container.get("message_ts", "")
        url = body.get("response_url", "")
        return self._question(user, room.get("id") or user, words, thread_ts=thread_ts, response_url=url, beside=True)

    def _question(self, user: str, channel: str, words: str, **about: Any) -> Question:
        return Question(words=words, user=user, channel=channel, asked_at=self._inbox.deps.now(), **about)
