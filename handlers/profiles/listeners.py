"""`profile …` in Slack: commands, mentions, buttons under answers, and the button that cancels."""

from typing import Any

import msgspec

from bot.slack.app import App
from bot.slack.message import Message
from bot.slack.render.buttons import AskButton
from bot.slack.render.report import CANCEL
from handlers.inbox import DONE, Inbox
from handlers.parsing.question import HeardWords, Verb, beginning, by_button, first_action, thread_below
from handlers.profiles.service import ProfileService
from handlers.profiles.words import VERB
from handlers.user_actions import NOTHING, AcceptedDeed, ActionKind, Nothing


def register(app: App, inbox: Inbox, profiles: ProfileService) -> Verb:
    """Listens to the button that cancels; the verb's row in the table."""
    window = _ProfilesWindow(inbox, profiles)
    app.action(CANCEL)(window.cancelled)
    return Verb(beginning(VERB), window.ask)


class _ProfilesWindow:
    """Its listeners, and what they need."""

    def __init__(self, inbox: Inbox, profiles: ProfileService) -> None:
        self._inbox = inbox
        self._profiles = profiles
        self._of_cancel = inbox.kinds.add(ActionKind("profile-cancel", Nothing, self._cancel))

    async def ask(self, asked: HeardWords) -> None:
        match asked:
            case HeardWords(surface="command", question=question):
                pass
            case HeardWords(button=AskButton() as value):
                words = asked.words
                if value.cluster in self._inbox.deps.clusters and "--cluster" not in words:
                    words = f"--cluster {value.cluster} {words}"
                thread_ts = thread_below(asked.body)
                question = msgspec.structs.replace(asked.question, words=words, thread_ts=thread_ts)
            case _:
                question = asked.publicly()
        await self._profiles.ask(asked.key, question)

    async def cancelled(self, ack: Any, body: dict[str, Any]) -> None:
        await ack()
        if self._profiles.cancel(str(first_action(body).get("value", "")), body["user"]["id"]):
            return
        clicked = by_button(body, self._inbox.deps.now()).question
        question = msgspec.structs.replace(clicked, words="", thread_ts=thread_below(body))
        await self._inbox.do(body["trigger_id"], self._of_cancel, question, NOTHING)

    async def _cancel(self, taken: AcceptedDeed[Nothing]) -> None:
        """What is taken here was cancelled by then; so it is taken elsewhere, or not at all."""
        elsewhere = Message(self._inbox.deps.say("profile.elsewhere"))
        await self._inbox.reply(taken.key, taken.asked).answer(elsewhere, mark=DONE)
