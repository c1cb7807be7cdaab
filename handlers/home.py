"""The Home tab: what is open, how to start, and a form for a question; its answer comes as a direct message."""

from functools import partial
from typing import Any

from bot.slack.app import App
from bot.slack.render import blocks
from bot.slack.render.rules import SECTION
from handlers.desk import Desk, Question
from handlers.questions import COMMAND
from playbooks._playbook import find, load

FORM = "ask"
_OPEN_FORM = "ask-form"
_BLOCK, _INPUT = "question", "text"


def register(app: App, desk: Desk) -> None:
    """Listens to the tab, its button and its form."""

    async def opened(body: dict[str, Any], event: dict[str, Any]) -> None:
        if event.get("tab") == "home":
            question = _question(desk, event["user"])
            desk.do(body["event_id"], partial(_publish, desk, event["user"]), question)

    async def form_wanted(ack: Any, body: dict[str, Any]) -> None:
        await ack()
        job = partial(_open_form, desk, body["trigger_id"])
        desk.do(body["trigger_id"], job, _question(desk, body["user"]["id"]))

    async def submitted(ack: Any, body: dict[str, Any]) -> None:
        await ack()
        view = body["view"]
        words = view["state"]["values"][_BLOCK][_INPUT].get("value") or ""
        desk.ask(f"{view['id']}:{view['hash']}", _question(desk, body["user"]["id"], words))

    app.event("app_home_opened")(opened)
    app.action(_OPEN_FORM)(form_wanted)
    app.view(FORM)(submitted)


def _question(desk: Desk, user: str, words: str = "") -> Question:
    """One that is answered in the person's direct messages with the bot: a user's id is a channel there."""
    return Question(words=words, user=user, channel=user, asked_at=desk.lent.now(), public=True)


async def _publish(desk: Desk, user: str) -> None:
    lent, say = desk.lent, desk.lent.say
    waiting, running = lent.outbox.waiting(), len(lent.work) - 1  # this one is running too
    verbs = [f"{COMMAND} {find(verb).example}   {find(verb).summary}" for verb in sorted(load())]
    view = blocks.home(
        [
            blocks.header(say("desk.home-title")),
            blocks.plain_section(say("desk.home-what")),
            blocks.actions(blocks.button(say("desk.home-ask"), _OPEN_FORM, style="primary")),
            blocks.header(say("desk.home-open")),
            blocks.plain_section(say("desk.home-running", running=running, waiting=waiting)),
            blocks.context(say("desk.home-clusters", clusters=", ".join(lent.clusters) or say("desk.home-default"))),
            blocks.header(say("desk.home-start")),
            *(blocks.plain_section(one[:SECTION]) for one in verbs),
            blocks.context(say("desk.home-thread"), say("desk.home-shortcut")),
        ]
    )
    await lent.gateway.publish_home(user, view)


async def _open_form(desk: Desk, trigger_id: str) -> None:
    say = desk.lent.say
    view = blocks.modal(
        say("desk.ask-title"),
        [
            blocks.asking(
                say("desk.ask-label"),
                blocks.text_input(_INPUT, placeholder=find("why").example),
                _BLOCK,
                hint=say("desk.ask-hint"),
            )
        ],
        close=say("desk.cancel"),
        submit=say("desk.ask-submit"),
        callback_id=FORM,
    )
    await desk.lent.gateway.open_view(trigger_id, view)
