"""`/hami fit`: a form to paste a manifest into; its answer is shown to the person who asked alone."""

from typing import Any

import msgspec

from bot.errors import UsageError
from bot.slack.app import App
from bot.slack.render import blocks
from bot.slack.render.prose import error_line
from bot.texts import Text
from handlers.inbox import Inbox
from handlers.parsing.question import Question
from handlers.user_actions import NOTHING, AcceptedDeed, Kind, Nothing
from playbooks.fit.manifest import Manifest, read_pods

CALLBACK = "fit"
_BLOCK, _INPUT = "manifest", "text"
_LONGEST_ERROR = 500


class FitForm:
    """The form as it is opened."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self._to_open = inbox.kinds.add(Kind("fit-open", Nothing, self._open, is_live=True))

    async def open(self, trigger_id: str, question: Question) -> None:
        """Opens the form; a trigger is good for three seconds, so nothing is read before."""
        await self._inbox.do(trigger_id, self._to_open, question, NOTHING)

    async def _open(self, taken: AcceptedDeed[Nothing]) -> None:
        """Its key is the trigger."""
        await self._inbox.deps.gateway.open_view(taken.key, blocks.in_words(_form(taken.asked), self._inbox.deps.say))


def _form(question: Question) -> dict[str, Any]:
    return blocks.modal(
        Text("desk.fit-title"),
        [
            blocks.asking(
                Text("desk.fit-label"),
                blocks.text_input(_INPUT, multiline=True),
                _BLOCK,
                hint=Text("desk.fit-hint"),
            )
        ],
        close=Text("desk.cancel"),
        submit=Text("desk.ask-submit"),
        callback_id=CALLBACK,
        private_metadata=msgspec.json.encode(question).decode(),
    )


def register(app: App, inbox: Inbox) -> None:
    """Listens to the form."""

    async def submitted(ack: Any, body: dict[str, Any]) -> None:
        view = body["view"]
        text = view["state"]["values"][_BLOCK][_INPUT].get("value") or ""
        try:
            read_pods([Manifest("the manifest", text)])
        except UsageError as error:
            await ack(response_action="errors", errors={_BLOCK: error_line(error, inbox.deps.say)[:_LONGEST_ERROR]})
            return
        await ack()
        question = msgspec.json.decode(view["private_metadata"], type=Question)
        question = msgspec.structs.replace(question, user=body["user"]["id"], manifest=text)
        await inbox.ask_typed(f"{view['id']}:{view['hash']}", question)

    app.view(CALLBACK)(submitted)
