"""`/hami VERB …`: the answer is shown to the person who asked alone, with a button that posts it."""

from typing import Any

from bot.errors import UsageError
from bot.slack.app import App
from handlers.fit_form import FitForm
from handlers.inbox import Inbox
from handlers.parsing.question import Question
from handlers.parsing.slack_grammar import COMMAND, ManifestWanted, understand
from handlers.parsing.slack_words import command_words, split_words


def register(app: App, inbox: Inbox) -> None:
    """Listens to the slash command."""
    fit_form = FitForm(inbox)

    async def asked(ack: Any, body: dict[str, Any]) -> None:
        await ack()
        question = Question(
            words=command_words(body),
            user=body["user_id"],
            channel=body["channel_id"],
            asked_at=inbox.deps.now(),
            response_url=body.get("response_url", ""),
            beside=True,
        )
        if _wants_form(question.words):
            await fit_form.open(body["trigger_id"], question)
        else:
            inbox.ask(body["trigger_id"], question)

    app.command(COMMAND)(asked)


def _wants_form(words: str) -> bool:
    """Cheap for all but `fit`: this is done before the ack of whatever else was delivered meanwhile."""
    if "fit" not in words:
        return False
    try:
        return isinstance(understand(split_words(words)), ManifestWanted)
    except UsageError:
        return False
