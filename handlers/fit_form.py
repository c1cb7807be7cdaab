"""`/hami fit`: a form to paste a manifest into; its answer is shown to the person who asked alone."""

from functools import partial
from typing import Any

import msgspec

from bot.errors import UsageError
from bot.slack.app import App
from bot.slack.render import blocks
from handlers.desk import Desk
from handlers.question import Question
from playbooks._manifest import Manifest, read_pods

CALLBACK = "fit"
_BLOCK, _INPUT = "manifest", "text"
_LONGEST_ERROR = 500


def open_fit_form(desk: Desk, trigger_id: str, question: Question) -> None:
    """Opens the form; a trigger is good for three seconds, so nothing is read before."""
    say = desk.lent.say
    view = blocks.modal(
        say("desk.fit-title"),
        [
            blocks.asking(
                say("desk.fit-label"),
                blocks.text_input(_INPUT, multiline=True),
                _BLOCK,
                hint=say("desk.fit-hint"),
            )
        ],
        close=say("desk.cancel"),
        submit=say("desk.ask-submit"),
        callback_id=CALLBACK,
        private_metadata=msgspec.json.encode(question).decode(),
    )
    desk.do(trigger_id, partial(_open, desk, trigger_id, view), question)


def register(app: App, desk: Desk) -> None:
    """Listens to the form."""

    async def submitted(ack: Any, body: dict[str, Any]) -> None:
        view = body["view"]
        text = view["state"]["values"][_BLOCK][_INPUT].get("value") or ""
        try:
            read_pods([Manifest("the manifest", text)])
        except UsageError as error:
            await ack(response_action="errors", errors={_BLOCK: f"{error.message}. {error.hint}"[:_LONGEST_ERROR]})
            return
        await ack()
        question = msgspec.json.decode(view["private_metadata"], type=Question)
        question = msgspec.structs.replace(question, user=body["user"]["id"], manifest=text)
        desk.ask(f"{view['id']}:{view['hash']}", question)

    app.view(CALLBACK)(submitted)


async def _open(desk: Desk, trigger_id: str, view: dict[str, Any]) -> None:
    await desk.lent.gateway.open_view(trigger_id, view)
